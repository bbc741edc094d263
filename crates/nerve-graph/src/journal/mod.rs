//! The journal of a run: an append-only file with one record per line, from which the run is resumed after its server ended.
//!
//! ```text
//! {"fact":"run","version":"1.0","at":…,"run":"r-…","graph":"…","session":null,"input":…,"options":…,"definition":{…}}
//! {"fact":"started","at":…,"step":"outer/each[2]","key":"16 hex digits","node":"me","persistent":true}
//! {"fact":"finished","at":…,"step":"outer/each[2]","key":"…","ms":12,"tokens":34,"value":…}
//! {"fact":"ended","at":…,"state":"completed"}
//! ```
//!
//! Times are nanoseconds since the Unix epoch. Unknown records and fields are ignored; a newer major version is rejected. An
//! incomplete last line is the trace of a crash and is dropped; any other invalid line is reported as damage.

mod decoder;
mod directory;
mod error;
mod key;
mod record;
mod replay;
mod results;
mod scanner;
mod steps;
mod summary;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub use decoder::{RecordedQuestion, RunOutcome};
pub use directory::{has_completed, has_ended, journal_path, journals, new_run_id};
pub use error::JournalError;
pub use key::key;
pub use record::{Header, JournalRecord};
pub use replay::{Answer, ApiCalls, ReplayState, StepReplay};
pub use results::read_result;
pub use steps::{read_plan, read_steps};
pub use summary::{StepCounts, Summary};

use scanner::Extent;
use writer::Writer;

/// The journal of a running graph. Cheap to clone. The file is locked against other servers until the last clone is dropped, which
/// writes the rest of the buffer.
#[derive(Debug, Clone)]
pub struct Journal {
    path: Arc<Path>,
    writer: Arc<Writer>,
}

impl Journal {
    /// Creates the journal of a new run (file 0600, directory 0700, created if missing). The header is on disk on return. Blocks on
    /// disk I/O.
    ///
    /// # Errors
    /// The journal exists, cannot be written, or a part of the header cannot be stored.
    pub fn create(path: &Path, head: &Header) -> Result<Journal, JournalError> {
        let mut line = Vec::new();
        head.encode(&mut line).map_err(|(what, reason)| JournalError::Refused {
            path: path.into(),
            what,
            why: reason.message().to_string(),
        })?;
        let file = directory::create(path)?;
        let result = directory::lock(&file, path).and_then(|()| {
            write_through(&file, &line)
                .and_then(|()| directory::sync_folder(path))
                .map_err(JournalError::io("write", path))
        });
        if let Err(error) = result {
            // Without its header the file is useless.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Journal::with_writer(file, path)
    }

    /// Continues the journal of a run whose server ended, and removes an incomplete last line ([`ReplayState::cut`]). Blocks on
    /// disk I/O.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while another server drives the run; otherwise like [`ReplayState::read`], or the file cannot be
    /// written.
    pub fn resume(path: &Path) -> Result<(Journal, ReplayState), JournalError> {
        let file = directory::open(path, true)?;
        directory::lock(&file, path)?;
        let (replay, extent) = ReplayState::from_file(&file, path)?;
        repair(&file, extent).map_err(JournalError::io("repair", path))?;
        Ok((Journal::with_writer(file, path)?, replay))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. It reaches the file within about a millisecond, and the disk with [`Journal::flush`]. Blocks only while 8
    /// MiB of records are pending. Does nothing after a [`Journal::fault`].
    pub fn record(&self, record: &JournalRecord<'_>) {
        self.writer.record(record);
    }

    /// Waits until all records so far are on disk.
    ///
    /// # Errors
    /// [`JournalError::Fault`]: a write failed.
    pub async fn flush(&self) -> Result<(), JournalError> {
        self.writer.flush().await
    }

    /// Stops recording. Later events of the run are caused by the server's shutdown and must not be replayed.
    pub fn seal(&self) {
        self.writer.seal();
    }

    /// Returns true if the journal takes no more records.
    pub(crate) fn is_sealed(&self) -> bool {
        self.writer.is_sealed()
    }

    /// Returns why writing stopped, if it did. The records before that form a journal that can be resumed.
    pub fn fault(&self) -> Option<String> {
        self.writer.fault()
    }

    fn with_writer(file: File, path: &Path) -> Result<Journal, JournalError> {
        let writer = Writer::start(file, path.into()).map_err(JournalError::io("write", path))?;
        Ok(Journal { path: path.into(), writer: Arc::new(writer) })
    }
}

fn write_through(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Truncates an incomplete record, and adds a missing newline.
fn repair(mut file: &File, extent: Extent) -> std::io::Result<()> {
    if extent.cut > 0 {
        file.set_len(extent.whole)?;
    }
    if extent.missing_newline {
        file.write_all(b"\n")?;
    }
    file.sync_data()
}
