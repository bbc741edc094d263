//! A stand-in for WezTerm's command line and its server: **not** WezTerm.
//!
//! WezTerm cannot be had from the registries that the tests may use, so tests of what drives it run against this. It keeps the contract that
//! was observed on a real headless one (build 20250223): the subcommands `list`, `spawn`, `send-text`, `get-text`, `activate-pane`,
//! `kill-pane` and `split-pane`, their outputs, errors and exit codes, real terminals in a server behind a Unix socket
//! (`WEZTERM_UNIX_SOCKET`), and the two calls that take the real server down:
//!
//! * `get-text` with an end before its start ends the server, and every pane with it;
//! * `send-text --no-paste` to a program that does not read blocks the server for everybody, once the terminal is full.
//!
//! Beyond the real one it has `mux-server` (the server, in the foreground), `fault KIND` (see [`Fault`]) and `calls` (how often which
//! subcommand was called), for tests.

mod cli;
mod options;
mod pane;
mod server;
mod text;
mod wire;

pub use cli::run;
pub use wire::Fault;

/// Version string.
pub(crate) const VERSION: &str = "wezterm 20250223-000000-fake (a stand-in of nerve's tests, not WezTerm)";
