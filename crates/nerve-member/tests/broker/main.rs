//! Memberships at a real broker.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod faults;
mod harness;
mod members;
mod refusals;
mod runs;
mod tls;
