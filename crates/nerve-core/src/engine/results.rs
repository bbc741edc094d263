//! Executions that nobody waits for: begun, ended, told, asked for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::Engine;
use super::conversations::without_default;
use crate::cancellation::cancelled;
use crate::clock::FAR;
use crate::command::{Background, EventKind, Execute, NodeRef, Outcome, Reply, Response};
use crate::error::{EngineError, ErrorKind};
use crate::results::{ActiveResult, ResultRecord, ResultStatus};
use crate::telemetry::{ActiveSpan, TraceContext};
use crate::webhook::{Attempt, Delivery, FIRST_PAUSE, Webhook};

/// The event, on the wire and to webhooks.
const READY: &str = "RESULT_READY";
/// Results in one answer, where nobody says how many.
const LISTED: usize = 100;

impl Engine {
    /// Answers at once with the id under which the result will be found.
    ///
    /// # Errors
    /// What is known to be wrong already; Busy.
    pub(super) async fn execute_in_background(
        &self,
        mut execute: Execute,
        background: Background,
    ) -> Outcome {
        let node = self.node(&execute.node)?;
        if node.as_graph().is_some() {
            return Err(self.takes_no_prompts(&execute.node, node.kind()));
        }
        if let Some(id) = execute.conversation.as_ref().and_then(|asked| asked.id.as_ref()) {
            self.conversation_store(id)?;
        }
        let results = &self.inner.results;
        let at = without_default(execute.node.clone());
        let lane = results.node_lock(&at);
        let alone = if execute.fail_if_busy {
            let message = format!("node '{}' does another turn", at.node);
            let busy =
                |_| EngineError::new(ErrorKind::Busy, message).hint("without fail_if_busy it would wait");
            Some(Arc::clone(&lane).try_lock_owned().map_err(busy)?)
        } else {
            None
        };
        let webhook = background.webhook;
        let live = results.accept(&at, &execute.text, webhook.as_ref().map(Into::into)).await?;
        let result = live.current().result_id.clone();
        let caller = execute.trace.take().map(Arc::new);
        let mut span = self.inner.telemetry.begin_result(caller.as_ref(), &at, &result);
        execute.trace = span.context().map(|context| TraceContext::clone(context));
        let engine = self.clone();
        results.tasks.spawn(async move {
            let closing = engine.inner.results.closing.clone();
            let work = async {
                let deadline = Instant::now() + execute.timeout.unwrap_or(FAR).min(FAR);
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
            engine.end_in_background(&live, outcome, webhook, &mut span).await;
            span.end(|_| {});
        });
        Ok(Reply::Accepted { result, node: at.node })
    }

    async fn run_in_background(
        &self,
        live: &ActiveResult,
        mut execute: Execute,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        let results = &self.inner.results;
        let running = Arc::new(ResultRecord {
            status: ResultStatus::Running,
            started_at: Some(results.seconds()),
            ..ResultRecord::clone(&live.current())
        });
        // On the disk first: who finds it there must not think that nothing was begun.
        results.save(live, Arc::clone(&running)).await.map_err(|problem| {
            EngineError::new(ErrorKind::Internal, format!("the turn was not begun: {problem}"))
        })?;
        live.set(running);
        if execute.timeout.is_some() {
            execute.timeout = Some(deadline.saturating_duration_since(Instant::now()));
        }
        // A panic must not take the result with it.
        let (engine, cancellation) = (self.clone(), live.cancellation.clone());
        let turn = tokio::spawn(async move { engine.turn(execute, Some(&cancellation)).await });
        let aborts = AbortOnDrop(turn.abort_handle());
        let done = turn.await;
        drop(aborts);
        done.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
    }

    /// `None`: the server goes down first.
    async fn end_in_background(
        &self,
        live: &ActiveResult,
        outcome: Option<Result<Response, EngineError>>,
        webhook: Option<Webhook>,
        span: &mut ActiveSpan,
    ) {
        let results = &self.inner.results;
        let now = results.seconds();
        let goes_down = outcome.is_none();
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
        // On the disk before anybody is told.
        let mut saved = self.saved(live, &record).await;
        live.set(Arc::clone(&record));
        let at = at_of(&record);
        let success = record.status == ResultStatus::Done;
        span.describe(|span| {
            span.attributes.set("nerve.status", record.status.as_str());
            if let Some(error) = &record.error {
                span.fail(ErrorKind::parse(&error.error_type).as_str(), "the turn failed");
            }
        });
        self.inner.events.publish(
            Some(&at),
            EventKind::ResultReady {
                result: record.result_id.clone(),
                success,
                status: record.status.as_str(),
            },
        );
        if let Some(webhook) = webhook.filter(|_| !goes_down) {
            self.deliver(live, &webhook, &record, span).await;
            saved = self.saved(live, &live.current()).await;
        }
        results.close(live, saved).await;
    }

    async fn deliver(
        &self,
        live: &ActiveResult,
        webhook: &Webhook,
        record: &ResultRecord,
        span: &mut ActiveSpan,
    ) {
        let delivery = Delivery {
            event: READY,
            id: record.result_id.clone(),
            body: payload(record, self.inner.results.seconds()).to_string().into(),
            trace: span.context().cloned(),
        };
        let tried = |attempt| {
            live.change(|record| {
                if let Some(webhook) = &mut record.webhook {
                    webhook.attempts.push(attempt);
                }
            });
        };
        let closing = self.inner.results.closing.clone();
        let delivered = tokio::select! {
            biased;
            delivered = webhook.deliver(&delivery, FIRST_PAUSE, tried) => Some(delivered),
            () = closing.cancelled() => None,
        };
        span.describe(|span| span.attributes.set("nerve.webhook.delivered", delivered == Some(true)));
        live.change(|record| match delivered {
            Some(true) => {
                if let Some(webhook) = &mut record.webhook {
                    webhook.delivered = true;
                }
            }
            Some(false) => {
                let last = record.webhook.as_ref().and_then(|webhook| webhook.attempts.last());
                let why = match last {
                    Some(Attempt { status: Some(status), .. }) => {
                        format!("it was answered with HTTP status {status}")
                    }
                    Some(Attempt { error: Some(error), .. }) => format!("the last try failed: {error}"),
                    _ => "the last try failed".to_string(),
                };
                record.give_up_webhook(&why);
            }
            None => record.give_up_webhook("the server was shut down before it was delivered"),
        });
        if delivered != Some(true) {
            let (result, origin) = (&record.result_id, webhook.origin());
            tracing::warn!(%result, %origin, "a webhook was not delivered");
        }
    }

    async fn saved(&self, live: &ActiveResult, record: &Arc<ResultRecord>) -> bool {
        match self.inner.results.save(live, Arc::clone(record)).await {
            Ok(()) => true,
            Err(problem) => {
                tracing::warn!("{problem}");
                self.inner.events.publish(Some(&at_of(record)), EventKind::Error { message: problem });
                false
            }
        }
    }

    /// A result; with `wait`, when it is there.
    pub(super) async fn get_result(&self, id: &str, wait: bool, timeout: Option<Duration>) -> Outcome {
        let results = &self.inner.results;
        if let Some(live) = results.live(id).filter(|_| wait) {
            let mut changes = live.record.subscribe();
            let deadline = Instant::now() + timeout.unwrap_or(FAR).min(FAR);
            let ended = timeout_at(deadline, changes.wait_for(|record| record.status.is_end())).await;
            match ended {
                Ok(Ok(record)) => return Ok(Reply::Result(Arc::clone(&record))),
                // It is not live any more.
                Ok(Err(_)) => {}
                Err(_) => {
                    let status = live.current().status.as_str();
                    let message =
                        format!("result '{id}' is still {status} after {:?}", timeout.unwrap_or(FAR));
                    return Err(EngineError::new(ErrorKind::Timeout, message)
                        .hint("it goes on: ask again, or cancel it"));
                }
            }
        }
        Ok(Reply::Result(results.get(id).await?))
    }

    /// Results, newest first, without their responses.
    pub(super) async fn list_results(
        &self,
        session: Option<String>,
        node: Option<String>,
        last: Option<usize>,
    ) -> Outcome {
        let fits = move |record: &ResultRecord| {
            session.as_ref().is_none_or(|session| *session == record.session_id)
                && node.as_ref().is_none_or(|node| *node == record.node_id)
        };
        Ok(Reply::Results(self.inner.results.list(last.unwrap_or(LISTED), fits).await?))
    }

    /// Takes the prompt back, or interrupts its turn; answers with the result as it is then.
    pub(super) async fn cancel_result(&self, id: &str) -> Outcome {
        let Some(live) = self.inner.results.live(id).filter(|live| !live.current().status.is_end()) else {
            let record = self.inner.results.get(id).await?;
            let message = format!("result '{id}' is {} already", record.status.as_str());
            return Err(EngineError::new(ErrorKind::InvalidRequest, message));
        };
        live.cancellation.cancel();
        let mut changes = live.record.subscribe();
        let ended = changes.wait_for(|record| record.status.is_end());
        // An interrupt has its effect in that time, with an agent that has one.
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        match ended {
            Ok(Ok(record)) => Ok(Reply::Result(Arc::clone(&record))),
            _ => Ok(Reply::Result(live.current())),
        }
    }
}

/// Ends a task with whoever waits for it.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn at_of(record: &ResultRecord) -> NodeRef {
    without_default(NodeRef { session: Some(record.session_id.clone()), node: record.node_id.clone() })
}

fn too_late(execute: &Execute) -> EngineError {
    let message = format!("the turn on '{}' was not begun in time: others were before it", execute.node.node);
    EngineError::new(ErrorKind::Timeout, message)
}

/// What a webhook is told.
fn payload(record: &ResultRecord, now: f64) -> Value {
    let error = record.error.as_ref();
    // A turn that came to its end and failed all the same says why itself.
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
