//! Paths of histories: `<base>/<server>/<node>.jsonl`, or `<base>/<server>/<session>/<node>.jsonl`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nerve_types::files::private_folder;
use nerve_types::name;

use super::HistoryError;
use nerve_types::regular_file::{self, Links, OpenError};

/// Maximum number of session folders searched below a server.
const MAX_SESSIONS: usize = 10_000;

/// Returns the path of a node's history after checking the names.
pub(super) fn of_node(
    base: &Path,
    server: &str,
    session: Option<&str>,
    node: &str,
) -> Result<PathBuf, HistoryError> {
    name::check("server", server)?;
    name::check("node", node)?;
    let mut path = base.join(server);
    if let Some(session) = session {
        name::check("session", session)?;
        path.push(session);
    }
    path.push(format!("{node}.jsonl"));
    Ok(path)
}

/// Finds a node's history: first in the session's folder, if a session is given, then directly below the server. Without
/// a session, the only folder with such a history is searched last.
pub(super) fn find(
    base: &Path,
    server: &str,
    session: Option<&str>,
    node: &str,
) -> Result<PathBuf, HistoryError> {
    if session.is_some() {
        let path = of_node(base, server, session, node)?;
        if exists(&path) {
            return Ok(path);
        }
    }
    let direct = of_node(base, server, None, node)?;
    if session.is_some() || exists(&direct) {
        return Ok(direct);
    }
    let mut sessions = sessions_with(&base.join(server), node);
    match sessions.len() {
        0 => Ok(direct),
        1 => of_node(base, server, sessions.pop().as_deref(), node),
        _ => Err(HistoryError::Ambiguous { node: node.to_string(), server: server.to_string(), sessions }),
    }
}

/// Lists the sessions of `server` with a history of `node`, sorted. Skips unreadable folders.
fn sessions_with(server: &Path, node: &str) -> Vec<String> {
    let file = format!("{node}.jsonl");
    let Ok(listing) = fs::read_dir(server) else { return Vec::new() };
    let mut sessions: Vec<String> = listing
        .filter_map(Result::ok)
        .take(MAX_SESSIONS)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|session| {
            name::check("session", session).is_ok() && exists(&server.join(session).join(&file))
        })
        .collect();
    sessions.sort();
    sessions
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Opens a history for appending and for reading its end. Creates missing files (0600) and folders (0700).
pub(super) fn open_to_append(path: &Path) -> Result<File, HistoryError> {
    if let Some(folder) = path.parent() {
        private_folder(folder).map_err(|source| HistoryError::Io {
            action: "make the folder",
            path: folder.into(),
            source,
        })?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    open_regular(path, &mut options)
}

/// Opens a history for reading.
pub(super) fn open_to_read(path: &Path) -> Result<File, HistoryError> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Opens `path` if it is a regular file.
fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, HistoryError> {
    regular_file::open_regular(path, options, Links::Refuse).map_err(|error| match error {
        OpenError::NotRegular => HistoryError::NotAFile { path: path.to_path_buf() },
        OpenError::Io(source) => io_error("open", path, source),
    })
}

pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> HistoryError {
    HistoryError::Io { action, path: path.to_path_buf(), source }
}
