//! `nerve graph`: graphs and their runs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use nerve_commands::graph_file::input::InputArgs;

use super::node::ServerOption;

const LONG_ABOUT: &str = "\
Run graphs: steps over nodes, in the order of their dependencies.

A graph is a YAML or JSON file; docs/graphs.md describes its format. A run is one execution of a graph on a server. Each run has a journal, \
so that it can be resumed after a server crash.";

#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
pub struct GraphArgs {
    #[command(flatten)]
    pub server: ServerOption,
    /// Session with the graph's nodes and the registered graphs [default: the server's default session]
    #[arg(long, global = true, value_name = "NAME")]
    pub session: Option<String>,
    #[command(subcommand)]
    pub command: GraphCommand,
}

#[derive(Debug, Subcommand, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum GraphCommand {
    /// Run a graph and wait for its end
    Run(Box<RunArgs>),
    /// Check graph files and report every error
    Validate(ValidateArgs),
    /// Print a graph as text, Mermaid, Graphviz or JSON
    Show(ShowArgs),
    /// List the registered graphs, or the runs
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show a run: steps, gates and result
    Status(StatusArgs),
    /// Cancel a run, or all runs of a graph
    Cancel(CancelArgs),
    /// Answer a gate of a waiting run
    Answer(AnswerArgs),
    /// Resume an interrupted, failed or cancelled run; completed steps are not repeated
    Resume(ResumeArgs),
    /// Register a graph in a session so that its id can be run
    Create(CreateArgs),
    /// Unregister a graph; its runs continue
    Delete(DeleteArgs),
    /// Print the JSON Schema of graph files, for editors
    #[command(after_long_help = "\
EXAMPLES
  nerve graph schema > graph.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
On a terminal each step has a live status line; elsewhere each event is a line on stderr. The results go to stdout. A gate prompts on the \
terminal or waits for 'graph answer'. Nodes without a cwd in the file run in the current directory.

Ctrl+C cancels the run and waits for its end; a second Ctrl+C exits immediately.

Exits with 0 if the run completed, 1 if it failed, 2 if the file or the input is invalid, 4 if a step timed out, 5 if a dialog blocks a
node, 130 if the run was cancelled.

With --cluster, Ctrl+C ends only this command, a run that fails exits with 1, nodes without a cwd run in the home directory of their
machine, and --trace, --dry-run, --keep-nodes and --session are not possible. See docs/cluster.md.

EXAMPLES
  nerve graph run review.yaml
  nerve graph run review.yaml --set task='Fix the test' --set rounds=3
  nerve graph run review.yaml --json \\
      --input '{\"task\": \"Fix the test\"}' | jq .results
  nerve graph run review.yaml --dry-run
  nerve graph run review.yaml --no-wait
  generate-graph | nerve graph run - --trace trace.json
  nerve graph run review   registered with 'graph create'")]
pub struct RunArgs {
    /// Graph file (YAML or JSON), '-' for standard input, or id of a registered graph
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: String,
    #[command(flatten)]
    pub input: InputArgs,
    /// Run id: 1-32 of a-z, 0-9 and '-' [default: generated]
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// Write a JSON trace of the steps to this file; '-' adds it to the output of --json
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "detach")]
    pub trace: Option<PathBuf>,
    /// Check the graph and show the order and known inputs of its steps without starting any
    #[arg(long, short_alias = 'd', conflicts_with_all = ["detach", "trace"])]
    pub dry_run: bool,
    /// Print the run's id and return at once
    #[arg(long = "no-wait", alias = "detach")]
    pub detach: bool,
    /// Keep the graph's own nodes running after its end
    #[arg(long)]
    pub keep_nodes: bool,
    /// Run the steps on the machines of this machine's cluster
    #[arg(long, conflicts_with_all = ["trace", "dry_run", "keep_nodes"])]
    pub cluster: bool,
}

impl GraphCommand {
    /// Returns the subcommand's name.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Returns true if the command follows a run until its end.
    pub fn follows_run(&self) -> bool {
        match self {
            GraphCommand::Run(args) => !args.detach && !args.dry_run && !args.cluster,
            GraphCommand::Resume(args) => !args.detach,
            GraphCommand::Status(args) => args.watch,
            _ => false,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Needs no server. Exits with 2 if a file is invalid.

EXAMPLES
  nerve graph validate review.yaml
  nerve graph validate graphs/*.yaml --json")]
pub struct ValidateArgs {
    /// Graph files; '-' reads standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Showing a file needs no server.

EXAMPLES
  nerve graph show review.yaml
  nerve graph show review.yaml --format dot | dot -Tsvg > review.svg
  nerve graph show review --format mermaid")]
pub struct ShowArgs {
    /// Graph file, '-' for standard input, or id of a registered graph or run
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub graph: String,
    /// Output format; --json means --format json
    #[arg(long, short_alias = 'f', value_enum, default_value_t = GraphFormat::Text)]
    pub format: GraphFormat,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve graph list
  nerve graph list --runs
  nerve graph list --runs --json |
      jq -r '.runs[] | select(.state == \"interrupted\") | .run_id'")]
pub struct ListArgs {
    /// List runs, newest first, instead of registered graphs
    #[arg(long)]
    pub runs: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
With --watch the exit codes are those of 'graph run', and Ctrl+C stops watching without cancelling the run.

EXAMPLES
  nerve graph status r-0mh2k9a1b-x7q2zz
  nerve graph status r-0mh2k9a1b-x7q2zz --watch")]
pub struct StatusArgs {
    /// Run id
    pub run: String,
    /// Show progress until the run ends; gates prompt on the terminal
    #[arg(long, short_alias = 'w')]
    pub watch: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Running steps are interrupted on their terminals. Completed steps are kept; 'graph resume' continues after them.

EXAMPLES
  nerve graph cancel r-0mh2k9a1b-x7q2zz
  nerve graph cancel review")]
pub struct CancelArgs {
    /// Run, or graph whose runs are all cancelled
    #[arg(value_name = "RUN|GRAPH")]
    pub id: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve graph answer r-0mh2k9a1b-x7q2zz yes
  nerve graph answer r-0mh2k9a1b-x7q2zz 2
  nerve graph answer r-0mh2k9a1b-x7q2zz --step approve yes")]
pub struct AnswerArgs {
    /// Run id
    pub run: String,
    /// Step of the gate; optional if only one gate waits
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Choice, or its number counted from 1
    pub choice: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Results of completed steps are taken from the run's journal. With --file an edited graph replaces the run's own; unchanged steps with the
same input are not run again. The exit codes are those of 'graph run'.

EXAMPLES
  nerve graph resume r-0mh2k9a1b-x7q2zz
  nerve graph resume r-0mh2k9a1b-x7q2zz --file review.yaml")]
pub struct ResumeArgs {
    /// Run id
    pub run: String,
    /// Edited graph file
    #[arg(long, short_alias = 'f', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<String>,
    /// Print the run's id and return at once
    #[arg(long = "no-wait", alias = "detach")]
    pub detach: bool,
    /// Write a JSON trace of the steps to this file; '-' adds it to the output of --json
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "detach")]
    pub trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Registered graphs survive a restart of the server. Nodes without a cwd in the file run in the current directory.

EXAMPLES
  nerve graph create review.yaml
  nerve graph create review.yaml --session work
  nerve graph run review")]
pub struct CreateArgs {
    /// Graph file, or '-' for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve graph delete review")]
pub struct DeleteArgs {
    /// Graph id
    #[arg(value_name = "GRAPH")]
    pub id: String,
}

/// Output format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// Readable text
    Text,
    /// Mermaid flowchart
    Mermaid,
    /// Graphviz
    Dot,
    /// Graph file as JSON
    Json,
}
