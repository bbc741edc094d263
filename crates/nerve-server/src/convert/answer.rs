//! From the engine's replies and errors to result lines.

use std::collections::BTreeMap;

use nerve_core::command::{Explanation, NodeInfo, Outcome, Reply, Response, SessionInfo};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::session::DEFAULT;
use nerve_proto::{RequestId, ResultMessage, data};
use nerve_term::parse::{Section, SectionKind, Tokens};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{line_of, seconds};

/// What the answer to one request must carry, whatever comes of it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) request_id: Option<RequestId>,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// The line that answers with what came of a command.
    pub(crate) fn outcome(self, outcome: Outcome) -> Vec<u8> {
        match outcome {
            Ok(reply) => self.ok(reply_data(reply)),
            Err(error) => self.failed(error),
        }
    }

    /// The line that answers SUBSCRIBE.
    pub(crate) fn subscribed(self, seq: u64) -> Vec<u8> {
        self.ok(value(data::SubscribedData { subscribed: true, seq }))
    }

    /// The line that answers SHUTDOWN.
    pub(crate) fn shutting_down(self) -> Vec<u8> {
        self.ok(value(data::StoppedData { stopped: true }))
    }

    /// The line that answers with an error.
    pub(crate) fn failed(self, error: EngineError) -> Vec<u8> {
        let EngineError { kind, message, hint, screen, choices, delivery } = error;
        let error_type = kind.as_str().to_string();
        let delivery = delivery.map(str::to_string);
        let data = data::ErrorData { error_type, hint, screen, choices, delivery };
        let message = ResultMessage::failed(self.request_id, message, &data).with_warnings(self.warnings);
        line_of(&nerve_proto::Message::Result(message))
    }

    fn ok(self, data: Value) -> Vec<u8> {
        let message = ResultMessage::ok(self.request_id, data).with_warnings(self.warnings);
        line_of(&nerve_proto::Message::Result(message))
    }
}

fn reply_data(reply: Reply) -> Value {
    match reply {
        Reply::Created(info) => value(data::CreatedData { node_id: info.id }),
        Reply::Stopped { .. } | Reply::ShuttingDown => value(data::StoppedData { stopped: true }),
        Reply::Nodes(nodes) => value(data::ListNodesData {
            nodes: nodes.iter().map(|node| node.id.clone()).collect(),
            nodes_info: nodes.into_iter().map(node_info).collect(),
        }),
        Reply::Node(info) => value(data::NodeData::from(node_info(*info))),
        Reply::Ran { .. } => value(data::RunData { executed: true }),
        Reply::Response(response) => value(execute_data(*response)),
        Reply::Interrupted { .. } => value(data::InterruptedData { interrupted: true }),
        Reply::Written { bytes } => value(data::WrittenData { written: bytes as u64 }),
        Reply::Done => json!({}),
        Reply::Buffer { text } => value(data::BufferData { buffer: text }),
        Reply::History { node, server, entries, total, note } => value(data::HistoryData {
            channel_id: node.clone(),
            node_id: node,
            server_name: server,
            entries: entries.iter().map(|entry| history_entry(entry)).collect(),
            total,
            note,
        }),
        Reply::Explained(explanation) => value(explain_data(*explanation)),
        Reply::State(state) => value(data::StateData { state: state.as_str().to_string() }),
        Reply::Session(session) => value(session_info(session)),
        Reply::Sessions(sessions) => {
            value(data::SessionsData { sessions: sessions.into_iter().map(session_info).collect() })
        }
        Reply::Pong { nodes, sessions } => {
            let version = env!("CARGO_PKG_VERSION").to_string();
            value(data::PongData { pong: true, nodes, graphs: 0, sessions, version })
        }
    }
}

/// An entry as it stands in the log; the reader has seen to it that it is JSON.
fn history_entry(entry: &str) -> Value {
    serde_json::from_str(entry).unwrap_or_else(|_| Value::from(entry))
}

fn node_info(info: NodeInfo) -> data::NodeInfo {
    let NodeInfo { id, session, kind, state, persistent, metadata } = info;
    let mut metadata = facts(metadata);
    // The default session has no name in the engine's references.
    let session = if session.is_empty() { DEFAULT.to_string() } else { session };
    metadata.insert("session".to_string(), Value::from(session));
    data::NodeInfo { id, kind: kind.to_string(), state: state.as_str().to_string(), persistent, metadata }
}

fn explain_data(explanation: Explanation) -> data::ExplainData {
    let Explanation { info, evidence, source, offset, choices, screen, turn } = explanation;
    let info = node_info(info);
    data::ExplainData {
        node_id: info.id,
        state: info.state,
        evidence,
        source: source.to_string(),
        offset,
        choices,
        screen,
        turn: turn.map(|(turn, delivery)| data::TurnData { turn, delivery: delivery.to_string() }),
        metadata: info.metadata,
    }
}

fn session_info(info: SessionInfo) -> data::SessionInfo {
    let SessionInfo { name, description, tags, nodes, created } = info;
    data::SessionInfo { name, description, tags, nodes, created_at: seconds(created) }
}

pub(crate) fn execute_data(response: Response) -> data::ExecuteData {
    let failure = failure_of(&response);
    let sections: Vec<data::SectionData> = response.sections.into_iter().map(section).collect();
    let tokens = response.tokens.map(tokens);
    let mut attributes = facts(response.attributes);
    if let Some(code) = attributes.get("exit_code").and_then(|code| code.as_str()?.parse::<i64>().ok()) {
        attributes.insert("exit_code".to_string(), Value::from(code));
    }
    attributes.insert("sections".to_string(), value(&sections));
    attributes.insert("tokens".to_string(), value(tokens));
    attributes.insert("ended_by".to_string(), Value::from(response.ended_by));
    attributes.insert("bytes".to_string(), json!([response.bytes.0, response.bytes.1]));
    attributes.insert("started_at".to_string(), Value::from(seconds(response.time.0)));
    attributes.insert("ended_at".to_string(), Value::from(seconds(response.time.1)));
    let (error, error_type) = failure.unzip();
    data::ExecuteData {
        node_id: response.node,
        turn: response.turn,
        response: data::ResponseData {
            raw: response.raw,
            output: response.text.clone(),
            text: response.text,
            sections,
            tokens,
            is_complete: response.is_complete,
            is_ready: response.is_ready,
            source: response.source.to_string(),
            delivery: response.delivery.to_string(),
            success: error.is_none(),
            error,
            error_type: error_type.map(str::to_string),
            attributes,
        },
    }
}

/// A turn that ended and did not do what it was asked: a command with another exit code than 0, or an agent that has nothing but
/// errors to show. Retry, skip and fallback of the first nerve never saw these (facts: the wire).
fn failure_of(response: &Response) -> Option<(String, &'static str)> {
    if let Some(code) = response.attributes.get("exit_code").filter(|code| *code != "0") {
        return Some((format!("the command ended with exit code {code}"), ErrorKind::Process.as_str()));
    }
    let of = |kind| response.sections.iter().find(move |section| section.kind == kind);
    match (of(SectionKind::Error), of(SectionKind::Text)) {
        (Some(error), None) => Some((error.content.clone(), "api_error")),
        _ => None,
    }
}

fn section(section: Section) -> data::SectionData {
    let Section { kind, content, metadata } = section;
    data::SectionData { kind: kind.as_str().to_string(), content, metadata: facts(metadata) }
}

fn tokens(tokens: Tokens) -> data::TokensData {
    let Tokens { input, output, total } = tokens;
    data::TokensData { input, output, total }
}

fn facts(facts: BTreeMap<String, String>) -> Map<String, Value> {
    facts.into_iter().map(|(key, fact)| (key, Value::from(fact))).collect()
}

/// The wire's types are maps with text keys, lists and plain values: they have no way to fail.
fn value(data: impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}
