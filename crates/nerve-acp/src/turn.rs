//! A prompt: its events, its cancellation and its stop reason.

use std::future::pending;
use std::time::Duration;

use nerve_api::request::{ExecuteInput, Seconds, Subscribe};
use nerve_api::value::NodeState;
use nerve_api::{ErrorKind, EventKind, EventMessage, EventType};
use nerve_client::{ClientError, EventStream, RemoteNode};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::UpdateSender;
use crate::permission::{self, Permission};
use crate::response::Response;
use crate::rpc_error::{INTERNAL_ERROR, REQUEST_CANCELLED, RpcError};
use crate::server_error::from_client;
use crate::session::TurnGuard;
use crate::stop_reason::derive_stop_reason;
use crate::turn_updates::TurnUpdates;
use crate::types::{ContentBlock, ContextUsage, Cost, SessionUpdate, StopReason, Usage};
use crate::version2::{SessionState, new_id};

/// Time limit of a turn. A person in an editor cancels a turn, so it only bounds forgotten ones.
pub(crate) const TURN_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Time that events have to arrive after the execution has ended.
const LAST_EVENTS: Duration = Duration::from_secs(5);
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

/// A turn of a session.
pub(crate) struct Turn {
    guard: TurnGuard,
    sender: UpdateSender,
    closing: CancellationToken,
    updates: TurnUpdates,
    /// Id of the execution on the nerve server.
    result_id: String,
    /// Number of the turn on its node, once it streams.
    number: Option<u64>,
    permission: Option<Permission>,
    /// Id of the dialog that the client did not answer: it stays open for people.
    unanswered: Option<String>,
    /// The client knows that the turn waits for a dialog.
    is_waiting: bool,
}

/// The end of a turn.
struct TurnEnd {
    reason: StopReason,
    /// `None`: not known.
    usage: Option<Usage>,
}

impl Turn {
    pub(crate) fn new(guard: TurnGuard, sender: UpdateSender, closing: CancellationToken) -> Turn {
        let updates = TurnUpdates::new(guard.session.cwd.clone());
        Turn {
            guard,
            sender,
            closing,
            updates,
            result_id: String::new(),
            number: None,
            permission: None,
            unanswered: None,
            is_waiting: false,
        }
    }

    /// Runs the turn and returns the response to `session/prompt` of version 1.
    ///
    /// # Errors
    /// The turn failed. `text` in the data is the part of the answer that arrived. A cancelled turn never fails.
    pub(crate) async fn run(mut self, prompt: String) -> Result<Response, RpcError> {
        let done = match self.begin(prompt).await {
            Ok(Some(events)) => self.complete(events).await,
            Ok(None) => Ok(TurnEnd { reason: StopReason::Cancelled, usage: None }),
            Err(error) => Err(error),
        };
        let TurnEnd { reason, usage } = self.end(done)?;
        let mut response = json!({ "stopReason": reason });
        if let Some(usage) = usage {
            response["usage"] = json!(usage);
        }
        Ok(response.into())
    }

    /// Begins the turn and returns the response to `session/prompt` of version 2, which the rest of the turn follows.
    ///
    /// # Errors
    /// The agent did not accept the prompt.
    pub(crate) async fn accept(
        mut self,
        prompt: String,
        content: Vec<ContentBlock>,
    ) -> Result<Response, RpcError> {
        let Some(events) = self.begin(prompt).await? else {
            return Err(RpcError::new(REQUEST_CANCELLED, "the prompt was cancelled"));
        };
        let id = new_id();
        let response = Response::from(json!({ "messageId": id }));
        Ok(response.followed_by(async move {
            self.sender.report_prompt(&id, &content).await;
            self.sender.report_state(&SessionState::Running).await;
            let done = self.complete(events).await;
            let state = match self.end(done) {
                Ok(end) => SessionState::Idle(Some(end.reason)),
                Err(error) => SessionState::Failed(error),
            };
            let Turn { guard, sender, .. } = self;
            // The client may send the next prompt as soon as it knows.
            drop(guard);
            sender.report_state(&state).await;
        }))
    }

    /// Returns the end of the turn. A cancelled one never fails.
    fn end(&self, done: Result<TurnEnd, RpcError>) -> Result<TurnEnd, RpcError> {
        if !self.guard.cancelled.is_cancelled() {
            return done;
        }
        let usage = done.map_or_else(
            |error| {
                tracing::info!(%error, "the cancelled turn failed");
                None
            },
            |end| end.usage,
        );
        Ok(TurnEnd { reason: StopReason::Cancelled, usage })
    }

    /// Starts the execution. Returns its events; `None` if the turn was cancelled before.
    async fn begin(&mut self, prompt: String) -> Result<Option<EventStream>, RpcError> {
        let node = self.node();
        let filter = Subscribe {
            node_id: Some(node.id().to_string()),
            session_id: node.session().map(str::to_string),
            types: Some(EVENTS.iter().map(ToString::to_string).collect()),
            ..Subscribe::default()
        };
        let events = node.client().subscribe(&filter).await.map_err(from_client)?;
        let timeout = Some(Seconds::from(TURN_LIMIT));
        if self.guard.cancelled.is_cancelled() {
            return Ok(None);
        }
        // Events do not say whose turn they belong to, so no other turn may run.
        let input = ExecuteInput { timeout, stream: true, fail_if_busy: true, ..ExecuteInput::from(prompt) };
        self.result_id = node.execute_async(input).await.map_err(from_client)?;
        Ok(Some(events))
    }

    /// Follows the execution to its end.
    async fn complete(&mut self, mut events: EventStream) -> Result<TurnEnd, RpcError> {
        let done = self.follow(&mut events).await;
        // At the end of the connection, the dialog stays open and the node is stopped.
        if !self.closing.is_cancelled() {
            self.withdraw_permission().await;
            if done.is_err() && !self.guard.cancelled.is_cancelled() {
                // The client gets no more of it.
                tokio::spawn(cancel(self.node(), self.result_id.clone()));
            }
        }
        done?;
        self.finish().await
    }

    /// Passes events to the client until the execution has ended.
    async fn follow(&mut self, events: &mut EventStream) -> Result<(), RpcError> {
        // A dialog that was open before the prompt.
        self.on_dialog().await;
        let (cancelled, closing) = (self.guard.cancelled.clone(), self.closing.clone());
        let (mut is_cancelling, mut cancellation) = (false, None);
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => {
                    return Err(RpcError::disconnected());
                }
                () = cancelled.cancelled(), if !is_cancelling => {
                    is_cancelling = true;
                    self.close_dialog().await;
                    cancellation = Some(tokio::spawn(cancel(self.node(), self.result_id.clone())));
                }
                done = await_cancellation(&mut cancellation) => return self.on_cancelled(done, events).await,
                event = events.next() => match event {
                    Some(event) => if self.on_event(&event).await? { return Ok(()) },
                    None => return Err(from_client(ClientError::closed())),
                },
                response = await_response(&mut self.permission) => self.on_response(response).await,
            }
        }
    }

    /// Passes the last events of a cancelled turn to the client, without which the answer lacks its end.
    async fn on_cancelled(
        &mut self,
        done: Result<(), RpcError>,
        events: &mut EventStream,
    ) -> Result<(), RpcError> {
        if let Err(error) = &done {
            let hint = format!("see it with 'nerve attach {}'", self.guard.session.id());
            let text = format!("The turn was not interrupted: {error}; {hint}.");
            self.send([SessionUpdate::thought(text)]).await;
            return done;
        }
        let _ = tokio::time::timeout(LAST_EVENTS, self.drain(events)).await;
        Ok(())
    }

    /// Passes events to the client until the one for the end of the execution.
    async fn drain(&mut self, events: &mut EventStream) -> Result<(), RpcError> {
        while let Some(event) = events.next().await {
            if self.on_event(&event).await? {
                break;
            }
        }
        Ok(())
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
            Some(EventKind::NodeBlocked { .. }) => self.on_dialog().await,
            Some(EventKind::NodeBusy { .. } | EventKind::NodeReady { .. })
                if self.guard.session.has_dialog() =>
            {
                self.on_dialog().await;
            }
            Some(EventKind::NodeSuspended { until_at, .. }) => {
                let until = until_at.map(|at: TsMs| format!(" until {}", at.iso()));
                let text = format!("The agent waits for a usage limit{}.", until.unwrap_or_default());
                self.send([SessionUpdate::thought(text)]).await;
            }
            Some(EventKind::ResultReady { result_id, .. }) => return Ok(result_id == self.result_id),
            Some(EventKind::EventsDropped { .. }) => {
                self.updates.on_gap();
                self.on_dialog().await;
                return Ok(self
                    .node()
                    .client()
                    .result(&self.result_id)
                    .await
                    .map_err(from_client)?
                    .status
                    .is_end());
            }
            _ => {}
        }
        Ok(false)
    }

    /// Handles a dialog that may be open, and reports whether the turn waits for it.
    async fn on_dialog(&mut self) {
        self.look_at_dialog().await;
        let is_waiting = self.guard.session.has_dialog();
        if is_waiting != self.is_waiting {
            self.is_waiting = is_waiting;
            let state = if is_waiting { SessionState::RequiresAction } else { SessionState::Running };
            self.sender.report_state(&state).await;
        }
    }

    /// Sends a permission request if the node shows a new dialog, and withdraws the one for a dialog that is closed. Looks at the node,
    /// because an event may be older than the dialog.
    async fn look_at_dialog(&mut self) {
        let dialog = match permission::look_up(&self.node()).await {
            Ok(dialog) => dialog,
            // The result of the execution has the reason.
            Err(error) => {
                tracing::warn!(%error, "the state of node '{}' is unknown", self.guard.session.id());
                return;
            }
        };
        let is_open = dialog.state == NodeState::Blocked;
        if is_open && self.permission.as_ref().is_some_and(|permission| permission.is_for(&dialog)) {
            return;
        }
        self.withdraw_permission().await;
        if !is_open {
            self.unanswered = None;
            self.guard.session.set_dialog(false);
            return;
        }
        let is_unanswered = self.unanswered.is_some() && self.unanswered == dialog.dialog_id;
        if is_unanswered || self.guard.cancelled.is_cancelled() {
            return;
        }
        self.guard.session.set_dialog(true);
        let (id, call) = (self.guard.session.id(), self.updates.running_call());
        let version = self.sender.version();
        self.permission = Some(Permission::ask(&self.sender.peer, id, version, &dialog, call).await);
    }

    /// Answers the dialog as the client responded, and looks for the next dialog.
    async fn on_response(&mut self, response: Result<Value, RpcError>) {
        let Some(permission) = self.permission.take() else { return };
        let id = permission.dialog_id.clone();
        let done = match permission.read_choice(response) {
            Ok(choice) => permission::answer(&self.node(), id.clone(), choice).await.map_err(from_client),
            Err(error) => Err(error),
        };
        match done {
            Ok(is_answered) => self.guard.session.set_dialog(!is_answered),
            Err(error) => {
                self.unanswered = Some(id);
                let hint = format!("answer it with 'nerve attach {}'", self.guard.session.id());
                let text = format!("The dialog is still open: {error}; {hint}.");
                self.send([SessionUpdate::thought(text)]).await;
            }
        }
        // The node does not report a second dialog in a row.
        self.on_dialog().await;
    }

    /// Withdraws the permission request, because its dialog was answered elsewhere or the turn has ended.
    async fn withdraw_permission(&mut self) {
        if let Some(permission) = self.permission.take() {
            permission.withdraw(&self.sender.peer).await;
        }
    }

    /// Closes the open dialog of a cancelled turn.
    async fn close_dialog(&mut self) {
        let Some(permission) = self.permission.take() else { return };
        let closed = permission::answer(&self.node(), permission.dialog_id.clone(), None).await;
        permission.withdraw(&self.sender.peer).await;
        match closed {
            Ok(is_closed) => self.guard.session.set_dialog(!is_closed),
            // The interrupt that follows closes it, too.
            Err(error) => tracing::info!(%error, "the dialog was not closed"),
        }
    }

    /// Sends what is left, and returns the end of the turn.
    async fn finish(&mut self) -> Result<TurnEnd, RpcError> {
        let result = self.node().client().result(&self.result_id).await.map_err(from_client)?;
        let (sections, text) = match &result.response {
            Some(response) => (&response.sections[..], response.text.as_str()),
            None => (&[][..], result.text.as_deref().unwrap_or_default()),
        };
        if result.turn.zip(self.number).is_some_and(|(own, streamed)| own != streamed) {
            // Late text of an earlier turn was taken for the beginning of this one.
            self.updates.on_gap();
        }
        let rest = self.updates.finish(sections, text, result.turn.unwrap_or_default());
        self.send(rest).await;
        if let (Some(context), Some(cost)) = (self.updates.context(), self.look_up_cost().await) {
            self.send([SessionUpdate::UsageUpdate(ContextUsage { cost: Some(cost), ..context })]).await;
        }
        let mut usage = self.updates.usage();
        if let Some(counted) = result.response.as_ref().and_then(|response| response.usage) {
            usage = counted.tokens;
        }
        let usage = (usage.total() > 0).then(|| Usage::from(usage));
        Ok(TurnEnd { reason: derive_stop_reason(result)?, usage })
    }

    /// Returns the cost of the node's responses, if all of them have a price.
    async fn look_up_cost(&self) -> Option<Cost> {
        let progress = self.node().info().await.ok()?.progress;
        let amount = progress.cost_usd.filter(|_| !progress.has_unpriced)?;
        Some(Cost { amount, currency: "USD" })
    }

    fn node(&self) -> RemoteNode {
        self.guard.session.node.clone()
    }

    async fn send(&mut self, updates: impl IntoIterator<Item = SessionUpdate>) {
        self.sender.send(updates).await;
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
        Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::InvalidRequest => Ok(()),
        Err(error) => Err(from_client(error)),
    }
}

/// Waits for the end of the cancellation; forever if there is none.
async fn await_cancellation(
    cancellation: &mut Option<JoinHandle<Result<(), RpcError>>>,
) -> Result<(), RpcError> {
    match cancellation {
        Some(task) => match task.await {
            Ok(done) => done,
            Err(error) => Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        },
        None => pending().await,
    }
}

/// Waits for the response to the permission request; forever if there is none.
async fn await_response(permission: &mut Option<Permission>) -> Result<Value, RpcError> {
    match permission {
        Some(permission) => permission.await_response().await,
        None => pending().await,
    }
}
