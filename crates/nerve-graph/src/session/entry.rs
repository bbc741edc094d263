//! Entries of nodes: the definition from which a node is started again, and the state of its last process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_api::value::NodeState;
use nerve_node::usage_ledger::{LedgerRecord, LedgerUsage, UsageLedger};
use nerve_types::{ExitStatus, TsNs};
use serde::{Deserialize, Serialize};

/// Maximum number of entries of nodes that do not run, per session. The oldest are dropped.
pub const MAX_STOPPED: usize = 1000;

/// Reason for an end that a client requested.
const STOPPED: &str = "stopped";

/// The definition of a node, with the known state of its last process. It outlives the process and the server.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEntry {
    /// The specification from which the node is started again.
    pub spec: NodeSpec,
    /// The last process.
    pub last: LastProcess,
    /// Names of variables of the specification that have no value: it was not stored, and the server's environment has none.
    pub env_omitted: Vec<String>,
}

/// The last process of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastProcess {
    /// Name of the agent's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Id of the agent's conversation.
    #[serde(rename = "agent_session", alias = "conversation_id", skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<PathBuf>,
    /// The node has had a turn, so its conversation is not empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_turns: bool,
    /// Usage of the node by all its processes.
    #[serde(skip_serializing_if = "is_unused")]
    pub usage: LedgerUsage,
    /// A client has requested to stop the process while it ran.
    #[serde(skip)]
    pub is_stop_requested: bool,
    /// The end; `None` while the process runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<ProcessEnd>,
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Time of the end.
    pub at: TsNs,
    /// Reason, for people.
    pub reason: String,
    /// Exit status, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Cause of the end.
    pub cause: EndCause,
}

/// Causes of the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// A client stopped the node.
    Requested,
    /// The program exited by itself.
    Exited,
    /// The server, the host or the machine went down, or the program was killed.
    Lost,
}

impl NodeEntry {
    /// Creates the entry of a node that is being started.
    pub fn new(spec: NodeSpec) -> NodeEntry {
        NodeEntry { spec, last: LastProcess::default(), env_omitted: Vec::new() }
    }

    /// Sets the environment of the shell that starts the node, from which omitted variables get their values. `None` keeps the
    /// environment of the last start.
    pub fn use_shell(&mut self, shell_env: Option<BTreeMap<String, String>>) {
        let Some(shell_env) = shell_env else { return };
        for name in std::mem::take(&mut self.env_omitted) {
            match shell_env.get(&name) {
                // Its name is stored again, and its value is not.
                Some(value) => drop(self.spec.env.insert(name, value.clone())),
                None => self.env_omitted.push(name),
            }
        }
        self.spec.shell_env = Some(shell_env);
    }

    /// Returns the specification to start an agent again that speaks the Agent Client Protocol: it continues the conversation of the last
    /// process, unless that has no turns or the start is `fresh`.
    pub fn acp_spec(&self, fresh: bool) -> NodeSpec {
        let known = self.last.conversation_id.clone().filter(|_| self.last.has_turns);
        let conversation_id = known.or_else(|| self.spec.conversation_id.clone()).filter(|_| !fresh);
        NodeSpec { conversation_id, ..self.spec.clone() }
    }

    /// Returns true if the last process went down with its server, its host or the machine, or was killed.
    pub fn is_lost(&self) -> bool {
        self.last.end.as_ref().is_some_and(|end| end.cause == EndCause::Lost)
    }

    /// Returns a ledger with the budget and the usage of the node, for one that does not run.
    pub fn ledger(&self) -> UsageLedger {
        let record = LedgerRecord { limits: self.spec.budget, usage: self.last.usage.clone() };
        UsageLedger::unlimited().node(&self.spec.node_id, record)
    }

    /// Updates budget and usage from the node's ledger.
    pub(super) fn observe_usage(&mut self, ledger: &UsageLedger) {
        self.spec.budget = ledger.limits();
        self.last.usage = ledger.usage();
    }

    /// Updates the entry from the description and the ledger of the node.
    pub(super) fn observe(&mut self, info: &NodeInfo, ledger: Option<&UsageLedger>) {
        ledger.into_iter().for_each(|ledger| self.observe_usage(ledger));
        let text = |name: &str| info.metadata.known_text(name).map(str::to_string);
        let last = &mut self.last;
        last.profile = text("profile").or(last.profile.take());
        last.conversation_id = text("conversation_id").or(last.conversation_id.take());
        last.recording = text("recording_path").map(PathBuf::from).or(last.recording.take());
        last.has_turns |= info.metadata.number("turns") > Some(0) || info.metadata.contains_key("has_turns");
        if self.spec.backend.has_terminal() {
            let cells = |name: &str| info.metadata.number(name)?.try_into().ok();
            self.spec.cols = cells("cols").or(self.spec.cols);
            self.spec.rows = cells("rows").or(self.spec.rows);
        }
        if info.state != NodeState::Stopped {
            self.last.end = None;
        } else if self.last.end.is_none() {
            let mut end = ProcessEnd::of(info);
            if self.last.is_stop_requested {
                (end.cause, end.reason) = (EndCause::Requested, STOPPED.to_string());
            }
            self.last.end = Some(end);
        }
    }

    /// Sets the end of the last process. If it has ended before, a request only changes the cause of a lost one, so that the node is
    /// not restored.
    pub(super) fn set_end(&mut self, end: ProcessEnd) {
        match &mut self.last.end {
            Some(known) if end.cause == EndCause::Requested && known.cause != EndCause::Exited => {
                (known.cause, known.reason) = (end.cause, end.reason);
            }
            Some(_) => {}
            none => *none = Some(end),
        }
    }
}

impl EndCause {
    /// Returns the name: `requested`, `exited` or `lost`.
    pub fn as_str(self) -> &'static str {
        match self {
            EndCause::Requested => "requested",
            EndCause::Exited => "exited",
            EndCause::Lost => "lost",
        }
    }
}

impl ProcessEnd {
    /// Creates an end that a client requested.
    pub fn requested(at: TsNs, reason: &str) -> ProcessEnd {
        ProcessEnd { at, reason: reason.to_string(), exit: None, cause: EndCause::Requested }
    }

    /// Creates the end of a process that went down with its server, its host or the machine.
    pub fn lost(at: TsNs, reason: &str) -> ProcessEnd {
        ProcessEnd { cause: EndCause::Lost, ..ProcessEnd::requested(at, reason) }
    }

    /// Creates the end of a stopped node from its description.
    fn of(info: &NodeInfo) -> ProcessEnd {
        let exit = info.metadata.exit();
        let (cause, reason) = match exit {
            Some(ExitStatus::Code(_)) => (EndCause::Exited, "its program exited"),
            Some(ExitStatus::Signal(_)) => (EndCause::Lost, "its program was killed"),
            Some(ExitStatus::Unknown) | None => (EndCause::Lost, "its program or its host is gone"),
        };
        let millis = info.progress.state_changed_at.map_or(0, |since| since.0);
        let at = TsNs(millis.saturating_mul(1_000_000));
        ProcessEnd { at, reason: reason.to_string(), exit, cause }
    }
}

fn is_unused(usage: &LedgerUsage) -> bool {
    *usage == LedgerUsage::default()
}
