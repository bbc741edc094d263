//! The sessions that survive their server: names and definitions of nodes. All servers of a user share one JSON file,
//! `sessions.json` in the state directory.

mod document;
mod file;
mod json;
mod metadata;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use metadata::is_secret;
pub use metadata::{GraphRecord, NodeRecord, SessionMetadata};

use document::Document;
use file::{FileContents, Lock};

use nerve_node::error::{EngineError, ErrorKind};

/// The sessions of a file, and pending changes that [`SessionStore::save`] writes. Other servers write to the same file: a save
/// changes only the sessions that were added or removed here, and reloads the others.
#[derive(Debug)]
pub struct SessionStore {
    path: PathBuf,
    document: Document,
    sessions: BTreeMap<String, SessionMetadata>,
    /// Pending changes by id; `None` means removed.
    changes: BTreeMap<String, Option<SessionMetadata>>,
}

/// Result of reading a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// The new path of a damaged file.
    pub set_aside: Option<PathBuf>,
    /// The problem, for people.
    pub problem: Option<String>,
}

/// Error of reading or storing sessions.
#[derive(Debug, thiserror::Error)]
pub enum SessionStoreError {
    /// An I/O error.
    #[error("the sessions in {} cannot be {doing}: {source}", path.display())]
    Io {
        /// The operation: read, written, locked, set aside.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process holds the lock for too long.
    #[error("the sessions in {} are locked by another nerve process: see who holds {}", path.display(), lock.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The lock file.
        lock: PathBuf,
    },
    /// The file was written by a newer version of nerve.
    #[error(
        "the sessions in {} have version {version}; this nerve writes 1.x and does not change the file: use the newer nerve, or move the file away",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's version.
        version: String,
    },
    /// The file exceeds the size limit.
    #[error("the sessions in {} exceed 64 MiB: move the file away", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The session could not be read back.
    #[error("the session '{id}' cannot be stored: {why}")]
    Unkept {
        /// The session's id.
        id: String,
        /// The reason.
        why: String,
    },
}

impl SessionStore {
    /// Reads the sessions of a file; there are none if it does not exist. A damaged file is moved to `<path>.damaged-<n>` and
    /// reported. A session that cannot be parsed is reported and stays in the file. Blocks on disk I/O.
    ///
    /// # Errors
    /// The file cannot be read or set aside.
    pub fn load(path: &Path) -> Result<(SessionStore, LoadReport), SessionStoreError> {
        let mut report = LoadReport::default();
        let document = match file::read(path)? {
            FileContents::Document(document) => document,
            FileContents::Missing => Document::default(),
            FileContents::Damaged(_) => {
                let lock = Lock::take(path, file::LOCK_TIMEOUT)?;
                file::read_or_set_aside(path, &lock, &mut report)?.unwrap_or_default()
            }
        };
        let mut store = SessionStore {
            path: path.to_path_buf(),
            document: Document::default(),
            sessions: BTreeMap::new(),
            changes: BTreeMap::new(),
        };
        store.adopt(document, &mut report);
        Ok((store, report))
    }

    /// Writes the pending changes, all or none; does nothing if there are none. Replaces the file (mode 0600) atomically and
    /// creates its folder (0700) if missing. Blocks on disk I/O, and up to 10 s on another writer.
    ///
    /// # Errors
    /// [`SessionStoreError::Newer`], [`SessionStoreError::Locked`], or the file cannot be read or written. The changes stay
    /// pending.
    pub fn save(&mut self) -> Result<LoadReport, SessionStoreError> {
        let mut report = LoadReport::default();
        if self.changes.is_empty() {
            return Ok(report);
        }
        let lock = Lock::take(&self.path, file::LOCK_TIMEOUT)?;
        // If the file is damaged, use its last known content.
        let mut document =
            file::read_or_set_aside(&self.path, &lock, &mut report)?.unwrap_or_else(|| self.document.clone());
        if let Some(version) = document.newer() {
            return Err(SessionStoreError::Newer { path: self.path.clone(), version: version.to_string() });
        }
        for (id, change) in &self.changes {
            match change {
                Some(session) => document.put(session),
                None => document.remove(id),
            }
        }
        file::replace(&self.path, &lock, &document)?;
        drop(lock);
        self.changes.clear();
        self.adopt(document, &mut report);
        Ok(report)
    }

    /// Adds a session or replaces the one with its id. Values of variables that look secret are removed, here and in the file (see
    /// `is_secret`).
    ///
    /// # Errors
    /// [`SessionStoreError::Unkept`]: the session has no id, or could not be read back.
    pub fn add(&mut self, session: SessionMetadata) -> Result<(), SessionStoreError> {
        let session = session.without_secrets();
        let checked =
            session.check().and_then(|()| Document::default().with_session(&session).check_round_trip());
        checked.map_err(|why| SessionStoreError::Unkept { id: session.id.clone(), why })?;
        self.changes.insert(session.id.clone(), Some(session.clone()));
        self.sessions.insert(session.id.clone(), session);
        Ok(())
    }

    /// Removes a session and returns it.
    pub fn remove(&mut self, id: &str) -> Option<SessionMetadata> {
        let session = self.sessions.remove(id)?;
        self.changes.insert(id.to_string(), None);
        Some(session)
    }

    /// Returns the session with that id.
    pub fn get(&self, id: &str) -> Option<&SessionMetadata> {
        self.sessions.get(id)
    }

    /// Returns the session of that name. If several servers have one, returns the one that was changed last.
    pub fn find_by_name(&self, name: &str) -> Option<&SessionMetadata> {
        self.sessions.values().filter(|session| session.name == name).max_by_key(|session| session.updated_at)
    }

    /// Returns the sessions with a tag, oldest first.
    pub fn find_by_tag(&self, tag: &str) -> Vec<&SessionMetadata> {
        self.sorted(|session| session.tags.iter().any(|own| own == tag))
    }

    /// Returns the sessions of a server, oldest first.
    pub fn of_server(&self, server: &str) -> Vec<&SessionMetadata> {
        self.sorted(|session| session.server == server)
    }

    /// Returns all sessions, oldest first.
    pub fn list(&self) -> Vec<&SessionMetadata> {
        self.sorted(|_| true)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sorted(&self, wanted: impl Fn(&SessionMetadata) -> bool) -> Vec<&SessionMetadata> {
        let mut sessions: Vec<&SessionMetadata> =
            self.sessions.values().filter(|session| wanted(session)).collect();
        // The sort is stable: sessions of the same time stay sorted by id.
        sessions.sort_by_key(|session| session.created_at);
        sessions
    }

    fn adopt(&mut self, document: Document, report: &mut LoadReport) {
        let (sessions, mut problems) = document.sessions();
        self.sessions = sessions;
        if let Some(version) = document.newer() {
            problems.insert(
                0,
                format!("version {version} is newer: the file is read as far as possible and not written"),
            );
        }
        if !problems.is_empty() {
            report.add_problem(&format!("the sessions in {}: {}", self.path.display(), problems.join("; ")));
        }
        self.document = document;
    }
}

impl From<SessionStoreError> for EngineError {
    fn from(error: SessionStoreError) -> EngineError {
        let kind = match &error {
            SessionStoreError::Io { .. } => ErrorKind::Internal,
            SessionStoreError::Locked { .. } => ErrorKind::Busy,
            SessionStoreError::Newer { .. }
            | SessionStoreError::TooLong { .. }
            | SessionStoreError::Unkept { .. } => ErrorKind::InvalidRequest,
        };
        EngineError::new(kind, error.to_string())
    }
}

impl LoadReport {
    fn add_problem(&mut self, problem: &str) {
        match &mut self.problem {
            Some(problems) => {
                problems.push_str("; ");
                problems.push_str(problem);
            }
            None => self.problem = Some(problem.to_string()),
        }
    }
}
