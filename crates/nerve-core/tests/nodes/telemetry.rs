//! Spans: what they are of, what they are in, and what is told to programs and APIs.

use std::time::Duration;

use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::{ExecuteGraph, ExecuteInput, ResumeRun, RunCommand, WebhookTarget};
use nerve_core::chat::{ChatSpec, Provider};
use nerve_core::command::BackendKind;
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::node::factory::FactoryConfig;
use nerve_core::proxy::ProxyKind;
use nerve_core::telemetry::{
    Attribute, Span, SpanKind, Spans, Status, Telemetry, TelemetrySetup, TraceContext,
};
use nerve_testkit::mock_model::{Answer, Script, ToolCall};
use serde_json::{Value, json};

use crate::chat::{chat, model, spec};
use crate::harness::{LIMIT, Stage};
use crate::proxy::harness::Scene;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "pr0mpt-that-nobody-may-see";

/// An engine that tells what it does.
struct Told {
    stage: Stage,
    spans: Spans,
}

impl Told {
    fn new() -> Told {
        Told::with(TelemetrySetup::default())
    }

    fn with(setup: TelemetrySetup) -> Told {
        let (telemetry, spans) = Telemetry::new(setup);
        Told { stage: stage(telemetry), spans }
    }

    async fn bash(&self, node: &str) {
        let mut spec = self.stage.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.stage.engine.create(spec).await.unwrap();
    }

    /// All spans so far; there will be no others.
    async fn all(mut self) -> Vec<Span> {
        self.spans.close();
        let mut all = Vec::new();
        while let Some(span) = self.spans.next().await {
            all.push(span);
        }
        all
    }
}

fn stage(telemetry: Telemetry) -> Stage {
    let stage = Stage::new();
    Stage { engine: engine(&stage, telemetry), ..stage }
}

fn engine(stage: &Stage, telemetry: Telemetry) -> Engine {
    let folder = stage.folder.path();
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "told".into(),
            history_dir: Some(folder.join("h")),
            ..FactoryConfig::default()
        },
        runs_dir: Some(folder.join("runs")),
        telemetry,
        ..EngineConfig::default()
    })
}

fn caller() -> TraceContext {
    TraceContext::parse(CALLER, Some("vendor=1")).unwrap()
}

/// A prompt of the caller's span.
fn traced(request: ExecuteInput) -> ExecuteInput {
    let (traceparent, tracestate) = (caller().traceparent(), caller().tracestate().map(str::to_string));
    ExecuteInput { traceparent: Some(traceparent), tracestate, ..request }
}

async fn run(engine: &Engine, graph: Value) -> RunEnded {
    let request = ExecuteGraph {
        definition: graph.as_object().unwrap().clone(),
        run_id: Some("r-1".into()),
        traceparent: Some(caller().traceparent()),
        tracestate: caller().tracestate().map(str::to_string),
        ..ExecuteGraph::default()
    };
    match tokio::time::timeout(LIMIT, engine.execute_graph(request, Default::default())).await.unwrap() {
        Ok(RunReply::Ended(ended)) => *ended,
        Err(error) => *error.details.unwrap().ended.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {names:?}"));
    assert!(found.next().is_none(), "more than one {name}: {names:?}");
    span
}

fn is_in(inner: &Span, outer: &Span) {
    assert_eq!(inner.parent, Some(outer.context.span_id()), "{} is not in {}", inner.name, outer.name);
    assert_eq!(inner.context.trace_id(), outer.context.trace_id());
    assert!(
        outer.start <= inner.start && inner.end <= outer.end,
        "{} is not within {}",
        inner.name,
        outer.name
    );
}

fn text(span: &Span, name: &str) -> String {
    match span.attributes.get(name) {
        Some(Attribute::Text(text)) => text.to_string(),
        other => panic!("{name} of {}: {other:?}", span.name),
    }
}

fn number(span: &Span, name: &str) -> i64 {
    match span.attributes.get(name) {
        Some(Attribute::Int(number)) => *number,
        other => panic!("{name} of {}: {other:?}", span.name),
    }
}

#[tokio::test]
async fn a_command_is_told_its_span_which_is_in_the_callers() {
    let told = Told::new();
    told.bash("sh").await;
    let prompt = format!("printenv TRACEPARENT TRACESTATE; : {SECRET}; echo {SECRET}");
    let execute = traced(told.stage.execute("sh", &prompt));
    let said = told.stage.run(execute).await.unwrap().text;
    let failing = told.stage.ask("sh", "exit 3").await;
    assert_eq!(failing.attributes["exit_code"], "3");
    let spans = told.all().await;
    let [turn, failed] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(said, format!("{}\nvendor=1\n{SECRET}", turn.context.traceparent()));
    assert_eq!((turn.parent, turn.parent_is_remote), (Some(caller().span_id()), true));
    assert_eq!((turn.context.trace_id(), turn.kind), (caller().trace_id(), SpanKind::Internal));
    assert_eq!((turn.name.as_ref(), text(turn, "nerve.node").as_str()), ("turn sh", "sh"));
    assert_eq!(
        (text(turn, "nerve.session"), text(turn, "nerve.delivery")),
        ("default".into(), "started".into())
    );
    assert_eq!((text(turn, "nerve.source"), number(turn, "nerve.turn")), ("process".into(), 1));
    assert_eq!((number(turn, "process.exit.code"), &turn.status), (0, &Status::Unset));
    assert!(turn.attributes.get("gen_ai.operation.name").is_none(), "a shell is no agent");
    // A trace of its own, and failed.
    assert_eq!((failed.parent, text(failed, "error.type")), (None, "process_error".into()));
    assert_ne!(failed.context.trace_id(), turn.context.trace_id());
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn a_callers_span_is_passed_on_where_nothing_is_told() {
    let stage = stage(Telemetry::off());
    let mut spec = stage.spec("sh", &[]);
    spec.backend = BackendKind::Bash;
    stage.engine.create(spec).await.unwrap();
    let execute = traced(stage.execute("sh", "printenv TRACEPARENT TRACESTATE"));
    assert_eq!(stage.run(execute).await.unwrap().text, format!("{CALLER}\nvendor=1"));
}

#[tokio::test]
async fn steps_are_in_their_run_and_turns_in_their_steps() {
    let told = Told::new();
    let inner =
        json!({"graph": "inner", "steps": [{"id": "deep", "node": "sh", "input": "printenv TRACEPARENT"}]});
    let made = told.stage.folder.path().join("made");
    let flaky = format!("test -e {made} || {{ touch {made}; exit 1; }}", made = made.display());
    let graph = json!({
        "graph": "outer",
        "nodes": {
            "sh": {"type": "bash"},
            "term": {"type": "pty", "command": "bash --norc", "env": {"PS1": "$ "}},
            "inner": {"type": "graph", "graph": inner},
        },
        "steps": [
            {"id": "first", "node": "sh", "input": "printenv TRACEPARENT"},
            {"id": "flaky", "node": "sh", "input": flaky,
             "error_policy": {"retry_count": 1, "retry_delay_ms": 1}},
            {"id": "each", "node": "sh", "input": "echo {{ item }}", "foreach": "[1, 2]", "depends_on": ["first"]},
            {"id": "typed", "node": "term", "input": "printenv TRACEPARENT", "depends_on": ["first"]},
            {"id": "nested", "node": "inner", "depends_on": ["first"]},
        ],
    });
    let ended = run(&told.stage.engine, graph).await;
    assert_eq!(ended.status, "completed", "{ended:#?}");
    let spans = told.all().await;
    let run = one(&spans, "graph.run outer");
    assert_eq!((run.parent, run.parent_is_remote), (Some(caller().span_id()), true));
    assert_eq!((text(run, "nerve.run"), text(run, "nerve.status")), ("r-1".into(), "completed".into()));
    assert_eq!(text(run, "gen_ai.operation.name"), "invoke_workflow");

    let step = |name: &str| one(&spans, &format!("graph.step {name}"));
    let turns = |step: &Span| -> Vec<Span> {
        spans.iter().filter(|span| span.parent == Some(step.context.span_id())).cloned().collect()
    };
    let first = step("first");
    is_in(first, run);
    let turn = &turns(first)[0];
    is_in(turn, first);
    assert_eq!(ended.results["first"]["text"], turn.context.traceparent());
    assert_eq!((text(first, "nerve.step"), text(first, "nerve.node.kind")), ("first".into(), "bash".into()));

    let flaky = step("flaky");
    assert_eq!((turns(flaky).len(), number(flaky, "nerve.attempts"), flaky.events.len()), (2, 2, 1));
    assert_eq!(flaky.events[0].name, "nerve.retry");
    assert_eq!(flaky.events[0].attributes.get("error.type"), Some(&Attribute::Text("process_error".into())));
    assert_eq!(flaky.status, Status::Unset);

    // The step as a whole, and its items in it.
    let each: Vec<&Span> = spans.iter().filter(|span| span.name == "graph.step each").collect();
    let whole = *each.iter().find(|span| text(span, "nerve.step") == "each").unwrap();
    is_in(whole, run);
    let mut items: Vec<String> = turns(whole).iter().map(|item| text(item, "nerve.step")).collect();
    items.sort();
    assert_eq!(items, ["each[0]", "each[1]"]);

    // A program on a terminal is told what made it: it lives longer than a turn.
    assert_eq!(ended.results["typed"]["text"], run.context.traceparent());
    let nested = step("nested");
    let inner = one(&spans, "graph.run inner");
    is_in(inner, nested);
    is_in(step("deep"), inner);
    assert!(spans.iter().all(|span| span.context.trace_id() == caller().trace_id()));
}

#[tokio::test]
async fn a_run_that_fails_says_so_and_what_ran_is_given_up() {
    let told = Told::new();
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "bash"}},
        "steps": [{"id": "bad", "node": "sh", "input": "exit 7"}],
    });
    run(&told.stage.engine, graph).await;
    let spans = told.all().await;
    for name in ["graph.run g", "graph.step bad", "turn sh"] {
        let span = one(&spans, name);
        assert_eq!(text(span, "error.type"), "process_error", "{span:#?}");
        assert!(matches!(&span.status, Status::Error(why) if why.contains('7')), "{span:#?}");
    }
    assert_eq!(text(one(&spans, "graph.run g"), "nerve.status"), "failed");
}

#[tokio::test]
async fn a_resumed_run_goes_on_in_its_trace() {
    let told = Told::new();
    let gate = json!({"graph": "g", "steps": [{"id": "ask", "gate": {"question": "Go on?"}}]});
    let begin = ExecuteGraph {
        definition: gate.as_object().unwrap().clone(),
        run_id: Some("r-1".into()),
        detach: true,
        traceparent: Some(caller().traceparent()),
        tracestate: caller().tracestate().map(str::to_string),
        ..ExecuteGraph::default()
    };
    told.stage.engine.execute_graph(begin, Default::default()).await.unwrap();
    told.stage.engine.shut_down(false).await;
    let (telemetry, spans) = Telemetry::new(TelemetrySetup::default());
    let second = engine(&told.stage, telemetry);
    let resume = ResumeRun { run_id: "r-1".into(), detach: true, ..ResumeRun::default() };
    second.resume_run(resume, Default::default()).await.unwrap();
    second
        .cancel_graph(
            nerve_api::request::CancelGraph { run_id: Some("r-1".into()), graph_id: None },
            Default::default(),
        )
        .await
        .unwrap();
    second.shut_down(false).await;
    let again = Told { stage: Stage { engine: second, ..Stage::new() }, spans };
    let (before, after) = (told.all().await, again.all().await);
    let (before, after) = (one(&before, "graph.run g"), one(&after, "graph.run g"));
    assert_eq!(after.parent, Some(before.context.span_id()));
    assert_eq!(after.context.trace_id(), caller().trace_id());
    assert_eq!(after.attributes.get("nerve.resumed"), Some(&Attribute::Bool(true)));
}

#[tokio::test]
async fn calls_of_an_api_are_in_their_turn_and_the_api_is_told() {
    let tool = ToolCall::Own { name: "sh_run".into(), input: json!({"command": "printenv TRACEPARENT"}) };
    let script = Script::default().first([Answer::error(529, "busy"), Answer::tool("I look.", tool)]);
    let (told, model) = (Told::new(), model(script).await);
    told.bash("sh").await;
    let chat = ChatSpec { tools: vec!["sh".into()], ..chat(Provider::Anthropic, &model) };
    told.stage.engine.create(spec(&told.stage, "c", chat)).await.unwrap();
    let execute = traced(told.stage.execute("c", SECRET));
    told.stage.run(execute).await.unwrap();
    let spans = told.all().await;
    let turn = one(&spans, "invoke_agent c");
    assert_eq!(
        (turn.parent, text(turn, "gen_ai.operation.name")),
        (Some(caller().span_id()), "invoke_agent".into())
    );
    assert_eq!(
        (text(turn, "gen_ai.provider.name"), text(turn, "gen_ai.agent.name")),
        ("anthropic".into(), "c".into())
    );
    assert!(number(turn, "gen_ai.usage.input_tokens") > 0 && number(turn, "gen_ai.usage.output_tokens") > 0);

    let calls: Vec<&Span> = spans.iter().filter(|span| span.name == "chat test-model").collect();
    let [first, second] = calls[..] else { panic!("{spans:#?}") };
    for call in [first, second] {
        is_in(call, turn);
        assert_eq!((call.kind, text(call, "gen_ai.operation.name")), (SpanKind::Client, "chat".into()));
        assert_eq!(
            (text(call, "server.address"), text(call, "gen_ai.request.model")),
            ("127.0.0.1".into(), "test-model".into())
        );
    }
    // A try is no call of its own.
    assert_eq!((first.events.len(), number(first, "nerve.retries"), second.events.len()), (1, 1, 0));
    let sent: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.headers.iter().find(|(name, _)| name == "traceparent").unwrap().1.clone())
        .collect();
    let [first, second] = [first, second].map(|call| call.context.traceparent());
    assert_eq!(sent, [first.clone(), first, second]);
    is_in(one(&spans, "turn sh"), turn);
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn an_agent_is_told_of_as_one_and_what_is_said_only_if_asked() {
    for captures_content in [false, true] {
        let mut told = Told::with(TelemetrySetup { captures_content, ..TelemetrySetup::default() });
        told.stage.start_mock("agent", &[]).await;
        told.stage.ask("agent", SECRET).await;
        let turn = told.spans.next().await.unwrap();
        assert_eq!(
            (turn.name.as_ref(), text(&turn, "nerve.profile").as_str()),
            ("invoke_agent agent", "claude")
        );
        assert_eq!(text(&turn, "gen_ai.provider.name"), "anthropic");
        assert!(["submitted", "started"].contains(&text(&turn, "nerve.delivery").as_str()), "{turn:#?}");
        assert_eq!(format!("{turn:?}").contains(SECRET), captures_content, "{turn:#?}");
        if captures_content {
            let asked: Value = serde_json::from_str(&text(&turn, "gen_ai.input.messages")).unwrap();
            assert_eq!(asked[0]["parts"][0]["content"], SECRET);
            let said: Value = serde_json::from_str(&text(&turn, "gen_ai.output.messages")).unwrap();
            assert!(said[0]["parts"][0]["content"].as_str().unwrap().contains(SECRET), "{said}");
        }
        told.stage.stop("agent").await;
        // A shell is no agent: what it is given and prints is never told.
        told.bash("sh").await;
        told.stage.ask("sh", &format!("echo {SECRET}; exit 1")).await;
        let turn = told.spans.next().await.unwrap();
        assert!(turn.name == "turn sh" && !format!("{turn:?}").contains(SECRET), "{turn:#?}");
    }
}

#[tokio::test]
async fn who_is_told_of_a_result_is_told_its_span() {
    // Any server that notes what it is sent.
    let (told, hook) = (Told::new(), model(Script::default()).await);
    told.bash("sh").await;
    let webhook = WebhookTarget { url: format!("{}/v1/messages", hook.url()), secret: None };
    let request = ExecuteInput {
        is_async: true,
        webhook: Some(webhook),
        ..traced(told.stage.execute("sh", "echo done"))
    };
    told.stage.engine.execute_input(request, Default::default()).await.unwrap();
    let mut told = told;
    let mut spans = Vec::new();
    while spans.len() < 2 {
        let span = tokio::time::timeout(Duration::from_secs(60), told.spans.next()).await.unwrap();
        spans.push(span.unwrap());
    }
    let (result, turn) = (one(&spans, "result sh"), one(&spans, "turn sh"));
    assert_eq!((result.parent, text(result, "nerve.status")), (Some(caller().span_id()), "done".into()));
    is_in(turn, result);
    let sent = hook.requests()[0].headers.iter().find(|(name, _)| name == "traceparent").cloned().unwrap();
    assert_eq!(sent.1, result.context.traceparent());
}

#[tokio::test]
async fn a_typed_command_is_a_span_and_a_turn_that_nobody_waits_for_is_given_up() {
    let mut told = Told::new();
    told.bash("sh").await;
    let run = RunCommand {
        node_id: "nobody".into(),
        command: "x".into(),
        traceparent: Some(caller().traceparent()),
        ..RunCommand::default()
    };
    told.stage.engine.run_command(run, Default::default()).await.unwrap_err();
    let span = told.spans.next().await.unwrap();
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("run nobody", "not_found_error"));
    assert_eq!(span.parent, Some(caller().span_id()));
    let engine = told.stage.engine.clone();
    let execute = told.stage.execute("sh", "sleep 600");
    let waits = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    told.stage.wait("sh", nerve_core::command::StateName::Busy).await.unwrap();
    waits.abort();
    let span = tokio::time::timeout(LIMIT, told.spans.next()).await.unwrap().unwrap();
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("turn sh", "cancelled"));
}

#[tokio::test]
async fn calls_of_a_nodes_proxy_are_in_its_turn() {
    let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
    let scene = Scene::told(telemetry).await;
    scene.create(scene.spec("a", scene.proxy(ProxyKind::Anthropic))).await.unwrap();
    scene.stage.ask("a", &format!("{} {SECRET}", scene.ask())).await;
    spans.close();
    let (call, turn) = (spans.next().await.unwrap(), spans.next().await.unwrap());
    assert_eq!((call.name.as_ref(), turn.name.as_ref()), ("chat m-1", "turn a"));
    assert_eq!((call.parent, call.kind), (Some(turn.context.span_id()), SpanKind::Client));
    assert_eq!((number(&call, "nerve.turn"), number(&call, "http.response.status_code")), (1, 200));
    assert_eq!(number(&call, "gen_ai.usage.output_tokens"), number(&turn, "gen_ai.usage.output_tokens"));
    assert!(spans.next().await.is_none() && !format!("{call:?}{turn:?}").contains(SECRET));
}
