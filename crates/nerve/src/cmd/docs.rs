//! `man` and the hidden `cli-reference` and `openapi`: generated documentation.

use std::fs;

use anyhow::{Context, Result};
use clap::Command;

use crate::out;
use nerve_cli::Cli;
use nerve_cli::local_commands::ManArgs;

/// Groups of `nerve server` that are now at the top level.
const OLDER_GROUPS: [&str; 3] = ["node", "session", "graph"];

/// Prints the main page, or writes one page per command.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::build_command()).render(&mut page)?;
        return out::bytes(&page);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut cli = Cli::build_command().disable_help_subcommand(true);
    cli.build();
    // Pages of the older spellings 'nerve server node' and the like.
    let older = cli.find_subcommand("server").into_iter().flat_map(Command::get_subcommands);
    let older: Vec<Command> =
        older.filter(|group| OLDER_GROUPS.contains(&group.get_name())).cloned().collect();
    for command in std::iter::once(cli).chain(older) {
        clap_mangen::generate_to(command, dir)
            .with_context(|| format!("cannot write pages to {}", dir.display()))?;
    }
    Ok(())
}

/// Prints the command line reference as Markdown.
pub(crate) fn reference() -> Result<()> {
    out::bytes(nerve_cli::reference::markdown()?.as_bytes())
}

/// Prints the OpenAPI description of the HTTP interface.
pub(crate) fn openapi() -> Result<()> {
    out::bytes(nerve_server::openapi().as_bytes())
}
