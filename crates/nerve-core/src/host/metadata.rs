//! What is kept of a host beside the bytes of its terminal: its entry, and what stands beside its recording, or beside what stands for one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nerve_record::meta::Meta;
use nerve_term::event::{ExitStatus, TsNs};
use serde::Deserialize;
use serde_json::Value;

use super::HostSpec;
use super::registry::Entry;
use crate::backend::Memory;

/// See the module.
#[derive(Debug)]
pub(super) struct Notes {
    entry: Entry,
    registry: PathBuf,
    /// What is known of the session from its start on.
    begun: Meta,
    sheet: Option<Sheet>,
    /// How often something was to be written beside the recording.
    changes: u64,
    /// The last word is said.
    closed: bool,
}

/// The facts beside the session's file. Whoever writes them does so on a thread that may wait for the disk.
#[derive(Debug, Clone)]
struct Sheet {
    session: PathBuf,
    /// The number of the change that is in it.
    written: Arc<Mutex<u64>>,
}

impl Sheet {
    /// One after the other: the last change counts, whoever comes first.
    fn write(&self, change: u64, meta: &Meta) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written < change {
            meta.store(&self.session)?;
            *written = change;
        }
        Ok(())
    }
}

impl Notes {
    pub(super) fn new(spec: &HostSpec, entry: Entry) -> Notes {
        let session = entry.session_file().map(Path::to_path_buf);
        Notes {
            begun: spec.meta(TsNs(entry.started)),
            entry,
            registry: spec.registry.clone(),
            sheet: session.map(|session| Sheet { session, written: Arc::default() }),
            changes: 0,
            closed: false,
        }
    }

    /// The file that stands for the recording of a session that has none.
    pub(super) fn unrecorded(&self) -> Option<PathBuf> {
        self.entry.unrecorded.clone()
    }

    /// The program's process id.
    pub(super) fn child(&self) -> i32 {
        self.entry.child
    }

    /// Keeps what whoever drives the terminal next is to know.
    ///
    /// # Errors
    /// The entry cannot be written. What stands beside the recording waits for the disk: if that fails it is told at the end, when it is
    /// written again.
    pub(super) fn remember(&mut self, memory: Value) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let before = self.meta();
        self.entry.memory = memory;
        let stored = self.entry.store(&self.registry);
        let meta = self.meta();
        if meta != before
            && let Some((sheet, change)) = self.next_change()
        {
            tokio::task::spawn_blocking(move || sheet.write(change, &meta));
        }
        stored
    }

    /// With what is known of the agent's own conversation: who looks at the recording later has no host to ask.
    fn meta(&self) -> Meta {
        let Memory { transcript, agent_session, .. } =
            Memory::deserialize(&self.entry.memory).unwrap_or_default();
        Meta { transcript, agent_session, ..self.begun.clone() }
    }

    fn next_change(&mut self) -> Option<(Sheet, u64)> {
        self.changes += 1;
        Some((self.sheet.clone()?, self.changes))
    }

    /// Nothing is remembered any more. What is to be written beside the recording of how the program ended, to be done where the disk may
    /// be waited for.
    pub(super) fn end(
        &mut self,
        at: TsNs,
        exit: ExitStatus,
        note: Option<String>,
    ) -> impl FnOnce() -> io::Result<()> + Send + 'static + use<> {
        self.closed = true;
        self.entry.exit = Some(exit.into());
        let meta = Meta { ended_at: Some(at), exit: Some(exit), end_note: note, ..self.meta() };
        let change = self.next_change();
        move || change.map_or(Ok(()), |(sheet, change)| sheet.write(change, &meta))
    }

    /// What becomes of the entry: nobody needs it who has seen the end. To be done where the disk may be waited for.
    pub(super) fn settle(&self, seen: bool) -> impl FnOnce() + Send + 'static + use<> {
        let (entry, registry) = (self.entry.clone(), self.registry.clone());
        move || {
            if seen {
                entry.forget(&registry);
            } else {
                // Without it the entry says that the host was killed: as near as can be.
                let _ = entry.store(&registry);
            }
        }
    }
}
