//! The HTTP gate without an engine: the same authentication and limits, with only mounted services behind it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::access::{Authenticator, address};
use crate::clients::Clients;
use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::http::{self, Gate, Mount, ShutdownSignal, Site};
use crate::refusal::NO_DESCRIPTOR;
use crate::tcp::TcpPort;

/// A bound port that is not served yet: clients that connect wait.
#[derive(Debug)]
pub struct GateService {
    port: TcpPort,
    tls: bool,
    authenticator: Authenticator,
    names: Vec<String>,
    mounts: Vec<Mount>,
    max_connections: usize,
}

impl GateService {
    /// Binds `address` with the HTTP settings of `config`: names, token, TLS, connection limit and mounts.
    /// Creates the token if there is none.
    ///
    /// # Errors
    /// Returns an error if the address is taken or needs TLS, or the token or certificate cannot be used.
    pub fn bind(config: &ServerConfig, address: SocketAddr) -> Result<GateService, ServerError> {
        address::check(address, config.tls.is_some(), config.insecure)?;
        config.token.obtain()?;
        Ok(GateService {
            port: TcpPort::bind(config, address, http::PROTOCOLS)?,
            tls: config.tls.is_some(),
            authenticator: Authenticator::new(config.token.clone()),
            names: config.http_names.clone(),
            mounts: config.mounts.clone(),
            max_connections: config.max_connections,
        })
    }

    /// Returns the bound address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the base URL, without a path.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// Serves requests until `stop` completes. Then notifies the services, gives pending responses a moment
    /// and closes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the port cannot be used.
    pub fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), ServerError>> {
        self.run_until(Box::pin(stop))
    }

    /// Boxed and not generic: callers' crates would compile the gate again.
    fn run_until(self, stop: BoxFuture<'static, ()>) -> BoxFuture<'static, Result<(), ServerError>> {
        Box::pin(async move {
            let GateService { port, authenticator, names, mounts, max_connections, .. } = self;
            let clients = Clients::new(max_connections);
            let closing = CancellationToken::new();
            let authenticator = Arc::new(authenticator);
            let gate = Gate::new(clients.clone(), authenticator.clone(), &names, port.address().ip());
            let end = ShutdownSignal::new(closing.clone(), clients.tracker.clone());
            let site = Site::with_mounts_only(gate, &mounts, &end);
            let refusal = http::refusal(NO_DESCRIPTOR);
            let outcome = tokio::select! {
                outcome = port.accept(&clients, refusal, move |client| http::serve(client, site.clone())) => outcome,
                () = authenticator.watch() => Ok(()),
                () = stop => Ok(()),
            };
            closing.cancel();
            Clients::close(&clients.tracker).await;
            outcome
        })
    }
}
