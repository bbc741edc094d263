//! An engine and its client in one process.

use std::io;

use nerve_client::NerveClient;
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
