//! All that can be asked for over HTTP, as one table: the routes and `/openapi.json` are both made from it.

use nerve_api::{RequestName, data, params};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use super::operation::{Does, Mapped, Operation, Own, SchemaOf};
use super::page::{self, List};
use super::query::{self, Kind, Query};

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

fn refer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// `{}`.
fn nothing(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

/// A turn's end, or with `async` what to ask for later.
fn executed(generator: &mut SchemaGenerator) -> Schema {
    either(refer::<data::Turn>(generator), refer::<data::TurnAccepted>(generator))
}

/// A run's end, or with `detach` the run as it is.
fn run(generator: &mut SchemaGenerator) -> Schema {
    either(refer::<data::RunEnded>(generator), refer::<data::RunInfo>(generator))
}

fn either(one: Schema, other: Schema) -> Schema {
    schemars::json_schema!({ "anyOf": [one, other] })
}

const fn get(path: &'static str, summary: &'static str, mapped: Mapped) -> Operation {
    Operation { method: "GET", path, summary, open: false, does: Does::Command(mapped) }
}

const fn post(path: &'static str, summary: &'static str, mapped: Mapped) -> Operation {
    Operation { method: "POST", path, summary, open: false, does: Does::Command(mapped) }
}

const fn delete(path: &'static str, summary: &'static str, mapped: Mapped) -> Operation {
    Operation { method: "DELETE", path, summary, open: false, does: Does::Command(mapped) }
}

const fn own(method: &'static str, path: &'static str, summary: &'static str, what: Own) -> Operation {
    Operation { method, path, summary, open: false, does: Does::Own(what, &[]) }
}

const fn to(command: RequestName, data: SchemaOf) -> Mapped {
    Mapped { command, query: &[], body: None, data, list: None, made: None }
}

impl Mapped {
    const fn body<T: JsonSchema>(self) -> Mapped {
        Mapped { body: Some(of::<T>), ..self }
    }

    const fn query(self, query: &'static [Query]) -> Mapped {
        Mapped { query, ..self }
    }

    const fn list(self, list: List) -> Mapped {
        Mapped { list: Some(list), ..self }
    }

    const fn makes(self, field: &'static str) -> Mapped {
        Mapped { made: Some(field), ..self }
    }
}

const SESSION: Query =
    Query::of("session", "session_id", Kind::Text, "The session; the default one if absent.");
const IN_SESSION: &[Query] = &[SESSION];
/// As agentapi has it.
const fn agent(method: &'static str, path: &'static str, summary: &'static str, what: Own) -> Operation {
    Operation { does: Does::Own(what, IN_SESSION), ..own(method, path, summary, what) }
}
const PAGED: &[Query] = &[page::LIMIT, page::CURSOR];
const PAGED_IN_SESSION: &[Query] = &[SESSION, page::LIMIT, page::CURSOR];
const HISTORY: &[Query] = &[
    SESSION,
    Query::same("server_name", Kind::Text, "Another server's log; this server's if absent."),
    Query::same("last", Kind::Number, "Only the last so many of what the rest lets through."),
    Query::same(
        "op",
        Kind::Text,
        "Only this operation: send, send_stream, write, run, read, interrupt, close.",
    ),
    Query::same("seq", Kind::Number, "Only the entry with this number."),
    Query::same("inputs_only", Kind::Bool, "Only send, send_stream, write and run."),
];

/// The table.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        open: true,
        ..own("GET", "/health", "Says that the server is there, and its version", Own::Health)
    },
    Operation { open: true, ..own("GET", "/openapi.json", "This description", Own::Document) },
    Operation { open: true, ..own("GET", "/docs", "This description, for people", Own::Page) },
    own("GET", "/metrics", "The server's numbers, for Prometheus", Own::Metrics),
    own("POST", "/api/command", "Any command of the wire: its line in, its result out", Own::Line),
    own("GET", "/api/events", "A WebSocket that speaks the wire: a message for each line", Own::Socket),
    own("POST", "/api/shutdown", "Stops the server", Own::Shutdown),
    Operation {
        does: Does::Own(Own::Events, query::EVENTS),
        ..own("GET", "/events", "Events as server-sent events", Own::Events)
    },
    get(
        "/nodes",
        "All nodes of a session",
        to(RequestName::ListNodes, refer::<data::NodeList>).query(PAGED_IN_SESSION).list(page::NODES),
    ),
    post(
        "/nodes",
        "Starts a node",
        to(RequestName::CreateNode, refer::<data::NodeCreated>)
            .query(IN_SESSION)
            .body::<params::CreateNode>()
            .makes("node_id"),
    ),
    get("/nodes/{node_id}", "A node", to(RequestName::GetNode, refer::<data::NodeDetails>).query(IN_SESSION)),
    delete(
        "/nodes/{node_id}",
        "Stops a node and forgets it",
        to(RequestName::StopNode, refer::<data::Stopped>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/start",
        "Starts a node again that is defined and does not run",
        to(RequestName::StartNode, refer::<data::NodeCreated>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/execute",
        "Sends a prompt; answers when the turn has ended, with \"async\" at once",
        to(RequestName::ExecuteInput, executed).query(IN_SESSION).body::<params::ExecuteInput>(),
    ),
    post(
        "/nodes/{node_id}/run",
        "Types a command and does not wait",
        to(RequestName::RunCommand, refer::<data::CommandTyped>)
            .query(IN_SESSION)
            .body::<params::RunCommand>(),
    ),
    post(
        "/nodes/{node_id}/write",
        "Writes raw data into the terminal",
        to(RequestName::WriteData, refer::<data::Written>).query(IN_SESSION).body::<params::WriteData>(),
    ),
    post(
        "/nodes/{node_id}/interrupt",
        "Interrupts what a node does",
        to(RequestName::SendInterrupt, refer::<data::Interrupted>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/resize",
        "Gives the terminal another size",
        to(RequestName::ResizeNode, nothing).query(IN_SESSION).body::<params::ResizeNode>(),
    ),
    post(
        "/nodes/{node_id}/answer",
        "Answers the dialog that blocks a node",
        to(RequestName::AnswerNode, executed).query(IN_SESSION).body::<params::AnswerNode>(),
    ),
    post(
        "/nodes/{node_id}/wait",
        "Waits for a state of a node",
        to(RequestName::WaitNode, refer::<data::ReachedState>).query(IN_SESSION).body::<params::WaitNode>(),
    ),
    post(
        "/nodes/{source_id}/fork",
        "Makes a second node that goes on where this one is",
        to(RequestName::ForkNode, refer::<data::NodeForked>)
            .query(IN_SESSION)
            .body::<params::ForkNode>()
            .makes("node_id"),
    ),
    get(
        "/nodes/{node_id}/explain",
        "Why a node is in its state",
        to(RequestName::ExplainNode, refer::<data::NodeExplanation>).query(IN_SESSION),
    ),
    get(
        "/nodes/{node_id}/buffer",
        "The text of the terminal",
        to(RequestName::GetBuffer, refer::<data::NodeText>)
            .query(&[SESSION, Query::same("lines", Kind::Number, "Only the last so many lines.")]),
    ),
    delete(
        "/nodes/{node_id}/buffer",
        "Forgets the text so far",
        to(RequestName::ClearBuffer, nothing).query(IN_SESSION),
    ),
    get(
        "/nodes/{node_id}/history",
        "The audit log of a node, which need not be there any more",
        to(RequestName::GetHistory, refer::<data::NodeHistory>).query(HISTORY),
    ),
    get(
        "/channels/{node_id}/history",
        "The same under its older name",
        to(RequestName::GetHistory, refer::<data::NodeHistory>).query(HISTORY),
    ),
    get(
        "/sessions",
        "All sessions",
        to(RequestName::ListSessions, refer::<data::SessionList>).query(PAGED).list(page::SESSIONS),
    ),
    post(
        "/sessions",
        "Makes a session",
        to(RequestName::CreateSession, refer::<data::SessionInfo>)
            .body::<params::CreateSession>()
            .makes("name"),
    ),
    get("/sessions/{name}", "A session", to(RequestName::GetSession, refer::<data::SessionInfo>)),
    delete(
        "/sessions/{name}",
        "Stops a session's nodes and forgets it",
        to(RequestName::DeleteSession, nothing),
    ),
    post(
        "/sessions/{name}/start",
        "Starts all nodes of a session that do not run",
        to(RequestName::StartSession, refer::<data::NodesChanged>),
    ),
    post(
        "/sessions/{name}/stop",
        "Stops all nodes of a session and keeps their definitions",
        to(RequestName::StopSession, refer::<data::NodesChanged>),
    ),
    get(
        "/graphs",
        "All graphs of a session",
        to(RequestName::ListGraphs, refer::<data::GraphList>).query(PAGED_IN_SESSION).list(page::GRAPHS),
    ),
    post(
        "/graphs",
        "Registers a graph",
        to(RequestName::CreateGraph, refer::<data::GraphInfo>)
            .query(IN_SESSION)
            .body::<params::CreateGraph>()
            .makes("graph_id"),
    ),
    get(
        "/graphs/{graph_id}",
        "A graph with its definition",
        to(RequestName::GetGraph, refer::<data::GraphInfo>).query(IN_SESSION),
    ),
    delete("/graphs/{graph_id}", "Forgets a graph", to(RequestName::DeleteGraph, nothing).query(IN_SESSION)),
    post(
        "/graphs/{graph_id}/run",
        "Runs a graph; answers when the run has ended, with \"detach\" when it has begun",
        to(RequestName::RunGraph, run).query(IN_SESSION).body::<params::RunGraph>(),
    ),
    get(
        "/runs",
        "All runs, newest first",
        to(RequestName::ListRuns, refer::<data::RunList>).query(PAGED).list(page::RUNS),
    ),
    post(
        "/runs",
        "Runs a graph that is given whole",
        to(RequestName::ExecuteGraph, run).query(IN_SESSION).body::<params::ExecuteGraph>(),
    ),
    get(
        "/runs/{run_id}",
        "A run",
        to(RequestName::GetRun, refer::<data::RunInfo>).query(&[Query::same(
            "last",
            Kind::Number,
            "Only the last so many of its steps.",
        )]),
    ),
    post("/runs/{run_id}/cancel", "Stops a run", to(RequestName::CancelGraph, refer::<data::RunsCancelled>)),
    post(
        "/runs/{run_id}/resume",
        "Goes on with a run whose server died",
        to(RequestName::ResumeRun, run).body::<params::ResumeRun>(),
    ),
    post(
        "/runs/{run_id}/answer",
        "Answers a gate that a run waits at",
        to(RequestName::AnswerGate, refer::<data::RunInfo>).body::<params::AnswerGate>(),
    ),
    get(
        "/results",
        "Executions that nobody waited for, newest first",
        to(RequestName::ListResults, refer::<data::ResultList>)
            .query(&[
                SESSION,
                Query::of("node", "node_id", Kind::Text, "Only of this node."),
                page::LIMIT,
                page::CURSOR,
            ])
            .list(page::RESULTS),
    ),
    get(
        "/results/{result_id}",
        "What came of an execution that nobody waited for",
        to(RequestName::GetResult, refer::<data::ResultInfo>).query(&[
            Query::same("wait", Kind::Bool, "Answer when it has ended."),
            Query::same("timeout", Kind::Seconds, "Limit of that wait in seconds; none if absent."),
        ]),
    ),
    post(
        "/results/{result_id}/cancel",
        "Takes an execution back",
        to(RequestName::CancelResult, refer::<data::ResultInfo>),
    ),
    Operation {
        does: Does::Own(Own::Recordings, PAGED),
        ..own("GET", "/recordings", "Recordings on this machine, newest first", Own::Recordings)
    },
    agent("GET", "/compat/agentapi/{node_id}/status", "Whether an agent works or waits", Own::AgentStatus),
    agent("GET", "/compat/agentapi/{node_id}/messages", "What was said by both", Own::AgentMessages),
    agent("POST", "/compat/agentapi/{node_id}/message", "Says something to an agent", Own::AgentMessage),
    agent("GET", "/compat/agentapi/{node_id}/events", "Messages and states as they come", Own::AgentEvents),
];

/// Whether a request may come without a token.
pub(crate) fn is_open(method: &http::Method, path: &str) -> bool {
    let reads = *method == http::Method::GET || *method == http::Method::HEAD;
    reads && OPERATIONS.iter().any(|operation| operation.open && operation.path == path)
}

/// Whether a request is for the WebSocket.
pub(crate) fn is_socket(method: &http::Method, path: &str) -> bool {
    let mut sockets =
        OPERATIONS.iter().filter(|operation| matches!(operation.does, Does::Own(Own::Socket, _)));
    *method == http::Method::GET && sockets.any(|operation| operation.path == path)
}
