//! The session that an execution is a part of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use nerve_core::host::CONTROL;
use nerve_core::host::connection::Connection;
use nerve_core::host::registry::{Entry, entries};
use nerve_record::store::Store;
use nerve_server::paths::Places;

use crate::cmd::recording::by_id;

/// How long the session's host may take to say how far it is.
const GREETING: Duration = Duration::from_secs(2);

/// The recording of the session that is meant: the one that is named, else the one that this runs in, if that is recorded.
///
/// # Errors
/// There is no recording of the name that was given.
pub(crate) fn recording(named: Option<&str>, places: &Places) -> Result<Option<PathBuf>> {
    if let Some(named) = named {
        return by_id(named).and_then(|path| Ok(Some(std::path::absolute(path)?)));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let around = variable("NERVE_RECORDING").map(PathBuf::from);
    let by_session = || Store::new(places.recordings()).find(&variable("NERVE_SESSION_ID")?).ok();
    Ok(around.filter(|path| path.is_file()).or_else(by_session))
}

/// The host that writes this recording, if it is at work.
pub(crate) fn host(recording: &Path, places: &Places) -> Option<Entry> {
    let same = |entry: &Entry| entry.recording.as_deref() == Some(recording) && entry.is_alive();
    entries(&places.hosts()).into_iter().find(same)
}

/// Output bytes of the session so far.
pub(super) async fn anchor(recording: &Path, places: &Places) -> Option<u64> {
    let control = host(recording, places)?.runtime.join(CONTROL);
    let greeted = tokio::time::timeout(GREETING, Connection::open(&control)).await;
    Some(greeted.ok()?.ok()?.hello.off)
}
