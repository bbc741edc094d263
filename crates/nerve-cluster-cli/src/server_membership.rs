//! The membership of a running server.

use nerve_engine::Engine;
use nerve_member::{MemberPaths, serve};
use nerve_server::paths::ServerPaths;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Follows the configuration of the cluster while the server runs.
#[derive(Debug)]
pub struct ServerMembership {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl ServerMembership {
    /// Starts to follow the configuration. `engine` executes the steps of runs. Must be called on a runtime.
    pub fn start(paths: &ServerPaths, server: &str, engine: &Engine) -> ServerMembership {
        let stop = CancellationToken::new();
        let paths = MemberPaths::new(&paths.config, &paths.state);
        let task = tokio::spawn(serve(paths, server.to_string(), engine.clone(), stop.clone()));
        ServerMembership { task, stop }
    }

    /// Ends the membership and releases the lease, which takes at most a few seconds.
    pub async fn stop(self) {
        self.stop.cancel();
        // Fails only if it panicked, which is logged.
        let _ = self.task.await;
    }
}
