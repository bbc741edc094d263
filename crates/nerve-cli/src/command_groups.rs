//! Arranges the commands of `nerve --help` in groups.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;

/// A heading of `nerve --help`, and its commands in display order.
type Group = (&'static str, &'static [&'static str]);

/// The groups in display order. A command in none of them works but is hidden.
pub const GROUPS: [Group; 5] = [
    (
        "Everyday",
        &[
            "new",
            "send",
            "ls",
            "top",
            "web",
            "share",
            "attach",
            "wait",
            "answer",
            "stop",
            "start",
            "rm",
            "prune",
            "logs",
            "transcript",
            "search",
            "usage",
            "budget",
            "notify",
            "ask",
            "fan-out",
        ],
    ),
    (
        "Nouns",
        &[
            "node",
            "graph",
            "session",
            "recording",
            "server",
            "machine",
            "cluster",
            "host",
            "result",
            "profile",
        ],
    ),
    ("Recordings", &["record", "view", "replay", "snapshot", "branch", "exec", "tools"]),
    (
        "Tools and integration",
        &[
            "events",
            "repl",
            "pattern",
            "mcp",
            "acp",
            "connect",
            "proxy",
            "tmux",
            "wezterm",
            "mock-agent",
            "mock-model",
        ],
    ),
    ("Setup", &["demo", "doctor", "config", "service", "token", "completions", "man", "help"]),
];

/// Help of the command `help`, which clap adds later.
const HELP_ABOUT: &str = "Print the help of a command";

/// Hides the ungrouped commands of the root command, and shows the others in their groups.
pub(super) fn group(root: Command) -> Command {
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let root = root.mut_subcommands(|command| {
        let hidden = !is_grouped(command.get_name());
        command.hide(hidden)
    });
    let template = template(&root);
    root.help_template(template)
}

/// Returns the help template of the root command, which contains the list of commands.
fn template(root: &Command) -> StyledStr {
    let (header, literal) = (root.get_styles().get_header(), root.get_styles().get_literal());
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for name in names {
            let about = about(root, name);
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

fn about(root: &Command, name: &str) -> String {
    let about = root.find_subcommand(name).and_then(Command::get_about);
    about.map_or_else(|| HELP_ABOUT.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::{Cli, SHORTCUTS};

    /// Commands that only programs or the project use, and older spellings.
    const HIDDEN: [&str; 9] = [
        "branch-points",
        "export",
        "import",
        "inspect",
        "extract",
        "parse",
        "hook",
        "cli-reference",
        "openapi",
    ];

    #[test]
    fn every_command_is_in_one_group_or_hidden() {
        let root = Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in root.get_subcommands() {
            let name = command.get_name();
            let count = grouped.iter().chain(&HIDDEN).filter(|grouped| **grouped == name).count();
            assert_eq!(count, 1, "{name}");
        }
        for name in grouped.iter().chain(&HIDDEN).filter(|name| **name != "help") {
            assert!(root.find_subcommand(name).is_some(), "{name}");
        }
    }

    /// clap does not wrap the list of commands.
    #[test]
    fn grouped_help_fits_80_columns() {
        let help = Cli::build_command().render_help().to_string();
        let too_long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(too_long.is_empty(), "{too_long:#?}");
        assert!(help.contains("Everyday:") && !help.contains("Commands:"), "{help}");
    }

    #[test]
    fn shortcut_has_arguments_of_full_command() {
        fn arguments(root: &Command, path: &[&str]) -> Vec<(String, Option<String>)> {
            let mut command = root;
            for name in path {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("no command {path:?}"));
            }
            let argument = |argument: &clap::Arg| {
                (argument.get_id().to_string(), argument.get_help().map(ToString::to_string))
            };
            let mut all: Vec<_> = command.get_arguments().map(argument).collect();
            all.sort();
            all
        }
        let mut root = Cli::build_command();
        root.build();
        for (short, full) in SHORTCUTS {
            assert_eq!(arguments(&root, &[short]), arguments(&root, full), "{short}");
        }
    }
}
