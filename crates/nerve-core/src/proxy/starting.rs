//! How a node's proxy comes up: what its program is told, where its log is, what cannot be.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_proxy::{CallReport, LogConfig, OnCall, Proxy, ProxyConfig, ProxyError, Secret, Spent, Upstream};
use nerve_term::profile::{Profile, ProxyForms};
use tokio::sync::Notify;

use super::kept::{Kept, private_folder};
use super::node::{Inner, Running, Token};
use super::tally::Tally;
use super::{Proxies, ProxyKind, ProxySpec};
use crate::command::NodeRef;
use crate::error::{EngineError, ErrorKind};
use crate::session::{DEFAULT, check_name};
use crate::telemetry::record_call;

/// How long the end of a node waits for replies under way.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// Whose proxy is started, and where things are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starting<'a> {
    pub(crate) proxies: &'a Proxies,
    pub(crate) server: &'a str,
    /// With its session.
    pub(crate) node: &'a NodeRef,
}

/// How the program is told of it. `env` is set for the node, `env_remove` it does not inherit.
pub(super) fn forms_of<'p>(
    profile: &'p Profile,
    spec: &ProxySpec,
    env: &BTreeMap<String, String>,
    env_remove: &[String],
) -> Result<&'p ProxyForms, EngineError> {
    let invalid = |message: String, hint: &str| {
        Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(hint.to_string()))
    };
    let Some(forms) = &profile.proxy else {
        let message = format!(
            "a '{}' node cannot have a proxy: nobody knows how its program is told of one",
            profile.name
        );
        return invalid(
            message,
            "Claude Code can; for others, run `nerve proxy` and set their variables, or write a profile with [proxy]",
        );
    };
    let token = forms.token.as_ref().filter(|_| spec.gives_token());
    if spec.gives_token() && token.is_none() {
        let message = format!(
            "a '{}' node cannot have a proxy with a key of its own: its profile names no variable for the token",
            profile.name
        );
        return invalid(message, "add `token` to [proxy] in the profile");
    }
    if let Some(name) = [Some(&forms.url), token].into_iter().flatten().find(|name| env.contains_key(*name)) {
        return invalid(
            format!("{name} is set for the node, and its proxy sets it too"),
            "leave the variable out, or the proxy; where the proxy sends requests is proxy.base_url",
        );
    }
    let is_inherited = !env_remove.contains(&forms.url);
    let elsewhere = std::env::var_os(&forms.url).filter(|url| is_inherited && goes_elsewhere(url, spec));
    if elsewhere.is_some() {
        // What it says may have a key in it.
        let message = format!(
            "{} is set in the server's environment, and proxy.base_url is not given: its key would go to {}, not to where that variable says",
            forms.url,
            Upstream::ANTHROPIC
        );
        return invalid(
            message,
            "name where requests go as proxy.base_url, or start the server without that variable",
        );
    }
    Ok(forms)
}

/// An agent that passes its own key on would show it to the vendor, and not to the one that its environment says it is for.
fn goes_elsewhere(url: &OsStr, spec: &ProxySpec) -> bool {
    let is_vendor = url.to_str().is_some_and(|url| url.trim_end_matches('/') == Upstream::ANTHROPIC);
    spec.kind == ProxyKind::Anthropic && spec.base_url.is_none() && !url.is_empty() && !is_vendor
}

/// A proxy that listens, with its log.
pub(super) fn open(
    starting: Starting<'_>,
    id: &str,
    spec: &ProxySpec,
    (port, token, spent): (u16, Option<Token>, Spent),
) -> Result<Inner, EngineError> {
    let Starting { proxies, server, node } = starting;
    // They are folders of the log.
    check_name(server, "server")?;
    check_name(node.session.as_deref().unwrap_or(DEFAULT), "session")?;
    let log = proxies.folder.as_ref().filter(|_| spec.log).map(|folder| log_of(folder, server, node));
    if let Some(folder) = log.as_ref().and_then(|log| log.parent()) {
        private_folder(folder).map_err(|error| not_kept(&error, node))?;
    }
    let (tally, passed) = (Arc::new(Tally::default()), Arc::new(Notify::new()));
    let hear = {
        let (tally, passed) = (tally.clone(), passed.clone());
        let (telemetry, node) = (proxies.telemetry.clone(), node.clone());
        OnCall::new(move |report: &CallReport| {
            tally.hear(report);
            passed.notify_one();
            record_call(&telemetry, report, Some(&node));
        })
    };
    let config = ProxyConfig {
        listen: (Ipv4Addr::LOCALHOST, port).into(),
        client_token: token.as_ref().map(|Token(token)| Secret::new(token)),
        node: Some(node.node.clone()),
        turn: tally.turn.clone(),
        on_call: Some(proxies.on_call.iter().cloned().fold(hear, OnCall::and)),
        log: log.as_ref().map(|path| LogConfig { bodies: spec.log_bodies, ..LogConfig::new(path) }),
        spent,
        shutdown_timeout: SHUTDOWN,
        ..spec.config()?
    };
    let upstream = config.upstream.host().to_string();
    let proxy = Proxy::start(spec.kind.provider(), config).map_err(|error| not_started(&error))?;
    Ok(Inner {
        id: id.to_string(),
        spec: Some(spec.clone()),
        address: Some(proxy.address()),
        token,
        upstream,
        log,
        variables: Vec::new(),
        tally,
        running: Mutex::new(Running::Yes(proxy)),
        ending: tokio::sync::Mutex::default(),
        file: proxies.folder.as_ref().map(|folder| Kept::path(folder, server, id)),
        writing: Mutex::new(false),
        passed,
        trouble: None,
    })
}

/// One that does not run, and why.
pub(super) fn gone(id: &str, spec: Option<ProxySpec>, why: String) -> Inner {
    Inner {
        id: id.to_string(),
        spec,
        address: None,
        token: None,
        upstream: String::new(),
        log: None,
        variables: Vec::new(),
        tally: Arc::new(Tally::default()),
        running: Mutex::new(Running::No(Spent::default())),
        ending: tokio::sync::Mutex::default(),
        // What is kept stays for a server that can do better.
        file: None,
        writing: Mutex::new(false),
        passed: Arc::new(Notify::new()),
        trouble: Some(why),
    }
}

/// Nodes of two sessions may have the same name: their logs are two files.
fn log_of(folder: &Path, server: &str, node: &NodeRef) -> PathBuf {
    let session = node.session.as_deref().unwrap_or(DEFAULT);
    folder.join("log").join(server).join(session).join(format!("{}.jsonl", node.node))
}

fn not_started(error: &ProxyError) -> EngineError {
    let kind = match error {
        ProxyError::Listen { .. } | ProxyError::Log { .. } => ErrorKind::Process,
        _ => ErrorKind::InvalidRequest,
    };
    EngineError::new(kind, format!("the proxy was not started: {error}"))
}

pub(super) fn not_kept(error: &std::io::Error, node: &NodeRef) -> EngineError {
    let message =
        format!("the proxy of node '{}' was not started: its files cannot be written: {error}", node.node);
    EngineError::new(ErrorKind::Process, message)
}
