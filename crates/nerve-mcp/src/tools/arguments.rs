//! Arguments of the tools. The doc comments of fields become descriptions in the tools' schemas, which models
//! read.

use std::collections::BTreeMap;

use nerve_api::request::{CommandLine, NodeChoice};
use nerve_api::value::{BackendKind, DocumentKind, HistoryOp, ParserKind, Provider, UsageGrouping};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNodes {
    /// List only the nodes of this session [default: the default session].
    pub(super) session: Option<String>,
    /// Also list the nodes of the user's other machines, of all sessions. Use the node_id of the list in other tools.
    #[serde(default)]
    pub(super) all_machines: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNode {
    /// Name of the new node: 1-32 of a-z, 0-9 and '-'.
    pub(super) node_id: String,
    /// Program to start and its arguments, as one text (split like in a shell, but no shell is run) or as a
    /// list [default: the user's shell].
    pub(super) command: Option<CommandLine>,
    /// Session of the new node [default: the default session].
    pub(super) session: Option<String>,
    /// Where the program runs: 'pty' (a terminal; the default), 'bash' (no terminal: each execute runs one
    /// 'bash -c'), 'tmux' or 'wezterm' (a pane that people can see).
    #[schemars(with = "Option<String>")]
    pub(super) backend: Option<BackendKind>,
    /// Working directory, as an absolute path [default: the server's].
    pub(super) cwd: Option<String>,
    /// Environment variables in addition to the server's.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Agent profile: 'claude', 'codex', 'gemini', 'opencode', 'shell' or a user's profile [default: detected
    /// from the command].
    pub(super) profile: Option<String>,
    /// API of the agent's model: 'anthropic' or 'openai'. Starts a proxy for this node (Claude Code only)
    /// that counts the tokens of each turn.
    #[schemars(with = "Option<String>")]
    pub(super) proxy: Option<Provider>,
    /// Columns of the terminal.
    #[schemars(range(min = 1))]
    pub(super) cols: Option<u16>,
    /// Rows of the terminal.
    #[schemars(range(min = 1))]
    pub(super) rows: Option<u16>,
    /// Wait until the node is ready for a prompt or blocked by a dialog. Otherwise the node may still be
    /// starting.
    #[serde(default = "default_true")]
    pub(super) wait: bool,
    /// Seconds until the node must be ready [default: 60].
    #[schemars(range(min = 0))]
    pub(super) ready_timeout: Option<f64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    /// Node id, as listed by nerve_list_nodes.
    pub(super) node_id: String,
    /// Prompt, or command for a shell.
    pub(super) text: String,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
    /// Timeout of the whole turn in seconds, including the wait for earlier turns [default: the node's limit,
    /// half an hour unless set].
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
    /// On timeout, let the turn continue instead of interrupting it. Read its answer later with nerve_history
    /// or nerve_read.
    #[serde(default)]
    pub(super) detach_on_timeout: bool,
    /// Fail at once if the node is busy with another turn, instead of waiting for it.
    #[serde(default)]
    pub(super) fail_if_busy: bool,
    /// When this call is cancelled, withdraw the prompt or interrupt its turn. Otherwise the turn continues.
    #[serde(default)]
    pub(super) interrupt_on_cancel: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// Id of the blocked node.
    pub(super) node_id: String,
    /// Choice: its number, from 1, or a part of its label. Not together with cancel.
    pub(super) choice: Option<NodeChoice>,
    /// Close the dialog without an answer (Escape).
    #[serde(default)]
    pub(super) cancel: bool,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
    /// Wait for the end of the turn that the dialog interrupted, and return its answer.
    #[serde(default = "default_true")]
    pub(super) wait: bool,
    /// Timeout in seconds [default: the node's limit].
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// Id of the node to read.
    pub(super) node_id: String,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
    /// Number of last lines [default: 100].
    #[schemars(range(min = 1, max = 5000))]
    pub(super) lines: Option<usize>,
    /// Return only the visible screen.
    #[serde(default)]
    pub(super) screen: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// Id of the node to type into.
    pub(super) node_id: String,
    /// Data to write, verbatim: '\r' is Enter.
    pub(super) data: String,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Node id, as listed by nerve_list_nodes.
    pub(super) node_id: String,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    /// Id of the node to fork.
    pub(super) source_id: String,
    /// Name of the new node: 1-32 of a-z, 0-9 and '-'.
    pub(super) target_id: String,
    /// Turn to fork after, counted from 1 (Claude Code only) [default: the last one].
    #[schemars(range(min = 1))]
    pub(super) at: Option<u64>,
    /// Session of both nodes [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunGraph {
    /// Graph as an object with the fields of a graph file: graph, nodes, steps …. Not together with graph_id.
    pub(super) graph: Option<Map<String, Value>>,
    /// Name of a registered graph. Not together with graph.
    pub(super) graph_id: Option<String>,
    /// Input of the graph: any value, available to templates as 'input'.
    #[serde(default)]
    pub(super) input: Value,
    /// Session of nodes that the graph does not define [default: the default session].
    pub(super) session: Option<String>,
    /// Also return the trace: a timeline of the run.
    #[serde(default)]
    pub(super) trace: bool,
    /// Do not wait for the end: return the run's id as soon as it has started.
    #[serde(default)]
    pub(super) detach: bool,
    /// When this call is cancelled, cancel the run. Otherwise the run continues.
    #[serde(default)]
    pub(super) cancel_on_cancel: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// Node id; the node may be stopped.
    pub(super) node_id: String,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
    /// Number of last entries [default: 20].
    #[schemars(range(min = 1, max = 500))]
    pub(super) last: Option<usize>,
    /// Only entries of this kind.
    pub(super) op: Option<HistoryOp>,
    /// Only inputs to the node, not its output.
    #[serde(default)]
    pub(super) inputs_only: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Usage {
    /// Count only these nodes, each as NODE or SESSION/NODE; they may be gone [default: all].
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    /// Count only nodes of this session [default: all sessions].
    pub(super) session: Option<String>,
    /// Count only what is not older than this time, for example 2026-01-31T10:30:00Z.
    pub(super) since: Option<String>,
    /// Have a row for each of these [default: node].
    #[serde(default)]
    pub(super) by: UsageGrouping,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Words in this order, the last of which may continue; or a regular expression between slashes.
    pub(super) pattern: String,
    /// Search only this node; it may be gone.
    pub(super) node_id: Option<String>,
    /// Search only this session [default: all sessions].
    pub(super) session: Option<String>,
    /// Search only what is not older than this time, for example 2026-01-31T10:30:00Z.
    pub(super) since: Option<String>,
    /// Search only texts of these kinds [default: all].
    #[serde(default)]
    pub(super) kinds: Vec<DocumentKind>,
    /// Maximum number of hits [default: 20].
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSnapshots {
    /// Id of the node whose recording is searched. Not together with recording.
    pub(super) node_id: Option<String>,
    /// Recording: its id or a unique prefix, or its absolute path [default: all snapshots with files].
    pub(super) recording: Option<String>,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TakeSnapshot {
    /// Node id, as listed by nerve_list_nodes.
    pub(super) node_id: String,
    /// Label by which the snapshot can be found.
    pub(super) label: Option<String>,
    /// Directory to store, as an absolute path [default: the node's].
    pub(super) dir: Option<String>,
    /// Only mark the recording, without storing files.
    #[serde(default)]
    pub(super) no_files: bool,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreSnapshot {
    /// Number of the snapshot, as listed by nerve_list_snapshots.
    pub(super) snapshot_id: u64,
    /// Target directory, as an absolute path. It must be empty or not exist.
    pub(super) to: String,
    /// Id of the node whose snapshot it is. Not together with recording.
    pub(super) node_id: Option<String>,
    /// Recording of the snapshot: its id or a unique prefix, or its absolute path.
    pub(super) recording: Option<String>,
    /// Session of the node [default: the default session].
    pub(super) session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateBranch {
    /// Id of the recorded node to continue. Not together with recording.
    pub(super) source_id: Option<String>,
    /// Recording to continue: its id or a unique prefix, or its absolute path.
    pub(super) recording: Option<String>,
    /// Instruction for the agent of the new node.
    pub(super) instruction: String,
    /// Where to continue: a snapshot's number or label, 'end' of a finished session, or 'now' to take a snapshot
    /// first [default: end].
    pub(super) at: Option<String>,
    /// Name of the new node: 1-32 of a-z, 0-9 and '-' [default: derived from the first node's].
    pub(super) target_id: Option<String>,
    /// Session of both nodes [default: the default session].
    pub(super) session: Option<String>,
    /// Timeout of the answer in seconds [default: the node's limit].
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListBranches {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRecordings {
    /// Maximum number of recordings [default: 50].
    #[schemars(range(min = 1))]
    pub(super) last: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateChannel {
    /// Name of the new node: 1-32 of a-z, 0-9 and '-'.
    #[serde(alias = "channel_id")]
    pub(super) name: String,
    /// Program to start and its arguments [default: the user's shell].
    pub(super) command: Option<CommandLine>,
    /// Working directory, as an absolute path [default: the server's].
    pub(super) cwd: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    /// Node id, as listed by nerve_list_nodes.
    #[serde(alias = "node_name", alias = "channel_id")]
    pub(super) channel_name: String,
    /// Prompt, or command for a shell.
    #[serde(alias = "input")]
    pub(super) text: String,
    /// How to split the answer: 'claude', 'gemini', 'none' … [default: the node's parser].
    #[schemars(with = "Option<String>")]
    pub(super) parser: Option<ParserKind>,
    /// Timeout of the whole turn in seconds [default: the node's limit].
    #[schemars(range(min = 0))]
    pub(super) timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseChannel {
    /// Node id, as listed by nerve_list_nodes.
    #[serde(alias = "channel_id")]
    pub(super) channel_name: String,
}

fn default_true() -> bool {
    true
}
