//! `nerve server graph`: graphs and their runs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use serde_json::Value;

use super::node::ServerOption;

const LONG_ABOUT: &str = "\
Run graphs: steps over nodes, in the order of their dependencies.

A graph is a YAML or JSON file; docs/graphs.md says what is in it. A run is one execution of a graph on a server. Each run has a journal, so \
that a run whose server died can be resumed.";

#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) server: ServerOption,
    /// The session whose nodes the graph uses, and in which graphs are registered; the server's default session if not given
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) command: GraphCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Run a graph and wait for its end
    Run(Box<RunArgs>),
    /// Check graph files; all that is wrong with them is told
    Validate(ValidateArgs),
    /// Show a graph: as text, for Mermaid, for Graphviz, as JSON
    Show(ShowArgs),
    /// List the registered graphs, or the runs
    List(ListArgs),
    /// Show a run: its steps, its gates, its end
    Status(StatusArgs),
    /// Cancel a run, or all runs of a graph
    Cancel(CancelArgs),
    /// Answer a gate that a run waits at
    Answer(AnswerArgs),
    /// Go on with a run whose server died, or that failed or was cancelled; what is done is not done again
    Resume(ResumeArgs),
    /// Register a graph in a session, to be run by its id
    Create(CreateArgs),
    /// Forget a registered graph; its runs go on
    Delete(DeleteArgs),
    /// Print the JSON Schema of graph files, for editors
    #[command(after_long_help = "\
EXAMPLES
  nerve server graph schema > graph.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
On a terminal each step has a line that is kept up to date; elsewhere each event is a line on stderr. The results are on stdout. A gate asks \
on the terminal, or waits for 'graph answer'. Nodes of the file that have no cwd work in the directory of this command.

Ctrl+C cancels the run and waits for its end; a second one leaves at once.

Exits with 0 when the run completed, 1 when it failed, 2 when the file or the input is wrong, 4 when a step timed out, 5 when a dialog
blocks a node, 130 when the run was cancelled.

EXAMPLES
  nerve server graph run review.yaml
  nerve server graph run review.yaml --set task='Fix the test' --set rounds=3
  nerve server graph run review.yaml --json \\
      --input '{\"task\": \"Fix the test\"}' | jq .results
  nerve server graph run review.yaml --dry-run
  nerve server graph run review.yaml --detach
  generate-graph | nerve server graph run - --trace trace.json
  nerve server graph run review   registered with 'graph create'")]
pub(crate) struct RunArgs {
    /// A graph file, '-' for standard input (YAML or JSON), or the id of a registered graph
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// An id for the run: 1-32 of a-z, 0-9 and '-'; made up if not given
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Write what was done, step by step, into this file as JSON; '-' adds it to what --json prints
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "detach")]
    pub(crate) trace: Option<PathBuf>,
    /// Check all, show the order of the steps and what is known of their inputs; start nothing
    #[arg(short, long, conflicts_with_all = ["detach", "trace"])]
    pub(crate) dry_run: bool,
    /// Do not wait for the end of the run
    #[arg(long)]
    pub(crate) detach: bool,
    /// Leave the graph's own nodes running when it ends
    #[arg(long)]
    pub(crate) keep_nodes: bool,
}

impl GraphCommand {
    /// As it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            GraphCommand::Run(_) => "run",
            GraphCommand::Validate(_) => "validate",
            GraphCommand::Show(_) => "show",
            GraphCommand::List(_) => "list",
            GraphCommand::Status(_) => "status",
            GraphCommand::Cancel(_) => "cancel",
            GraphCommand::Answer(_) => "answer",
            GraphCommand::Resume(_) => "resume",
            GraphCommand::Create(_) => "create",
            GraphCommand::Delete(_) => "delete",
            GraphCommand::Schema => "schema",
        }
    }

    /// It looks at a run until that ends.
    pub(crate) fn follows_a_run(&self) -> bool {
        match self {
            GraphCommand::Run(args) => !args.detach && !args.dry_run,
            GraphCommand::Resume(args) => !args.detach,
            GraphCommand::Status(args) => args.watch,
            _ => false,
        }
    }
}

/// What a graph is given.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// The graph's input: a JSON object or list, else a text; '@PATH' reads a file
    #[arg(short, long, value_name = "TEXT|@PATH", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,
    /// A field of the input, as JSON if it is JSON, else as text; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Field>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Needs no server. Exits with 2 when a file is wrong.

EXAMPLES
  nerve server graph validate review.yaml
  nerve server graph validate graphs/*.yaml --json")]
pub(crate) struct ValidateArgs {
    /// Graph files; '-' is standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A file needs no server.

EXAMPLES
  nerve server graph show review.yaml
  nerve server graph show review.yaml --format dot | dot -Tsvg > review.svg
  nerve server graph show review --format mermaid")]
pub(crate) struct ShowArgs {
    /// A graph file, '-' for standard input, the id of a registered graph, or the id of a run
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) graph: String,
    /// How it is written; --json is --format json
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) format: Form,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server graph list
  nerve server graph list --runs
  nerve server graph list --runs --json |
      jq -r '.runs[] | select(.status == \"interrupted\") | .run_id'")]
pub(crate) struct ListArgs {
    /// The runs, newest first, instead of the registered graphs
    #[arg(long)]
    pub(crate) runs: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
With --watch it exits as 'graph run' does; Ctrl+C then ends the watching and not the run.

EXAMPLES
  nerve server graph status r-0mh2k9a1b-x7q2zz
  nerve server graph status r-0mh2k9a1b-x7q2zz --watch")]
pub(crate) struct StatusArgs {
    /// The run
    pub(crate) run: String,
    /// Show what happens until the run ends; a gate asks on the terminal
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The step that runs is interrupted on its terminal. What is done is kept: 'graph resume' goes on with it.

EXAMPLES
  nerve server graph cancel r-0mh2k9a1b-x7q2zz
  nerve server graph cancel review")]
pub(crate) struct CancelArgs {
    /// The run, or a graph whose runs all are meant
    #[arg(value_name = "RUN|GRAPH")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server graph answer r-0mh2k9a1b-x7q2zz yes
  nerve server graph answer r-0mh2k9a1b-x7q2zz 2
  nerve server graph answer r-0mh2k9a1b-x7q2zz --step approve yes")]
pub(crate) struct AnswerArgs {
    /// The run
    pub(crate) run: String,
    /// The gate's step; need not be given where only one gate waits
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<String>,
    /// The answer: one of the choices, or its number, from 1
    pub(crate) choice: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Results of steps that are done are taken from the run's journal. With --file an edited graph takes the place of the run's own: steps that are
the same and get the same input are not run again. It exits as 'graph run' does.

EXAMPLES
  nerve server graph resume r-0mh2k9a1b-x7q2zz
  nerve server graph resume r-0mh2k9a1b-x7q2zz --file review.yaml")]
pub(crate) struct ResumeArgs {
    /// The run
    pub(crate) run: String,
    /// An edited graph
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<String>,
    /// Do not wait for the end of the run
    #[arg(long)]
    pub(crate) detach: bool,
    /// Write what was done, step by step, into this file as JSON; '-' adds it to what --json prints
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "detach")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The server keeps it, also over a restart. Nodes of the file that have no cwd work in the directory of this command.

EXAMPLES
  nerve server graph create review.yaml
  nerve server graph create review.yaml --session work
  nerve server graph run review")]
pub(crate) struct CreateArgs {
    /// A graph file, or '-' for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server graph delete review")]
pub(crate) struct DeleteArgs {
    /// The graph
    #[arg(value_name = "GRAPH")]
    pub(crate) id: String,
}

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// A flowchart for Mermaid
    Mermaid,
    /// For Graphviz
    Dot,
    /// The graph file as JSON
    Json,
}

/// A field of an input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl FromStr for Field {
    type Err = String;
    fn from_str(text: &str) -> Result<Field, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
                Ok(Field { key: key.to_string(), value })
            }
            _ => Err("write it as KEY=VALUE".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_json_where_it_is_json() {
        let value = |text: &str| text.parse::<Field>().map(|field| field.value);
        assert_eq!(value("a=3"), Ok(json!(3)));
        assert_eq!(value("a=true"), Ok(json!(true)));
        assert_eq!(value("a=null"), Ok(json!(null)));
        assert_eq!(value("a=[1, 2]"), Ok(json!([1, 2])));
        assert_eq!(value("a={\"b\": 1}"), Ok(json!({"b": 1})));
        assert_eq!(value("a=\"3\""), Ok(json!("3")));
        assert_eq!(value("a=two words"), Ok(json!("two words")));
        assert_eq!(value("a=b=c"), Ok(json!("b=c")));
        assert_eq!(value("a="), Ok(json!("")));
        assert!(value("=1").is_err() && value("a").is_err());
    }
}
