//! Tests with a real NATS server, and the contract that it shares with the store of the simulation.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod contract;
mod faults;
mod harness;
#[path = "../../../nerve-cluster/tests/simulation/store.rs"]
#[expect(dead_code, reason = "the simulation uses more of it")]
mod memory_store;
mod presence;
