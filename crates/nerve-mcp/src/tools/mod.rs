//! The tools: names, arguments and implementations.

mod arguments;
mod deprecated_tools;
mod graphs;
mod nodes;
mod snapshots;
mod turns;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_input;
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

/// The tools, in the order in which they are listed.
static TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "nerve_list_nodes",
        title: "List nodes",
        description: "List the nodes of the nerve server: each is one program in a terminal (an AI agent such as Claude Code or Codex, \
            a shell, a REPL), with its state: starting, ready, busy, blocked (a dialog must be answered), suspended (a usage limit), \
            stopped.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::ListNodes>,
        run: |call| Box::pin(nodes::list(call)),
    },
    ToolSpec {
        name: "nerve_create_node",
        title: "Start a node",
        description: "Start a program in a terminal of its own as a node: an AI agent ('claude', 'codex', 'gemini', 'opencode'), a shell \
            ('bash') or any REPL. Waits until it is ready for a prompt. Then send prompts with nerve_execute. A blocked \
            node shows a dialog: answer it with nerve_answer. Stop it with nerve_stop_node when you are done.",
        effect: Effect::Additive,
        schema: schema_for_input::<args::CreateNode>,
        run: |call| Box::pin(nodes::create(call)),
    },
    ToolSpec {
        name: "nerve_execute",
        title: "Send a prompt and wait",
        description: "Send a prompt to an agent (or a command to a shell) and wait for the complete answer. A node runs one turn at a \
            time; other prompts are queued. If the agent requests a permission, the result is an error of type 'blocked' with its choices: answer with nerve_answer, which waits for the rest of the turn.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Execute>,
        run: |call| Box::pin(turns::execute(call)),
    },
    ToolSpec {
        name: "nerve_answer",
        title: "Answer a dialog",
        description: "Choose an answer of the dialog that a blocked node shows (a permission, trust in a folder), or cancel the dialog with \
            'cancel'. By default waits for the end of the interrupted turn and returns its answer.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Answer>,
        run: |call| Box::pin(turns::answer(call)),
    },
    ToolSpec {
        name: "nerve_read",
        title: "Read a terminal",
        description: "Read what a node's terminal shows, without sending anything: the last lines of its text, or with 'screen' only the \
            visible screen. Also returns the state and its evidence.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::Read>,
        run: |call| Box::pin(nodes::read(call)),
    },
    ToolSpec {
        name: "nerve_write",
        title: "Type into a terminal",
        description: "Write raw data to a node's terminal, as if typed, without waiting: answers to a program's own questions, single \
            keys ('\\r' is Enter, '\\u001b' Escape, '\\u0003' Ctrl+C). For prompts use nerve_execute, for dialogs nerve_answer.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Write>,
        run: |call| Box::pin(nodes::write(call)),
    },
    ToolSpec {
        name: "nerve_interrupt",
        title: "Interrupt a node",
        description: "Interrupt the current turn of a node, as its user would (Escape or Ctrl+C). The node keeps running; its turn ends \
            with the partial answer.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Node>,
        run: |call| Box::pin(nodes::interrupt(call)),
    },
    ToolSpec {
        name: "nerve_fork",
        title: "Fork a node",
        description: "Fork an agent's conversation into a second node, from its current state, or after the turn \
            'at'. The first node is not changed.",
        effect: Effect::Additive,
        schema: schema_for_input::<args::Fork>,
        run: |call| Box::pin(nodes::fork(call)),
    },
    ToolSpec {
        name: "nerve_stop_node",
        title: "Stop a node",
        description: "Stop a node and its program. A running turn is lost. Its recording and history stay.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Node>,
        run: |call| Box::pin(nodes::stop(call)),
    },
    ToolSpec {
        name: "nerve_run_graph",
        title: "Run a graph",
        description: "Run a graph: steps over nodes in the order of their dependencies, independent ones at the same time; waits for \
            the end and returns the result of each step. Pass a graph inline as 'graph', in the format of graph files, for example {\"graph\": \"check\", \
            \"nodes\": {\"sh\": {\"type\": \"bash\"}}, \"steps\": [{\"id\": \"build\", \"node\": \"sh\", \"input\": \"make\"}, \
            {\"id\": \"test\", \"node\": \"sh\", \"input\": \"make test\", \"depends_on\": [\"build\"]}]}, or the id of a registered graph as \
            'graph_id'. Inputs are templates: {{ input }}, {{ steps.build }}.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::RunGraph>,
        run: |call| Box::pin(graphs::run(call)),
    },
    ToolSpec {
        name: "nerve_list_snapshots",
        title: "List snapshots",
        description: "List the snapshots of a node's recording, or of any recording: moments with their files, from which \
            nerve_create_branch continues and whose files nerve_restore_snapshot brings back.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::ListSnapshots>,
        run: |call| Box::pin(snapshots::list(call)),
    },
    ToolSpec {
        name: "nerve_take_snapshot",
        title: "Take a snapshot",
        description: "Take a snapshot of a node that runs in a recorded terminal: marks the present in its recording and stores the \
            files of its directory. The files and the agent are not changed.",
        effect: Effect::Additive,
        schema: schema_for_input::<args::TakeSnapshot>,
        run: |call| Box::pin(snapshots::take(call)),
    },
    ToolSpec {
        name: "nerve_restore_snapshot",
        title: "Restore a snapshot",
        description: "Restore the files of a snapshot to a directory that is empty or does not exist. The original files are not changed.",
        effect: Effect::Additive,
        schema: schema_for_input::<args::RestoreSnapshot>,
        run: |call| Box::pin(snapshots::restore(call)),
    },
    ToolSpec {
        name: "nerve_create_branch",
        title: "Branch from a snapshot",
        description: "Continue a recorded agent from one of its snapshots as a second node, with a new instruction: with the files of \
            that moment in a folder of their own and, where the agent supports it, its conversation up to there. Waits for the answer. \
            The first node is not changed.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::CreateBranch>,
        run: |call| Box::pin(snapshots::branch(call)),
    },
    ToolSpec {
        name: "nerve_list_branches",
        title: "List branches",
        description: "List the folders with the files of branches: their source, the node that works in each, and whether files changed.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::ListBranches>,
        run: |call| Box::pin(snapshots::list_branches(call)),
    },
    ToolSpec {
        name: "nerve_list_recordings",
        title: "List recordings",
        description: "List the recordings on the server's machine, newest first: their program, start, duration and number of snapshots. \
            Their ids are accepted by nerve_list_snapshots, nerve_restore_snapshot and nerve_create_branch.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::ListRecordings>,
        run: |call| Box::pin(snapshots::list_recordings(call)),
    },
    ToolSpec {
        name: "nerve_history",
        title: "Read a node's history",
        description: "Read the audit log of a node, which may be stopped: what was sent to it and what it answered, oldest first.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::History>,
        run: |call| Box::pin(nodes::history(call)),
    },
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
