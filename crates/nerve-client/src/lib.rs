//! The Rust SDK: talks to a nerve server over its Unix socket. Knows the wire and nothing else of nerve.
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_client::ClientError> {
//! use nerve_client::{ExecuteOptions, NerveClient};
//! use nerve_proto::params::CreateNodeParams;
//!
//! let client = NerveClient::connect("/run/user/1000/nerve/default.sock".as_ref()).await?;
//! let node = client.create_node(&CreateNodeParams::new("shell")).await?;
//! let answer = node.execute("echo hello", &ExecuteOptions::default()).await?;
//! println!("{}", answer.response.text);
//! node.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One connection serves any number of requests at a time. Every future may be dropped at any point: what was asked is asked, its
//! answer is thrown away, and nothing else on the connection is touched.
#![warn(missing_docs)]

mod client;
mod connection;
mod error;
mod events;
mod execute;
mod node;

pub use client::NerveClient;
pub use error::{ClientError, ServerError};
pub use events::EventStream;
pub use execute::{ExecuteOptions, ExecuteStream, StreamItem};
pub use node::RemoteNode;
