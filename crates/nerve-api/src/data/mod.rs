//! What the `data` of a result carries.

mod graph;
mod history;
mod node;
mod response;
mod result;
mod run;
mod server;

pub use graph::{GraphInfo, GraphsData};
pub use history::HistoryData;
pub use node::{
    BufferData, CreatedData, ExplainData, ForkedData, InterruptedData, ListNodesData, NodeData, NodeInfo,
    RunData, StateData, StoppedData, TurnData, WrittenData,
};
pub use response::{ExecuteData, ResponseData, SectionData, TokensData, UsageData};
pub use result::{AcceptedData, AttemptData, ResultData, ResultsData, WebhookData};
pub use run::{CancelledData, GateInfo, RunEndedData, RunInfo, RunStep, RunsData};
pub use server::{
    ErrorData, ExceededData, LifecycleData, NotDone, PongData, SessionInfo, SessionsData, SubscribedData,
};
