//! What test suites share: commands and processes, private multiplexer servers, pseudo-terminals, full disks and real
//! agents. Its functions panic when a step fails, as assertions do.

mod disk;
mod multiplexers;
mod output;
mod process;
mod pty;
mod real_agent;

pub use disk::SmallDisk;
pub use multiplexers::{FakeWezterm, TmuxServer};
pub use output::{CommandOutput, Listener};
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
