//! The server over HTTP, spoken to in raw bytes where it matters what they are.

mod agentapi;
mod client;
mod door;
mod events;
mod limits;
mod resources;
mod socket;
