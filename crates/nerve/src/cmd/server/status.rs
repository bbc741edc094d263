//! `nerve server status` and `list`: shows running servers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use nerve_api::reply::Pong;
use nerve_client::NerveClient;
use nerve_server::daemon::{Addresses, NameStatus, addresses, holder, missing_files};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::server::{ListArgs, StatusArgs};

/// Time limit for a server's reply.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// The status of a server.
struct Status {
    name: String,
    socket: PathBuf,
    pid: Option<u32>,
    addresses: Addresses,
    /// A process holds the lock on the name.
    held: bool,
    /// The server's socket was deleted.
    is_unreachable: bool,
    pong: Option<Pong>,
}

/// Shows the status of a server or of all servers.
pub(crate) async fn run(args: &StatusArgs) -> Result<()> {
    let paths = ServerPaths::from_env();
    if args.all {
        return print_all(&paths, args.json).await;
    }
    let name = args.name.get();
    let status = query(&paths, &name).await?;
    if args.json {
        out::json(&status.as_json())?;
    } else if status.held || status.pong.is_some() {
        out::fields(&status.fields())?;
    }
    match (status.pong.is_some(), status.held) {
        (true, _) => Ok(()),
        (false, true) if status.is_unreachable => Err(super::unreachable(&name, &status.socket).into()),
        (false, true) => {
            Err(Failure::new(FAILED, format!("server '{name}' is running but does not respond"))
                .hint(format!("kill it with 'nerve server stop {name} --force'"))
                .into())
        }
        (false, false) => Err(super::not_running(&name).into()),
    }
}

/// Lists the running servers.
pub(crate) async fn list(args: &ListArgs) -> Result<()> {
    print_all(&ServerPaths::from_env(), args.json).await
}

/// Returns the names of the running servers, sorted.
pub(crate) async fn running(paths: &ServerPaths) -> Vec<String> {
    all(paths).await.into_iter().map(|status| status.name).collect()
}

async fn print_all(paths: &ServerPaths, as_json: bool) -> Result<()> {
    let all = all(paths).await;
    if as_json {
        let list: Vec<Value> = all.iter().map(Status::as_json).collect();
        return out::json(&json!({ "servers": list }));
    }
    if all.is_empty() {
        out::note("no server is running; start one with 'nerve server start'");
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|status| {
            let pong = status.pong.clone().unwrap_or_default();
            let pid = status.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let nodes = pong.nodes.to_string();
            vec![status.name.clone(), status.word().to_string(), pid, nodes, pong.version]
        })
        .collect();
    out::table(&["name", "state", "pid", "nodes", "version"], &rows)
}

/// Queries all running servers concurrently.
async fn all(paths: &ServerPaths) -> Vec<Status> {
    let mut queries = tokio::task::JoinSet::new();
    for name in paths.servers() {
        let paths = paths.clone();
        queries.spawn(async move { query(&paths, &name).await });
    }
    let mut all: Vec<Status> = queries
        .join_all()
        .await
        .into_iter()
        .flatten()
        .filter(|status| status.held || status.pong.is_some())
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

async fn query(paths: &ServerPaths, name: &str) -> Result<Status> {
    let socket = paths.socket(name)?;
    let (held, pid) = match holder(paths, name)? {
        NameStatus::Free => (false, None),
        NameStatus::Held(holder) => (true, holder.map(|holder| holder.pid)),
    };
    let ping = async { NerveClient::connect(&socket).await?.ping().await };
    let pong = tokio::time::timeout(PING_TIMEOUT, ping).await.ok().and_then(Result::ok);
    let (addresses, missing) = (addresses(paths, name)?, missing_files(paths, name)?);
    let is_unreachable = !missing.is_empty();
    Ok(Status { name: name.to_string(), socket, pid, addresses, held, is_unreachable, pong })
}

impl Status {
    fn word(&self) -> &'static str {
        match (self.pong.is_some(), self.held) {
            (true, _) => "running",
            (false, true) if self.is_unreachable => "unreachable",
            (false, true) => "silent",
            (false, false) => "stopped",
        }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("name", self.name.clone()),
            ("state", self.word().to_string()),
            ("pid", self.pid.map(|pid| pid.to_string()).unwrap_or_default()),
            ("socket", self.socket.display().to_string()),
        ];
        fields.extend(self.addresses.urls().into_iter().map(|url| ("listens on", url)));
        if let Some(pong) = &self.pong {
            fields.push(("nodes", pong.nodes.to_string()));
            fields.push(("sessions", pong.sessions.to_string()));
            fields.push(("version", pong.version.clone()));
        }
        fields
    }

    fn as_json(&self) -> Value {
        let pong = self.pong.as_ref();
        json!({
            "name": self.name, "state": self.word(), "running": pong.is_some(), "pid": self.pid,
            "socket": self.socket, "tcp": self.addresses.tcp, "http": self.addresses.http, "tls": self.addresses.tls,
            "nodes": pong.map(|pong| pong.nodes),
            "sessions": pong.map(|pong| pong.sessions), "version": pong.map(|pong| &pong.version),
        })
    }
}
