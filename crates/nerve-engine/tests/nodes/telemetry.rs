//! Spans: attributes, nesting, and the context passed to programs and APIs.

use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::{ExecuteGraph, ExecuteInput, ResumeRun, RunCommand, RunOptions, WebhookTarget};
use nerve_api::value::BackendKind;
use nerve_engine::{Engine, EngineConfig};
use nerve_node::chat::{ChatSettings, Provider};
use nerve_node::factory::FactoryConfig;
use nerve_node::telemetry::{Telemetry, TraceContext};
use nerve_testkit::mock_model::{Answer, MockModel, Script, ToolCall};
use opentelemetry::Value as Attribute;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::{Sampler, SpanData};
use serde_json::{Value, json};

use crate::chat::{chat, spec};
use crate::harness::{Harness, LIMIT};
use crate::proxy::harness::ProxyHarness;
use crate::span_receiver::{SpanReceiver, attribute};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "pr0mpt-that-must-not-leak";

/// An engine, and the spans it produces.
struct TelemetryHarness {
    nodes: Harness,
    spans: SpanReceiver,
}

impl TelemetryHarness {
    fn new() -> TelemetryHarness {
        TelemetryHarness::with(Telemetry::default())
    }

    fn with(telemetry: Telemetry) -> TelemetryHarness {
        TelemetryHarness { nodes: harness(telemetry), spans: SpanReceiver::new(Sampler::AlwaysOn) }
    }

    async fn bash(&self, node: &str) {
        let mut spec = self.nodes.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.nodes.engine.create(spec).await.unwrap();
    }
}

fn harness(telemetry: Telemetry) -> Harness {
    let mut harness = Harness::new();
    harness.engine = engine(&harness, telemetry);
    harness
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
    let (traceparent, tracestate) = (caller().traceparent(), caller().tracestate());
    ExecuteInput { traceparent: Some(traceparent), tracestate, ..request }
}

fn run_options() -> RunOptions {
    RunOptions {
        run_id: Some("r-1".into()),
        traceparent: Some(caller().traceparent()),
        tracestate: caller().tracestate(),
        ..RunOptions::default()
    }
}

async fn run(engine: &Engine, graph: Value) -> RunEnded {
    let request = ExecuteGraph {
        definition: graph.as_object().unwrap().clone(),
        options: run_options(),
        ..ExecuteGraph::default()
    };
    match tokio::time::timeout(LIMIT, engine.execute_graph(request, Default::default())).await.unwrap() {
        Ok(RunReply::Ended(ended)) => *ended,
        Err(error) => *error.details.unwrap().ended.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn find_span<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    let mut found = spans.iter().filter(|span| span.name == name);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {names:?}"));
    assert!(found.next().is_none(), "more than one {name}: {names:?}");
    span
}

fn assert_nested(inner: &SpanData, outer: &SpanData) {
    assert_eq!(inner.parent_span_id, outer.span_context.span_id(), "{} is not in {}", inner.name, outer.name);
    assert_eq!(inner.span_context.trace_id(), outer.span_context.trace_id());
    assert!(
        outer.start_time <= inner.start_time && inner.end_time <= outer.end_time,
        "{} is not within {}",
        inner.name,
        outer.name
    );
}

fn text(span: &SpanData, name: &str) -> String {
    match attribute(span, name) {
        Some(Attribute::String(text)) => text.to_string(),
        other => panic!("{name} of {}: {other:?}", span.name),
    }
}

/// Returns the `traceparent` of a sampled span.
fn traceparent(span: &SpanData) -> String {
    format!("00-{}-{}-01", span.span_context.trace_id(), span.span_context.span_id())
}

fn caller_span() -> SpanId {
    caller().span_context().span_id()
}

fn number(span: &SpanData, name: &str) -> i64 {
    match attribute(span, name) {
        Some(Attribute::I64(number)) => *number,
        other => panic!("{name} of {}: {other:?}", span.name),
    }
}

#[tokio::test]
async fn command_receives_its_span_context() {
    let mut harness = TelemetryHarness::new();
    harness.bash("sh").await;
    let prompt = format!("printenv TRACEPARENT TRACESTATE; : {SECRET}; echo {SECRET}");
    let execute = traced(harness.nodes.execute("sh", &prompt));
    let output = harness.nodes.run(execute).await.unwrap().text;
    let failing = harness.nodes.ask("sh", "exit 3").await;
    assert_eq!(failing.attributes["exit_code"], 3);
    let spans = harness.spans.received();
    let [turn, failed] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(output, format!("{}\nvendor=1\n{SECRET}", traceparent(turn)));
    assert_eq!((turn.parent_span_id, turn.parent_span_is_remote), (caller_span(), true));
    assert_eq!(turn.span_context.trace_id(), caller().span_context().trace_id());
    assert_eq!(turn.span_kind, SpanKind::Internal);
    assert_eq!((turn.name.as_ref(), text(turn, "nerve.node").as_str()), ("turn sh", "sh"));
    assert_eq!(
        (text(turn, "nerve.session"), text(turn, "nerve.delivery")),
        ("default".into(), "started".into())
    );
    assert_eq!((text(turn, "nerve.source"), number(turn, "nerve.turn")), ("process".into(), 1));
    assert_eq!((number(turn, "process.exit.code"), &turn.status), (0, &Status::Unset));
    assert!(attribute(turn, "gen_ai.operation.name").is_none(), "a shell is not an agent");
    // A turn without a caller has its own trace; this one failed.
    assert_eq!(
        (failed.parent_span_id, text(failed, "error.type")),
        (SpanId::INVALID, "process_error".into())
    );
    assert_ne!(failed.span_context.trace_id(), turn.span_context.trace_id());
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn callers_span_is_passed_on_without_telemetry() {
    let harness = harness(Telemetry::default());
    let mut spec = harness.spec("sh", &[]);
    spec.backend = BackendKind::Bash;
    harness.engine.create(spec).await.unwrap();
    let execute = traced(harness.execute("sh", "printenv TRACEPARENT TRACESTATE"));
    assert_eq!(harness.run(execute).await.unwrap().text, format!("{CALLER}\nvendor=1"));
}

#[tokio::test]
async fn spans_nest_run_step_and_turn() {
    let mut harness = TelemetryHarness::new();
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
    let spans = harness.spans.received();
    let run = find_span(&spans, "graph.run outer");
    assert_eq!((run.parent_span_id, run.parent_span_is_remote), (caller_span(), true));
    assert_eq!((text(run, "nerve.run"), text(run, "nerve.status")), ("r-1".into(), "completed".into()));
    assert_eq!(text(run, "gen_ai.operation.name"), "invoke_workflow");

    let step = |name: &str| find_span(&spans, &format!("graph.step {name}"));
    let turns = |step: &SpanData| -> Vec<SpanData> {
        spans.iter().filter(|span| span.parent_span_id == step.span_context.span_id()).cloned().collect()
    };
    let first = step("first");
    assert_nested(first, run);
    let turn = &turns(first)[0];
    assert_nested(turn, first);
    assert_eq!(ended.results["first"]["text"], traceparent(turn));
    assert_eq!((text(first, "nerve.step"), text(first, "nerve.node.kind")), ("first".into(), "bash".into()));

    let flaky = step("flaky");
    assert_eq!((turns(flaky).len(), number(flaky, "nerve.attempts"), flaky.events.len()), (2, 2, 1));
    assert_eq!(flaky.events[0].name, "nerve.retry");
    let retry = flaky.events[0].attributes.iter().find(|attribute| attribute.key.as_str() == "error.type");
    let retry_error = retry.map(|attribute| &attribute.value);
    assert_eq!(retry_error, Some(&Attribute::from("process_error")));
    assert_eq!(flaky.status, Status::Unset);

    // The step as a whole contains its items.
    let each: Vec<&SpanData> = spans.iter().filter(|span| span.name == "graph.step each").collect();
    let whole = *each.iter().find(|span| text(span, "nerve.step") == "each").unwrap();
    assert_nested(whole, run);
    let mut items: Vec<String> = turns(whole).iter().map(|item| text(item, "nerve.step")).collect();
    items.sort();
    assert_eq!(items, ["each[0]", "each[1]"]);

    // A terminal program outlives its turns, so it gets the span that created it.
    assert_eq!(ended.results["typed"]["text"], traceparent(run));
    let nested = step("nested");
    let inner = find_span(&spans, "graph.run inner");
    assert_nested(inner, nested);
    assert_nested(step("deep"), inner);
    assert!(spans.iter().all(|span| span.span_context.trace_id() == caller().span_context().trace_id()));
}

#[tokio::test]
async fn failure_is_recorded_in_all_enclosing_spans() {
    let mut harness = TelemetryHarness::new();
    let graph = json!({
        "graph": "g",
        "nodes": {"sh": {"type": "bash"}},
        "steps": [{"id": "bad", "node": "sh", "input": "exit 7"}],
    });
    run(&harness.nodes.engine, graph).await;
    let spans = harness.spans.received();
    for name in ["graph.run g", "graph.step bad", "turn sh"] {
        let span = find_span(&spans, name);
        assert_eq!(text(span, "error.type"), "process_error", "{span:#?}");
        assert!(
            matches!(&span.status, Status::Error { description } if description.contains('7')),
            "{span:#?}"
        );
    }
    assert_eq!(text(find_span(&spans, "graph.run g"), "nerve.status"), "failed");
}

#[tokio::test]
async fn resumed_run_continues_its_trace() {
    let mut harness = TelemetryHarness::new();
    let gate = json!({"graph": "g", "steps": [{"id": "ask", "gate": {"question": "Continue?"}}]});
    let begin =
        ExecuteGraph { definition: gate.as_object().unwrap().clone(), options: run_options(), detach: true };
    harness.nodes.engine.execute_graph(begin, Default::default()).await.unwrap();
    harness.nodes.engine.shut_down(false).await;
    let before = harness.spans.received();
    let second = engine(&harness.nodes, Telemetry::default());
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
    let after = harness.spans.received();
    let (before, after) = (find_span(&before, "graph.run g"), find_span(&after, "graph.run g"));
    assert_eq!(after.parent_span_id, before.span_context.span_id());
    assert_eq!(after.span_context.trace_id(), caller().span_context().trace_id());
    assert_eq!(attribute(after, "nerve.resumed"), Some(&Attribute::Bool(true)));
}

#[tokio::test]
async fn api_calls_nest_in_turn_and_propagate_context() {
    let tool = ToolCall::Own { name: "sh_run".into(), input: json!({"command": "printenv TRACEPARENT"}) };
    let script = Script::default().first([Answer::error(529, "busy"), Answer::tool("I look.", tool)]);
    let (mut harness, model) = (TelemetryHarness::new(), MockModel::start(script).await);
    harness.bash("sh").await;
    let chat = ChatSettings { tools: vec!["sh".into()], ..chat(Provider::Anthropic, &model) };
    harness.nodes.engine.create(spec(&harness.nodes, "c", chat)).await.unwrap();
    let execute = traced(harness.nodes.execute("c", SECRET));
    harness.nodes.run(execute).await.unwrap();
    let spans = harness.spans.received();
    let turn = find_span(&spans, "invoke_agent c");
    assert_eq!(
        (turn.parent_span_id, text(turn, "gen_ai.operation.name")),
        (caller_span(), "invoke_agent".into())
    );
    assert_eq!(
        (text(turn, "gen_ai.provider.name"), text(turn, "gen_ai.agent.name")),
        ("anthropic".into(), "c".into())
    );
    assert!(number(turn, "gen_ai.usage.input_tokens") > 0 && number(turn, "gen_ai.usage.output_tokens") > 0);

    let calls: Vec<&SpanData> = spans.iter().filter(|span| span.name == "chat test-model").collect();
    let [first, second] = calls[..] else { panic!("{spans:#?}") };
    for call in [first, second] {
        assert_nested(call, turn);
        assert_eq!(
            (&call.span_kind, text(call, "gen_ai.operation.name")),
            (&SpanKind::Client, "chat".into())
        );
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
    let [first, second] = [first, second].map(traceparent);
    assert_eq!(sent, [first.clone(), first, second]);
    assert_nested(find_span(&spans, "turn sh"), turn);
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
}

#[tokio::test]
async fn agent_content_is_captured_only_if_enabled() {
    for captures_content in [false, true] {
        let mut harness = TelemetryHarness::with(Telemetry { captures_content });
        harness.nodes.start_mock("agent", &[]).await;
        harness.nodes.ask("agent", SECRET).await;
        let turn = harness.spans.next().await;
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
        let turn = harness.spans.next().await;
        assert!(turn.name == "turn sh" && !format!("{turn:?}").contains(SECRET), "{turn:#?}");
    }
}

#[tokio::test]
async fn webhook_receives_span_context() {
    // The scripted model serves as a webhook because it records its requests.
    let (mut harness, webhook_server) = (TelemetryHarness::new(), MockModel::start(Script::default()).await);
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
        spans.push(tokio::time::timeout(LIMIT, harness.spans.next()).await.unwrap());
    }
    let (result, turn) = (find_span(&spans, "result sh"), find_span(&spans, "turn sh"));
    assert_eq!((result.parent_span_id, text(result, "nerve.status")), (caller_span(), "done".into()));
    assert_nested(turn, result);
    let sent =
        webhook_server.requests()[0].headers.iter().find(|(name, _)| name == "traceparent").cloned().unwrap();
    assert_eq!(sent.1, traceparent(result));
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
    let span = harness.spans.next().await;
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("run missing", "not_found_error"));
    assert_eq!(span.parent_span_id, caller_span());
    let engine = harness.nodes.engine.clone();
    let execute = harness.nodes.execute("sh", "sleep 600");
    let turn_task = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.nodes.wait("sh", nerve_api::value::NodeState::Busy).await.unwrap();
    turn_task.abort();
    let span = tokio::time::timeout(LIMIT, harness.spans.next()).await.unwrap();
    assert_eq!((span.name.as_ref(), text(&span, "error.type").as_str()), ("turn sh", "cancelled"));
}

#[tokio::test]
async fn proxy_calls_nest_in_their_turn() {
    let mut spans = SpanReceiver::new(Sampler::AlwaysOn);
    let harness = ProxyHarness::new().await;
    harness.create(harness.spec("a", harness.proxy(Provider::Anthropic))).await.unwrap();
    harness.nodes.ask("a", &format!("{} {SECRET}", harness.script())).await;
    let spans = spans.received();
    let [call, turn] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((call.name.as_ref(), turn.name.as_ref()), ("chat m-1", "turn a"));
    assert_eq!((call.parent_span_id, &call.span_kind), (turn.span_context.span_id(), &SpanKind::Client));
    assert_eq!((number(call, "nerve.turn"), number(call, "http.response.status_code")), (1, 200));
    assert_eq!(number(call, "gen_ai.usage.output_tokens"), number(turn, "gen_ai.usage.output_tokens"));
    assert!(!format!("{spans:?}").contains(SECRET));
}
