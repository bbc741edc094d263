//! `nerve mcp`: tools and resources for clients of the Model Context Protocol, over standard input and output.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_compose::{create_standalone, engine_config};
use nerve_mcp::Config;
use nerve_mcp::link::{Link, Unreached};
use nerve_record::store::Store;
use nerve_server::InProcess;
use nerve_server::paths::Places;
use tracing_subscriber::EnvFilter;

use crate::cli::mcp::McpArgs;
use crate::cmd::server::{connect, is_remote};
use crate::exit::Failure;
use crate::out;

/// What histories and journals call the server in this process.
const SERVER: &str = "mcp";
/// Nodes of this process get this long to end.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Serves one client until it leaves or the process is told to end.
pub(crate) fn run(args: &McpArgs) -> Result<()> {
    // Standard output belongs to the protocol, to the last byte.
    let filter = std::env::var("NERVE_LOG").ok().and_then(|filter| EnvFilter::try_new(filter).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    let _ = log.try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let done = runtime.block_on(serve(args));
    // A thread may wait for standard input, which nobody need ever close.
    runtime.shutdown_background();
    done
}

async fn serve(args: &McpArgs) -> Result<()> {
    let stop = nerve_server::stop_signal();
    let places = Places::from_env();
    let (link, here) = if args.in_process {
        let (client, server) = serve_here(&places)?;
        (Link::over(client), Some(server))
    } else {
        if !is_remote(&args.server) {
            // A name that cannot be one is said here, and not at each call.
            places.socket(&args.server)?;
        }
        (to_server(args.server.clone()), None)
    };
    // Those of a server elsewhere are elsewhere.
    let ours = args.in_process || !is_remote(&args.server);
    let config = Config { link, recordings: ours.then(|| Store::new(places.recordings())) };
    let done = nerve_mcp::serve(config, tokio::io::stdin(), tokio::io::stdout(), stop).await;
    if let Some(server) = here
        && tokio::time::timeout(END_PATIENCE, server.stop(false)).await.is_err()
    {
        out::warning(format_args!("some nodes did not end within {} s", END_PATIENCE.as_secs()));
    }
    Ok(done?)
}

/// The server may be started, stopped and started again meanwhile.
fn to_server(server: String) -> Link {
    Link::by(move || {
        let server = server.clone();
        async move {
            connect(&server).await.map_err(|error| {
                let Failure { message, hint, .. } = Failure::from_error(&error);
                Unreached { message, hint }
            })
        }
    })
}

fn serve_here(places: &Places) -> Result<(NerveClient, InProcess)> {
    let config = engine_config(SERVER, places, std::env::current_exe().ok());
    let here = create_standalone(config).context("cannot talk to the server in this process")?;
    Ok(here.into_parts())
}
