//! The conflict of `--server` with arguments that name a machine.

use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use nerve_commands::failure::{Failure, USAGE};
use nerve_commands::out;
use nerve_machine::address::check_server;

/// Arguments that may be MACHINE/SESSION/NODE, also that of a recording. `name` is that of a new node, `words` begins with a recording.
const NODE_ARGUMENTS: [&str; 7] = ["node", "target", "source", "name", "recording", "session", "words"];

/// Ends the process with a usage error if the command line has a server, and an argument that names another machine. A server in
/// `NERVE_SERVER` is no conflict: the argument replaces it.
pub(crate) fn exit_if_found(matches: &ArgMatches, prints_json: bool) {
    if let Err(failure) = check(matches) {
        out::failure(&failure, prints_json);
        std::process::exit(i32::from(USAGE));
    }
}

fn check(matches: &ArgMatches) -> Result<(), Failure> {
    if let Some((_, matches)) = matches.subcommand() {
        return check(matches);
    }
    let Some(server) = text(matches, "server") else { return Ok(()) };
    if matches.value_source("server") != Some(ValueSource::CommandLine) {
        return Ok(());
    }
    if matches.try_get_one::<bool>("all_machines").ok().flatten() == Some(&true) {
        let failure = Failure::new(USAGE, format!("--all-machines does not list only server '{server}'"));
        return Err(failure.hint("omit --all-machines, or omit --server"));
    }
    for argument in NODE_ARGUMENTS {
        let Some(node) = text(matches, argument) else { continue };
        // The file of a recording, or an instruction without one.
        let is_instruction = argument == "words" && count(matches, argument) < 2;
        if is_instruction || Path::new(node).exists() {
            continue;
        }
        check_server(node, server).map_err(|error| Failure::from(&error))?;
    }
    Ok(())
}

fn count(matches: &ArgMatches, argument: &str) -> usize {
    matches.try_get_many::<String>(argument).ok().flatten().map_or(0, |words| words.len())
}

fn text<'a>(matches: &'a ArgMatches, argument: &str) -> Option<&'a str> {
    matches.try_get_one::<String>(argument).ok().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn has_conflict(line: &str) -> bool {
        let matches = crate::Cli::build_command().try_get_matches_from(line.split(' ')).unwrap();
        check(&matches).is_err()
    }

    #[test]
    fn named_server_conflicts_with_another_machine() {
        for line in [
            "nerve rm local/night/me --server machine://work",
            "nerve rm work/night/me --server staging",
            "nerve node --server staging info work/night/me",
            "nerve attach work/night/me -s staging",
            "nerve transcript work/night/me -s staging",
            "nerve budget work/night/me -s default",
            "nerve new work/night/me -s staging",
            "nerve transcript work/night/me@2 -s staging",
            "nerve branch work/night/me fix -s staging",
            "nerve snapshot --recording work/night/me --server staging",
            "nerve snapshot list work/night/me --server staging",
            "nerve events --node work/night/me -s staging",
            "nerve ls --all-machines -s staging",
            "nerve top --all-machines -s staging",
        ] {
            assert!(has_conflict(line), "{line}");
        }
        for line in [
            "nerve rm local/night/me --server staging",
            "nerve rm work/night/me --server machine://work",
            "nerve rm work/night/me",
            "nerve rm night/me --server staging",
            "nerve branch a/b/c -s staging",
            "nerve snapshot --recording night/me --server staging",
            "nerve ls --all-machines",
            "nerve ls --all -s staging",
            "nerve machine list",
        ] {
            assert!(!has_conflict(line), "{line}");
        }
    }
}
