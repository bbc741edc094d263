//! The driver on simulated time: recorded sessions of the real agents, and small hand-made terminals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "driver/bench.rs"]
mod bench;
#[path = "driver/departure.rs"]
mod departure;
#[path = "driver/dialogs.rs"]
mod dialogs;
#[path = "driver/limits.rs"]
mod limits;
#[path = "driver/replay.rs"]
mod replay;
#[path = "driver/scripted.rs"]
mod scripted;
