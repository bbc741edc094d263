//! Nodes as tools of a model. A bash node runs commands, a terminal node takes prompts, any other node takes an input.
//!
//! A tool is called `node.tool`. The APIs allow no dots in names, so there it is `node_tool`; ids of nodes have no underscore.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use super::message::{ToolCall, ToolResult};
use super::spec::{ChatSpec, ToolChoice};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::graph::attempt::{reported_tokens, run_until_cancelled};
use crate::node::NodeHandle;
use crate::session::Session;

/// A result holds at most so many characters; of more, the beginning is kept (facts: chat node).
pub(super) const MAX_RESULT: usize = 50_000;
/// Tools that run at the same time.
const AT_ONCE: usize = 16;

/// A node that the model may use.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    node: Option<NodeHandle>,
    kind: Kind,
    /// `node.tool`, for people.
    pub(super) name: String,
    /// The same as the API knows it.
    pub(super) api_name: String,
    /// For the model.
    pub(super) description: String,
    /// JSON Schema of its arguments.
    pub(super) schema: Value,
}

/// What a tool takes, and how its result reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bash,
    Terminal,
    Other,
}

/// Which tools the model may use in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    Auto,
    None,
    Required,
    /// By its name in the API.
    Tool(String),
}

/// A call that was done.
#[derive(Debug, Clone)]
pub(super) struct Done {
    /// `node.tool`; what the model said where there is no such tool.
    pub(super) name: String,
    pub(super) call: ToolCall,
    pub(super) result: ToolResult,
}

impl Kind {
    fn of(node: &NodeHandle) -> Option<Kind> {
        match node.kind() {
            _ if node.as_bash().is_some() => Some(Kind::Bash),
            _ if node.as_terminal().is_some() => Some(Kind::Terminal),
            // Two models that ask each other would wait for each other; a graph has runs, a gate asks a person.
            "chat" | "graph" | "gate" => None,
            _ => Some(Kind::Other),
        }
    }

    /// The second half of its name.
    fn verb(self) -> &'static str {
        match self {
            Kind::Bash => "run",
            Kind::Terminal => "execute",
            Kind::Other => "call",
        }
    }

    /// Name, type and description of its argument.
    fn argument(self) -> (&'static str, Value) {
        match self {
            Kind::Bash => {
                ("command", json!({ "type": "string", "description": "The command, as given to bash -c" }))
            }
            Kind::Terminal => ("text", json!({ "type": "string", "description": "What to send" })),
            Kind::Other => ("input", json!({ "description": "What it is to work on: any JSON value" })),
        }
    }

    fn description(self, id: &str) -> String {
        match self {
            Kind::Bash => format!(
                "Runs a command with bash on '{id}' and returns its output. Nothing is kept between commands."
            ),
            Kind::Terminal => format!(
                "Sends text to the program in the terminal '{id}', waits until it has answered and returns the answer. The program keeps its state."
            ),
            Kind::Other => format!("Calls '{id}' with an input and returns what it gives."),
        }
    }
}

impl Tool {
    fn new(node: NodeHandle, id: &str, kind: Kind) -> Tool {
        let (argument, schema) = kind.argument();
        Tool {
            kind,
            name: format!("{id}.{}", kind.verb()),
            api_name: format!("{id}_{}", kind.verb()),
            description: kind.description(id),
            schema: json!({ "type": "object", "properties": { argument: schema }, "required": [argument] }),
            node: Some(node),
        }
    }

    /// For tests of requests: nothing that could run.
    #[cfg(test)]
    pub(super) fn sample() -> Tool {
        Tool {
            node: None,
            kind: Kind::Bash,
            name: "b.run".into(),
            api_name: "b_run".into(),
            description: Kind::Bash.description("b"),
            schema: json!({ "type": "object" }),
        }
    }
}

/// The nodes a model may use, found in the session.
///
/// # Errors
/// NotFound; InvalidRequest: a node that cannot be a tool.
pub(super) fn find(spec: &ChatSpec, session: &Session) -> Result<Vec<Tool>, EngineError> {
    let tool = |id: &String| {
        let node = session.find(id).map_err(|mut error| {
            error.message = format!("its tool '{id}': {}", error.message);
            error
        })?;
        let kind = Kind::of(&node).ok_or_else(|| {
            let message = format!("its tool '{id}' is a {} node", node.kind());
            EngineError::new(ErrorKind::InvalidRequest, message)
                .hint("tools are bash nodes, terminal nodes and functions")
        })?;
        Ok(Tool::new(node, id, kind))
    };
    spec.tools.iter().map(tool).collect()
}

/// What a request says of the tools. What must be used must be used in the first request of a turn.
pub(super) fn choice(spec: &ChatSpec, tools: &[Tool], is_first: bool) -> Choice {
    match &spec.tool_choice {
        ToolChoice::None => Choice::None,
        ToolChoice::Required if is_first => Choice::Required,
        ToolChoice::Node(id) if is_first => {
            let is_it = |tool: &&Tool| tool.name.split('.').next() == Some(id);
            tools.iter().find(is_it).map_or(Choice::Auto, |tool| Choice::Tool(tool.api_name.clone()))
        }
        _ => Choice::Auto,
    }
}

/// Runs what the model asks for; the results are in the order of the calls. Ends early when the context is cancelled.
pub(super) async fn run(
    tools: &[Tool],
    calls: Vec<ToolCall>,
    context: &ExecutionContext,
    at_once: bool,
) -> Vec<Done> {
    let runs = calls.into_iter().map(|call| run_one(tools, call, context));
    stream::iter(runs).buffered(if at_once { AT_ONCE } else { 1 }).collect().await
}

/// The answers to calls that are not run any more.
pub(super) fn refuse(tools: &[Tool], calls: Vec<ToolCall>, rounds: u32) -> Vec<Done> {
    let refused = |call: ToolCall| {
        let name = find_called(tools, &call).map_or(call.name.clone(), |tool| tool.name.clone());
        let content =
            format!("not run: the limit of {rounds} rounds of tools is reached; answer without them");
        let result = ToolResult { id: call.id.clone(), content, is_error: true };
        Done { name, call, result }
    };
    calls.into_iter().map(refused).collect()
}

fn find_called<'a>(tools: &'a [Tool], call: &ToolCall) -> Option<&'a Tool> {
    // Some models write the name as people do.
    tools.iter().find(|tool| tool.api_name == call.name || tool.name == call.name)
}

async fn run_one(tools: &[Tool], call: ToolCall, context: &ExecutionContext) -> Done {
    let tool = find_called(tools, &call);
    let name = tool.map_or(call.name.clone(), |tool| tool.name.clone());
    let said = match tool {
        None => {
            let known: Vec<&str> = tools.iter().map(|tool| tool.api_name.as_str()).collect();
            Err(format!("there is no tool '{}'; there are: {}", call.name, known.join(", ")))
        }
        Some(tool) => match input_of(tool, &call) {
            Ok(input) => execute(tool, input, context).await,
            Err(wrong) => Err(wrong),
        },
    };
    let (content, is_error) = match said {
        Ok(content) => (content, false),
        Err(content) => (content, true),
    };
    let content = if content.trim().is_empty() { "(no output)".to_string() } else { cut(content) };
    let result = ToolResult { id: call.id.clone(), content, is_error };
    Done { name, call, result }
}

fn input_of(tool: &Tool, call: &ToolCall) -> Result<Value, String> {
    let mut arguments: Map<String, Value> = call.input()?;
    let (name, _) = tool.kind.argument();
    let argument = arguments.remove(name);
    match (tool.kind, argument) {
        (Kind::Other, Some(input)) => Ok(input),
        (_, Some(Value::String(text))) => Ok(Value::String(text)),
        (_, Some(_)) => Err(format!("the argument '{name}' must be a string")),
        (_, None) => Err(format!("the argument '{name}' is missing")),
    }
}

async fn execute(tool: &Tool, input: Value, context: &ExecutionContext) -> Result<String, String> {
    let Some(node) = &tool.node else { return Err("it cannot be run".to_string()) };
    let mut context = context.clone().with_input(input);
    // The node's own; and what the tool says is not what the model says.
    (context.timeout, context.parser) = (None, None);
    context.run_mut().chunks = None;
    let value = run_until_cancelled(node, &context).await.map_err(|error| {
        let screen = error.screen.as_deref().map(|screen| format!("\n{screen}"));
        format!("{error}{}", screen.unwrap_or_default())
    })?;
    if let Some(tokens) = reported_tokens(&value).filter(|_| !node.meters()) {
        context.add_tokens(tokens);
    }
    let text = match tool.kind {
        Kind::Bash => of_bash(&value),
        Kind::Terminal => value["text"].as_str().unwrap_or_default().to_string(),
        Kind::Other => match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    };
    match value.get("success") {
        Some(Value::Bool(false)) => {
            let error = value["error"].as_str().unwrap_or("the node says that it failed");
            Err(if text.trim().is_empty() { error.to_string() } else { format!("{error}\n{text}") })
        }
        _ => Ok(text),
    }
}

/// Both outputs.
fn of_bash(value: &Value) -> String {
    let of = |name: &str| value["attributes"][name].as_str().unwrap_or_default();
    match (of("stdout"), of("stderr")) {
        (stdout, "") => stdout.to_string(),
        ("", stderr) => format!("[stderr]\n{stderr}"),
        (stdout, stderr) => format!("{}\n[stderr]\n{stderr}", stdout.trim_end()),
    }
}

/// At most [`MAX_RESULT`] characters, the note about the rest included.
fn cut(content: String) -> String {
    let chars = content.chars().count();
    if chars <= MAX_RESULT {
        return content;
    }
    let note = format!("\n[cut: {chars} characters in all]");
    let kept: String = content.chars().take(MAX_RESULT - note.len()).collect();
    kept + &note
}

/// Facts about a call, for the section that tells of it.
pub(super) fn facts(done: &Done) -> BTreeMap<String, String> {
    let status = if done.result.is_error { "error" } else { "ok" };
    BTreeMap::from([
        ("tool".to_string(), done.name.clone()),
        ("args".to_string(), done.call.arguments.clone()),
        ("id".to_string(), done.call.id.clone()),
        ("status".to_string(), status.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::spec::Provider;
    use super::*;
    use crate::node::function::FunctionNode;

    fn session() -> Session {
        let session = Session::new("s");
        let add = |id: &'static str, node: FunctionNode| session.register(Arc::new(node), Some(id)).unwrap();
        add(
            "upper",
            FunctionNode::new("upper", |context| Ok(json!(context.input.to_string().to_uppercase()))),
        );
        add(
            "fails",
            FunctionNode::new("fails", |_| Ok(json!({ "success": false, "error": "no", "text": "t" }))),
        );
        add("long", FunctionNode::new("long", |_| Ok(json!("ä".repeat(60_000)))));
        add("panics", FunctionNode::new("panics", |_| panic!("boo")));
        session
    }

    fn spec(tools: &[&str]) -> ChatSpec {
        ChatSpec {
            tools: tools.iter().map(ToString::to_string).collect(),
            ..ChatSpec::new(Provider::Openai, "m")
        }
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
    }

    async fn result(name: &str, arguments: &str) -> (String, bool) {
        let session = session();
        let tools = find(&spec(&["upper", "fails", "long", "panics"]), &session).unwrap();
        let context = ExecutionContext::new(&session);
        let mut done = run(&tools, vec![call(name, arguments)], &context, true).await;
        let result = done.remove(0).result;
        (result.content, result.is_error)
    }

    #[tokio::test]
    async fn a_function_is_a_tool() {
        assert_eq!(result("upper_call", r#"{"input": {"a": "b"}}"#).await, (r#"{"A":"B"}"#.into(), false));
        assert_eq!(result("upper.call", r#"{"input": "x"}"#).await, (r#""X""#.into(), false));
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told_to_the_model() {
        for (name, arguments, says) in [
            ("fails_call", r#"{"input": 1}"#, "no\n{"),
            ("panics_call", r#"{"input": 1}"#, "panicked: boo"),
            ("upper_call", "{", "not JSON"),
            ("upper_call", "{}", "'input' is missing"),
            ("lower_call", "{}", "there is no tool 'lower_call'; there are: upper_call"),
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
    fn tools_that_cannot_be() {
        let session = session();
        let error = find(&spec(&["nobody"]), &session).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.starts_with("its tool 'nobody': no node 'nobody'"), "{}", error.message);
        session.register(Arc::new(crate::graph::Graph::new("g")), None).unwrap();
        assert_eq!(find(&spec(&["g"]), &session).unwrap_err().kind, ErrorKind::InvalidRequest);
    }

    #[test]
    fn what_must_be_used_must_be_used_once() {
        let session = session();
        let spec = ChatSpec { tool_choice: ToolChoice::Node("upper".into()), ..spec(&["fails", "upper"]) };
        let tools = find(&spec, &session).unwrap();
        assert_eq!(choice(&spec, &tools, true), Choice::Tool("upper_call".into()));
        assert_eq!(choice(&spec, &tools, false), Choice::Auto);
        let none = ChatSpec { tool_choice: ToolChoice::None, ..spec };
        assert_eq!(choice(&none, &tools, false), Choice::None);
    }
}
