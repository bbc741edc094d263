//! The content of a graph file. Doc comments of these types are the descriptions in the JSON Schema.

use std::collections::BTreeMap;

use nerve_agent::parse::ParserKind;
use nerve_api::request::CommandLine;
use nerve_api::value::BackendKind;
use nerve_node::proxy::{Provider, ProxySettings};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strum::{EnumString, VariantNames};

use super::placement::{Placement, PlacementForm};
use super::source_map::SourceMap;
use crate::policy::{OnDialog, OnError, OnFailure, OnHostLost, OnLimit, OnResume};

/// A graph: steps on nodes, in the order of their dependencies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// Id of the graph: 1 to 32 characters of a-z, 0-9 and '-', without a leading or trailing dash. Aliases: `graph_id`, `id`.
    pub graph: String,
    /// Purpose of the graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Inputs by name. With this field the input of a run must be an object with these keys, otherwise any value is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Option<InputDefinition>>>")]
    pub inputs: Option<BTreeMap<String, InputDefinition>>,
    /// Maximum number of concurrent steps.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_parallel: u32,
    /// Policy for the other branches when a step fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// Policy for a run whose server died.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_restart: OnRestart,
    /// Resource limits of a run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: BudgetDefinition,
    /// Nodes defined by the graph, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeDefinition>,
    /// The steps.
    pub steps: Vec<StepDefinition>,
    /// Source positions.
    #[serde(skip)]
    pub(super) source_map: SourceMap,
}

/// An input of a graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputDefinition {
    /// Description of the input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Default value. An input without a default is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
}

/// Policy for a run whose server died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnRestart {
    /// Wait until it is resumed.
    #[default]
    Wait,
    /// Resume it when the next server starts.
    Resume,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum NodeDefinition {
    /// Claude Code in a terminal.
    Claude(TerminalDefinition),
    /// Any program in a terminal.
    Pty(TerminalDefinition),
    /// Claude Code in a tmux pane.
    ClaudeTmux(TerminalDefinition),
    /// Any program in a tmux pane.
    Tmux(TerminalDefinition),
    /// Claude Code in a WezTerm pane.
    ClaudeWezterm(TerminalDefinition),
    /// Any program in a WezTerm pane.
    Wezterm(TerminalDefinition),
    /// A conversation over a model API, without a terminal.
    Chat(ChatDefinition),
    /// An agent that speaks the Agent Client Protocol, without a terminal.
    Acp(AcpDefinition),
    /// One `bash -c` per execution: the step's input is the command.
    Bash(BashDefinition),
    /// A text that contains the step's input.
    Template(TemplateDefinition),
    /// A nested graph.
    Graph(NestedDefinition),
}

/// A program in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalDefinition {
    /// Command: a text, split into words as in a shell, or a list of words [default: `claude` for Claude Code, otherwise the user's
    /// shell].
    /// Not with `pane`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<CommandDefinition>")]
    pub command: Option<CommandLine>,
    /// Working directory, relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, in addition to the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Agent profile [default: detected from the command].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Parser of the answers [default: the profile's parser].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserKind>,
    /// Columns of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cols: Option<u16>,
    /// Rows of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rows: Option<u16>,
    /// Keep an audit log.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub history: bool,
    /// Record the terminal.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub record: bool,
    /// Seconds until the program must be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_timeout: Option<f64>,
    /// Maximum duration of a turn in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub response_timeout: Option<f64>,
    /// Keep it running after the run has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
    /// A proxy between the agent and its model API: `anthropic`, `openai`, or settings. Not with `pane`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ProxyOrKind>")]
    pub proxy: Option<ProxySettings>,
    /// tmux and WezTerm: an existing pane, which is used and never closed: `%3` or `session:window.pane` of tmux, a number of
    /// WezTerm [default: a new pane].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub pane: Option<String>,
    /// tmux: session for a new pane, created if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_session: Option<String>,
    /// tmux and WezTerm: server to use: the path of its socket, or for tmux a name as in `tmux -L`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
}

/// A conversation over a model API.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatDefinition {
    /// Protocol of the API; most vendors support that of OpenAI.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider: Provider,
    /// Name of the model.
    pub model: String,
    /// URL of the API, `http` or `https` [default: the vendor's].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Variable that holds the API key, in `env` or the server's environment [default: the vendor's usual one]. Empty: no key is
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// System prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Maximum number of tokens in an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, from 0 to 2 [default: the API's].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Nodes of this file that the model may use as tools: terminals, acp and bash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub tools: Vec<String>,
    /// Tool choice: `auto` (the default), `none`, `required`, or the name of a tool that must be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// Allows the model to request several tools at once.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub parallel_tool_calls: bool,
    /// Maximum number of tool rounds in a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub max_tool_rounds: Option<u32>,
    /// Maximum number of retries of a failed request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub retries: Option<u32>,
    /// Environment variables, in addition to the server's environment. The API key is looked up here first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Keep an audit log.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub history: bool,
    /// Maximum duration of a turn in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub response_timeout: Option<f64>,
    /// Keep the node after the run has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// An agent that speaks the Agent Client Protocol over its standard streams.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcpDefinition {
    /// Command with the agent's option for the protocol, such as `opencode acp`: a text, split into words as in a shell, or a list of
    /// words.
    #[schemars(with = "CommandDefinition")]
    pub command: CommandLine,
    /// Working directory, relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, in addition to the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Keep an audit log.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub history: bool,
    /// Seconds until the session must be open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_timeout: Option<f64>,
    /// Maximum duration of a turn in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub response_timeout: Option<f64>,
    /// Keep it running after the run has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// A command.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the accepted forms to the schema")]
enum CommandDefinition {
    /// Command line, to be split into words.
    Text(String),
    /// Words.
    Words(Vec<Scalar>),
}

/// A text that may be written as a number or boolean. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the accepted forms to the schema")]
enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// A list of texts; a single one may be written without the list. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the accepted forms to the schema")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A proxy: its kind with default settings, or all settings. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the accepted forms to the schema")]
enum ProxyOrKind {
    Kind(Provider),
    Settings(ProxySettings),
}

/// One `bash -c` per execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashDefinition {
    /// Working directory, relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, in addition to the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Maximum duration of a command in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout: Option<f64>,
}

/// A text that contains the step's input.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateDefinition {
    /// A minijinja template over the step's `input`.
    pub template: String,
}

/// A nested graph, in its own file or inline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NestedDefinition {
    /// File of the graph, relative to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The graph, inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<GraphFile>>,
}

/// A step: a node with its input and dependencies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// Id of the step, at most 200 bytes, without `/`, `[`, `]` and `#`. Alias: `step_id`.
    pub id: String,
    /// Node of this file, or else of the session. Alias: `node_id`. A gate has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Input of the node: any value. Its texts are templates over `input`, `steps.ID`, `upstream`, and where available `item`,
    /// `index`, `round` and `result`. Alias: `text`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Steps that must be done before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub depends_on: Vec<String>,
    /// Parser of the answer [default: the node's parser].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserKind>,
    /// Policy for failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_policy: Option<PolicyDefinition>,
    /// Resource limits of the step. Usage counts toward the graph's budget, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: BudgetDefinition,
    /// An expression: the step runs only if it is true. A skipped step has the result null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub when: Option<String>,
    /// An expression that yields a list: the step runs once for each item, with `item` and `index`. Its result is the list of
    /// results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreach: Option<String>,
    /// Maximum number of concurrent items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub parallel: Option<u32>,
    /// Repeats the step until a condition is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilDefinition>,
    /// A question to a person, instead of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateDefinition>,
    /// Policy for the step if its agent shows a dialog.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_dialog: OnDialog,
    /// Policy for the step if it is running when its server dies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_resume: OnResume,
    /// A fixed result, instead of a node or a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub value: Option<Value>,
    /// Machines of a cluster that can run the step: `any`, a name, or labels [default: any]. Only with `nerve graph run --cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PlacementForm>")]
    pub on: Option<Placement>,
    /// Policy for the step if its machine of a cluster is lost while it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_host_lost: OnHostLost,
}

/// Policy for failures of a step. A timeout counts as a failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// Action when all attempts have failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// Number of attempts after the first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(max = 10_000))]
    pub retry_count: u32,
    /// Delay before the first retry, in milliseconds.
    #[serde(default = "second", skip_serializing_if = "is_second")]
    pub retry_delay_ms: u64,
    /// Factor for each further delay.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    #[schemars(range(min = 1))]
    pub retry_backoff: f64,
    /// Time limit of each attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Result of a skipped step.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub fallback_value: Value,
    /// Node that takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_node: Option<String>,
}

/// Resource limits; an absent field means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetDefinition {
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// Maximum number of steps, including those of nested graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Maximum number of model API calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_api_calls: Option<u64>,
    /// Maximum cost in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_cost_usd: Option<f64>,
    /// What happens at a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<OnLimit>,
}

/// A loop: the step is repeated until a condition is true, and fails after the maximum number of rounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UntilDefinition {
    /// An expression, also over `result` and `round`.
    pub condition: String,
    /// Maximum number of rounds.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_rounds: u32,
}

/// A question to a person. The step's result is `{choice, by}`, where `by` is `person` or `default`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateDefinition {
    /// The question, a template.
    pub question: String,
    /// Allowed answers [default: any text].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Scalar>")]
    pub choices: Vec<String>,
    /// Answer after the timeout. Without it the step fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub default: Option<String>,
    /// Seconds to wait for an answer [default: no limit].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout_seconds: Option<f64>,
}

impl NodeDefinition {
    /// All type names.
    pub(crate) const TYPES: [&'static str; 11] = [
        "claude",
        "pty",
        "claude-tmux",
        "tmux",
        "claude-wezterm",
        "wezterm",
        "bash",
        "chat",
        "acp",
        "template",
        "graph",
    ];

    /// Returns the type name, one of `NodeDefinition::TYPES`.
    pub fn type_name(&self) -> &'static str {
        match self {
            NodeDefinition::Template(_) => "template",
            NodeDefinition::Graph(_) => "graph",
            _ => self.backend().map_or("", BackendKind::as_str),
        }
    }

    /// Returns the kind of node in the engine; `None` for types that do not run in a session.
    pub fn backend(&self) -> Option<BackendKind> {
        match self {
            NodeDefinition::Claude(_) => Some(BackendKind::Claude),
            NodeDefinition::Pty(_) => Some(BackendKind::Pty),
            NodeDefinition::ClaudeTmux(_) => Some(BackendKind::ClaudeTmux),
            NodeDefinition::Tmux(_) => Some(BackendKind::Tmux),
            NodeDefinition::ClaudeWezterm(_) => Some(BackendKind::ClaudeWezterm),
            NodeDefinition::Wezterm(_) => Some(BackendKind::Wezterm),
            NodeDefinition::Bash(_) => Some(BackendKind::Bash),
            NodeDefinition::Chat(_) => Some(BackendKind::Chat),
            NodeDefinition::Acp(_) => Some(BackendKind::Acp),
            NodeDefinition::Template(_) | NodeDefinition::Graph(_) => None,
        }
    }

    /// Returns the terminal settings of a terminal node.
    pub fn terminal(&self) -> Option<&TerminalDefinition> {
        match self {
            NodeDefinition::Claude(node)
            | NodeDefinition::Pty(node)
            | NodeDefinition::ClaudeTmux(node)
            | NodeDefinition::Tmux(node)
            | NodeDefinition::ClaudeWezterm(node)
            | NodeDefinition::Wezterm(node) => Some(node),
            NodeDefinition::Bash(_)
            | NodeDefinition::Chat(_)
            | NodeDefinition::Acp(_)
            | NodeDefinition::Template(_)
            | NodeDefinition::Graph(_) => None,
        }
    }

    /// Returns the working directory for modification, unless the type has none or the node uses an existing pane.
    pub fn cwd_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            NodeDefinition::Claude(node)
            | NodeDefinition::Pty(node)
            | NodeDefinition::ClaudeTmux(node)
            | NodeDefinition::Tmux(node)
            | NodeDefinition::ClaudeWezterm(node)
            | NodeDefinition::Wezterm(node) => Some(&mut node.cwd).filter(|_| node.pane.is_none()),
            NodeDefinition::Acp(node) => Some(&mut node.cwd),
            NodeDefinition::Bash(node) => Some(&mut node.cwd),
            NodeDefinition::Chat(_) | NodeDefinition::Template(_) | NodeDefinition::Graph(_) => None,
        }
    }

    /// Returns true if the node keeps state between executions. It then runs one turn at a time.
    pub fn is_persistent(&self) -> bool {
        self.terminal().is_some() || matches!(self, NodeDefinition::Chat(_) | NodeDefinition::Acp(_))
    }

    /// Returns true if the node is kept after its run has ended.
    pub fn is_kept(&self) -> bool {
        match self {
            NodeDefinition::Chat(node) => node.keep,
            NodeDefinition::Acp(node) => node.keep,
            other => other.terminal().is_some_and(|node| node.keep),
        }
    }
}

impl GraphFile {
    /// Creates a graph without steps.
    pub fn new(id: impl Into<String>) -> GraphFile {
        GraphFile {
            graph: id.into(),
            description: String::new(),
            inputs: None,
            max_parallel: one(),
            on_failure: OnFailure::default(),
            on_restart: OnRestart::default(),
            budget: BudgetDefinition::default(),
            nodes: BTreeMap::new(),
            steps: Vec::new(),
            source_map: SourceMap::default(),
        }
    }
}

impl Default for TerminalDefinition {
    fn default() -> TerminalDefinition {
        TerminalDefinition {
            command: None,
            cwd: None,
            env: BTreeMap::new(),
            profile: None,
            parser: None,
            cols: None,
            rows: None,
            history: true,
            record: true,
            ready_timeout: None,
            response_timeout: None,
            keep: false,
            proxy: None,
            pane: None,
            tmux_session: None,
            socket: None,
        }
    }
}

impl Default for PolicyDefinition {
    fn default() -> PolicyDefinition {
        PolicyDefinition {
            on_error: OnError::Fail,
            retry_count: 0,
            retry_delay_ms: second(),
            retry_backoff: two(),
            timeout_ms: None,
            fallback_value: Value::Null,
            fallback_node: None,
        }
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == one()
}

fn second() -> u64 {
    1000
}

fn is_second(number: &u64) -> bool {
    *number == second()
}

fn two() -> f64 {
    2.0
}

fn is_two(number: &f64) -> bool {
    *number == two()
}

fn yes() -> bool {
    true
}

fn is_yes(truth: &bool) -> bool {
    *truth
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
