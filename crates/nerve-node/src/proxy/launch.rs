//! Starts a node's proxy, with its log.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_api::request::NodeRef;
use nerve_proxy::{
    CallObserver, CallReport, LogConfig, LogFaults, Proxy, ProxyConfig, ProxyError, Secret, Totals,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::persist::StoredProxy;
use super::state::{ProxyShared, ProxyState, Token};
use super::usage::UsageTracker;
use super::{Proxies, ProxySettings, settings};
use crate::error::{EngineError, ErrorKind};
use crate::names::check_name;
use crate::telemetry::record_call;
use nerve_types::files::private_folder;

/// Time that an ending node waits for replies in progress.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The node whose proxy is started, and where its files are.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLaunch<'a> {
    pub(crate) proxies: &'a Proxies,
    pub(crate) server: &'a str,
    /// Includes the session.
    pub(crate) node: &'a NodeRef,
}

/// The identity and the state with which a proxy starts: new, or as an earlier server has stored them.
pub(super) struct ProxyStart<'a> {
    pub(super) id: &'a str,
    pub(super) settings: &'a ProxySettings,
    /// Port to listen on; 0 for any.
    pub(super) port: u16,
    pub(super) token: Option<Token>,
    pub(super) spent: Totals,
}

/// Starts a proxy that listens, with its log.
pub(super) fn start_shared(
    launch: ProxyLaunch<'_>,
    start: ProxyStart<'_>,
) -> Result<ProxyShared, EngineError> {
    let ProxyLaunch { proxies, server, node } = launch;
    let ProxyStart { id, settings, port, token, spent } = start;
    // The names become folders of the log.
    check_name(server, "server")?;
    check_name(node.session_or_default(), "session")?;
    let log = proxies.folder.as_ref().filter(|_| settings.log).map(|folder| log_path(folder, server, node));
    if let Some(folder) = log.as_ref().and_then(|log| log.parent()) {
        private_folder(folder).map_err(|error| write_error(&error, node))?;
    }
    let (tracker, call_ended) = (Arc::new(UsageTracker::default()), Arc::new(Notify::new()));
    let observer = {
        let (tracker, call_ended) = (tracker.clone(), call_ended.clone());
        let node = node.clone();
        CallObserver::new(move |report: &CallReport| {
            tracker.record(report);
            call_ended.notify_one();
            record_call(report, Some(&node), tracker.span(report.turn));
        })
    };
    let log_faults = LogFaults::default();
    let config = ProxyConfig {
        listen: (Ipv4Addr::LOCALHOST, port).into(),
        client_token: token.as_ref().map(|Token(token)| Secret::new(token)),
        node: Some(node.node.clone()),
        turn: tracker.turn.clone(),
        on_call: Some(proxies.on_call.iter().cloned().fold(observer, CallObserver::chain)),
        log: log.as_ref().map(|path| LogConfig { bodies: settings.log_bodies, ..LogConfig::new(path) }),
        log_faults: log_faults.clone(),
        spent,
        shutdown_timeout: SHUTDOWN_TIMEOUT,
        ..settings::config(settings)?
    };
    let upstream = config.upstream.host().to_string();
    let proxy =
        Proxy::start(settings::provider(settings.kind), config).map_err(|error| start_error(&error))?;
    Ok(ProxyShared {
        id: id.to_string(),
        settings: Some(settings.clone()),
        address: Some(proxy.address()),
        token,
        upstream,
        log,
        log_faults,
        variables: Vec::new(),
        tracker,
        state: Mutex::new(ProxyState::Running(proxy)),
        shutdown: tokio::sync::Mutex::default(),
        file: proxies.folder.as_ref().map(|folder| StoredProxy::path(folder, server, id)),
        is_closed: Mutex::new(false),
        call_ended,
        failure: None,
    })
}

/// Builds a proxy that does not run, with the reason.
pub(super) fn failed_proxy(id: &str, settings: Option<ProxySettings>, why: String) -> ProxyShared {
    ProxyShared {
        id: id.to_string(),
        settings,
        address: None,
        token: None,
        upstream: String::new(),
        log: None,
        log_faults: LogFaults::default(),
        variables: Vec::new(),
        tracker: Arc::new(UsageTracker::default()),
        state: Mutex::new(ProxyState::Ended(Totals::default())),
        shutdown: tokio::sync::Mutex::default(),
        // The stored state is kept for a server that can read it.
        file: None,
        is_closed: Mutex::new(false),
        call_ended: Arc::new(Notify::new()),
        failure: Some(why),
    }
}

/// Returns the path of the log. It contains the session, because nodes of two sessions may have the same name.
fn log_path(folder: &Path, server: &str, node: &NodeRef) -> PathBuf {
    let session = node.session_or_default();
    folder.join("log").join(server).join(session).join(format!("{}.jsonl", node.node))
}

fn start_error(error: &ProxyError) -> EngineError {
    let kind = match error {
        ProxyError::Listen { .. } | ProxyError::Log { .. } => ErrorKind::Process,
        _ => ErrorKind::InvalidRequest,
    };
    EngineError::new(kind, format!("the proxy was not started: {error}"))
}

pub(super) fn write_error(error: &std::io::Error, node: &NodeRef) -> EngineError {
    let message =
        format!("the proxy of node '{}' was not started: cannot write its files: {error}", node.node);
    EngineError::process(message)
}
