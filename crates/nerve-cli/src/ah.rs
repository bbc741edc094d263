//! The command line of `ah`: the recording commands under the names of the earlier `ah` recorder.

use clap::{Args, Parser, Subcommand};

use super::branch::BranchArgs;
use super::exec::ShowArgs;
use super::record::RecordArgs;
use super::recording::{BranchPointsArgs, InspectArgs, RecordingFileCommand, ReplayArgs, ViewArgs};
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

'ah' is an alias of 'nerve' with fewer commands; see 'nerve --help' for all of them.")]
struct Ah {
    #[command(subcommand)]
    command: AhCommand,
}

#[derive(Debug, Subcommand)]
enum AhCommand {
    /// Record agents and browse recordings
    Agent(AgentArgs),
    /// Show a command that an agent runs or ran, and type into it
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
    /// Browse a recording: scroll, search, seek
    View(ViewArgs),
    /// Continue from a snapshot of a recorded session in a new node, with its files and conversation
    #[command(override_usage = "ah agent branch [OPTIONS] [RECORDING] <INSTRUCTION>")]
    Branch(Box<BranchArgs>),
    /// Print the final lines of a recording, interleaved with its snapshots
    BranchPoints(BranchPointsArgs),
    /// Show the blocks of a recording and report damage
    Inspect(InspectArgs),
    /// Snapshot files
    Fs(FsArgs),
}

#[derive(Debug, Args)]
struct FsArgs {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Debug, Subcommand)]
enum FsCommand {
    /// Mark this moment in the recording and store the files
    Snapshot(Box<TakeArgs>),
}

/// Returns true if the program was started under the name `ah`.
pub fn is_invoked() -> bool {
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    name.as_deref().and_then(std::path::Path::file_name).is_some_and(|name| name == "ah")
}

/// Parses the `ah` command line into the equivalent `nerve` command. Exits with a message if it is invalid.
pub fn parse() -> Cli {
    let agent = match help_wrap::parse::<Ah>().command {
        AhCommand::Agent(agent) => agent,
        AhCommand::ShowSandboxExecution(args) => {
            return Cli { prints_json: false, command: Command::Tools(args) };
        }
    };
    let command = match agent.command {
        AgentCommand::Record(mut args) => {
            // The earlier recorder wrote a file only on request.
            args.no_record = args.out_file.is_none();
            Command::Record(args)
        }
        AgentCommand::Replay(args) => Command::RecordingFile(RecordingFileCommand::Replay(args)),
        AgentCommand::View(args) => Command::RecordingFile(RecordingFileCommand::View(args)),
        AgentCommand::Branch(args) => Command::Branch(args),
        AgentCommand::BranchPoints(args) => Command::RecordingFile(RecordingFileCommand::BranchPoints(args)),
        AgentCommand::Inspect(args) => Command::RecordingFile(RecordingFileCommand::Inspect(args)),
        AgentCommand::Fs(FsArgs { command: FsCommand::Snapshot(take) }) => {
            Command::Snapshot(Box::new(SnapshotArgs { take: *take, command: None }))
        }
    };
    Cli { prints_json: false, command }
}
