//! Maintains a host's registry entry and the metadata file next to its recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_record::meta::Meta;
use nerve_types::{ExitStatus, TsNs};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::HostSpec;
use crate::backend::Memory;
use crate::registry::Entry;

/// The metadata of a running host.
#[derive(Debug)]
pub(super) struct HostMetadata {
    entry: Entry,
    registry: PathBuf,
    /// Metadata known at the start of the session.
    initial: Meta,
    meta_file: Option<MetaFile>,
    /// Number of the latest revision of the metadata file.
    revision: u64,
    /// The final revision has been issued.
    closed: bool,
}

/// The metadata file of a session. It is written on threads that may block on the disk.
#[derive(Debug, Clone)]
struct MetaFile {
    session: PathBuf,
    /// The revision that the file contains.
    written: Arc<Mutex<u64>>,
}

impl MetaFile {
    /// Writes a revision unless a later one has been written already.
    fn write(&self, revision: u64, meta: &Meta) -> io::Result<()> {
        let mut written = self.written.lock();
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

    /// Returns the stand-in path of a session without a recording.
    pub(super) fn unrecorded(&self) -> Option<PathBuf> {
        self.entry.unrecorded.clone()
    }

    /// Returns the program's process id.
    pub(super) fn child_pid(&self) -> i32 {
        self.entry.child
    }

    /// Stores the state that the next driver of the terminal needs.
    ///
    /// # Errors
    /// The entry cannot be written. The metadata file is written in the background; [`HostMetadata::finish`] writes it again
    /// and reports errors.
    pub(super) fn remember(&mut self, memory: Value) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let old_meta = self.meta();
        self.entry.memory = memory;
        let result = self.entry.store(&self.registry);
        let meta = self.meta();
        if meta != old_meta
            && let Some((meta_file, revision)) = self.next_revision()
        {
            tokio::task::spawn_blocking(move || meta_file.write(revision, &meta));
        }
        result
    }

    /// Writes the entry and the metadata file again.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub(super) fn repair(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        if let (meta, Some((meta_file, revision))) = (self.meta(), self.next_revision()) {
            tokio::task::spawn_blocking(move || meta_file.write(revision, &meta));
        }
        self.entry.store(&self.registry)
    }

    /// Returns the current metadata, with the agent's conversation, because a recording outlives its host.
    fn meta(&self) -> Meta {
        let Memory { transcript, conversation_id, .. } =
            Memory::deserialize(&self.entry.memory).unwrap_or_default();
        Meta { transcript, conversation_id, ..self.initial.clone() }
    }

    fn next_revision(&mut self) -> Option<(MetaFile, u64)> {
        self.revision += 1;
        Some((self.meta_file.clone()?, self.revision))
    }

    /// Records the exit. Returns the write of the final metadata, to be run where it may block on the disk.
    pub(super) fn finish(
        &mut self,
        at: TsNs,
        exit: ExitStatus,
        note: Option<String>,
    ) -> impl FnOnce() -> io::Result<()> + Send + 'static + use<> {
        self.closed = true;
        self.entry.exit = Some(exit);
        let meta = Meta { ended_at: Some(at), exit: Some(exit), end_note: note, ..self.meta() };
        let revision = self.next_revision();
        move || revision.map_or(Ok(()), |(meta_file, revision)| meta_file.write(revision, &meta))
    }

    /// Returns the final update of the entry, to be run where it may block on the disk. The update removes the entry if
    /// the exit was acknowledged.
    pub(super) fn settle_entry(&self, is_acknowledged: bool) -> impl FnOnce() + Send + 'static + use<> {
        let (entry, registry) = (self.entry.clone(), self.registry.clone());
        move || {
            if is_acknowledged {
                entry.forget(&registry);
            } else {
                // If this fails, the entry looks like that of a killed host.
                let _ = entry.store(&registry);
            }
        }
    }
}
