//! A session of the client: a node of the nerve server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use nerve_client::{ClientError, RemoteNode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rpc_error::{AUTH_REQUIRED, INVALID_REQUEST, RpcError};
use crate::server_error::from_client;

/// Time that an agent has to start before its session is usable.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A session. Its id is that of the node.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) node: RemoteNode,
    pub(crate) cwd: PathBuf,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    /// Cancels the running turn.
    turn: Option<CancellationToken>,
    /// This process started the node, and stops it.
    is_owner: bool,
    /// The client was asked about a dialog, which may still be open.
    has_dialog: bool,
}

/// The running turn of a session. Dropping it ends the turn for the session.
#[derive(Debug)]
pub(crate) struct TurnGuard {
    pub(crate) session: Arc<Session>,
    pub(crate) cancelled: CancellationToken,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.session.state.lock().turn = None;
    }
}

impl Session {
    pub(crate) fn new(node: RemoteNode, cwd: PathBuf, is_owner: bool) -> Session {
        let state = SessionState { is_owner, ..SessionState::default() };
        Session { node, cwd, state: Mutex::new(state) }
    }

    /// Records that this process started the node.
    pub(crate) fn set_owner(&self) {
        self.state.lock().is_owner = true;
    }

    pub(crate) fn id(&self) -> &str {
        self.node.id()
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// A turn is running: a client has to cancel it, or to wait.
    pub(crate) fn begin_turn(self: &Arc<Session>) -> Result<TurnGuard, RpcError> {
        let mut state = self.state.lock();
        if state.turn.is_some() {
            let message = format!("session '{}' is working on a prompt", self.id());
            return Err(RpcError::new(INVALID_REQUEST, message)
                .with("error_type", "busy")
                .with("hint", "wait for the response, or send session/cancel"));
        }
        let cancelled = CancellationToken::new();
        state.turn = Some(cancelled.clone());
        Ok(TurnGuard { session: Arc::clone(self), cancelled })
    }

    /// Returns true if a turn is running.
    pub(crate) fn has_turn(&self) -> bool {
        self.state.lock().turn.is_some()
    }

    /// Cancels the running turn, if there is one.
    pub(crate) fn cancel_turn(&self) {
        if let Some(turn) = &self.state.lock().turn {
            turn.cancel();
        }
    }

    /// Records whether a dialog waits for an answer.
    pub(crate) fn set_dialog(&self, is_open: bool) {
        self.state.lock().has_dialog = is_open;
    }

    /// Returns true if a dialog waits for an answer as far as this process knows.
    pub(crate) fn has_dialog(&self) -> bool {
        self.state.lock().has_dialog
    }

    /// Stops the node, if this process started it.
    pub(crate) async fn close(&self) -> Result<(), RpcError> {
        self.cancel_turn();
        if !self.state.lock().is_owner {
            return Ok(());
        }
        self.node.stop().await.map_err(from_client)
    }

    /// Stops the node after the client has disconnected, unless people can still answer its dialog.
    pub(crate) async fn abandon(&self) {
        // A person may have answered it meanwhile.
        let is_blocked =
            self.has_dialog() && self.node.info().await.is_ok_and(|info| info.state == NodeState::Blocked);
        if is_blocked {
            tracing::warn!("node '{}' keeps running: its dialog waits for an answer", self.id());
        } else if let Err(error) = self.close().await {
            tracing::warn!(?error, "node '{}' was not stopped", self.id());
        }
    }
}

/// Checks that the directory of the client is that of the node.
///
/// # Errors
/// It is not absolute, or another one.
pub(crate) fn check_cwd(cwd: &Path, info: &NodeInfo) -> Result<PathBuf, RpcError> {
    check_absolute(cwd)?;
    let Some(own) = info.metadata.known_text("cwd").map(PathBuf::from) else { return Ok(cwd.to_path_buf()) };
    if is_same_directory(cwd, &own) {
        return Ok(own);
    }
    let message = format!("session '{}' works in {}, not in {}", info.node_id, own.display(), cwd.display());
    Err(RpcError::invalid_params(message).with("hint", "open that folder in the editor"))
}

/// Returns true if two paths name the same directory, also through symbolic links.
pub(crate) fn is_same_directory(one: &Path, other: &Path) -> bool {
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    resolve(one) == resolve(other)
}

/// Checks that a directory is absolute, as the protocol requires.
///
/// # Errors
/// It is relative.
pub(crate) fn check_absolute(cwd: &Path) -> Result<(), RpcError> {
    match cwd.is_absolute() {
        true => Ok(()),
        false => {
            let error = RpcError::invalid_params(format!("cwd must be absolute: {}", cwd.display()));
            Err(error.with("hint", "send the full path of the folder"))
        }
    }
}

/// Waits until the agent of a node that was just started is ready or shows a dialog. A slow agent continues to start.
///
/// # Errors
/// The agent ended, or requires a login.
pub(crate) async fn await_start(node: &RemoteNode) -> Result<(), RpcError> {
    let states = [NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
    let state = match node.wait(&states, Some(START_TIMEOUT)).await {
        Ok(state) => state,
        Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::Timeout => return Ok(()),
        Err(error) => return Err(from_client(error)),
    };
    let info = node.info().await.map_err(from_client)?;
    if state != NodeState::Stopped {
        return check_login(&info);
    }
    let exit = info.metadata.display("exit");
    let message = format!("the agent ended when it was started: {exit}");
    let hint = format!("run '{}' in a terminal", info.metadata.text("command"));
    let screen = node.read(None).await.unwrap_or_default();
    Err(RpcError::of_kind(ErrorKind::Process, message).with("hint", hint).with("screen", screen))
}

/// Returns an error if the agent of a node requires a login.
fn check_login(info: &NodeInfo) -> Result<(), RpcError> {
    if info.state != NodeState::Blocked || info.metadata.text("blocked") != "login" {
        return Ok(());
    }
    let command = info.metadata.text("command");
    Err(RpcError::new(AUTH_REQUIRED, "the agent is not logged in")
        .with("error_type", "authentication_error")
        .with("hint", format!("run '{command}' in a terminal and log in")))
}

/// Describes the session of a node.
pub(crate) fn describe(info: &NodeInfo) -> Value {
    let mut session = json!({ "sessionId": info.node_id, "cwd": info.metadata.text("cwd") });
    if let Some(title) = &info.progress.last_prompt {
        session["title"] = json!(title);
    }
    if let Some(at) = info.progress.state_changed_at {
        session["updatedAt"] = json!(at.iso());
    }
    session
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::NodeMetadata;
    use nerve_api::reply::NodeProgress;

    use super::*;

    fn node(cwd: &str, state: NodeState, blocked: &str) -> NodeInfo {
        let mut metadata = NodeMetadata::default();
        metadata.set("cwd", cwd);
        metadata.set("blocked", blocked);
        let (node_id, kind) = ("n".to_string(), "pty".to_string());
        let progress = NodeProgress::default();
        NodeInfo { node_id, kind, state, persistent: true, approximate: false, progress, metadata }
    }

    #[test]
    fn only_the_directory_of_the_node_is_valid() {
        let info = node("/", NodeState::Ready, "");
        assert_eq!(check_cwd(Path::new("/tmp/.."), &info).unwrap(), PathBuf::from("/"));
        assert!(check_cwd(Path::new("/tmp"), &info).is_err());
        assert!(check_cwd(Path::new("relative"), &info).is_err());
    }

    #[test]
    fn login_dialog_is_an_authentication_error() {
        let code = |state, blocked| check_login(&node("/", state, blocked)).map_err(|error| error.code);
        assert_eq!(code(NodeState::Blocked, "login"), Err(AUTH_REQUIRED));
        assert_eq!(code(NodeState::Blocked, "trust"), Ok(()));
        assert_eq!(code(NodeState::Ready, "login"), Ok(()));
    }
}
