//! Decodes the types of a graph file from its tree. A test keeps the field lists in sync with the schema.

use std::collections::BTreeMap;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_api::request::CommandLine;
use nerve_api::value::BackendKind;
use nerve_node::proxy::Provider;
use serde_json::Value;

use super::fields::{
    Decode, Fields, ScalarText, decode_fields, decode_mappings, join_or, keyword, type_mismatch,
};
use super::placement::Placement;
use super::source_map::{Path, Report};
use super::tree::{Kind, Tree, quoted};
use super::types::{
    AcpDefinition, BashDefinition, BudgetDefinition, ChatDefinition, GateDefinition, GraphFile,
    InputDefinition, NestedDefinition, NodeDefinition, OnRestart, PolicyDefinition, StepDefinition,
    TemplateDefinition, TerminalDefinition, UntilDefinition,
};
use crate::compat::spellings;
use crate::policy::{OnDialog, OnError, OnFailure, OnHostLost, OnLimit, OnResume};
use nerve_types::suggestion::nearest;
use nerve_types::{Multiplexer, name};

/// Id of a graph that has none, which has been reported.
const PLACEHOLDER_ID: &str = "graph";
/// Expression in place of one that has been reported.
const PLACEHOLDER_EXPRESSION: &str = "true";

// A graph with problems is decoded as far as possible, so that the rest of it can be checked. Its broken parts become
// placeholders that cause no further problems.

impl Decode for GraphFile {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<GraphFile> {
        if matches!(at, Path::Root) && matches!(tree.kind, Kind::Null) {
            report.error_with_hint(at, "the file is empty", "a graph needs `graph: ID` and `steps:`");
            return None;
        }
        let mut fields = Fields::expect(tree, &at, "a graph", report)?;
        let graph = fields.required(spellings("graph"), report);
        let file = decode_fields! { fields, report, GraphFile::new(""), GraphFile {
            description, inputs, max_parallel, on_failure, on_restart, budget, nodes,
        } };
        let steps = fields.required(spellings("steps"), report);
        fields.finish(report);
        Some(GraphFile {
            graph: graph.unwrap_or_else(|| PLACEHOLDER_ID.to_string()),
            steps: steps.unwrap_or_default(),
            source_map: report.source_map.nested(at),
            ..file
        })
    }
}

impl Decode for InputDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<InputDefinition> {
        if matches!(tree.kind, Kind::Null) {
            return Some(InputDefinition::default());
        }
        let mut fields = Fields::expect(tree, &at, "an input", report)?;
        let description = fields.optional_or("description", String::new(), report);
        // An explicit default of null counts.
        let default = fields.take(&["default"], report).map(|(tree, _)| tree.to_value());
        fields.finish(report);
        Some(InputDefinition { description, default })
    }
}

impl Decode for NodeDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<NodeDefinition> {
        let placeholder = || NodeDefinition::Bash(BashDefinition::default());
        Some(NodeDefinition::decode_type(tree, at, report).unwrap_or_else(placeholder))
    }
}

impl NodeDefinition {
    /// Decodes a node by its type.
    fn decode_type(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<NodeDefinition> {
        let mut fields = Fields::expect(tree, &at, "a node", report)?;
        let Some((kind, kind_at)) = fields.take(&["type"], report) else {
            let hint = format!("one of {}", NodeDefinition::TYPES.join(", "));
            report.error_with_hint(at, "a node needs `type`", hint);
            return None;
        };
        let name = match &kind.kind {
            Kind::Text(name) => name.as_str(),
            _ => return type_mismatch("the type of a node", kind, kind_at, report),
        };
        let definition = match name {
            "claude" => NodeDefinition::Claude(terminal(&mut fields, BackendKind::Claude, report)),
            "pty" => NodeDefinition::Pty(terminal(&mut fields, BackendKind::Pty, report)),
            "claude-tmux" => {
                NodeDefinition::ClaudeTmux(terminal(&mut fields, BackendKind::ClaudeTmux, report))
            }
            "tmux" => NodeDefinition::Tmux(terminal(&mut fields, BackendKind::Tmux, report)),
            "claude-wezterm" => {
                NodeDefinition::ClaudeWezterm(terminal(&mut fields, BackendKind::ClaudeWezterm, report))
            }
            "wezterm" => NodeDefinition::Wezterm(terminal(&mut fields, BackendKind::Wezterm, report)),
            "chat" => {
                let chat = chat(&mut fields, report);
                fields.finish(report);
                return chat.map(NodeDefinition::Chat);
            }
            "acp" => {
                let acp = acp(&mut fields, report);
                fields.finish(report);
                return acp.map(NodeDefinition::Acp);
            }
            "bash" => {
                let bash = decode_fields! { fields, report, BashDefinition::default(), BashDefinition {
                    cwd, env: env(&mut fields, report), timeout,
                } };
                NodeDefinition::Bash(bash)
            }
            "template" => {
                let template = fields.required(&["template"], report);
                fields.finish(report);
                return Some(NodeDefinition::Template(TemplateDefinition { template: template? }));
            }
            "graph" => NodeDefinition::Graph(NestedDefinition {
                file: fields.optional("file", report),
                graph: fields.optional::<GraphFile>("graph", report).map(Box::new),
            }),
            _ => {
                unknown_type(name, kind_at, report);
                return None;
            }
        };
        fields.finish(report);
        Some(definition)
    }
}

fn unknown_type(name: &str, at: Path<'_>, report: &mut Report<'_>) {
    let hint = match nearest(name, NodeDefinition::TYPES) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use {}", join_or(&NodeDefinition::TYPES)),
    };
    report.error_with_hint(at, format!("unknown node type {}", quoted(name)), hint);
}

fn terminal<'t: 'p, 'p>(
    fields: &mut Fields<'t, 'p>,
    backend: BackendKind,
    report: &mut Report<'_>,
) -> TerminalDefinition {
    let mut terminal = decode_fields! { fields, report, TerminalDefinition::default(), TerminalDefinition {
        command, cwd,
        env: env(fields, report),
        profile, parser, cols, rows, history, record, ready_timeout, response_timeout, keep, proxy,
    } };
    // Only foreign panes have these fields.
    if backend.multiplexer().is_some() {
        // WezTerm's pane ids are numbers.
        terminal.pane = fields.optional("pane", report).map(|ScalarText(pane)| pane);
        terminal.socket = fields.optional("socket", report);
    }
    if backend.multiplexer() == Some(Multiplexer::Tmux) {
        terminal.tmux_session = fields.optional("tmux_session", report);
    }
    terminal
}

fn chat<'t: 'p, 'p>(fields: &mut Fields<'t, 'p>, report: &mut Report<'_>) -> Option<ChatDefinition> {
    let model = fields.required(&["model"], report);
    let chat = ChatDefinition {
        model: String::new(),
        provider: fields.optional_or("provider", Provider::default(), report),
        base_url: fields.optional("base_url", report),
        api_key_env: fields.optional("api_key_env", report),
        system: fields.optional("system", report),
        max_tokens: fields.optional("max_tokens", report),
        temperature: fields.optional("temperature", report),
        tools: one_or_more(fields, "tools", report),
        tool_choice: fields.optional("tool_choice", report),
        parallel_tool_calls: fields.optional_or("parallel_tool_calls", true, report),
        max_tool_rounds: fields.optional("max_tool_rounds", report),
        retries: fields.optional("retries", report),
        env: env(fields, report),
        history: fields.optional_or("history", true, report),
        response_timeout: fields.optional("response_timeout", report),
        keep: fields.optional_or("keep", false, report),
    };
    Some(ChatDefinition { model: model?, ..chat })
}

fn acp<'t: 'p, 'p>(fields: &mut Fields<'t, 'p>, report: &mut Report<'_>) -> Option<AcpDefinition> {
    let command = fields.required(&["command"], report);
    let acp = AcpDefinition {
        command: CommandLine::Argv(Vec::new()),
        cwd: fields.optional("cwd", report),
        env: env(fields, report),
        history: fields.optional_or("history", true, report),
        ready_timeout: fields.optional("ready_timeout", report),
        response_timeout: fields.optional("response_timeout", report),
        keep: fields.optional_or("keep", false, report),
    };
    Some(AcpDefinition { command: command?, ..acp })
}

fn env<'t: 'p, 'p>(fields: &mut Fields<'t, 'p>, report: &mut Report<'_>) -> BTreeMap<String, String> {
    let env: BTreeMap<String, ScalarText> = fields.optional_or("env", BTreeMap::new(), report);
    env.into_iter().map(|(name, ScalarText(value))| (name, value)).collect()
}

impl Decode for CommandLine {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<CommandLine> {
        match &tree.kind {
            Kind::Text(text) => Some(CommandLine::Text(text.clone())),
            Kind::List(_) => {
                let words = Vec::<ScalarText>::decode(tree, at, report)?;
                Some(CommandLine::Argv(words.into_iter().map(|ScalarText(word)| word).collect()))
            }
            _ => type_mismatch("a command (a text, or a list of words)", tree, at, report),
        }
    }
}

impl Decode for StepDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<StepDefinition> {
        let Some(mut fields) = Fields::expect(tree, &at, "a step", report) else {
            return Some(StepDefinition::default());
        };
        let id = fields.required(spellings("id"), report);
        let step = decode_fields! { fields, report, StepDefinition::default(), StepDefinition {
            node: fields.take(spellings("node"), report).and_then(|(tree, at)| String::decode(tree, at, report)),
            input: fields.take(spellings("input"), report).map_or(Value::Null, |(tree, _)| tree.to_value()),
            depends_on: one_or_more(&mut fields, "depends_on", report),
            parser, error_policy, budget,
            when: expression(&mut fields, "when", report),
            foreach: expression(&mut fields, "foreach", report),
            parallel, until, gate, on_dialog, on_resume,
            // An explicit value of null counts.
            value: fields.take(&["value"], report).map(|(tree, _)| tree.to_value()),
            on, on_host_lost,
        } };
        fields.finish(report);
        Some(StepDefinition { id: id.unwrap_or_default(), ..step })
    }
}

impl Decode for Placement {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Placement> {
        match &tree.kind {
            Kind::Text(name) if name == Placement::ANY => return Some(Placement::Any),
            Kind::Text(name) => {
                if let Err(error) = name::check("machine", name) {
                    report.error(at, error.to_string());
                }
                return Some(Placement::Machine(name.clone()));
            }
            _ => {}
        }
        let mut fields = Fields::expect(tree, &at, "a placement", report)?;
        let labels = one_or_more(&mut fields, "labels", report);
        fields.finish(report);
        if labels.is_empty() {
            report.error_with_hint(at, "`on` has no labels", "write `on: {labels: [LABEL]}`");
        }
        Some(Placement::Labels(labels.into_iter().collect()))
    }
}

/// Decodes an expression; `when: false` is allowed, too.
fn expression<'t: 'p, 'p>(
    fields: &mut Fields<'t, 'p>,
    name: &'static str,
    report: &mut Report<'_>,
) -> Option<String> {
    let (tree, at) = fields.take(&[name], report)?;
    match &tree.kind {
        Kind::Null => None,
        Kind::Bool(truth) => Some(truth.to_string()),
        Kind::List(_) => {
            let message = "expected an expression, found a list";
            report.error_with_hint(at, message, format!("put it in quotes: {name}: '{}'", quoted_list(tree)));
            Some(PLACEHOLDER_EXPRESSION.to_string())
        }
        _ => String::decode(tree, at, report).or_else(|| Some(PLACEHOLDER_EXPRESSION.to_string())),
    }
}

fn quoted_list(tree: &Tree) -> String {
    let written = tree.to_value().to_string();
    if written.len() > 60 { "[…]".to_string() } else { written }
}

/// Decodes a list of texts; a single one may be written without the list.
fn one_or_more<'t: 'p, 'p>(
    fields: &mut Fields<'t, 'p>,
    name: &'static str,
    report: &mut Report<'_>,
) -> Vec<String> {
    match fields.take(&[name], report) {
        None => Vec::new(),
        Some((tree, at)) => match &tree.kind {
            Kind::Null => Vec::new(),
            Kind::Text(text) => vec![text.clone()],
            _ => Vec::decode(tree, at, report).unwrap_or_default(),
        },
    }
}

decode_mappings! {
    "an error policy" PolicyDefinition {
        on_error, retry_count, retry_delay_ms, retry_backoff, timeout_ms, fallback_value, fallback_node,
    }
}

impl Decode for BudgetDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<BudgetDefinition> {
        let mut fields = Fields::expect(tree, &at, "a budget", report)?;
        let cost = fields.optional_under(&["max_cost_usd", "max_cost_dollars"], report);
        let time = max_time_ms(&mut fields, report);
        let decoded = decode_fields!(
            fields,
            report,
            BudgetDefinition::default(),
            BudgetDefinition {
                max_tokens,
                max_time_ms: time,
                max_steps,
                max_api_calls,
                max_cost_usd: cost,
                at_limit,
            }
        );
        fields.finish(report);
        Some(decoded)
    }
}

/// Decodes a time limit. Earlier versions had it in seconds, under another name.
fn max_time_ms<'t: 'p, 'p>(fields: &mut Fields<'t, 'p>, report: &mut Report<'_>) -> Option<u64> {
    let (tree, at) = fields.take(&["max_time_ms", "max_time_seconds"], report)?;
    match (&tree.kind, at) {
        (Kind::Null, _) => None,
        (_, Path::Key(_, "max_time_seconds")) => {
            let seconds = f64::decode(tree, at, report)?;
            let time = Duration::try_from_secs_f64(seconds).ok();
            if time.is_none() {
                report.error(at, format!("expected a non-negative number, found {seconds}"));
            }
            time.and_then(|time| u64::try_from(time.as_millis()).ok())
        }
        _ => u64::decode(tree, at, report),
    }
}

impl Decode for UntilDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<UntilDefinition> {
        let placeholder = UntilDefinition { condition: PLACEHOLDER_EXPRESSION.to_string(), max_rounds: 1 };
        let Some(mut fields) = Fields::expect(tree, &at, "until", report) else { return Some(placeholder) };
        let condition = fields.required(&["condition"], report);
        let max_rounds = fields.required(&["max_rounds"], report);
        fields.finish(report);
        Some(UntilDefinition {
            condition: condition.unwrap_or(placeholder.condition),
            max_rounds: max_rounds.unwrap_or(placeholder.max_rounds),
        })
    }
}

impl Decode for GateDefinition {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<GateDefinition> {
        let mut fields = Fields::expect(tree, &at, "a gate", report)?;
        let question = fields.required(&["question"], report);
        let choices: Vec<ScalarText> = fields.optional_or("choices", Vec::new(), report);
        let default: Option<ScalarText> = fields.optional("default", report);
        let timeout_seconds = fields.optional("timeout_seconds", report);
        fields.finish(report);
        Some(GateDefinition {
            question: question?,
            choices: choices.into_iter().map(|ScalarText(choice)| choice).collect(),
            default: default.map(|ScalarText(default)| default),
            timeout_seconds,
        })
    }
}

macro_rules! keywords {
    ($($name:ty),*) => {$(
        impl Decode for $name {
            fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<$name> {
                keyword(tree, at, report)
            }
        }
    )*};
}

keywords! { ParserKind, Provider, OnFailure, OnRestart, OnResume, OnDialog, OnError, OnHostLost, OnLimit }
