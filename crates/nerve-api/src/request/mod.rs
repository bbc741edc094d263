//! All requests. A request is a struct with its parameters; [`Request`] names it and its reply.
//!
//! Unknown fields are ignored, `null` means absent, and a wrong type is reported with the name of the field. `session_id` is optional
//! everywhere: absent means the server's default session, and for SEARCH all sessions.

mod branch;
mod budget;
mod chat;
mod conversation;
mod example;
mod graph;
mod history;
mod node;
mod node_spec;
mod page;
mod proxy;
mod read;
mod recording;
mod result;
mod run;
mod search;
mod server;
mod session;
mod snapshot;
mod transcript;
mod usage;
mod value;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Schema;
use crate::reply::{
    AnswerReply, Authenticated, BranchCreated, BranchDeleted, BranchList, BudgetStatus, CommandTyped, Done,
    ExecuteReply, GraphInfo, GraphList, Interrupted, NodeCreated, NodeExplanation, NodeForked, NodeHistory,
    NodeInfo, NodeList, NodeShown, NodeText, NodesChanged, NodesPruned, NodesRestored, Pong, ReachedState,
    RecordedOutput, RecordingFile, RecordingList, RecordingTimeline, RecordingsPruned, Reply, ResultInfo,
    ResultList, RunInfo, RunList, RunReply, RunsCancelled, SearchResult, SessionInfo, SessionList,
    SnapshotList, SnapshotRestored, SnapshotTaken, Stopped, Subscribed, Transcript, UsageReport, Written,
};

pub use branch::{CreateBranch, DeleteBranch, ListBranches};
pub use budget::{SetBudget, UsageLimits};
pub use chat::{ChatSettings, ToolChoice};
pub use conversation::{ConversationMessage, ConversationOptions};
pub use example::Example;
pub use graph::{CreateGraph, DeleteGraph, ExecuteGraph, GetGraph, ListGraphs, RunGraph, RunOptions};
pub use history::GetHistory;
pub use node::{
    AnswerNode, ClearBuffer, ExecuteInput, ExplainNode, ForkNode, GetBuffer, GetNode, ListNodes, PruneNodes,
    RemoveNode, ResizeNode, RunCommand, SendInterrupt, ShowNode, StartNode, StopNode, WaitNode, WriteData,
};
pub use node_spec::{CreateNode, InheritedNode, NodeRef, NodeSpec};
pub use page::PageRequest;
pub use proxy::{ProxyBudget, ProxyPrices, ProxySettings};
pub use read::read;
pub use recording::{GetRecordingFile, GetTimeline, ListRecordings, PruneRecordings, ReadRecording};
pub use result::{CancelResult, GetResult, ListResults, WebhookTarget};
pub use run::{AnswerGate, CancelGraph, GetRun, ListRuns, ResumeRun};
pub use search::Search;
pub use server::{Authenticate, Ping, Shutdown, Subscribe};
pub use session::{
    CreateSession, DeleteSession, GetSession, ListSessions, RestoreNodes, StartSession, StopSession,
};
pub use snapshot::{ListSnapshots, RestoreSnapshot, TakeSnapshot};
pub use transcript::GetTranscript;
pub use usage::GetUsage;
pub use value::{CommandLine, NodeChoice, Seconds, States};

/// A request that a client sends to a server.
pub trait Request: Serialize + DeserializeOwned + Schema + Send + 'static {
    /// Reply to a request that succeeded.
    type Reply: Reply;
    /// Name on the wire.
    const NAME: RequestName;
    /// True if a client may repeat the request after a broken connection.
    const IDEMPOTENT: bool;
    /// True if the server abandons the request when its client disconnects. All other requests run to their end.
    const CANCEL_ON_DISCONNECT: bool;
}

/// Effect of a request on the server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes it.
    Changes,
    /// Reads it.
    Reads,
    /// Waits for a change that another request or an agent makes. Not repeated, because the wait would start over.
    Waits,
    /// Sets up the connection.
    Connects,
}

impl Effect {
    const fn is_idempotent(self) -> bool {
        matches!(self, Effect::Reads | Effect::Connects)
    }

    const fn changes(self) -> bool {
        matches!(self, Effect::Changes)
    }

    const fn ends_with_client(self) -> bool {
        matches!(self, Effect::Reads | Effect::Waits)
    }
}

/// Declares all requests. Each line is the struct, its name on the wire, its reply and its [`Effect`]:
///
/// ```text
/// /// Returns one session.
/// GetSession = "GET_SESSION" -> SessionInfo, Reads;
/// ```
///
/// It becomes a variant of [`RequestName`] and an implementation of [`Request`].
macro_rules! requests {
    ($($(#[$doc:meta])* $request:ident = $name:literal -> $reply:ty, $effect:ident;)*) => {
        /// Names of all requests.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RequestName {
            $($(#[$doc])* $request,)*
        }

        impl RequestName {
            /// All requests.
            pub const ALL: &'static [RequestName] = &[$(RequestName::$request,)*];

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(RequestName::$request => $name,)*
                }
            }

            /// Returns true if the request changes nothing but its own connection.
            pub const fn is_read_only(self) -> bool {
                match self {
                    $(RequestName::$request => !Effect::$effect.changes(),)*
                }
            }

            /// Returns [`Request::IDEMPOTENT`] of the request.
            pub const fn is_idempotent(self) -> bool {
                match self {
                    $(RequestName::$request => <$request as Request>::IDEMPOTENT,)*
                }
            }
        }

        #[cfg(test)]
        impl RequestName {
            /// Decodes an example and encodes it again.
            fn round_trip(self, params: &serde_json::Value, reply: &serde_json::Value) -> [serde_json::Value; 2] {
                match self {
                    $(RequestName::$request => {
                        let request: $request = serde_json::from_value(params.clone()).unwrap();
                        let reply: $reply = serde_json::from_value(reply.clone()).unwrap();
                        [serde_json::to_value(request).unwrap(), serde_json::to_value(reply).unwrap()]
                    })*
                }
            }
        }

        $(impl Request for $request {
            type Reply = $reply;
            const NAME: RequestName = RequestName::$request;
            const IDEMPOTENT: bool = Effect::$effect.is_idempotent();
            const CANCEL_ON_DISCONNECT: bool = Effect::$effect.ends_with_client();
        })*
    };
}

requests! {
    /// Starts a node.
    CreateNode = "CREATE_NODE" -> NodeCreated, Changes;
    /// Stops a node.
    StopNode = "STOP_NODE" -> Stopped, Changes;
    /// Starts a stopped node again.
    StartNode = "START_NODE" -> NodeInfo, Changes;
    /// Removes a stopped node.
    RemoveNode = "REMOVE_NODE" -> Done, Changes;
    /// Removes all stopped nodes of a session.
    PruneNodes = "PRUNE_NODES" -> NodesPruned, Changes;
    /// Lists the nodes of a session.
    ListNodes = "LIST_NODES" -> NodeList, Reads;
    /// Describes one node.
    GetNode = "GET_NODE" -> NodeInfo, Reads;
    /// Creates a second node that continues from the state of another node.
    ForkNode = "FORK_NODE" -> NodeForked, Changes;
    /// Types a command and does not wait for its end.
    RunCommand = "RUN_COMMAND" -> CommandTyped, Changes;
    /// Sends a prompt and waits for its answer.
    ExecuteInput = "EXECUTE_INPUT" -> ExecuteReply, Changes;
    /// Returns the result of an asynchronous execution.
    GetResult = "GET_RESULT" -> ResultInfo, Reads;
    /// Lists the results of asynchronous executions.
    ListResults = "LIST_RESULTS" -> ResultList, Reads;
    /// Cancels an asynchronous execution.
    CancelResult = "CANCEL_RESULT" -> ResultInfo, Changes;
    /// Interrupts the current work of a node.
    SendInterrupt = "SEND_INTERRUPT" -> Interrupted, Changes;
    /// Writes raw data to a terminal.
    WriteData = "WRITE_DATA" -> Written, Changes;
    /// Resizes a terminal.
    ResizeNode = "RESIZE_NODE" -> Done, Changes;
    /// Opens a pane that shows a terminal.
    ShowNode = "SHOW_NODE" -> NodeShown, Changes;
    /// Returns the text of a terminal.
    GetBuffer = "GET_BUFFER" -> NodeText, Reads;
    /// Clears the text of a terminal.
    ClearBuffer = "CLEAR_BUFFER" -> Done, Changes;
    /// Returns the audit log of a node.
    GetHistory = "GET_HISTORY" -> NodeHistory, Reads;
    /// Returns the prompts and answers of a node or a recording.
    GetTranscript = "GET_TRANSCRIPT" -> Transcript, Reads;
    /// Finds a text in prompts, answers, tools and screens.
    Search = "SEARCH" -> SearchResult, Reads;
    /// Sums up the tokens and costs of nodes and recordings.
    GetUsage = "GET_USAGE" -> UsageReport, Reads;
    /// Waits until a node reaches a state.
    WaitNode = "WAIT_NODE" -> ReachedState, Waits;
    /// Explains the state of a node.
    ExplainNode = "EXPLAIN_NODE" -> NodeExplanation, Reads;
    /// Answers the dialog of a blocked node.
    AnswerNode = "ANSWER_NODE" -> AnswerReply, Changes;
    /// Registers a graph.
    CreateGraph = "CREATE_GRAPH" -> GraphInfo, Changes;
    /// Returns one graph.
    GetGraph = "GET_GRAPH" -> GraphInfo, Reads;
    /// Lists the graphs of a session.
    ListGraphs = "LIST_GRAPHS" -> GraphList, Reads;
    /// Deletes a graph.
    DeleteGraph = "DELETE_GRAPH" -> Done, Changes;
    /// Runs a graph that is part of the request.
    ExecuteGraph = "EXECUTE_GRAPH" -> RunReply, Changes;
    /// Runs a registered graph.
    RunGraph = "RUN_GRAPH" -> RunReply, Changes;
    /// Cancels a run.
    CancelGraph = "CANCEL_GRAPH" -> RunsCancelled, Changes;
    /// Lists all runs.
    ListRuns = "LIST_RUNS" -> RunList, Reads;
    /// Returns the state of a run.
    GetRun = "GET_RUN" -> RunInfo, Reads;
    /// Continues a run whose server died.
    ResumeRun = "RESUME_RUN" -> RunReply, Changes;
    /// Answers a gate at which a run waits.
    AnswerGate = "ANSWER_GATE" -> RunInfo, Changes;
    /// Sets or removes the budget of a node or a session.
    SetBudget = "SET_BUDGET" -> BudgetStatus, Changes;
    /// Creates a session.
    CreateSession = "CREATE_SESSION" -> SessionInfo, Changes;
    /// Returns one session.
    GetSession = "GET_SESSION" -> SessionInfo, Reads;
    /// Lists all sessions.
    ListSessions = "LIST_SESSIONS" -> SessionList, Reads;
    /// Stops a session's nodes and deletes it.
    DeleteSession = "DELETE_SESSION" -> Done, Changes;
    /// Starts the stopped nodes of a session.
    StartSession = "START_SESSION" -> NodesChanged, Changes;
    /// Stops the nodes of a session and keeps their definitions.
    StopSession = "STOP_SESSION" -> NodesChanged, Changes;
    /// Starts the nodes that ran when the server or the machine went down.
    RestoreNodes = "RESTORE_NODES" -> NodesRestored, Changes;
    /// Lists the recordings on the server's machine.
    ListRecordings = "LIST_RECORDINGS" -> RecordingList, Reads;
    /// Removes old recordings and unneeded folders of branches.
    PruneRecordings = "PRUNE_RECORDINGS" -> RecordingsPruned, Changes;
    /// Returns an overview of a recording.
    GetTimeline = "GET_TIMELINE" -> RecordingTimeline, Reads;
    /// Returns the terminal of a recording at a position, and the output that follows.
    ReadRecording = "READ_RECORDING" -> RecordedOutput, Reads;
    /// Returns a range of a recording's file.
    GetRecordingFile = "GET_RECORDING_FILE" -> RecordingFile, Reads;
    /// Lists the snapshots of a recorded session.
    ListSnapshots = "LIST_SNAPSHOTS" -> SnapshotList, Reads;
    /// Takes a snapshot of a running recorded session.
    TakeSnapshot = "TAKE_SNAPSHOT" -> SnapshotTaken, Changes;
    /// Restores the files of a snapshot.
    RestoreSnapshot = "RESTORE_SNAPSHOT" -> SnapshotRestored, Changes;
    /// Creates a node that continues a recorded session from a snapshot.
    CreateBranch = "CREATE_BRANCH" -> BranchCreated, Changes;
    /// Lists the folders of branches.
    ListBranches = "LIST_BRANCHES" -> BranchList, Reads;
    /// Removes the folder of a branch.
    DeleteBranch = "DELETE_BRANCH" -> BranchDeleted, Changes;
    /// Selects the events that this connection receives.
    Subscribe = "SUBSCRIBE" -> Subscribed, Connects;
    /// Presents the token: the first message of a connection over TCP.
    Authenticate = "AUTHENTICATE" -> Authenticated, Connects;
    /// Stops the server.
    Shutdown = "SHUTDOWN" -> Stopped, Changes;
    /// Checks that the server is running.
    Ping = "PING" -> Pong, Reads;
}

/// Declares requests that have an id and a session as their only parameters.
macro_rules! id_requests {
    ($id:ident: $id_doc:literal; $($(#[$doc:meta])* $request:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $request {
            #[doc = $id_doc]
            pub $id: String,
            /// Session of the item.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
        }

        impl $request {
            /// Creates the request. `session_id`: `None` for the default session.
            pub fn new($id: impl Into<String>, session_id: Option<String>) -> $request {
                $request { $id: $id.into(), session_id }
            }
        }
    )*};
}
pub(crate) use id_requests;
