//! The snapshot of a recording that is shown.

use crate::view::effect::Effect;

/// The snapshot whose screen is shown instead of the document's end.
#[derive(Debug, Clone, Default)]
pub(crate) struct SnapshotView {
    pub(crate) shown: Option<u64>,
    /// The last snapshot navigated to, and the top line since then.
    pub(crate) last_stop: Option<(u64, u64)>,
    /// Seek for the caller: to a snapshot, or to the recording's end.
    seek: Option<Option<u64>>,
}

impl SnapshotView {
    /// Returns the snapshot whose screen is shown.
    pub(crate) fn shown(&self) -> Option<u64> {
        self.shown
    }

    /// Takes the effect that was requested since the last call.
    pub(crate) fn take_seek(&mut self) -> Option<Effect> {
        self.seek.take().map(Effect::SeekSnapshot)
    }

    /// Shows a snapshot's screen.
    pub(crate) fn show(&mut self, id: u64) {
        if self.shown.replace(id) != Some(id) {
            self.seek = Some(Some(id));
        }
    }

    /// Returns to the recording's end.
    pub(crate) fn show_end(&mut self) {
        (self.shown, self.seek) = (None, Some(None));
    }

    /// Returns the snapshot that is shown, or the last one navigated to unless the user has scrolled since.
    pub(crate) fn position(&self, top_line: u64) -> Option<u64> {
        let last_stop = self.last_stop.filter(|(_, top)| *top == top_line).map(|(id, _)| id);
        self.shown.or(last_stop)
    }
}
