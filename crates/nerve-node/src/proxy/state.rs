//! The state of a node's proxy, and its file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use nerve_proxy::{LogFaults, Proxy, Totals};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ProxySettings;
use super::persist::StoredProxy;
use super::usage::UsageTracker;

/// The state that the clones of a proxy share.
#[derive(Debug)]
pub(super) struct ProxyShared {
    pub(super) id: String,
    /// `None` if the stored state was lost together with the server.
    pub(super) settings: Option<ProxySettings>,
    pub(super) address: Option<SocketAddr>,
    pub(super) token: Option<Token>,
    pub(super) upstream: String,
    pub(super) log: Option<PathBuf>,
    pub(super) log_faults: LogFaults,
    /// Names of the variables set for the program.
    pub(super) variables: Vec<String>,
    pub(super) tracker: Arc<UsageTracker>,
    pub(super) state: Mutex<ProxyState>,
    /// Serialises shutdowns: later callers wait for the first.
    pub(super) shutdown: tokio::sync::Mutex<()>,
    /// The file of the stored state.
    pub(super) file: Option<PathBuf>,
    /// Serialises writes of the file; true once it must not be written any more.
    pub(super) is_closed: Mutex<bool>,
    /// Notified after each request.
    pub(super) call_ended: Arc<Notify>,
    /// Error that keeps the proxy from running.
    pub(super) failure: Option<String>,
}

/// The running proxy, or what it has spent.
#[derive(Debug)]
pub(super) enum ProxyState {
    Running(Proxy),
    /// Ended, with the final totals.
    Ended(Totals),
}

/// The token that a program presents to the proxy.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl ProxyShared {
    /// Returns the totals so far.
    pub(super) fn spent(&self) -> Totals {
        match &*self.state.lock() {
            ProxyState::Running(proxy) => proxy.spent(),
            ProxyState::Ended(spent) => *spent,
        }
    }

    /// Writes the stored state. Blocks.
    pub(super) fn write(&self) -> std::io::Result<()> {
        let is_closed = self.is_closed.lock();
        let (Some(file), Some(settings), Some(address), false) =
            (&self.file, &self.settings, self.address, *is_closed)
        else {
            return Ok(());
        };
        let token = self.token.as_ref().map(|Token(token)| token.clone());
        StoredProxy { settings: settings.clone(), port: address.port(), token, spent: self.spent() }
            .write(file)
    }

    /// Removes the stored state and prevents later writes. Blocks.
    pub(super) fn forget(&self) {
        let mut is_closed = self.is_closed.lock();
        *is_closed = true;
        if let Some(file) = &self.file {
            // An error means that the file is gone already.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for ProxyShared {
    fn drop(&mut self) {
        // Lets the task that stores the totals end.
        self.call_ended.notify_one();
    }
}
