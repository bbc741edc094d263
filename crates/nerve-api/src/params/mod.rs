//! What goes with each command. Unknown fields are passed over, `null` is the same as absent, and wrong types are told with the
//! field's name. `session_id` is optional everywhere: absent is the server's default session.

mod chat;
mod conversation;
mod graph;
mod history;
mod node;
mod proxy;
mod read;
mod result;
mod run;
mod server;
mod session;
mod value;

pub use chat::ChatParams;
pub use conversation::{ConversationParams, MessageParams};
pub use graph::{CreateGraphParams, ExecuteGraphParams, GraphParams, ListGraphsParams, RunGraphParams};
pub use history::GetHistoryParams;
pub use node::{
    AnswerNodeParams, CreateNodeParams, ExecuteInputParams, ForkNodeParams, GetBufferParams, LikeParams,
    NodeParams, ResizeNodeParams, RunCommandParams, WaitNodeParams, WriteDataParams,
};
pub use proxy::{ProxyBudget, ProxyParams, ProxyPrices, ProxySettings};
pub use result::{CancelResultParams, GetResultParams, ListResultsParams, WebhookParams};
pub use run::{AnswerGateParams, CancelGraphParams, GetRunParams, ResumeRunParams};
pub use server::{AuthenticateParams, ShutdownParams, SubscribeParams};
pub use session::{CreateSessionParams, ListNodesParams, SessionParams};
pub use value::{CommandLine, NodeChoice, Seconds, States};

pub(crate) use read::{modernise, read};
