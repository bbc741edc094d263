//! One call of a tool: its arguments, its cancellation, its progress.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::EventMessage;
use nerve_client::{ClientError, EventStream};
use rmcp::model::{JsonObject, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::link::Link;
use crate::outcome::Failure;

/// At most so often a client is told of progress.
const PULSE: Duration = Duration::from_millis(250);
/// A client is told so often that nothing is new: some give a call up that they hear nothing of.
const STILL: Duration = Duration::from_secs(10);
/// Characters of a message of progress.
const MESSAGE_CHARS: usize = 200;

/// What a tool is called with.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) link: Arc<Link>,
    arguments: JsonObject,
    /// The request was cancelled, or its client is gone.
    cancelled: CancellationToken,
    /// The client is gone.
    gone: CancellationToken,
    told: Option<Told>,
}

/// Who is told of progress.
#[derive(Debug)]
struct Told {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

/// Events, and what is told of each that counts.
pub(crate) struct News<'a> {
    pub(crate) events: EventStream,
    pub(crate) words: &'a (dyn Fn(&EventMessage) -> Option<String> + Send + Sync),
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    Done(T),
    /// The client cancelled the request and is still there.
    Cancelled,
    /// The client is gone.
    Left,
}

impl Call {
    pub(crate) fn new(
        link: Arc<Link>,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
        gone: CancellationToken,
    ) -> Call {
        let told = context.meta.get_progress_token().map(|token| Told { peer: context.peer.clone(), token });
        let arguments = arguments.unwrap_or_default();
        Call { link, arguments, cancelled: context.ct.clone(), gone, told }
    }

    /// The arguments as the tool takes them.
    pub(crate) fn arguments<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(Value::Object(self.arguments.clone())).map_err(|error| {
            Failure::new("invalid_arguments", format!("wrong arguments: {error}"))
                .hint("the tool's input schema says what it takes")
        })
    }

    /// The client wants to be told of progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.told.is_some()
    }

    /// Waits for `work` and tells the client of progress meanwhile, if it wants to know.
    pub(crate) async fn follow<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
        mut news: Option<News<'_>>,
    ) -> Result<Waited<T>, Failure> {
        tokio::pin!(work);
        let began = Instant::now();
        let mut pulse = tokio::time::interval_at(began + PULSE, PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut latest, mut last_told) = (None, began);
        loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => {
                    return Ok(if self.gone.is_cancelled() { Waited::Left } else { Waited::Cancelled });
                }
                done = &mut work => {
                    self.tell(began, latest.take()).await;
                    return Ok(Waited::Done(done?));
                }
                words = next(&mut news), if news.is_some() => match words {
                    Some(Some(words)) => latest = Some(words),
                    Some(None) => {}
                    None => news = None,
                },
                _ = pulse.tick(), if self.told.is_some() => {
                    if latest.is_some() || last_told.elapsed() >= STILL {
                        last_told = Instant::now();
                        self.tell(began, latest.take().or_else(|| Some("still at work".to_string()))).await;
                    }
                }
            }
        }
    }

    /// Progress is counted in seconds: how much is left nobody knows.
    async fn tell(&self, began: Instant, words: Option<String>) {
        let (Some(told), Some(words)) = (&self.told, words) else { return };
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: String = words.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS).collect();
        let progress = ProgressNotificationParam::new(told.token.clone(), began.elapsed().as_secs_f64());
        // It fails when the client is gone, which shows elsewhere.
        let _ = told.peer.notify_progress(progress.with_message(words)).await;
    }
}

/// What there is to tell of the next event; `None` when there will be none.
async fn next(news: &mut Option<News<'_>>) -> Option<Option<String>> {
    let news = news.as_mut()?;
    let event = news.events.next().await?;
    Some((news.words)(&event))
}

/// What a node's event says of its progress.
pub(crate) fn of_node(event: &EventMessage) -> Option<String> {
    let text =
        |name: &str| event.data.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let last_line = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string);
    match event.event_type.as_str() {
        "OUTPUT_CHUNK" => last_line(text("chunk")?),
        "NODE_BLOCKED" => Some(format!("asks: {}", text("evidence").unwrap_or("something"))),
        "NODE_ACTIVITY" => match text("type")? {
            "thought" => text("content").map(str::to_string),
            "tool_start" => {
                let args = event.data.get("args").filter(|args| !args.is_null());
                Some(format!("tool {} {}", text("name")?, args.map(Value::to_string).unwrap_or_default()))
            }
            "tool_output" => Some(format!("tool {}: {}", text("name")?, text("status").unwrap_or("done"))),
            "file_edit" => Some(format!("edits {}", text("path")?)),
            "error" => text("message").map(str::to_string),
            _ => None,
        },
        _ => None,
    }
}

/// What an event of a run says of its progress.
pub(crate) fn of_run(event: &EventMessage) -> Option<String> {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str);
    let step = text("step_id")?;
    match event.event_type.as_str() {
        "STEP_STARTED" => Some(format!("step {step} begins")),
        "STEP_COMPLETED" => Some(format!("step {step} {}", text("state").unwrap_or("completed"))),
        "STEP_FAILED" => Some(format!("step {step} failed: {}", text("error").unwrap_or_default())),
        "GATE_ASKED" => {
            Some(format!("step {step} waits for a person: {}", text("question").unwrap_or_default()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(event_type: &str, data: Value) -> EventMessage {
        EventMessage {
            event_type: event_type.to_string(),
            node_id: None,
            channel_id: None,
            session_id: None,
            data,
            timestamp: 0.0,
            seq: 0,
        }
    }

    #[test]
    fn what_a_node_does_is_told_in_words() {
        let told = |kind, data| of_node(&event(kind, data));
        assert_eq!(told("OUTPUT_CHUNK", json!({"chunk": "one\ntwo\n\n"})), Some("two".to_string()));
        assert_eq!(told("OUTPUT_CHUNK", json!({"chunk": "\n"})), None);
        let start = json!({"type": "tool_start", "name": "Bash", "args": {"command": "ls"}});
        assert_eq!(told("NODE_ACTIVITY", start), Some(r#"tool Bash {"command":"ls"}"#.to_string()));
        assert_eq!(told("NODE_ACTIVITY", json!({"type": "status", "status": "running"})), None);
        assert_eq!(told("NODE_READY", json!({})), None);
    }

    #[test]
    fn a_run_tells_its_steps() {
        assert_eq!(
            of_run(&event("STEP_COMPLETED", json!({"step_id": "a", "state": "skipped"}))),
            Some("step a skipped".to_string())
        );
        assert_eq!(of_run(&event("GRAPH_COMPLETED", json!({}))), None);
    }
}
