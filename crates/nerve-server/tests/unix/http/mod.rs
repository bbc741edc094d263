//! The server over HTTP, driven with raw bytes where they matter.

mod agentapi;
mod auth;
mod client;
mod events;
mod events_socket;
mod http2;
mod limits;
mod machines;
mod memory;
mod metrics;
mod openai;
mod resources;
mod shares;
mod snapshots;
mod socket;
mod terminal;
mod tls;
mod viewers;
mod web;
