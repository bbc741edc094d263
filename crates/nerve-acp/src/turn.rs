//! A prompt: its events, its cancellation and its stop reason.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{ResultInfo, TurnResponse};
use nerve_api::request::{ExecuteInput, Seconds, Subscribe};
use nerve_api::value::{NodeState, ResultStatus};
use nerve_api::{ErrorKind, EventKind, EventMessage, EventType};
use nerve_client::{ClientError, EventStream, RemoteNode};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::peer::Peer;
use crate::permission::{self, Permission};
use crate::rpc_error::{INTERNAL_ERROR, RpcError};
use crate::session::TurnGuard;
use crate::turn_updates::TurnUpdates;
use crate::types::{SessionUpdate, StopReason};

/// Time limit of a turn. A person in an editor cancels a turn, so it only bounds forgotten ones.
pub(crate) const TURN_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Events of the node that matter for a turn.
const EVENTS: [EventType; 7] = [
    EventType::OutputChunk,
    EventType::NodeActivity,
    EventType::NodeBlocked,
    EventType::NodeBusy,
    EventType::NodeReady,
    EventType::NodeSuspended,
    EventType::ResultReady,
];

/// Texts in errors of agents that stand for a stop reason of the protocol.
const KNOWN_ERRORS: [(&str, StopReason); 2] =
    [("output token maximum", StopReason::MaxTokens), ("violate our Usage Policy", StopReason::Refusal)];

/// A turn of a session.
pub(crate) struct Turn {
    guard: TurnGuard,
    peer: Arc<Peer>,
    closing: CancellationToken,
    updates: TurnUpdates,
    /// Id of the execution on the nerve server.
    result_id: String,
    /// Number of the turn on its node, once it streams.
    number: Option<u64>,
    permission: Option<Permission>,
}

impl Turn {
    pub(crate) fn new(guard: TurnGuard, peer: Arc<Peer>, closing: CancellationToken) -> Turn {
        let updates = TurnUpdates::new(guard.session.cwd.clone());
        Turn { guard, peer, closing, updates, result_id: String::new(), number: None, permission: None }
    }

    /// Runs the turn and returns the response to `session/prompt`.
    ///
    /// # Errors
    /// The turn failed. `text` in the data is the part of the answer that arrived.
    pub(crate) async fn run(mut self, prompt: String) -> Result<Value, RpcError> {
        let node = self.node();
        let filter = Subscribe {
            node_id: Some(node.id().to_string()),
            session_id: node.session().map(str::to_string),
            types: Some(EVENTS.iter().map(ToString::to_string).collect()),
            ..Subscribe::default()
        };
        let mut events = node.client().subscribe(&filter).await?;
        let timeout = Some(Seconds::from(TURN_LIMIT));
        // Events do not say whose turn they belong to, so no other turn may run.
        let input = ExecuteInput { timeout, stream: true, fail_if_busy: true, ..ExecuteInput::from(prompt) };
        self.result_id = node.execute_async(input).await?;
        let done = self.follow(&mut events).await;
        if !self.closing.is_cancelled() {
            self.withdraw_permission().await;
        }
        done?;
        self.finish().await
    }

    /// Passes events to the client until the execution has ended.
    async fn follow(&mut self, events: &mut EventStream) -> Result<(), RpcError> {
        // A dialog that was open before the prompt.
        self.on_dialog().await?;
        let (cancelled, closing) = (self.guard.cancelled.clone(), self.closing.clone());
        let (mut is_cancelling, mut cancellation) = (false, None);
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => {
                    return Err(RpcError::new(INTERNAL_ERROR, "the client has disconnected"));
                }
                () = cancelled.cancelled(), if !is_cancelling => {
                    is_cancelling = true;
                    self.close_dialog().await;
                    cancellation = Some(tokio::spawn(cancel(self.node(), self.result_id.clone())));
                }
                done = ended(&mut cancellation) => {
                    cancellation = None;
                    done?;
                }
                event = events.next() => match event {
                    Some(event) => if self.on_event(&event).await? { return Ok(()) },
                    None => return Err(RpcError::from(ClientError::closed())),
                },
                response = response(&mut self.permission) => self.on_response(response).await,
            }
        }
    }

    /// Handles an event of the node. Returns true if the execution has ended.
    async fn on_event(&mut self, event: &EventMessage) -> Result<bool, RpcError> {
        match event.details() {
            Some(EventKind::OutputChunk { turn, chunk, .. }) => {
                // A person may begin the next turn before the end of this one is known.
                let is_own = *self.number.get_or_insert(turn) == turn;
                let updates = if is_own { self.updates.on_chunk(&chunk) } else { Vec::new() };
                self.send(updates).await;
            }
            Some(EventKind::NodeActivity(activity)) => {
                let updates = self.updates.on_activity(&activity);
                self.send(updates).await;
            }
            Some(EventKind::NodeBlocked { .. }) => self.on_dialog().await?,
            Some(EventKind::NodeBusy { .. } | EventKind::NodeReady { .. }) if self.permission.is_some() => {
                self.on_dialog().await?;
            }
            Some(EventKind::NodeSuspended { until_at, .. }) => {
                let until = until_at.map(|at: TsMs| format!(" until {}", at.iso()));
                let text = format!("The agent waits for a usage limit{}.", until.unwrap_or_default());
                self.send([SessionUpdate::thought(text)]).await;
            }
            Some(EventKind::ResultReady { result_id, .. }) => return Ok(result_id == self.result_id),
            Some(EventKind::EventsDropped { .. }) => {
                self.updates.on_gap();
                self.on_dialog().await?;
                return Ok(self.node().client().result(&self.result_id).await?.status.is_end());
            }
            _ => {}
        }
        Ok(false)
    }

    /// Sends a permission request if the node shows a new dialog, and withdraws the one for a dialog that is closed. Looks at the node,
    /// because an event may be older than the dialog.
    async fn on_dialog(&mut self) -> Result<(), RpcError> {
        let dialog = permission::look_up(&self.node()).await?;
        let is_open = dialog.state == NodeState::Blocked;
        if is_open && self.permission.as_ref().is_some_and(|permission| permission.is_for(&dialog)) {
            return Ok(());
        }
        self.withdraw_permission().await;
        if !is_open || self.guard.cancelled.is_cancelled() {
            return Ok(());
        }
        self.guard.session.set_dialog(true);
        let (id, call) = (self.guard.session.id(), self.updates.running_call());
        self.permission = Some(Permission::ask(&self.peer, id, &dialog, call).await);
        Ok(())
    }

    /// Answers the dialog. `None`: the client is gone, and the dialog stays open.
    async fn on_response(&mut self, response: Option<Result<Value, RpcError>>) {
        let Some((permission, response)) = self.permission.take().zip(response) else { return };
        match permission::answer(&self.node(), permission.dialog_id, response).await {
            Ok(is_answered) => self.guard.session.set_dialog(!is_answered),
            Err(error) => {
                let hint = format!("answer it with 'nerve attach {}'", self.guard.session.id());
                self.send([SessionUpdate::thought(format!("The dialog is still open: {error}; {hint}."))])
                    .await;
            }
        }
    }

    /// Withdraws the request for a dialog that was answered elsewhere.
    async fn withdraw_permission(&mut self) {
        if let Some(permission) = self.permission.take() {
            permission.withdraw(&self.peer).await;
        }
        self.guard.session.set_dialog(false);
    }

    /// Closes the open dialog of a cancelled turn.
    async fn close_dialog(&mut self) {
        let Some(permission) = self.permission.take() else { return };
        let closed = permission::close(&self.node(), Some(permission.dialog_id.clone()), None).await;
        permission.withdraw(&self.peer).await;
        match closed {
            Ok(()) => self.guard.session.set_dialog(false),
            // The interrupt that follows closes it, too.
            Err(error) => tracing::info!(%error, "the dialog was not closed"),
        }
    }

    /// Sends what is left, and returns the response.
    async fn finish(mut self) -> Result<Value, RpcError> {
        let result = self.node().client().result(&self.result_id).await?;
        let (sections, text) = match &result.response {
            Some(response) => (&response.sections[..], response.text.as_str()),
            None => (&[][..], result.text.as_deref().unwrap_or_default()),
        };
        let rest = self.updates.finish(sections, text, result.turn.unwrap_or_default());
        self.send(rest).await;
        let usage = self.updates.usage(result.response.as_ref());
        let mut response = json!({ "stopReason": stop_reason(result)? });
        if let Some(usage) = usage {
            response["usage"] = json!(usage);
        }
        Ok(response)
    }

    fn node(&self) -> RemoteNode {
        self.guard.session.node.clone()
    }

    async fn send(&self, updates: impl IntoIterator<Item = SessionUpdate>) {
        for update in updates {
            self.peer.update(self.guard.session.id(), &update).await;
        }
    }
}

/// Interrupts the turn, or withdraws its prompt.
async fn cancel(node: RemoteNode, result_id: String) -> Result<(), RpcError> {
    match node.client().cancel_result(&result_id).await {
        Ok(result) if result.status.is_end() => Ok(()),
        Ok(_) => {
            let error = RpcError::of_kind(ErrorKind::Timeout, "the agent did not react to the interrupt");
            Err(error.with(
                "hint",
                format!("see it with 'nerve attach {0}', or end it with 'nerve stop {0}'", node.id()),
            ))
        }
        // The turn has ended meanwhile.
        Err(ClientError::Server(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the end of the cancellation; forever if there is none.
async fn ended(cancellation: &mut Option<JoinHandle<Result<(), RpcError>>>) -> Result<(), RpcError> {
    match cancellation {
        Some(task) => match task.await {
            Ok(done) => done,
            Err(error) => Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        },
        None => pending().await,
    }
}

/// Waits for the response to the permission request; forever if there is none.
async fn response(permission: &mut Option<Permission>) -> Option<Result<Value, RpcError>> {
    match permission {
        Some(permission) => permission.response().await,
        None => pending().await,
    }
}

/// Returns the reason why a turn ended.
///
/// # Errors
/// The turn failed, or its answer is not complete.
fn stop_reason(result: ResultInfo) -> Result<StopReason, RpcError> {
    let Some(response) = &result.response else {
        return match result.status {
            ResultStatus::Cancelled => Ok(StopReason::Cancelled),
            _ => Err(RpcError::of_result(result)),
        };
    };
    if response.interrupted || result.status == ResultStatus::Cancelled {
        return Ok(StopReason::Cancelled);
    }
    if response.success {
        return Ok(StopReason::EndTurn);
    }
    let error = response.error.as_deref().unwrap_or_default();
    let known = KNOWN_ERRORS.iter().find(|(text, _)| error.contains(text));
    known.map(|(_, reason)| *reason).ok_or_else(|| failure(response))
}

fn failure(response: &TurnResponse) -> RpcError {
    let message = response.error.as_deref().unwrap_or("the turn failed");
    RpcError::of_kind(response.error_type.unwrap_or(ErrorKind::Internal), message)
        .with_some("hint", response.hint.clone())
        .with("text", response.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: ResultStatus, response: Option<TurnResponse>) -> ResultInfo {
        ResultInfo { status, response, ..ResultInfo::default() }
    }

    fn failed(error: &str) -> Option<TurnResponse> {
        let (error, text) = (Some(error.to_string()), "partial".to_string());
        Some(TurnResponse { error, error_type: Some(ErrorKind::Api), text, ..TurnResponse::default() })
    }

    #[test]
    fn outcomes_have_stop_reasons() {
        let reason = |status, response| stop_reason(result(status, response)).unwrap();
        let success = TurnResponse { success: true, ..TurnResponse::default() };
        assert_eq!(reason(ResultStatus::Done, Some(success)), StopReason::EndTurn);
        let interrupted = TurnResponse { interrupted: true, ..TurnResponse::default() };
        assert_eq!(reason(ResultStatus::Failed, Some(interrupted)), StopReason::Cancelled);
        assert_eq!(reason(ResultStatus::Cancelled, None), StopReason::Cancelled);
        let refused = "API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy";
        assert_eq!(reason(ResultStatus::Failed, failed(refused)), StopReason::Refusal);
        let limit = "API Error: Claude's response exceeded the 32000 output token maximum.";
        assert_eq!(reason(ResultStatus::Failed, failed(limit)), StopReason::MaxTokens);
    }

    #[test]
    fn failed_turn_is_an_error_with_its_text() {
        let error = stop_reason(result(ResultStatus::Failed, failed("API Error: 529"))).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (INTERNAL_ERROR, "API Error: 529"));
        assert_eq!(
            (&error.data["text"], &error.data["error_type"]),
            (&json!("partial"), &json!("api_error"))
        );
        let lost = ResultInfo { error_type: Some(ErrorKind::Lost), ..result(ResultStatus::Lost, None) };
        assert_eq!(stop_reason(lost).unwrap_err().data["error_type"], "lost");
    }
}
