//! What the `data` of a result carries.

mod history;
mod node;
mod response;
mod server;

pub use history::HistoryData;
pub use node::{
    BufferData, CreatedData, ExplainData, InterruptedData, ListNodesData, NodeData, NodeInfo, RunData,
    StateData, StoppedData, TurnData, WrittenData,
};
pub use response::{ExecuteData, ResponseData, SectionData, TokensData};
pub use server::{ErrorData, PongData, SessionInfo, SessionsData, SubscribedData};
