//! `nerve web`: prints the link that logs a browser in to the web console, and lists and ends web sessions.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_server::web::{CODE_LIFETIME, PATH, WebLogins, WebSession};
use serde_json::json;

use super::local_time::local_time;
use super::qr_code;
use super::server::{is_remote, start};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::web::{WebArgs, WebCommand, WebSessionsCommand};

/// Runs the command.
pub(crate) async fn run(args: WebArgs) -> Result<()> {
    let (server, as_json) = (&args.server.server, args.server.json);
    if is_remote(server) {
        let message = format!("cannot log in to '{server}': it is a network address");
        return Err(Failure::new(USAGE, message).hint("run 'nerve web' on the server's machine").into());
    }
    let logins = WebLogins::new(&ServerPaths::from_env(), server)?;
    match &args.command {
        None => print_link(&args, &logins).await,
        Some(WebCommand::Sessions(sessions)) => match &sessions.command {
            WebSessionsCommand::List => list(&logins, as_json),
            WebSessionsCommand::Revoke { id } => revoke(&logins, id, as_json),
        },
    }
}

/// Prints a link with a new code, and opens it on a desktop.
async fn print_link(args: &WebArgs, logins: &WebLogins) -> Result<()> {
    let server = &args.server.server;
    let host = args.url.as_ref().and_then(|url| url.host()).map(str::to_string);
    let Some(local) = start::ensure_running_with_http(server, host.as_slice()).await?.local_http_url() else {
        let message = format!("server '{server}' is running without HTTP");
        let hint = format!(
            "stop it with 'nerve server stop {server} --keep-nodes' and run 'nerve web' again, which starts it with HTTP; its nodes keep running"
        );
        return Err(Failure::new(FAILED, message).hint(hint).into());
    };
    let login = logins.create_code(args.role)?;
    let base = args.url.as_ref().map_or(local, |url| url.to_string().trim_end_matches('/').to_string());
    // The code is in the fragment, which browsers send to no server.
    let url = format!("{base}{PATH}#code={}", login.code);
    if args.server.json {
        let expires_at = String::from(login.expires_at);
        return out::json(
            &json!({ "server_name": server, "url": url, "role": login.role, "expires_at": expires_at }),
        );
    }
    out::line(&url)?;
    // A loopback address leads a phone to itself.
    if args.url.is_some()
        && std::io::stdout().is_terminal()
        && let Some(code) = qr_code::render(&url)
    {
        out::bytes(code.as_bytes())?;
    }
    let (seconds, role) = (CODE_LIFETIME.as_secs(), login.role);
    out::note(format_args!("the link works once, within {seconds} s, with the role '{role}'"));
    if !args.no_open && args.url.is_none() && has_desktop() && !open(&url) {
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
    // It may run the browser itself, which must outlive this command and its terminal.
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
        let (id, role) = (session.web_session_id.clone(), session.role.to_string());
        let (created, used) = (time(session.created_at), time(session.last_used_at));
        vec![id, role, created, used, session.user_agent.clone()]
    };
    let columns = ["id", "role", "created", "last used", "browser"];
    out::table(&columns, &sessions.iter().map(row).collect::<Vec<_>>())
}

fn revoke(logins: &WebLogins, id: &str, as_json: bool) -> Result<()> {
    let sessions = logins.sessions();
    let matching: Vec<&str> = sessions
        .iter()
        .map(|session| session.web_session_id.as_str())
        .filter(|known| known.starts_with(id))
        .collect();
    let [id] = matching[..] else {
        let (code, problem) = match matching.len() {
            0 => (NOT_FOUND, format!("no web session '{id}'")),
            count => (USAGE, format!("'{id}' is the beginning of {count} web sessions")),
        };
        return Err(Failure::new(code, problem).hint("'nerve web sessions list' prints their ids").into());
    };
    logins.revoke(id)?;
    match as_json {
        true => out::json(&json!({ "web_session_id": id, "revoked": true })),
        false => out::line(format_args!("web session '{id}' ended")),
    }
}
