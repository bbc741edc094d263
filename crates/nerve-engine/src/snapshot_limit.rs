//! Keeps the snapshot store within its limit while a server runs.

use std::time::Duration;

use crate::data_dirs::DataDirs;
use crate::thread::run_in_thread;
use nerve_api::event::{Event, EventKind};
use nerve_host::snapshot_retention::trim_snapshots;
use nerve_node::events::wait_for;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep_until};

/// Minimum time between two checks: each reads the metadata of all files in the store.
const INTERVAL: Duration = Duration::from_secs(600);

/// Removes the oldest unneeded copies when a server starts and after snapshots, until the events end. `limit`: bytes.
pub async fn enforce_snapshot_limit(events: Receiver<Event>, dirs: DataDirs, limit: u64) {
    repeat_after_snapshots(events, || trim(dirs.clone(), limit)).await;
}

/// Calls `check` at once, and again after events that may have stored files, at most once per interval.
async fn repeat_after_snapshots<F: Future<Output = ()>>(mut events: Receiver<Event>, check: impl Fn() -> F) {
    loop {
        let earliest = Instant::now() + INTERVAL;
        check().await;
        if !next_snapshot(&mut events).await {
            return;
        }
        sleep_until(earliest).await;
    }
}

/// Trims the store on a thread, for which the runtime does not wait at its end.
async fn trim(dirs: DataDirs, limit: u64) {
    let work = move || {
        trim_snapshots(&dirs.snapshots, &dirs.hosts, &dirs.branches, limit, false);
        Ok(())
    };
    if let Err(error) = run_in_thread("snapshot-limit", work).await {
        tracing::warn!(%error, "the snapshot store is not checked");
    }
}

/// Waits for an event after which the store may have grown. Returns false when the events end.
async fn next_snapshot(events: &mut Receiver<Event>) -> bool {
    // The end of a session has a snapshot, too.
    let is_snapshot =
        |kind: &EventKind| matches!(kind, EventKind::SnapshotTaken { .. } | EventKind::NodeStopped { .. });
    wait_for(events, is_snapshot).await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nerve_api::value::StopCause;
    use nerve_types::activity::TsMs;
    use tokio::sync::broadcast;

    use super::*;

    fn event(kind: EventKind) -> Event {
        Event { kind, node_id: None, session_id: None, emitted_at: TsMs(1), seq: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn store_is_checked_at_start_and_after_snapshots() {
        let (sender, events) = broadcast::channel(8);
        let (begun, checks) = (Instant::now(), Cell::new(Vec::new()));
        let stopped = || event(EventKind::NodeStopped { reason: String::new(), cause: StopCause::Exited });
        let check = || {
            let mut times = checks.take();
            times.push(begun.elapsed());
            if times.len() == 1 {
                for event in [event(EventKind::NodeRemoved {}), stopped(), stopped()] {
                    sender.send(event).unwrap();
                }
            }
            checks.set(times);
            std::future::ready(())
        };
        let repeated = repeat_after_snapshots(events, check);
        let end = 2 * INTERVAL - Duration::from_secs(1);
        assert!(tokio::time::timeout(end, repeated).await.is_err(), "the events have not ended");
        assert_eq!(checks.take(), [Duration::ZERO, INTERVAL]);
    }

    #[tokio::test]
    async fn checks_end_with_the_events() {
        let (sender, events) = broadcast::channel(1);
        drop(sender);
        let checks = Cell::new(0);
        let check = || {
            checks.set(checks.get() + 1);
            std::future::ready(())
        };
        repeat_after_snapshots(events, check).await;
        assert_eq!(checks.get(), 1);
    }
}
