//! The journal of one run of a graph: an append-only file, a line a fact. It is what a run is resumed from after its server ended.
//!
//! ```text
//! {"fact":"run","version":"1.0","at":…,"run":"r-…","graph":"…","session":null,"input":…,"options":…,"definition":{…}}
//! {"fact":"started","at":…,"step":"outer/each[2]","key":"16 hex digits","node":"me","persistent":true}
//! {"fact":"finished","at":…,"step":"outer/each[2]","key":"…","ms":12,"tokens":34,"value":…}
//! {"fact":"ended","at":…,"status":"completed"}
//! ```
//!
//! Times are nanoseconds since the Unix epoch. Facts and fields that are not known are passed over, a newer major version is refused.
//! A cut last line is what a crash leaves, and is dropped; anything else that is no fact is damage, and is said.

mod error;
mod record;
mod directory;
mod key;
mod scanner;
mod replay;
mod codec;
mod summary;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub use error::JournalError;
pub use record::{Fact, Head};
pub use directory::{has_ended, journal_path, journals, new_run_id};
pub use key::key;
pub use replay::{Ending, Past};
pub use codec::Question;
pub use summary::{StepCounts, Summary};

use scanner::Extent;
use writer::Writer;

/// The journal of a run that is being driven: cheap to clone, and locked against other servers until the last clone is dropped. Then
/// what is left is written.
#[derive(Debug, Clone)]
pub struct Journal {
    path: Arc<Path>,
    writer: Arc<Writer>,
}

impl Journal {
    /// Begins the journal of a new run (file 0600, its folder 0700, made if missing). The head is on the disk when this returns.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// There is a journal at `path` already, it cannot be written, or a part of the head cannot be kept.
    pub fn create(path: &Path, head: &Head) -> Result<Journal, JournalError> {
        let mut line = Vec::new();
        head.encode(&mut line).map_err(|(what, reason)| JournalError::Refused {
            path: path.into(),
            what,
            why: reason.why().to_string(),
        })?;
        let file = directory::create(path)?;
        let begun = directory::lock(&file, path).and_then(|()| {
            write_through(&file, &line)
                .and_then(|()| directory::sync_folder(path))
                .map_err(JournalError::io("written", path))
        });
        if let Err(error) = begun {
            // Without its head it says nothing.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Journal::over(file, path)
    }

    /// Goes on with the journal of a run whose server ended. A last line that a crash cut is removed from the file;
    /// [`Past::cut`] says so. Blocks on the disk.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while another server drives the run; else as [`Past::read`], or the file cannot be written.
    pub fn resume(path: &Path) -> Result<(Journal, Past), JournalError> {
        let file = directory::open(path, true)?;
        directory::lock(&file, path)?;
        let (past, extent) = Past::of(&file, path)?;
        mend(&file, extent).map_err(JournalError::io("mended", path))?;
        Ok((Journal::over(file, path)?, past))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a fact down. It is in the file within about a millisecond, and on the disk after [`Journal::settle`]. Waits only while 8 MiB of
    /// facts are not written. After a [`Journal::fault`] it does nothing.
    pub fn record(&self, fact: &Fact<'_>) {
        self.writer.record(fact);
    }

    /// Waits until everything recorded so far is on the disk; returns at once if it is.
    ///
    /// # Errors
    /// [`JournalError::Fault`]: it could not be written.
    pub async fn settle(&self) -> Result<(), JournalError> {
        self.writer.settle().await
    }

    /// Takes no more facts: what happens to the run from now on is its server's end, not its own.
    pub fn seal(&self) {
        self.writer.seal();
    }

    /// Takes it no more facts?
    pub fn is_sealed(&self) -> bool {
        self.writer.is_sealed()
    }

    /// Why nothing more is written, if that is so. The facts up to then are a journal that can be resumed.
    pub fn fault(&self) -> Option<String> {
        self.writer.fault()
    }

    fn over(file: File, path: &Path) -> Result<Journal, JournalError> {
        let writer = Writer::start(file, path.into()).map_err(JournalError::io("written", path))?;
        Ok(Journal { path: path.into(), writer: Arc::new(writer) })
    }
}

fn write_through(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Lets the file end with the newline of its last whole fact.
fn mend(mut file: &File, extent: Extent) -> std::io::Result<()> {
    if extent.cut > 0 {
        file.set_len(extent.whole)?;
    }
    if extent.open {
        file.write_all(b"\n")?;
    }
    file.sync_data()
}
