//! Tests of the wire protocol through its public interface.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod decoding;
mod events;
mod framing;
mod graphs;
mod messages;
mod params;
