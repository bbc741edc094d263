//! The tools: names, arguments and implementations.

mod arguments;
mod deprecated_tools;
mod graphs;
mod nodes;
mod search;
mod snapshots;
mod turns;
mod usage;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};

use self::arguments as args;
use crate::call::Call;
use crate::tool_result::{Failure, Success};

type Schema = fn() -> Result<Arc<JsonObject>, String>;
type ToolFuture = Pin<Box<dyn Future<Output = Result<Success, Failure>> + Send>>;

/// Describes a tool.
pub(crate) struct ToolSpec {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    schema: Schema,
    run: fn(Call) -> ToolFuture,
}

/// The effect of a tool, for clients that ask their user for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Adds something.
    Additive,
    /// May change or end anything, as an agent may run any command.
    Destructive,
}

/// Describes a tool by its effect, its handler with the type of its arguments, its name, title and description.
macro_rules! tool {
    ($effect:ident, $($handler:ident)::+($arguments:ident), $name:literal, $title:literal, $description:literal) => {
        $crate::tools::ToolSpec {
            name: $name,
            title: $title,
            description: $description,
            effect: $crate::tools::Effect::$effect,
            schema: rmcp::handler::server::tool::schema_for_input::<$crate::tools::arguments::$arguments>,
            run: |call| {
                Box::pin(async move {
                    let args: $crate::tools::arguments::$arguments = call.arguments()?;
                    $($handler)::+(call, args).await
                })
            },
        }
    };
}
use tool;

/// The tools, in the order in which they are listed.
static TOOLS: &[ToolSpec] = &[
    tool!(
        ReadOnly,
        nodes::list(ListNodes),
        "nerve_list_nodes",
        "List nodes",
        "List the nodes of the nerve server: each is one program in a terminal (an AI agent such as Claude Code or Codex, \
            a shell, a REPL), with its state: starting, ready, busy, blocked (a dialog must be answered), suspended (a usage limit), \
            stopped."
    ),
    tool!(
        Additive,
        nodes::create(CreateNode),
        "nerve_create_node",
        "Start a node",
        "Start a program in a terminal of its own as a node: an AI agent ('claude', 'codex', 'gemini', 'opencode'), a shell \
            ('bash') or any REPL. Waits until it is ready for a prompt. Then send prompts with nerve_execute. A blocked \
            node shows a dialog: answer it with nerve_answer. Stop it with nerve_stop_node when you are done."
    ),
    tool!(
        Destructive,
        turns::execute(Execute),
        "nerve_execute",
        "Send a prompt and wait",
        "Send a prompt to an agent (or a command to a shell) and wait for the complete answer. A node runs one turn at a \
            time; other prompts are queued. If the agent requests a permission, the result is an error of type 'blocked' with its choices: answer with nerve_answer, which waits for the rest of the turn."
    ),
    tool!(
        Destructive,
        turns::answer(Answer),
        "nerve_answer",
        "Answer a dialog",
        "Choose an answer of the dialog that a blocked node shows (a permission, trust in a folder), or cancel the dialog with \
            'cancel'. By default waits for the end of the interrupted turn and returns its answer."
    ),
    tool!(
        ReadOnly,
        nodes::read(Read),
        "nerve_read",
        "Read a terminal",
        "Read what a node's terminal shows, without sending anything: the last lines of its text, or with 'screen' only the \
            visible screen. Also returns the state and its evidence."
    ),
    tool!(
        Destructive,
        nodes::write(Write),
        "nerve_write",
        "Type into a terminal",
        "Write raw data to a node's terminal, as if typed, without waiting: answers to a program's own questions, single \
            keys ('\\r' is Enter, '\\u001b' Escape, '\\u0003' Ctrl+C). For prompts use nerve_execute, for dialogs nerve_answer."
    ),
    tool!(
        Destructive,
        nodes::interrupt(Node),
        "nerve_interrupt",
        "Interrupt a node",
        "Interrupt the current turn of a node, as its user would (Escape or Ctrl+C). The node keeps running; its turn ends \
            with the partial answer."
    ),
    tool!(
        Additive,
        nodes::fork(Fork),
        "nerve_fork",
        "Fork a node",
        "Fork an agent's conversation into a second node, from its current state, or after the turn \
            'at'. The first node is not changed."
    ),
    tool!(
        Destructive,
        nodes::stop(Node),
        "nerve_stop_node",
        "Stop a node",
        "Stop a node and its program. A running turn is lost. Its recording and history stay."
    ),
    tool!(
        Destructive,
        graphs::run(RunGraph),
        "nerve_run_graph",
        "Run a graph",
        "Run a graph: steps over nodes in the order of their dependencies, independent ones at the same time; waits for \
            the end and returns the result of each step. Pass a graph inline as 'graph', in the format of graph files, for example {\"graph\": \"check\", \
            \"nodes\": {\"sh\": {\"type\": \"bash\"}}, \"steps\": [{\"id\": \"build\", \"node\": \"sh\", \"input\": \"make\"}, \
            {\"id\": \"test\", \"node\": \"sh\", \"input\": \"make test\", \"depends_on\": [\"build\"]}]}, or the id of a registered graph as \
            'graph_id'. Inputs are templates: {{ input }}, {{ steps.build }}."
    ),
    tool!(
        ReadOnly,
        snapshots::list(ListSnapshots),
        "nerve_list_snapshots",
        "List snapshots",
        "List the snapshots of a node's recording, or of any recording: moments with their files, from which \
            nerve_create_branch continues and whose files nerve_restore_snapshot brings back."
    ),
    tool!(
        Additive,
        snapshots::take(TakeSnapshot),
        "nerve_take_snapshot",
        "Take a snapshot",
        "Take a snapshot of a node that runs in a recorded terminal: marks the present in its recording and stores the \
            files of its directory. The files and the agent are not changed."
    ),
    tool!(
        Additive,
        snapshots::restore(RestoreSnapshot),
        "nerve_restore_snapshot",
        "Restore a snapshot",
        "Restore the files of a snapshot to a directory that is empty or does not exist. The original files are not changed."
    ),
    tool!(
        Destructive,
        snapshots::branch(CreateBranch),
        "nerve_create_branch",
        "Branch from a snapshot",
        "Continue a recorded agent from one of its snapshots as a second node, with a new instruction: with the files of \
            that moment in a folder of their own and, where the agent supports it, its conversation up to there. Waits for the answer. \
            The first node is not changed."
    ),
    tool!(
        ReadOnly,
        snapshots::list_branches(ListBranches),
        "nerve_list_branches",
        "List branches",
        "List the folders with the files of branches: their source, the node that works in each, and whether files changed."
    ),
    tool!(
        ReadOnly,
        snapshots::list_recordings(ListRecordings),
        "nerve_list_recordings",
        "List recordings",
        "List the recordings on the server's machine, newest first: their program, start, duration and number of snapshots. \
            Their ids are accepted by nerve_list_snapshots, nerve_restore_snapshot and nerve_create_branch."
    ),
    tool!(
        ReadOnly,
        nodes::history(History),
        "nerve_history",
        "Read a node's history",
        "Read the audit log of a node, which may be stopped: what was sent to it and what it answered, oldest first."
    ),
    tool!(
        ReadOnly,
        search::search(Search),
        "nerve_search",
        "Search conversations and screens",
        "Search the prompts, answers, tool calls and screens of all nodes and recordings on the server's machine, also of \
            those that are gone, newest first. Each hit names its node, turn and recording."
    ),
    tool!(
        ReadOnly,
        usage::usage(Usage),
        "nerve_usage",
        "Sum up tokens and costs",
        "Sum up the tokens and the estimated costs of all nodes and recordings on the server's machine, also of those that are \
            gone, by node, session, day or model."
    ),
];

/// Returns the tools in their order. `legacy`: includes those with older names.
pub(crate) fn all(legacy: bool) -> impl Iterator<Item = &'static ToolSpec> {
    TOOLS.iter().chain(if legacy { deprecated_tools::TOOLS } else { &[] })
}

/// Finds a tool by its name. `legacy`: see [`all`].
pub(crate) fn find(name: &str, legacy: bool) -> Option<&'static ToolSpec> {
    all(legacy).find(|tool| tool.name == name)
}

impl ToolSpec {
    /// Converts to the protocol's type.
    pub(crate) fn tool(&self) -> Tool {
        let ToolSpec { name, title, description, effect, schema, run: _ } = self;
        // Cannot fail: a test generates every schema.
        let schema = schema().unwrap_or_default();
        let hints = ToolAnnotations::with_title(*title).read_only(*effect == Effect::ReadOnly);
        let hints = match effect {
            Effect::ReadOnly => hints.open_world(false),
            Effect::Additive => hints.destructive(false),
            Effect::Destructive => hints.destructive(true),
        };
        Tool::new(*name, *description, schema).with_title(*title).with_annotations(hints)
    }

    /// Runs the tool. Failures become results that the model reads.
    pub(crate) async fn call(&self, call: Call) -> CallToolResult {
        match (self.run)(call).await {
            Ok(success) => success.result(),
            Err(failure) => failure.result(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn schemas_are_objects_with_described_arguments() {
        for entry in all(true) {
            let schema = (entry.schema)().unwrap();
            assert_eq!(schema["type"], "object", "{}", entry.name);
            assert_eq!(schema["additionalProperties"], false, "{}", entry.name);
            // A tool without arguments has no properties.
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let words = property.get("description").and_then(Value::as_str).unwrap_or_default();
                assert!(words.len() > 10, "{}: {name} is not described", entry.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_old_ones_deprecated() {
        let mut names = std::collections::BTreeSet::new();
        for entry in all(true) {
            assert!(names.insert(entry.name), "{} twice", entry.name);
            let is_legacy = find(entry.name, false).is_none();
            assert_eq!(is_legacy, entry.description.starts_with("Deprecated: use "), "{}", entry.name);
        }
    }
}
