//! The commands of the REPL, declared. What has the name of a command of the program takes the same arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::cli::graph::Field;
use crate::cli::node::{ForkArgs, NodeCommand, State};

/// One line.
#[derive(Debug, Parser)]
#[command(name = "repl", no_binary_name = true, disable_help_subcommand = true, max_term_width = 110)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create, list, stop, start and fork nodes, and whatever else 'nerve server node' does
    #[command(subcommand)]
    Node(NodeCommand),
    /// Make a node that goes on from where another one is
    Fork(ForkArgs),
    /// Send a prompt, wait for the answer and print it
    Send(SendArgs),
    /// Print the text of a terminal
    Read(ReadArgs),
    /// Type a command and do not wait; without arguments: run the current graph
    Run(RunArgs),
    /// Write to a terminal; escapes such as \r, \x03 and \e are understood
    Write(WriteArgs),
    /// Interrupt what a node does
    Interrupt(NodeArgs),
    /// Wait until a node is in a state
    Wait(WaitArgs),
    /// Show the audit log of a node
    History(HistoryArgs),
    /// Say why a node is in its state
    Why(NodeArgs),
    /// Answer the dialog that blocks a node
    Answer(AnswerArgs),
    /// Make, load, save and run graphs
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Add and remove steps of the current graph
    #[command(subcommand)]
    Step(StepCommand),
    /// Let steps of the current graph run one after the other
    Chain(ChainArgs),
    #[command(flatten)]
    Draft(DraftCommand),
    /// Answer a gate that a run waits at
    Gate(GateArgs),
    /// List the runs
    Runs,
    /// Show a run until it ends or waits at a gate
    Follow(RunIdArgs),
    /// Print the results of the last run, or of one of its steps
    Result(ResultArgs),
    /// Show the current session, or go to another one; it is made if it is not there
    Session(SessionArgs),
    /// List the sessions
    Sessions,
    /// Show events, or do not
    Events(EventsArgs),
    /// Say what the commands are, or what one of them does
    Help(HelpArgs),
    /// Leave, and stop what was started here
    #[command(alias = "quit")]
    Exit(ExitArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum GraphCommand {
    /// Begin a new graph
    New(NewArgs),
    /// Take the graph of a file, YAML or JSON, as the current one
    Load(LoadArgs),
    /// Write the current graph into a file, YAML or JSON by its ending; into that it came from if none is given
    Save(SaveArgs),
    /// Run the current graph
    Run(GraphRunArgs),
    /// List the graphs that are registered in the session
    List,
    /// Take a registered graph as the current one
    Get(GraphIdArgs),
    /// Register the current graph in the session
    Create,
    /// Forget a registered graph
    Delete(GraphIdArgs),
    #[command(flatten)]
    Draft(DraftCommand),
}

/// What can be asked of the current graph, with or without the word 'graph'.
#[derive(Debug, Subcommand)]
pub(super) enum DraftCommand {
    /// Check the current graph; all that is wrong with it is told
    Validate,
    /// Show in which order the steps would run, and start nothing
    Dry,
    /// Show the current graph
    Show(ShowArgs),
    /// Cancel a run; all that were begun here if none is given
    Cancel(RunIdArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum StepCommand {
    /// Add a step
    Add(AddArgs),
    /// Remove a step; others no longer wait for it
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    /// The node
    pub(super) node: String,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// The node
    pub(super) node: String,
    /// The prompt, as it stands
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// The node
    pub(super) node: String,
    /// Only the last N lines
    #[arg(value_name = "N")]
    pub(super) lines: Option<u64>,
}

#[derive(Debug, Args)]
#[command(override_usage = "run <NODE> <COMMAND>\n       run [--input <TEXT>] [KEY=VALUE]... [--detach]")]
pub(super) struct RunArgs {
    /// The node
    pub(super) node: String,
    /// What to type, as it stands; Enter follows
    #[arg(value_name = "COMMAND")]
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct WriteArgs {
    /// The node
    pub(super) node: String,
    /// What to write
    #[arg(value_name = "DATA")]
    pub(super) text: String,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// The node
    pub(super) node: String,
    /// The state
    #[arg(value_enum, default_value = "ready")]
    pub(super) state: State,
    /// Seconds to wait
    #[arg(short, long, default_value = "60", value_name = "SECONDS")]
    pub(super) timeout: crate::cli::node::Seconds,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// The node
    pub(super) node: String,
    /// Only the last N entries
    #[arg(value_name = "N")]
    pub(super) last: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// The node
    pub(super) node: String,
    /// The number of the choice, from 1, or a part of its text that no other choice has
    #[arg(required = true, num_args = 1..)]
    pub(super) choice: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Its id: 1-32 of a-z, 0-9 and '-'
    pub(super) id: String,
}

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct GraphIdArgs {
    /// The graph
    pub(super) graph: String,
}

/// A run of the current graph.
#[derive(Debug, Args, Default)]
#[command(override_usage = "run [OPTIONS] [KEY=VALUE]...")]
pub(super) struct GraphRunArgs {
    /// The graph's input: JSON, else a text
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
    /// Fields of the input, as JSON if they are JSON, else as texts
    #[arg(value_name = "KEY=VALUE")]
    pub(super) set: Vec<Field>,
    /// Do not wait for its end: events tell of it, and 'follow' waits
    #[arg(short, long)]
    pub(super) detach: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// How
    #[arg(value_enum, default_value = "text")]
    pub(super) format: ShowFormat,
}

/// How a graph is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShowFormat {
    /// For people
    Text,
    /// A flowchart for Mermaid
    Mermaid,
    /// For Graphviz
    Dot,
    /// As a file has it
    Yaml,
}

#[derive(Debug, Args)]
pub(super) struct RunIdArgs {
    /// The run
    pub(super) run: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Its id
    #[arg(id = "new", value_name = "ID")]
    pub(super) id: String,
    /// The node that does it: one of the graph, else of the session
    #[arg(value_name = "NODE-OR-GRAPH")]
    pub(super) node: String,
    /// What the node is given: a template that knows `input`, `steps.ID` and `upstream`; 'help step add' has an example
    pub(super) input: Vec<String>,
    /// Steps that must be done before, with commas between them
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(super) after: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The step
    pub(super) step: String,
}

#[derive(Debug, Args)]
pub(super) struct ChainArgs {
    /// Steps, in order
    #[arg(id = "step", value_name = "STEP", required = true, num_args = 2..)]
    pub(super) steps: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct GateArgs {
    /// One of the choices, or its number, from 1
    #[arg(required = true, num_args = 1..)]
    pub(super) choice: Vec<String>,
    /// The gate's step; need not be given where only one gate waits
    #[arg(long)]
    pub(super) step: Option<String>,
    /// The run; need not be given where only one waits
    #[arg(long)]
    pub(super) run: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// The step
    pub(super) step: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// The session
    #[arg(id = "session", value_name = "NAME")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// 'on' or 'off'; says which it is if not given
    #[arg(value_enum)]
    pub(super) switch: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// Show them
    On,
    /// Do not
    Off,
}

#[derive(Debug, Args)]
pub(super) struct HelpArgs {
    /// The command
    pub(super) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ExitArgs {
    /// Leave what was started here running on the server
    #[arg(long)]
    pub(super) keep: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        CommandLine::command().debug_assert();
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
        check(&CommandLine::command());
    }
}
