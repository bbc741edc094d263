//! What a graph file says. These types are the file's schema: their docstrings are its descriptions.

use std::collections::BTreeMap;

use nerve_term::parse::ParserKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::source_map::Origin;
use crate::chat::{ChatSpec, Provider, ToolChoice};
use crate::command::BackendKind;
use crate::proxy::{ProxyKind, ProxySpec};

/// A graph: steps over nodes, in the order of their dependencies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// The graph's id: 1 to 32 of a-z, 0-9 and '-', with no dash at either end. `graph_id` and `id` are read too.
    pub graph: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it is given, by name. Without this anything goes as its input; with it the input is an object with these keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Option<InputDefinition>>>")]
    pub inputs: Option<BTreeMap<String, InputDefinition>>,
    /// So many steps may run at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_parallel: u32,
    /// What becomes of the other branches when a step fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// What becomes of a run whose server died.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_restart: OnRestart,
    /// What a run may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: BudgetDefinition,
    /// The nodes it brings along, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeDefinition>,
    /// What is done.
    pub steps: Vec<StepDefinition>,
    /// Where all this was read.
    #[serde(skip)]
    pub(super) origin: Origin,
}

/// Something a graph is given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputDefinition {
    /// What it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Taken when it is not given. Without a default it must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
}

/// What becomes of the other branches when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They are stopped.
    #[default]
    Stop,
    /// They go on to their end.
    Finish,
}

/// What becomes of a run whose server died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It waits until somebody resumes it.
    #[default]
    Wait,
    /// The next server goes on with it.
    Resume,
}

/// What becomes of a step that ran when its server died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnResume {
    /// It runs again if its node keeps no state; else somebody is asked.
    #[default]
    Ask,
    /// It runs again.
    Rerun,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum NodeDefinition {
    /// Claude Code in a terminal.
    Claude(TerminalDefinition),
    /// Any program in a terminal.
    Pty(TerminalDefinition),
    /// Claude Code in a pane of tmux.
    ClaudeTmux(TerminalDefinition),
    /// Any program in a pane of tmux.
    Tmux(TerminalDefinition),
    /// Claude Code in a pane of WezTerm.
    ClaudeWezterm(TerminalDefinition),
    /// Any program in a pane of WezTerm.
    Wezterm(TerminalDefinition),
    /// A conversation with a model's API, without a terminal.
    Chat(ChatDefinition),
    /// One `bash -c` for each execution: the step's input is the command.
    Bash(BashDefinition),
    /// A text with the step's input in it.
    Template(TemplateDefinition),
    /// A whole graph.
    Graph(NestedDefinition),
}

/// A program in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalDefinition {
    /// What to run: a text that is split into words as a shell would, or a list of words. Without it `claude` for Claude Code, else
    /// the user's shell. Not with `pane`, where something runs already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandDefinition>,
    /// Working directory; relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables on top of the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// What is known of the program, by name; found from the command without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How its answers are read; as the profile says without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserName>,
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
    /// Seconds until it must be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_timeout: Option<f64>,
    /// Seconds a turn may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub response_timeout: Option<f64>,
    /// Leave it running when the run has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
    /// A proxy of its own between the agent and the API of its model: `anthropic`, `openai`, or settings. Not with `pane`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ProxyOrKind>")]
    pub proxy: Option<ProxySpec>,
    /// Of tmux and WezTerm: a pane that is there already, which is used and never closed: `%3` or `session:window.pane` of tmux, a
    /// number of WezTerm. Without it a new one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub pane: Option<String>,
    /// Of tmux: the session that a new pane goes to; made if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_session: Option<String>,
    /// Of tmux and WezTerm: their own server: a socket's path, or for tmux a name as `tmux -L` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
}

/// A conversation with a model's API.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatDefinition {
    /// Whose API it speaks; most others than Anthropic speak that of OpenAI.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider: ProviderName,
    /// The model's name, as its API knows it.
    pub model: String,
    /// Where the API is, `http` or `https`; the vendor's without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the variable that has the key, in `env` or in the server's environment; the vendor's usual one without it. Empty: no
    /// key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// What the model is told before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tokens of one answer of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// From 0 to 2; the API's own without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Nodes of this file that the model may use: terminals and bash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub tools: Vec<String>,
    /// Whether it uses them: `auto` (the default), `none`, `required`, or the name of the one that it must use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// It may ask for several tools at once.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub parallel_tool_calls: bool,
    /// How often in one turn tools are run and the model asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub max_tool_rounds: Option<u32>,
    /// How often a request that failed is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub retries: Option<u32>,
    /// Variables on top of the server's environment: the key is looked for here first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Keep an audit log.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub history: bool,
    /// Seconds a turn may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub response_timeout: Option<f64>,
    /// Leave it there when the run has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// Whose API a chat node speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderName {
    /// Messages, as Anthropic has it.
    #[default]
    Anthropic,
    /// Chat Completions, as OpenAI and many others have it.
    Openai,
}

/// A command as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandDefinition {
    /// To be split into words.
    Text(String),
    /// Words.
    Words(#[schemars(with = "Vec<Scalar>")] Vec<String>),
}

/// A text, which may be written as a number or a truth. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "says to the schema what may be written")]
enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// A list of texts; one may be written without the list. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "says to the schema what may be written")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A proxy, or the kind of one with all defaults. For the schema only.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "says to the schema what may be written")]
enum ProxyOrKind {
    Kind(ProxyKind),
    Settings(ProxySpec),
}

/// One `bash -c` for each execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashDefinition {
    /// Working directory; relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables on top of the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: BTreeMap<String, String>,
    /// Seconds a command may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout: Option<f64>,
}

/// A text with the step's input in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateDefinition {
    /// A minijinja template over `input`, the step's.
    pub template: String,
}

/// A graph as a node: in a file of its own, or here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NestedDefinition {
    /// The graph's file; relative to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The graph itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<GraphFile>>,
}

/// Parsers of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParserName {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// No structure: the whole answer is one text.
    None,
}

/// A step: a node, what it is given, and what it waits for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// The step's id, at most 200 bytes, without `/`, `[`, `]` and `#`. `step_id` is read too.
    pub id: String,
    /// Who does it: a node of this file, else of the session that runs it. `node_id` is read too. A gate has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What the node is given: any value; texts in it are templates over `input`, `steps.ID`, `upstream`, and `item`, `index`,
    /// `round`, `result` where there are such. `text` is read too.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Steps that must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub depends_on: Vec<String>,
    /// How the answer is read; as the node says without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserName>,
    /// What happens when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_policy: Option<PolicyDefinition>,
    /// What it may use; counts toward the graph's budget too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: BudgetDefinition,
    /// An expression: the step runs only when it holds. A step that is left out has the result null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub when: Option<String>,
    /// An expression that gives a list: the step runs once for each item, known as `item`, at `index`. Its result is the list of
    /// results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreach: Option<String>,
    /// So many items at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub parallel: Option<u32>,
    /// Runs again until a condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilDefinition>,
    /// Asks a person instead of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateDefinition>,
    /// What becomes of it if it runs when its server dies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_resume: OnResume,
}

/// What happens when a step fails. A timeout is a failure like another.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// When all attempts have failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnErrorName,
    /// Attempts after the first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(max = 10_000))]
    pub retry_count: u32,
    /// Milliseconds before the first of them.
    #[serde(default = "second", skip_serializing_if = "is_second")]
    pub retry_delay_ms: u64,
    /// Times the delay for each further one.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    #[schemars(range(min = 1))]
    pub retry_backoff: f64,
    /// Milliseconds each attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// The result of a step that is skipped.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub fallback_value: Value,
    /// Who stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_node: Option<String>,
}

/// What to do when all attempts of a step have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnErrorName {
    /// The run fails.
    #[default]
    Fail,
    /// As fail; says that `retry_count` is meant.
    Retry,
    /// The step is done, with `fallback_value`.
    Skip,
    /// `fallback_node` does it.
    Fallback,
}

/// Limits; none is one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetDefinition {
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_time_seconds: Option<f64>,
    /// Steps, those of nested graphs included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Calls of a model's API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_api_calls: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_cost_dollars: Option<f64>,
}

/// A loop: the step runs again until a condition holds. When it does not within the bound, the step has failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UntilDefinition {
    /// An expression over `result` and `round`, too.
    pub condition: String,
    /// Rounds at most.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_rounds: u32,
}

/// A question to a person. The step's result is `{choice, by}`, `by` being `person` or `default`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateDefinition {
    /// A template.
    pub question: String,
    /// What may be answered; anything without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Scalar>")]
    pub choices: Vec<String>,
    /// The answer when the time is up. Without it the step has failed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Scalar>")]
    pub default: Option<String>,
    /// Seconds to wait for an answer; for ever without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout_seconds: Option<f64>,
}

impl NodeDefinition {
    /// The types there are.
    pub const TYPES: [&'static str; 10] = [
        "claude",
        "pty",
        "claude-tmux",
        "tmux",
        "claude-wezterm",
        "wezterm",
        "bash",
        "chat",
        "template",
        "graph",
    ];

    /// One of [`NodeDefinition::TYPES`].
    pub fn type_name(&self) -> &'static str {
        match self {
            NodeDefinition::Template(_) => "template",
            NodeDefinition::Graph(_) => "graph",
            _ => self.backend().map_or("", BackendKind::as_str),
        }
    }

    /// What the engine makes of it; `None` of what is no node of a session.
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
            NodeDefinition::Template(_) | NodeDefinition::Graph(_) => None,
        }
    }

    /// Its terminal, if it has one.
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
            | NodeDefinition::Template(_)
            | NodeDefinition::Graph(_) => None,
        }
    }

    /// Where it works, if it is a node that works somewhere and can be told: a pane that is there already cannot.
    pub fn cwd_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            NodeDefinition::Claude(node)
            | NodeDefinition::Pty(node)
            | NodeDefinition::ClaudeTmux(node)
            | NodeDefinition::Tmux(node)
            | NodeDefinition::ClaudeWezterm(node)
            | NodeDefinition::Wezterm(node) => Some(&mut node.cwd).filter(|_| node.pane.is_none()),
            NodeDefinition::Bash(node) => Some(&mut node.cwd),
            NodeDefinition::Chat(_) | NodeDefinition::Template(_) | NodeDefinition::Graph(_) => None,
        }
    }

    /// Does it keep state between executions? Then it does one thing at a time.
    pub fn persistent(&self) -> bool {
        self.terminal().is_some() || matches!(self, NodeDefinition::Chat(_))
    }

    /// It is left when its run ends.
    pub fn is_kept(&self) -> bool {
        match self {
            NodeDefinition::Chat(node) => node.keep,
            other => other.terminal().is_some_and(|node| node.keep),
        }
    }
}

impl ChatDefinition {
    /// What the engine makes of it.
    pub fn spec(&self) -> ChatSpec {
        let provider = match self.provider {
            ProviderName::Anthropic => Provider::Anthropic,
            ProviderName::Openai => Provider::Openai,
        };
        let default = ChatSpec::new(provider, self.model.clone());
        ChatSpec {
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
            system: self.system.clone(),
            max_tokens: self.max_tokens.unwrap_or(default.max_tokens),
            temperature: self.temperature,
            tools: self.tools.clone(),
            tool_choice: self.tool_choice.clone().map_or(ToolChoice::Auto, ToolChoice::from),
            parallel_tool_calls: self.parallel_tool_calls,
            max_tool_rounds: self.max_tool_rounds.unwrap_or(default.max_tool_rounds),
            retries: self.retries.unwrap_or(default.retries),
            ..default
        }
    }
}

impl ParserName {
    /// The parser.
    pub fn kind(self) -> ParserKind {
        match self {
            ParserName::Claude => ParserKind::Claude,
            ParserName::Codex => ParserKind::Codex,
            ParserName::Gemini => ParserKind::Gemini,
            ParserName::Opencode => ParserKind::Opencode,
            ParserName::None => ParserKind::None,
        }
    }
}

impl GraphFile {
    /// A graph without steps.
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
            origin: Origin::default(),
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
            on_error: OnErrorName::Fail,
            retry_count: 0,
            retry_delay_ms: second(),
            retry_backoff: two(),
            timeout_ms: None,
            fallback_value: Value::Null,
            fallback_node: None,
        }
    }
}

pub(super) fn one() -> u32 {
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
