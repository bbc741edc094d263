//! Nodes as tools of a model.

use std::sync::Arc;

use nerve_agent::parse::SectionKind;
use nerve_api::request::NodeSpec;
use nerve_api::value::BackendKind;
use nerve_graph::Graph;
use nerve_graph::function::FunctionNode;
use nerve_graph::session::Session;
use nerve_graph::step::Step;
use nerve_node::Node;
use nerve_node::budget::RunBudget;
use nerve_node::chat::{Provider, ToolChoice};
use nerve_node::error::ErrorKind;
use nerve_testkit::eventually;
use nerve_testkit::harness::{assert_error, is_alive};
use nerve_testkit::mock_model::{Answer, MockModel, Script, ToolCall};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ChatHarness, answers, chat, context, in_time, standalone_node};

fn call(name: &str, input: Value) -> ToolCall {
    ToolCall::Own { name: name.into(), input }
}

pub(super) fn run(command: &str) -> ToolCall {
    call("sh_run", json!({ "command": command }))
}

/// Returns the tool results in the nth request.
fn results(harness: &ChatHarness, provider: Provider, nth: usize) -> Vec<String> {
    let messages = harness.sent_messages(nth);
    let messages = messages.as_array().unwrap();
    let content = |value: &Value| value["content"].as_str().unwrap().to_string();
    match provider {
        Provider::Anthropic => {
            messages.last().unwrap()["content"].as_array().unwrap().iter().map(content).collect()
        }
        Provider::Openai => {
            messages.iter().filter(|message| message["role"] == "tool").map(content).collect()
        }
    }
}

#[tokio::test]
async fn bash_node_is_a_tool() {
    for provider in Provider::ALL {
        let script =
            Script::default().first([Answer::tool("I look.", run("echo out; echo err >&2; exit 3"))]);
        let harness = ChatHarness::with(provider, script, |chat| chat.tools = vec!["sh".into()]).await;
        harness.bash("sh").await;
        let response = harness.nodes.ask("c", "look").await;
        let section = response.sections.iter().find(|section| section.kind == SectionKind::ToolCall).unwrap();
        assert_eq!(
            (section.metadata["tool"].as_str(), section.metadata["status"].as_str()),
            ("sh.run", "error")
        );
        assert_eq!(section.content, "the command ended with exit code 3\nout\n[stderr]\nerr\n");
        assert!(response.text.starts_with("I look.\n\nThe tool said: "), "{}", response.text);
        assert!(response.attributes["content"].as_str().unwrap().starts_with("The tool said: "));
        let value = response.into_value();
        assert_eq!(value["attributes"]["tool_calls"][0]["name"], "sh.run");
        assert_eq!(value["attributes"]["api_calls"], 2);
        assert_eq!(value["success"], true);

        let request = harness.model.requests()[0].body.clone();
        let offered = match provider {
            Provider::Anthropic => &request["tools"][0]["name"],
            Provider::Openai => &request["tools"][0]["function"]["name"],
        };
        assert_eq!(offered, "sh_run");
        assert!(results(&harness, provider, 1)[0].contains("exit code 3\nout\n[stderr]\nerr"));
        // The next turn contains the results.
        harness.nodes.ask("c", "and now").await;
        assert!(harness.sent_messages(2).to_string().contains("[stderr]"));
    }
}

#[tokio::test]
async fn terminal_node_is_a_tool() {
    let script = Script::default()
        .first([Answer::tools([call("me_execute", json!({ "text": "SAY from the terminal" }))])]);
    let harness = ChatHarness::with(Provider::Anthropic, script, |chat| chat.tools = vec!["me".into()]).await;
    harness.nodes.start("me", &["bash", "--norc", "--noprofile"]).await;
    drop(harness.nodes.send("me", "SAY() { echo \"$@\"; }").await.unwrap());
    let response = harness.nodes.ask("c", "ask it").await;
    assert_eq!(response.sections[0].content, "from the terminal");
    harness.nodes.stop("me").await;
}

#[tokio::test]
async fn function_node_is_a_tool() {
    for provider in Provider::ALL {
        let model = answers([Answer::tools([call("add_call", json!({ "input": [1, 2] }))])]).await;
        let session = Session::new("s");
        let sum = |input: &Value| input.as_array().unwrap().iter().filter_map(Value::as_i64).sum::<i64>();
        let add = FunctionNode::new("add", move |context| Ok(json!(sum(&context.input))));
        session.register(Arc::new(add), None).unwrap();
        let mut spec = chat(provider, &model);
        spec.tools = vec!["add".into()];
        let (context, chunks) = context(&session, "add them");
        let value = standalone_node(spec).execute(&context.turn).await.unwrap();
        assert_eq!(value["text"], "The tool said: 3\nEND-OF-TOOL");
        assert_eq!(chunks.lock().unwrap().concat(), "The tool said: 3\nEND-OF-TOOL");
    }
}

#[tokio::test]
async fn tools_run_in_parallel() {
    for provider in Provider::ALL {
        let folder = tempfile::tempdir().unwrap();
        // Each command waits for the other.
        let rendezvous = |mine: &str, other: &str| {
            let dir = folder.path().display();
            run(&format!("touch {dir}/{mine}; until [ -e {dir}/{other} ]; do :; done; echo {mine}"))
        };
        let script = Script::default().first([Answer::tools([rendezvous("a", "b"), rendezvous("b", "a")])]);
        let harness = ChatHarness::with(provider, script, |chat| chat.tools = vec!["sh".into()]).await;
        harness.bash("sh").await;
        in_time(harness.nodes.ask("c", "both")).await;
        assert_eq!(results(&harness, provider, 1), ["a\n", "b\n"], "in the order of the calls");
    }
}

#[tokio::test]
async fn tools_run_sequentially_if_configured() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log").display().to_string();
    let step = |name: &str| run(&format!("echo {name} begins >> {log}; echo {name} ends >> {log}"));
    let script = Script::default().first([Answer::tools([step("a"), step("b")])]);
    let harness = ChatHarness::with(Provider::Openai, script, |chat| {
        chat.tools = vec!["sh".into()];
        chat.parallel_tool_calls = false;
    })
    .await;
    harness.bash("sh").await;
    harness.nodes.ask("c", "both").await;
    assert_eq!(harness.model.requests()[0].body["parallel_tool_calls"], false);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "a begins\na ends\nb begins\nb ends\n");
}

#[tokio::test]
async fn tool_rounds_are_limited() {
    for provider in Provider::ALL {
        let rounds = (0..3).map(|round| Answer::tools([run(&format!("echo round {round}"))]));
        let script = Script::default().first(rounds.chain([Answer::text("I gave up")]));
        let harness = ChatHarness::with(provider, script, |chat| {
            chat.tools = vec!["sh".into()];
            chat.max_tool_rounds = 2;
        })
        .await;
        harness.bash("sh").await;
        let response = harness.nodes.ask("c", "on and on").await;
        assert_eq!(
            (response.attributes["finish_reason"].as_str(), response.text.as_str()),
            (Some("max_tool_rounds"), "I gave up")
        );
        let outputs: Vec<&str> = response.sections.iter().map(|section| section.content.as_str()).collect();
        assert_eq!(outputs[..2], ["round 0\n", "round 1\n"]);
        assert!(outputs[2].starts_with("not run: the limit of 2 rounds"), "{outputs:?}");
        let last = harness.model.requests()[3].body["tool_choice"].clone();
        assert_eq!(last.as_str().or(last["type"].as_str()), Some("none"));
        // The conversation continues.
        assert_eq!(harness.nodes.ask("c", "hello").await.text, "You said: hello");
    }
}

#[tokio::test]
async fn tool_call_after_the_last_round_fails_the_turn() {
    let rounds = (0..3).map(|_| Answer::tools([run("true")]));
    let harness = ChatHarness::with(Provider::Openai, Script::default().first(rounds), |chat| {
        chat.tools = vec!["sh".into()];
        chat.max_tool_rounds = 1;
    })
    .await;
    harness.bash("sh").await;
    let error = harness.nodes.send("c", "on and on").await.unwrap_err();
    assert_error(&error, ErrorKind::Api, &["(sh_run)", "1 rounds"]);
    assert_eq!(harness.text().await, "", "the failed turn was kept");
}

#[tokio::test]
async fn tool_choice_applies_to_the_first_request() {
    let script = Script::default().first([Answer::tools([run("echo used")])]);
    let harness = ChatHarness::with(Provider::Anthropic, script, |chat| {
        chat.tools = vec!["sh".into()];
        chat.tool_choice = ToolChoice::Node("sh".into());
    })
    .await;
    harness.bash("sh").await;
    harness.nodes.ask("c", "q").await;
    let choices: Vec<Value> =
        harness.model.requests().iter().map(|request| request.body["tool_choice"].clone()).collect();
    assert_eq!(choices, [json!({ "type": "tool", "name": "sh_run" }), json!({ "type": "auto" })]);
}

#[tokio::test]
async fn graph_is_no_tool() {
    let model = answers([]).await;
    let session = Session::new("s");
    session.register(Arc::new(Graph::new("g")), None).unwrap();
    let mut spec = chat(Provider::Anthropic, &model);
    spec.tools = vec!["g".into()];
    let error = standalone_node(spec).execute(&context(&session, "q").0.turn).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'c'", "'g'"]);
}

#[tokio::test]
async fn missing_tool_is_named() {
    let harness =
        ChatHarness::with(Provider::Anthropic, Script::default(), |chat| chat.tools = vec!["sh".into()])
            .await;
    let error = harness.nodes.send("c", "q").await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'c'", "'sh'"]);
    assert!(harness.model.requests().is_empty());
    // A node created later is found.
    harness.bash("sh").await;
    harness.nodes.ask("c", "q").await;
}

#[tokio::test]
async fn cancelled_turn_stops_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let model = answers([Answer::tools([run(&format!("echo $$ > {}; sleep 60", pid.display()))])]).await;
    let session = Session::new("s");
    let factory = nerve_node::factory::NodeFactory::new(Default::default());
    let bash = NodeSpec { backend: BackendKind::Bash, history: false, ..NodeSpec::new("sh") };
    session.register(Arc::new(factory.create_bash(bash).unwrap()), None).unwrap();
    let mut spec = chat(Provider::Anthropic, &model);
    spec.tools = vec!["sh".into()];
    let node = standalone_node(spec);
    let cancellation = CancellationToken::new();
    let context = context(&session, "q").0.with_cancellation(cancellation.clone());
    let turn = tokio::spawn({
        let node = node.clone();
        async move { node.execute(&context.turn).await }
    });
    let runs = async || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'));
    eventually("the tool runs", runs).await;
    cancellation.cancel();
    assert_eq!(in_time(turn).await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    let pid = std::fs::read_to_string(&pid).unwrap();
    let pid = pid.trim().parse().unwrap();
    eventually("the tool is killed", async || !is_alive(pid)).await;
    assert!(node.messages().is_empty());
}

/// Builds a graph of three steps on one chat node.
pub(super) fn graph(node: impl Node) -> Graph {
    let node = Arc::new(node);
    let mut graph = Graph::new("g");
    for step in ["a", "b", "c"] {
        graph.add_step(node.clone(), Step::new(step).input("a question of some length")).unwrap();
    }
    graph.chain(["a", "b", "c"]).unwrap();
    graph
}

#[tokio::test]
async fn chat_tokens_and_calls_count_toward_graph_budget() {
    for provider in Provider::ALL {
        let model = MockModel::start(Script::default()).await;
        let (context, _) = context(&Session::new("s"), "");
        let budget = RunBudget { max_api_calls: Some(2), ..RunBudget::default() };
        let run =
            graph(standalone_node(chat(provider, &model))).run(&context.clone().with_budget(budget)).await;
        assert_error(&run.error.unwrap(), ErrorKind::Budget, &["2/2"]);
        let per_turn = run.results["a"]["tokens"]["total"].as_u64().unwrap();
        let budget = RunBudget { max_tokens: Some(per_turn + 1), ..RunBudget::default() };
        let run = graph(standalone_node(chat(provider, &model))).run(&context.with_budget(budget)).await;
        let error = run.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Budget);
        assert!(error.message.starts_with("Token limit exceeded: "), "{error}");
        assert_eq!(run.results.len(), 2);
        let all: u64 = run.results.values().map(|result| result["tokens"]["total"].as_u64().unwrap()).sum();
        assert_eq!(run.usage.tokens_used(), all, "counted once");
    }
}

#[tokio::test]
async fn budget_is_checked_between_tool_rounds() {
    let model = answers((0..5).map(|_| Answer::tools([call("f_call", json!({ "input": 1 }))]))).await;
    let session = Session::new("s");
    session.register(Arc::new(FunctionNode::new("f", |_| Ok(json!(1)))), None).unwrap();
    let mut spec = chat(Provider::Anthropic, &model);
    spec.tools = vec!["f".into()];
    let node = standalone_node(spec);
    let budget = RunBudget { max_tokens: Some(1), ..RunBudget::default() };
    let context = context(&session, "").0.with_budget(budget);
    let run = graph(node.clone()).run(&context).await;
    assert_eq!(run.error.unwrap().kind, ErrorKind::Budget);
    assert_eq!(model.requests().len(), 1);
    assert!(run.usage.tokens_used() > 0 && node.messages().is_empty());
}
