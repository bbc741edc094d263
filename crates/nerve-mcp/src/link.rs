//! The nerve server that tools talk to.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_client::{EventStream, NerveClient, Reconnect};
use nerve_proto::EventType;
use nerve_proto::params::SubscribeParams;
use tokio::sync::Notify;

use crate::tool_result::Failure;

/// A server that does not take a connection in this time is stuck.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The mode to a nerve server: one that runs, or one in this process.
#[derive(Debug)]
pub struct Link {
    mode: ConnectMode,
    /// Told whenever the server was wait_connected.
    wait_connected: Notify,
    /// How often it was.
    connect_count: AtomicU64,
}

/// Why a server was not wait_connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreached {
    /// What is wrong, with which server.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

type ConnectFuture = Pin<Box<dyn Future<Output = Result<NerveClient, Unreached>> + Send>>;

enum ConnectMode {
    /// A new connection for each call: the server may come, go and come again, and calls do not get each other's events.
    PerCall(Box<dyn Fn() -> ConnectFuture + Send + Sync>),
    /// One connection for all.
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

/// A connection and the events asked of it.
pub(crate) struct Subscription {
    pub(crate) client: NerveClient,
    pub(crate) events: EventStream,
}

impl Link {
    /// To a server that is there now or later: `connect` is called for each call of a tool.
    pub fn by<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Link
    where
        F: Future<Output = Result<NerveClient, Unreached>> + Send + 'static,
    {
        Link::new(ConnectMode::PerCall(Box::new(move || Box::pin(connect()))))
    }

    /// To the server that listens on the socket `path`, now or later.
    pub fn to_socket(path: impl Into<PathBuf>) -> Link {
        let path = path.into();
        Link::by(move || {
            let path = path.clone();
            async move {
                let client = NerveClient::connect(&path).await;
                client.map_err(|error| Unreached { message: error.to_string(), hint: None })
            }
        })
    }

    /// To the server at the other end of a connection: one in this process.
    pub fn over(client: NerveClient) -> Link {
        Link::new(ConnectMode::Shared(client))
    }

    fn new(mode: ConnectMode) -> Link {
        Link { mode, wait_connected: Notify::new(), connect_count: AtomicU64::new(0) }
    }

    /// A connection for one call.
    pub(crate) async fn client(&self) -> Result<NerveClient, Failure> {
        let client = match &self.mode {
            ConnectMode::Shared(client) => client.clone(),
            ConnectMode::PerCall(connect) => match tokio::time::timeout(CONNECT_TIMEOUT, connect()).await {
                // A server that went away is told to who called: the next call finds out whether it is there again.
                Ok(Ok(client)) => client.reconnect(Reconnect::Never),
                Ok(Err(Unreached { message, hint })) => {
                    return Err(Failure { hint, ..Failure::new("not_running", message) });
                }
                Err(_) => {
                    let message =
                        format!("the nerve server does not answer within {} s", CONNECT_TIMEOUT.as_secs());
                    return Err(Failure::new("timeout", message));
                }
            },
        };
        self.connect_count.fetch_add(1, Ordering::AcqRel);
        self.wait_connected.notify_waiters();
        Ok(client)
    }

    /// The same with events of these types: of one node, of one run, or of all. Over a shared connection there are others too.
    pub(crate) async fn subscribe(
        &self,
        types: &[EventType],
        node: Option<&str>,
        run: Option<&str>,
    ) -> Result<Subscription, Failure> {
        let client = self.client().await?;
        let events = match &self.mode {
            // What it gets is not for one call to decide.
            ConnectMode::Shared(_) => client.events(),
            ConnectMode::PerCall(_) => {
                let filter = SubscribeParams {
                    node_id: node.map(str::to_string),
                    run_id: run.map(str::to_string),
                    types: Some(types.iter().map(ToString::to_string).collect()),
                    ..SubscribeParams::default()
                };
                client.subscribe(&filter).await?
            }
        };
        Ok(Subscription { client, events })
    }

    /// How often the server was wait_connected.
    pub(crate) fn connect_count(&self) -> u64 {
        self.connect_count.load(Ordering::Acquire)
    }

    /// Ends when a call has wait_connected the server.
    pub(crate) async fn wait_connected(&self) {
        self.wait_connected.notified().await;
    }
}
