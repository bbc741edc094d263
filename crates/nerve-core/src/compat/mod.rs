//! The words of the first nerve for a while: channels and DAGs, and the way from them to nodes and graphs (seed node-refactoring §9.1,
//! §9.2). Each warns once.
#![expect(deprecated, reason = "these are the deprecated words")]

mod channel;
mod dag;

pub use channel::{Channel, ChannelNode, ChannelState, ChannelType};
pub use dag::{Dag, DagOptions, Task, TaskResult, TaskResults, TaskStatus};
