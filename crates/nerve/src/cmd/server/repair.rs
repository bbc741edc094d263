//! Makes running servers create deleted files again.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_server::daemon::{NameStatus, holder, missing_files};
use nerve_server::paths::ServerPaths;
use tokio::time::{Instant, sleep};

use crate::exit::{Failure, TIMED_OUT};

/// Time limit for a server to repair its files.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the running servers with missing files, and these files.
pub(crate) fn incomplete(paths: &ServerPaths) -> Vec<(String, Vec<PathBuf>)> {
    let missing = |name: String| (missing_files(paths, &name).unwrap_or_default(), name);
    let all = paths.servers().into_iter().map(missing);
    all.filter(|(files, _)| !files.is_empty()).map(|(files, name)| (name, files)).collect()
}

/// Makes a server create its missing files again, and waits for it.
///
/// # Errors
/// The server is gone, cannot repair its files, or exceeds the time limit.
pub(crate) async fn repair(paths: &ServerPaths, name: &str) -> Result<()> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "its process is unknown");
    let request = match holder(paths, name)? {
        NameStatus::Free => return Ok(()),
        NameStatus::Held(owner) => owner.ok_or_else(unknown).and_then(|owner| owner.request_repair()),
    };
    request.with_context(|| format!("cannot repair server '{name}'"))?;
    let deadline = Instant::now() + REPAIR_TIMEOUT;
    while !missing_files(paths, name)?.is_empty() {
        if Instant::now() >= deadline {
            let message = format!("server '{name}' did not create its socket within {REPAIR_TIMEOUT:?}");
            let hint = format!("see {}", paths.log(name)?.display());
            return Err(Failure::new(TIMED_OUT, message).hint(hint).into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
