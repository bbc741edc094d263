//! Memberships at a real broker.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod drain;
mod faults;
mod harness;
mod members;
mod refusals;
mod relay;
mod runs;
mod tls;
