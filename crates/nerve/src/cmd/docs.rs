//! `completions`, `man` and the hidden `cli-reference` and `openapi`: what is declared in other forms.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use clap::Arg;

use crate::cli::Cli;
use crate::cli::local::{CompletionsArgs, ManArgs};
use crate::out;

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::build_command(), "nerve", &mut script);
    out::bytes(&script)
}

/// Prints the main page, or writes a page for each command.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::build_command()).render(&mut page)?;
        return out::bytes(&page);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    clap_mangen::generate_to(Cli::build_command(), dir)
        .with_context(|| format!("cannot write pages to {}", dir.display()))
}

/// Prints the whole command line as Markdown.
pub(crate) fn reference() -> Result<()> {
    let mut cli = Cli::build_command().disable_help_subcommand(true);
    cli.build();
    let mut page = String::from(
        "# The command line\n\nMade by `nerve cli-reference` from the program itself; CI compares the two.\n",
    );
    describe(&cli, "nerve", &mut page)?;
    out::bytes(page.as_bytes())
}

/// Prints the description of the HTTP interface.
pub(crate) fn openapi() -> Result<()> {
    out::bytes(nerve_server::openapi().as_bytes())
}

fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set())
}

fn describe(command: &clap::Command, name: &str, page: &mut String) -> Result<()> {
    write!(page, "\n## `{name}`\n\n")?;
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        writeln!(page, "{about}")?;
    }
    let usage = command.clone().render_usage().to_string();
    writeln!(page, "\n```text\n{}\n```", usage.trim())?;
    describe_arguments(command, page)?;
    if visible(command).next().is_some() {
        writeln!(page, "\n| command | |\n|---|---|")?;
        for child in visible(command) {
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(page, "| `{name} {}` | {about} |", child.get_name())?;
        }
    }
    if let Some(after) = command.get_after_long_help() {
        writeln!(page, "\n```text\n{after}\n```")?;
    }
    for child in visible(command) {
        describe(child, &format!("{name} {}", child.get_name()), page)?;
    }
    Ok(())
}

fn describe_arguments(command: &clap::Command, page: &mut String) -> Result<()> {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if arguments.is_empty() {
        return Ok(());
    }
    writeln!(page, "\n| argument | |\n|---|---|")?;
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(page, "| `{}` | {}{} |", spelling(argument), help.replace('|', "\\|"), limits(argument))?;
    }
    Ok(())
}

fn spelling(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .map(|names| names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" "));
    let flags = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    match (flags.is_empty(), value) {
        (true, value) => value.unwrap_or_else(|| argument.get_id().to_string().to_uppercase()),
        (false, Some(value)) => format!("{} {value}", flags.join(", ")),
        (false, None) => flags.join(", "),
    }
}

fn limits(argument: &Arg) -> String {
    let mut notes = Vec::new();
    let takes_values = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    if takes_values && !values.is_empty() {
        let names: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        notes.push(format!("one of {}", names.join(", ")));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        notes.push(format!("default {}", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!("environment `{}`", variable.to_string_lossy()));
    }
    if notes.is_empty() { String::new() } else { format!("; {}", notes.join("; ")) }
}
