//! The driver on simulated time: recorded sessions of the real agents, and small hand-made terminals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "driver/dialogs.rs"]
mod dialogs;
#[path = "driver/foreign_input.rs"]
mod foreign_input;
#[path = "driver/harness.rs"]
mod harness;
#[path = "driver/replay.rs"]
mod replay;
#[path = "driver/scripted.rs"]
mod scripted;
#[path = "driver/usage_limits.rs"]
mod usage_limits;
