//! The session that an execution belongs to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use nerve_engine::recordings;
use nerve_host::connection::Connection;
use nerve_host::registry::{Entry, canonical_path, entries};
use nerve_host::{CONTROL, UNRECORDED};
use nerve_server::paths::ServerPaths;

/// Time limit for the session's host to answer.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the file of the session `name`, otherwise of the enclosing one: its recording, or its stand-in
/// ([`Entry::unrecorded`]).
///
/// # Errors
/// There is no session of this name.
pub(crate) fn recording(name: Option<&str>, paths: &ServerPaths) -> Result<Option<PathBuf>> {
    if let Some(name) = name {
        let session = recordings::find_session(&paths.data, name)?;
        return Ok(session.path.map(|path| if session.is_recorded { canonical_path(&path) } else { path }));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let enclosing = variable("NERVE_RECORDING").map(PathBuf::from).filter(|path| path.is_file());
    // The file does not exist, but its folder does while the host is alive.
    let has_folder = |path: &PathBuf| path.parent().is_some_and(Path::is_dir);
    let enclosing = enclosing.or_else(|| variable(UNRECORDED).map(PathBuf::from).filter(has_folder));
    let by_session = || recordings::find(&paths.data, &variable("NERVE_SESSION_ID")?).ok();
    Ok(enclosing.or_else(by_session).map(|path| canonical_path(&path)))
}

/// Returns the running host of the session with this file.
pub(crate) fn find_host(recording: &Path, paths: &ServerPaths) -> Option<Entry> {
    entries(&paths.data.hosts).into_iter().find(|entry| entry.belongs_to(recording) && entry.is_alive())
}

/// Returns the session's output offset in bytes.
pub(super) async fn output_offset(recording: &Path, paths: &ServerPaths) -> Option<u64> {
    let control = find_host(recording, paths)?.runtime.join(CONTROL);
    let result = tokio::time::timeout(HELLO_TIMEOUT, Connection::open(&control)).await;
    Some(result.ok()?.ok()?.hello.off)
}
