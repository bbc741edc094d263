//! Asynchronous executions and their results.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{ResultInfo, ResultList, WebhookAttempt};
use nerve_api::request::{CancelResult, GetResult, ListResults, Seconds};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::Engine;
use super::context::RequestContext;
use super::conversations::without_default;
use super::turns::NodePrompt;
use crate::results::{ActiveResult, ResultRecord, ResultStatus, webhook_status};
use crate::webhook::{Delivery, FIRST_PAUSE, Webhook};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::cancellation::cancelled;
use nerve_node::command::{EventKind, NodeRef, Response};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::takes_no_prompts;
use nerve_node::telemetry::{ActiveSpan, TraceContext, begin_result};

/// Name of the event, on the wire and in webhooks.
const READY: &str = "RESULT_READY";
/// Default limit of listed results.
const LISTED: usize = 100;

impl Engine {
    /// Accepts an execution. Returns the ids of its result and its node.
    ///
    /// # Errors
    /// NotFound, InvalidRequest, Busy.
    pub(super) async fn execute_in_background(
        &self,
        mut execute: NodePrompt,
        webhook: Option<Webhook>,
    ) -> Result<(String, String), EngineError> {
        let executable = self.executable(&execute.at)?;
        if executable.node().is_none() {
            return Err(takes_no_prompts(&execute.at.node, executable.kind()));
        }
        if let Some(id) = execute.conversation.as_ref().and_then(|conversation| conversation.id.as_ref()) {
            self.conversation_store(id)?;
        }
        let results = &self.inner.results;
        let at = without_default(execute.at.clone());
        let lane = results.node_lock(&at);
        let alone = if execute.prompt.fail_if_busy {
            let message = format!("node '{}' is busy with another turn", at.node);
            let busy =
                |_| EngineError::new(ErrorKind::Busy, message).hint("without fail_if_busy, the prompt waits");
            Some(Arc::clone(&lane).try_lock_owned().map_err(busy)?)
        } else {
            None
        };
        let live = results.accept(&at, &execute.prompt.text, webhook.as_ref().map(webhook_status)).await?;
        let result = live.current().result_id.clone();
        let caller = execute.trace.take().map(Arc::new);
        let span = begin_result(caller.as_ref(), &at, &result);
        execute.trace = span.context().map(|context| TraceContext::clone(context));
        let engine = self.clone();
        results.tasks.spawn(async move {
            let closing = engine.inner.results.closing.clone();
            let work = async {
                let deadline = Instant::now() + execute.prompt.timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
                let _alone = match alone {
                    Some(alone) => alone,
                    None => tokio::select! {
                        alone = timeout_at(deadline, lane.lock_owned()) => alone.map_err(|_| too_late(&execute))?,
                        () = live.cancellation.wait() => return Err(cancelled()),
                    },
                };
                engine.run_in_background(&live, execute, deadline).await
            };
            let outcome = tokio::select! {
                biased;
                () = closing.cancelled() => None,
                outcome = work => Some(outcome),
            };
            engine.end_in_background(&live, outcome, webhook, &span).await;
            span.end(|_| {});
        });
        Ok((result, at.node))
    }

    async fn run_in_background(
        &self,
        live: &ActiveResult,
        mut execute: NodePrompt,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        let results = &self.inner.results;
        let running = Arc::new(ResultRecord {
            status: ResultStatus::Running,
            started_at: Some(results.seconds()),
            ..ResultRecord::clone(&live.current())
        });
        // Saved first, so that the record on disk never claims that a started turn has not started.
        results.save(live, Arc::clone(&running)).await.map_err(|problem| {
            EngineError::new(ErrorKind::Internal, format!("the turn was not started: {problem}"))
        })?;
        live.set(running);
        if execute.prompt.timeout.is_some() {
            execute.prompt.timeout = Some(deadline.saturating_duration_since(Instant::now()));
        }
        // A panic must not lose the result.
        let (engine, cancellation) = (self.clone(), live.cancellation.clone());
        let turn = tokio::spawn(async move { engine.turn(execute, Some(&cancellation)).await });
        let aborts = AbortOnDrop(turn.abort_handle());
        let outcome = turn.await;
        drop(aborts);
        outcome.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
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
        let now = results.seconds();
        let is_shutdown = outcome.is_none();
        let record = Arc::new({
            let mut record = ResultRecord::clone(&live.current());
            match outcome {
                Some(outcome) => record.end(now, outcome),
                None => {
                    record.lose(now, "the server was shut down");
                    record.give_up_webhook("the server was shut down before it was delivered");
                }
            }
            record
        });
        // Saved before it is published.
        let mut saved = self.save_or_report(live, &record).await;
        live.set(Arc::clone(&record));
        let at = at_of(&record);
        let success = record.status == ResultStatus::Done;
        span.describe(|span| {
            span.set("nerve.status", record.status.as_str());
            if let Some(error) = &record.error {
                span.fail(error.error_type.as_str(), "the turn failed");
            }
        });
        self.inner.events.publish(
            Some(&at),
            EventKind::ResultReady { result: record.result_id.clone(), success, status: record.status },
        );
        if let Some(webhook) = webhook.filter(|_| !is_shutdown) {
            self.deliver(live, &webhook, &record, span).await;
            saved = self.save_or_report(live, &live.current()).await;
        }
        results.close(live, saved).await;
    }

    async fn deliver(
        &self,
        live: &ActiveResult,
        webhook: &Webhook,
        record: &ResultRecord,
        span: &ActiveSpan,
    ) {
        let delivery = Delivery {
            event: READY,
            id: record.result_id.clone(),
            body: payload(record, self.inner.results.seconds()).to_string().into(),
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
                record.give_up_webhook(&reason);
            }
            None => record.give_up_webhook("the server was shut down before it was delivered"),
        });
        if delivered != Some(true) {
            let (result, origin) = (&record.result_id, webhook.origin());
            tracing::warn!(%result, %origin, "a webhook was not delivered");
        }
    }

    async fn save_or_report(&self, live: &ActiveResult, record: &Arc<ResultRecord>) -> bool {
        match self.inner.results.save(live, Arc::clone(record)).await {
            Ok(()) => true,
            Err(problem) => {
                tracing::warn!("{problem}");
                self.inner.events.publish(Some(&at_of(record)), EventKind::Error { message: problem });
                false
            }
        }
    }

    /// Returns a result. With `wait`, returns it when the execution has ended.
    ///
    /// # Errors
    /// NotFound, Timeout.
    pub async fn get_result(&self, request: GetResult, _: RequestContext) -> Result<ResultInfo, EngineError> {
        let GetResult { result_id: id, wait, timeout } = request;
        let timeout = timeout.map(Seconds::duration);
        let results = &self.inner.results;
        if let Some(live) = results.live(&id).filter(|_| wait) {
            let mut changes = live.record.subscribe();
            let deadline = Instant::now() + timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
            let ended = timeout_at(deadline, changes.wait_for(|record| record.status.is_end())).await;
            match ended {
                Ok(Ok(record)) => return Ok(ResultRecord::clone(&record).into()),
                // The result is no longer live.
                Ok(Err(_)) => {}
                Err(_) => {
                    let status = live.current().status.as_str();
                    let message =
                        format!("result '{id}' is still {status} after {:?}", timeout.unwrap_or(MAX_TIMEOUT));
                    return Err(EngineError::new(ErrorKind::Timeout, message)
                        .hint("retry to keep waiting, or cancel it"));
                }
            }
        }
        Ok(Arc::unwrap_or_clone(results.get(&id).await?).into())
    }

    /// Lists results without their responses, the newest first.
    ///
    /// # Errors
    /// Process: the folder of results cannot be read.
    pub async fn list_results(
        &self,
        request: ListResults,
        _: RequestContext,
    ) -> Result<ResultList, EngineError> {
        let ListResults { session_id, node_id, last } = request;
        let fits = move |record: &ResultRecord| {
            session_id.as_ref().is_none_or(|session| *session == record.session_id)
                && node_id.as_ref().is_none_or(|node| *node == record.node_id)
        };
        let records = self.inner.results.list(last.unwrap_or(LISTED), fits).await?;
        Ok(ResultList { results: records.into_iter().map(ResultInfo::from).collect() })
    }

    /// Removes a queued prompt, or interrupts its turn. Returns the updated result.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (the result has ended).
    pub async fn cancel_result(
        &self,
        request: CancelResult,
        _: RequestContext,
    ) -> Result<ResultInfo, EngineError> {
        let id = request.result_id;
        let Some(live) = self.inner.results.live(&id).filter(|live| !live.current().status.is_end()) else {
            let record = self.inner.results.get(&id).await?;
            let message = format!("result '{id}' is {} already", record.status.as_str());
            return Err(EngineError::new(ErrorKind::InvalidRequest, message));
        };
        live.cancellation.cancel();
        let mut changes = live.record.subscribe();
        let ended = changes.wait_for(|record| record.status.is_end());
        // Time for an agent to react to the interrupt.
        let record = match tokio::time::timeout(Duration::from_secs(10), ended).await {
            Ok(Ok(record)) => Arc::clone(&record),
            _ => live.current(),
        };
        Ok(Arc::unwrap_or_clone(record).into())
    }
}

/// Aborts a task when its waiter is dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn at_of(record: &ResultRecord) -> NodeRef {
    without_default(NodeRef { session: Some(record.session_id.clone()), node: record.node_id.clone() })
}

fn too_late(execute: &NodePrompt) -> EngineError {
    let message = format!("the turn on '{}' timed out in the queue", execute.at.node);
    EngineError::new(ErrorKind::Timeout, message)
}

/// Returns the body of a webhook request.
fn payload(record: &ResultRecord, now: f64) -> Value {
    let error = record.error.as_ref();
    // A turn that ended and failed has its error in the response.
    let of_response =
        |field: &str| record.response.as_ref().and_then(|response| response.get(field)).cloned();
    let message = error.map(|error| Value::from(error.message.as_str())).or_else(|| of_response("error"));
    let kind =
        error.map(|error| Value::from(error.error_type.as_str())).or_else(|| of_response("error_type"));
    json!({
        "event": READY, "result_id": record.result_id, "node_id": record.node_id, "session_id": record.session_id,
        "status": record.status.as_str(), "success": record.status == ResultStatus::Done,
        "response": record.response, "error": message, "error_type": kind,
        "hint": error.and_then(|error| error.hint.as_deref()), "timestamp": now,
    })
}
