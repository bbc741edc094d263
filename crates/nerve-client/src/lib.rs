//! The Rust SDK: a client of a nerve server over its Unix socket, TCP, HTTP or ssh. It depends only on the protocol, not on the engine.
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_client::ClientError> {
//! use nerve_client::NerveClient;
//! use nerve_api::request::CreateNode;
//!
//! let client = NerveClient::connect("/run/user/1000/nerve/default.sock".as_ref()).await?;
//! let node = client.create_node(&CreateNode::new("shell")).await?;
//! let answer = node.execute("echo hello").await?;
//! println!("{}", answer.response.text);
//! node.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A graph has the form of a graph file. The error of a failed run contains its partial results:
//!
//! ```no_run
//! # async fn example(client: nerve_client::NerveClient) -> Result<(), Box<dyn std::error::Error>> {
//! use nerve_client::RunOptions;
//!
//! let graph = serde_json::from_str(r#"{"graph": "hello", "nodes": {"sh": {"type": "bash"}},
//!     "steps": [{"id": "a", "node": "sh", "input": "echo hello"}]}"#)?;
//! match client.execute_graph(graph, &RunOptions::default()).await {
//!     Ok(run) => println!("{}", run.results["a"]["text"]),
//!     Err(error) => match error.server().and_then(|error| error.details.run.as_ref()) {
//!         Some(run) => println!("{error}; done were {:?}", run.results.keys()),
//!         None => return Err(error.into()),
//!     },
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One connection serves any number of concurrent requests. Every future may be dropped at any point: a request that was sent is
//! still executed, its reply is discarded, and other requests are not affected.
//!
//! A connection that ends, for example because the server restarts, is reopened automatically: see [`NerveClient`] and [`Reconnect`].
#![warn(missing_docs)]

mod branch;
mod chunks;
mod client;
mod connect;
mod connection;
mod deprecated_aliases;
mod endpoint;
mod error;
mod event_router;
mod events;
mod execute;
mod graph;
mod link;
mod node;
mod pending_requests;
mod reconnect;
mod result;
mod ssh;
mod ssh_control;
mod ssh_error;
mod ssh_forward;
mod ssh_target;
mod tcp;
mod tls;
mod websocket;

pub use branch::branch_step;
pub use client::NerveClient;
#[expect(deprecated, reason = "the older name is re-exported")]
pub use deprecated_aliases::RemoteChannel;
pub use error::{ClientError, ServerError, UnansweredRequest};
pub use events::EventStream;
pub use execute::{ExecuteStream, StreamItem};
pub use nerve_api::request::{ResumeRun, RunOptions};
pub use node::RemoteNode;
pub use reconnect::Reconnect;
pub use ssh_control::MAX_CONTROL_DIRECTORY;
pub use ssh_error::{SshError, SshErrorKind};
pub use ssh_target::{SshSharing, SshTarget};
pub use tls::Tls;
