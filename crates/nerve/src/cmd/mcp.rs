//! `nerve mcp`: serves Model Context Protocol clients over standard input and output or over HTTP.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_compose::{create_mcp, create_standalone, engine_config};
use nerve_mcp::Config;
use nerve_mcp::http::PATH;
use nerve_mcp::link::{ConnectError, Link};
use nerve_record::store::Store;
use nerve_server::InProcessServer;
use nerve_server::config::ServerConfig;
use nerve_server::gate_service::GateService;
use nerve_server::paths::ServerPaths;
use nerve_types::os::rlimit;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::cmd::server::machines;
use crate::cmd::server::{connect, is_remote, listen};
use crate::exit::{self, Failure};
use crate::out;
use nerve_cli::listen::ListenArgs;
use nerve_cli::mcp::McpArgs;

/// Server name in histories and journals of this process.
const SERVER: &str = "mcp";
/// Time limit for stopping the nodes of this process.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one client until it disconnects, or with --http many clients until the process is stopped.
pub(crate) fn run(args: &McpArgs) -> Result<()> {
    // Standard output carries the protocol, or the address with HTTP, so logs go to stderr.
    let filter = std::env::var("NERVE_LOG").ok().and_then(|filter| EnvFilter::try_new(filter).ok());
    // Over HTTP the SDK logs client errors as warnings, but the clients receive them anyway.
    let default_filter = if args.http.is_some() { "warn,rmcp=error" } else { "warn" };
    let filter = filter.unwrap_or_else(|| EnvFilter::new(default_filter));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    let _ = log.try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let done = runtime.block_on(serve(args));
    // A thread may still block on standard input.
    runtime.shutdown_background();
    done
}

async fn serve(args: &McpArgs) -> Result<()> {
    let stop = nerve_server::stop_signal();
    let paths = ServerPaths::from_env();
    let (source, in_process_server) = source(args, &paths)?;
    let done = match args.http {
        Some(address) => serve_http(args, paths, address, source, stop).await,
        None => {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            nerve_mcp::serve(source.config(), input, output, stop).await.map_err(Into::into)
        }
    };
    if let Some(server) = in_process_server
        && tokio::time::timeout(STOP_TIMEOUT, server.stop(false)).await.is_err()
    {
        out::warning(format_args!("some nodes did not stop within {} s", STOP_TIMEOUT.as_secs()));
    }
    done
}

/// Serves HTTP clients until the process is stopped.
async fn serve_http(
    args: &McpArgs,
    paths: ServerPaths,
    address: SocketAddr,
    source: Source,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let mut config = ServerConfig::new(SERVER, paths);
    config.http = Some(address);
    listen::set_access(&mut config, &args.access);
    config.mounts.push(create_mcp(move || source.config()));
    config.fit(rlimit::raise());
    let gate = GateService::bind(&config, address)?;
    listen::warn(&config, &ListenArgs::default());
    let url = format!("{}{PATH}", gate.url());
    if args.json {
        out::json_line(&json!({
            "url": url,
            "address": gate.address().to_string(),
            "token_file": config.token.path(),
        }))?;
    } else {
        out::line(format_args!("listening on {url}"))?;
        out::note(format_args!("clients need the token in {}", config.token.path().display()));
    }
    Ok(gate.run(stop).await?)
}

/// Source of the nodes and recordings.
struct Source {
    nodes: NodeSource,
    recordings: Option<PathBuf>,
    machines: bool,
    legacy_tools: bool,
}

enum NodeSource {
    /// A server, by name or address.
    Server(String),
    /// The server in this process.
    InProcess(NerveClient),
}

impl Source {
    fn config(&self) -> Config {
        let link = match &self.nodes {
            NodeSource::Server(name) => link_to_server(name.clone()),
            NodeSource::InProcess(client) => Link::over(client.clone()),
        };
        Config {
            link,
            recordings: self.recordings.as_deref().map(Store::new),
            machines: self.machines.then(machines),
            legacy_tools: self.legacy_tools,
        }
    }
}

fn source(args: &McpArgs, paths: &ServerPaths) -> Result<(Source, Option<InProcessServer>)> {
    let (machines, legacy_tools) = (args.machines, args.legacy_tools);
    if args.in_process {
        let (client, server) = start_in_process(paths)?;
        let nodes = NodeSource::InProcess(client);
        let source =
            Source { nodes, recordings: Some(paths.data.recordings.clone()), machines, legacy_tools };
        return Ok((source, Some(server)));
    }
    let is_elsewhere = is_remote(&args.server);
    if !is_elsewhere {
        // Reports an invalid name now instead of at each call.
        paths.socket(&args.server)?;
    }
    // A remote server has its recordings on its own machine.
    let recordings = (!is_elsewhere).then(|| paths.data.recordings.clone());
    let nodes = NodeSource::Server(args.server.clone());
    Ok((Source { nodes, recordings, machines, legacy_tools }, None))
}

/// Connects on demand, because the server may be restarted at any time.
fn link_to_server(server: String) -> Link {
    Link::connecting(move || {
        let server = server.clone();
        async move {
            connect(&server).await.map_err(|error| {
                let Failure { message, hint, .. } = exit::failure(&error);
                ConnectError { message, hint }
            })
        }
    })
}

fn start_in_process(paths: &ServerPaths) -> Result<(NerveClient, InProcessServer)> {
    let config = engine_config(SERVER, paths, crate::current_exe::path().ok());
    let standalone = create_standalone(config).context("cannot start a server in this process")?;
    Ok(standalone.into_parts())
}
