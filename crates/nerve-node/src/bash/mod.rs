//! One-shot commands: each execute runs its own `bash -c`, without a terminal and without state in between.
//!
//! Exit code 0 means success. A timeout or an interrupt kills the whole process group.

mod chunks;
mod command;
mod response;
mod tail;
mod turn;

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::profile::ContextKind;
use nerve_api::reply::{NodeExplanation, NodeInfo, NodeMetadata, NodeProgress};
use nerve_api::request::NodeRef;
use nerve_api::value::{NodeState, SignalSource, StopCause};
use nerve_host::clock::Clock;
use nerve_host::environment::Environment;
use parking_lot::Mutex;

use self::turn::TurnLock;
use crate::audit_log::AuditLog;
use crate::context::TurnContext;
use crate::dialog_answer::DialogAnswer;
use crate::events::Publisher;
use crate::prompt::Prompt;
use crate::response::Response;
use crate::turn_state::{StateEvidence, TurnState};
use crate::usage_ledger::UsageLedger;
use crate::{BoxFuture, Node, NodeFuture, ToolKind};

/// Timeout of a command that sets none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to read output after the command's exit: another process may hold the pipes open.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Evidence of the node's states.
const EVIDENCE: StateEvidence = StateEvidence {
    busy: (SignalSource::Input, "input: a command runs"),
    ready: (SignalSource::Unknown, "exit: the command ended"),
};

/// A node that runs one command at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BashNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Arc<TurnState>,
    cwd: Option<PathBuf>,
    environment: Environment,
    clock: Clock,
    audit_log: Mutex<AuditLog>,
    /// Prompts take the write lock. Steps of graphs share the read lock: they keep no state and can run at once.
    turn: tokio::sync::RwLock<()>,
    timeout: Duration,
}

impl Node for BashNode {
    fn id(&self) -> &str {
        &self.inner.state.node.node
    }

    fn kind(&self) -> &'static str {
        "bash"
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            // Chunks of a command are published only for prompts.
            let prompt = Prompt { stream: false, ..Prompt::from_context(context) };
            Ok(self.run_turn(prompt, context, TurnLock::Shared).await?.into_value())
        })
    }

    fn turn(&self, prompt: Prompt, context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(async move { self.run_turn(prompt, &context, TurnLock::Exclusive).await })
    }

    fn wait<'a>(&'a self, states: &'a [NodeState], limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(self.inner.state.wait(states, limit))
    }

    fn context_kind(&self) -> ContextKind {
        ContextKind::Commands
    }

    fn tool_kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Command)
    }

    fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        let mut metadata = NodeMetadata::new(inner.state.node.session.clone());
        metadata.set("turns", inner.state.turns());
        metadata.set_some("cwd", inner.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        metadata.set_some("blocked", inner.state.block_kind());
        let ledger = &inner.state.ledger;
        let budget = ledger.limits().map(|_| ledger.status());
        NodeInfo {
            node_id: self.id().to_string(),
            kind: self.kind().to_string(),
            state: inner.state.current(),
            persistent: false,
            approximate: false,
            progress: NodeProgress { budget, ..NodeProgress::default() },
            metadata,
        }
    }

    fn answer(&self, answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        let Inner { state, clock, audit_log, .. } = &*self.inner;
        Box::pin(ready(state.answer_budget(&answer, clock.now(), audit_log).map(|()| None)))
    }

    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        Box::pin(ready(Ok(self.inner.state.explain(self.info(), String::new()))))
    }

    fn ledger(&self) -> Option<&UsageLedger> {
        Some(&self.inner.state.ledger)
    }

    /// Allows half a second for the killed group to exit, half a second for its output, and a margin.
    fn cancel_grace(&self) -> Duration {
        4 * DRAIN_TIME
    }

    /// Kills a running command with its group. Returns when the node is gone, even if another caller stopped it.
    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.state.begin_stop();
            // The turn lock is free once the command is gone.
            let _turn = inner.turn.write().await;
            if inner.state.current() != NodeState::Stopped {
                inner.audit_log.lock().close(inner.clock.now(), Some(reason), String::new);
                inner.state.end_stop(reason, StopCause::Requested);
            }
        })
    }

    /// Kills the running command, if there is one. Returns when it is gone.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(self.inner.state.interrupt())
    }
}

impl BashNode {
    /// Creates a node that is ready at once.
    pub fn new(
        node: NodeRef,
        cwd: Option<PathBuf>,
        environment: Environment,
        audit_log: AuditLog,
        events: Publisher,
        ledger: UsageLedger,
    ) -> BashNode {
        BashNode {
            inner: Arc::new(Inner {
                state: TurnState::new(node, events, EVIDENCE, ledger),
                cwd,
                environment,
                clock: Clock::start(),
                audit_log: Mutex::new(audit_log),
                turn: tokio::sync::RwLock::new(()),
                timeout: DEFAULT_TIMEOUT,
            }),
        }
    }

    /// Sets the timeout of commands that set none. Call it before the node is cloned.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> BashNode {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.timeout = timeout;
        }
        self
    }
}
