//! The harness that test suites share: commands and processes, private multiplexer servers, NATS servers, pseudo-terminals, full disks,
//! real agents and, with the feature `engine`, engines. Its functions panic when a step fails, as assertions do.

mod broker;
mod browser;
mod disk;
#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "engine")]
mod error;
mod host_entry;
mod listener;
mod multiplexers;
mod output;
mod process;
mod pty;
mod real_agent;

pub use broker::Broker;
pub use browser::browser_script;
pub use disk::SmallDisk;
#[cfg(feature = "engine")]
pub use engine::{EngineHarness, node_ref, terminal_spec, wait_request};
#[cfg(feature = "engine")]
pub use error::assert_error;
pub use host_entry::host_entry;
pub use listener::Listener;
pub use multiplexers::{FakeWezterm, TmuxServer};
pub use output::CommandOutput;
pub use process::{KillOnDrop, children, cpu_time, freeze, has_descendant, is_alive, memory_kib, signal};
pub use pty::{open_pty, resize};
pub use real_agent::RealAgent;

use std::path::PathBuf;

/// Returns the path of an example of the testkit (`mock_agent`, `fake_wezterm`), built next to the running test.
///
/// # Panics
/// The example is not built.
pub fn example(name: &str) -> PathBuf {
    let target = std::env::current_exe().ok().and_then(|test| Some(test.parent()?.parent()?.to_path_buf()));
    let program = target.unwrap_or_default().join("examples").join(name);
    assert!(program.exists(), "{} is missing: cargo build -p nerve-testkit --examples", program.display());
    program
}
