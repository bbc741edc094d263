//! Proxies between an agent and its model API. They count tokens, enforce a budget, and log requests.
//!
//! * [`create_anthropic_proxy`]: forwards Anthropic's API unchanged.
//! * [`create_openai_proxy`]: serves Anthropic's Messages API with OpenAI's Chat Completions. The translation is [`transform`], which
//!   does no I/O.
//!
//! Both listen only on loopback, with HTTP/1.1 and HTTP/2. They do not depend on nodes or the engine.
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_proxy::ProxyError> {
//! use nerve_proxy::{ProxyConfig, Upstream, create_anthropic_proxy};
//!
//! let proxy = create_anthropic_proxy(ProxyConfig::new(Upstream::parse("https://api.anthropic.com")?)).await?;
//! println!("ANTHROPIC_BASE_URL={}", proxy.url());
//! proxy.shutdown().await;
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

mod api_error;
mod auth;
mod body;
mod budget;
mod client;
mod config;
mod connection;
mod error;
mod headers;
mod listener;
mod log;
mod log_entry;
mod network_body;
mod openai;
mod passthrough;
mod path;
mod pool;
mod prices;
mod proxy;
mod relay;
mod report;
mod request_log;
mod request_summary;
mod root_certs;
mod secret;
mod state;
pub mod transform;
mod upstream;
mod usage;

pub use api_error::ApiError;
pub use budget::{Budget, Totals};
pub use config::{LogConfig, Provider, ProxyConfig};
pub use error::ProxyError;
pub use prices::{PriceEntry, PriceError, PriceTable, Prices};
pub use proxy::{Proxy, create_anthropic_proxy, create_openai_proxy};
pub use report::{CallObserver, CallOutcome, CallReport, CurrentTurn, LogFaults, SPAN_TARGET};
pub use root_certs::RootCerts;
pub use secret::Secret;
pub use upstream::Upstream;
