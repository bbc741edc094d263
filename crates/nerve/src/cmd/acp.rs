//! `nerve acp`: serves an editor that speaks the Agent Client Protocol.

use anyhow::{Context, Result};
use nerve_acp::{Config, ConnectError, Connector};
use nerve_cli::acp::AcpArgs;
use nerve_host::environment::read_variables;
use tokio::io::{stdin, stdout};
use tracing_subscriber::EnvFilter;

use crate::cmd::server::LocalServer;
use crate::exit;

/// Serves one client until it disconnects.
pub(crate) fn run(args: AcpArgs) -> Result<()> {
    // Standard output carries the protocol.
    let filter = EnvFilter::try_from_env("NERVE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = log.with_ansi(false).try_init();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let AcpArgs { server, session, profile, protocol, keep, agent } = args;
    let connector = Connector::new(move || {
        let server = server.clone();
        async move {
            let result = LocalServer::connect_or_start(&server, &mut |_| {}).await;
            result.map(LocalServer::into_client).map_err(|error| {
                let failure = exit::failure(&error);
                ConnectError { message: failure.message, hint: failure.hint }
            })
        }
    });
    let shell_env = Some(read_variables());
    let config = Config { connector, agent, profile, session, shell_env, protocol, keep };
    let service = async { nerve_acp::serve(config, stdin(), stdout(), nerve_server::stop_signal()).await };
    let result = runtime.block_on(service);
    // A thread may still block on standard input.
    runtime.shutdown_background();
    Ok(result?)
}
