//! Operating system commands.

mod args;
mod messages;

use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::vte::ansi::{Handler, Hyperlink};

use self::args::{join_text, number, url_path};
use self::messages::{parse_osc9, parse_osc52, parse_osc99, parse_osc777};
use super::alert::{Alert, Mark, MarkKind};
use super::line::LineIndex;
use super::model::Model;
use super::palette::{self, BACKGROUND, CURSOR, FOREGROUND};

/// Maximum length of a hyperlink's target in bytes; longer links are ignored.
const MAX_URI: usize = 2083;
/// Maximum length of a hyperlink's id in bytes; longer ids are ignored.
const MAX_LINK_ID: usize = 250;

impl Model {
    pub(super) fn osc(&mut self, params: &[&[u8]], bell: bool) {
        let [command, args @ ..] = params else { return };
        match *command {
            b"0" | b"2" if !args.is_empty() => self.set_title(join_text(args)),
            b"4" => self.palette_entries(args, bell),
            b"7" => self.directory(url_path(&join_text(args))),
            b"8" => self.hyperlink(args),
            b"9" => self.osc_9(args),
            b"10" => self.dynamic_colors(FOREGROUND, args, bell),
            b"11" => self.dynamic_colors(BACKGROUND, args, bell),
            b"12" => self.dynamic_colors(CURSOR, args, bell),
            b"104" => self.reset_palette(args),
            b"110" => self.palette.reset(FOREGROUND),
            b"111" => self.palette.reset(BACKGROUND),
            b"112" => self.palette.reset(CURSOR),
            b"133" => self.mark(args),
            b"52" => self.stream.changes.push_alerts(parse_osc52(args).map(Alert::Clipboard)),
            b"99" => self.stream.changes.push_alerts(parse_osc99(args).map(Alert::Notify)),
            b"777" => self.stream.changes.push_alerts(parse_osc777(args).map(Alert::Notify)),
            b"1337" => {
                if let Some(path) = join_text(args).strip_prefix("CurrentDir=") {
                    self.directory(path.to_string());
                }
            }
            _ => {}
        }
    }

    fn palette_entries(&mut self, args: &[&[u8]], bell: bool) {
        for pair in args.chunks_exact(2) {
            let Some(index) = number(pair[0]).filter(|index| *index < 256) else { continue };
            match pair[1] {
                b"?" => self.stream.replies.color(&format!("4;{index}"), self.palette.get(index), bell),
                spec => {
                    if let Some(color) = palette::parse(spec) {
                        self.palette.set(index, color);
                    }
                }
            }
        }
    }

    fn reset_palette(&mut self, args: &[&[u8]]) {
        if args.iter().all(|arg| arg.is_empty()) {
            self.palette.reset_entries();
        }
        for index in args.iter().filter_map(|arg| number(arg)).filter(|index| *index < 256) {
            self.palette.reset(index);
        }
    }

    /// Handles OSC 10, 11 and 12: each further argument sets the next colour.
    fn dynamic_colors(&mut self, first: u16, args: &[&[u8]], bell: bool) {
        for (index, arg) in (first..=CURSOR).zip(args) {
            let code = index - FOREGROUND + 10;
            match *arg {
                b"?" => self.stream.replies.color(&code.to_string(), self.palette.get(index), bell),
                spec => {
                    if let Some(color) = palette::parse(spec) {
                        self.palette.set(index, color);
                    }
                }
            }
        }
    }

    /// Handles `8 ; params ; uri`; semicolons in the target may be unencoded.
    fn hyperlink(&mut self, args: &[&[u8]]) {
        let [params, uri @ ..] = args else { return };
        let uri = join_text(uri);
        let link = (!uri.is_empty() && uri.len() <= MAX_URI).then(|| {
            let id = params.split(|byte| *byte == b':').find_map(|param| param.strip_prefix(b"id="));
            // An explicit id prevents the engine from generating one.
            let id = id.filter(|id| id.len() <= MAX_LINK_ID).map_or_else(String::new, |id| join_text(&[id]));
            Hyperlink { id: Some(id), uri }
        });
        self.term.set_hyperlink(link);
    }

    /// Handles ConEmu's progress (4) and directory (9), otherwise iTerm2's notification.
    fn osc_9(&mut self, args: &[&[u8]]) {
        match args {
            [b"4", state, rest @ ..] => {
                let state =
                    number(state).and_then(|state| u8::try_from(state).ok()).filter(|state| *state <= 4);
                let value = rest.first().and_then(|value| number(value)).unwrap_or(0).min(100) as u8;
                if let Some(state) = state {
                    self.stream.changes.push_alert(Alert::Progress { state, value });
                }
            }
            [b"9", path @ ..] => self.directory(join_text(path).trim_matches('"').to_string()),
            _ => self.stream.changes.push_alerts(parse_osc9(args).map(Alert::Notify)),
        }
    }

    fn directory(&mut self, path: String) {
        if !path.is_empty() {
            self.stream.changes.push_alert(Alert::Cwd(path));
        }
    }

    fn mark(&mut self, args: &[&[u8]]) {
        let kind = match args {
            [b"A", ..] => MarkKind::PromptStart,
            [b"B", ..] => MarkKind::CommandStart,
            [b"C", ..] => MarkKind::OutputStart,
            [b"P", b"k=s" | b"k=c", ..] => MarkKind::Continuation,
            [b"D", rest @ ..] => {
                let code = rest.first().and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
                MarkKind::CommandEnd(code)
            }
            _ => return,
        };
        let (row, col) = self.cursor();
        let line = LineIndex(self.store.end() + row as u64);
        // In a full row the cursor stays on the last cell until the next character: the text ends behind it.
        let col = col + usize::from(self.grid().cursor.input_needs_wrap);
        let has_text_after = !self.is_alternate()
            && self.grid()[GridLine(row)][Column(0)..Column(self.cols())]
                .get(col..)
                .is_some_and(|cells| cells.iter().any(|cell| cell.c != ' '));
        self.printing.overprint.end_run();
        // The feed fills in the offset, because it knows the stream position.
        let mark = Mark { kind, line, col: col as u16, has_text_after, offset: u64::MAX };
        self.stream.changes.push_alert(Alert::Mark(mark));
        self.sequence.stop = true;
    }
}
