//! Help texts fit the window: what stands as a paragraph in the source is wrapped where the window ends, not before.

use clap::{Command, Parser};

/// What the words that this process was called with say. Exits with a message where they make no sense.
pub(crate) fn asked<Line: Parser>() -> Line {
    let mut matches = joined(Line::command()).get_matches();
    Line::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut Line::command()).exit())
}

/// The command and all below it, with the lines of each paragraph of their longer help joined. Lines that are indented
/// (examples, tables) stay as they are.
pub(crate) fn joined(mut command: Command) -> Command {
    if let Some(text) = command.get_after_long_help().map(ToString::to_string) {
        command = command.after_long_help(in_paragraphs(&text));
    }
    if let Some(text) = command.get_long_about().map(ToString::to_string) {
        command = command.long_about(in_paragraphs(&text));
    }
    command.mut_subcommands(joined)
}

fn in_paragraphs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut before = "";
    for line in text.lines() {
        if !whole.is_empty() {
            whole.push(if is_prose(before) && is_prose(line) { ' ' } else { '\n' });
        }
        whole.push_str(line);
        before = line;
    }
    whole
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_paragraph_is_one_line_and_an_example_one_of_its_own() {
        let text = "One thing\nand another.\n\nEXAMPLES\n  nerve one\n  nerve two\n\nThe\nend.";
        assert_eq!(
            in_paragraphs(text),
            "One thing and another.\n\nEXAMPLES\n  nerve one\n  nerve two\n\nThe end."
        );
    }

    /// A window has 80 columns unless somebody made it wider; a wrapped example cannot be copied.
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
        check(&joined(Cli::command()), &mut too_long);
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
    }
}
