//! State shared by all clients of a process.

use std::sync::Arc;

use nerve_machine::Machines;
use nerve_record::store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::link::Link;
use crate::resource_updates::ResourceUpdates;

/// Maximum number of concurrent tool calls of all clients: each one needs a connection to the nerve server.
pub(crate) const MAX_ALL_CALLS: usize = 512;
/// Maximum number of recordings read concurrently: each uses a core and tens of megabytes. Further ones wait.
const MAX_CONCURRENT_READS: usize = 2;

/// Configuration of an MCP server.
#[derive(Debug)]
pub struct Config {
    /// The nerve server with the nodes.
    pub link: Link,
    /// The recordings to offer as resources, if any.
    pub recordings: Option<Store>,
    /// The user's other machines, if clients may use their nodes.
    pub machines: Option<Machines>,
    /// Offers the deprecated tools too.
    pub legacy_tools: bool,
}

/// The connection to the nerve server, the recordings, and limits over all clients.
#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) link: Arc<Link>,
    pub(crate) recordings: Option<Store>,
    pub(crate) machines: Option<Machines>,
    pub(crate) legacy_tools: bool,
    /// Limits concurrent reads of recordings.
    pub(crate) read_permits: Semaphore,
    pub(crate) updates: ResourceUpdates,
    /// Limits concurrent tool calls.
    pub(crate) calls: Semaphore,
}

impl ServerContext {
    /// Creates the state. `disconnected`: cancelled when no client is served any more.
    pub(crate) fn new(config: Config, disconnected: CancellationToken) -> ServerContext {
        let Config { link, recordings, machines, legacy_tools } = config;
        let link = Arc::new(link);
        let updates = ResourceUpdates::new(Arc::clone(&link), disconnected);
        let (read_permits, calls) = (Semaphore::new(MAX_CONCURRENT_READS), Semaphore::new(MAX_ALL_CALLS));
        ServerContext { link, recordings, machines, legacy_tools, read_permits, updates, calls }
    }
}
