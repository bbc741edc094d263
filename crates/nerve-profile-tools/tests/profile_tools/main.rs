//! Tests of profiles with recordings of real programs.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod drafts;
mod fixture;
mod states;
