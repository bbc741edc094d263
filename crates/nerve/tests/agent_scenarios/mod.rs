//! The scenarios that every real agent must pass, each agent in its own home and against the scripted model API on loopback. Shared
//! by the tests of the pinned versions, the benchmark `agents` and, through it, `cargo xtask matrix`.

mod harness;
mod lifecycle;
mod scenario;
mod turns;
mod variants;

pub(crate) use scenario::{Cell, Scenario};
pub(crate) use variants::VARIANTS;

use std::time::Duration;

/// The result of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As expected.
    Passed,
    /// As expected, with a remark.
    Partial(String),
    /// The reason of the failure.
    Failed(String),
    /// The reason why the scenario did not run.
    Skipped(String),
}

/// Durations of one agent; one value for each timed answer.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From the start of the program to its ready state.
    pub(crate) ready: Vec<Duration>,
    /// From submission of the prompt to the first byte of the agent's request at the model.
    pub(crate) submit: Vec<Duration>,
    /// From the model's last byte to the reply of nerve.
    pub(crate) reply: Vec<Duration>,
}
