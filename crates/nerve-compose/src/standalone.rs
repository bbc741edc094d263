//! An engine and its client in one process.

use std::io;

use nerve_client::{ClientError, NerveClient};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_server::{InProcess, serve_in_process};

/// An engine in this process and the client that talks to it. When this and all clones of its client are dropped, the nodes are
/// stopped, as long as the runtime lives; [`Standalone::stop`] waits for that.
#[derive(Debug)]
pub struct Standalone {
    client: NerveClient,
    server: InProcess,
}

/// Makes an engine and connects to it, without a socket in any folder. Must be called within a tokio runtime.
///
/// # Errors
/// The system has no more descriptors.
pub fn create_standalone(config: EngineConfig) -> io::Result<Standalone> {
    let (stream, server) = serve_in_process(Engine::new(config))?;
    Ok(Standalone { client: NerveClient::over(stream), server })
}

impl Standalone {
    /// Its client. Clones share the connection.
    pub fn client(&self) -> &NerveClient {
        &self.client
    }

    /// The client, and the server as one that can be waited for.
    pub fn into_parts(self) -> (NerveClient, InProcess) {
        (self.client, self.server)
    }

    /// Stops all nodes and waits until they are gone.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

/// `NerveClient::standalone`, beside `NerveClient::connect` and its like (seed node-refactoring §6.8).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use nerve_client::{ExecuteOptions, NerveClient};
/// use nerve_compose::{StandaloneClient, engine_config};
/// # use nerve_api::request::CreateNode;
/// # use nerve_server::paths::Places;
///
/// # let home = tempfile::tempdir()?;
/// let client = NerveClient::standalone(engine_config("mine", &Places::under(home.path()), None))?;
/// let params = CreateNode { backend: "bash".to_string(), ..CreateNode::new("sh") };
/// let node = client.create_node(&params).await?;
/// let answer = node.execute("echo hello", &ExecuteOptions::default()).await?;
/// assert_eq!(answer.response.text, "hello");
/// client.shutdown(false).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait StandaloneClient: Sized {
    /// A client with an engine of its own in this process. When the last clone of the client goes, its nodes and streams included, the
    /// engine stops its nodes, as long as the runtime lives; [`NerveClient::shutdown`] waits until it has begun. To wait for the end there is
    /// [`create_standalone`]. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::Io`]: the system has no more descriptors.
    fn standalone(config: EngineConfig) -> Result<Self, ClientError>;
}

impl StandaloneClient for NerveClient {
    fn standalone(config: EngineConfig) -> Result<NerveClient, ClientError> {
        let made = create_standalone(config);
        let failed = |source| ClientError::Io { action: "no server in this process".to_string(), source };
        Ok(made.map_err(failed)?.into_parts().0)
    }
}
