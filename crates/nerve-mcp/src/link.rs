//! The connection to the nerve server.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_api::reply::ErrorDetails;
use nerve_api::request::Subscribe;
use nerve_api::{ErrorKind, EventType};
use nerve_client::{EventStream, NerveClient, Reconnect};
use tokio::sync::Notify;

use crate::tool_result::Failure;

/// Time within which a server must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A link to a nerve server, in another process or in this one.
#[derive(Debug)]
pub struct Link {
    mode: ConnectMode,
    /// Notified on each connection.
    connected: Notify,
    /// Number of connections made.
    connect_count: AtomicU64,
}

/// Reason why a server could not be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectError {
    /// Error message with the name of the server.
    pub message: String,
    /// Hint on how to solve the problem.
    pub hint: Option<String>,
}

type ConnectFuture = Pin<Box<dyn Future<Output = Result<NerveClient, ConnectError>> + Send>>;

enum ConnectMode {
    /// A new connection per call: the server may be restarted, and calls do not receive each other's events.
    PerCall(Box<dyn Fn() -> ConnectFuture + Send + Sync>),
    /// One connection for all calls.
    Shared(NerveClient),
}

impl fmt::Debug for ConnectMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectMode::PerCall(_) => "PerCall",
            ConnectMode::Shared(_) => "Shared",
        })
    }
}

/// A client with a stream of events.
pub(crate) struct Subscription {
    pub(crate) client: NerveClient,
    pub(crate) events: EventStream,
}

impl Link {
    /// Creates a link to a server that may start later: `connect` is called for each tool call.
    pub fn connecting<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Link
    where
        F: Future<Output = Result<NerveClient, ConnectError>> + Send + 'static,
    {
        Link::new(ConnectMode::PerCall(Box::new(move || Box::pin(connect()))))
    }

    /// Creates a link to the server on the socket `path`, which may start later.
    pub fn to_socket(path: impl Into<PathBuf>) -> Link {
        let path = path.into();
        Link::connecting(move || {
            let path = path.clone();
            async move {
                let client = NerveClient::connect(&path).await;
                client.map_err(|error| ConnectError { message: error.to_string(), hint: None })
            }
        })
    }

    /// Creates a link over an existing connection, for a server in this process.
    pub fn over(client: NerveClient) -> Link {
        Link::new(ConnectMode::Shared(client))
    }

    fn new(mode: ConnectMode) -> Link {
        Link { mode, connected: Notify::new(), connect_count: AtomicU64::new(0) }
    }

    /// Connects for one call.
    pub(crate) async fn client(&self) -> Result<NerveClient, Failure> {
        let client = match &self.mode {
            ConnectMode::Shared(client) => client.clone(),
            ConnectMode::PerCall(connect) => match tokio::time::timeout(CONNECT_TIMEOUT, connect()).await {
                // A lost connection is reported to the caller; the next call connects again.
                Ok(Ok(client)) => client.reconnect(Reconnect::Never),
                Ok(Err(ConnectError { message, hint })) => {
                    let details = ErrorDetails { hint, ..ErrorDetails::default() };
                    return Err(Failure::with_details("not_running", message, details));
                }
                Err(_) => {
                    let message = format!(
                        "connecting to the nerve server timed out after {} s",
                        CONNECT_TIMEOUT.as_secs()
                    );
                    return Err(Failure::new(ErrorKind::Timeout, message));
                }
            },
        };
        self.connect_count.fetch_add(1, Ordering::AcqRel);
        self.connected.notify_waiters();
        Ok(client)
    }

    /// Connects and subscribes to events of these types: of one node, of one run, or all. A shared connection
    /// delivers other events too.
    pub(crate) async fn subscribe(
        &self,
        types: &[EventType],
        node: Option<&str>,
        run: Option<&str>,
    ) -> Result<Subscription, Failure> {
        let client = self.client().await?;
        let events = match &self.mode {
            // One call must not change the subscription of others.
            ConnectMode::Shared(_) => client.events(),
            ConnectMode::PerCall(_) => {
                let filter = Subscribe {
                    node_id: node.map(str::to_string),
                    run_id: run.map(str::to_string),
                    types: Some(types.iter().map(ToString::to_string).collect()),
                    ..Subscribe::default()
                };
                client.subscribe(&filter).await?
            }
        };
        Ok(Subscription { client, events })
    }

    /// Returns the number of connections made so far.
    pub(crate) fn connect_count(&self) -> u64 {
        self.connect_count.load(Ordering::Acquire)
    }

    /// Waits for the next connection made by a call.
    pub(crate) async fn wait_connected(&self) {
        self.connected.notified().await;
    }
}
