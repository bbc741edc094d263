//! The commands that nerve's command line and its REPL share, with their output and their errors.
//!
//! | module | content |
//! |---|---|
//! | [`node_command`] | the commands of `nerve node`: arguments, requests, output |
//! | [`machine_command`] | the commands of `nerve machine` |
//! | [`search_report`] | the output of `nerve search`, and the search on other machines |
//! | [`graph_file`] | prepares a graph file and its input for a server |
//! | [`run_display`] | the live display of a run |
//! | [`event_line`], [`activity_text`] | events and activities as text; no I/O |
//! | [`free_name`] | the name of a new node |
//! | [`clock`] | the current time |
//! | [`out`], [`failure`] | output; errors with their exit codes |
//! | [`prompt`], [`trace`] | prompts from arguments, files and standard input; the trace context of this process |
#![warn(missing_docs)]

pub mod activity_text;
pub mod clock;
pub mod event_line;
pub mod failure;
pub mod free_name;
pub mod graph_file;
pub mod machine_command;
pub mod node_command;
pub mod out;
pub mod prompt;
pub mod run_display;
pub mod search_report;
pub mod trace;
