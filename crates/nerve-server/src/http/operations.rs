//! All that can be asked for over HTTP, as one table: the routes and `/openapi.json` are both made from it.

use nerve_api::{CommandType, data, params};
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
    either(refer::<data::ExecuteData>(generator), refer::<data::AcceptedData>(generator))
}

/// A run's end, or with `detach` the run as it is.
fn run(generator: &mut SchemaGenerator) -> Schema {
    either(refer::<data::RunEndedData>(generator), refer::<data::RunInfo>(generator))
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

const fn to(command: CommandType, data: SchemaOf) -> Mapped {
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
        to(CommandType::ListNodes, refer::<data::ListNodesData>).query(PAGED_IN_SESSION).list(page::NODES),
    ),
    post(
        "/nodes",
        "Starts a node",
        to(CommandType::CreateNode, refer::<data::CreatedData>)
            .query(IN_SESSION)
            .body::<params::CreateNodeParams>()
            .makes("node_id"),
    ),
    get("/nodes/{node_id}", "A node", to(CommandType::GetNode, refer::<data::NodeData>).query(IN_SESSION)),
    delete(
        "/nodes/{node_id}",
        "Stops a node and forgets it",
        to(CommandType::StopNode, refer::<data::StoppedData>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/start",
        "Starts a node again that is defined and does not run",
        to(CommandType::StartNode, refer::<data::CreatedData>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/execute",
        "Sends a prompt; answers when the turn has ended, with \"async\" at once",
        to(CommandType::ExecuteInput, executed).query(IN_SESSION).body::<params::ExecuteInputParams>(),
    ),
    post(
        "/nodes/{node_id}/run",
        "Types a command and does not wait",
        to(CommandType::RunCommand, refer::<data::RunData>)
            .query(IN_SESSION)
            .body::<params::RunCommandParams>(),
    ),
    post(
        "/nodes/{node_id}/write",
        "Writes raw data into the terminal",
        to(CommandType::WriteData, refer::<data::WrittenData>)
            .query(IN_SESSION)
            .body::<params::WriteDataParams>(),
    ),
    post(
        "/nodes/{node_id}/interrupt",
        "Interrupts what a node does",
        to(CommandType::SendInterrupt, refer::<data::InterruptedData>).query(IN_SESSION),
    ),
    post(
        "/nodes/{node_id}/resize",
        "Gives the terminal another size",
        to(CommandType::ResizeNode, nothing).query(IN_SESSION).body::<params::ResizeNodeParams>(),
    ),
    post(
        "/nodes/{node_id}/answer",
        "Answers the dialog that blocks a node",
        to(CommandType::AnswerNode, executed).query(IN_SESSION).body::<params::AnswerNodeParams>(),
    ),
    post(
        "/nodes/{node_id}/wait",
        "Waits for a state of a node",
        to(CommandType::WaitNode, refer::<data::StateData>)
            .query(IN_SESSION)
            .body::<params::WaitNodeParams>(),
    ),
    post(
        "/nodes/{source_id}/fork",
        "Makes a second node that goes on where this one is",
        to(CommandType::ForkNode, refer::<data::ForkedData>)
            .query(IN_SESSION)
            .body::<params::ForkNodeParams>()
            .makes("node_id"),
    ),
    get(
        "/nodes/{node_id}/explain",
        "Why a node is in its state",
        to(CommandType::ExplainNode, refer::<data::ExplainData>).query(IN_SESSION),
    ),
    get(
        "/nodes/{node_id}/buffer",
        "The text of the terminal",
        to(CommandType::GetBuffer, refer::<data::BufferData>)
            .query(&[SESSION, Query::same("lines", Kind::Number, "Only the last so many lines.")]),
    ),
    delete(
        "/nodes/{node_id}/buffer",
        "Forgets the text so far",
        to(CommandType::ClearBuffer, nothing).query(IN_SESSION),
    ),
    get(
        "/nodes/{node_id}/history",
        "The audit log of a node, which need not be there any more",
        to(CommandType::GetHistory, refer::<data::HistoryData>).query(HISTORY),
    ),
    get(
        "/channels/{node_id}/history",
        "The same under its older name",
        to(CommandType::GetHistory, refer::<data::HistoryData>).query(HISTORY),
    ),
    get(
        "/sessions",
        "All sessions",
        to(CommandType::ListSessions, refer::<data::SessionsData>).query(PAGED).list(page::SESSIONS),
    ),
    post(
        "/sessions",
        "Makes a session",
        to(CommandType::CreateSession, refer::<data::SessionInfo>)
            .body::<params::CreateSessionParams>()
            .makes("name"),
    ),
    get("/sessions/{name}", "A session", to(CommandType::GetSession, refer::<data::SessionInfo>)),
    delete(
        "/sessions/{name}",
        "Stops a session's nodes and forgets it",
        to(CommandType::DeleteSession, nothing),
    ),
    post(
        "/sessions/{name}/start",
        "Starts all nodes of a session that do not run",
        to(CommandType::StartSession, refer::<data::LifecycleData>),
    ),
    post(
        "/sessions/{name}/stop",
        "Stops all nodes of a session and keeps their definitions",
        to(CommandType::StopSession, refer::<data::LifecycleData>),
    ),
    get(
        "/graphs",
        "All graphs of a session",
        to(CommandType::ListGraphs, refer::<data::GraphsData>).query(PAGED_IN_SESSION).list(page::GRAPHS),
    ),
    post(
        "/graphs",
        "Registers a graph",
        to(CommandType::CreateGraph, refer::<data::GraphInfo>)
            .query(IN_SESSION)
            .body::<params::CreateGraphParams>()
            .makes("graph_id"),
    ),
    get(
        "/graphs/{graph_id}",
        "A graph with its definition",
        to(CommandType::GetGraph, refer::<data::GraphInfo>).query(IN_SESSION),
    ),
    delete("/graphs/{graph_id}", "Forgets a graph", to(CommandType::DeleteGraph, nothing).query(IN_SESSION)),
    post(
        "/graphs/{graph_id}/run",
        "Runs a graph; answers when the run has ended, with \"detach\" when it has begun",
        to(CommandType::RunGraph, run).query(IN_SESSION).body::<params::RunGraphParams>(),
    ),
    get(
        "/runs",
        "All runs, newest first",
        to(CommandType::ListRuns, refer::<data::RunsData>).query(PAGED).list(page::RUNS),
    ),
    post(
        "/runs",
        "Runs a graph that is given whole",
        to(CommandType::ExecuteGraph, run).query(IN_SESSION).body::<params::ExecuteGraphParams>(),
    ),
    get(
        "/runs/{run_id}",
        "A run",
        to(CommandType::GetRun, refer::<data::RunInfo>).query(&[Query::same(
            "last",
            Kind::Number,
            "Only the last so many of its steps.",
        )]),
    ),
    post("/runs/{run_id}/cancel", "Stops a run", to(CommandType::CancelGraph, refer::<data::CancelledData>)),
    post(
        "/runs/{run_id}/resume",
        "Goes on with a run whose server died",
        to(CommandType::ResumeRun, run).body::<params::ResumeRunParams>(),
    ),
    post(
        "/runs/{run_id}/answer",
        "Answers a gate that a run waits at",
        to(CommandType::AnswerGate, refer::<data::RunInfo>).body::<params::AnswerGateParams>(),
    ),
    get(
        "/results",
        "Executions that nobody waited for, newest first",
        to(CommandType::ListResults, refer::<data::ResultsData>)
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
        to(CommandType::GetResult, refer::<data::ResultData>).query(&[
            Query::same("wait", Kind::Bool, "Answer when it has ended."),
            Query::same("timeout", Kind::Seconds, "Limit of that wait in seconds; none if absent."),
        ]),
    ),
    post(
        "/results/{result_id}/cancel",
        "Takes an execution back",
        to(CommandType::CancelResult, refer::<data::ResultData>),
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
