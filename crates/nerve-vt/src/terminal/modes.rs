//! The terminal modes, and the reply to DECRQM.

use crate::screen::{MouseEncoding, MouseTracking};

/// The modes. Those that affect how cells are written are copied into the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModeSet {
    pub(super) cursor_keys: bool,
    pub(super) reverse_video: bool,
    pub(super) origin: bool,
    pub(super) autowrap: bool,
    pub(super) cursor_blink: bool,
    pub(super) cursor_visible: bool,
    pub(super) keypad: bool,
    /// 9, 1000, 1002 or 1003; 0 for none. They replace each other, and resetting any of them ends reporting (as in
    /// xterm).
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
            // As in VTE, foot, Alacritty and Ghostty: the wheel scrolls pagers without mouse support.
            alternate_scroll: true,
            bracketed_paste: false,
            insert: false,
            newline: false,
        }
    }
}

impl ModeSet {
    /// Sets or resets a private mode (`CSI ? n h` or `l`). The caller handles modes with other effects (screens,
    /// frames).
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

    /// Returns whether a private mode is set; `None` for an unknown mode.
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

    /// Returns which mouse events are reported.
    pub(super) fn mouse_tracking(&self) -> Option<MouseTracking> {
        Some(match self.mouse {
            9 => MouseTracking::Presses,
            1000 => MouseTracking::Buttons,
            1002 => MouseTracking::Drags,
            1003 => MouseTracking::Moves,
            _ => return None,
        })
    }

    /// Returns the encoding of mouse reports.
    pub(super) fn mouse_encoding(&self) -> MouseEncoding {
        match self.mouse_encoding {
            1005 => MouseEncoding::Utf8,
            1006 => MouseEncoding::Sgr,
            1015 => MouseEncoding::Urxvt,
            _ => MouseEncoding::Bytes,
        }
    }

    /// Returns the changed private modes for a dump, except those without effect on input or cells.
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

/// Returns the state value of a DECRPM reply.
pub(super) fn decrpm(state: Option<bool>) -> u8 {
    match state {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }
}
