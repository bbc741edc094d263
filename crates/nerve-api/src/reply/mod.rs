//! Replies to requests, and the details of an error: the `data` of a result message.

mod branch;
mod budget;
mod choice;
mod graph;
mod history;
mod node;
mod recording;
mod response;
mod result;
mod run;
mod search;
mod server;
mod snapshot;
mod timeline;
mod transcript;
mod usage;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Schema;

pub use branch::{
    BranchConversation, BranchCreated, BranchDeleted, BranchEnvironment, BranchFiles, BranchInfo, BranchList,
    BranchSnapshot,
};
pub use budget::BudgetStatus;
pub use choice::{AnswerReply, Done, ExecuteReply, RunReply};
pub use graph::{GraphInfo, GraphList};
pub use history::NodeHistory;
pub use node::{
    CommandTyped, Interrupted, ModelTokens, NodeCreated, NodeExplanation, NodeForked, NodeInfo, NodeList,
    NodeMetadata, NodeProgress, NodeShown, NodeText, NodesPruned, NodesRestored, ReachedState, RestoredNode,
    RunningTurn, Stopped, Written,
};
pub use recording::{
    PrunedBranch, PrunedRecording, RecordedExit, RecordingFile, RecordingInfo, RecordingList,
    RecordingsPruned,
};
pub use response::{ModelUsage, Section, Tokens, Turn, TurnResponse};
pub use result::{ResultInfo, ResultList, TurnAccepted, WebhookAttempt, WebhookStatus};
pub use run::{GateInfo, PlannedStep, RunEnded, RunInfo, RunList, RunStep, RunsCancelled};
pub use search::{SearchHit, SearchResult, UnsearchedFile};
pub use server::{
    Authenticated, BudgetExceeded, ErrorDetails, NodeFailure, NodesChanged, Pong, SessionInfo, SessionList,
    Subscribed,
};
pub use snapshot::{SnapshotFiles, SnapshotInfo, SnapshotList, SnapshotRestored, SnapshotTaken};
pub use timeline::{
    RecordedChunk, RecordedOutput, RecordedTerminal, RecordingDamage, RecordingTimeline, TimelineDialog,
    TimelineSize, TimelineSnapshot, TimelineTurn,
};
pub use transcript::{Transcript, TranscriptDialog, TranscriptSource, TranscriptTurn};
pub use usage::{UnpricedModel, UsageReport, UsageRow};

/// Reply to a request that succeeded.
pub trait Reply: Serialize + DeserializeOwned + Schema + Send + Sync + 'static {
    /// Returns the finished run, if the reply is one. Its trace and results may have to be removed from an oversized message.
    fn run_mut(&mut self) -> Option<&mut RunEnded> {
        None
    }

    /// Returns the id of the item that the reply describes, if a request can have created it.
    fn created_id(&self) -> Option<&str> {
        None
    }
}

macro_rules! plain_replies {
    ($($reply:ident)*) => { $(impl Reply for $reply {})* };
}

macro_rules! replies_with_id {
    ($($reply:ident . $id:ident)*) => {
        $(impl Reply for $reply {
            fn created_id(&self) -> Option<&str> {
                Some(&self.$id)
            }
        })*
    };
}

plain_replies! {
    Authenticated BranchCreated BranchDeleted BranchList BudgetStatus CommandTyped GraphList Interrupted NodeExplanation
    NodeHistory NodeInfo NodeList NodeShown NodeText NodesChanged NodesPruned NodesRestored Pong ReachedState RecordedOutput RecordingFile RecordingList RecordingTimeline RecordingsPruned ResultInfo ResultList RunInfo RunList RunsCancelled
    SearchResult SessionList SnapshotList SnapshotRestored SnapshotTaken Stopped Subscribed Transcript
    UsageReport Written
}

replies_with_id! { GraphInfo.graph_id NodeCreated.node_id NodeForked.node_id SessionInfo.name }
