//! `nerve host`: lists host processes, stops them and types into them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_commands::clock::local_time_of;
use nerve_engine::recordings;
use nerve_host::connection::Connection;
use nerve_host::protocol::{CHUNK, HostRequest};
use nerve_host::registry::{self, Entry, Listing, entries, entry};
use nerve_host::{CONTROL, launch};
use nerve_record::lookup::{LookupError, Name};
use nerve_server::paths::ServerPaths;
use nerve_types::Origin;
use serde::Serialize;

use crate::exit::{FAILED, Failure, NOT_FOUND, TIMED_OUT};
use crate::out;
use nerve_cli::host::{HostArgs, HostCommand, ListArgs, StopArgs, WriteArgs};

/// Time limit for sending a stop order to a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between checks whether a host has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn run(args: HostArgs) -> Result<()> {
    match args.command {
        HostCommand::Run => launch::serve().context("the host failed"),
        HostCommand::List(args) => list(&args),
        HostCommand::Stop(args) => super::run_single_threaded(super::interruptible(stop(args))),
        HostCommand::Write(args) => super::run_single_threaded(super::interruptible(write(args))),
    }
}

/// Output form of a host.
#[derive(Debug, Serialize)]
struct HostInfo {
    #[serde(rename = "host_id")]
    id: String,
    alive: bool,
    pid: u32,
    child: i32,
    #[serde(rename = "server_name")]
    server: Option<String>,
    #[serde(rename = "session_id")]
    session: Option<String>,
    #[serde(rename = "node_id")]
    node: Option<String>,
    /// The host belongs to 'nerve record'.
    recorder: bool,
    /// Id of the recording, even if none is kept; also accepted by 'nerve attach'.
    recording_id: String,
    command: Vec<String>,
    /// Command without the arguments that nerve added for hooks.
    #[serde(skip)]
    visible_command: Vec<String>,
    cwd: Option<PathBuf>,
    #[serde(rename = "recording_path")]
    recording: Option<PathBuf>,
    /// Snapshot socket: a path or `tcp:HOST:PORT`.
    snapshot_socket: String,
    /// RFC 3339.
    started_at: String,
}

impl HostInfo {
    fn from_entry(entry: &Entry) -> HostInfo {
        let text = |key: &str| entry.label.get(key).and_then(serde_json::Value::as_str).map(str::to_string);
        HostInfo {
            id: entry.id.clone(),
            alive: entry.is_alive(),
            pid: entry.pid,
            child: entry.child,
            server: text("server"),
            session: text("session"),
            node: text("node"),
            recorder: entry.label.get("recorder").and_then(serde_json::Value::as_bool).unwrap_or_default(),
            recording_id: entry.session_id.clone(),
            command: entry.argv.clone(),
            visible_command: entry.requested_argv(),
            cwd: entry.cwd.clone(),
            recording: entry.recording.clone(),
            snapshot_socket: entry.snapshot_socket(),
            started_at: format_time(entry.started),
        }
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let Listing { entries, damaged } = registry::list(&ServerPaths::from_env().data.hosts);
    let hosts: Vec<HostInfo> = entries.iter().map(HostInfo::from_entry).collect();
    if args.json {
        return out::json(&serde_json::json!({ "hosts": hosts, "damaged": damaged }));
    }
    damaged.iter().for_each(out::warning);
    if hosts.is_empty() {
        return out::line("no hosts");
    }
    let row = |host: HostInfo| {
        let owner = match (host.server, host.node) {
            (Some(server), Some(node)) => match host.session {
                Some(session) => format!("{server}/{session}/{node}"),
                None => format!("{server}/{node}"),
            },
            _ if host.recorder => format!("record {}", host.recording_id),
            _ => "-".to_string(),
        };
        let state = if host.alive { "running" } else { "gone" };
        let command = host.visible_command.join(" ");
        vec![
            host.id,
            state.to_string(),
            host.pid.to_string(),
            owner,
            local_time_of(&host.started_at),
            command,
        ]
    };
    let rows: Vec<Vec<String>> = hosts.into_iter().map(row).collect();
    out::table(&["ID", "STATE", "PID", "NODE", "STARTED", "COMMAND"], &rows)
}

async fn stop(args: StopArgs) -> Result<()> {
    let registry = ServerPaths::from_env().data.hosts;
    let hosts = match args.all {
        true => {
            let Listing { entries, damaged } = registry::list(&registry);
            damaged.iter().for_each(out::warning);
            entries
        }
        false => args.ids.iter().map(|id| find_host(id)).collect::<Result<_>>()?,
    };
    let stops = async {
        for host in &hosts {
            stop_host(host).await?;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(args.timeout.0, out::progress("stopping", stops)).await {
        Ok(done) => done?,
        Err(_) => {
            let alive: Vec<&str> =
                hosts.iter().filter(|host| host.is_alive()).map(|host| host.id.as_str()).collect();
            let message = format!("still running after {:?}: {}", args.timeout.0, alive.join(", "));
            return Err(Failure::new(TIMED_OUT, message)
                .hint("try again, or inspect their programs with ps")
                .into());
        }
    }
    hosts.iter().for_each(|host| host.forget(&registry));
    let ids: Vec<&str> = hosts.iter().map(|host| host.id.as_str()).collect();
    if args.json {
        return out::json(&serde_json::json!({ "stopped": ids }));
    }
    out::line(format_args!(
        "stopped {}",
        if ids.is_empty() { "nothing: no hosts".to_string() } else { ids.join(", ") }
    ))
}

async fn stop_host(host: &Entry) -> Result<()> {
    let order = async { Connection::open(&host.runtime.join(CONTROL)).await?.send(&HostRequest::Stop).await };
    let is_sent = tokio::time::timeout(CONNECT_TIMEOUT, order).await.is_ok_and(|result| result.is_ok());
    if !is_sent && host.is_alive() {
        // The socket was removed, as after a logout, or the host is stuck: SIGTERM has the same effect.
        host.signal(rustix::process::Signal::TERM)
            .with_context(|| format!("cannot signal host {}", host.id))?;
    }
    while host.is_alive() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn write(args: WriteArgs) -> Result<()> {
    let host = find_host(&args.id)?;
    let bytes = match args.escape {
        true => nerve_vt::keys::unescape(&args.text)?,
        false => args.text.into_bytes(),
    };
    let opened = Connection::open(&host.runtime.join(CONTROL)).await;
    let unreachable = |error: std::io::Error| {
        Failure::new(FAILED, format!("cannot reach host {}: {error}", host.id))
            .hint("list the hosts: nerve host list")
    };
    let mut connection = opened.map_err(unreachable)?;
    for chunk in bytes.chunks(CHUNK) {
        let order = HostRequest::Input { origin: Origin::Injected, bytes: chunk.to_vec() };
        connection.send(&order).await.map_err(unreachable)?;
    }
    if args.json {
        return out::json(&serde_json::json!({ "host_id": host.id, "written": bytes.len() }));
    }
    Ok(())
}

fn format_time(at_ns: u64) -> String {
    nerve_record::activity::TsMs(at_ns / 1_000_000).iso()
}

/// Finds a host by name, running ones first.
fn find_host(text: &str) -> Result<Entry> {
    let registry = ServerPaths::from_env().data.hosts;
    if let Some(host) = entry(&registry, text) {
        return Ok(host);
    }
    let all = entries(&registry);
    let (running, ended): (Vec<&Entry>, Vec<&Entry>) = all.iter().partition(|host| host.is_alive());
    let lookup = Name::parse(text).and_then(|name| match recordings::find_host(&running, &name, None) {
        Err(LookupError::NotFound { .. }) => recordings::find_host(&ended, &name, None),
        lookup => lookup,
    });
    lookup.cloned().map_err(|error| match error {
        LookupError::Ambiguous { .. } => recordings::lookup_error(error).into(),
        _ => Failure::new(NOT_FOUND, format!("no host '{text}'"))
            .hint("list the hosts: nerve host list")
            .into(),
    })
}
