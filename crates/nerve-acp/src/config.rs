//! The settings of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use nerve_client::NerveClient;

type ConnectFuture = Pin<Box<dyn Future<Output = Result<NerveClient, ConnectError>> + Send>>;

/// Reason why the nerve server could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// Error message with the name of the server.
    pub message: String,
    /// Hint on how to solve the problem.
    pub hint: Option<String>,
}

/// Connects to the nerve server. Each session has its own connection, because a connection has one event filter.
pub struct Connector(Box<dyn Fn() -> ConnectFuture + Send + Sync>);

impl Connector {
    /// Creates a connector that calls `connect` for each connection.
    pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Connector
    where
        F: Future<Output = Result<NerveClient, ConnectError>> + Send + 'static,
    {
        Connector(Box::new(move || Box::pin(connect())))
    }

    pub(crate) fn connect(&self) -> ConnectFuture {
        (self.0)()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Settings of a server.
#[derive(Debug)]
pub struct Config {
    /// Connects to the nerve server.
    pub connector: Connector,
    /// The agent with its arguments; not empty.
    pub agent: Vec<String>,
    /// Agent profile; `None`: detected from the command.
    pub profile: Option<String>,
    /// Session of the nodes on the nerve server; `None`: the default session.
    pub session: Option<String>,
    /// Environment of the agents; `None`: that of the nerve server.
    pub shell_env: Option<BTreeMap<String, String>>,
    /// Latest version of the protocol to use: 1, or 2, a draft.
    pub protocol: u16,
    /// Keeps the nodes running after the client has disconnected.
    pub keep: bool,
}
