//! `nerve web` and `nerve share`: links to the web console, and its sessions.

mod qr_code;
mod shares;

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Result;
use http::Uri;
use nerve_llm::http_client;
use nerve_server::paths::ServerPaths;
use nerve_server::web::{CODE_LIFETIME, PATH, WebLogins, WebSession};
use serde_json::json;

use super::server::{is_remote, start};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::share::ShareArgs;
use nerve_cli::web::{WebArgs, WebCommand, WebSessionsCommand, WebSharesCommand};
use nerve_commands::clock::local_time;

/// Maximum size of a reply about the server's health in bytes.
const MAX_HEALTH_BYTES: usize = 64 << 10;

/// Runs `nerve web`.
pub(crate) async fn run(args: WebArgs) -> Result<()> {
    let (logins, as_json) = (logins(&args.server.server)?, args.server.json);
    match &args.command {
        None => print_link(&args, &logins).await,
        Some(WebCommand::Sessions(sessions)) => match &sessions.command {
            WebSessionsCommand::List => list(&logins, as_json),
            WebSessionsCommand::Revoke { id } => revoke(&logins, id, as_json),
        },
        Some(WebCommand::Shares(shares)) => match &shares.command {
            WebSharesCommand::List => shares::list(&logins, as_json),
            WebSharesCommand::Revoke { id } => shares::revoke(&logins, id, as_json),
        },
    }
}

/// Runs `nerve share`.
pub(crate) async fn share(args: ShareArgs) -> Result<()> {
    let logins = logins(&args.target.server.server)?;
    shares::create(args, &logins).await
}

/// Returns the logins of a server on this machine.
fn logins(server: &str) -> Result<WebLogins> {
    if is_remote(server) {
        let message = format!("no link to '{server}' can be made: it is a network address");
        return Err(Failure::new(USAGE, message).hint("run the command on the server's machine").into());
    }
    Ok(WebLogins::new(&ServerPaths::from_env(), server)?)
}

/// The beginning of links to a server.
struct Link {
    /// URL without a path.
    base: String,
    /// True if it leads through a tunnel or proxy, so that other devices can use it.
    is_remote: bool,
}

impl Link {
    /// Starts the server with HTTP if it does not run. `url`: the address that browsers use, if it is another one.
    /// `machines`: the page shows the nodes of other machines.
    async fn to_server(server: &str, url: Option<&Uri>, machines: bool) -> Result<Link> {
        let host = url.and_then(|url| url.host()).map(str::to_string);
        let running = start::ensure_running_with_http(server, host.as_slice(), machines).await?;
        let Some(local) = running.local_http_url() else {
            let message = format!("server '{server}' is running without HTTP");
            let hint = format!(
                "stop it with 'nerve server stop {server} --keep-nodes' and try again, which starts it with HTTP; its nodes keep running"
            );
            return Err(Failure::new(FAILED, message).hint(hint).into());
        };
        if machines && !running.machines {
            let message = format!("server '{server}' is running without --machines");
            let hint = format!(
                "stop it with 'nerve server stop {server} --keep-nodes' and repeat this command, which starts it with them; its nodes keep running"
            );
            return Err(Failure::new(FAILED, message).hint(hint).into());
        }
        if let Some(host) = url.and_then(Uri::authority) {
            check_host(server, &local, host.as_str()).await?;
        }
        let base = url.map_or(local, |url| url.to_string().trim_end_matches('/').to_string());
        Ok(Link { base, is_remote: url.is_some() })
    }

    /// Prints a link, on a terminal also as a QR code unless its address is loopback, which would lead a phone to itself.
    fn print(&self, url: &str) -> Result<()> {
        out::line(url)?;
        match qr_code::render(url).filter(|_| self.is_remote && std::io::stdout().is_terminal()) {
            Some(code) => out::bytes(code.as_bytes()),
            None => Ok(()),
        }
    }
}

/// Checks that a server accepts browsers that know it by `host`.
async fn check_host(server: &str, local: &str, host: &str) -> Result<()> {
    let request = http::Request::get(format!("{local}/health")).header(http::header::HOST, host);
    let response = http_client::send(request.body(Default::default())?, MAX_HEALTH_BYTES).await;
    // A server with a certificate of its own cannot be queried this way.
    if response.is_ok_and(|response| response.status() == http::StatusCode::FORBIDDEN) {
        let name = host.split(':').next().unwrap_or(host);
        let message = format!("server '{server}' does not accept the host '{name}'");
        let hint = format!(
            "stop it with 'nerve server stop {server} --keep-nodes' and repeat this command, which starts it for this host; its nodes keep running"
        );
        return Err(Failure::new(FAILED, message).hint(hint).into());
    }
    Ok(())
}

/// Prints a link with a new code, and opens it on a desktop.
async fn print_link(args: &WebArgs, logins: &WebLogins) -> Result<()> {
    let server = &args.server.server;
    let link = Link::to_server(server, args.url.as_ref(), args.machines).await?;
    let login = logins.create_code(args.role)?;
    // The code is in the fragment, which browsers send to no server.
    let url = format!("{}{PATH}#code={}", link.base, login.code);
    if args.server.json {
        let expires_at = String::from(login.expires_at);
        return out::json(
            &json!({ "server_name": server, "url": url, "role": login.role, "expires_at": expires_at }),
        );
    }
    link.print(&url)?;
    let (seconds, role) = (CODE_LIFETIME.as_secs(), login.role);
    out::note(format_args!("the link works once, within {seconds} s, with the role '{role}'"));
    if !args.no_open && !link.is_remote && has_desktop() && !open(&url) {
        out::warning("no browser could be opened: open the link yourself");
    }
    Ok(())
}

fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens a URL in the browser of the desktop. Returns false if that failed.
fn open(url: &str) -> bool {
    let mut command = Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    // The opener may run the browser itself, which must outlive this command and its terminal.
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().is_ok()
}

fn list(logins: &WebLogins, as_json: bool) -> Result<()> {
    let sessions = logins.sessions();
    if as_json {
        return out::json(&json!({ "sessions": sessions }));
    }
    if sessions.is_empty() {
        out::note("no browser is logged in; 'nerve web' prints a link");
    }
    let row = |session: &WebSession| {
        let time = |at: nerve_types::activity::TsMs| local_time(at.seconds());
        let share = session.share.as_ref().map(|node| format!(" of {}/{}", node.session_id, node.node_id));
        let (id, role) =
            (session.web_session_id.clone(), format!("{}{}", session.role, share.unwrap_or_default()));
        let (created, used) = (time(session.created_at), time(session.last_used_at));
        let notifications = session.notifications.as_ref().map_or_else(String::new, ToString::to_string);
        vec![id, role, created, used, notifications, session.user_agent.clone()]
    };
    let columns = ["id", "role", "created", "last used", "notifications", "browser"];
    out::table(&columns, &sessions.iter().map(row).collect::<Vec<_>>())
}

fn revoke(logins: &WebLogins, id: &str, as_json: bool) -> Result<()> {
    let ids = logins.sessions().into_iter().map(|session| session.web_session_id);
    let id = select_id(ids, id, "web session", "nerve web sessions list")?;
    logins.revoke(&id)?;
    match as_json {
        true => out::json(&json!({ "web_session_id": id, "revoked": true })),
        false => out::line(format_args!("web session '{id}' ended")),
    }
}

/// Returns the only id that begins with `prefix`. `list`: the command that prints the ids.
fn select_id(ids: impl Iterator<Item = String>, prefix: &str, kind: &str, list: &str) -> Result<String> {
    let mut matching: Vec<String> = ids.filter(|known| known.starts_with(prefix)).collect();
    if matching.len() == 1 {
        return Ok(matching.remove(0));
    }
    let (code, problem) = match matching.len() {
        0 => (NOT_FOUND, format!("no {kind} '{prefix}'")),
        count => (USAGE, format!("'{prefix}' is the beginning of {count} {kind}s")),
    };
    Err(Failure::new(code, problem).hint(format!("'{list}' prints their ids")).into())
}
