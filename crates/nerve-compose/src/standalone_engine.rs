//! An engine and its client in one process.

use std::io;

use nerve_client::{ClientError, NerveClient};
use nerve_engine::{Engine, EngineConfig};
use nerve_server::{InProcessServer, serve_in_process};

/// An engine in this process and its client. When this and all clones of the client are dropped, the nodes are stopped while the runtime
/// lives; [`Standalone::stop`] waits for that.
#[derive(Debug)]
pub struct Standalone {
    client: NerveClient,
    server: InProcessServer,
}

/// Creates an engine and connects to it without a socket file. Must be called within a tokio runtime.
///
/// # Errors
/// The system is out of file descriptors.
pub fn create_standalone(config: EngineConfig) -> io::Result<Standalone> {
    let (stream, server) = serve_in_process(Engine::new(config))?;
    Ok(Standalone { client: NerveClient::over(stream), server })
}

impl Standalone {
    /// Returns the client. Clones share the connection.
    pub fn client(&self) -> &NerveClient {
        &self.client
    }

    /// Returns the client, and the server as a handle to wait on.
    pub fn into_parts(self) -> (NerveClient, InProcessServer) {
        (self.client, self.server)
    }

    /// Stops all nodes and waits until they have ended.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

/// Adds `NerveClient::standalone` to the constructors of [`NerveClient`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use nerve_client::NerveClient;
/// use nerve_compose::{StandaloneClient, engine_config};
/// # use nerve_api::request::CreateNode;
/// # use nerve_api::value::BackendKind;
/// # use nerve_server::paths::ServerPaths;
///
/// # let home = tempfile::tempdir()?;
/// let client = NerveClient::standalone(engine_config("mine", &ServerPaths::under(home.path()), None))?;
/// let params = CreateNode { backend: BackendKind::Bash, ..CreateNode::new("sh") };
/// let node = client.create_node(&params).await?;
/// let answer = node.execute("echo hello").await?;
/// assert_eq!(answer.response.text, "hello");
/// client.shutdown(false).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait StandaloneClient: Sized {
    /// Creates a client with its own engine in this process. When the last clone of the client is dropped, including its nodes and
    /// streams, the engine stops its nodes while the runtime lives. [`NerveClient::shutdown`] waits until that has begun; to wait for the
    /// end, use [`create_standalone`]. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::Io`]: the system is out of file descriptors.
    fn standalone(config: EngineConfig) -> Result<Self, ClientError>;
}

impl StandaloneClient for NerveClient {
    fn standalone(config: EngineConfig) -> Result<NerveClient, ClientError> {
        let standalone = create_standalone(config);
        let io_error = |source| ClientError::Io { action: "no server in this process".to_string(), source };
        Ok(standalone.map_err(io_error)?.into_parts().0)
    }
}
