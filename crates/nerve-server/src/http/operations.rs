//! The table of HTTP operations, which defines the routes and `/openapi.json`.

use nerve_api::Request;
use nerve_api::request::{
    AnswerGate, AnswerNode, CancelGraph, CancelResult, ClearBuffer, CreateBranch, CreateGraph, CreateNode,
    CreateSession, DeleteBranch, DeleteGraph, DeleteSession, ExecuteGraph, ExecuteInput, ExplainNode,
    ForkNode, GetBuffer, GetGraph, GetHistory, GetNode, GetRecordingFile, GetResult, GetRun, GetSession,
    GetTimeline, GetTranscript, GetUsage, ListBranches, ListGraphs, ListNodes, ListRecordings, ListResults,
    ListRuns, ListSessions, ListSnapshots, PruneNodes, PruneRecordings, ReadRecording, RemoveNode,
    ResizeNode, RestoreNodes, RestoreSnapshot, ResumeRun, RunCommand, RunGraph, Search, SendInterrupt,
    SetBudget, ShowNode, StartNode, StartSession, StopNode, StopSession, TakeSnapshot, WaitNode, WriteData,
};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use super::operation::{BodyUse, Builtin, Handler, Operation, RequestMapping};
use super::query::{self, Kind, Query};
use crate::legacy_names;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

fn refer<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Changes how a request is mapped.
macro_rules! with {
    ($operation:ident, $mapped:ident => $changed:expr) => {
        match $operation.handler {
            Handler::Request($mapped) => Operation { handler: Handler::Request($changed), ..$operation },
            Handler::Builtin(..) => $operation,
        }
    };
}

const fn get<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("GET", path, summary)
}

/// Returns a list in pages. Its query contains [`LIMIT`] and [`CURSOR`].
const fn list<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    let operation = get::<R>(path, summary);
    with!(operation, mapped => RequestMapping { is_list: true, ..mapped })
}

const fn post<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("POST", path, summary)
}

const fn delete<R: Request>(path: &'static str, summary: &'static str) -> Operation {
    operation::<R>("DELETE", path, summary)
}

const fn operation<R: Request>(method: &'static str, path: &'static str, summary: &'static str) -> Operation {
    let mapped = RequestMapping {
        request: R::NAME,
        query: &[],
        params: of::<R>,
        body: BodyUse::None,
        reply: refer::<R::Reply>,
        is_list: false,
        creates: false,
        may_be_later: false,
        takes_trace: false,
    };
    Operation { method, path, summary, open: false, handler: Handler::Request(mapped) }
}

const fn builtin(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    which: Builtin,
) -> Operation {
    Operation { method, path, summary, open: false, handler: Handler::Builtin(which, &[]) }
}

impl Operation {
    /// Takes the parameters that are not in the path from the body.
    const fn body(self) -> Operation {
        with!(self, mapped => RequestMapping { body: BodyUse::Required, ..mapped })
    }

    /// Takes the parameters that are not in the path from the body, which is optional.
    const fn optional_body(self) -> Operation {
        with!(self, mapped => RequestMapping { body: BodyUse::Optional, ..mapped })
    }

    const fn with_query(self, query: &'static [Query]) -> Operation {
        with!(self, mapped => RequestMapping { query, ..mapped })
    }

    const fn creates(self) -> Operation {
        with!(self, mapped => RequestMapping { creates: true, ..mapped })
    }

    const fn may_be_later(self) -> Operation {
        with!(self, mapped => RequestMapping { may_be_later: true, ..mapped })
    }

    const fn takes_trace(self) -> Operation {
        with!(self, mapped => RequestMapping { takes_trace: true, ..mapped })
    }
}

const SESSION: Query =
    Query::of("session", "session_id", Kind::Text, "Session. Default: the default session.");
const IN_SESSION: &[Query] = &[SESSION];
/// Defines an operation that is compatible with agentapi.
const fn agent(method: &'static str, path: &'static str, summary: &'static str, which: Builtin) -> Operation {
    Operation { handler: Handler::Builtin(which, IN_SESSION), ..builtin(method, path, summary, which) }
}
const LIMIT: Query = Query::same("limit", Kind::Number, "Items of the page, from 1 to 1000; 100 if absent.");
const CURSOR: Query = Query::same("cursor", Kind::Text, "Cursor of the page: `next` of the previous page.");
const PAGED: &[Query] = &[LIMIT, CURSOR];
const PAGED_IN_SESSION: &[Query] = &[SESSION, LIMIT, CURSOR];
const HISTORY: &[Query] = &[
    SESSION,
    Query::same("server_name", Kind::Text, "Server that wrote the log. Default: this server."),
    Query::same("last", Kind::Number, "Returns only the last of the matching entries, at most this many."),
    Query::same(
        "op",
        Kind::Text,
        "Returns only this operation: send, send_stream, write, run, read, interrupt or close.",
    ),
    Query::same("seq", Kind::Number, "Returns only the entry with this sequence number."),
    Query::same("inputs_only", Kind::Bool, "Returns only send, send_stream, write and run."),
    Query::same("without_reads", Kind::Bool, "Leaves out read."),
];

const PRUNED: &[Query] = &[
    SESSION,
    Query::same("all", Kind::Bool, "Also removes nodes that ran when the server or the machine went down."),
    Query::same("older_than", Kind::Seconds, "Only removes nodes that stopped longer ago, in seconds."),
    Query::same("dry_run", Kind::Bool, "Only returns what would be removed."),
];
const STARTED: &[Query] =
    &[Query::same("all", Kind::Bool, "Also starts nodes whose programs exited by themselves.")];

const TURN: Query = Query::same("turn", Kind::Number, "Returns only this turn, from 1.");
const BEFORE: Query = Query::same("before", Kind::Number, "Returns only turns before this one.");
const TURN_LIMIT: Query = Query::same(
    "limit",
    Kind::Number,
    "Maximum number of turns, from 1 to 1000: the newest of them. Default: all.",
);
const TRANSCRIPT: &[Query] = &[SESSION, TURN, BEFORE, TURN_LIMIT];
const RECORDING: Query =
    Query::same("recording", Kind::Text, "Recording: an id, a unique prefix of one, or an absolute path.");
const VERSION: Query =
    Query::same("since", Kind::Text, "Waits until the `version` of the overview differs from this one.");
const VERSION_TIMEOUT: Query =
    Query::same("timeout", Kind::Seconds, "Time limit of that wait, in seconds. Default: 30.");
const NODE_TIMELINE: &[Query] = &[SESSION, VERSION, VERSION_TIMEOUT];
const TIMELINE: &[Query] = &[RECORDING, VERSION, VERSION_TIMEOUT];
const RECORDED_OUTPUT: &[Query] = &[
    RECORDING,
    Query::same("at", Kind::Seconds, "Position: seconds from the start. Default: the start."),
    Query::same("offset", Kind::Number, "Position: output bytes before it. Instead of `at`."),
    Query::same("output_only", Kind::Bool, "Returns only the output after `offset`: the next page."),
    Query::same("limit", Kind::Number, "Maximum bytes of output, from 1 to 1048576. Default: 262144."),
];
const RECORDING_FILE: &[Query] = &[
    RECORDING,
    Query::same("offset", Kind::Number, "Bytes of the file before the range. Default: 0."),
    Query::same("limit", Kind::Number, "Maximum bytes of the range, from 1 to 1048576. Default: 262144."),
];
const RECORDING_TRANSCRIPT: &[Query] = &[RECORDING, TURN, BEFORE, TURN_LIMIT];
const SEARCH: &[Query] = &[
    Query::same("pattern", Kind::Text, "Text, or a regular expression between slashes."),
    Query::of("node", "node_id", Kind::Text, "Searches only this node."),
    Query::of("session", "session_id", Kind::Text, "Searches only this session. Default: all sessions."),
    Query::same("since", Kind::Text, "Searches only what is not older than this time (RFC 3339)."),
    Query::same(
        "kinds",
        Kind::List,
        "Searches only texts of these kinds, separated by commas: prompt, answer, tool, screen. Default: all.",
    ),
    Query::same("limit", Kind::Number, "Maximum number of hits, from 1 to 1000. Default: 20."),
];
const USAGE: &[Query] = &[
    Query::of(
        "node",
        "nodes",
        Kind::List,
        "Counts only these nodes, each as NODE or SESSION/NODE, separated by commas.",
    ),
    Query::of(
        "session",
        "session_id",
        Kind::Text,
        "Counts only nodes of this session. Default: all sessions.",
    ),
    Query::same("since", Kind::Text, "Counts only what is not older than this time (RFC 3339)."),
    Query::same("by", Kind::Text, "Has a row for each of these: node, session, day, model. Default: node."),
];
const SNAPSHOTS: &[Query] = &[
    SESSION,
    Query::of("node", "node_id", Kind::Text, "Returns only snapshots of this node's recording."),
    Query::same(
        "recording",
        Kind::Text,
        "Returns only snapshots of this recording: an id or a unique prefix.",
    ),
    Query::same("dir", Kind::Text, "Git work tree to search. Default: where the snapshots were taken."),
    Query::same("last", Kind::Number, "Returns only the last snapshots, at most this many. Default: 1000."),
];

/// All operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        open: true,
        ..builtin("GET", "/health", "Returns the health and version of the server", Builtin::Health)
    },
    Operation {
        open: true,
        ..builtin("GET", "/openapi.json", "Returns this description", Builtin::Document)
    },
    Operation {
        open: true,
        ..builtin("GET", "/docs", "Returns this description as a web page", Builtin::Page)
    },
    builtin("GET", "/metrics", "Returns the server's metrics in the format of Prometheus", Builtin::Metrics),
    builtin(
        "POST",
        "/api/command",
        "Executes any command of the line protocol and returns its result message",
        Builtin::RawCommand,
    ),
    builtin(
        "GET",
        "/api/events",
        "Opens a WebSocket for the line protocol, with one message per line",
        Builtin::Socket,
    ),
    builtin("POST", "/api/shutdown", "Stops the server", Builtin::Shutdown),
    Operation {
        handler: Handler::Builtin(Builtin::Events, query::EVENTS),
        ..builtin("GET", "/events", "Streams events: server-sent events, or a WebSocket", Builtin::Events)
    },
    list::<ListNodes>("/nodes", "Lists the nodes of a session").with_query(PAGED_IN_SESSION),
    post::<CreateNode>("/nodes", "Creates and starts a node").with_query(IN_SESSION).body().creates(),
    Operation {
        handler: Handler::Builtin(Builtin::Terminal, &[SESSION, query::SINCE]),
        ..builtin(
            "GET",
            "/nodes/{node_id}/terminal",
            "Opens a WebSocket that shows the terminal of a node and takes keys",
            Builtin::Terminal,
        )
    },
    get::<GetNode>("/nodes/{node_id}", "Returns a node").with_query(IN_SESSION),
    delete::<StopNode>("/nodes/{node_id}", "Stops a node").with_query(IN_SESSION),
    post::<StartNode>("/nodes/{node_id}/start", "Starts a stopped node again")
        .with_query(IN_SESSION)
        .optional_body(),
    delete::<RemoveNode>("/stopped-nodes/{node_id}", "Removes a stopped node").with_query(IN_SESSION),
    delete::<PruneNodes>("/stopped-nodes", "Removes the stopped nodes of a session").with_query(PRUNED),
    post::<RestoreNodes>(
        "/stopped-nodes/restore",
        "Starts the nodes that ran when the server or the machine went down",
    ),
    post::<ExecuteInput>(
        "/nodes/{node_id}/execute",
        "Sends a prompt and waits for the end of the turn, unless \"async\" is set",
    )
    .with_query(IN_SESSION)
    .body()
    .may_be_later()
    .takes_trace(),
    post::<RunCommand>("/nodes/{node_id}/run", "Types a command and does not wait for its end")
        .with_query(IN_SESSION)
        .body()
        .takes_trace(),
    post::<WriteData>("/nodes/{node_id}/write", "Writes raw data to a terminal")
        .with_query(IN_SESSION)
        .body(),
    post::<SendInterrupt>("/nodes/{node_id}/interrupt", "Interrupts the current work of a node")
        .with_query(IN_SESSION),
    post::<ResizeNode>("/nodes/{node_id}/resize", "Resizes a terminal").with_query(IN_SESSION).body(),
    post::<ShowNode>("/nodes/{node_id}/show", "Opens a pane that shows a terminal")
        .with_query(IN_SESSION)
        .body(),
    post::<AnswerNode>("/nodes/{node_id}/answer", "Answers the dialog of a blocked node")
        .with_query(IN_SESSION)
        .optional_body(),
    post::<WaitNode>("/nodes/{node_id}/wait", "Waits until a node reaches a state")
        .with_query(IN_SESSION)
        .optional_body(),
    post::<ForkNode>(
        "/nodes/{source_id}/fork",
        "Creates a second node that continues from the state of this node",
    )
    .with_query(IN_SESSION)
    .body()
    .creates(),
    get::<ExplainNode>("/nodes/{node_id}/explain", "Explains the state of a node").with_query(IN_SESSION),
    get::<GetBuffer>("/nodes/{node_id}/buffer", "Returns the text of a terminal").with_query(&[
        SESSION,
        Query::same("lines", Kind::Number, "Returns only the last lines, at most this many."),
    ]),
    delete::<ClearBuffer>("/nodes/{node_id}/buffer", "Clears the text buffer of a terminal")
        .with_query(IN_SESSION),
    get::<GetHistory>(
        "/nodes/{node_id}/history",
        "Returns the audit log of a node, even if the node was deleted",
    )
    .with_query(HISTORY),
    get::<GetHistory>(legacy_names::HISTORY_PATH, "Returns the audit log of a node (older path)")
        .with_query(HISTORY),
    get::<GetTranscript>(
        "/nodes/{node_id}/transcript",
        "Returns the prompts and answers of a node, even if the node was deleted",
    )
    .with_query(TRANSCRIPT),
    get::<GetTranscript>("/transcript", "Returns the prompts and answers of a recording")
        .with_query(RECORDING_TRANSCRIPT),
    get::<Search>("/search", "Finds a text in prompts, answers, tools and screens").with_query(SEARCH),
    get::<GetUsage>("/usage", "Sums up the tokens and costs of nodes and recordings").with_query(USAGE),
    post::<SetBudget>("/nodes/{node_id}/budget", "Sets or removes the budget of a node")
        .with_query(IN_SESSION)
        .body(),
    post::<SetBudget>("/sessions/{session_id}/budget", "Sets or removes the budget of a session").body(),
    list::<ListSessions>("/sessions", "Lists all sessions").with_query(PAGED),
    post::<CreateSession>("/sessions", "Creates a session").body().creates(),
    get::<GetSession>("/sessions/{name}", "Returns a session"),
    delete::<DeleteSession>("/sessions/{name}", "Stops a session's nodes and deletes it"),
    post::<StartSession>("/sessions/{name}/start", "Starts the stopped nodes of a session")
        .with_query(STARTED),
    post::<StopSession>("/sessions/{name}/stop", "Stops the nodes of a session and keeps their definitions"),
    list::<ListGraphs>("/graphs", "Lists the graphs of a session").with_query(PAGED_IN_SESSION),
    post::<CreateGraph>("/graphs", "Registers a graph").with_query(IN_SESSION).body().creates(),
    get::<GetGraph>("/graphs/{graph_id}", "Returns a graph with its definition").with_query(IN_SESSION),
    delete::<DeleteGraph>("/graphs/{graph_id}", "Deletes a graph").with_query(IN_SESSION),
    post::<RunGraph>(
        "/graphs/{graph_id}/run",
        "Runs a graph and waits for its end, unless \"detach\" is set",
    )
    .with_query(IN_SESSION)
    .optional_body()
    .may_be_later()
    .takes_trace(),
    list::<ListRuns>("/runs", "Lists all runs, newest first").with_query(PAGED),
    post::<ExecuteGraph>("/runs", "Runs a graph that is part of the request")
        .with_query(IN_SESSION)
        .body()
        .may_be_later()
        .takes_trace(),
    get::<GetRun>("/runs/{run_id}", "Returns a run").with_query(&[
        Query::same("last", Kind::Number, "Returns only the last steps, at most this many."),
        Query::same("plan", Kind::Bool, "Includes the plan: all steps of the graph with their dependencies."),
        Query::same("result_of", Kind::Text, "Includes the result of the step with this path."),
    ]),
    post::<CancelGraph>("/runs/{run_id}/cancel", "Cancels a run"),
    post::<ResumeRun>("/runs/{run_id}/resume", "Resumes a run whose server ended")
        .optional_body()
        .may_be_later(),
    post::<AnswerGate>("/runs/{run_id}/answer", "Answers a gate at which a run waits").body(),
    list::<ListResults>("/results", "Lists the results of asynchronous executions, newest first").with_query(
        &[
            SESSION,
            Query::of("node", "node_id", Kind::Text, "Returns only results of this node."),
            LIMIT,
            CURSOR,
        ],
    ),
    get::<GetResult>("/results/{result_id}", "Returns the result of an asynchronous execution").with_query(
        &[
            Query::same("wait", Kind::Bool, "Waits for the end of the execution."),
            Query::same("timeout", Kind::Seconds, "Time limit of that wait, in seconds. Default: none."),
        ],
    ),
    post::<CancelResult>("/results/{result_id}/cancel", "Cancels an asynchronous execution"),
    list::<ListRecordings>("/recordings", "Lists the recordings on this machine, newest first")
        .with_query(PAGED),
    post::<PruneRecordings>("/recordings/prune", "Removes old recordings and unneeded folders of branches")
        .body(),
    get::<GetTimeline>("/nodes/{node_id}/timeline", "Returns an overview of the newest recording of a node")
        .with_query(NODE_TIMELINE),
    get::<GetTimeline>("/timeline", "Returns an overview of a recording").with_query(TIMELINE),
    get::<ReadRecording>(
        "/recorded-output",
        "Returns the terminal of a recording at a position, and the output that follows",
    )
    .with_query(RECORDED_OUTPUT),
    get::<GetRecordingFile>("/recording-file", "Returns a range of a recording's file")
        .with_query(RECORDING_FILE),
    get::<ListSnapshots>("/snapshots", "Lists the snapshots of a recorded session").with_query(SNAPSHOTS),
    post::<TakeSnapshot>("/snapshots", "Takes a snapshot of a running recorded session")
        .with_query(IN_SESSION)
        .body(),
    post::<RestoreSnapshot>("/snapshots/restore", "Restores the files of a snapshot")
        .with_query(IN_SESSION)
        .body(),
    get::<ListBranches>("/branches", "Lists the folders of branches"),
    post::<CreateBranch>(
        "/branches",
        "Creates a node that continues a recorded session from a snapshot, and sends it an instruction",
    )
    .with_query(IN_SESSION)
    .body()
    .takes_trace(),
    delete::<DeleteBranch>("/branches/{name}", "Removes the folder of a branch that no node uses")
        .with_query(&[Query::same("force", Kind::Bool, "Removes it even if its files have changed.")]),
    agent(
        "GET",
        "/compat/agentapi/{node_id}/status",
        "Returns the status of an agent (agentapi)",
        Builtin::AgentStatus,
    ),
    agent(
        "GET",
        "/compat/agentapi/{node_id}/messages",
        "Returns the messages of a conversation (agentapi)",
        Builtin::AgentMessages,
    ),
    agent(
        "POST",
        "/compat/agentapi/{node_id}/message",
        "Sends a message to an agent (agentapi)",
        Builtin::AgentMessage,
    ),
    agent(
        "GET",
        "/compat/agentapi/{node_id}/events",
        "Streams messages and status changes (agentapi)",
        Builtin::AgentEvents,
    ),
    builtin(
        "GET",
        "/v1/models",
        "Lists nodes, and templates of new nodes, as models (OpenAI)",
        Builtin::Models,
    ),
    builtin("GET", "/v1/models/{model}", "Returns a node or a template as a model (OpenAI)", Builtin::Model),
    builtin(
        "POST",
        "/v1/chat/completions",
        "Sends the last message of a conversation to an agent, and returns or streams its answer (OpenAI)",
        Builtin::ChatCompletion,
    ),
];

/// Returns true if a request needs no token.
pub(crate) fn is_open(method: &http::Method, path: &str) -> bool {
    let reads = *method == http::Method::GET || *method == http::Method::HEAD;
    reads && OPERATIONS.iter().any(|operation| operation.open && operation.path == path)
}

/// Returns true if a request may be for a WebSocket.
pub(crate) fn is_socket(method: &http::Method, path: &str) -> bool {
    let of_machine = path.strip_prefix("/machines/").and_then(|rest| Some(&rest[rest.find('/')?..]));
    let path = of_machine.unwrap_or(path);
    let mut sockets = OPERATIONS.iter().filter(|operation| {
        matches!(
            operation.handler,
            Handler::Builtin(Builtin::Socket | Builtin::Terminal | Builtin::Events, _)
        )
    });
    *method == http::Method::GET && sockets.any(|operation| operation.has_path(path))
}
