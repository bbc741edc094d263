//! A relay to machines for programs that serve others: one connection to each machine, shared by all requests and streams of events,
//! and another one for requests that wait.
//!
//! | module | content |
//! |---|---|
//! | `connection` | the connection to a machine: its requests, and the checks that it is alive |
//! | `event_filter` | the events that are relayed, and those that a filter selects |
//! | `event_queue` | events that wait for one reader, with a limit of their size |
//! | `events` | the events of a machine that a filter selects |
//! | `link` | the attempts to connect to a machine, and the pauses between them |
//! | `requests` | limits of concurrent requests, by how long they may take |
//! | `waits` | requests that wait, over a connection that closes to cancel them |

mod connection;
mod event_filter;
mod event_queue;
mod events;
mod link;
mod requests;
mod waits;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use nerve_api::ErrorKind;
use nerve_client::ServerError;
use nerve_types::activity::TsMs;
use serde::Serialize;
use tokio::sync::Semaphore;

pub use self::connection::{MachineConnection, RelayedReply};
pub use self::event_filter::check_filter;
pub use self::events::MachineEvents;
use self::link::{Attempt, MachineLink, Outcome};
use crate::connect::PARALLEL;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::machines::Machines;

/// Relays requests to the user's machines. A connection is made on demand and ends with its last user.
#[derive(Debug)]
pub struct MachineRelay {
    machines: Machines,
    links: Arc<LinkTable>,
    /// Limits the attempts to connect that run at a time.
    attempts: Arc<Semaphore>,
}

/// The links of all machines that were used, by name. Never locked across an await.
#[derive(Debug, Default)]
struct LinkTable(Mutex<HashMap<String, MachineLink>>);

/// A machine of the list, as seen by a relay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayedMachine {
    /// Name of the machine.
    pub machine_name: String,
    /// True while a connection is open, false for a while after a failed attempt. `None`: nothing needs a connection.
    pub reachable: Option<bool>,
    /// Time of the last contact.
    pub last_contact_at: Option<TsMs>,
    /// Why the last attempt to connect failed.
    pub error: Option<String>,
    /// What helps.
    pub hint: Option<String>,
}

/// Why a relayed request failed.
#[derive(Debug)]
pub enum RelayError {
    /// The machine could not be reached, or too many requests to it are in progress.
    Machine(MachineError),
    /// The server there has replied with an error.
    Server(Box<ServerError>),
}

impl LinkTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, MachineLink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome of an attempt to connect to an entry of the list.
    fn record(&self, machine: &Machine, outcome: Outcome) -> Outcome {
        match self.lock().get_mut(&machine.name).filter(|link| link.is_of(machine)) {
            Some(link) => link.record(outcome),
            None => Err(changed_entry_error(machine)),
        }
    }
}

impl MachineRelay {
    /// Creates a relay to the machines of a list, which may change.
    pub fn new(machines: Machines) -> MachineRelay {
        let attempts = Arc::new(Semaphore::new(PARALLEL));
        MachineRelay { machines, links: Arc::default(), attempts }
    }

    /// Returns all machines, by name, without connecting to them.
    ///
    /// # Errors
    /// The list is damaged.
    pub fn list(&self) -> Result<Vec<RelayedMachine>, MachineError> {
        let machines = self.machines.list()?;
        let mut links = self.links.lock();
        for (_, link) in links.extract_if(|_, link| !machines.iter().any(|machine| link.is_of(machine))) {
            link.end();
        }
        Ok(machines.iter().map(|machine| self.describe(machine, links.get(&machine.name))).collect())
    }

    /// Checks that a machine is in the list.
    ///
    /// # Errors
    /// It is not, or the list is damaged.
    pub fn check(&self, name: &str) -> Result<(), MachineError> {
        self.machines.find(name).map(drop)
    }

    /// Returns the connection to a machine. Concurrent callers share one attempt, which ends with the last of them. Up to 32 attempts run
    /// at a time.
    ///
    /// # Errors
    /// The machine is not in the list, or the pause after a failed attempt is not over. The pause is 5 seconds and doubles with each
    /// failure, up to a minute. After a rejected login it is 5 minutes. A change of the entry ends it, and so does a contact by another
    /// command, up to three times.
    pub async fn connect(&self, name: &str) -> Result<Arc<MachineConnection>, MachineError> {
        self.attempt(name)?.await
    }

    /// Returns the outcome of the attempt to connect that is due. The entry of the list is read while the links are locked, so that a late
    /// caller cannot restore an older one.
    fn attempt(&self, name: &str) -> Result<Attempt, MachineError> {
        let mut links = self.links.lock();
        let machine = match self.machines.find(name) {
            Ok(machine) => machine,
            Err(error) => {
                if error.kind == ErrorKind::NotFound
                    && let Some(link) = links.remove(name)
                {
                    link.end();
                }
                return Err(error);
            }
        };
        let link = links.entry(name.to_string()).or_insert_with(|| MachineLink::new(machine.clone()));
        if !link.is_of(&machine) {
            std::mem::replace(link, MachineLink::new(machine.clone())).end();
        }
        let last_contact = self.machines.last_contact(&machine);
        match link.outcome_or_attempt(last_contact) {
            Some(attempt) => Ok(attempt),
            None => Ok(link.start(self.open(machine).boxed())),
        }
    }

    /// Connects to a machine and records the outcome.
    fn open(&self, machine: Machine) -> impl Future<Output = Outcome> + Send + use<> {
        let (machines, links) = (self.machines.clone(), Arc::clone(&self.links));
        let attempts = Arc::clone(&self.attempts);
        async move {
            // The semaphore is never closed.
            let permit = attempts.acquire().await;
            let outcome = MachineConnection::open(&machines, &machine).await;
            drop(permit);
            links.record(&machine, outcome)
        }
    }

    fn describe(&self, machine: &Machine, link: Option<&MachineLink>) -> RelayedMachine {
        let is_connected = link.is_some_and(|link| link.connection().is_some());
        let error = link.filter(|_| !is_connected).and_then(MachineLink::last_error).cloned();
        let reachable = if is_connected { Some(true) } else { error.as_ref().map(|_| false) };
        let (error, hint) = error.map_or((None, None), |error| (Some(error.message), error.hint));
        let last_contact_at = self.machines.last_contact(machine).map(TsMs::from);
        RelayedMachine { machine_name: machine.name.clone(), reachable, last_contact_at, error, hint }
    }
}

/// Returns the error of a connection whose entry in the list was changed.
fn changed_entry_error(machine: &Machine) -> MachineError {
    let message = format!("the entry of machine '{}' was changed or removed", machine.name);
    MachineError::new(ErrorKind::Cancelled, message).hint("see the list: nerve machine list")
}

#[cfg(test)]
mod tests;
