//! A compatibility layer that shows a node as agentapi shows an agent (<https://github.com/coder/agentapi>).

mod events;
mod message;

use axum::extract::{RawPathParams, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use nerve_api::{ErrorKind, RequestName, ResultMessage};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::message::Message;
use super::budget::Share;
use super::operation::{Builtin, Operation};
use super::problem::Problem;
use super::resource::{PathParams, execute, held, json_body, raw_query};
use super::{Shared, body, query};
use crate::events::Filter;

/// Number of turns whose messages are listed.
const MAX_TURNS: usize = 500;
/// Number of history entries read first when only new ones are wanted.
const RECENT_TURNS: usize = 8;
/// Time that an agent may take to start working on a message.
const START_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Answers a request of agentapi's interface.
pub(crate) async fn serve(
    operation: &'static Operation,
    which: Builtin,
    State(shared): State<Shared>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, sent) = request.into_parts();
    let agent = Agent::new(shared, operation, &path, &parts.uri)?;
    match which {
        Builtin::AgentMessages => {
            let (messages, share) = agent.messages().await?;
            let bytes = json!({ "messages": messages }).to_string().into_bytes();
            Ok(json_body(held(bytes, share)))
        }
        Builtin::AgentMessage => agent.send(&body::read(sent, &agent.shared.budget).await?.bytes).await,
        Builtin::AgentEvents => events::stream(agent).await,
        _ => Ok(json_body(agent.status().await?.to_string())),
    }
}

/// A node that is addressed through agentapi's interface.
#[derive(Debug, Clone)]
struct Agent {
    shared: Shared,
    /// The node's id, and its session if given.
    node: Map<String, Value>,
}

/// The body of a message request.
#[derive(Deserialize)]
struct MessageRequest {
    content: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Agent {
    fn new(shared: Shared, operation: &Operation, path: &RawPathParams, uri: &Uri) -> Result<Agent, Problem> {
        let mut node = query::read(operation.query(), &raw_query(uri)?)?;
        node.extend(path.iter().map(|(name, text)| (name.to_string(), Value::from(text))));
        Ok(Agent { shared, node })
    }

    /// Runs a command about the node.
    async fn ask(&self, name: RequestName, more: Value) -> Result<Value, Problem> {
        self.ask_with_memory(name, more).await.map(|(data, _)| data)
    }

    /// Like [`Agent::ask`] for large replies, with the memory reserved for the reply.
    async fn ask_with_memory(&self, name: RequestName, more: Value) -> Result<(Value, Share), Problem> {
        let mut params = self.node.clone();
        if let Value::Object(more) = more {
            params.extend(more);
        }
        let (result, share) = execute(name, params, &self.shared, Share::default()).await?;
        if result.success { Ok((result.data, share)) } else { Err(Problem::of(result)) }
    }

    /// Returns the status. `stable`: the agent waits for input, possibly in a dialog.
    async fn status(&self) -> Result<Value, Problem> {
        let node = self.ask(RequestName::GetNode, Value::Null).await?;
        let works = ["busy", "starting", "created", "stopping"].iter().any(|state| node["state"] == *state);
        let kind = node["metadata"].get("profile").unwrap_or(&node["type"]);
        let status = if works { "running" } else { "stable" };
        Ok(json!({ "agent_type": kind, "status": status, "transport": "pty" }))
    }

    /// Returns the messages of both sides from the node's history.
    async fn messages(&self) -> Result<(Vec<Message>, Share), Problem> {
        // Fails if the node does not exist; one without a history just has no messages.
        self.ask(RequestName::GetNode, Value::Null).await?;
        let (entries, share) = self.entries(MAX_TURNS).await?;
        Ok((entries.iter().flat_map(Message::of).collect(), share))
    }

    /// Returns the messages after `last_sent`. Reads no more of the history's end than necessary.
    async fn messages_after(&self, last_sent: u64) -> Result<(Vec<Message>, Share), Problem> {
        let few = match last_sent {
            0 => None,
            last_sent => Some(self.entries(RECENT_TURNS).await?)
                .filter(|(entries, _)| message::covers(entries, RECENT_TURNS, last_sent)),
        };
        let (entries, share) = match few {
            Some(few) => few,
            // The memory of the first try is released: holding some while waiting for more could deadlock.
            None => self.entries(MAX_TURNS).await?,
        };
        let messages = entries.iter().flat_map(Message::of);
        Ok((messages.filter(|message| message.id > last_sent).collect(), share))
    }

    /// Returns the last inputs of the history, oldest first.
    async fn entries(&self, last: usize) -> Result<(Vec<Value>, Share), Problem> {
        let params = json!({ "inputs_only": true, "last": last });
        let (mut history, share) = self.ask_with_memory(RequestName::GetHistory, params).await?;
        match history["entries"].take() {
            Value::Array(entries) => Ok((entries, share)),
            _ => Ok((Vec::new(), share)),
        }
    }

    async fn send(&self, sent: &[u8]) -> Result<Response, Problem> {
        let message: MessageRequest = serde_json::from_slice(sent).map_err(|error| {
            Problem::invalid(format!("body: {}", query::short(&error.to_string())))
                .hint("{\"content\":\"…\",\"type\":\"user\"}")
        })?;
        match message.kind.as_str() {
            "user" => self.prompt(&message.content).await?,
            "raw" => drop(self.ask(RequestName::WriteData, json!({ "data": message.content })).await?),
            other => {
                let detail = format!("type: expected \"user\" or \"raw\", got {:?}", query::short(other));
                return Err(Problem::invalid(detail));
            }
        }
        Ok(json_body(json!({ "ok": true }).to_string()))
    }

    /// Sends a prompt and waits until the agent has started to work on it.
    async fn prompt(&self, text: &str) -> Result<(), Problem> {
        let state = self.ask(RequestName::GetNode, Value::Null).await?["state"].take();
        if state != "ready" {
            let detail = format!("the agent is {}, not ready", state.as_str().unwrap_or("unknown"));
            return Err(Problem::new(StatusCode::CONFLICT, ErrorKind::Busy, detail)
                .hint("wait until its status is stable; answer a dialog with a message of type raw"));
        }
        let node = self.node.get("node_id").and_then(Value::as_str).map(str::to_string);
        let session = self.node.get("session_id").and_then(Value::as_str);
        let session = Some(session.unwrap_or(nerve_graph::session::DEFAULT).to_string());
        let events = self.shared.state.hub.subscribe(Filter { node, session, ..Filter::default() }, None);
        let begun =
            self.ask(RequestName::ExecuteInput, json!({ "text": text, "async": true, "fail_if_busy": true }));
        let result = begun.await?["result_id"].take();
        let deadline = Instant::now() + START_TIMEOUT;
        let late = |_| {
            Problem::new(StatusCode::GATEWAY_TIMEOUT, ErrorKind::Timeout, "the agent did not start in time")
        };
        loop {
            for (_, line) in tokio::time::timeout_at(deadline, events.next_events()).await.map_err(late)? {
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                match event["event_type"].as_str() {
                    Some("NODE_BUSY") => return Ok(()),
                    Some("RESULT_READY") if event["data"]["result_id"] == result => {
                        return self.ended(&result).await;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Handles a prompt that ended before it was seen to start: it was answered or not delivered.
    async fn ended(&self, result: &Value) -> Result<(), Problem> {
        let ended = execute(
            RequestName::GetResult,
            Map::from_iter([("result_id".to_string(), result.clone())]),
            &self.shared,
            Share::default(),
        );
        let (ResultMessage { data, .. }, _share) = ended.await?;
        match data.get("response").is_none_or(Value::is_null).then(|| data["error"].as_str()).flatten() {
            Some(error) => Err(Problem::new(StatusCode::CONFLICT, ErrorKind::Delivery, error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::http::{OPERATIONS, route};

    #[tokio::test]
    async fn messages_hold_memory_until_sent() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::of_test(folder.path());
        let agent = Agent { shared: shared.clone(), node: Map::from_iter([("node_id".into(), json!("sh"))]) };
        agent.ask(RequestName::CreateNode, json!({ "backend": "bash" })).await.unwrap();
        agent.ask(RequestName::ExecuteInput, json!({ "text": "seq 1000" })).await.unwrap();
        let mut router = Router::new();
        for operation in OPERATIONS {
            router = router.route(operation.path, route(operation));
        }
        let service = TowerToHyperService::new(router.with_state(shared.clone()));
        for what in ["messages", "events"] {
            let request = Request::get(format!("/compat/agentapi/sh/{what}")).body(Body::empty()).unwrap();
            let mut answer = service.call(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert!((1..20_000).contains(&shared.budget.answers_in_use()), "{what}");
            let mut last_sent = String::new();
            while !last_sent.contains("1000") {
                let frame = answer.body_mut().frame().await.unwrap().unwrap();
                last_sent.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
            drop(answer);
            assert_eq!(shared.budget.answers_in_use(), 0, "{what}");
        }
    }
}
