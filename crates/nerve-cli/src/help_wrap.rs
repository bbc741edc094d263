//! Joins the lines of each help paragraph so that clap wraps them at the terminal's width instead of the source's.

use clap::{Command, Parser};

/// Parses the command line of this process. Exits with a message if it is invalid.
pub fn parse<Line: Parser>() -> Line {
    let mut matches = join_paragraphs(Line::command()).get_matches();
    Line::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut Line::command()).exit())
}

/// Joins the paragraphs in the long help of `command` and its subcommands. Indented lines (examples, tables) are kept.
pub fn join_paragraphs(mut command: Command) -> Command {
    if let Some(text) = command.get_after_long_help().map(ToString::to_string) {
        command = command.after_long_help(join_lines(&text));
    }
    if let Some(text) = command.get_long_about().map(ToString::to_string) {
        command = command.long_about(join_lines(&text));
    }
    command.mut_subcommands(join_paragraphs)
}

fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut previous = "";
    for line in text.lines() {
        if !joined.is_empty() {
            joined.push(if is_prose(previous) && is_prose(line) { ' ' } else { '\n' });
        }
        joined.push_str(line);
        previous = line;
    }
    joined
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn paragraph_lines_are_joined_and_examples_kept() {
        let text = "One thing\nand another.\n\nEXAMPLES\n  nerve one\n  nerve two\n\nThe\nend.";
        assert_eq!(
            join_lines(text),
            "One thing and another.\n\nEXAMPLES\n  nerve one\n  nerve two\n\nThe end."
        );
    }

    /// A terminal has 80 columns by default, and a wrapped example cannot be copied.
    #[test]
    fn examples_and_tables_fit_80_columns() {
        fn check(command: &Command, too_long: &mut Vec<String>) {
            let texts = [command.get_after_long_help(), command.get_after_help(), command.get_long_about()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                let long = text.lines().filter(|line| line.starts_with(' ') && line.chars().count() > 80);
                too_long.extend(long.map(|line| format!("{}: {line}", command.get_name())));
            }
            command.get_subcommands().for_each(|child| check(child, too_long));
        }
        let mut too_long = Vec::new();
        check(&join_paragraphs(Cli::command()), &mut too_long);
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
    }
}
