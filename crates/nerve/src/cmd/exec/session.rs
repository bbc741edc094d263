//! The session that an execution is a part of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use nerve_core::host::connection::Connection;
use nerve_core::host::registry::{Entry, entries, real};
use nerve_core::host::{CONTROL, UNRECORDED};
use nerve_record::store::Store;
use nerve_server::paths::Places;

use crate::cmd::recording::find_by_id;

/// How long the session's host may take to say how far it is.
const GREETING: Duration = Duration::from_secs(2);

/// The file of the session that is meant: the one that is named, else the one that this runs in. That is its recording, or what stands for
/// one ([`Entry::unrecorded`]).
///
/// # Errors
/// There is no session of the name that was given.
pub(crate) fn recording(named: Option<&str>, places: &Places) -> Result<Option<PathBuf>> {
    if let Some(named) = named {
        return match find_by_id(named) {
            Ok(path) => Ok(Some(real(&path))),
            Err(error) => unrecorded(named, places).map(Some).ok_or(error),
        };
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let around = variable("NERVE_RECORDING").map(PathBuf::from).filter(|path| path.is_file());
    // The file is not there, but its folder is as long as its host.
    let stands = |path: &PathBuf| path.parent().is_some_and(Path::is_dir);
    let around = around.or_else(|| variable(UNRECORDED).map(PathBuf::from).filter(stands));
    let by_session = || Store::new(places.recordings()).find(&variable("NERVE_SESSION_ID")?).ok();
    Ok(around.or_else(by_session).map(|path| real(&path)))
}

/// The only session of that id, or of an id that begins so, that runs and is not recorded.
fn unrecorded(named: &str, places: &Places) -> Option<PathBuf> {
    let running = unrecorded_ones(&entries(&places.hosts()));
    let is_it = |entry: &&Entry| entry.session_id == named || entry.id == named;
    let begins = |entry: &&Entry| !named.is_empty() && entry.session_id.starts_with(named);
    let exactly = running.iter().find(is_it);
    let found = exactly.or_else(|| {
        let mut found = running.iter().filter(begins);
        found.next().filter(|_| found.next().is_none())
    });
    found.and_then(|entry| entry.unrecorded.clone())
}

/// The sessions that run and are not recorded, the newest first.
pub(crate) fn unrecorded_ones(hosts: &[Entry]) -> Vec<Entry> {
    let runs = |entry: &&Entry| entry.unrecorded.is_some() && entry.is_alive();
    hosts.iter().rev().filter(runs).cloned().collect()
}

/// The host of the session with this file, if it is at work.
pub(crate) fn host(recording: &Path, places: &Places) -> Option<Entry> {
    entries(&places.hosts()).into_iter().find(|entry| entry.is_of(recording) && entry.is_alive())
}

/// Output bytes of the session so far.
pub(super) async fn anchor(recording: &Path, places: &Places) -> Option<u64> {
    let control = host(recording, places)?.runtime.join(CONTROL);
    let greeted = tokio::time::timeout(GREETING, Connection::open(&control)).await;
    Some(greeted.ok()?.ok()?.hello.off)
}
