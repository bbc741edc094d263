//! Servers that run in this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nerve_engine::{Engine, EngineConfig};
use nerve_server::access::token::TokenFile;
use nerve_server::config::ServerConfig;
use nerve_server::error::ServerError;
use nerve_server::server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running server. Dropping it stops the server; [`RunningServer::stop`] waits for the end.
#[derive(Debug)]
pub struct RunningServer {
    socket: PathBuf,
    tcp: Option<SocketAddr>,
    http: Option<SocketAddr>,
    token: TokenFile,
    task: JoinHandle<Result<(), ServerError>>,
    stop: DropGuard,
}

/// Starts a server on its Unix socket, and on TCP and HTTP if configured. Must be called within a tokio runtime.
///
/// # Errors
/// See [`Server::bind`].
pub fn create_socket_server(
    config: &ServerConfig,
    engine: EngineConfig,
) -> Result<RunningServer, ServerError> {
    let server = Server::bind(config)?;
    let stop = CancellationToken::new();
    Ok(RunningServer {
        socket: config.paths.socket(&config.name)?,
        tcp: server.tcp_address(),
        http: server.http_address(),
        token: config.token.clone(),
        task: tokio::spawn(server.run(Engine::new(engine), stop.clone().cancelled_owned())),
        stop: stop.drop_guard(),
    })
}

/// Starts a server with HTTP at `address` (port 0: any free port) in addition to its Unix socket. Must be called within a tokio runtime.
///
/// # Errors
/// See [`Server::bind`]: an address other than loopback requires TLS.
pub fn create_http_server(
    config: &ServerConfig,
    address: SocketAddr,
    engine: EngineConfig,
) -> Result<RunningServer, ServerError> {
    create_socket_server(&ServerConfig { http: Some(address), ..config.clone() }, engine)
}

impl RunningServer {
    /// Returns the path of the server's Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the TCP address, if the server listens on TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Returns the HTTP address, if the server listens for HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Returns the token for clients over TCP and HTTP.
    pub fn token(&self) -> &TokenFile {
        &self.token
    }

    /// Waits for the end of the server, which a client's request or a socket error causes.
    ///
    /// # Errors
    /// A socket failed.
    pub async fn ended(self) -> Result<(), ServerError> {
        // Dropping the guard would stop the server.
        let RunningServer { task, stop: _stop, .. } = self;
        outcome(task).await
    }

    /// Stops all nodes, notifies the clients, and waits for the end.
    ///
    /// # Errors
    /// A socket failed.
    pub async fn stop(self) -> Result<(), ServerError> {
        let RunningServer { task, stop, .. } = self;
        drop(stop);
        outcome(task).await
    }
}

async fn outcome(task: JoinHandle<Result<(), ServerError>>) -> Result<(), ServerError> {
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "the server failed");
        Ok(())
    })
}
