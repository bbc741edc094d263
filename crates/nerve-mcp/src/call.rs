//! One tool call: arguments, cancellation and progress.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::GateInfo;
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_client::{ClientError, EventStream, NerveClient};
use nerve_machine::Machines;
use nerve_types::activity::Activity;
use nerve_types::text::one_line;
use rmcp::model::{JsonObject, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::link::{Link, Subscription};
use crate::tool_result::Failure;

/// Minimum interval between progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of progress notifications without news: some clients give up a silent call.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum length of a progress message in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) link: Arc<Link>,
    pub(crate) machines: Option<Machines>,
    arguments: JsonObject,
    /// Cancelled by the client, or by its disconnection.
    cancelled: CancellationToken,
    /// Cancelled when the client has disconnected.
    disconnected: CancellationToken,
    sink: Option<ProgressSink>,
}

/// Sends progress notifications to a client.
#[derive(Debug)]
struct ProgressSink {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

/// A stream of events, and a function that describes the relevant ones as progress.
pub(crate) struct Progress<'a> {
    events: EventStream,
    describe: &'a (dyn Fn(&EventMessage) -> Option<String> + Send + Sync),
}

/// Outcome of a wait.
#[derive(Debug)]
pub(crate) enum WaitOutcome<T> {
    Done(T),
    /// The client cancelled the request and is still connected.
    Cancelled,
    /// The client has disconnected.
    Disconnected,
}

impl Call {
    pub(crate) fn new(
        link: Arc<Link>,
        machines: Option<Machines>,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        disconnected: CancellationToken,
    ) -> Call {
        let sink =
            context.meta.get_progress_token().map(|token| ProgressSink { peer: context.peer.clone(), token });
        Call { link, machines, arguments, cancelled: context.ct.clone(), disconnected, sink }
    }

    /// Parses the arguments.
    pub(crate) fn arguments<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.arguments).map_err(|error: serde_json::Error| {
            Failure::new("invalid_arguments", format!("invalid arguments: {error}"))
                .hint("see the tool's input schema")
        })
    }

    /// Returns true if the client requested progress notifications.
    pub(crate) fn wants_progress(&self) -> bool {
        self.sink.is_some()
    }

    /// Connects for a call. If the client requested progress, also subscribes to events of these types: of one node, of one run,
    /// or all.
    pub(crate) async fn start<'a>(
        &self,
        types: &[EventType],
        node: Option<&str>,
        run: Option<&str>,
        describe: &'a (dyn Fn(&EventMessage) -> Option<String> + Send + Sync),
    ) -> Result<(NerveClient, Option<Progress<'a>>), Failure> {
        if !self.wants_progress() {
            return Ok((self.link.client().await?, None));
        }
        let Subscription { client, events } = self.link.subscribe(types, node, run).await?;
        Ok((client, Some(Progress { events, describe })))
    }

    /// Waits for `work` and notifies the client of progress meanwhile, if requested.
    pub(crate) async fn follow<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
        mut progress: Option<Progress<'_>>,
    ) -> Result<WaitOutcome<T>, Failure> {
        tokio::pin!(work);
        let started = Instant::now();
        let mut ticks = tokio::time::interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut latest, mut last_reported) = (None, started);
        loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => {
                    return Ok(if self.disconnected.is_cancelled() { WaitOutcome::Disconnected } else { WaitOutcome::Cancelled });
                }
                done = &mut work => {
                    self.report(started, latest.take()).await;
                    return Ok(WaitOutcome::Done(done?));
                }
                message = next_message(&mut progress), if progress.is_some() => match message {
                    Some(Some(message)) => latest = Some(message),
                    Some(None) => {}
                    None => progress = None,
                },
                _ = ticks.tick(), if self.sink.is_some() => {
                    if latest.is_some() || last_reported.elapsed() >= KEEPALIVE_INTERVAL {
                        last_reported = Instant::now();
                        self.report(started, latest.take().or_else(|| Some("still working".to_string()))).await;
                    }
                }
            }
        }
    }

    /// Sends a progress notification. Progress is counted in seconds, since the total is unknown.
    async fn report(&self, started: Instant, message: Option<String>) {
        let (Some(sink), Some(message)) = (&self.sink, message) else { return };
        let message: String =
            one_line(&message).chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect();
        let notification =
            ProgressNotificationParam::new(sink.token.clone(), started.elapsed().as_secs_f64());
        // Fails if the client has disconnected, which is detected elsewhere.
        let _ = sink.peer.notify_progress(notification.with_message(message)).await;
    }
}

/// Waits for the next event and describes it. Returns `None` at the end of the stream.
async fn next_message(progress: &mut Option<Progress<'_>>) -> Option<Option<String>> {
    let progress = progress.as_mut()?;
    let event = progress.events.next().await?;
    Some((progress.describe)(&event))
}

/// Describes the progress in a node's event.
pub(crate) fn describe_node_event(event: &EventMessage) -> Option<String> {
    let last_line = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string);
    let text = match event.details()? {
        EventKind::OutputChunk { chunk, .. } => last_line(&chunk)?,
        EventKind::NodeBlocked { evidence, .. } => format!("waits for an answer: {evidence}"),
        EventKind::NodeActivity(activity) => match *activity {
            Activity::Thought { text, .. } => text,
            Activity::ToolStart { name, args, .. } => format!("tool {name} {args}"),
            Activity::ToolOutput { name, status, .. } => format!("tool {name}: {status}"),
            Activity::FileEdit { path, .. } => format!("edits {path}"),
            Activity::Error { message, .. } => message,
            Activity::Status { .. } | Activity::Log { .. } | Activity::Usage { .. } => return None,
        },
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Describes the progress in a run's event.
pub(crate) fn describe_run_event(event: &EventMessage) -> Option<String> {
    Some(match event.details()? {
        EventKind::StepStarted { step_id, .. } => format!("step {step_id} started"),
        EventKind::StepCompleted { step_id, state, .. } => format!("step {step_id} {state}"),
        EventKind::StepFailed { step_id, error, .. } => format!("step {step_id} failed: {error}"),
        EventKind::GateAsked { gate: GateInfo { step_id, question, .. }, .. } => {
            format!("step {step_id} waits for approval: {question}")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(event_type: &str, data: Value) -> EventMessage {
        EventMessage {
            event_type: event_type.to_string(),
            node_id: None,
            channel_id: None,
            session_id: None,
            data,
            emitted_at: Default::default(),
            timestamp: None,
            seq: 0,
        }
    }

    #[test]
    fn node_events_are_described() {
        let message = |kind, data| describe_node_event(&event(kind, data));
        assert_eq!(message("OUTPUT_CHUNK", json!({"chunk": "one\ntwo\n\n"})), Some("two".to_string()));
        assert_eq!(message("OUTPUT_CHUNK", json!({"chunk": "\n"})), None);
        let ts = "2025-11-30T10:53:20.100Z";
        let start = json!({
            "type": "tool_start", "name": "Bash", "args": {"command": "ls"}, "tool_execution_id": "t",
            "status": "running", "ts": ts,
        });
        assert_eq!(message("NODE_ACTIVITY", start), Some(r#"tool Bash {"command":"ls"}"#.to_string()));
        assert_eq!(message("NODE_ACTIVITY", json!({"type": "status", "status": "running", "ts": ts})), None);
        assert_eq!(message("NODE_READY", json!({})), None);
    }

    #[test]
    fn run_events_are_described() {
        assert_eq!(
            describe_run_event(&event("STEP_COMPLETED", json!({"step_id": "a", "state": "skipped"}))),
            Some("step a skipped".to_string())
        );
        assert_eq!(describe_run_event(&event("GRAPH_COMPLETED", json!({}))), None);
    }
}
