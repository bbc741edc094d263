//! Spans: attributes, nesting, and the context passed to programs and APIs.

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
use crate::harness::{Harness, LIMIT};
use crate::proxy::harness::ProxyHarness;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "pr0mpt-that-must-not-leak";

/// An engine with telemetry, and the spans it produces.
struct TelemetryHarness {
    nodes: Harness,
    spans: Spans,
}

impl TelemetryHarness {
    fn new() -> TelemetryHarness {
        TelemetryHarness::with(TelemetrySetup::default())
    }

    fn with(setup: TelemetrySetup) -> TelemetryHarness {
        let (telemetry, spans) = Telemetry::new(setup);
        TelemetryHarness { nodes: harness(telemetry), spans }
    }

    async fn bash(&self, node: &str) {
        let mut spec = self.nodes.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.nodes.engine.create(spec).await.unwrap();
    }

    /// Ends telemetry and returns all spans.
    async fn finished_spans(mut self) -> Vec<Span> {
        self.spans.close();
        let mut spans = Vec::new();
        while let Some(span) = self.spans.next().await {
            spans.push(span);
        }
        spans
    }
}

fn harness(telemetry: Telemetry) -> Harness {
    let harness = Harness::new();
    Harness { engine: engine(&harness, telemetry), ..harness }
}

fn engine(harness: &Harness, telemetry: Telemetry) -> Engine {
    let folder = harness.folder.path();
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "telemetry".into(),
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

/// Adds the caller's span to a prompt.
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

fn find_span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {names:?}"));
    assert!(found.next().is_none(), "more than one {name}: {names:?}");
    span
}

fn assert_nested(inner: &Span, outer: &Span) {
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
async fn command_receives_its_span_context() {
    let harness = TelemetryHarness::new();
    harness.bash("sh").await;
    let prompt = format!("printenv TRACEPARENT TRACESTATE; : {SECRET}; echo {SECRET}");
    let execute = traced(harness.nodes.execute("sh", &prompt));
    let output = harness.nodes.run(execute).await.unwrap().text;
    let failing = harness.nodes.ask("sh", "exit 3").await;
    assert_eq!(failing.attributes["exit_code"], "3");
    let spans = harness.finished_spans().await;
    let [turn, failed] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(output, format!("{}\nvendor=1\n{SECRET}", turn.context.traceparent()));
    assert_eq!((turn.parent, turn.parent_is_remote), (Some(caller().span_id()), true));
    assert_eq!((turn.context.trace_id(), turn.kind), (caller().trace_id(), SpanKind::Internal));
    assert_eq!((turn.name.as_ref(), text(turn, "nerve.node").as_str()), ("turn sh", "sh"));
    assert_eq!(
        (text(turn, "nerve.session"), text(turn, "nerve.delivery")),
        ("default".into(), "started".into())
    );
    assert_eq!((text(turn, "nerve.source"), number(turn, "nerve.turn")), ("process".into(), 1));
    assert_eq!((number(turn, "process.exit.code"), &turn.status), (0, &Status::Unset));
    assert!(turn.attributes.get("gen_ai.operation.name").is_none(), "a shell is not an agent");
    // A turn without a caller has its own trace; this one failed.
    assert_eq!((failed.parent, text(failed, "error.type")), (None, "process_error".into()));
    assert_ne!(failed.context.trace_id(), turn.context.trace_id());
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn callers_span_is_passed_on_without_telemetry() {
    let harness = harness(Telemetry::off());
    let mut spec = harness.spec("sh", &[]);
    spec.backend = BackendKind::Bash;
    harness.engine.create(spec).await.unwrap();
    let execute = traced(harness.execute("sh", "printenv TRACEPARENT TRACESTATE"));
    assert_eq!(harness.run(execute).await.unwrap().text, format!("{CALLER}\nvendor=1"));
}

#[tokio::test]
async fn spans_nest_run_step_and_turn() {
    let harness = TelemetryHarness::new();
    let inner =
        json!({"graph": "inner", "steps": [{"id": "deep", "node": "sh", "input": "printenv TRACEPARENT"}]});
    let marker = harness.nodes.folder.path().join("made");
    let flaky = format!("test -e {marker} || {{ touch {marker}; exit 1; }}", marker = marker.display());
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
    let ended = run(&harness.nodes.engine, graph).await;
    assert_eq!(ended.status.as_str(), "completed", "{ended:#?}");
    let spans = harness.finished_spans().await;
    let run = find_span(&spans, "graph.run outer");
    assert_eq!((run.parent, run.parent_is_remote), (Some(caller().span_id()), true));
    assert_eq!((text(run, "nerve.run"), text(run, "nerve.status")), ("r-1".into(), "completed".into()));
    assert_eq!(text(run, "gen_ai.operation.name"), "invoke_workflow");

    let step = |name: &str| find_span(&spans, &format!("graph.step {name}"));
    let turns = |step: &Span| -> Vec<Span> {
        spans.iter().filter(|span| span.parent == Some(step.context.span_id())).cloned().collect()
    };
    let first = step("first");
    assert_nested(first, run);
    let turn = &turns(first)[0];
    assert_nested(turn, first);
    assert_eq!(ended.results["first"]["text"], turn.context.traceparent());
    assert_eq!((text(first, "nerve.step"), text(first, "nerve.node.kind")), ("first".into(), "bash".into()));

    let flaky = step("flaky");
    assert_eq!((turns(flaky).len(), number(flaky, "nerve.attempts"), flaky.events.len()), (2, 2, 1));
    assert_eq!(flaky.events[0].name, "nerve.retry");
    assert_eq!(flaky.events[0].attributes.get("error.type"), Some(&Attribute::Text("process_error".into())));
    assert_eq!(flaky.status, Status::Unset);

    // The step as a whole contains its items.
    let each: Vec<&Span> = spans.iter().filter(|span| span.name == "graph.step each").collect();
    let whole = *each.iter().find(|span| text(span, "nerve.step") == "each").unwrap();
    assert_nested(whole, run);
    let mut items: Vec<String> = turns(whole).iter().map(|item| text(item, "nerve.step")).collect();
    items.sort();
    assert_eq!(items, ["each[0]", "each[1]"]);

    // A terminal program outlives its turns, so it gets the span that created it.
    assert_eq!(ended.results["typed"]["text"], run.context.traceparent());
    let nested = step("nested");
    let inner = find_span(&spans, "graph.run inner");
    assert_nested(inner, nested);
    assert_nested(step("deep"), inner);
    assert!(spans.iter().all(|span| span.context.trace_id() == caller().trace_id()));
}

#[tokio::test]
async fn failure_is_recorded_in_all_enclosing_spans() {
    let harness = TelemetryHarness::new();
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "bash"}},
        "steps": [{"id": "bad", "node": "sh", "input": "exit 7"}],
    });
    run(&harness.nodes.engine, graph).await;
    let spans = harness.finished_spans().await;
    for name in ["graph.run g", "graph.step bad", "turn sh"] {
        let span = find_span(&spans, name);
        assert_eq!(text(span, "error.type"), "process_error", "{span:#?}");
        assert!(matches!(&span.status, Status::Error(why) if why.contains('7')), "{span:#?}");
    }
    assert_eq!(text(find_span(&spans, "graph.run g"), "nerve.status"), "failed");
}

#[tokio::test]
async fn resumed_run_continues_its_trace() {
    let harness = TelemetryHarness::new();
    let gate = json!({"graph": "g", "steps": [{"id": "ask", "gate": {"question": "Continue?"}}]});
    let begin = ExecuteGraph {
        definition: gate.as_object().unwrap().clone(),
        run_id: Some("r-1".into()),
        detach: true,
        traceparent: Some(caller().traceparent()),
        tracestate: caller().tracestate().map(str::to_string),
        ..ExecuteGraph::default()
    };
    harness.nodes.engine.execute_graph(begin, Default::default()).await.unwrap();
    harness.nodes.engine.shut_down(false).await;
    let (telemetry, spans) = Telemetry::new(TelemetrySetup::default());
    let second = engine(&harness.nodes, telemetry);
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
    let resumed = TelemetryHarness { nodes: Harness { engine: second, ..Harness::new() }, spans };
    let (before, after) = (harness.finished_spans().await, resumed.finished_spans().await);
    let (before, after) = (find_span(&before, "graph.run g"), find_span(&after, "graph.run g"));
    assert_eq!(after.parent, Some(before.context.span_id()));
    assert_eq!(after.context.trace_id(), caller().trace_id());
    assert_eq!(after.attributes.get("nerve.resumed"), Some(&Attribute::Bool(true)));
}

#[tokio::test]
async fn api_calls_nest_in_turn_and_propagate_context() {
    let tool = ToolCall::Own { name: "sh_run".into(), input: json!({"command": "printenv TRACEPARENT"}) };
    let script = Script::default().first([Answer::error(529, "busy"), Answer::tool("I look.", tool)]);
    let (harness, model) = (TelemetryHarness::new(), model(script).await);
    harness.bash("sh").await;
    let chat = ChatSpec { tools: vec!["sh".into()], ..chat(Provider::Anthropic, &model) };
    harness.nodes.engine.create(spec(&harness.nodes, "c", chat)).await.unwrap();
    let execute = traced(harness.nodes.execute("c", SECRET));
    harness.nodes.run(execute).await.unwrap();
    let spans = harness.finished_spans().await;
    let turn = find_span(&spans, "invoke_agent c");
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
        assert_nested(call, turn);
        assert_eq!((call.kind, text(call, "gen_ai.operation.name")), (SpanKind::Client, "chat".into()));
        assert_eq!(
            (text(call, "server.address"), text(call, "gen_ai.request.model")),
            ("127.0.0.1".into(), "test-model".into())
        );
    }
    // A retry is not a separate call.
    assert_eq!((first.events.len(), number(first, "nerve.retries"), second.events.len()), (1, 1, 0));
    let sent: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.headers.iter().find(|(name, _)| name == "traceparent").unwrap().1.clone())
        .collect();
    let [first, second] = [first, second].map(|call| call.context.traceparent());
    assert_eq!(sent, [first.clone(), first, second]);
    assert_nested(find_span(&spans, "turn sh"), turn);
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn agent_content_is_captured_only_if_enabled() {
    for captures_content in [false, true] {
        let mut harness =
            TelemetryHarness::with(TelemetrySetup { captures_content, ..TelemetrySetup::default() });
        harness.nodes.start_mock("agent", &[]).await;
        harness.nodes.ask("agent", SECRET).await;
        let turn = harness.spans.next().await.unwrap();
        assert_eq!(
            (turn.name.as_ref(), text(&turn, "nerve.profile").as_str()),
            ("invoke_agent agent", "claude")
        );
        assert_eq!(text(&turn, "gen_ai.provider.name"), "anthropic");
        assert!(["submitted", "started"].contains(&text(&turn, "nerve.delivery").as_str()), "{turn:#?}");
        assert_eq!(format!("{turn:?}").contains(SECRET), captures_content, "{turn:#?}");
        if captures_content {
            let input: Value = serde_json::from_str(&text(&turn, "gen_ai.input.messages")).unwrap();
            assert_eq!(input[0]["parts"][0]["content"], SECRET);
            let output: Value = serde_json::from_str(&text(&turn, "gen_ai.output.messages")).unwrap();
            assert!(output[0]["parts"][0]["content"].as_str().unwrap().contains(SECRET), "{output}");
        }
        harness.nodes.stop("agent").await;
        // A shell is not an agent: its input and output are never captured.
        harness.bash("sh").await;
        harness.nodes.ask("sh", &format!("echo {SECRET}; exit 1")).await;
        let turn = harness.spans.next().await.unwrap();
        assert!(turn.name == "turn sh" && !format!("{turn:?}").contains(SECRET), "{turn:#?}");
    }
}

#[tokio::test]
async fn webhook_receives_span_context() {
    // The scripted model serves as a webhook because it records its requests.
    let (mut harness, webhook_server) = (TelemetryHarness::new(), model(Script::default()).await);
    harness.bash("sh").await;
    let webhook = WebhookTarget { url: format!("{}/v1/messages", webhook_server.url()), secret: None };
    let request = ExecuteInput {
        is_async: true,
        webhook: Some(webhook),
        ..traced(harness.nodes.execute("sh", "echo done"))
    };
    harness.nodes.engine.execute_input(request, Default::default()).await.unwrap();
    let mut spans = Vec::new();
    while spans.len() < 2 {
        let span = tokio::time::timeout(Duration::from_secs(60), harness.spans.next()).await.unwrap();
        spans.push(span.unwrap());
    }
    let (result, turn) = (find_span(&spans, "result sh"), find_span(&spans, "turn sh"));
    assert_eq!((result.parent, text(result, "nerve.status")), (Some(caller().span_id()), "done".into()));
    assert_nested(turn, result);
    let sent =
        webhook_server.requests()[0].headers.iter().find(|(name, _)| name == "traceparent").cloned().unwrap();
    assert_eq!(sent.1, result.context.traceparent());
}

#[tokio::test]
async fn failed_command_and_abandoned_turn_have_spans() {
    let mut harness = TelemetryHarness::new();
    harness.bash("sh").await;
    let run = RunCommand {
        node_id: "missing".into(),
        command: "x".into(),
        traceparent: Some(caller().traceparent()),
        ..RunCommand::default()
    };
    harness.nodes.engine.run_command(run, Default::default()).await.unwrap_err();
    let span = harness.spans.next().await.unwrap();
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("run missing", "not_found_error"));
    assert_eq!(span.parent, Some(caller().span_id()));
    let engine = harness.nodes.engine.clone();
    let execute = harness.nodes.execute("sh", "sleep 600");
    let turn_task = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.nodes.wait("sh", nerve_core::command::StateName::Busy).await.unwrap();
    turn_task.abort();
    let span = tokio::time::timeout(LIMIT, harness.spans.next()).await.unwrap().unwrap();
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("turn sh", "cancelled"));
}

#[tokio::test]
async fn proxy_calls_nest_in_their_turn() {
    let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
    let harness = ProxyHarness::with_telemetry(telemetry).await;
    harness.create(harness.spec("a", harness.proxy(ProxyKind::Anthropic))).await.unwrap();
    harness.nodes.ask("a", &format!("{} {SECRET}", harness.script())).await;
    spans.close();
    let (call, turn) = (spans.next().await.unwrap(), spans.next().await.unwrap());
    assert_eq!((call.name.as_ref(), turn.name.as_ref()), ("chat m-1", "turn a"));
    assert_eq!((call.parent, call.kind), (Some(turn.context.span_id()), SpanKind::Client));
    assert_eq!((number(&call, "nerve.turn"), number(&call, "http.response.status_code")), (1, 200));
    assert_eq!(number(&call, "gen_ai.usage.output_tokens"), number(&turn, "gen_ai.usage.output_tokens"));
    assert!(spans.next().await.is_none() && !format!("{call:?}{turn:?}").contains(SECRET));
}
