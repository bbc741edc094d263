//! The Rust SDK: talks to a nerve server over its Unix socket, TCP or HTTP. Knows the wire and nothing else of nerve.
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_client::ClientError> {
//! use nerve_client::{ExecuteOptions, NerveClient};
//! use nerve_api::request::CreateNode;
//!
//! let client = NerveClient::connect("/run/user/1000/nerve/default.sock".as_ref()).await?;
//! let node = client.create_node(&CreateNode::new("shell")).await?;
//! let answer = node.execute("echo hello", &ExecuteOptions::default()).await?;
//! println!("{}", answer.response.text);
//! node.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A graph is run as its file has it; a run that failed is an error that carries the results it has:
//!
//! ```no_run
//! # async fn example(client: nerve_client::NerveClient) -> Result<(), Box<dyn std::error::Error>> {
//! use nerve_client::RunOptions;
//!
//! let graph = serde_json::from_str(r#"{"graph": "hello", "nodes": {"sh": {"type": "bash"}},
//!     "steps": [{"id": "a", "node": "sh", "input": "echo hello"}]}"#)?;
//! match client.execute_graph(graph, &RunOptions::default()).await {
//!     Ok(run) => println!("{}", run.results["a"]["text"]),
//!     Err(error) => match error.server().and_then(|error| error.run.as_ref()) {
//!         Some(run) => println!("{error}; done were {:?}", run.results.keys()),
//!         None => return Err(error.into()),
//!     },
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One connection serves any number of requests at a time. Every future may be dropped at any point: what was asked is asked, its
//! answer is thrown away, and nothing else on the connection is touched.
//!
//! A connection that ends, because the server is started anew, say, is made again by itself: see [`NerveClient`] and [`Reconnect`].
#![warn(missing_docs)]

mod client;
mod connect;
mod connection;
mod endpoint;
mod error;
mod event_router;
mod events;
mod execute;
mod graph;
mod link;
mod node;
mod older;
mod pending;
mod reconnect;
mod result;
mod tls;
mod websocket;

pub use client::NerveClient;
pub use error::{ClientError, ServerError, Unanswered};
pub use events::EventStream;
pub use execute::{ExecuteOptions, ExecuteStream, StreamItem};
pub use graph::RunOptions;
pub use node::RemoteNode;
#[expect(deprecated, reason = "the older name is given on")]
pub use older::RemoteChannel;
pub use reconnect::Reconnect;
pub use tls::Tls;
