//! Backends, the pump, nodes, sessions and the engine: where async begins.
//!
//! One flow: a backend's bytes → [`pump`] (stamps them, taps first) → terminal model → driver → [`node`] → [`engine`].

pub mod activity;
pub mod backend;
pub mod clock;
pub mod command;
pub mod engine;
pub mod error;
pub mod events;
pub mod host;
pub mod node;
pub mod profiles;
pub mod pump;
pub mod recorder;
pub mod session;
pub mod tap;
