//! The command line under the name `ah`: recording, in the words of the first recorder (seed agent-record §3).

use clap::{Args, Parser, Subcommand};

use super::branch::BranchArgs;
use super::exec::ShowArgs;
use super::record::RecordArgs;
use super::recording::{BranchPointsArgs, ReplayArgs, ViewArgs};
use super::snapshot::{SnapshotArgs, TakeArgs};
use super::{Cli, Command, help_wrap};

#[derive(Debug, Parser)]
#[command(name = "ah", version, about = "Records sessions of terminal agents, and replays them")]
#[command(propagate_version = true, max_term_width = 110)]
#[command(after_long_help = "\
EXAMPLES
  ah agent record --out-file session.ahr -- claude
  ah agent fs snapshot --label before-the-change
  ah agent replay session.ahr --fast
  ah show-sandbox-execution 'make test' --id build-1 --session session.ahr

This is 'nerve' under another name; 'nerve --help' shows everything else it does.")]
struct Ah {
    #[command(subcommand)]
    command: AhCommand,
}

#[derive(Debug, Subcommand)]
enum AhCommand {
    /// Record agents and look at what was recorded
    Agent(AgentArgs),
    /// Show what an agent runs, or ran, and type into it
    ShowSandboxExecution(ShowArgs),
}

#[derive(Debug, Args)]
struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Run a program in this terminal and record it
    Record(Box<RecordArgs>),
    /// Play a recording
    Replay(ReplayArgs),
    /// Look through a recording: scroll, search, go to any time
    View(ViewArgs),
    /// Go on from a snapshot of a recorded session, in a new node with its files and its conversation
    #[command(override_usage = "ah agent branch [OPTIONS] [RECORDING] <INSTRUCTION>")]
    Branch(Box<BranchArgs>),
    /// Print the final lines of a recording with its snapshots between them
    BranchPoints(BranchPointsArgs),
    /// Files
    Fs(FsArgs),
}

#[derive(Debug, Args)]
struct FsArgs {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Debug, Subcommand)]
enum FsCommand {
    /// Mark this moment in the recording and keep the files as they are
    Snapshot(Box<TakeArgs>),
}

/// Whether the program was called by this name.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    name.as_deref().and_then(std::path::Path::file_name).is_some_and(|name| name == "ah")
}

/// What was asked for, in our own words. Exits with a message where it makes no sense.
pub(crate) fn parse() -> Cli {
    let agent = match help_wrap::asked::<Ah>().command {
        AhCommand::Agent(agent) => agent,
        AhCommand::ShowSandboxExecution(args) => return Cli { command: Command::ShowSandboxExecution(args) },
    };
    let command = match agent.command {
        AgentCommand::Record(args) => Command::Record(args),
        AgentCommand::Replay(args) => Command::Replay(args),
        AgentCommand::View(args) => Command::View(args),
        AgentCommand::Branch(args) => Command::Branch(args),
        AgentCommand::BranchPoints(args) => Command::BranchPoints(args),
        AgentCommand::Fs(FsArgs { command: FsCommand::Snapshot(take) }) => {
            Command::Snapshot(Box::new(SnapshotArgs { take: *take, command: None }))
        }
    };
    Cli { command }
}
