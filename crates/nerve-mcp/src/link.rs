//! The nerve server that tools talk to.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_api::EventType;
use nerve_api::request::Subscribe;
use nerve_client::{EventStream, NerveClient, Reconnect};
use tokio::sync::Notify;

use crate::outcome::Failure;

/// A server that does not take a connection in this time is stuck.
const PATIENCE: Duration = Duration::from_secs(15);

/// The way to a nerve server: one that runs, or one in this process.
#[derive(Debug)]
pub struct Link {
    way: Way,
    /// Told whenever the server was reached.
    reached: Notify,
    /// How often it was.
    times: AtomicU64,
}

/// Why a server was not reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreached {
    /// What is wrong, with which server.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

type Connecting = Pin<Box<dyn Future<Output = Result<NerveClient, Unreached>> + Send>>;

enum Way {
    /// A new connection for each call: the server may come, go and come again, and calls do not get each other's events.
    Each(Box<dyn Fn() -> Connecting + Send + Sync>),
    /// One connection for all.
    Shared(NerveClient),
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Each(_) => "Each",
            Way::Shared(_) => "Shared",
        })
    }
}

/// A connection and the events asked of it.
pub(crate) struct Listening {
    pub(crate) client: NerveClient,
    pub(crate) events: EventStream,
}

impl Link {
    /// To a server that is there now or later: `connect` is called for each call of a tool.
    pub fn by<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Link
    where
        F: Future<Output = Result<NerveClient, Unreached>> + Send + 'static,
    {
        Link::new(Way::Each(Box::new(move || Box::pin(connect()))))
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
        Link::new(Way::Shared(client))
    }

    fn new(way: Way) -> Link {
        Link { way, reached: Notify::new(), times: AtomicU64::new(0) }
    }

    /// A connection for one call.
    pub(crate) async fn client(&self) -> Result<NerveClient, Failure> {
        let client = match &self.way {
            Way::Shared(client) => client.clone(),
            Way::Each(connect) => match tokio::time::timeout(PATIENCE, connect()).await {
                // A server that went away is told to who called: the next call finds out whether it is there again.
                Ok(Ok(client)) => client.reconnect(Reconnect::Never),
                Ok(Err(Unreached { message, hint })) => {
                    return Err(Failure { hint, ..Failure::new("not_running", message) });
                }
                Err(_) => {
                    let message = format!("the nerve server does not answer within {} s", PATIENCE.as_secs());
                    return Err(Failure::new("timeout", message));
                }
            },
        };
        self.times.fetch_add(1, Ordering::AcqRel);
        self.reached.notify_waiters();
        Ok(client)
    }

    /// The same with events of these types: of one node, of one run, or of all. Over a shared connection there are others too.
    pub(crate) async fn listening(
        &self,
        types: &[EventType],
        node: Option<&str>,
        run: Option<&str>,
    ) -> Result<Listening, Failure> {
        let client = self.client().await?;
        let events = match &self.way {
            // What it gets is not for one call to decide.
            Way::Shared(_) => client.events(),
            Way::Each(_) => {
                let filter = Subscribe {
                    node_id: node.map(str::to_string),
                    run_id: run.map(str::to_string),
                    types: Some(types.iter().map(ToString::to_string).collect()),
                    ..Subscribe::default()
                };
                client.subscribe(&filter).await?
            }
        };
        Ok(Listening { client, events })
    }

    /// How often the server was reached.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Acquire)
    }

    /// Ends when a call has reached the server.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }
}
