//! Synchronized output (`?2026`): while an update is open, readers see the last finished frame.

use std::time::Duration;

use crate::event::TsNs;
use crate::screen::Screen;

/// How long an update may stay open before it is shown anyway.
const DEADLINE: Duration = Duration::from_millis(150);
/// What ends an update.
const CLOSE: &[u8] = b"\x1b[?2026l";

/// How far ahead it is looked for.
const AHEAD: usize = 16 * 1024;

/// The update that is open, if one is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: TsNs,
    /// What was shown when it opened.
    before: Option<Screen>,
}

impl Frames {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// An update starts. False if one is open: it goes on, with its deadline.
    pub(super) fn open(&mut self, now: TsNs) -> bool {
        if self.open.is_some() {
            return false;
        }
        self.open = Some(Open { since: now, before: None });
        true
    }

    /// Whether the view of before has to be kept, given the bytes that follow in this feed. It has not when the update is
    /// closed among them, since nobody can look before the feed's end: its closing sequence is recognised in any state of
    /// the parser.
    pub(super) fn wants_view(&self, rest: &[u8]) -> bool {
        let missing = self.open.as_ref().is_some_and(|open| open.before.is_none());
        let near = &rest[..rest.len().min(AHEAD)];
        missing && !near.windows(CLOSE.len()).any(|window| window == CLOSE)
    }

    pub(super) fn keep(&mut self, view: Screen) {
        if let Some(open) = &mut self.open {
            open.before = Some(view);
        }
    }

    /// The update ends. False if none was open.
    pub(super) fn close(&mut self) -> bool {
        self.open.take().is_some()
    }

    pub(super) fn view(&self) -> Option<&Screen> {
        self.open.as_ref()?.before.as_ref()
    }

    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.open.as_ref().map(|open| open.since + DEADLINE)
    }
}
