//! Completes words for shells: commands and options from the declaration, and names of nodes, recordings, runs and more.

mod arguments;
mod names;

use clap::Command;

use crate::Cli;

/// Returns the names of all fan-outs, with their tasks.
pub type FanOutNames = fn() -> Vec<(String, String)>;

/// Returns the command line with the completers of its arguments.
pub fn command(fan_outs: FanOutNames) -> Command {
    arguments::add_completers(Cli::build_command(), "", fan_outs)
}

#[cfg(test)]
mod tests {
    #[test]
    fn declaration_with_completers_is_consistent() {
        super::command(Vec::new).debug_assert();
    }
}
