//! `nerve server start`: starts a server in the background.
//!
//! The background process is this program with `--foreground --daemon`. Its standard output is a pipe to the parent, which gets a
//! [`StartReport`]. Then it redirects its standard output to the log, which closes the pipe.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::RestoredNode;
use nerve_node::telemetry::{TRACEPARENT, TRACESTATE};
use nerve_server::daemon::{Addresses, NameStatus, addresses, holder};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use super::foreground::TOKEN;
use super::start_report::StartReport;
use super::status::PING_TIMEOUT;
use super::{listen, log_file};
use crate::cmd::session::{describe_failure, failed_nodes};
use crate::exit::{FAILED, Failure, TIMED_OUT};
use crate::out;
use nerve_cli::listen::{AccessArgs, ListenArgs};
use nerve_cli::server::StartArgs;

/// Port of HTTP if no address is given and the port is free, so that a browser's bookmarks stay valid.
const HTTP_PORT: u16 = 7071;
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
    let (log, log_start) = log_file::open(&log_path)?;
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
    let output = child.stdout.take().context("the server's output is missing")?;
    let reading = tokio::task::spawn_blocking(move || StartReport::read(output));
    let Ok(report) = tokio::time::timeout(START_TIMEOUT, out::progress("starting", reading)).await else {
        let _ = child.kill();
        let message = format!("server '{name}' did not start within {} s", START_TIMEOUT.as_secs());
        return Err(Failure::new(TIMED_OUT, message).hint(format!("see {}", log_path.display())).into());
    };
    let Some(report) = report?? else {
        let exit = child.wait().context("cannot wait for the server")?;
        let tail = log_file::read_since(&log_path, log_start);
        let message = format!("server '{name}' exited during startup ({exit})");
        let hint = if tail.is_empty() { format!("see {}", log_path.display()) } else { tail };
        return Err(Failure::new(FAILED, message).hint(hint).into());
    };
    if let Some(failure) = report.failure() {
        let _ = child.wait();
        return Err(failure.into());
    }
    report.warnings.iter().for_each(|warning| out::warning(out::sanitize(warning)));
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
