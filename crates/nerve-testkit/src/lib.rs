//! Test support, also used by `nerve demo`, `nerve mock-agent` and `nerve mock-model`: agents that need no network and
//! no API key.
//!
//! * [`mock_agent`]: a scripted terminal program that behaves like an agent.
//! * [`mock_model`]: a scripted model API for the real agents.
//! * [`Hermetic`]: an isolated home directory, with the settings of the real agents ([`AgentRecipe`]).
//! * [`harness`]: commands, processes, terminals and multiplexers that test suites share.
//! * [`json_style`]: the style of the JSON that nerve prints and sends.
//! * [`Random`]: reproducible random numbers.
//! * [`skip`]: skipping a test.
//! * [`wait_until`], [`wait_for`], [`eventually`] and others: waiting for a condition.

#![warn(missing_docs)]

pub mod harness;
mod hermetic;
pub mod json_style;
pub mod mock_agent;
pub mod mock_model;
mod random;
mod recipes;
mod skip;
mod wait;

pub use hermetic::Hermetic;
pub use random::Random;
pub use recipes::{AgentRecipe, Renderer, agents_dir, find_agent};
pub use skip::skip;
pub use wait::{DEADLINE, eventually, wait_for, wait_until, wait_until_async, within_deadline};
