//! The table of HTTP operations, from which the routes and `/openapi.json` are made.

use nerve_api::Request;
use nerve_api::request::{
    AnswerGate, AnswerNode, CancelGraph, CancelResult, ClearBuffer, CreateGraph, CreateNode, CreateSession,
    DeleteGraph, DeleteSession, ExecuteGraph, ExecuteInput, ExplainNode, ForkNode, GetBuffer, GetGraph,
    GetHistory, GetNode, GetResult, GetRun, GetSession, ListGraphs, ListNodes, ListResults, ListRuns,
    ListSessions, ResizeNode, ResumeRun, RunCommand, RunGraph, SendInterrupt, StartNode, StartSession,
    StopNode, StopSession, WaitNode, WriteData,
};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use super::operation::{BodyUse, Does, Mapped, Operation, Own};
use super::page::{self, List};
use super::query::{self, Kind, Query};

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

fn refer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn get<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("GET", path, summary)
}

const fn post<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("POST", path, summary)
}

const fn delete<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("DELETE", path, summary)
}

const fn operation<R: Request>(method: &'static str, path: &'static str, summary: &'static str) -> Operation {
    let mapped = Mapped {
        request: R::NAME,
        query: &[],
        params: of::<R>,
        body: BodyUse::None,
        reply: refer::<R::Reply>,
        list: None,
        created: None,
        may_be_later: false,
        takes_trace: false,
    };
    Operation { method, path, summary, open: false, does: Does::Request(mapped) }
}

const fn own(method: &'static str, path: &'static str, summary: &'static str, what: Own) -> Operation {
    Operation { method, path, summary, open: false, does: Does::Own(what, &[]) }
}

/// Changes how a request is mapped.
macro_rules! with {
    ($operation:ident, $mapped:ident => $changed:expr) => {
        match $operation.does {
            Does::Request($mapped) => Operation { does: Does::Request($changed), ..$operation },
            Does::Own(..) => $operation,
        }
    };
}

impl Operation {
    /// Parameters that are not in the path are in the body.
    const fn body(self) -> Operation {
        with!(self, mapped => Mapped { body: BodyUse::Required, ..mapped })
    }

    /// Parameters that are not in the path are in the body, which may be absent.
    const fn optional_body(self) -> Operation {
        with!(self, mapped => Mapped { body: BodyUse::Optional, ..mapped })
    }

    const fn with_query(self, query: &'static [Query]) -> Operation {
        with!(self, mapped => Mapped { query, ..mapped })
    }

    const fn list(self, list: List) -> Operation {
        with!(self, mapped => Mapped { list: Some(list), ..mapped })
    }

    const fn creates(self, field: &'static str) -> Operation {
        with!(self, mapped => Mapped { created: Some(field), ..mapped })
    }

    const fn may_be_later(self) -> Operation {
        with!(self, mapped => Mapped { may_be_later: true, ..mapped })
    }

    const fn takes_trace(self) -> Operation {
        with!(self, mapped => Mapped { takes_trace: true, ..mapped })
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
    get::<ListNodes>("/nodes", "All nodes of a session").with_query(PAGED_IN_SESSION).list(page::NODES),
    post::<CreateNode>("/nodes", "Starts a node").with_query(IN_SESSION).body().creates("node_id"),
    get::<GetNode>("/nodes/{node_id}", "A node").with_query(IN_SESSION),
    delete::<StopNode>("/nodes/{node_id}", "Stops a node and forgets it").with_query(IN_SESSION),
    post::<StartNode>("/nodes/{node_id}/start", "Starts a node again that is defined and does not run")
        .with_query(IN_SESSION),
    post::<ExecuteInput>(
        "/nodes/{node_id}/execute",
        "Sends a prompt; answers when the turn has ended, with \"async\" at once",
    )
    .with_query(IN_SESSION)
    .body()
    .may_be_later()
    .takes_trace(),
    post::<RunCommand>("/nodes/{node_id}/run", "Types a command and does not wait")
        .with_query(IN_SESSION)
        .body()
        .takes_trace(),
    post::<WriteData>("/nodes/{node_id}/write", "Writes raw data into the terminal")
        .with_query(IN_SESSION)
        .body(),
    post::<SendInterrupt>("/nodes/{node_id}/interrupt", "Interrupts what a node does").with_query(IN_SESSION),
    post::<ResizeNode>("/nodes/{node_id}/resize", "Gives the terminal another size")
        .with_query(IN_SESSION)
        .body(),
    post::<AnswerNode>("/nodes/{node_id}/answer", "Answers the dialog that blocks a node")
        .with_query(IN_SESSION)
        .optional_body(),
    post::<WaitNode>("/nodes/{node_id}/wait", "Waits for a state of a node")
        .with_query(IN_SESSION)
        .optional_body(),
    post::<ForkNode>("/nodes/{source_id}/fork", "Makes a second node that goes on where this one is")
        .with_query(IN_SESSION)
        .body()
        .creates("node_id"),
    get::<ExplainNode>("/nodes/{node_id}/explain", "Why a node is in its state").with_query(IN_SESSION),
    get::<GetBuffer>("/nodes/{node_id}/buffer", "The text of the terminal")
        .with_query(&[SESSION, Query::same("lines", Kind::Number, "Only the last so many lines.")]),
    delete::<ClearBuffer>("/nodes/{node_id}/buffer", "Forgets the text so far").with_query(IN_SESSION),
    get::<GetHistory>(
        "/nodes/{node_id}/history",
        "The audit log of a node, which need not be there any more",
    )
    .with_query(HISTORY),
    get::<GetHistory>("/channels/{node_id}/history", "The same under its older name").with_query(HISTORY),
    get::<ListSessions>("/sessions", "All sessions").with_query(PAGED).list(page::SESSIONS),
    post::<CreateSession>("/sessions", "Makes a session").body().creates("name"),
    get::<GetSession>("/sessions/{name}", "A session"),
    delete::<DeleteSession>("/sessions/{name}", "Stops a session's nodes and forgets it"),
    post::<StartSession>("/sessions/{name}/start", "Starts all nodes of a session that do not run"),
    post::<StopSession>("/sessions/{name}/stop", "Stops all nodes of a session and keeps their definitions"),
    get::<ListGraphs>("/graphs", "All graphs of a session").with_query(PAGED_IN_SESSION).list(page::GRAPHS),
    post::<CreateGraph>("/graphs", "Registers a graph").with_query(IN_SESSION).body().creates("graph_id"),
    get::<GetGraph>("/graphs/{graph_id}", "A graph with its definition").with_query(IN_SESSION),
    delete::<DeleteGraph>("/graphs/{graph_id}", "Forgets a graph").with_query(IN_SESSION),
    post::<RunGraph>(
        "/graphs/{graph_id}/run",
        "Runs a graph; answers when the run has ended, with \"detach\" when it has begun",
    )
    .with_query(IN_SESSION)
    .optional_body()
    .may_be_later()
    .takes_trace(),
    get::<ListRuns>("/runs", "All runs, newest first").with_query(PAGED).list(page::RUNS),
    post::<ExecuteGraph>("/runs", "Runs a graph that is given whole")
        .with_query(IN_SESSION)
        .body()
        .may_be_later()
        .takes_trace(),
    get::<GetRun>("/runs/{run_id}", "A run").with_query(&[Query::same(
        "last",
        Kind::Number,
        "Only the last so many of its steps.",
    )]),
    post::<CancelGraph>("/runs/{run_id}/cancel", "Stops a run"),
    post::<ResumeRun>("/runs/{run_id}/resume", "Goes on with a run whose server died")
        .optional_body()
        .may_be_later(),
    post::<AnswerGate>("/runs/{run_id}/answer", "Answers a gate that a run waits at").body(),
    get::<ListResults>("/results", "Executions that nobody waited for, newest first")
        .with_query(&[
            SESSION,
            Query::of("node", "node_id", Kind::Text, "Only of this node."),
            page::LIMIT,
            page::CURSOR,
        ])
        .list(page::RESULTS),
    get::<GetResult>("/results/{result_id}", "What came of an execution that nobody waited for").with_query(
        &[
            Query::same("wait", Kind::Bool, "Answer when it has ended."),
            Query::same("timeout", Kind::Seconds, "Limit of that wait in seconds; none if absent."),
        ],
    ),
    post::<CancelResult>("/results/{result_id}/cancel", "Takes an execution back"),
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
