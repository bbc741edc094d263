//! What tests, `nerve demo`, `nerve mock-agent` and `nerve mock-model` stand on: agents that need no network and no key.
//!
//! * [`mock_agent`]: a terminal program that behaves like an agent, by script.
//! * [`mock_model`]: a scripted model API for the real agents.
//! * [`fake_wezterm`]: a stand-in for WezTerm's command line and server, for tests only.
//! * [`Hermetic`]: a home of one's own for a test, and in it the settings of the real agents ([`AgentRecipe`]).
//! * [`skip`], [`wait_until`], [`wait_for`]: how a test says that it cannot run, and how it waits.

pub mod fake_wezterm;
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
