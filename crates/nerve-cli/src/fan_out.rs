//! `nerve fan-out`: one task for several agents, each in its own git worktree.

use clap::{Args, Subcommand};
use nerve_commands::node_command::{BudgetOptions, DurationArg, TotalBudgetOptions};
use nerve_commands::prompt::Prompt;

use super::node::ServerOption;

/// Maximum number of attempts of a fan-out.
pub const MAX_ATTEMPTS: u32 = 32;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(override_usage = "nerve fan-out [OPTIONS] <TEXT|--file <PATH>>\n       nerve fan-out <COMMAND>")]
#[command(after_long_help = "\
Each attempt starts from the current commit, in its own git worktree outside the repository and on its own branch
nerve/NAME/N-AGENT. The agents work at the same time. When they are done, the command compares the attempts and prints exit, turns, tokens,
time, changes and the result of --test. Agents stay attachable until 'pick' or 'clean'.

A blocked agent is reported at once with the command that answers it; the others continue. Ctrl+C leaves the agents running:
'nerve fan-out wait' continues. Exits with 0 if an attempt completed and passed the test.

The options --budget-… limit each attempt, --total-… all attempts together; --at-limit applies to both. At the limit of an attempt its
agent is interrupted. At that of all, 'stop' interrupts every agent and ends the fan-out; with 'ask', running turns continue, nothing else
starts, and 'nerve graph answer' continues or stops.

The file .nerve/worktree-include lists ignored files that each worktree needs, as patterns like those of .gitignore.

EXAMPLES
  nerve fan-out -n 3 -c claude,codex,gemini 'Fix the login test'
  nerve fan-out -n 4 --test 'cargo test' --name login 'Fix the login test'
  nerve fan-out -n 4 --total-cost 10 --at-limit stop 'Fix the login test'
  nerve fan-out diff login/2
  nerve fan-out pick login/2
  nerve fan-out clean login")]
pub struct FanOutArgs {
    #[command(flatten)]
    pub server: ServerOption,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(subcommand)]
    pub command: Option<FanOutCommand>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub task: Prompt,
    /// Number of attempts, 1-32; agents repeat in order if it is larger than their number [default: one for each agent]
    #[arg(
        long,
        visible_short_alias = 'n',
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ATTEMPTS))
    )]
    pub attempts: Option<u32>,
    /// Agents, separated by commas; repeatable
    #[arg(short, long = "command", default_value = "claude", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// Shell command that tests each attempt in its worktree
    #[arg(long, value_name = "COMMAND")]
    pub test: Option<String>,
    /// Name of the fan-out [default: derived from the task]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Agent profile [default: detected from the command]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Session of the nodes [default: the server's default session]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Limits of each attempt.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// Limits of all attempts together.
    #[command(flatten)]
    pub total: TotalBudgetOptions,
    /// Time limit in seconds of each turn and of each test
    #[arg(short, long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Print the name of the fan-out and return at once
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Subcommand)]
pub enum FanOutCommand {
    /// List the fan-outs
    #[command(
        alias = "ls",
        after_long_help = "\
Lists the fan-outs of the repository of the current directory; outside a repository, all.

EXAMPLES
  nerve fan-out list
  nerve fan-out list --json"
    )]
    List,
    /// Wait for the attempts, and compare them
    #[command(after_long_help = "\
Prints the comparison at once if the attempts are done.

EXAMPLES
  nerve fan-out wait
  nerve fan-out wait login --json")]
    Wait(NameArg),
    /// Show the changes of an attempt, or a summary for all
    #[command(after_long_help = "\
Compares with the commit at which the fan-out started. Uncommitted and untracked files are included, ignored ones are not.

EXAMPLES
  nerve fan-out diff
  nerve fan-out diff login/2
  nerve fan-out diff codex")]
    Diff(DiffArgs),
    /// Merge an attempt into the current branch, and remove the other worktrees
    #[command(after_long_help = "\
Uncommitted work of the attempt is first committed on its branch. If the merge has conflicts, it is undone and nothing is removed.

The nodes and worktrees of the other attempts are then removed. Their uncommitted work is committed on their branches, which stay. The
picked worktree and its agent stay until 'clean', for further work.

EXAMPLES
  nerve fan-out pick 2
  nerve fan-out pick login/2-codex
  nerve fan-out pick codex --discard")]
    Pick(PickArgs),
    /// Remove the nodes and worktrees of fan-outs
    #[command(after_long_help = "\
Uncommitted work is committed on the branch of its attempt first. Branches with commits that are not merged stay.

EXAMPLES
  nerve fan-out clean
  nerve fan-out clean login
  nerve fan-out clean --all --discard")]
    Clean(CleanArgs),
}

#[derive(Debug, Args)]
pub struct NameArg {
    /// Fan-out, or the beginning of its name [default: the only one of this repository]
    #[arg(value_name = "FAN-OUT")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Attempt: number, agent, node, branch, or FAN-OUT/ATTEMPT; or a fan-out [default: the only one of this repository]
    #[arg(value_name = "ATTEMPT")]
    pub attempt: Option<String>,
}

#[derive(Debug, Args)]
pub struct PickArgs {
    /// Attempt: number, agent, node, branch, or FAN-OUT/ATTEMPT
    #[arg(value_name = "ATTEMPT")]
    pub attempt: String,
    #[command(flatten)]
    pub removal: RemovalOptions,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Fan-out [default: the only one of this repository]
    #[arg(value_name = "FAN-OUT")]
    pub name: Option<String>,
    /// All fan-outs of this repository
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    #[command(flatten)]
    pub removal: RemovalOptions,
}

/// Safety options of a removal.
#[derive(Debug, Clone, Copy, Args)]
pub struct RemovalOptions {
    /// Also remove worktrees whose agents are working
    #[arg(long)]
    pub force: bool,
    /// Discard the work in the removed worktrees, with their branches
    #[arg(long)]
    pub discard: bool,
}
