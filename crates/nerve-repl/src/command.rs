//! Declares the commands of the REPL. A command that exists on nerve's command line takes the same arguments here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use nerve_api::value::NodeState;
use nerve_commands::graph_file::input::Field;
use nerve_commands::node_command::{DurationArg, ForkArgs, NodeArg, NodeCommand, one_of, waitable_states};

/// A parsed command line.
#[derive(Debug, Parser)]
#[command(name = "repl", no_binary_name = true, disable_help_subcommand = true, max_term_width = 110)]
pub(super) struct ReplLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create, list, start, stop and fork nodes; all commands of 'nerve node'
    #[command(subcommand)]
    Node(NodeCommand),
    /// Fork a node, including its conversation
    Fork(ForkArgs),
    /// Send a prompt, wait for the answer and print it
    Send(SendArgs),
    /// Print the text of a terminal
    Read(ReadArgs),
    /// Type a command without waiting; without arguments: run the current graph
    Run(RunArgs),
    /// Write to a terminal; escapes: \r, \x03, \e …
    Write(WriteArgs),
    /// Interrupt a node's turn
    Interrupt(NodeArg),
    /// Wait until a node is in a state
    Wait(WaitArgs),
    /// Show the audit log of a node
    History(HistoryArgs),
    /// Explain a node's state
    Why(NodeArg),
    /// Answer the dialog that blocks a node
    Answer(AnswerArgs),
    /// Create, load, save and run graphs
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Add and remove steps of the current graph
    #[command(subcommand)]
    Step(StepCommand),
    /// Run steps of the current graph one after the other
    Chain(ChainArgs),
    #[command(flatten)]
    Draft(DraftCommand),
    /// Answer the gate of a waiting run
    Gate(GateArgs),
    /// List the runs
    Runs,
    /// Follow a run until it ends or waits at a gate
    Follow(RunIdArgs),
    /// Print results of the last run, or of one of its steps
    Result(ResultArgs),
    /// Show the current session, or switch to another; creates it if it does not exist
    Session(SessionArgs),
    /// List the sessions
    Sessions,
    /// Show or hide events
    Events(EventsArgs),
    /// List the commands, or explain one
    Help(HelpArgs),
    /// Exit, and stop the nodes and runs started here
    #[command(alias = "quit")]
    Exit(ExitArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum GraphCommand {
    /// Start a new graph
    New(NewArgs),
    /// Load a graph file, YAML or JSON
    Load(LoadArgs),
    /// Save the current graph; the file extension selects YAML or JSON
    Save(SaveArgs),
    /// Run the current graph
    Run(GraphRunArgs),
    /// List the session's registered graphs
    List,
    /// Load a registered graph
    Get(GraphIdArgs),
    /// Register the current graph in the session
    Create,
    /// Delete a registered graph
    Delete(GraphIdArgs),
    #[command(flatten)]
    Draft(DraftCommand),
}

/// Commands on the current graph, available with and without the prefix 'graph'.
#[derive(Debug, Subcommand)]
pub(super) enum DraftCommand {
    /// Check the current graph and report all problems
    Validate,
    /// Show the order of the steps without running them
    Dry,
    /// Show the current graph
    Show(ShowArgs),
    /// Cancel a run [default: all runs started here]
    Cancel(RunIdArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum StepCommand {
    /// Add a step
    Add(AddArgs),
    /// Remove a step and the dependencies on it
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// Node
    pub(super) node: String,
    /// Prompt, taken verbatim
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// Node
    pub(super) node: String,
    /// Last N lines only
    #[arg(value_name = "N")]
    pub(super) lines: Option<u64>,
}

#[derive(Debug, Args)]
#[command(override_usage = "run <NODE> <COMMAND>\n       run [--input <TEXT>] [KEY=VALUE]... [--detach]")]
pub(super) struct RunArgs {
    /// Node
    pub(super) node: String,
    /// Text to type, taken verbatim; Enter follows
    #[arg(value_name = "COMMAND")]
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct WriteArgs {
    /// Node
    pub(super) node: String,
    /// Data to write
    #[arg(value_name = "DATA")]
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// Node
    pub(super) node: String,
    /// State
    #[arg(value_parser = one_of::<NodeState>(waitable_states()), default_value = "ready")]
    pub(super) state: NodeState,
    /// Time limit in seconds
    #[arg(short, long, default_value = "60", value_name = "SECONDS")]
    pub(super) timeout: DurationArg,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// Node
    pub(super) node: String,
    /// Last N entries only
    #[arg(value_name = "N")]
    pub(super) last: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Node
    pub(super) node: String,
    /// Number of the choice, from 1, or an unambiguous part of its text
    #[arg(required = true, num_args = 1..)]
    pub(super) choice: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Graph id: 1-32 characters from a-z, 0-9 and '-'
    pub(super) id: String,
}

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Graph file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// Graph file [default: the file it was loaded from]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct GraphIdArgs {
    /// Graph
    pub(super) graph: String,
}

/// Arguments for a run of the current graph.
#[derive(Debug, Args, Default)]
#[command(override_usage = "run [OPTIONS] [KEY=VALUE]...")]
pub(super) struct GraphRunArgs {
    /// Input of the graph: JSON, otherwise text
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
    /// Input fields: JSON, otherwise text
    #[arg(value_name = "KEY=VALUE")]
    pub(super) set: Vec<Field>,
    /// Do not wait for the run's end; 'follow' waits for it
    #[arg(short, long)]
    pub(super) detach: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Format
    #[arg(value_enum, default_value = "text")]
    pub(super) format: ShowFormat,
}

/// Output format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShowFormat {
    /// Readable text
    Text,
    /// Mermaid flowchart
    Mermaid,
    /// Graphviz
    Dot,
    /// Graph file
    Yaml,
}

#[derive(Debug, Args)]
pub(super) struct RunIdArgs {
    /// Run
    pub(super) run: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Step id
    #[arg(id = "new", value_name = "ID")]
    pub(super) id: String,
    /// Node or graph that executes the step: of the graph, otherwise of the session
    #[arg(value_name = "NODE-OR-GRAPH")]
    pub(super) node: String,
    /// Input of the node, a template with `input`, `steps.ID` and `upstream`
    pub(super) input: Vec<String>,
    /// Steps that must complete first, separated by commas
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(super) after: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// Step
    pub(super) step: String,
}

#[derive(Debug, Args)]
pub(super) struct ChainArgs {
    /// Steps in order
    #[arg(id = "step", value_name = "STEP", required = true, num_args = 2..)]
    pub(super) steps: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct GateArgs {
    /// Choice, or its number from 1
    #[arg(required = true, num_args = 1..)]
    pub(super) choice: Vec<String>,
    /// Step of the gate; optional if only one gate waits
    #[arg(long)]
    pub(super) step: Option<String>,
    /// Run; optional if only one waits
    #[arg(long)]
    pub(super) run: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// Step
    pub(super) step: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// Session
    #[arg(id = "session", value_name = "NAME")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// 'on' or 'off' [default: print the setting]
    #[arg(value_enum)]
    pub(super) switch: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// Show events
    On,
    /// Hide events
    Off,
}

#[derive(Debug, Args)]
pub(super) struct HelpArgs {
    /// Command
    pub(super) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ExitArgs {
    /// Keep the nodes and runs started here running on the server
    #[arg(long)]
    pub(super) keep: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn declaration_is_consistent() {
        ReplLine::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_a_help_line() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {}", command.get_name(), argument.get_id());
            }
            for child in command.get_subcommands() {
                assert!(child.get_about().is_some(), "{}", child.get_name());
                check(child);
            }
        }
        check(&ReplLine::command());
    }
}
