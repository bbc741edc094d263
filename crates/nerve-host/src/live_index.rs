//! Extends the index of a recording while it is written, so that a long one opens without a pass over all of it.

use std::path::Path;
use std::thread::{self, JoinHandle};

use nerve_record::index::Index;

/// Minimum growth of the output between two extensions. A shorter recording is replayed in a tenth of a second.
const MIN_GROWTH: u64 = 8 << 20;
/// Minimum growth as a fraction of the output. An extension writes the whole index, so small steps would write much.
const GROWTH_FRACTION: u64 = 8;

/// The index of the recording that this process writes.
#[derive(Debug, Default)]
pub(crate) struct LiveIndex {
    /// Output bytes at the last extension.
    indexed: u64,
    extension: Option<JoinHandle<()>>,
}

impl LiveIndex {
    /// Starts to extend the index if the recording has grown enough. The caller chooses a time with little output.
    pub(crate) fn extend(&mut self, recording: &Path, output: u64) {
        let growth = output.saturating_sub(self.indexed);
        let is_running = self.extension.as_ref().is_some_and(|thread| !thread.is_finished());
        if growth < MIN_GROWTH.max(self.indexed / GROWTH_FRACTION) || is_running {
            return;
        }
        let path = recording.to_path_buf();
        let extend = move || {
            // Readers create the index otherwise.
            if let Err(error) = Index::ensure(&path) {
                tracing::debug!(%error, "the index is not extended");
            }
        };
        match thread::Builder::new().name("index".into()).spawn(extend) {
            Ok(thread) => (self.extension, self.indexed) = (Some(thread), output),
            Err(error) => tracing::debug!(%error, "no thread extends the index"),
        }
    }
}
