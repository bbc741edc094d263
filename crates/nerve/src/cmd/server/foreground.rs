//! `nerve server start --foreground`: serves in this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use nerve_compose::create_mcp_of;
use nerve_engine::snapshot_limit::enforce_snapshot_limit;
use nerve_engine::{Engine, EngineConfig, search};
use nerve_host::registry;
use nerve_node::factory::FactoryConfig;
use nerve_node::proxy::Proxies;
use nerve_node::telemetry::Telemetry;
use nerve_server::error::ServerError;
use nerve_server::paths::ServerPaths;
use nerve_server::server::Server;
use nerve_telemetry::{BoxedLayer, TraceExport};
use nerve_types::os::rlimit;
use tracing_subscriber::{EnvFilter, Layer};

use super::listen;
use super::start_report::StartReport;
use crate::cmd::cluster;
use crate::settings;
use nerve_cli::server::StartArgs;

/// Variable with the token of clients. The server removes it, so that its nodes do not inherit it.
pub(super) const TOKEN: &str = "NERVE_TOKEN";

/// Serves in this process until a stop signal or request.
pub(crate) async fn run(args: &StartArgs) -> Result<()> {
    remove_token_from_env()?;
    let paths = ServerPaths::from_env();
    let log = log_to_stderr(!args.daemon);
    let trace_export =
        TraceExport::from_env(&args.name.get(), Some(log), |problem| tracing::warn!("{problem}"));
    let mut config = listen::config(args.name.get(), paths.clone(), &args.listen)?;
    if !args.daemon {
        listen::warn(&config, &args.listen);
    }
    config.fit(rlimit::raise());
    config.mounts.push(create_mcp_of(&config)?);
    let stop = nerve_server::stop_signal();
    if args.daemon {
        // Detaches from the terminal. Fails only for a process group leader (setsid(2)), when started by hand.
        let _ = rustix::process::setsid();
    }
    let report = |error: ServerError| {
        if args.daemon {
            StartReport::failed(&error).send();
        }
        error
    };
    let server = Server::bind(&config).map_err(report)?;
    let server = server.repair_on_signal().context("cannot handle SIGUSR1")?;
    let hosts = paths.claim_hosts(&config.name).map_err(report)?;
    let engine = Engine::new(engine_config(&config.name, &paths, trace_export.telemetry)?);
    engine.adopt();
    engine.resume_interrupted();
    tokio::spawn(search::keep_up_to_date(engine.subscribe(), paths.data.clone()));
    match settings::load() {
        Ok(settings) => {
            let limit = settings.snapshot_limit.0;
            tokio::spawn(enforce_snapshot_limit(engine.subscribe(), paths.data.clone(), limit));
        }
        // Nothing is removed by a limit that the user may have raised.
        Err(error) => tracing::warn!(%error, "the size of snapshots is not limited"),
    }
    if args.restore {
        engine.restore_in_background();
    }
    let membership = cluster::ServerMembership::start(&paths, &config.name, &engine);
    if args.daemon {
        report_listening(&engine, &paths)?;
    }
    let result = server.run(engine, stop).await;
    // Releases the name before the last spans are sent, so that the next server can start.
    drop(hosts);
    membership.stop().await;
    trace_export.finish().await;
    Ok(result?)
}

/// Returns the settings of a server's engine, which stores everything and whose nodes have hosts.
fn engine_config(server: &str, paths: &ServerPaths, telemetry: Telemetry) -> Result<EngineConfig> {
    let program = crate::current_exe::path()?;
    Ok(EngineConfig {
        nodes: FactoryConfig {
            server: server.to_string(),
            history_dir: Some(paths.data.history.clone()),
            profile_dir: Some(paths.data.profiles.clone()),
            hook_relay: Some(program.clone()),
            hosting: Some(paths.hosting(program)?),
            panes: paths.panes()?,
            proxies: Proxies { folder: Some(paths.data.proxies.clone()), ..Proxies::default() },
        },
        runs_dir: Some(paths.runs()),
        sessions_file: Some(paths.data.sessions_file.clone()),
        conversations: Some(paths.conversations()),
        results_dir: Some(paths.results()),
        data_dirs: Some(paths.data.clone()),
        telemetry,
    })
}

/// Reports to the parent that the server is listening, and redirects standard output to the log.
fn report_listening(engine: &Engine, paths: &ServerPaths) -> Result<()> {
    let damaged = registry::list(&paths.data.hosts).damaged;
    let warnings = engine.warnings().iter().cloned().chain(damaged.iter().map(ToString::to_string));
    StartReport::listening(warnings.collect()).send();
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).context("cannot redirect standard output to the log")
}

/// Re-executes this program without the token in the environment, if it is set. Nodes inherit the environment, and the
/// user's other programs can read it.
fn remove_token_from_env() -> Result<()> {
    if std::env::var_os(TOKEN).is_none() {
        return Ok(());
    }
    let program = crate::current_exe::path()?;
    let error = Command::new(program).args(std::env::args_os().skip(1)).env_remove(TOKEN).exec();
    Err(error).with_context(|| format!("cannot restart without {TOKEN} in the environment: unset it"))
}

/// Returns the log of this process.
fn log_to_stderr(with_colors: bool) -> BoxedLayer {
    let filter = std::env::var("NERVE_LOG").ok().and_then(|filter| EnvFilter::try_new(filter).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info,async_nats=error,rmcp=error"));
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let log = if with_colors { log } else { log.with_ansi(false) };
    log.with_filter(filter).boxed()
}
