//! What tools take. The docs of the fields are what a model reads.

use std::collections::BTreeMap;

use nerve_api::request::{CommandLine, NodeChoice};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNodes {
    /// Only the nodes of this session; without it the default session's.
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNode {
    /// The new node's name: 1-32 of a-z, 0-9 and '-'.
    pub(super) node_id: String,
    /// The program to start and its arguments, as one text (split like a shell would, no shell is run) or as a list. Without it the
    /// user's shell.
    pub(super) command: Option<Command>,
    /// The session the node is to be in; without it the default session.
    pub(super) session: Option<String>,
    /// Where the program runs: 'pty' (a terminal; the default), 'bash' (no terminal: each execute runs one 'bash -c'), 'tmux' or
    /// 'wezterm' (a pane that people can see).
    pub(super) backend: Option<String>,
    /// The directory to start in, as an absolute path; without it the server's.
    pub(super) cwd: Option<String>,
    /// Environment variables on top of the server's.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// What the program is known as, where that cannot be told from the command: 'claude', 'codex', 'gemini', 'opencode', 'shell' or a
    /// profile of the user's own.
    pub(super) profile: Option<String>,
    /// A proxy of the node's own between its agent (Claude Code) and the API of its model: 'anthropic' or 'openai'. It counts the
    /// tokens of each turn.
    pub(super) proxy: Option<String>,
    /// Columns of the terminal.
    #[schemars(range(min = 1))]
    pub(super) cols: Option<u16>,
    /// Rows of the terminal.
    #[schemars(range(min = 1))]
    pub(super) rows: Option<u16>,
    /// Wait until it is ready for a prompt, or blocked by a dialog. Without it the node may still be starting.
    #[serde(default = "yes")]
    pub(super) wait: bool,
    /// Seconds it may take until it is ready; 60 if absent.
    #[schemars(range(min = 0))]
    pub(super) ready_timeout: Option<f64>,
}

/// One text or a list of arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Command {
    Text(String),
    Words(Vec<String>),
}

impl From<Command> for CommandLine {
    fn from(command: Command) -> CommandLine {
        match command {
            Command::Text(text) => CommandLine::Text(text),
            Command::Words(words) => CommandLine::Argv(words),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    /// The node, as nerve_list_nodes names it.
    pub(super) node_id: String,
    /// The prompt, or for a shell the command.
    pub(super) text: String,
    /// The node's session; without it the default session.
    pub(super) session: Option<String>,
    /// Seconds the whole turn may take, waiting for its place included; without it the node's own limit (half an hour unless set).
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
    /// When the time is over, let the turn go on instead of interrupting it. Read its answer later with nerve_history or nerve_read.
    #[serde(default)]
    pub(super) detach_on_timeout: bool,
    /// Fail at once when the node does another turn, instead of waiting for its end.
    #[serde(default)]
    pub(super) fail_if_busy: bool,
    /// When this call is cancelled, take the prompt back or interrupt its turn. Without it a cancelled call's turn goes on.
    #[serde(default)]
    pub(super) interrupt_on_cancel: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// The node that is blocked.
    pub(super) node_id: String,
    /// Which answer: its number, from 1, or a part of its label. Not with cancel.
    pub(super) choice: Option<Choice>,
    /// Leave the dialog without an answer (Escape).
    #[serde(default)]
    pub(super) cancel: bool,
    /// The node's session; without it the default session.
    pub(super) session: Option<String>,
    /// Wait for the end of the turn that the dialog interrupted, and give its answer.
    #[serde(default = "yes")]
    pub(super) wait: bool,
    /// Seconds to wait at most; without it the node's own limit.
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
}

/// A number or a part of a label.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Choice {
    Number(usize),
    Label(String),
}

impl From<Choice> for NodeChoice {
    fn from(choice: Choice) -> NodeChoice {
        match choice {
            Choice::Number(number) => NodeChoice::Number(number),
            Choice::Label(label) => NodeChoice::Label(label),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The node to read.
    pub(super) node_id: String,
    /// The node's session; without it the default session.
    pub(super) session: Option<String>,
    /// How many of the last lines; 100 if absent.
    #[schemars(range(min = 1, max = 5000))]
    pub(super) lines: Option<usize>,
    /// Only what is visible on the screen now.
    #[serde(default)]
    pub(super) screen: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// The node to type into.
    pub(super) node_id: String,
    /// What to write, exactly: '\r' is Enter.
    pub(super) data: String,
    /// The node's session; without it the default session.
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// The node, as nerve_list_nodes names it.
    pub(super) node_id: String,
    /// The node's session; without it the default session.
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    /// The node to go on from.
    pub(super) source_id: String,
    /// The new node's name: 1-32 of a-z, 0-9 and '-'.
    pub(super) target_id: String,
    /// The turn after which the new node goes on, counted from 1 (Claude Code only); without it the present.
    #[schemars(range(min = 1))]
    pub(super) at: Option<u64>,
    /// The session of both; without it the default session.
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunGraph {
    /// The graph as an object, with the fields of a graph file: graph, nodes, steps …. Not with graph_id.
    pub(super) graph: Option<Map<String, Value>>,
    /// The name of a registered graph. Not with graph.
    pub(super) graph_id: Option<String>,
    /// The graph's input: any value; templates have it as 'input'.
    #[serde(default)]
    pub(super) input: Value,
    /// Where steps find nodes that the graph does not define; without it the default session.
    pub(super) session: Option<String>,
    /// Also give the trace: what was done when.
    #[serde(default)]
    pub(super) trace: bool,
    /// Do not wait for the end: give the run's id as soon as it has begun.
    #[serde(default)]
    pub(super) detach: bool,
    /// When this call is cancelled, cancel the run. Without it a cancelled call's run goes on.
    #[serde(default)]
    pub(super) cancel_on_cancel: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// The node; it need not run any more.
    pub(super) node_id: String,
    /// The session it is or was in; without it the default session.
    pub(super) session: Option<String>,
    /// How many of the last entries; 20 if absent.
    #[schemars(range(min = 1, max = 500))]
    pub(super) last: Option<usize>,
    /// Only entries of this kind: 'send', 'send_stream', 'write', 'run', 'read', 'interrupt', 'close'.
    pub(super) op: Option<String>,
    /// Only what was sent to the node, not what it showed.
    #[serde(default)]
    pub(super) inputs_only: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateChannel {
    /// The new node's name: 1-32 of a-z, 0-9 and '-'.
    pub(super) channel_id: String,
    /// The program to start and its arguments; without it the user's shell.
    pub(super) command: Option<Command>,
    /// The directory to start in, as an absolute path; without it the server's.
    pub(super) cwd: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    /// The node, as nerve_list_nodes names it.
    pub(super) channel_id: String,
    /// The prompt, or for a shell the command.
    #[serde(alias = "text")]
    pub(super) input: String,
    /// Seconds the whole turn may take; without it the node's own limit.
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseChannel {
    /// The node, as nerve_list_nodes names it.
    pub(super) channel_id: String,
}

fn yes() -> bool {
    true
}
