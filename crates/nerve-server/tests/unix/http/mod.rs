//! The server over HTTP, spoken to in raw bytes where it matters what they are.

mod agentapi;
mod auth;
mod client;
mod events;
mod http2;
mod limits;
mod memory;
mod metrics;
mod resources;
mod socket;
mod tls;
