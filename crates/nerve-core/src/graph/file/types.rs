//! What a graph file says. These types are the file's schema: their docstrings are its descriptions.

use std::collections::BTreeMap;

use nerve_term::parse::ParserKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::origin::Origin;

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
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NodeDefinition {
    /// Claude Code in a terminal.
    Claude(TerminalDefinition),
    /// Any program in a terminal.
    Pty(TerminalDefinition),
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
    /// What to run: a text that is split into words as a shell would, or a list of words. Without it `claude` for a node of type
    /// claude, else the user's shell.
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
    /// The types this version has.
    pub const TYPES: [&'static str; 5] = ["claude", "pty", "bash", "template", "graph"];

    /// `claude`, `pty`, `bash`, `template` or `graph`.
    pub fn type_name(&self) -> &'static str {
        match self {
            NodeDefinition::Claude(_) => "claude",
            NodeDefinition::Pty(_) => "pty",
            NodeDefinition::Bash(_) => "bash",
            NodeDefinition::Template(_) => "template",
            NodeDefinition::Graph(_) => "graph",
        }
    }

    /// Does it keep state between executions? Then it does one thing at a time.
    pub fn persistent(&self) -> bool {
        matches!(self, NodeDefinition::Claude(_) | NodeDefinition::Pty(_))
    }
}

impl ParserName {
    /// The parser.
    pub fn kind(self) -> ParserKind {
        match self {
            ParserName::Claude => ParserKind::Claude,
            ParserName::Codex => ParserKind::Codex,
            ParserName::Gemini => ParserKind::Gemini,
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
