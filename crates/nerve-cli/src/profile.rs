//! `nerve profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Arguments of `nerve profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(subcommand)]
    pub command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List the profiles: built-in ones and your own
    List(ListArgs),
    /// Print a profile as TOML
    Show(ShowArgs),
    /// Replay recordings, and print the states that a profile leads to
    Test(TestArgs),
    /// Draft a profile from a recording
    New(NewArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Your own profiles are files with any name ending in .toml in the directory that the last line names. One with the name of a built-in profile
replaces it. Files with errors are listed with line and column, and ignored.

EXAMPLES
  nerve profile list
  nerve profile list --json | jq -r '.errors[].message'")]
pub struct ListArgs {
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve profile show claude
  nerve profile show python > ~/.config/nerve/profiles/my-repl.toml")]
pub struct ShowArgs {
    /// Name of the profile
    #[arg(value_name = "PROFILE")]
    pub profile: String,
    /// Print as JSON: the text and its file
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Replays the output of each recording through the terminal model and the driver, as a server does with live output. Prints each state with its
time and evidence: the signal, or the rule with the row that it matched. Then follow the numbers of screens that each rule and field
matched. Rules that never matched, and rules with different states that match the same screen, are warnings. A recording does not contain
hooks, session files and foreground processes, so these signals are missing.

If a node made the recording, the states are compared with the turns in its audit log: busy while a turn runs, and ready after it. Exits with
1 if they differ, or if the profile has an error.

EXAMPLES
  nerve profile test my-agent.toml --recording me
  nerve profile test my-agent.toml --recording a.ahr --recording b.ahr
  nerve profile test claude --recording reviewer@2 --json |
      jq '.recordings[].states'")]
pub struct TestArgs {
    /// File of the profile, or name of a loaded one
    #[arg(value_name = "FILE|PROFILE", value_hint = ValueHint::FilePath)]
    pub profile: String,
    /// Recording to replay: file, NODE, NODE@2, SESSION/NODE, MACHINE/SESSION/NODE, or beginning of an id; repeatable
    #[arg(long = "recording", value_name = "RECORDING", required = true, value_hint = ValueHint::FilePath)]
    pub recordings: Vec<String>,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examines the recording of a session in which prompts were typed: the screens before prompts, during turns and in dialogs.
Drafts the composer or the prompt, the signs of a working program, dialogs and window titles. Comments name the time of the
screen behind a value, and mostly the row. Compare the values with the screens ('nerve view'), complete the profile, and test it with 'nerve profile test'.

EXAMPLES
  nerve profile new my-agent --from me > my-agent.toml
  nerve profile new my-agent --from me --program my-agent -o my-agent.toml
  nerve profile test my-agent.toml --recording me")]
pub struct NewArgs {
    /// Name of the new profile
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Recording of a session: file, NODE, NODE@2, SESSION/NODE, MACHINE/SESSION/NODE, or beginning of an id
    #[arg(long = "from", value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recording: String,
    /// File name of the program [default: as recorded]
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<String>,
    /// Output file; must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
