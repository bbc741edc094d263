//! Test support, also used by `nerve demo`, `nerve mock-agent` and `nerve mock-model`: agents that need no network and
//! no API key.
//!
//! * [`mock_agent`]: a scripted terminal program that behaves like an agent.
//! * [`mock_model`]: a scripted model API for the real agents.
//! * [`Hermetic`]: an isolated home directory, with the settings of the real agents ([`AgentRecipe`]).
//! * [`skip`], [`wait_until`], [`wait_for`]: skipping a test, and waiting for a condition.

mod hermetic;
pub mod mock_agent;
pub mod mock_model;
mod recipes;
mod skip;
mod wait;

pub use hermetic::Hermetic;
pub use recipes::{AgentRecipe, Renderer, agents_dir, find_agent};
pub use skip::skip;
pub use wait::{wait_for, wait_until};
