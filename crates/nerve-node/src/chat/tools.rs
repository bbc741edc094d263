//! Nodes as tools of a model. A bash node runs commands, a terminal node takes prompts, any other node takes an input.
//!
//! A tool is called `node.tool`. The APIs allow no dots in names, so its API name is `node_tool`; node ids contain no underscore.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use nerve_llm::message::{ToolCall, ToolResult};
use nerve_llm::request::{ToolDefinition, ToolSelection};
use serde_json::{Map, Value, json};

use super::{ChatSettings, ToolChoice};
use crate::context::TurnContext;
use crate::error::EngineError;
use crate::execution::{reported_tokens, run_until_cancelled};
use crate::{NodeHandle, ToolKind};

/// Maximum length of a result in characters. A longer result is cut at its end.
pub(super) const MAX_RESULT: usize = 50_000;
/// Hint of the error for something that cannot be a tool.
pub const TOOL_HINT: &str = "tools are bash nodes, terminal nodes and functions";
/// Maximum number of tools that run at the same time.
const MAX_PARALLEL: usize = 16;

/// A node that the model may call.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    node: NodeHandle,
    kind: ToolKind,
    /// `node.tool`, for people.
    pub(super) name: String,
    /// The description for the model.
    pub(super) definition: ToolDefinition,
}

/// A finished call.
#[derive(Debug, Clone)]
pub(super) struct FinishedCall {
    /// `node.tool`, or the name that the model used if there is no such tool.
    pub(super) name: String,
    pub(super) call: ToolCall,
    pub(super) result: ToolResult,
}

impl ToolKind {
    /// Returns the second part of the tool's name.
    fn verb(self) -> &'static str {
        match self {
            ToolKind::Command => "run",
            ToolKind::Prompt => "execute",
            ToolKind::Input => "call",
        }
    }

    /// Returns the name and the schema of the argument.
    fn argument(self) -> (&'static str, Value) {
        match self {
            ToolKind::Command => {
                ("command", json!({ "type": "string", "description": "The command, as given to bash -c" }))
            }
            ToolKind::Prompt => ("text", json!({ "type": "string", "description": "What to send" })),
            ToolKind::Input => ("input", json!({ "description": "What it is to work on: any JSON value" })),
        }
    }

    fn description(self, id: &str) -> String {
        match self {
            ToolKind::Command => format!(
                "Runs a command with bash on '{id}' and returns its output. Nothing is kept between commands."
            ),
            ToolKind::Prompt => format!(
                "Sends text to the program in the terminal '{id}', waits until it has answered and returns the answer. The program keeps its state."
            ),
            ToolKind::Input => format!("Calls '{id}' with an input and returns what it gives."),
        }
    }
}

impl Tool {
    fn new(node: NodeHandle, id: &str, kind: ToolKind) -> Tool {
        let (argument, schema) = kind.argument();
        let definition = ToolDefinition {
            name: format!("{id}_{}", kind.verb()),
            description: kind.description(id),
            schema: json!({ "type": "object", "properties": { argument: schema }, "required": [argument] }),
        };
        Tool { node, kind, name: format!("{id}.{}", kind.verb()), definition }
    }
}

/// Looks up the nodes that a model may use.
///
/// # Errors
/// NotFound; InvalidRequest: the node cannot be a tool.
pub(super) fn find(settings: &ChatSettings, context: &TurnContext) -> Result<Vec<Tool>, EngineError> {
    let tool = |id: &String| {
        let find = context.find_node(id);
        let node = find.map_err(|error| error.in_context(format_args!("tool '{id}'")))?;
        let kind = node.tool_kind().ok_or_else(|| {
            let message = format!("tool '{id}': a {} node cannot be a tool", node.kind());
            EngineError::invalid_request(message).hint(TOOL_HINT)
        })?;
        Ok(Tool::new(node, id, kind))
    };
    settings.tools.iter().map(tool).collect()
}

/// Returns which tools the model may use in a request. A forced tool is forced only in the first request of a turn.
pub(super) fn select(settings: &ChatSettings, tools: &[Tool], is_first: bool) -> ToolSelection {
    match &settings.tool_choice {
        ToolChoice::None => ToolSelection::None,
        ToolChoice::Required if is_first => ToolSelection::Required,
        ToolChoice::Node(id) if is_first => {
            let has_id = |tool: &&Tool| tool.name.split('.').next() == Some(id);
            tools
                .iter()
                .find(has_id)
                .map_or(ToolSelection::Auto, |tool| ToolSelection::Tool(tool.definition.name.clone()))
        }
        _ => ToolSelection::Auto,
    }
}

/// Runs the model's calls and returns the results in their order. Ends early if the context is cancelled.
pub(super) async fn run(
    tools: &[Tool],
    calls: Vec<ToolCall>,
    context: &TurnContext,
    parallel: bool,
) -> Vec<FinishedCall> {
    let runs = calls.into_iter().map(|call| run_one(tools, call, context));
    stream::iter(runs).buffered(if parallel { MAX_PARALLEL } else { 1 }).collect().await
}

/// Returns the results of calls that are not run because the limit of rounds is reached.
pub(super) fn refuse(tools: &[Tool], calls: Vec<ToolCall>, rounds: u32) -> Vec<FinishedCall> {
    let refused = |call: ToolCall| {
        let name = find_called(tools, &call).map_or(call.name.clone(), |tool| tool.name.clone());
        let content =
            format!("not run: the limit of {rounds} rounds of tools is reached; answer without them");
        let result = ToolResult { id: call.id.clone(), content, is_error: true };
        FinishedCall { name, call, result }
    };
    calls.into_iter().map(refused).collect()
}

fn find_called<'a>(tools: &'a [Tool], call: &ToolCall) -> Option<&'a Tool> {
    // Some models write the name with a dot.
    tools.iter().find(|tool| tool.definition.name == call.name || tool.name == call.name)
}

async fn run_one(tools: &[Tool], call: ToolCall, context: &TurnContext) -> FinishedCall {
    let tool = find_called(tools, &call);
    let name = tool.map_or(call.name.clone(), |tool| tool.name.clone());
    let reply = match tool {
        None => {
            let known: Vec<&str> = tools.iter().map(|tool| tool.definition.name.as_str()).collect();
            Err(format!("no tool '{}'; tools: {}", call.name, known.join(", ")))
        }
        Some(tool) => match tool_input(tool, &call) {
            Ok(input) => execute(tool, input, context).await,
            Err(wrong) => Err(wrong),
        },
    };
    let (content, is_error) = match reply {
        Ok(content) => (content, false),
        Err(content) => (content, true),
    };
    let content = if content.trim().is_empty() { "(no output)".to_string() } else { truncate(content) };
    let result = ToolResult { id: call.id.clone(), content, is_error };
    FinishedCall { name, call, result }
}

fn tool_input(tool: &Tool, call: &ToolCall) -> Result<Value, String> {
    let mut arguments: Map<String, Value> = call.input()?;
    let (name, _) = tool.kind.argument();
    let argument = arguments.remove(name);
    match (tool.kind, argument) {
        (ToolKind::Input, Some(input)) => Ok(input),
        (_, Some(Value::String(text))) => Ok(Value::String(text)),
        (_, Some(_)) => Err(format!("the argument '{name}' must be a string")),
        (_, None) => Err(format!("the argument '{name}' is missing")),
    }
}

async fn execute(tool: &Tool, input: Value, context: &TurnContext) -> Result<String, String> {
    let node = &tool.node;
    // The node uses its own timeout and parser, and its chunks are not part of the model's answer.
    let mut context = context.clone().with_input(input).without_chunks();
    (context.timeout, context.parser) = (None, None);
    // Creating the future can panic, too.
    let execution = async { node.execute(&context).await };
    let value = run_until_cancelled(node.id(), node.cancel_grace(), context.cancellation(), execution).await;
    let value = value.map_err(|error| {
        let screen = error.screen.as_deref().map(|screen| format!("\n{screen}"));
        format!("{error}{}", screen.unwrap_or_default())
    })?;
    if let Some(tokens) = reported_tokens(&value).filter(|_| !node.has_live_token_count()) {
        context.add_tokens(tokens);
    }
    let text = match tool.kind {
        ToolKind::Command => bash_output(&value),
        ToolKind::Prompt => value["text"].as_str().unwrap_or_default().to_string(),
        ToolKind::Input => match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    };
    match value.get("success") {
        Some(Value::Bool(false)) => {
            let error = value["error"].as_str().unwrap_or("the node reported a failure");
            Err(if text.trim().is_empty() { error.to_string() } else { format!("{error}\n{text}") })
        }
        _ => Ok(text),
    }
}

/// Joins stdout and stderr.
fn bash_output(value: &Value) -> String {
    let attribute = |name: &str| value["attributes"][name].as_str().unwrap_or_default();
    match (attribute("stdout"), attribute("stderr")) {
        (stdout, "") => stdout.to_string(),
        ("", stderr) => format!("[stderr]\n{stderr}"),
        (stdout, stderr) => format!("{}\n[stderr]\n{stderr}", stdout.trim_end()),
    }
}

/// Limits a result to [`MAX_RESULT`] characters, including the note about the rest.
fn truncate(content: String) -> String {
    let chars = content.chars().count();
    if chars <= MAX_RESULT {
        return content;
    }
    let note = format!("\n[cut: {chars} characters in all]");
    let shortened: String = content.chars().take(MAX_RESULT - note.len()).collect();
    shortened + &note
}

/// Returns the metadata of a call's section.
pub(super) fn call_metadata(finished: &FinishedCall) -> BTreeMap<String, String> {
    let status = if finished.result.is_error { "error" } else { "ok" };
    BTreeMap::from([
        ("tool".to_string(), finished.name.clone()),
        ("args".to_string(), finished.call.arguments.clone()),
        ("id".to_string(), finished.call.id.clone()),
        ("status".to_string(), status.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Provider;
    use super::*;
    use crate::error::ErrorKind;
    use crate::{Node, NodeFuture};

    /// A node that calls a function.
    #[derive(Debug)]
    struct FunctionTool(&'static str, fn(&TurnContext) -> Value);

    impl Node for FunctionTool {
        fn id(&self) -> &str {
            self.0
        }

        fn kind(&self) -> &'static str {
            "function"
        }

        fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
            Box::pin(async { Ok((self.1)(context)) })
        }
    }

    /// Returns a context with the nodes `upper`, `fails`, `long` and `panics`.
    fn context() -> TurnContext {
        let nodes: [NodeHandle; 4] = [
            Arc::new(FunctionTool("upper", |context| json!(context.input.to_string().to_uppercase()))),
            Arc::new(FunctionTool("fails", |_| json!({ "success": false, "error": "no", "text": "t" }))),
            Arc::new(FunctionTool("long", |_| json!("ä".repeat(60_000)))),
            Arc::new(FunctionTool("panics", |_| panic!("boo"))),
        ];
        TurnContext::new().with_lookup(Arc::new(move |name| {
            let node = nodes.iter().find(|node| node.id() == name).cloned();
            node.ok_or_else(|| EngineError::not_found(format!("no node '{name}'")))
        }))
    }

    fn settings(tools: &[&str]) -> ChatSettings {
        ChatSettings {
            tools: tools.iter().map(ToString::to_string).collect(),
            ..ChatSettings::new(Provider::Openai, "m")
        }
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
    }

    async fn result(name: &str, arguments: &str) -> (String, bool) {
        let context = context();
        let tools = find(&settings(&["upper", "fails", "long", "panics"]), &context).unwrap();
        let mut finished = run(&tools, vec![call(name, arguments)], &context, true).await;
        let result = finished.remove(0).result;
        (result.content, result.is_error)
    }

    #[tokio::test]
    async fn functions_are_tools() {
        assert_eq!(result("upper_call", r#"{"input": {"a": "b"}}"#).await, (r#"{"A":"B"}"#.into(), false));
        assert_eq!(result("upper.call", r#"{"input": "x"}"#).await, (r#""X""#.into(), false));
    }

    #[tokio::test]
    async fn errors_are_returned_to_the_model() {
        for (name, arguments, says) in [
            ("fails_call", r#"{"input": 1}"#, "no\n{"),
            ("panics_call", r#"{"input": 1}"#, "panicked: boo"),
            ("upper_call", "{", "not JSON"),
            ("upper_call", "{}", "'input' is missing"),
            ("lower_call", "{}", "no tool 'lower_call'; tools: upper_call"),
        ] {
            let (content, is_error) = result(name, arguments).await;
            assert!(is_error && content.contains(says), "{name}: {content}");
        }
    }

    #[tokio::test]
    async fn long_results_are_cut() {
        let (content, is_error) = result("long_call", r#"{"input": 1}"#).await;
        assert!(!is_error && content.chars().count() <= MAX_RESULT);
        assert!(content.ends_with("ä\n[cut: 60000 characters in all]"));
    }

    #[test]
    fn invalid_tools_are_rejected() {
        let error = find(&settings(&["missing"]), &context()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
    }

    #[test]
    fn tool_is_forced_only_in_first_request() {
        let settings =
            ChatSettings { tool_choice: ToolChoice::Node("upper".into()), ..settings(&["fails", "upper"]) };
        let tools = find(&settings, &context()).unwrap();
        assert_eq!(select(&settings, &tools, true), ToolSelection::Tool("upper_call".into()));
        assert_eq!(select(&settings, &tools, false), ToolSelection::Auto);
        let none = ChatSettings { tool_choice: ToolChoice::None, ..settings };
        assert_eq!(select(&none, &tools, false), ToolSelection::None);
    }
}
