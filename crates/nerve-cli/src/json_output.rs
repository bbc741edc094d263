//! Detects whether a command line requests JSON. Its errors are then printed as JSON, too.

use clap::ArgMatches;
use nerve_commands::failure::{Failure, USAGE};
use nerve_commands::out;

/// Returns true if the command has the flag `--json`.
pub(crate) fn is_requested(matches: &ArgMatches) -> bool {
    let is_set = matches.try_get_one::<bool>("json").ok().flatten() == Some(&true);
    is_set || matches.subcommand().is_some_and(|(_, matches)| is_requested(matches))
}

/// Returns true if a command line that cannot be parsed has the flag.
pub(crate) fn is_written(words: &[String]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json" || word == "-j")
}

/// Prints a usage error as JSON and ends the process.
pub(crate) fn exit(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let hint: Vec<&str> = paragraphs.collect();
    out::failure(&Failure::new(USAGE, message).hint(hint.join("\n")), true);
    std::process::exit(i32::from(USAGE))
}
