//! The sessions that outlive their server: what they are called and how their nodes are made again (seed node-refactoring §3.2). One
//! JSON file for all servers of a user, `~/.nerve/sessions.json`.

mod document;
mod file;
mod json;
mod metadata;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use metadata::{GraphRecord, NodeRecord, SessionMetadata, is_secret};

use document::Document;
use file::{Lock, Stored};

use crate::error::{EngineError, ErrorKind};

/// The sessions of a file, and changes to them that [`SessionStore::save`] puts there. Other servers write to the same file: a save
/// changes the sessions that were added or removed here, and takes the others as they are by then.
#[derive(Debug)]
pub struct SessionStore {
    path: PathBuf,
    document: Document,
    sessions: BTreeMap<String, SessionMetadata>,
    /// By id; `None`: removed.
    changes: BTreeMap<String, Option<SessionMetadata>>,
}

/// What there was to say about a file when it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Where a damaged file is now.
    pub set_aside: Option<PathBuf>,
    /// What is wrong, for people.
    pub problem: Option<String>,
}

/// Why sessions could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum SessionStoreError {
    /// The system says no.
    #[error("the sessions in {} cannot be {doing}: {source}", path.display())]
    Io {
        /// Read, written, locked, set aside.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else writes, and does not stop.
    #[error("the sessions in {} are being written by another nerve and stay locked: see who holds {}", path.display(), lock.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The file that is locked.
        lock: PathBuf,
    },
    /// A newer nerve wrote the file.
    #[error(
        "the sessions in {} are of version {version}; this nerve writes 1.x and leaves the file as it is: use the newer nerve, or move the file away",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// No nerve writes a file so long.
    #[error("the sessions in {} are longer than 64 MiB: move the file away", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A session that could not be read again.
    #[error("the session '{id}' cannot be kept: {why}")]
    Unkept {
        /// Its id.
        id: String,
        /// What is wrong with it.
        why: String,
    },
}

impl SessionStore {
    /// Reads the sessions of a file; none if it is not there. A damaged file is moved to `<path>.damaged-<n>` and reported. A session
    /// that cannot be understood is reported and stays in the file. Blocks on the disk.
    ///
    /// # Errors
    /// The file cannot be read or set aside.
    pub fn load(path: &Path) -> Result<(SessionStore, LoadReport), SessionStoreError> {
        let mut report = LoadReport::default();
        let document = match file::read(path)? {
            Stored::Document(document) => document,
            Stored::Missing => Document::default(),
            Stored::Damaged(_) => {
                let lock = Lock::take(path, file::PATIENCE)?;
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

    /// Puts the changes since the last save into the file, all or none; does nothing if there are none. The file (0600) is replaced at
    /// once, its folder (0700) is made if missing. Blocks on the disk, and up to 10 s on another writer.
    ///
    /// # Errors
    /// [`SessionStoreError::Newer`], [`SessionStoreError::Locked`], or the file cannot be read or written. The changes are kept for
    /// the next save.
    pub fn save(&mut self) -> Result<LoadReport, SessionStoreError> {
        let mut report = LoadReport::default();
        if self.changes.is_empty() {
            return Ok(report);
        }
        let lock = Lock::take(&self.path, file::PATIENCE)?;
        // After damage what was known of the file is the next best thing.
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

    /// Adds a session, or takes the place of the one with its id. Values of variables whose names look secret are left out, here and
    /// in the file (see [`is_secret`]).
    ///
    /// # Errors
    /// [`SessionStoreError::Unkept`]: it has no id, or what it holds could not be read again.
    pub fn add(&mut self, session: SessionMetadata) -> Result<(), SessionStoreError> {
        let session = session.without_secrets();
        let kept = session.check().and_then(|()| Document::default().with(&session).reread());
        kept.map_err(|why| SessionStoreError::Unkept { id: session.id.clone(), why })?;
        self.changes.insert(session.id.clone(), Some(session.clone()));
        self.sessions.insert(session.id.clone(), session);
        Ok(())
    }

    /// Takes a session out.
    pub fn remove(&mut self, id: &str) -> Option<SessionMetadata> {
        let session = self.sessions.remove(id)?;
        self.changes.insert(id.to_string(), None);
        Some(session)
    }

    /// A session by its id.
    pub fn get(&self, id: &str) -> Option<&SessionMetadata> {
        self.sessions.get(id)
    }

    /// A session by its name. Several servers can each have one: the one that was last changed.
    pub fn find_by_name(&self, name: &str) -> Option<&SessionMetadata> {
        self.sessions.values().filter(|session| session.name == name).max_by_key(|session| session.updated_at)
    }

    /// The sessions with a tag, oldest first.
    pub fn find_by_tag(&self, tag: &str) -> Vec<&SessionMetadata> {
        self.sorted(|session| session.tags.iter().any(|own| own == tag))
    }

    /// The sessions of a server, oldest first.
    pub fn of_server(&self, server: &str) -> Vec<&SessionMetadata> {
        self.sorted(|session| session.server == server)
    }

    /// All sessions, oldest first.
    pub fn list(&self) -> Vec<&SessionMetadata> {
        self.sorted(|_| true)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sorted(&self, wanted: impl Fn(&SessionMetadata) -> bool) -> Vec<&SessionMetadata> {
        let mut sessions: Vec<&SessionMetadata> =
            self.sessions.values().filter(|session| wanted(session)).collect();
        // Stable: those of one moment stay in the order of their ids.
        sessions.sort_by_key(|session| session.created_at);
        sessions
    }

    fn adopt(&mut self, document: Document, report: &mut LoadReport) {
        let (sessions, mut problems) = document.sessions();
        self.sessions = sessions;
        if let Some(version) = document.newer() {
            problems.insert(
                0,
                format!("it is of version {version}: it is read as far as possible and not written"),
            );
        }
        if !problems.is_empty() {
            report.say(&format!("the sessions in {}: {}", self.path.display(), problems.join("; ")));
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
    fn say(&mut self, problem: &str) {
        match &mut self.problem {
            Some(problems) => {
                problems.push_str("; ");
                problems.push_str(problem);
            }
            None => self.problem = Some(problem.to_string()),
        }
    }
}
