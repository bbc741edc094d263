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
pub(super) struct HostMetadata {
    entry: Entry,
    registry: PathBuf,
    /// What is known of the session from its start on.
    initial: Meta,
    meta_file: Option<MetaFile>,
    /// How often something was to be written beside the recording.
    revision: u64,
    /// The last word is said.
    closed: bool,
}

/// The facts beside the session's file. Whoever writes them does so on a thread that may wait for the disk.
#[derive(Debug, Clone)]
struct MetaFile {
    session: PathBuf,
    /// The number of the change that is in it.
    written: Arc<Mutex<u64>>,
}

impl MetaFile {
    /// One after the other: the last change counts, whoever comes first.
    fn write(&self, revision: u64, meta: &Meta) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written < revision {
            meta.store(&self.session)?;
            *written = revision;
        }
        Ok(())
    }
}

impl HostMetadata {
    pub(super) fn new(spec: &HostSpec, entry: Entry) -> HostMetadata {
        let session = entry.session_file().map(Path::to_path_buf);
        HostMetadata {
            initial: spec.meta(TsNs(entry.started)),
            entry,
            registry: spec.registry.clone(),
            meta_file: session.map(|session| MetaFile { session, written: Arc::default() }),
            revision: 0,
            closed: false,
        }
    }

    /// The file that stands for the recording of a session that has none.
    pub(super) fn unrecorded(&self) -> Option<PathBuf> {
        self.entry.unrecorded.clone()
    }

    /// The program's process id.
    pub(super) fn child_pid(&self) -> i32 {
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
            && let Some((meta_file, revision)) = self.next_revision()
        {
            tokio::task::spawn_blocking(move || meta_file.write(revision, &meta));
        }
        stored
    }

    /// With what is known of the agent's own conversation: who looks at the recording later has no host to ask.
    fn meta(&self) -> Meta {
        let Memory { transcript, agent_session, .. } =
            Memory::deserialize(&self.entry.memory).unwrap_or_default();
        Meta { transcript, agent_session, ..self.initial.clone() }
    }

    fn next_revision(&mut self) -> Option<(MetaFile, u64)> {
        self.revision += 1;
        Some((self.meta_file.clone()?, self.revision))
    }

    /// Nothing is remembered any more. What is to be written beside the recording of how the program ended, to be done where the disk may
    /// be waited for.
    pub(super) fn finish(
        &mut self,
        at: TsNs,
        exit: ExitStatus,
        note: Option<String>,
    ) -> impl FnOnce() -> io::Result<()> + Send + 'static + use<> {
        self.closed = true;
        self.entry.exit = Some(exit.into());
        let meta = Meta { ended_at: Some(at), exit: Some(exit), end_note: note, ..self.meta() };
        let revision = self.next_revision();
        move || revision.map_or(Ok(()), |(meta_file, revision)| meta_file.write(revision, &meta))
    }

    /// What becomes of the entry: nobody needs it who has seen the end. To be done where the disk may be waited for.
    pub(super) fn settle_entry(&self, seen: bool) -> impl FnOnce() + Send + 'static + use<> {
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
