//! The wire through its public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up is to fail")]

mod decoding;
mod framing;
mod graphs;
mod messages;
mod params;
