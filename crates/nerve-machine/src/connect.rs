//! Connections to one machine, or to all in parallel.

use std::future::Future;
use std::io;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use nerve_api::ErrorKind;
use nerve_client::{ClientError, NerveClient, Reconnect};
use tokio::time::timeout;

use crate::error::MachineError;
use crate::machine::{Machine, Route};
use crate::machines::Machines;

/// Time limit for connecting to a machine that a command names.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum number of machines to which connections are made at the same time.
pub(crate) const PARALLEL: usize = 32;
/// Time by which a connection fails earlier than the request for which it is made, so that its own error is the reason.
const CONNECT_MARGIN: Duration = Duration::from_millis(500);

/// The reply of one of several machines.
#[derive(Debug)]
pub struct MachineReply<T> {
    /// The machine.
    pub machine: Machine,
    /// Its reply, or why there is none.
    pub outcome: Result<T, MachineError>,
    /// Time of the last contact before this one; `None` if there was none.
    pub last_contact: Option<SystemTime>,
}

impl Machines {
    /// Connects to the server of a machine. The connection is not made again when it ends.
    ///
    /// # Errors
    /// The machine is not reachable, rejects the user, or has no running server.
    pub async fn connect(&self, machine: &Machine, limit: Duration) -> Result<NerveClient, MachineError> {
        let client = self.open(machine, limit).await.map_err(|error| error.about(&machine.name))?;
        self.record_contact(machine);
        Ok(client.reconnect(Reconnect::Never))
    }

    /// Asks all machines in parallel, each for at most `limit`, which includes the connection and begins with it. Up to 32 machines
    /// are asked at the same time.
    ///
    /// # Errors
    /// The list of machines is damaged. A machine that cannot be asked is a reply with an error.
    pub async fn query_all<T, F>(
        &self,
        limit: Duration,
        query: impl Fn(Machine, NerveClient) -> F,
    ) -> Result<Vec<MachineReply<T>>, MachineError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let query = &query;
        let replies = self.list()?.into_iter().map(|machine| async move {
            let last_contact = self.last_contact(&machine);
            let request = async {
                let client = self.open(&machine, limit.saturating_sub(CONNECT_MARGIN)).await?;
                self.record_contact(&machine);
                // Another connection takes the time of the first one again, and its own error would be lost.
                Ok(query(machine.clone(), client.reconnect(Reconnect::Never)).await?)
            };
            let outcome = timeout(limit, request).await.unwrap_or_else(|_| Err(no_reply(limit)));
            MachineReply { machine, outcome, last_contact }
        });
        let mut replies: Vec<MachineReply<T>> =
            stream::iter(replies).buffer_unordered(PARALLEL).collect().await;
        replies.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
        Ok(replies)
    }

    async fn open(&self, machine: &Machine, limit: Duration) -> Result<NerveClient, MachineError> {
        Ok(connect_route(self.route(machine, limit)?, limit).await?)
    }
}

/// Connects by a route.
pub(crate) async fn connect_route(route: Route, limit: Duration) -> Result<NerveClient, ClientError> {
    match route {
        Route::Ssh(target) => NerveClient::connect_ssh(*target).await,
        Route::Tls { address, token, tls } => {
            let connecting = NerveClient::connect_tcp(&address, &token, &tls);
            timeout(limit, connecting).await.unwrap_or_else(|_| {
                let action = format!("cannot connect to {address} within {} s", limit.as_secs_f64());
                Err(ClientError::Io { action, source: io::ErrorKind::TimedOut.into() })
            })
        }
    }
}

/// Returns the error of a machine that did not reply in time.
pub(crate) fn no_reply(limit: Duration) -> MachineError {
    let message = format!("no reply within {} s", limit.as_secs());
    MachineError::new(ErrorKind::Timeout, message).hint("check that the machine is on and reachable")
}
