//! The authentication of one connection, which its requests share.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use nerve_api::ErrorKind;
use nerve_types::connection_limit::ConnectionSlot;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::problem::Problem;
use crate::access::{Credential, wait_for_revocation};
use crate::clients::Clients;

/// A connection and its authentication, shared by all requests on it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionAuth {
    pub(crate) peer: IpAddr,
    slot: Arc<ConnectionSlot>,
    /// Tracks WebSockets, which outlive their HTTP connection, and the tasks of HTTP/2 requests.
    pub(crate) tasks: TaskTracker,
    close_requested: CancellationToken,
    last: Arc<LastCredential>,
}

/// The credential of the last request that had one.
#[derive(Debug, Default)]
struct LastCredential {
    credential: Mutex<Option<Credential>>,
    changed: Notify,
}

impl ConnectionAuth {
    pub(crate) fn new(peer: IpAddr, slot: ConnectionSlot) -> ConnectionAuth {
        ConnectionAuth {
            peer,
            slot: Arc::new(slot),
            tasks: TaskTracker::new(),
            close_requested: CancellationToken::new(),
            last: Arc::default(),
        }
    }

    /// Creates the authentication of the only client of a server.
    #[cfg(test)]
    pub(super) fn for_test() -> (ConnectionAuth, Clients) {
        let (clients, peer) = (Clients::new(1), IpAddr::from([127, 0, 0, 1]));
        let (slot, _) = clients.limiter.accept(peer).unwrap();
        (ConnectionAuth::new(peer, slot), clients)
    }

    /// Returns true if a request on this connection has authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.slot.is_authenticated()
    }

    /// Completes when the connection should accept no further requests: it was closed, or its credential was revoked.
    pub(super) async fn wait_for_close(&self) {
        tokio::select! {
            () = self.close_requested.cancelled() => {}
            () = self.wait_for_revocation() => {}
        }
    }

    /// Completes when the credential is revoked. A proxy may send requests of several web sessions over one connection:
    /// the last one counts.
    async fn wait_for_revocation(&self) {
        loop {
            // Created before the credential is read, so that no change is missed.
            let changed = self.last.changed.notified();
            let current = self.last.credential.lock().clone();
            tokio::select! {
                _ = wait_for_revocation(current) => return,
                () = changed => {}
            }
        }
    }

    /// Records the credential of a request, whose revocation closes the connection.
    pub(super) fn set_credential(&self, credential: &Credential) {
        let mut last = self.last.credential.lock();
        // There is one token, so a client that repeats it need not wake its connection.
        let has_token = |known: &Credential| known.role().is_none() && !known.is_revoked();
        if !(has_token(credential) && last.as_ref().is_some_and(has_token)) {
            *last = Some(credential.clone());
            self.last.changed.notify_waiters();
        }
    }

    /// Makes the connection accept no further requests.
    pub(super) fn close(&self) {
        self.close_requested.cancel();
    }

    /// Records a successful authentication. The first one takes a client slot, and fails if none is free.
    pub(super) fn set_authenticated(&self, clients: &Clients) -> Result<(), Problem> {
        if !self.slot.authenticate() {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, clients.reject()));
        }
        Ok(())
    }
}
