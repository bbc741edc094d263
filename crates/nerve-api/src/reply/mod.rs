//! Replies to requests, and the details of an error: the `data` of a result message.

mod branch;
mod choice;
mod graph;
mod history;
mod node;
mod response;
mod result;
mod run;
mod server;
mod snapshot;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Schema;

pub use branch::{
    BranchConversation, BranchCreated, BranchDeleted, BranchEnvironment, BranchFiles, BranchInfo, BranchList,
    BranchSnapshot,
};
pub use choice::{AnswerReply, Done, ExecuteReply, RunReply};
pub use graph::{GraphInfo, GraphList};
pub use history::NodeHistory;
pub use node::{
    CommandTyped, Interrupted, NodeCreated, NodeDetails, NodeExplanation, NodeForked, NodeInfo, NodeList,
    NodeMetadata, NodeText, ReachedState, RunningTurn, Stopped, Written,
};
pub use response::{ModelUsage, ResponseSection, TokenCounts, Turn, TurnResponse};
pub use result::{ResultInfo, ResultList, TurnAccepted, WebhookAttempt, WebhookStatus};
pub use run::{GateInfo, RunEnded, RunInfo, RunList, RunStep, RunsCancelled};
pub use server::{
    Authenticated, BudgetExceeded, ErrorDetails, NodeFailure, NodesChanged, Pong, SessionInfo, SessionList,
    Subscribed,
};
pub use snapshot::{SnapshotFiles, SnapshotInfo, SnapshotList, SnapshotRestored, SnapshotTaken};

/// Reply to a request that succeeded.
pub trait Reply: Serialize + DeserializeOwned + Schema + Send + Sync + 'static {
    /// Returns the finished run, if the reply is one. Its trace and results may have to be removed from an oversized message.
    fn run_mut(&mut self) -> Option<&mut RunEnded> {
        None
    }
}

macro_rules! plain_replies {
    ($($reply:ident)*) => { $(impl Reply for $reply {})* };
}

plain_replies! {
    Authenticated BranchCreated BranchDeleted BranchList CommandTyped GraphInfo GraphList Interrupted NodeCreated NodeDetails NodeExplanation NodeForked
    NodeHistory NodeList NodeText NodesChanged Pong ReachedState ResultInfo ResultList RunInfo RunList RunsCancelled
    SessionInfo SessionList SnapshotList SnapshotRestored SnapshotTaken Stopped Subscribed Written
}
