//! The driver on simulated time: recorded sessions of the real agents, and small hand-made terminals.

#[path = "driver/replay.rs"]
mod replay;
#[path = "driver/scripted.rs"]
mod scripted;
