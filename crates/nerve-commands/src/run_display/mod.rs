//! Shows a run on the terminal until it ends, asks the user at its gates, and cancels it on Ctrl+C.

use nerve_types::name::DEFAULT_SERVER;

mod follower;
mod keyboard;
mod progress;
mod rows;
mod screen;

pub use self::follower::RunFollower;
pub use self::keyboard::resolve_choice;
pub use self::progress::Progress;
pub use self::rows::{format_duration, group_digits};
pub use self::screen::format_clock;

/// Returns a `nerve graph` command line for a server.
pub fn graph_command(server: &str, rest: &str) -> String {
    let server = if server == DEFAULT_SERVER { String::new() } else { format!(" -s {server}") };
    format!("nerve graph{server} {rest}")
}
