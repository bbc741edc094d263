//! Answers the requests of shells for completions, and prints the scripts that send them.
//!
//! The script of `nerve completions` runs this program with [`VARIABLE`] set and the words of the line as arguments.

use anyhow::Result;
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use nerve_cli::completion::command;
use nerve_cli::local_commands::CompletionsArgs;

use super::fan_out;
use crate::out;

/// Variable with the name of the shell that requests completions.
const VARIABLE: &str = "NERVE_COMPLETE";
/// Name of the program.
const PROGRAM: &str = "nerve";

/// Answers a request for completions; returns false if there is none. Errors are not reported: they would appear in the
/// middle of a line that is being typed.
pub(crate) fn run_if_requested() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let directory = std::env::current_dir().ok();
    let request = CompleteEnv::with_factory(|| command(fan_out::names)).var(VARIABLE);
    // A request without words, or for an unknown shell, has no answer.
    request.try_complete(std::env::args_os(), directory.as_deref()).unwrap_or(true)
}

/// Prints a completion script.
pub(crate) fn print_script(args: &CompletionsArgs) -> Result<()> {
    let shell = args.shell.to_string();
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell) {
        completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    }
    out::bytes(&script)
}
