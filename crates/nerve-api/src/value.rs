//! Closed sets of values in requests, replies and events.
//!
//! A value of a reply that this version does not know is read as `Unknown`. An unknown value of a request is an error.

use nerve_types::text_value;
pub use nerve_types::{BlockKind, Delivery, HistoryOp, Multiplexer, ParserKind, SectionKind, SignalSource};
use strum::{EnumMessage, EnumString, FromRepr, IntoStaticStr, VariantNames};

/// States of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum NodeState {
    /// Defined but not started.
    Created,
    /// Started, but not ready yet.
    Starting,
    /// Ready for a prompt.
    Ready,
    /// Working.
    Busy,
    /// Waiting for the answer to a dialog.
    Blocked,
    /// Waiting until a usage limit is reset.
    Suspended,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
    /// A state that this version does not know.
    #[default]
    Unknown,
}

text_value!(open NodeState);

/// Causes of the end of a node, as its event reports them. They separate success from failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum StopCause {
    /// A request, or the end of its session, its run or the server.
    Requested,
    /// Its program ended with success.
    Exited,
    /// Its program failed, or its terminal is gone.
    Failed,
    /// A cause that this version does not know.
    #[default]
    Unknown,
}

text_value!(open StopCause);

/// Occasions of notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Occasion {
    /// A node shows a dialog, or a gate of a graph waits for an answer.
    Blocked,
    /// A long turn or graph has ended.
    Done,
    /// A node, an asynchronous execution or a graph has failed.
    Failed,
    /// A node waits until a usage limit is reset.
    Suspended,
}

/// Kinds of nodes that CREATE_NODE creates.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumMessage, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum BackendKind {
    /// A terminal.
    #[default]
    Pty,
    /// A terminal with Claude Code.
    Claude,
    /// A tmux pane.
    Tmux,
    /// A tmux pane with Claude Code.
    ClaudeTmux,
    /// A WezTerm pane.
    Wezterm,
    /// A WezTerm pane with Claude Code.
    ClaudeWezterm,
    /// No terminal: each execute runs 'bash -c'.
    Bash,
    /// No terminal: a conversation with a model's API.
    Chat,
    /// No terminal: an agent that speaks the Agent Client Protocol.
    Acp,
}

text_value!(closed BackendKind: "backend");

impl BackendKind {
    /// Returns the kind with this name.
    pub fn parse(name: &str) -> Option<BackendKind> {
        name.parse().ok()
    }

    /// Returns true if the program must be Claude Code.
    pub fn is_claude(self) -> bool {
        matches!(self, BackendKind::Claude | BackendKind::ClaudeTmux | BackendKind::ClaudeWezterm)
    }

    /// Returns true if the program of the node runs in a terminal.
    pub fn has_terminal(self) -> bool {
        !matches!(self, BackendKind::Bash | BackendKind::Chat | BackendKind::Acp)
    }

    /// Returns the multiplexer in whose pane the program runs or is shown.
    pub fn multiplexer(self) -> Option<Multiplexer> {
        match self {
            BackendKind::Tmux | BackendKind::ClaudeTmux => Some(Multiplexer::Tmux),
            BackendKind::Wezterm | BackendKind::ClaudeWezterm => Some(Multiplexer::Wezterm),
            _ => None,
        }
    }
}

/// Protocols of model APIs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumMessage, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum Provider {
    /// Anthropic's Messages API.
    #[default]
    Anthropic,
    /// OpenAI's Chat Completions API, which most other vendors also support.
    Openai,
}

text_value!(closed Provider: "provider");

impl Provider {
    /// All providers.
    pub const ALL: [Provider; 2] = [Provider::Anthropic, Provider::Openai];
}

/// Kinds of texts that a search finds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, FromRepr, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum DocumentKind {
    /// A prompt.
    Prompt,
    /// The text of an answer.
    Answer,
    /// A tool call with its result.
    Tool,
    /// Text on the screen.
    Screen,
    /// A kind that this version does not know.
    #[default]
    Unknown,
}

text_value!(open DocumentKind);

/// Groupings of usage into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum UsageGrouping {
    /// Nodes, and recordings without a node.
    #[default]
    Node,
    /// Sessions.
    Session,
    /// Days.
    Day,
    /// Models.
    Model,
}

text_value!(closed UsageGrouping: "grouping");

/// Authors of messages of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// The author of the prompts.
    User,
    /// The answering agent or model.
    Assistant,
}

text_value!(closed Role: "role");

/// Policies for putting earlier messages before a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum UseContext {
    /// Messages that the node's program has not seen; none if the program would run them as commands.
    #[default]
    Auto,
    /// All messages.
    Always,
    /// No messages. The turn is stored all the same.
    Never,
}

text_value!(closed UseContext: "context");

/// Storages of a snapshot's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum FileProvider {
    /// A commit of git that is on no branch.
    Git,
    /// A copy.
    Copy,
    /// A copy that shares all blocks with its source.
    Reflink,
    /// A storage that this version does not know.
    #[default]
    Unknown,
}

text_value!(open FileProvider);

/// Kinds of conversations of a branch's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ConversationKind {
    /// A copy of the recorded conversation that ends at the snapshot.
    Cut,
    /// The recorded conversation with its later messages.
    Whole,
    /// A new conversation.
    New,
    /// A kind that this version does not know.
    #[default]
    Unknown,
}

text_value!(open ConversationKind);

/// Proxies of a branch's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum BranchProxy {
    /// The proxy of the request.
    Given,
    /// The recorded node's proxy for Anthropic's Messages API.
    Anthropic,
    /// The recorded node's proxy for OpenAI's Chat Completions API.
    Openai,
    /// A proxy that this version does not know.
    #[default]
    Unknown,
}

text_value!(open BranchProxy);

/// Effects of a reached limit of a budget.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumMessage, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum LimitAction {
    /// The node asks whether to continue.
    #[default]
    Ask,
    /// Prompts fail until the budget is changed.
    Stop,
}

text_value!(closed LimitAction: "effect of a limit");

/// Sources of a response's text and sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ResponseSource {
    /// The agent's own transcript.
    Transcript,
    /// The terminal.
    Screen,
    /// The output of a one-shot command.
    Process,
    /// A model's API.
    Api,
    /// The Agent Client Protocol.
    Acp,
    /// A source that this version does not know.
    #[default]
    Unknown,
}

text_value!(open ResponseSource);

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum RunStatus {
    /// Steps are running.
    Running,
    /// All progress waits for the answer to a gate.
    Waiting,
    /// All steps have completed.
    Completed,
    /// A step failed, or a budget is exhausted.
    Failed,
    /// Cancelled by a request.
    Cancelled,
    /// The run's server ended. The run can be resumed.
    Interrupted,
    /// A status that this version does not know.
    #[default]
    Unknown,
}

text_value!(open RunStatus);

impl RunStatus {
    /// Returns true if the status is final.
    pub fn is_end(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }

    /// Returns true while the run's server drives it.
    pub fn is_active(self) -> bool {
        matches!(self, RunStatus::Running | RunStatus::Waiting)
    }
}

/// States of a step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum StepState {
    /// Waiting for its node, which is busy.
    Queued,
    /// Running.
    Running,
    /// Waiting for the answer to a gate.
    Waiting,
    /// Completed.
    Completed,
    /// Completed before the run was interrupted.
    Reused,
    /// Skipped: its condition was false, or it failed and its error policy is `skip`.
    Skipped,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
    /// A state that this version does not know.
    #[default]
    Unknown,
}

text_value!(open StepState);

/// Sources of the answer to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum AnswerSource {
    /// A person, or another client of the server.
    Person,
    /// The gate's default answer, after its deadline.
    Default,
    /// A source that this version does not know.
    #[default]
    Unknown,
}

text_value!(open AnswerSource);

/// Status of an asynchronous execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ResultStatus {
    /// Waiting for earlier executions.
    Queued,
    /// The turn is running, or waits for the node.
    Running,
    /// The turn ended successfully.
    Done,
    /// The turn failed.
    Failed,
    /// The execution was cancelled, or its turn was interrupted.
    Cancelled,
    /// The server ended before the execution. The outcome of the turn is unknown.
    Lost,
    /// A status that this version does not know.
    #[default]
    Unknown,
}

text_value!(open ResultStatus);

/// Rules by which recordings are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum PruneReason {
    /// The recording is too old.
    Age,
    /// The total size is exceeded.
    Size,
    /// A rule that this version does not know.
    #[default]
    Unknown,
}

text_value!(open PruneReason);

impl ResultStatus {
    /// Returns true if the status is final.
    pub fn is_end(self) -> bool {
        matches!(
            self,
            ResultStatus::Done | ResultStatus::Failed | ResultStatus::Cancelled | ResultStatus::Lost
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn wire_names_are_stable() {
        let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(" ");
        assert_eq!(
            names(&mut BackendKind::names()),
            "pty claude tmux claude-tmux wezterm claude-wezterm bash chat acp"
        );
        assert_eq!(
            names(&mut NodeState::names()),
            "created starting ready busy blocked suspended stopping stopped"
        );
        assert_eq!(names(&mut StopCause::names()), "requested exited failed");
        assert_eq!(names(&mut RunStatus::names()), "running waiting completed failed cancelled interrupted");
        assert_eq!(
            names(&mut StepState::names()),
            "queued running waiting completed reused skipped failed cancelled"
        );
        assert_eq!(names(&mut ResultStatus::names()), "queued running done failed cancelled lost");
        assert_eq!(names(&mut ResponseSource::names()), "transcript screen process api acp");
        assert_eq!(names(&mut Provider::names()), "anthropic openai");
        assert_eq!(names(&mut Role::names()), "user assistant");
        assert_eq!(names(&mut UseContext::names()), "auto always never");
        assert_eq!(names(&mut FileProvider::names()), "git copy reflink");
        assert_eq!(names(&mut ConversationKind::names()), "cut whole new");
        assert_eq!(names(&mut BranchProxy::names()), "given anthropic openai");
        assert_eq!(
            names(&mut HistoryOp::names()),
            "send send_stream write run interrupt answer cancel unsent read close delete"
        );
    }

    #[test]
    fn replies_may_contain_unknown_values_and_requests_may_not() {
        assert_eq!(from_value::<NodeState>(json!("ready")).unwrap(), NodeState::Ready);
        assert_eq!(from_value::<NodeState>(json!("dreaming")).unwrap(), NodeState::Unknown);
        let error = from_value::<BackendKind>(json!("screen")).unwrap_err().to_string();
        assert!(error.starts_with("unknown backend \"screen\": there are pty, claude, tmux"), "{error}");
    }
}
