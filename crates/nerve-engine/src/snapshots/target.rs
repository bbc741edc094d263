//! The running session of which a snapshot is taken.

use std::path::{Path, PathBuf};

use nerve_host::OF;
use nerve_host::registry::{Entry, entries};
use nerve_node::error::EngineError;
use nerve_record::lookup::{LookupError, Name};

use super::enclosing_session::EnclosingSession;
use super::recorder::Recorder;
use crate::recordings;

/// Session name for a recorder without one.
const UNNAMED_SESSION: &str = "unnamed";

/// A running session.
#[derive(Debug, Clone)]
pub struct SnapshotTarget {
    pub(super) recorder: Recorder,
    /// Session id; files are stored under it.
    pub(super) session: String,
    /// The recording, or the placeholder path of an unrecorded session. The snapshot list is next to it.
    pub(super) file: Option<PathBuf>,
    /// Directory whose files are stored if the request names none: the start directory of its program.
    pub dir: Option<PathBuf>,
}

impl SnapshotTarget {
    /// Finds a running session by its recording or by name, see [`nerve_record::lookup`]. `hosts`: the directory of hosts'
    /// entries.
    ///
    /// # Errors
    /// NotFound, InvalidRequest: no session or more than one has that name.
    pub fn find(hosts: &Path, wanted: &str) -> Result<SnapshotTarget, EngineError> {
        let hosts = entries(hosts);
        find_host(&hosts, wanted).map(SnapshotTarget::from_host)
    }

    /// Finds the session whose recorder listens on `socket`: a path, or `tcp:HOST:PORT`.
    pub fn at_socket(hosts: &Path, socket: &str, enclosing: &EnclosingSession) -> SnapshotTarget {
        let recorder = Recorder::parse(socket);
        // The enclosing session's variables may belong to another recorder.
        SnapshotTarget::find_by_recorder(hosts, &recorder)
            .unwrap_or_else(|| SnapshotTarget::unknown_host(recorder, enclosing))
    }

    /// Returns the session that encloses the caller.
    ///
    /// # Errors
    /// NotFound: there is none.
    pub fn enclosing(hosts: &Path, enclosing: &EnclosingSession) -> Result<SnapshotTarget, EngineError> {
        let recorder = Recorder::enclosing(enclosing)?;
        let target = match enclosing.id() {
            Some(_) => None,
            None => SnapshotTarget::find_by_recorder(hosts, &recorder),
        };
        Ok(target.unwrap_or_else(|| SnapshotTarget::unknown_host(recorder, enclosing)))
    }

    /// Returns the session of a host.
    pub(crate) fn from_host(entry: &Entry) -> SnapshotTarget {
        SnapshotTarget {
            recorder: Recorder::parse(&entry.snapshot_socket()),
            session: entry.session_id.clone(),
            file: entry.session_file().map(Path::to_path_buf),
            dir: entry.cwd.clone(),
        }
    }

    fn find_by_recorder(hosts: &Path, recorder: &Recorder) -> Option<SnapshotTarget> {
        let hosts = entries(hosts);
        let entry = hosts.iter().find(|entry| listens_on(entry, recorder))?;
        Some(SnapshotTarget { recorder: recorder.clone(), dir: None, ..SnapshotTarget::from_host(entry) })
    }

    fn unknown_host(recorder: Recorder, enclosing: &EnclosingSession) -> SnapshotTarget {
        let session = enclosing.id().unwrap_or_else(|| UNNAMED_SESSION.to_string());
        SnapshotTarget { recorder, session, file: enclosing.file(), dir: None }
    }
}

/// Returns true if the host listens on this socket.
fn listens_on(entry: &Entry, recorder: &Recorder) -> bool {
    match (Recorder::parse(&entry.snapshot_socket()), recorder) {
        (Recorder::Unix(own), Recorder::Unix(given)) => own == *given || is_same(&own, given),
        (own, given) => own == *given,
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Finds the host of a running session by its recording or by name.
fn find_host<'a>(hosts: &'a [Entry], wanted: &str) -> Result<&'a Entry, EngineError> {
    let running: Vec<&Entry> = hosts.iter().filter(|entry| is_eligible(entry)).collect();
    let file = Path::new(wanted);
    if let Some(entry) = running.iter().find(|entry| file.is_file() && entry.belongs_to(file)) {
        return Ok(entry);
    }
    let entry = Name::parse(wanted).and_then(|name| recordings::find_host(&running, &name, None));
    entry.map_err(|error| match error {
        LookupError::Ambiguous { .. } => recordings::lookup_error(error),
        _ => {
            let suggestion = error.suggestion().map(|similar| similar + " ").unwrap_or_default();
            EngineError::not_found(format!("no running session or node '{wanted}' on this machine")).hint(
                format!(
                    "{suggestion}list running sessions: nerve host list; ended sessions cannot be snapshotted"
                ),
            )
        }
    })
}

/// Returns true for the host of a running session. Hosts of an agent's tools have no snapshots of their own.
fn is_eligible(entry: &Entry) -> bool {
    entry.label.get(OF).is_none() && entry.is_alive()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nerve_node::error::ErrorKind;
    use nerve_testkit::harness::host_entry;
    use serde_json::Value;

    fn host(id: &str, session: &str, label: Value) -> Entry {
        let mut entry = host_entry(id, session, std::process::id());
        entry["label"] = label;
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn session_is_found_by_node_or_id_prefix() {
        let hosts = [
            host("aa11", "s-1", serde_json::json!({ "node": "me" })),
            host("aa22", "s-2", Value::Null),
            host("aa33", "s-2-tool", serde_json::json!({ "of": "x.ahr" })),
        ];
        let id = |wanted: &str| {
            find_host(&hosts, wanted).map(|entry| entry.id.as_str()).map_err(|error| error.kind)
        };
        assert_eq!(
            (id("me"), id("s-2"), id("aa2"), id("s-1")),
            (Ok("aa11"), Ok("aa22"), Ok("aa22"), Ok("aa11"))
        );
        assert_eq!((id("aa"), id("s-")), (Err(ErrorKind::InvalidRequest), Err(ErrorKind::InvalidRequest)));
        assert_eq!(
            (id("aa33"), id("m"), id("")),
            (Err(ErrorKind::NotFound), Err(ErrorKind::NotFound), Err(ErrorKind::NotFound))
        );
        assert!(listens_on(&hosts[0], &Recorder::Unix("/run/aa11/snapshot".into())));
        assert!(!listens_on(&hosts[0], &Recorder::Tcp("127.0.0.1:7".into())));
    }
}
