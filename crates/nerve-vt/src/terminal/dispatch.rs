//! Dispatches the parser's events to the model: an implementation of `vte::Perform`.

use alacritty_terminal::vte::ansi::{CharsetIndex, Handler, StandardCharset};
use alacritty_terminal::vte::{Params, Perform};

use super::alert::Alert;
use super::model::Model;

/// Maximum length of a DCS query in bytes.
const MAX_QUERY: usize = 1024;

/// The parser sees no text, so [`Perform::print`] is not needed.
impl Perform for Model {
    fn execute(&mut self, byte: u8) {
        if byte >= 0x80 {
            // 8-bit C1 controls are not used with UTF-8.
            return;
        }
        self.printing.can_join = false;
        match byte {
            0x07 => self.stream.changes.push_alert(Alert::Bell),
            0x08 => {
                let (row, col) = self.cursor();
                self.place(row, col.saturating_sub(1));
            }
            b'\t' => self.tab(1),
            b'\n' | 0x0b | 0x0c => {
                self.linefeed();
                if self.modes.newline {
                    self.carriage_return();
                }
            }
            b'\r' => self.carriage_return(),
            0x0e => self.use_charset(CharsetIndex::G1),
            0x0f => self.use_charset(CharsetIndex::G0),
            _ => {}
        }
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.printing.can_join = false;
        self.sequence.query = match (intermediates, action) {
            _ if ignore => None,
            ([b'+'], 'q') => Some(('+', Vec::new())),
            ([b'$'], 'q') => Some(('$', Vec::new())),
            _ => None,
        };
    }

    fn put(&mut self, byte: u8) {
        if let Some((_, text)) = &mut self.sequence.query
            && text.len() < MAX_QUERY
        {
            text.push(byte);
        }
    }

    /// Answers XTGETTCAP and DECRQSS: all capabilities and settings are reported as unknown.
    fn unhook(&mut self) {
        match self.sequence.query.take() {
            Some(('+', text)) if text.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b';') => {
                let text = String::from_utf8_lossy(&text).into_owned();
                self.stream.replies.add(&format!("\x1bP0+r{text}\x1b\\"));
            }
            Some(('$', _)) => self.stream.replies.add("\x1bP0$r\x1b\\"),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell_terminated: bool) {
        if !self.stream.string_broken {
            self.osc(params, bell_terminated);
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.printing.can_join &= action == 'm';
        // An SGR sequence with too many parameters applies those that fit; other sequences never have that many.
        if !ignore || (action == 'm' && intermediates.is_empty()) {
            self.csi(&params.into(), intermediates, action);
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        // A string terminator does not end a grapheme.
        if byte == b'\\' && intermediates.is_empty() {
            return;
        }
        self.printing.can_join = false;
        if !ignore {
            self.esc(intermediates, byte);
        }
    }
}

impl Model {
    fn esc(&mut self, intermediates: &[u8], byte: u8) {
        match (intermediates, byte) {
            ([], b'D') => self.linefeed(),
            ([], b'E') => {
                self.linefeed();
                self.carriage_return();
            }
            ([], b'H') => self.set_tab(true),
            ([], b'M') => self.reverse_index(),
            ([], b'Z') => self.stream.replies.primary_attributes(),
            ([], b'c') => self.reset(),
            ([], b'7') => self.save_cursor(),
            ([], b'8') => self.restore_cursor(),
            ([], b'=') => self.modes.keypad = true,
            ([], b'>') => self.modes.keypad = false,
            ([], b'n') => self.use_charset(CharsetIndex::G2),
            ([], b'o') => self.use_charset(CharsetIndex::G3),
            ([b'#'], b'8') => {
                self.term.decaln();
                self.charge_screen();
                self.touch_all();
                self.set_region(1, 0);
            }
            ([b'('], set) => self.designate(CharsetIndex::G0, set),
            ([b')'], set) => self.designate(CharsetIndex::G1, set),
            ([b'*'], set) => self.designate(CharsetIndex::G2, set),
            ([b'+'], set) => self.designate(CharsetIndex::G3, set),
            _ => {}
        }
    }

    /// Selects a character set. All sets except DEC line drawing count as ASCII.
    fn designate(&mut self, index: CharsetIndex, set: u8) {
        let charset = match set {
            b'0' => StandardCharset::SpecialCharacterAndLineDrawing,
            _ => StandardCharset::Ascii,
        };
        self.term.configure_charset(index, charset);
    }

    fn use_charset(&mut self, index: CharsetIndex) {
        self.charset = index;
        self.term.set_active_charset(index);
    }
}
