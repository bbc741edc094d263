//! A compatibility layer that shows a node as agentapi shows an agent (<https://github.com/coder/agentapi>).

mod events;
mod message;

use axum::extract::{RawPathParams, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use nerve_api::reply::{ExecuteReply, NodeInfo, TurnAccepted};
use nerve_api::request::{ExecuteInput, GetHistory, GetNode, GetResult, WriteData};
use nerve_api::value::NodeState;
use nerve_api::{DEFAULT_SESSION, ErrorKind, EventKind};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use self::message::Message;
pub(crate) use self::message::{
    AgentActivity, AgentStatus, AgentTransport, MessageAccepted, MessageKind, MessageList, MessageRequest,
};
use super::budget::MemoryReservation;
use super::operation::{Builtin, Operation};
use super::problem::Problem;
use super::resource::{PathParams, call, guarded_body, json_body, raw_query};
use super::{SiteState, body, query};
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
    State(site): State<SiteState>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, sent) = request.into_parts();
    let agent = Agent::new(site, operation, &path, &parts.uri)?;
    match which {
        Builtin::AgentMessages => {
            let (messages, memory) = agent.messages().await?;
            Ok(json_body(guarded_body(encode(&MessageList { messages }), memory)))
        }
        Builtin::AgentMessage => agent.send(&body::read(sent, &agent.site.budget).await?.bytes).await,
        Builtin::AgentEvents => events::stream(agent).await,
        _ => Ok(json_body(encode(&agent.status().await?))),
    }
}

/// Encodes an object of agentapi, all of which consist of texts, numbers and lists: this cannot fail.
fn encode(object: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(object).unwrap_or_default()
}

/// A node that is addressed through agentapi's interface.
#[derive(Debug, Clone)]
struct Agent {
    site: SiteState,
    node: String,
    session: Option<String>,
}

impl Agent {
    fn new(
        site: SiteState,
        operation: &Operation,
        path: &RawPathParams,
        uri: &Uri,
    ) -> Result<Agent, Problem> {
        let session = match query::read(operation.query(), &raw_query(uri)?)?.remove("session_id") {
            Some(Value::String(session)) => Some(session),
            _ => None,
        };
        let node = path.iter().next().map(|(_, node)| node.to_string()).unwrap_or_default();
        Ok(Agent { site, node, session })
    }

    /// Runs a request about the node.
    async fn request<R: nerve_api::Request>(&self, request: R) -> Result<R::Reply, Problem> {
        call(request, &self.site).await.map(|(reply, _)| reply)
    }

    async fn info(&self) -> Result<NodeInfo, Problem> {
        self.request(GetNode::new(&*self.node, self.session.clone())).await
    }

    /// Returns the status.
    async fn status(&self) -> Result<AgentStatus, Problem> {
        let node = self.info().await?;
        let works = matches!(
            node.state,
            NodeState::Busy | NodeState::Starting | NodeState::Created | NodeState::Stopping
        );
        Ok(AgentStatus {
            agent_type: node.metadata.known_text("profile").map_or(node.kind, str::to_string),
            status: if works { AgentActivity::Running } else { AgentActivity::Stable },
            transport: AgentTransport::Pty,
        })
    }

    /// Returns the messages of both sides from the node's history.
    async fn messages(&self) -> Result<(Vec<Message>, MemoryReservation), Problem> {
        // Fails if the node does not exist; one without a history just has no messages.
        self.info().await?;
        let (entries, memory) = self.entries(MAX_TURNS).await?;
        Ok((entries.iter().flat_map(Message::of).collect(), memory))
    }

    /// Returns the messages after `last_sent`. Reads no more of the history's end than necessary.
    async fn messages_after(&self, last_sent: u64) -> Result<(Vec<Message>, MemoryReservation), Problem> {
        let few = match last_sent {
            0 => None,
            last_sent => Some(self.entries(RECENT_TURNS).await?)
                .filter(|(entries, _)| message::covers(entries, RECENT_TURNS, last_sent)),
        };
        let (entries, memory) = match few {
            Some(few) => few,
            // The memory of the first try is released: holding some while waiting for more could deadlock.
            None => self.entries(MAX_TURNS).await?,
        };
        let messages = entries.iter().flat_map(Message::of);
        Ok((messages.filter(|message| message.id > last_sent).collect(), memory))
    }

    /// Returns the last inputs of the history, oldest first.
    async fn entries(&self, last: usize) -> Result<(Vec<Value>, MemoryReservation), Problem> {
        let request = GetHistory {
            node_id: self.node.clone(),
            session_id: self.session.clone(),
            inputs_only: true,
            last: Some(last),
            ..GetHistory::default()
        };
        let (history, memory) = call(request, &self.site).await?;
        Ok((history.entries, memory))
    }

    async fn send(&self, sent: &[u8]) -> Result<Response, Problem> {
        let message: MessageRequest = serde_json::from_slice(sent).map_err(|error| {
            Problem::invalid(format!("body: {}", query::short(&error.to_string())))
                .hint("{\"content\":\"…\",\"type\":\"user\"}")
        })?;
        match message.kind {
            MessageKind::User => self.prompt(message.content).await?,
            MessageKind::Raw => {
                let (node_id, session_id) = (self.node.clone(), self.session.clone());
                self.request(WriteData { node_id, session_id, data: message.content }).await?;
            }
        }
        Ok(json_body(encode(&MessageAccepted { ok: true })))
    }

    /// Sends a prompt and waits until the agent has started to work on it.
    async fn prompt(&self, text: String) -> Result<(), Problem> {
        let state = self.info().await?.state;
        if state != NodeState::Ready {
            let detail = format!("the agent is {state}, not ready");
            return Err(Problem::new(StatusCode::CONFLICT, ErrorKind::Busy, detail)
                .hint("wait until its status is stable; answer a dialog with a message of type raw"));
        }
        let session = Some(self.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string()));
        let filter = Filter { node: Some(self.node.clone()), session, ..Filter::default() };
        let events = self.site.state.hub.subscribe(filter, None);
        let request = ExecuteInput {
            session_id: self.session.clone(),
            is_async: true,
            fail_if_busy: true,
            ..ExecuteInput::new(&*self.node, text)
        };
        let ExecuteReply::Accepted(TurnAccepted { result_id, .. }) = self.request(request).await? else {
            return Ok(());
        };
        let deadline = Instant::now() + START_TIMEOUT;
        let timed_out = |_| {
            Problem::new(StatusCode::GATEWAY_TIMEOUT, ErrorKind::Timeout, "the agent did not start in time")
        };
        loop {
            for event in tokio::time::timeout_at(deadline, events.next_events()).await.map_err(timed_out)? {
                match &event.event.kind {
                    // A dialog proves that the prompt arrived, too.
                    EventKind::NodeBusy { .. }
                    | EventKind::NodeBlocked { .. }
                    | EventKind::NodeSuspended { .. } => return Ok(()),
                    EventKind::ResultReady { result_id: ready, .. } if *ready == result_id => {
                        return self.check_outcome(result_id).await;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Handles a prompt that ended before a start event arrived: it was answered or not delivered.
    async fn check_outcome(&self, result_id: String) -> Result<(), Problem> {
        let result = self.request(GetResult { result_id, ..GetResult::default() }).await?;
        match result.error.filter(|_| result.response.is_none()) {
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
    use nerve_api::request::CreateNode;
    use nerve_api::value::BackendKind;

    use super::*;
    use crate::http::{OPERATIONS, route};

    #[tokio::test]
    async fn messages_hold_memory_until_sent() {
        let folder = tempfile::tempdir().unwrap();
        let site = SiteState::for_test(folder.path());
        let agent = Agent { site: site.clone(), node: "sh".into(), session: None };
        agent.request(CreateNode { backend: BackendKind::Bash, ..CreateNode::new("sh") }).await.unwrap();
        agent.request(ExecuteInput::new("sh", "seq 1000")).await.unwrap();
        let mut router = Router::new();
        for operation in OPERATIONS {
            router = router.route(operation.path, route(operation));
        }
        let service = TowerToHyperService::new(router.with_state(site.clone()));
        for what in ["messages", "events"] {
            let request = Request::get(format!("/compat/agentapi/sh/{what}")).body(Body::empty()).unwrap();
            let mut answer = service.call(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert!((1..20_000).contains(&site.budget.response_bytes_in_use()), "{what}");
            let mut last_sent = String::new();
            while !last_sent.contains("1000") {
                let frame = answer.body_mut().frame().await.unwrap().unwrap();
                last_sent.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
            drop(answer);
            assert_eq!(site.budget.response_bytes_in_use(), 0, "{what}");
        }
    }
}
