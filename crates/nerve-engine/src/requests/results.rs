//! Asynchronous executions and their results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use nerve_api::event::EventKind;
use nerve_api::reply::{NodeInfo, ResultInfo, ResultList, WebhookAttempt};
use nerve_api::request::{CancelResult, ExecuteInput, GetResult, ListResults, NodeRef, PageRequest, Seconds};
use nerve_api::session_option;
use nerve_api::value::{NodeState, ResultStatus};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::NodeHandle;
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::no_prompts_error;
use nerve_node::response::Response;
use nerve_node::telemetry::{ActiveSpan, begin_result};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::caller::Caller;
use super::context::RequestContext;
use super::params;
use crate::engine::Engine;
use crate::page::paginate;
use crate::results::{ActiveResult, record};
use crate::webhook::{FIRST_PAUSE, Webhook, WebhookMessage};

/// Name of the event, on the wire and in webhooks.
const RESULT_READY: &str = "RESULT_READY";
/// Default limit of listed results.
const DEFAULT_LIST_LIMIT: usize = 100;

impl Engine {
    /// Accepts an execution. Returns the ids of its result and its node.
    ///
    /// # Errors
    /// NotFound, InvalidRequest, Busy.
    pub(super) async fn execute_in_background(
        &self,
        request: ExecuteInput,
        mut caller: Caller,
        webhook: Option<Webhook>,
    ) -> Result<(String, String), EngineError> {
        let at = self.check_execution(&request)?;
        let results = &self.inner.results;
        let node_lock = results.node_lock(&at);
        let turn_guard = if request.fail_if_busy {
            Some(Arc::clone(&node_lock).try_lock_owned().map_err(|_| busy_error(&at))?)
        } else {
            None
        };
        let live = results.accept(&at, &request.text, webhook.as_ref().map(record::webhook_status)).await?;
        let result = live.current().result_id.clone();
        let span = begin_result(caller.trace.as_ref(), &at, &result);
        caller.trace = span.context().cloned();
        caller.cancellation = Some(live.cancellation.clone());
        caller.canceller = Arc::clone(&live.canceller);
        let node_id = at.node.clone();
        let engine = self.clone();
        // Queues before the reply, so that later requests wait behind it.
        let mut turn = Box::pin(async move {
            match turn_guard {
                Some(guard) => guard,
                None => node_lock.lock_owned().await,
            }
        });
        let turn_guard = (&mut turn).now_or_never();
        let is_queued = turn_guard.is_none();
        if is_queued {
            self.inner.events.publish(Some(&at), EventKind::NodeQueueChanged {});
        }
        results.tasks.spawn(async move {
            let closing = engine.inner.results.closing.clone();
            let work = async {
                let timeout = request.timeout.map_or(MAX_TIMEOUT, Seconds::duration);
                let deadline = Instant::now() + timeout.min(MAX_TIMEOUT);
                let _turn_guard = match turn_guard {
                    Some(turn_guard) => turn_guard,
                    None => tokio::select! {
                        turn_guard = timeout_at(deadline, turn) => turn_guard.map_err(|_| queue_timeout_error(&at))?,
                        () = live.cancellation.cancelled() => return Err(cancelled_error()),
                    },
                };
                engine.mark_running(&live, is_queued).await?;
                engine.run_in_background(&live, request, caller, deadline).await
            };
            let outcome = tokio::select! {
                biased;
                () = closing.cancelled() => None,
                outcome = work => Some(outcome),
            };
            engine.end_in_background(&live, outcome, webhook, &span).await;
            span.end(|_| {});
        });
        Ok((result, node_id))
    }

    /// Checks that the node of a request runs and takes prompts.
    fn check_execution(&self, request: &ExecuteInput) -> Result<NodeRef, EngineError> {
        let conversation =
            request.conversation.as_ref().map(params::parse_conversation_id).transpose()?.flatten();
        let at = NodeRef::new(&request.node_id, request.session_id.clone());
        let executable = self.executable(&at)?;
        match executable.node() {
            None => return Err(no_prompts_error(&at.node, executable.kind())),
            Some(node) => check_running(&node.info())?,
        }
        if let Some(id) = conversation {
            self.conversation_store(&id)?;
        }
        Ok(at.without_default_session())
    }

    /// Changes the status of a result to running.
    async fn mark_running(&self, live: &ActiveResult, was_queued: bool) -> Result<(), EngineError> {
        let results = &self.inner.results;
        let running = Arc::new(ResultInfo {
            status: ResultStatus::Running,
            started_at: Some(results.now()),
            ..ResultInfo::clone(&live.current())
        });
        // Saved first, so that the record on disk never claims that a started turn has not started.
        results
            .save(live, Arc::clone(&running))
            .await
            .map_err(|problem| EngineError::internal(format!("the turn was not started: {problem}")))?;
        live.set(running);
        if was_queued {
            let at = result_node(&live.current());
            self.inner.events.publish(Some(&at), EventKind::NodeQueueChanged {});
        }
        Ok(())
    }

    async fn run_in_background(
        &self,
        live: &ActiveResult,
        mut request: ExecuteInput,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        if request.timeout.is_some() {
            request.timeout = Some(deadline.saturating_duration_since(Instant::now()).into());
        }
        // A panic must not lose the result.
        let engine = self.clone();
        let at = result_node(&live.current());
        let turn = tokio::spawn(async move { engine.turn(request, caller).await });
        let aborts = AbortOnDrop(turn.abort_handle());
        let outcome = tokio::select! {
            outcome = turn => outcome,
            () = self.report_dialogs(live, &at) => return Err(cancelled_error()),
        };
        drop(aborts);
        outcome?
    }

    /// Shows in the result when a dialog blocks its node. Never returns.
    async fn report_dialogs(&self, live: &ActiveResult, at: &NodeRef) {
        const BLOCKED: [NodeState; 2] = [NodeState::Blocked, NodeState::Suspended];
        const OTHERS: [NodeState; 3] = [NodeState::Starting, NodeState::Ready, NodeState::Busy];
        if let Ok(node) = self.node(at) {
            while node.wait(&BLOCKED, None).await.is_ok_and(|state| BLOCKED.contains(&state)) {
                if let Ok(why) = node.explain().await {
                    live.change(|record| record::block(record, why));
                }
                if node.wait(&OTHERS, None).await.is_err() {
                    break;
                }
                live.change(record::unblock);
            }
        }
        std::future::pending().await
    }

    /// Ends a result. `outcome` is `None` if the server shut down first.
    async fn end_in_background(
        &self,
        live: &ActiveResult,
        outcome: Option<Result<Response, EngineError>>,
        webhook: Option<Webhook>,
        span: &ActiveSpan,
    ) {
        let results = &self.inner.results;
        let now = results.now();
        let is_shutdown = outcome.is_none();
        let is_stopped = self
            .node(&result_node(&live.current()))
            .map_or(true, |node| matches!(node.info().state, NodeState::Stopping | NodeState::Stopped));
        let record = Arc::new({
            let mut record = ResultInfo::clone(&live.current());
            match outcome {
                Some(outcome) => record::end(&mut record, now, outcome, is_stopped),
                None => {
                    record::mark_lost(&mut record, now, "the server was shut down");
                    record::give_up_webhook(&mut record, "the server was shut down before it was delivered");
                }
            }
            record
        });
        // Saved before it is published.
        let mut saved = self.save_or_report(live, &record).await;
        live.set(Arc::clone(&record));
        let at = result_node(&record);
        let success = record.status == ResultStatus::Done;
        span.describe(|span| {
            span.set("nerve.status", record.status.as_str());
            if let Some(kind) = record.error_type {
                span.fail(kind.as_str(), "the turn failed");
            }
        });
        self.inner.events.publish(
            Some(&at),
            EventKind::ResultReady { result_id: record.result_id.clone(), success, status: record.status },
        );
        if let Some(webhook) = webhook.filter(|_| !is_shutdown) {
            self.deliver(live, &webhook, &record, span).await;
            saved = self.save_or_report(live, &live.current()).await;
        }
        results.close(live, saved).await;
    }

    async fn deliver(&self, live: &ActiveResult, webhook: &Webhook, record: &ResultInfo, span: &ActiveSpan) {
        let delivery = WebhookMessage {
            event: RESULT_READY,
            id: record.result_id.clone(),
            body: payload(record, self.inner.results.now()).to_string().into(),
            trace: span.context().cloned(),
        };
        let record_attempt = |attempt| {
            live.change(|record| {
                if let Some(webhook) = &mut record.webhook {
                    webhook.attempts.push(attempt);
                }
            });
        };
        let closing = self.inner.results.closing.clone();
        let delivered = tokio::select! {
            biased;
            delivered = webhook.deliver(&delivery, FIRST_PAUSE, record_attempt) => Some(delivered),
            () = closing.cancelled() => None,
        };
        span.describe(|span| span.set("nerve.webhook.delivered", delivered == Some(true)));
        live.change(|record| match delivered {
            Some(true) => {
                if let Some(webhook) = &mut record.webhook {
                    webhook.delivered = true;
                }
            }
            Some(false) => {
                let last = record.webhook.as_ref().and_then(|webhook| webhook.attempts.last());
                let reason = match last {
                    Some(WebhookAttempt { status: Some(status), .. }) => {
                        format!("the receiver answered with HTTP status {status}")
                    }
                    Some(WebhookAttempt { error: Some(error), .. }) => {
                        format!("the last attempt failed: {error}")
                    }
                    _ => "the last attempt failed".to_string(),
                };
                record::give_up_webhook(record, &reason);
            }
            None => record::give_up_webhook(record, "the server was shut down before it was delivered"),
        });
        if delivered != Some(true) {
            let (result, origin) = (&record.result_id, webhook.origin());
            tracing::warn!(%result, %origin, "a webhook was not delivered");
        }
    }

    async fn save_or_report(&self, live: &ActiveResult, record: &Arc<ResultInfo>) -> bool {
        match self.inner.results.save(live, Arc::clone(record)).await {
            Ok(()) => true,
            Err(problem) => {
                tracing::warn!("{problem}");
                self.inner.events.publish(Some(&result_node(record)), EventKind::machine_failure(problem));
                false
            }
        }
    }

    /// Returns a result. With `wait`, returns it when the execution has ended, or a dialog blocks it.
    ///
    /// # Errors
    /// NotFound, Timeout.
    pub async fn get_result(&self, request: GetResult, _: RequestContext) -> Result<ResultInfo, EngineError> {
        let GetResult { result_id: id, wait, timeout } = request;
        let timeout = timeout.map(Seconds::duration);
        let results = &self.inner.results;
        if let Some(live) = results.live(&id).filter(|_| wait) {
            self.forget_answered_dialog(&live);
            let mut changes = live.record.subscribe();
            let deadline = Instant::now() + timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
            let ended = timeout_at(deadline, changes.wait_for(is_end_or_blocked)).await;
            match ended {
                Ok(Ok(record)) => return Ok(ResultInfo::clone(&record)),
                // The result is no longer live.
                Ok(Err(_)) => {}
                Err(_) => {
                    let status = live.current().status.as_str();
                    let message =
                        format!("result '{id}' is still {status} after {:?}", timeout.unwrap_or(MAX_TIMEOUT));
                    return Err(EngineError::timeout(message).hint("retry to keep waiting, or cancel it"));
                }
            }
        }
        Ok(Arc::unwrap_or_clone(results.get(&id).await?))
    }

    /// Updates a result whose dialog was answered a moment ago.
    fn forget_answered_dialog(&self, live: &ActiveResult) {
        let record = live.current();
        let is_blocked = !record.status.is_end() && record.error_type == Some(ErrorKind::Blocked);
        let has_dialog =
            |node: NodeHandle| matches!(node.info().state, NodeState::Blocked | NodeState::Suspended);
        if is_blocked && !self.node(&result_node(&record)).is_ok_and(has_dialog) {
            live.change(|record| {
                if !record.status.is_end() {
                    record::unblock(record);
                }
            });
        }
    }

    /// Lists results without their responses, the newest first.
    ///
    /// # Errors
    /// Process (the folder of results cannot be read), InvalidRequest (page).
    pub async fn list_results(
        &self,
        request: ListResults,
        _: RequestContext,
    ) -> Result<ResultList, EngineError> {
        let ListResults { session_id, node_id, last, page } = request;
        let default = if page == PageRequest::default() { DEFAULT_LIST_LIMIT } else { usize::MAX };
        let fits = move |record: &ResultInfo| {
            session_id.as_ref().is_none_or(|session| *session == record.session_id)
                && node_id.as_ref().is_none_or(|node| *node == record.node_id)
        };
        let results = self.inner.results.list(last.unwrap_or(default), fits).await?;
        paginate(&page, ResultList { results, next: None })
    }

    /// Removes a queued prompt, or interrupts its turn. Returns the updated result.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (the result has ended).
    pub async fn cancel_result(
        &self,
        request: CancelResult,
        context: RequestContext,
    ) -> Result<ResultInfo, EngineError> {
        let id = request.result_id;
        let Some(live) = self.inner.results.live(&id).filter(|live| !live.current().status.is_end()) else {
            let record = self.inner.results.get(&id).await?;
            let message = format!("result '{id}' is {} already", record.status.as_str());
            return Err(EngineError::invalid_request(message));
        };
        // The first canceller counts.
        let _ = live.canceller.set(context.origin);
        live.cancellation.cancel();
        let mut changes = live.record.subscribe();
        let ended = changes.wait_for(|record| record.status.is_end());
        // Time for an agent to react to the interrupt.
        let record = match tokio::time::timeout(Duration::from_secs(10), ended).await {
            Ok(Ok(record)) => Arc::clone(&record),
            _ => live.current(),
        };
        Ok(Arc::unwrap_or_clone(record))
    }
}

/// Aborts a task when its waiter is dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns true if an execution has ended, or waits at a dialog.
fn is_end_or_blocked(record: &Arc<ResultInfo>) -> bool {
    record.status.is_end() || record.error_type == Some(ErrorKind::Blocked)
}

/// Returns the node of a result.
fn result_node(record: &ResultInfo) -> NodeRef {
    NodeRef::new(&record.node_id, Some(record.session_id.clone())).without_default_session()
}

/// Checks that the program of a node has not ended.
fn check_running(info: &NodeInfo) -> Result<(), EngineError> {
    let NodeInfo { node_id, state, metadata, .. } = info;
    if *state != NodeState::Stopped {
        return Ok(());
    }
    let end = match metadata.display("exit") {
        exit if exit.is_empty() => String::new(),
        exit => format!(": its program ended with {exit}"),
    };
    let error = EngineError::new(ErrorKind::NodeStopped, format!("node '{node_id}' is stopped{end}"));
    Err(error.hint(format!("start it: `nerve start {node_id}{}`", session_option(&metadata.session_id))))
}

/// Returns the error of a prompt that does not wait for another turn.
pub(super) fn busy_error(at: &NodeRef) -> EngineError {
    EngineError::busy(format!("node '{}' is busy with another turn", at.node))
        .hint("without fail_if_busy, the prompt waits")
}

/// Returns the error of a prompt that waited too long for another turn.
pub(super) fn queue_timeout_error(at: &NodeRef) -> EngineError {
    EngineError::timeout(format!("the turn on '{}' timed out in the queue", at.node))
}

/// Returns the body of a webhook request.
fn payload(record: &ResultInfo, now: TsMs) -> Value {
    let response = record.response.as_ref();
    let mut shown = json!(response);
    if let Some(fields) = shown.as_object_mut() {
        fields.extend([("node_id".into(), json!(record.node_id)), ("turn".into(), json!(record.turn))]);
    }
    // A turn that ended and failed has its error in the response.
    let message = record.error.as_ref().or_else(|| response?.error.as_ref());
    let kind = record.error_type.or_else(|| response?.error_type);
    json!({
        "event": RESULT_READY, "result_id": record.result_id, "node_id": record.node_id, "session_id": record.session_id,
        "state": record.status, "success": record.status == ResultStatus::Done,
        "response": shown, "error": message, "error_type": kind, "hint": record.hint, "sent_at": now,
    })
}
