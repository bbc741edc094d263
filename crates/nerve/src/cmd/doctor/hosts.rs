//! Checks the files of hosts: registry entries, sockets and recordings. `--fix` makes running hosts create them again.

use std::path::PathBuf;
use std::time::Duration;

use nerve_host::registry::{self, DamagedEntry, Entry, Listing};
use nerve_host::repair::{missing_files, request_entry_repair, request_repair};
use nerve_server::paths::ServerPaths;
use tokio::time::{Instant, sleep};

use super::check::Check;
use crate::out;

/// Time limit for a host to repair its files.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Advice for files that can be repaired.
pub(super) const HINT: &str = "repair it with 'nerve doctor --fix'";

/// Checks that every host can be found. A server does not adopt the node of a host whose entry is damaged.
pub(super) fn check_entries(paths: &ServerPaths) -> Check {
    let Listing { entries, damaged } = registry::list(&paths.data.hosts);
    let summary = format!("{} in {}", entries.len(), paths.data.hosts.display());
    let files: Vec<String> = damaged.iter().map(|entry| entry.path.display().to_string()).collect();
    let damaged = damaged.iter().map(DamagedEntry::to_string).collect();
    Check::new("host entries", summarize(summary, damaged)).essential().hint(&format!(
        "{HINT}; if no host listens there, its agent may still run: look for 'nerve host run' with ps, end it, then \
         remove {}",
        files.join(" ")
    ))
}

/// Checks the sockets and recordings of running hosts.
pub(super) fn check_files(paths: &ServerPaths) -> Check {
    let incomplete = list_incomplete(paths);
    let describe = |(entry, files): &(Entry, Vec<PathBuf>)| {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        format!("host {} has no {}", entry.id, files.join(" and no "))
    };
    let problems = incomplete.iter().map(describe).collect();
    Check::new("host files", summarize("complete".to_string(), problems)).essential().hint(HINT)
}

/// Makes running hosts repair their files, and waits for them. Failures are printed; the checks show what is left.
pub(super) async fn repair(paths: &ServerPaths) {
    let damaged = registry::list(&paths.data.hosts).damaged;
    let incomplete = list_incomplete(paths);
    let runtime = paths.runtime.join("hosts");
    let entries = damaged.iter().map(|entry| {
        let name = entry.path.display().to_string();
        (name, request_entry_repair(entry, &runtime))
    });
    let hosts = incomplete.iter().map(|(entry, _)| (format!("host {}", entry.id), request_repair(entry)));
    let mut is_waiting = false;
    for (name, result) in entries.chain(hosts) {
        match result {
            Ok(()) => is_waiting = true,
            Err(error) => out::warning(format_args!("cannot repair {name}: {error}")),
        }
    }
    let deadline = Instant::now() + REPAIR_TIMEOUT;
    let is_damaged = || {
        let remaining = registry::list(&paths.data.hosts).damaged;
        damaged.iter().any(|entry| remaining.contains(entry))
    };
    let is_incomplete = || incomplete.iter().any(|(entry, _)| !missing_files(entry).is_empty());
    while is_waiting && (is_damaged() || is_incomplete()) && Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the running hosts with missing files.
fn list_incomplete(paths: &ServerPaths) -> Vec<(Entry, Vec<PathBuf>)> {
    let alive = registry::entries(&paths.data.hosts).into_iter().filter(Entry::is_alive);
    alive
        .map(|entry| (missing_files(&entry), entry))
        .filter(|(files, _)| !files.is_empty())
        .map(|(files, entry)| (entry, files))
        .collect()
}

/// Returns the first problem and the number of others, or `summary` if there is none.
pub(super) fn summarize(summary: String, problems: Vec<String>) -> Result<String, String> {
    match problems.as_slice() {
        [] => Ok(summary),
        [only] => Err(only.clone()),
        [first, others @ ..] => Err(format!("{first}, and {} more", others.len())),
    }
}
