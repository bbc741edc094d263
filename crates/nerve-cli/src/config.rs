//! `nerve config`: the user's settings.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the path of the settings file
    Path(PathArgs),
    /// Print the effective settings: the user's, completed with the defaults
    Show(ShowArgs),
    /// Report the errors of a settings file with line and column
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The file is optional: without it every setting has its default.

EXAMPLES
  nerve config path
  nerve config show > \"$(nerve config path)\"      start from the defaults")]
pub struct PathArgs {
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The output is a valid settings file: keep only the lines you change. Keys given for an operation replace its defaults; []
removes them all.

EXAMPLES
  nerve config show
  nerve config show --json | jq -r '.keys.help[]'")]
pub struct ShowArgs {
    /// Print the settings as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve config check
  nerve config check ./config.toml")]
pub struct CheckArgs {
    /// Settings file to check [default: the user's]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}
