//! From the engine's replies and errors to result lines.

use std::collections::BTreeMap;

use nerve_api::{Message, RequestId, RequestName, ResultMessage, data, framing};
use nerve_core::command::{Explanation, NodeInfo, Outcome, Reply, Response, RunEnded, SessionInfo};
use nerve_core::error::EngineError;
use nerve_core::session::DEFAULT;
use serde_json::{Map, Value, json};

use super::{graph, line_of, result, seconds, value};

/// The longest message of an error, in bytes: it may repeat a name that is megabytes long.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// What the answer to one request must carry, whatever comes of it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) request_id: Option<RequestId>,
    /// What was asked for, where that is known.
    pub(crate) command: Option<RequestName>,
    pub(crate) warnings: Vec<String>,
    /// Only so many steps of a run.
    pub(crate) last: Option<usize>,
}

impl Answer {
    /// The line that answers with what came of a command.
    pub(crate) fn outcome(mut self, outcome: Outcome) -> Vec<u8> {
        let last = self.last;
        match outcome {
            Ok(Reply::Response(mut response)) => {
                // They are the answer's, not the turn's.
                let warnings = response.attributes.remove(Response::WARNINGS).unwrap_or_default();
                self.warnings.extend(warnings.lines().map(str::to_string));
                self.ok(reply_data(Reply::Response(response), last))
            }
            Ok(Reply::RunEnded(ended)) => self.run_ended(*ended),
            Ok(reply) => self.ok(reply_data(reply, last)),
            Err(error) => self.failed(error),
        }
    }

    /// The line that answers SUBSCRIBE.
    pub(crate) fn subscribed(self, seq: u64, server: &str) -> Vec<u8> {
        self.ok(value(data::Subscribed { subscribed: true, seq, server: Some(server.to_string()) }))
    }

    /// The line that answers AUTHENTICATE of a client that is let in.
    pub(crate) fn authenticated(self) -> Vec<u8> {
        self.ok(json!({ "authenticated": true }))
    }

    /// The line that answers SHUTDOWN.
    pub(crate) fn shutting_down(self) -> Vec<u8> {
        self.ok(value(data::Stopped { stopped: true }))
    }

    /// The line that answers with an error.
    pub(crate) fn failed(self, error: EngineError) -> Vec<u8> {
        let (message, data) = error_data(error);
        let message = ResultMessage::failed(self.request_id, message, &data).with_warnings(self.warnings);
        line_of(&Message::Result(message))
    }

    fn ok(self, data: Value) -> Vec<u8> {
        let message = ResultMessage::ok(self.request_id, data).with_warnings(self.warnings);
        line_of(&Message::Result(message))
    }

    /// The line that answers with a run that has ended. What a line does not hold is left out, and the client told.
    fn run_ended(mut self, ended: RunEnded) -> Vec<u8> {
        let (mut run, error) = graph::run_ended(ended);
        let mut failure = error.map(error_data);
        loop {
            let message = self.run_message(&run, failure.as_ref());
            match framing::encode(&message) {
                Ok(line) => return line,
                Err(too_large) if run.trace.take().is_some() => {
                    self.warnings.push(format!("the trace is left out: {too_large}"));
                }
                Err(too_large) if !run.results.is_empty() => {
                    run.results.clear();
                    self.warnings.push(format!("the results are left out: {too_large}"));
                    failure.get_or_insert_with(|| results_too_large(&run));
                }
                Err(_) => return line_of(&message),
            }
        }
    }

    fn run_message(&self, run: &data::RunEnded, failure: Option<&(String, data::ErrorDetails)>) -> Message {
        let mut result = ResultMessage::ok(self.request_id.clone(), value(run));
        result.warnings.clone_from(&self.warnings);
        if let Some((error, data)) = failure {
            result.success = false;
            result.error = Some(error.clone());
            if let (Value::Object(fields), Value::Object(more)) = (&mut result.data, value(data)) {
                fields.extend(more);
            }
        }
        Message::Result(result)
    }
}

/// What an error's message and `data` say.
fn error_data(error: EngineError) -> (String, data::ErrorDetails) {
    // What a graph had done is told by its run.
    let EngineError { kind, mut message, hint, screen, choices, delivery, of_run } = error;
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE).rev().find(|&end| message.is_char_boundary(end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
    let data = data::ErrorDetails {
        error_type: kind.as_str().to_string(),
        hint,
        screen,
        choices: choices.into(),
        delivery: delivery.map(str::to_string),
        exceeded: of_run.and_then(|run| run.exceeded).map(graph::exceeded),
        run: None,
    };
    (message, data)
}

/// A run that did what it should, and whose results nobody could read.
fn results_too_large(run: &data::RunEnded) -> (String, data::ErrorDetails) {
    let hint = run.journal.as_ref().map(|journal| format!("they are in its journal, {journal}"));
    let data = data::ErrorDetails { hint, ..data::ErrorDetails::of("too_large") };
    (format!("run '{}' is {}, and its results are too large for an answer", run.run_id, run.status), data)
}

/// What a result says. `last`: only so many steps of a run.
fn reply_data(reply: Reply, last: Option<usize>) -> Value {
    match reply {
        Reply::Created(info) => value(data::NodeCreated { node_id: info.id }),
        Reply::Forked { info, from } => value(data::NodeForked { node_id: info.id, forked_from: from }),
        Reply::Stopped { .. } | Reply::ShuttingDown => value(data::Stopped { stopped: true }),
        Reply::Nodes(nodes) => value(data::NodeList {
            nodes: nodes.iter().map(|node| node.id.clone()).collect(),
            nodes_info: nodes.into_iter().map(node_info).collect(),
        }),
        Reply::Node(info) => value(data::NodeDetails::from(node_info(*info))),
        Reply::Ran { .. } => value(data::CommandTyped { executed: true }),
        Reply::Response(response) => value(execute_data(*response)),
        Reply::Accepted { result, node } => value(data::TurnAccepted { result_id: result, node_id: node }),
        Reply::Result(record) => value(result::result(std::sync::Arc::unwrap_or_clone(record))),
        Reply::Results(records) => {
            value(data::ResultList { results: records.into_iter().map(result::result).collect() })
        }
        Reply::Interrupted { .. } => value(data::Interrupted { interrupted: true }),
        Reply::Written { bytes } => value(data::Written { written: bytes as u64 }),
        Reply::Done => json!({}),
        Reply::Buffer { text } => value(data::NodeText { buffer: text }),
        Reply::History { node, server, entries, total, note } => value(data::NodeHistory {
            channel_id: node.clone(),
            node_id: node,
            server_name: server,
            entries: entries.iter().map(|entry| history_entry(entry)).collect(),
            total,
            note,
        }),
        Reply::Explained(explanation) => value(explain_data(*explanation)),
        Reply::State(state) => value(data::ReachedState { state: state.as_str().to_string() }),
        Reply::Session(session) => value(session_info(session)),
        Reply::Sessions(sessions) => {
            value(data::SessionList { sessions: sessions.into_iter().map(session_info).collect() })
        }
        Reply::Lifecycle { done, failed } => value(lifecycle(done, failed)),
        Reply::Graph(info) => value(graph::graph_info(*info)),
        Reply::Graphs(graphs) => value(graph::graphs(graphs)),
        Reply::Run(run) => value(graph::run_info(*run, last)),
        Reply::Runs(runs) => value(graph::runs(runs)),
        Reply::RunEnded(ended) => value(graph::run_ended(*ended).0),
        Reply::Cancelled { runs } => value(data::RunsCancelled { cancelled: !runs.is_empty(), runs }),
        Reply::Pong { nodes, graphs, sessions } => {
            let version = env!("CARGO_PKG_VERSION").to_string();
            value(data::Pong { pong: true, nodes, graphs, sessions, version })
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

fn explain_data(explanation: Explanation) -> data::NodeExplanation {
    let Explanation { info, evidence, source, offset, choices, screen, turn } = explanation;
    let info = node_info(info);
    data::NodeExplanation {
        node_id: info.id,
        state: info.state,
        evidence,
        source: source.to_string(),
        offset,
        choices,
        screen,
        turn: turn.map(|(turn, delivery)| data::RunningTurn { turn, delivery: delivery.to_string() }),
        metadata: info.metadata,
    }
}

fn session_info(info: SessionInfo) -> data::SessionInfo {
    let SessionInfo { name, description, tags, nodes, graphs, created } = info;
    data::SessionInfo { name, description, tags, nodes, graphs, created_at: seconds(created) }
}

fn lifecycle(done: Vec<String>, failed: Vec<(String, String)>) -> data::NodesChanged {
    let failed = failed.into_iter().map(|(node_id, error)| data::NodeFailure { node_id, error }).collect();
    data::NodesChanged { nodes: done, failed }
}

/// A finished turn: the object that a step of a graph gives too.
pub(crate) fn execute_data(response: Response) -> data::Turn {
    let (node_id, turn) = (response.node.clone(), response.turn);
    // Its fields are those of the wire: there is nothing in it that could not be read.
    let response = serde_json::from_value(response.into_value()).unwrap_or_else(|error| data::TurnResponse {
        error: Some(error.to_string()),
        ..data::TurnResponse::default()
    });
    data::Turn { response, node_id, turn }
}

fn facts(facts: BTreeMap<String, String>) -> Map<String, Value> {
    facts.into_iter().map(|(key, fact)| (key, Value::from(fact))).collect()
}
