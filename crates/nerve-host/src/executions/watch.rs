//! Watches the executions of a session on a thread of its own, so that viewers read no files and never block.
//!
//! The folder is watched for new lines, and the system reports the end of hosts.

use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use crate::registry::{Entry, canonical_path, entries, entry};
use nerve_types::os::ProcessHandle;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::follow::ExecutionFollower;
use super::states::{States, UpdateBatch};

/// Maximum number of hosts whose ends are awaited, with a descriptor each. For other hosts, only a listed end is noticed.
const MAX_WATCHED: usize = 256;

/// Watches the executions of one session. The thread ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<io::Result<UpdateBatch>>,
}

impl Watch {
    /// Starts watching the session of a recording. `registry` is the folder of the hosts' entries.
    pub fn start(recording: &Path, registry: &Path) -> Watch {
        // At most one batch is queued: changes in the meantime are merged into the next.
        let (sender, changes) = mpsc::channel(1);
        // Resolve links: the list is next to the recording itself.
        let (recording, registry) = (canonical_path(recording), registry.to_path_buf());
        let failed = sender.clone();
        let watching = move || {
            let result = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .and_then(|runtime| runtime.block_on(watch(&recording, registry, &sender)));
            if let Err(error) = result {
                // A send error means that the receiver was dropped.
                let _ = sender.blocking_send(Err(error));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("executions".into()).spawn(watching) {
            // This cannot fail: the channel is empty.
            let _ = failed.try_send(Err(error));
        }
        Watch { changes }
    }

    /// Waits for updates, beginning with the current state in batches. Cancel safe. Never returns after an error.
    ///
    /// # Errors
    /// The list cannot be read or watched.
    pub async fn changed(&mut self) -> io::Result<UpdateBatch> {
        match self.changes.recv().await {
            Some(changes) => changes,
            None => pending().await,
        }
    }
}

async fn watch(
    recording: &Path,
    registry: PathBuf,
    sender: &mpsc::Sender<io::Result<UpdateBatch>>,
) -> io::Result<()> {
    let (mut follow, mut states) = (ExecutionFollower::brief(recording)?, States::default());
    let mut hosts = Hosts::new(registry);
    states.agent_alive = hosts.watch_agent(recording);
    loop {
        let diff = follow.take_diff();
        states.apply(diff, follow.known(), |host| hosts.watch(host));
        if follow.is_full() {
            states.on_list_full();
        }
        tokio::select! {
            permit = sender.reserve(), if states.has_updates() => match permit {
                Ok(permit) => permit.send(Ok(states.next_batch(follow.known()))),
                Err(_gone) => return Ok(()),
            },
            () = sender.closed() => return Ok(()),
            changed = follow.changed() => drop(changed?),
            Some(Ok(end)) = hosts.ends.join_next() => {
                hosts.on_reported(&end);
                // The host lists the end before it ends.
                follow.read_new()?;
                match end {
                    HostEnd::Execution(host) => states.on_host_ended(&host),
                    HostEnd::Agent => states.on_agent_ended(follow.known()),
                }
            }
        }
    }
}

/// The end of a host.
enum HostEnd {
    /// The host of an execution, by its id.
    Execution(String),
    /// The host of the session itself.
    Agent,
}

/// The hosts whose ends are awaited.
struct Hosts {
    registry: PathBuf,
    ends: JoinSet<HostEnd>,
    /// Ids of the hosts in `ends`, because a list that is read again names them again.
    watched: BTreeSet<String>,
}

impl Hosts {
    fn new(registry: PathBuf) -> Hosts {
        Hosts { registry, ends: JoinSet::new(), watched: BTreeSet::new() }
    }

    /// Returns true if the host is alive, and then awaits its end.
    fn watch(&mut self, id: &str) -> bool {
        let found = entry(&self.registry, id);
        found.is_some_and(|entry| match self.watched.contains(id) {
            true => entry.is_alive(),
            false => self.await_end(&entry, HostEnd::Execution(id.to_string())),
        })
    }

    /// Records that this end was reported.
    fn on_reported(&mut self, end: &HostEnd) {
        if let HostEnd::Execution(id) = end {
            self.watched.remove(id);
        }
    }

    /// Like [`Hosts::watch`], for the host that writes this recording.
    fn watch_agent(&mut self, recording: &Path) -> bool {
        let writes = |entry: &Entry| entry.belongs_to(recording) && entry.is_alive();
        let found = entries(&self.registry).into_iter().find(writes);
        found.is_some_and(|entry| self.await_end(&entry, HostEnd::Agent))
    }

    fn await_end(&mut self, entry: &Entry, end: HostEnd) -> bool {
        let has_room = self.ends.len() < MAX_WATCHED;
        // Opened before checking the process, so that both refer to the same one.
        let exit = has_room.then(|| ProcessHandle::open(entry.pid)?.into_exit()).and_then(Result::ok);
        if !entry.is_alive() {
            return false;
        }
        if let Some(exit) = exit {
            if let HostEnd::Execution(id) = &end {
                self.watched.insert(id.clone());
            }
            self.ends.spawn(async move {
                // On an error, the end is never reported.
                if exit.wait().await.is_err() {
                    pending::<()>().await;
                }
                end
            });
        }
        true
    }
}

#[cfg(test)]
mod tests;
