//! Tests of the driver on simulated time, with recorded sessions of real agents and hand-made terminals.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "driver/dialogs.rs"]
mod dialogs;
#[path = "driver/drift.rs"]
mod drift;
#[path = "driver/foreign_input.rs"]
mod foreign_input;
#[path = "driver/harness.rs"]
mod harness;
#[path = "driver/replay.rs"]
mod replay;
#[path = "driver/scripted.rs"]
mod scripted;
#[path = "driver/takeover.rs"]
mod takeover;
#[path = "driver/typeahead.rs"]
mod typeahead;
#[path = "driver/usage_limits.rs"]
mod usage_limits;
