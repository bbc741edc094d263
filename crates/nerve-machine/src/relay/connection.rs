//! The connection to a machine: its requests, and the checks that it is alive.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::request::Subscribe;
use nerve_client::{ClientError, EventStream, NerveClient};
use serde_json::Value;
use tokio::sync::SemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::event_filter::relayed_types;
use super::requests::{RequestClass, RequestLimit};
use super::waits::WaitConnection;
use super::{RelayError, changed_entry_error};
use crate::connect::no_reply;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::machines::Machines;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for connecting and subscribing: shorter than that of a page's request, so that the page gets the reason.
const OPEN_TIMEOUT: Duration = Duration::from_secs(12);
/// Interval of the checks that a machine replies.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time limit for the reply to a check, which may be behind a reply of 16 MiB.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// A reply of a machine. Holds the place of its request, which limits the memory of replies that wait to be sent on.
#[derive(Debug)]
pub struct RelayedReply<'a> {
    /// The reply as JSON text.
    pub json: String,
    _permit: SemaphorePermit<'a>,
}

/// An open connection to a machine.
#[derive(Debug)]
pub struct MachineConnection {
    machines: Machines,
    machine: Machine,
    client: NerveClient,
    limit: RequestLimit,
    waits: WaitConnection,
    /// Why the connection has ended.
    end_reason: OnceLock<MachineError>,
    monitor: AbortHandle,
}

impl Drop for MachineConnection {
    fn drop(&mut self) {
        self.monitor.abort();
    }
}

impl MachineConnection {
    /// Connects to a machine and subscribes to its events.
    pub(super) async fn open(
        machines: &Machines,
        machine: &Machine,
    ) -> Result<Arc<MachineConnection>, MachineError> {
        let connecting = machines.connect(machine, CONNECT_TIMEOUT);
        MachineConnection::start(machines, machine, connecting).await
    }

    /// Subscribes to the events of a machine after the client has connected.
    pub(super) async fn start(
        machines: &Machines,
        machine: &Machine,
        connecting: impl Future<Output = Result<NerveClient, MachineError>>,
    ) -> Result<Arc<MachineConnection>, MachineError> {
        let opening = async {
            let client = connecting.await?;
            // The filter applies to all streams of the connection.
            let filter = Subscribe { types: Some(relayed_types()), ..Subscribe::default() };
            let subscribed = client.subscribe(&filter).await;
            subscribed.map(|_| client).map_err(|error| MachineError::from(error).about(&machine.name))
        };
        let opened = timeout(OPEN_TIMEOUT, opening).await;
        let client = opened.unwrap_or_else(|_| Err(no_reply(OPEN_TIMEOUT).about(&machine.name)))?;
        Ok(Arc::new_cyclic(|connection| MachineConnection {
            machines: machines.clone(),
            machine: machine.clone(),
            client,
            limit: RequestLimit::new(),
            waits: WaitConnection::default(),
            end_reason: OnceLock::new(),
            monitor: tokio::spawn(monitor(Weak::clone(connection))).abort_handle(),
        }))
    }

    /// Sends a request and waits for its reply. There is no time limit, but the request fails with the connection. A wait that is dropped
    /// is cancelled there.
    ///
    /// # Errors
    /// The connection has ended, too many requests are in progress, the parameters are not an object, or the server there replies with
    /// an error.
    pub async fn request(&self, name: RequestName, params: Value) -> Result<RelayedReply<'_>, RelayError> {
        let class = RequestClass::of(name, &params);
        let about = |error: MachineError| RelayError::Machine(error.about(&self.machine.name));
        let permit = self.limit.acquire(class).await.map_err(about)?;
        let reply = match class {
            RequestClass::Wait => {
                let connect = self.machines.connect(&self.machine, CONNECT_TIMEOUT);
                self.waits.request(name, params, connect).await.map_err(RelayError::Machine)?
            }
            RequestClass::Brief | RequestClass::Large | RequestClass::Turn => {
                self.client.request_text(name, params).await
            }
        };
        match reply {
            Ok(json) => Ok(RelayedReply { json, _permit: permit }),
            Err(ClientError::Server(error)) => Err(RelayError::Server(error)),
            Err(error) if class == RequestClass::Wait => Err(about(error.into())),
            Err(error @ ClientError::Protocol(_)) if !self.has_ended() => Err(about(error.into())),
            Err(error) => Err(RelayError::Machine(self.end_with(error))),
        }
    }

    /// Returns the events of the machine that are relayed, from now on.
    pub(super) fn events(&self) -> EventStream {
        self.client.events()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end_reason.get().is_some()
    }

    /// Ends the connection: its requests fail, its streams end, and the next user makes another one. The first reason is kept.
    pub(super) fn end(&self, reason: MachineError) {
        if self.end_reason.set(reason).is_ok() {
            self.client.close();
            self.waits.close();
        }
    }

    /// Ends the connection after an error of its client, and returns why it has ended.
    pub(super) fn end_with(&self, error: ClientError) -> MachineError {
        let error = MachineError::from(error).about(&self.machine.name);
        self.end(error.clone());
        self.end_reason.get().cloned().unwrap_or(error)
    }

    /// Checks that the machine replies, and that its entry in the list is the same. Otherwise ends the connection.
    async fn check(&self) {
        if !self.machines.contains(&self.machine) {
            return self.end(changed_entry_error(&self.machine));
        }
        match timeout(CHECK_TIMEOUT, self.client.ping()).await {
            Ok(Ok(_) | Err(ClientError::Server(_))) => self.machines.record_contact(&self.machine),
            Ok(Err(error)) => drop(self.end_with(error)),
            Err(_) => self.end(no_reply(CHECK_TIMEOUT).about(&self.machine.name)),
        }
    }
}

/// Checks a connection from time to time until it ends.
async fn monitor(connection: Weak<MachineConnection>) {
    let mut checks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        checks.tick().await;
        let Some(connection) = connection.upgrade().filter(|connection| !connection.has_ended()) else {
            return;
        };
        connection.check().await;
    }
}
