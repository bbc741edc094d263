//! `nerve server start`: starts a server in the background or the foreground.
//!
//! The background process is this program with `--foreground --daemon`. Its standard output is a pipe to the parent: one line
//! reports that it is listening, or why it failed. Then it redirects its standard output to the log, which closes the pipe.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::RestoredNode;
use nerve_compose::create_mcp_of;
use nerve_engine::snapshot_limit::enforce_snapshot_limit;
use nerve_engine::{Engine, EngineConfig, search};
use nerve_host::registry;
use nerve_node::factory::FactoryConfig;
use nerve_node::proxy::Proxies;
use nerve_node::telemetry::{TRACEPARENT, TRACESTATE, Telemetry};
use nerve_server::daemon::{Addresses, NameStatus, addresses, holder};
use nerve_server::error::ServerError;
use nerve_server::paths::{ServerPaths, private_directory};
use nerve_server::server::Server;
use nerve_telemetry::{BoxedLayer, TraceExport};
use nerve_types::os::rlimit;
use serde_json::{Value, json};
use tracing_subscriber::{EnvFilter, Layer};

use super::listen;
use super::status::PING_TIMEOUT;
use crate::cmd::cluster;
use crate::cmd::session::{describe_failure, failed_nodes};
use crate::exit::{FAILED, Failure, TIMED_OUT};
use crate::{out, settings};
use nerve_cli::listen::{AccessArgs, ListenArgs};
use nerve_cli::server::StartArgs;

/// Log size in bytes above which a starting server rotates the log. One old log is kept.
const MAX_LOG: u64 = 4 * 1024 * 1024;
/// Port of HTTP if no address is given and the port is free, so that a browser's bookmarks stay valid.
const HTTP_PORT: u16 = 7071;
/// Variable with the token of clients. The server removes it, so that its nodes do not inherit it.
const TOKEN: &str = "NERVE_TOKEN";
/// Time limit of the startup, which normally takes milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts a server in the background and waits until it responds.
pub(crate) async fn in_background(args: &StartArgs) -> Result<()> {
    let name = args.name.get();
    let paths = ServerPaths::from_env();
    let socket = paths.socket(&name)?;
    let config = listen::config(name.clone(), paths.clone(), &args.listen)?;
    let server = match find_running(&paths, &name).await? {
        Some(pid) => {
            let addresses = addresses(&paths, &name)?;
            listen::check_running(&config, &addresses)?;
            StartedServer { server_name: name.clone(), pid, socket, addresses, was_running: true }
        }
        None => {
            listen::warn(&config, &args.listen);
            launch(&name, &paths, &listen::daemon_args(&config), None).await?
        }
    };
    if !args.json {
        server.print()?;
    }
    let restored = if args.restore { restore_nodes(&name).await? } else { Vec::new() };
    if args.json {
        let mut document = server.as_json();
        document["restored"] = json!(restored);
        out::json(&document)?;
    }
    report_restored(restored, args.json)
}

/// Starts a server with HTTP on loopback if it does not run. `http_names`: further host names under which browsers reach it;
/// `machines`: they may use the nodes of other machines. Returns the server's addresses, which lack HTTP if it was already running
/// without it.
pub(crate) async fn ensure_running_with_http(
    name: &str,
    http_names: &[String],
    machines: bool,
) -> Result<Addresses> {
    let paths = ServerPaths::from_env();
    if find_running(&paths, name).await?.is_some() {
        return Ok(addresses(&paths, name)?);
    }
    let launch_at = async |port: u16| {
        let (http, http_name) = (Some((Ipv4Addr::LOCALHOST, port).into()), http_names.to_vec());
        let access = AccessArgs { http_name, ..AccessArgs::default() };
        let listen = ListenArgs { http, access, machines, ..ListenArgs::default() };
        let config = listen::config(name.to_string(), paths.clone(), &listen)?;
        Ok(launch(name, &paths, &listen::daemon_args(&config), None).await?.addresses)
    };
    let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, HTTP_PORT)).is_ok();
    match launch_at(if is_free() { HTTP_PORT } else { 0 }).await {
        // Another program has taken the port meanwhile.
        Err(_) if !is_free() => launch_at(0).await,
        launched => launched,
    }
}

/// A server in the background that responds.
pub(super) struct StartedServer {
    server_name: String,
    pid: u32,
    socket: PathBuf,
    addresses: Addresses,
    /// True if it ran before.
    was_running: bool,
}

impl StartedServer {
    /// Prints the server for people.
    pub(super) fn print(&self) -> Result<()> {
        let action = if self.was_running { "is already running" } else { "started" };
        let StartedServer { server_name, pid, socket, addresses, .. } = self;
        out::line(format_args!("server '{server_name}' {action}, pid {pid}: {}", socket.display()))?;
        let urls = if self.was_running { Vec::new() } else { addresses.urls() };
        urls.iter().try_for_each(|url| out::line(format_args!("listening on {url}")))
    }

    pub(super) fn as_json(&self) -> Value {
        let Addresses { tcp, http, tls, machines } = self.addresses;
        json!({
            "server_name": self.server_name, "pid": self.pid, "socket": self.socket, "tcp": tcp, "http": http,
            "tls": tls, "machines": machines, "was_running": self.was_running,
        })
    }
}

/// Starts the nodes that ran when the server or the machine went down.
async fn restore_nodes(server: &str) -> Result<Vec<RestoredNode>> {
    let client = super::connect(server).await?;
    let restored = out::progress("restoring nodes", client.restore_nodes()).await?;
    client.take_warnings().iter().for_each(|warning| out::warning(out::sanitize(warning)));
    Ok(restored)
}

/// Prints the nodes that were started, unless they are already printed. Fails if one could not be started.
fn report_restored(restored: Vec<RestoredNode>, is_printed: bool) -> Result<()> {
    let mut failed = Vec::new();
    for node in restored {
        let place = match node.session_id.as_str() {
            DEFAULT_SESSION => String::new(),
            session => format!(" of session '{session}'"),
        };
        match node.error {
            None if is_printed => {}
            None => out::line(format_args!("node '{}'{place} started", node.node_id))?,
            Some(error) => {
                failed.push(describe_failure(&node.node_id, &place, &error, node.hint.as_deref()));
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed_nodes("started", failed).into()),
    }
}

/// Returns the process id of a server that runs and responds.
async fn find_running(paths: &ServerPaths, name: &str) -> Result<Option<u32>> {
    let NameStatus::Held(Some(holder)) = holder(paths, name)? else { return Ok(None) };
    let ping = async { super::connect(name).await?.ping().await.map_err(anyhow::Error::from) };
    let responds = tokio::time::timeout(PING_TIMEOUT, ping).await.is_ok_and(|pong| pong.is_ok());
    Ok(responds.then_some(holder.pid))
}

/// Starts the background process with the arguments of its listeners, in `dir`, and waits until it responds.
pub(super) async fn launch(
    name: &str,
    paths: &ServerPaths,
    listen_args: &[OsString],
    dir: Option<&Path>,
) -> Result<StartedServer> {
    let socket = paths.socket(name)?;
    let log_path = paths.log(name)?;
    let (log, log_start) = open_log(&log_path)?;
    let program = crate::current_exe::path()?;
    let mut command = Command::new(program);
    command.args(["server", "start", "--foreground", "--daemon", "--name", name]).args(listen_args);
    if let Some(dir) = dir {
        command.current_dir(dir);
    }
    let mut child = command
        .env_remove(TOKEN)
        // The server's spans must not become part of the trace that starts it.
        .env_remove(TRACEPARENT)
        .env_remove(TRACESTATE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("cannot start the server process")?;
    let status = child.stdout.take().context("the server's output is missing")?;
    let status_task = tokio::task::spawn_blocking(move || first_line(status));
    let Ok(status) = tokio::time::timeout(START_TIMEOUT, out::progress("starting", status_task)).await else {
        let _ = child.kill();
        let message = format!("server '{name}' did not start within {} s", START_TIMEOUT.as_secs());
        return Err(Failure::new(TIMED_OUT, message).hint(format!("see {}", log_path.display())).into());
    };
    let status = status??;
    if let Some(failure) = parse_failure(&status) {
        let _ = child.wait();
        return Err(failure.into());
    }
    if status.is_empty() {
        let exit = child.wait().context("cannot wait for the server")?;
        let tail = log_since(&log_path, log_start);
        let message = format!("server '{name}' exited during startup ({exit})");
        let hint = if tail.is_empty() { format!("see {}", log_path.display()) } else { tail };
        return Err(Failure::new(FAILED, message).hint(hint).into());
    }
    parse_warnings(&status).iter().for_each(|warning| out::warning(out::sanitize(warning)));
    super::connect(name).await?.ping().await.context("the server does not respond")?;
    let addresses = addresses(paths, name)?;
    Ok(StartedServer {
        server_name: name.to_string(),
        pid: child.id(),
        socket,
        addresses,
        was_running: false,
    })
}

/// Serves in this process until a stop signal or request.
pub(crate) async fn in_foreground(args: &StartArgs) -> Result<()> {
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
            notify_parent(&json!({ "error": error.to_string(), "hint": error.hint() }));
        }
        error
    };
    let server = Server::bind(&config).map_err(report)?;
    let server = server.repair_on_signal().context("cannot handle SIGUSR1")?;
    let hosts = paths.claim_hosts(&config.name).map_err(report)?;
    let engine = Engine::new(engine_config(&config.name, &paths, trace_export.telemetry)?);
    engine.adopt();
    engine.resume_interrupted();
    tokio::spawn(search::keep_up_to_date(engine.subscribe(), paths.data_dirs()));
    match settings::load() {
        Ok(settings) => {
            let limit = settings.snapshot_limit.0;
            tokio::spawn(enforce_snapshot_limit(engine.subscribe(), paths.data_dirs(), limit));
        }
        // Nothing is removed by a limit that the user may have raised.
        Err(error) => tracing::warn!(%error, "the size of snapshots is not limited"),
    }
    if args.restore {
        engine.restore_in_background();
    }
    let membership = cluster::ServerMembership::start(&paths, &config.name);
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
            history_dir: Some(paths.history.clone()),
            profile_dir: Some(paths.profiles()),
            hook_relay: Some(program.clone()),
            hosting: Some(paths.hosting(program)?),
            panes: paths.panes()?,
            proxies: Proxies { folder: Some(paths.proxies()), ..Proxies::default() },
        },
        runs_dir: Some(paths.runs()),
        sessions_file: Some(paths.sessions_file()),
        conversations: Some(paths.conversations()),
        results_dir: Some(paths.results()),
        data_dirs: Some(paths.data_dirs()),
        telemetry,
    })
}

/// Reports to the parent that the server is listening, and redirects standard output to the log.
fn report_listening(engine: &Engine, paths: &ServerPaths) -> Result<()> {
    let damaged = registry::list(&paths.hosts()).damaged;
    let warnings = engine.warnings().iter().cloned().chain(damaged.iter().map(ToString::to_string));
    notify_parent(&json!({ "listening": true, "warnings": warnings.collect::<Vec<_>>() }));
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

/// Opens the log for appending. Returns the file and its length.
fn open_log(path: &Path) -> Result<(File, u64)> {
    private_directory(path.parent().unwrap_or(path))?;
    if fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_LOG) {
        let _ = fs::rename(path, path.with_extension("log.old"));
    }
    let open = || {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let len = file.metadata()?.len();
        Ok((file, len))
    };
    open().map_err(|error: io::Error| anyhow::Error::new(error).context(cannot_open(path)))
}

fn cannot_open(path: &Path) -> String {
    format!("cannot open the log {}", path.display())
}

/// Returns the last lines that were logged after offset `start`.
fn log_since(path: &PathBuf, start: u64) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
    let text = String::from_utf8_lossy(&bytes[start..]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn first_line(output: impl io::Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

fn parse_failure(line: &str) -> Option<Failure> {
    let status: Value = serde_json::from_str(line).ok()?;
    let mut failure = Failure::new(FAILED, status.get("error")?.as_str()?);
    failure.hint = status.get("hint").and_then(Value::as_str).map(str::to_string);
    Some(failure)
}

/// Returns the warnings in the status line of a started server.
fn parse_warnings(line: &str) -> Vec<String> {
    let status: Value = serde_json::from_str(line).unwrap_or_default();
    let warnings = status["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str).map(str::to_string).collect()
}

fn notify_parent(message: &Value) {
    // The parent may have exited.
    let _ = writeln!(io::stdout().lock(), "{message}");
}
