//! Deprecated API of the first version: channels and DAGs, with conversions to nodes and graphs. Each logs one warning.
#![expect(deprecated, reason = "defines the deprecated items")]

mod channel;
mod dag;

pub use channel::{Channel, ChannelNode, ChannelState, ChannelType};
pub use dag::{Dag, DagOptions, Task, TaskResult, TaskResults, TaskStatus};
