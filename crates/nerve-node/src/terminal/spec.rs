//! The start parameters of a terminal node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_agent::profile::Profile;
use nerve_api::request::NodeRef;
use nerve_api::value::BackendKind;
use nerve_host::backend::{Memory, Program};
use nerve_record::executions::trace;
use nerve_types::Size;

use crate::audit_log::AuditLog;
use crate::events::Publisher;
use crate::hooks::HookSocket;
use crate::proxy::NodeProxy;
use crate::usage_ledger::UsageLedger;

/// Start parameters of a terminal node.
pub struct TerminalSpec {
    /// Session and id.
    pub node: NodeRef,
    /// The program to run.
    pub program: Program,
    /// Size of the terminal.
    pub size: Size,
    /// The program's profile.
    pub profile: Arc<Profile>,
    /// Parser of turns that set none.
    pub parser: ParserKind,
    /// Timeout of the start.
    pub ready_timeout: Duration,
    /// Timeout of turns that set none.
    pub response_timeout: Duration,
    /// The audit log.
    pub audit_log: AuditLog,
    /// The state left by the previous owner of a running program; its earlier output is replayed first. `None` for a new program.
    pub adopted: Option<Memory>,
    /// Answer the program's terminal queries. False if another terminal in front of it does.
    pub answers_queries: bool,
    /// Publishes the node's events.
    pub events: Publisher,
    /// Kind of the node.
    pub kind: BackendKind,
    /// Log the start as a typed command.
    pub log_start: bool,
    /// Id of the agent's own conversation, if it was given one.
    pub conversation_id: Option<String>,
    /// Version of the agent at its start.
    pub agent_version: Option<String>,
    /// The node's proxy. It is already running and ends with the node.
    pub proxy: Option<NodeProxy>,
    /// The usage of the node, with its limits.
    pub ledger: UsageLedger,
}

impl TerminalSpec {
    /// Adds the settings of the node's hooks to `argv`, and listens. Hooks are optional: without them the state is read from the
    /// screen. `folder`: see [`HookSocket::attach`].
    pub(crate) fn attach_hooks(
        &self,
        relay: Option<&Path>,
        argv: &mut Vec<String>,
        folder: Option<&Path>,
    ) -> Option<HookSocket> {
        let (hooks, relay, node) = (self.profile.hooks.as_ref()?, relay?, &self.node.node);
        let env = |name: &str| self.program.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        let mut traces = env(trace::VARIABLE).is_some_and(|value| value == "1");
        if traces && env(trace::PREFIX).is_some_and(|value| !value.is_empty()) {
            tracing::warn!(%node, "tools are not traced: {} is already set", trace::PREFIX);
            traces = false;
        }
        HookSocket::attach(hooks, relay, argv, folder, traces).unwrap_or_else(|error| {
            tracing::warn!(%node, %error, "no hooks: the agent's state is read from the screen only");
            None
        })
    }
}
