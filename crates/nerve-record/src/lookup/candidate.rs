//! A recording or session that a name can select.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use nerve_types::TsNs;
use nerve_types::name::DEFAULT_SESSION;
use serde::Deserialize;

use crate::meta::Meta;
use crate::store::{StoredRecording, id_of};

/// Length of a UUID in text form (RFC 9562 §4).
const UUID_LEN: usize = 36;
/// Starts of the groups after the timestamp of a UUIDv7 (RFC 9562 §5.7): they are random.
const RANDOM_GROUPS: [usize; 3] = [14, 19, 24];

/// A recording, or a session that has a host, recorded or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Id of the session, which is also the recording's.
    pub id: String,
    /// Id of its host.
    pub host: Option<String>,
    /// The node whose terminal it is.
    pub node: Option<NodePath>,
    /// Time of the last write; the start of a session that is not recorded.
    pub written: Option<TsNs>,
    /// The recording, or the path that stands for it.
    pub path: Option<PathBuf>,
    /// False for a session without a recording.
    pub is_recorded: bool,
}

/// A node and its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePath {
    /// Session of the node.
    pub session: String,
    /// Name of the node.
    pub node: String,
}

impl NodePath {
    /// Creates the path of a node; without a session, of the default session's.
    pub fn new(session: Option<&str>, node: &str) -> NodePath {
        NodePath { session: session.unwrap_or(DEFAULT_SESSION).to_string(), node: node.to_string() }
    }

    /// Returns true for a node of the default session.
    pub fn is_in_default_session(&self) -> bool {
        self.session == DEFAULT_SESSION
    }
}

impl std::fmt::Display for NodePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.session, self.node)
    }
}

/// The fields of the metadata that name a node.
#[derive(Debug, Deserialize)]
struct Owner {
    node: Option<String>,
    session: Option<String>,
}

impl Candidate {
    /// Creates the candidate of a recording's file, whose node is not known.
    pub fn of_file(path: &Path) -> Candidate {
        let written = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        Candidate {
            id: id_of(path).map_or_else(|| path.display().to_string(), str::to_string),
            written: written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| TsNs::default() + at),
            path: Some(path.to_path_buf()),
            is_recorded: true,
            ..Candidate::default()
        }
    }

    /// Creates the candidate of a stored recording, whose node is not known.
    pub(super) fn of_recording(recording: StoredRecording) -> Candidate {
        let written = recording.written.duration_since(UNIX_EPOCH).ok().map(|at| TsNs::default() + at);
        Candidate {
            id: id_of(&recording.path).unwrap_or_default().to_string(),
            written,
            path: Some(recording.path),
            is_recorded: true,
            ..Candidate::default()
        }
    }

    /// Reads the node from the metadata, unless it is known. Without readable metadata there is none.
    pub fn load_node(&mut self) {
        if let (None, Some(path)) = (&self.node, &self.path) {
            let owner: Option<Owner> = Meta::load_as(path).ok().flatten();
            self.node = owner.and_then(|owner| Some(NodePath::new(owner.session.as_deref(), &owner.node?)));
        }
    }

    /// Returns true if the id of the session or of its host is `text`.
    pub fn has_id(&self, text: &str) -> bool {
        self.id == text || self.host.as_deref() == Some(text)
    }

    /// Returns true if the id of the session or of its host begins with `text`.
    pub(super) fn begins_with(&self, text: &str) -> bool {
        self.id.starts_with(text) || self.host.as_deref().is_some_and(|host| host.starts_with(text))
    }

    /// Returns true if a random group of the id begins with `text`. The last group is the id of the session's host.
    pub(super) fn has_random_part(&self, text: &str) -> bool {
        let is_uuid = self.id.len() == UUID_LEN && self.id.is_ascii();
        is_uuid && RANDOM_GROUPS.iter().any(|start| self.id[*start..].starts_with(text))
    }
}

impl std::fmt::Display for Candidate {
    /// Writes the id, the node and the time of the last write.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.node.as_ref().map(ToString::to_string);
        let stamp = |at: TsNs| Timestamp::from_nanosecond(i128::from(at.0)).ok();
        let time = self.written.and_then(stamp).map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string());
        let details: Vec<String> = node.into_iter().chain(time).collect();
        match details.is_empty() {
            true => f.write_str(&self.id),
            false => write!(f, "{} ({})", self.id, details.join(", ")),
        }
    }
}
