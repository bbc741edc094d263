//! `nerve config`: the user's settings.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print where the settings are
    Path(PathArgs),
    /// Print the settings that count: the user's, and the usual ones where there are none
    Show(ShowArgs),
    /// Say what is wrong with a file of settings, with line and column
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The file need not be there: without it everything has its usual value.

EXAMPLES
  nerve config path
  nerve config show > \"$(nerve config path)\"      begin with what there is")]
pub(crate) struct PathArgs {}

#[derive(Debug, Args)]
#[command(after_long_help = "\
What is printed is a file of settings: keep the lines you change. An operation that is given keys has these alone; [] is
none.

EXAMPLES
  nerve config show
  nerve config show --json | jq -r '.keys.help[]'")]
pub(crate) struct ShowArgs {
    /// Print the settings as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve config check
  nerve config check ./config.toml")]
pub(crate) struct CheckArgs {
    /// Another file than the user's
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}
