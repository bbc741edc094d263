//! The modes a program can set, and the answer to DECRQM.

use crate::screen::{MouseEncoding, MouseTracking};

/// Modes that are ours to keep; those that change how cells are written are mirrored into the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModeSet {
    pub(super) cursor_keys: bool,
    pub(super) reverse_video: bool,
    pub(super) origin: bool,
    pub(super) autowrap: bool,
    pub(super) cursor_blink: bool,
    pub(super) cursor_visible: bool,
    pub(super) keypad: bool,
    /// 9, 1000, 1002 or 1003, 0 for none: they replace each other, and resetting any ends reporting (as in xterm).
    pub(super) mouse: u16,
    /// 1005, 1006 or 1015, 0 for the default.
    pub(super) mouse_encoding: u16,
    pub(super) focus: bool,
    pub(super) alternate_scroll: bool,
    pub(super) bracketed_paste: bool,
    pub(super) insert: bool,
    pub(super) newline: bool,
}

impl Default for ModeSet {
    fn default() -> ModeSet {
        ModeSet {
            cursor_keys: false,
            reverse_video: false,
            origin: false,
            autowrap: true,
            cursor_blink: false,
            cursor_visible: true,
            keypad: false,
            mouse: 0,
            mouse_encoding: 0,
            focus: false,
            // As VTE, foot, Alacritty and Ghostty have it: the wheel scrolls a pager that knows nothing of mice.
            alternate_scroll: true,
            bracketed_paste: false,
            insert: false,
            newline: false,
        }
    }
}

impl ModeSet {
    /// Sets a private mode (`CSI ? n h` or `l`). Modes with effects elsewhere (screens, frames) are the caller's.
    pub(super) fn set_private(&mut self, mode: u16, on: bool) {
        match mode {
            9 | 1000 | 1002 | 1003 => self.mouse = if on { mode } else { 0 },
            1005 | 1006 | 1015 if on => self.mouse_encoding = mode,
            1005 | 1006 | 1015 if self.mouse_encoding == mode => self.mouse_encoding = 0,
            _ => {
                if let Some(flag) = self.flag(mode) {
                    *flag = on;
                }
            }
        }
    }

    /// Whether a private mode is set; `None` if it is not known.
    pub(super) fn private(&self, mode: u16) -> Option<bool> {
        match mode {
            9 | 1000 | 1002 | 1003 => Some(self.mouse == mode),
            1005 | 1006 | 1015 => Some(self.mouse_encoding == mode),
            _ => {
                let mut copy = *self;
                copy.flag(mode).map(|flag| *flag)
            }
        }
    }

    /// What of the mouse is reported.
    pub(super) fn mouse_tracking(&self) -> Option<MouseTracking> {
        Some(match self.mouse {
            9 => MouseTracking::Presses,
            1000 => MouseTracking::Buttons,
            1002 => MouseTracking::Drags,
            1003 => MouseTracking::Moves,
            _ => return None,
        })
    }

    /// How the mouse is reported.
    pub(super) fn mouse_encoding(&self) -> MouseEncoding {
        match self.mouse_encoding {
            1005 => MouseEncoding::Utf8,
            1006 => MouseEncoding::Sgr,
            1015 => MouseEncoding::Urxvt,
            _ => MouseEncoding::Bytes,
        }
    }

    /// Private modes and whether they are set, for a dump; those without an effect on input or cells left out.
    pub(super) fn changed(&self) -> Vec<(u16, bool)> {
        let fresh = ModeSet::default();
        let modes = [1, 5, 7, 12, 25, 66, 1004, 1007, 2004];
        let flags = modes.into_iter().filter_map(|mode| {
            let on = self.private(mode)?;
            (fresh.private(mode) != Some(on)).then_some((mode, on))
        });
        let mouse = [self.mouse, self.mouse_encoding].into_iter().filter(|mode| *mode != 0);
        flags.chain(mouse.map(|mode| (mode, true))).collect()
    }

    fn flag(&mut self, mode: u16) -> Option<&mut bool> {
        Some(match mode {
            1 => &mut self.cursor_keys,
            5 => &mut self.reverse_video,
            6 => &mut self.origin,
            7 => &mut self.autowrap,
            12 => &mut self.cursor_blink,
            25 => &mut self.cursor_visible,
            66 => &mut self.keypad,
            1004 => &mut self.focus,
            1007 => &mut self.alternate_scroll,
            2004 => &mut self.bracketed_paste,
            _ => return None,
        })
    }
}

/// The second number of a DECRPM answer.
pub(super) fn decrpm(state: Option<bool>) -> u8 {
    match state {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }
}
