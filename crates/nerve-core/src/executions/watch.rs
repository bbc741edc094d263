//! The executions of a session, watched on a thread of its own: whoever shows them reads no file and waits for none.
//!
//! Nothing is polled. The folder tells of new lines; the system tells when a host has ended, however it did (pidfd_open(2)).

use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::follow::Follow;
use super::states::{Changes, States};
use crate::backend;
use crate::host::registry::{Entry, entries, entry, real};

/// Hosts whose ends are waited for at once; a descriptor each. Of more than that, the end is seen when it is listed.
const MAX_WATCHED: usize = 256;

/// The executions of one session. The thread ends with this.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<io::Result<Changes>>,
}

impl Watch {
    /// Of the session with this recording; `registry` has the entries of hosts.
    pub fn start(recording: &Path, registry: &Path) -> Watch {
        // One that waits to be taken: what changes meanwhile is told at once with the next.
        let (sender, changes) = mpsc::channel(1);
        // A link to a recording has no list beside it.
        let (recording, registry) = (real(recording), registry.to_path_buf());
        let failed = sender.clone();
        let watching = move || {
            let done = runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .and_then(|runtime| runtime.block_on(watch(&recording, registry, &sender)));
            if let Err(error) = done {
                // Nobody is there, or hears it.
                let _ = sender.blocking_send(Err(error));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("executions".into()).spawn(watching) {
            // There is room: it is the first.
            let _ = failed.try_send(Err(error));
        }
        Watch { changes }
    }

    /// Waits for what is new; first comes what is there already, in pieces. May be dropped and called again: nothing is lost. Waits for
    /// ever after an error.
    ///
    /// # Errors
    /// The list cannot be read or watched.
    pub async fn changed(&mut self) -> io::Result<Changes> {
        match self.changes.recv().await {
            Some(changes) => changes,
            None => pending().await,
        }
    }
}

async fn watch(
    recording: &Path,
    registry: PathBuf,
    sender: &mpsc::Sender<io::Result<Changes>>,
) -> io::Result<()> {
    let (mut follow, mut states) = (Follow::brief(recording)?, States::default());
    let mut hosts = Hosts::of(registry);
    states.goes_on = hosts.watch_agent(recording);
    loop {
        let news = follow.news();
        states.read(news, follow.known(), |host| hosts.watch(host));
        if follow.is_full() {
            states.filled();
        }
        tokio::select! {
            permit = sender.reserve(), if states.has_news() => match permit {
                Ok(permit) => permit.send(Ok(states.changes(follow.known()))),
                Err(_gone) => return Ok(()),
            },
            () = sender.closed() => return Ok(()),
            changed = follow.changed() => drop(changed?),
            Some(Ok(end)) = hosts.ends.join_next() => {
                hosts.ended(&end);
                // It lists its end before it ends.
                follow.look()?;
                match end {
                    End::Of(host) => states.lost(&host),
                    End::OfAgent => states.left_alone(follow.known()),
                }
            }
        }
    }
}

/// Who has ended.
enum End {
    /// The host of that id.
    Of(String),
    /// The one whose session it is.
    OfAgent,
}

/// Hosts whose ends are waited for.
struct Hosts {
    registry: PathBuf,
    ends: JoinSet<End>,
    /// Ids of those whose ends are told in `ends`: a list that is read anew names them once more.
    watched: BTreeSet<String>,
}

impl Hosts {
    fn of(registry: PathBuf) -> Hosts {
        Hosts { registry, ends: JoinSet::new(), watched: BTreeSet::new() }
    }

    /// Whether the host of that id is at work. If it is, its end will be told.
    fn watch(&mut self, id: &str) -> bool {
        let found = entry(&self.registry, id);
        found.is_some_and(|entry| match self.watched.contains(id) {
            true => entry.is_alive(),
            false => self.until_its_end(&entry, End::Of(id.to_string())),
        })
    }

    /// This end was told.
    fn ended(&mut self, end: &End) {
        if let End::Of(id) = end {
            self.watched.remove(id);
        }
    }

    /// As [`Hosts::watch`], for the host of the session with this file.
    fn watch_agent(&mut self, recording: &Path) -> bool {
        let writes = |entry: &Entry| entry.is_of(recording) && entry.is_alive();
        let found = entries(&self.registry).into_iter().find(writes);
        found.is_some_and(|entry| self.until_its_end(&entry, End::OfAgent))
    }

    fn until_its_end(&mut self, entry: &Entry, end: End) -> bool {
        let pid = i32::try_from(entry.pid).ok().and_then(Pid::from_raw);
        // The descriptor is taken before it is asked whether that is the host: what it tells is of that process.
        let handle = pid.filter(|_| self.ends.len() < MAX_WATCHED).and_then(|pid| {
            let handle = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
            backend::watch(handle).ok()
        });
        if !entry.is_alive() {
            return false;
        }
        if let Some(handle) = handle {
            if let End::Of(id) = &end {
                self.watched.insert(id.clone());
            }
            self.ends.spawn(async move {
                // Readable when the process has ended; a descriptor that cannot be asked tells nothing.
                if handle.readable().await.is_err() {
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
