//! A fake of WezTerm's command line and server, **not** WezTerm.
//!
//! WezTerm is not available from the package registries that the tests may use, so tests of the backend use this fake. It follows the
//! behaviour of a real headless server (build 20250223): the subcommands `list`, `spawn`, `send-text`, `get-text`, `activate-pane`,
//! `kill-pane` and `split-pane`, their outputs, errors and exit codes, real terminals in a server behind a Unix socket
//! (`WEZTERM_UNIX_SOCKET`), and the two calls that bring the real server down:
//!
//! * `get-text` with an end before its start ends the server, and every pane with it;
//! * `send-text --no-paste` to a program that does not read blocks the server for all clients, once the terminal's buffer is full.
//!
//! For tests it has three more subcommands: `mux-server` (runs the server in the foreground), `fault KIND` (see [`wire::Fault`]) and `calls`
//! (counts the calls by subcommand).

mod cli;
mod options;
mod pane;
mod server;
mod text;
mod wire;

use std::process::ExitCode;

/// Version string.
const VERSION: &str = "wezterm 20250223-000000-fake (a stand-in of nerve's tests, not WezTerm)";

fn main() -> ExitCode {
    cli::run(std::env::args().skip(1).collect())
}
