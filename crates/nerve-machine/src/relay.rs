//! A relay to machines for programs that serve others: one connection to each machine, shared by all requests and streams of events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nerve_api::request::Subscribe;
use nerve_api::{EventMessage, EventType, RequestName};
use nerve_client::{ClientError, EventStream, NerveClient};
use nerve_types::activity::TsMs;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::Instant;

use crate::error::MachineError;
use crate::machine::Machine;
use crate::machines::Machines;

/// Time limit for connecting: shorter than that of a page's request, so that the page gets the reason.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after a failed connection within which further requests fail with the same reason.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent requests to one machine. Further ones wait.
const MAX_REQUESTS: usize = 64;
/// Events that are relayed in addition to changes of states.
const MORE_EVENTS: [EventType; 2] = [EventType::NodeActivity, EventType::OutputParsed];

/// Relays requests to the user's machines. A connection is made on demand and ends with its last user.
#[derive(Debug)]
pub struct MachineRelay {
    machines: Machines,
    links: Mutex<HashMap<String, Arc<AsyncMutex<MachineLink>>>>,
}

/// The connection to one machine, or why there is none.
#[derive(Debug, Default)]
struct MachineLink {
    /// The entry of the list to which the rest belongs.
    machine: Machine,
    connection: Weak<MachineConnection>,
    failure: Option<(Instant, MachineError)>,
}

/// A machine of the list, as seen by a relay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayedMachine {
    /// Name of the machine.
    pub machine_name: String,
    /// True while a connection is open, false if the last attempt failed. `None`: nothing needs a connection.
    pub reachable: Option<bool>,
    /// Time of the last contact.
    pub last_contact_at: Option<TsMs>,
    /// Why the last attempt to connect failed.
    pub error: Option<String>,
    /// What helps.
    pub hint: Option<String>,
}

/// An open connection to a machine.
#[derive(Debug)]
pub struct MachineConnection {
    machines: Machines,
    machine: Machine,
    client: NerveClient,
    requests: Semaphore,
    has_ended: AtomicBool,
}

/// Events of a machine that a filter selects.
#[derive(Debug)]
pub struct MachineEvents {
    connection: Arc<MachineConnection>,
    events: EventStream,
    filter: Subscribe,
}

impl MachineRelay {
    /// Creates a relay to the machines of a list, which may change.
    pub fn new(machines: Machines) -> MachineRelay {
        MachineRelay { machines, links: Mutex::default() }
    }

    /// Returns all machines, by name, without connecting to them.
    ///
    /// # Errors
    /// The list is damaged.
    pub fn list(&self) -> Result<Vec<RelayedMachine>, MachineError> {
        Ok(self.machines.list()?.iter().map(|machine| self.describe(machine)).collect())
    }

    /// Checks that a machine is in the list.
    ///
    /// # Errors
    /// It is not, or the list is damaged.
    pub fn check(&self, name: &str) -> Result<(), MachineError> {
        self.machines.find(name).map(drop)
    }

    /// Returns the connection to a machine. Concurrent callers share one attempt.
    ///
    /// # Errors
    /// The machine is not in the list, or the last attempt within 5 seconds has failed.
    pub async fn connect(&self, name: &str) -> Result<Arc<MachineConnection>, MachineError> {
        let machine = self.machines.find(name)?;
        let link = self.link(name);
        let mut link = link.lock().await;
        if link.machine != machine {
            *link = MachineLink { machine: machine.clone(), ..MachineLink::default() };
        }
        if let Some(connection) = link.connection.upgrade().filter(|connection| !connection.has_ended()) {
            return Ok(connection);
        }
        if let Some((_, error)) = link.failure.as_ref().filter(|(at, _)| at.elapsed() < RETRY_PAUSE) {
            return Err(error.clone());
        }
        match MachineConnection::open(&self.machines, machine).await {
            Ok(connection) => {
                link.failure = None;
                link.connection = Arc::downgrade(&connection);
                Ok(connection)
            }
            Err(error) => {
                link.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn link(&self, name: &str) -> Arc<AsyncMutex<MachineLink>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(links.entry(name.to_string()).or_default())
    }

    fn describe(&self, machine: &Machine) -> RelayedMachine {
        let link = self.link(&machine.name);
        // While an attempt is made, its outcome is unknown.
        let link = link.try_lock().ok().filter(|link| link.machine == *machine);
        let is_open = |link: &MachineLink| link.connection.upgrade().is_some_and(|one| !one.has_ended());
        let is_connected = link.as_ref().is_some_and(|link| is_open(link));
        let error = link.as_ref().and_then(|link| Some(link.failure.as_ref()?.1.clone()));
        let reachable = if is_connected { Some(true) } else { error.as_ref().map(|_| false) };
        let (error, hint) = error.map_or((None, None), |error| (Some(error.message), error.hint));
        let last_contact_at = self.machines.last_contact(machine).map(TsMs::from);
        RelayedMachine { machine_name: machine.name.clone(), reachable, last_contact_at, error, hint }
    }
}

impl MachineConnection {
    async fn open(machines: &Machines, machine: Machine) -> Result<Arc<MachineConnection>, MachineError> {
        let client = machines.connect(&machine, CONNECT_TIMEOUT).await?;
        // The filter applies to all streams of the connection.
        let types = EventType::STATE_CHANGES.iter().chain(&MORE_EVENTS).map(ToString::to_string).collect();
        client.subscribe(&Subscribe { types: Some(types), ..Subscribe::default() }).await?;
        let (machines, requests) = (machines.clone(), Semaphore::new(MAX_REQUESTS));
        let has_ended = AtomicBool::new(false);
        Ok(Arc::new(MachineConnection { machines, machine, client, requests, has_ended }))
    }

    /// Sends a request and waits for its reply. There is no time limit.
    ///
    /// # Errors
    /// See [`NerveClient::request_by_name`].
    pub async fn request(&self, name: RequestName, params: Value) -> Result<Value, ClientError> {
        // The semaphore is never closed.
        let _permit = self.requests.acquire().await;
        let reply = self.client.request_by_name(name, params).await;
        if matches!(reply, Err(ClientError::Closed(_) | ClientError::Io { .. } | ClientError::Ssh(_))) {
            self.end();
        }
        reply
    }

    /// Returns the events that `filter` selects, from now on. The field `since` is ignored.
    pub fn events(self: Arc<Self>, filter: Subscribe) -> MachineEvents {
        let events = self.client.events();
        MachineEvents { connection: self, events, filter }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Records that the connection has ended: the next user makes another one.
    fn end(&self) {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            self.machines.record_contact(&self.machine);
        }
    }
}

impl MachineEvents {
    /// Returns the next event; `None` if the connection has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<EventMessage> {
        loop {
            let Some(event) = self.events.next().await else {
                self.connection.end();
                return None;
            };
            if selects(&self.filter, &event) {
                return Some(event);
            }
        }
    }
}

/// Returns true if a filter selects an event. A notice about lost events concerns everyone.
fn selects(filter: &Subscribe, event: &EventMessage) -> bool {
    let is = |wanted: &Option<String>, actual: &Option<String>| wanted.is_none() || wanted == actual;
    let has_type = filter.types.as_ref().is_none_or(|types| types.contains(&event.event_type));
    let is_selected =
        has_type && is(&filter.node_id, &event.node_id) && is(&filter.session_id, &event.session_id);
    is_selected || event.kind() == Some(EventType::EventsDropped)
}

#[cfg(test)]
mod tests {
    use nerve_api::ErrorKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn filter_selects_by_node_session_and_type() {
        let event = |event_type: &str, node: Option<&str>| EventMessage {
            event_type: event_type.to_string(),
            node_id: node.map(str::to_string),
            channel_id: None,
            session_id: Some("night".to_string()),
            data: json!({}),
            emitted_at: TsMs::default(),
            timestamp: None,
            seq: 1,
        };
        let filter = Subscribe {
            node_id: Some("me".to_string()),
            session_id: Some("night".to_string()),
            types: Some(vec!["NODE_READY".to_string()]),
            ..Subscribe::default()
        };
        assert!(selects(&filter, &event("NODE_READY", Some("me"))));
        assert!(selects(&Subscribe::default(), &event("NODE_READY", Some("me"))));
        assert!(!selects(&filter, &event("NODE_READY", Some("other"))));
        assert!(!selects(&filter, &event("NODE_BUSY", Some("me"))));
        let day = Subscribe { session_id: Some("day".to_string()), ..Subscribe::default() };
        assert!(!selects(&day, &event("NODE_READY", Some("me"))));
        assert!(selects(&filter, &event("EVENTS_DROPPED", None)));
    }

    #[tokio::test]
    async fn unreachable_machine_has_a_reason_and_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::new(folder.path(), folder.path());
        let token = folder.path().join("token");
        std::fs::write(&token, "secret").unwrap();
        // Port 1 refuses connections.
        let machine = Machine {
            name: "work".to_string(),
            token_file: Some(token),
            ..Machine::unnamed("tls://127.0.0.1:1")
        };
        machines.add(machine).unwrap();
        let relay = MachineRelay::new(machines.clone());
        assert_eq!(relay.list().unwrap()[0].reachable, None);
        assert_eq!(relay.connect("home").await.unwrap_err().kind, ErrorKind::NotFound);
        let error = relay.connect("work").await.unwrap_err();
        let listed = relay.list().unwrap();
        assert_eq!((listed[0].reachable, listed[0].error.as_ref()), (Some(false), Some(&error.message)));
        assert_eq!(relay.connect("work").await.unwrap_err(), error);
        machines.remove("work").unwrap();
        assert_eq!(relay.connect("work").await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(relay.list().unwrap(), []);
    }
}
