//! Traces as a collector receives them from a server and from `nerve ask`, and behaviour if the collector fails.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

mod collector;
#[expect(dead_code, reason = "these tests need little of it")]
#[path = "../cli/harness.rs"]
mod harness;

use std::io::{Read, Write};
use std::process::Command;

use nerve_testkit::harness::{CommandOutput, Listener};
use nerve_testkit::wait_until;

use collector::{Collector, SILENT, attribute_of, parent_of};
use harness::{DEADLINE, Home};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: [u8; 16] =
    [0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];

const TWO: &str = "\
graph: two
nodes:
  sh: {type: bash}
steps:
  - {id: one, node: sh, input: printenv TRACEPARENT}
  - {id: other, node: sh, input: 'echo {{ steps.one.text }}', depends_on: [one]}
";

/// Prepares a command that exports its traces to `url` without delay.
fn traced(home: &Home, url: &str, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command
}

fn start(home: &Home, url: &str, more: &[(&str, &str)]) {
    let mut command = traced(home, url, &["server", "start"]);
    command.envs(more.iter().copied());
    assert_eq!(home.run(command).code, 0);
}

fn bash(home: &Home) {
    home.ok(&["server", "node", "create", "sh", "-b", "bash"]);
}

fn log(home: &Home) -> String {
    let folder = home.hermetic.root();
    let found = Command::new("find").arg(folder).args(["-name", "*.log"]).output().unwrap();
    let paths = String::from_utf8(found.stdout).unwrap();
    paths.lines().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn graph_is_one_trace_with_steps_and_turns() {
    let (home, collector) = (Home::new(), Collector::new(200));
    let more = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ];
    start(&home, &collector.url(), &more);
    std::fs::write(home.hermetic.work().join("two.yaml"), TWO).unwrap();
    let mut command = home.command(&["server", "graph", "run", "two.yaml", "--json"]);
    command.env("TRACEPARENT", CALLER);
    let done = home.run(command);
    assert_eq!(done.code, 0, "{done:?}");
    let run = collector.wait_for_span("graph.run two");
    let [one, other] = ["one", "other"].map(|step| collector.wait_for_span(&format!("graph.step {step}")));
    assert_eq!((run.trace_id.as_slice(), run.parent_span_id.len()), (&TRACE[..], 8));
    let spans = collector.spans();
    for step in [&one, &other] {
        assert_eq!(step.parent_span_id, run.span_id);
        let turn = spans.iter().find(|span| span.parent_span_id == step.span_id).unwrap();
        assert_eq!(turn.name, "turn sh");
        for (inner, outer) in [(step, &run), (turn, step)] {
            assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano, "{inner:?}");
            assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano, "{inner:?}");
        }
    }
    assert!(one.end_time_unix_nano <= other.start_time_unix_nano);
    assert!(spans.iter().all(|span| span.trace_id == TRACE), "{spans:#?}");
    let turn = spans.iter().find(|span| span.parent_span_id == one.span_id).unwrap();
    assert_eq!(done.json()["results"]["one"]["text"], parent_of(turn));
    assert_eq!(attribute_of(turn, "process.exit.code").unwrap(), "0");
    assert_eq!(
        (collector.resource("service.name"), collector.resource("nerve.server")),
        ("nerve".into(), "default".into())
    );
    assert_eq!(collector.resource("deployment.environment.name"), "test");
    assert_eq!(
        (collector.header("x-team"), collector.header("content-type")),
        ("blue".into(), "application/x-protobuf".into())
    );
}

#[test]
fn turns_join_the_callers_trace() {
    let (home, collector) = (Home::new(), Collector::new(200));
    let mut command = traced(&home, &collector.url(), &["server", "start"]);
    // A server has no parent span.
    command.env("TRACEPARENT", CALLER).env("OTEL_SERVICE_NAME", "my nerve");
    assert_eq!(home.run(command).code, 0);
    bash(&home);
    let execute = |parent: Option<&str>| {
        let mut command = home.command(&["server", "node", "execute", "sh", "echo $TRACEPARENT"]);
        command.envs(parent.map(|parent| ("TRACEPARENT", parent)));
        home.run(command)
    };
    let (with, without, bad) = (execute(Some(CALLER)), execute(None), execute(Some("00-zz")));
    assert!(with.stdout.starts_with(&CALLER[..36]), "{with:?}");
    assert!(without.code == 0 && !without.stdout.contains(&CALLER[3..35]), "{without:?}");
    // An invalid parent fails nothing.
    assert_eq!((bad.code, bad.stdout.trim().len()), (0, 55), "{bad:?}");
    assert!(bad.stderr.contains("traceparent"), "{bad:?}");
    home.ok(&["server", "stop"]);
    let _ = wait_until(DEADLINE, || collector.spans().len() >= 3);
    let turns = collector.spans();
    assert_eq!(turns.len(), 3, "{turns:#?}");
    assert_eq!(turns.iter().filter(|turn| turn.parent_span_id.is_empty()).count(), 2);
    assert_eq!(collector.resource("service.name"), "my nerve");
}

#[test]
fn ask_joins_the_callers_trace() {
    let (home, collector) = (Home::new(), Collector::new(200));
    let agent = format!("{} mock-agent", harness::NERVE);
    let ask = |more: &[(&str, &str)]| {
        let mut command =
            traced(&home, &collector.url(), &["ask", "--command", &agent, "--profile", "claude", "hello"]);
        command.env("TRACEPARENT", CALLER).envs(more.iter().copied());
        home.run(command)
    };
    let done = ask(&[]);
    assert_eq!(done.code, 0, "{done:?}");
    // Spans are exported before the command ends, without waiting for a batch.
    let spans = collector.spans();
    let [turn] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((turn.name.as_str(), turn.trace_id.as_slice()), ("invoke_agent ask", &TRACE[..]));
    assert_eq!(attribute_of(turn, "gen_ai.provider.name").unwrap(), "anthropic");
    assert!(!format!("{turn:?}").contains("hello"), "{turn:#?}");
    // No export if it is disabled.
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ] {
        assert_eq!(ask(&[off]).code, 0);
    }
    assert_eq!(collector.calls(), 1);
}

#[test]
fn nothing_is_exported_by_default() {
    let (home, collector) = (Home::new(), Collector::new(200));
    let mut command = home.command(&["server", "start"]);
    // All variables except an endpoint.
    command
        .env("OTEL_SERVICE_NAME", "x")
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_BSP_SCHEDULE_DELAY", "1");
    assert_eq!(home.run(command).code, 0);
    bash(&home);
    assert_eq!(home.ok(&["server", "node", "execute", "sh", "printenv TRACEPARENT || echo none"]), "none\n");
    home.ok(&["server", "stop"]);
    assert_eq!(collector.calls(), 0);
}

/// Checks that turns work with a failing collector and that the log has a warning.
fn check_server_survives(url: &str, why: &[&str]) {
    let home = Home::new();
    start(
        &home,
        url,
        &[
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ],
    );
    bash(&home);
    let done: Vec<CommandOutput> = (0..12)
        .map(|turn| home.nerve(&["server", "node", "execute", "sh", &format!("echo {turn}")]))
        .collect();
    for (turn, done) in done.iter().enumerate() {
        assert_eq!((done.code, done.stdout.as_str()), (0, format!("{turn}\n").as_str()), "{done:?}");
    }
    home.ok(&["server", "stop"]);
    // The stopping server gets a moment for its last spans.
    let _ = wait_until(DEADLINE, || log(&home).contains("lost"));
    let log = log(&home);
    assert!(log.contains("lost") && why.iter().all(|word| log.contains(word)), "{log}");
    // The warning is rate-limited.
    assert!(log.matches("lost").count() <= 3, "{log}");
}

#[test]
fn missing_collector_costs_a_warning() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check_server_survives(&format!("http://{gone}"), &["network"]);
}

#[test]
fn silent_collector_costs_a_warning() {
    check_server_survives(&Collector::new(SILENT).url(), &[]);
}

#[test]
fn failing_collector_costs_a_warning() {
    let collector = Collector::new(500);
    check_server_survives(&collector.url(), &["500"]);
    assert!(collector.calls() > 0 && collector.spans().is_empty());
}

#[test]
fn recovered_collector_gets_later_spans() {
    let (home, collector) = (Home::new(), Collector::new(503));
    start(&home, &collector.url(), &[]);
    bash(&home);
    home.ok(&["server", "node", "execute", "sh", "echo lost"]);
    assert!(wait_until(DEADLINE, || collector.calls() > 0));
    collector.answer_with(200);
    home.ok(&["server", "node", "execute", "sh", "echo kept"]);
    collector.wait_for_span("turn sh");
}

#[test]
fn failures_are_reported() {
    let home = Home::new();
    let agent = format!("{} mock-agent", harness::NERVE);
    let ask = |name: &str, value: &str| {
        let mut command = traced(
            &home,
            "http://127.0.0.1:9",
            &["ask", "--command", &agent, "--profile", "claude", "hello"],
        );
        command.env(name, value);
        home.run(command)
    };
    for (name, value) in
        [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url")]
    {
        let done = ask(name, value);
        assert!(done.code == 0 && done.stderr.contains("no traces are exported"), "{done:?}");
    }
    let done = ask("OTEL_TRACES_SAMPLER", "sometimes");
    assert!(done.code == 0 && done.stderr.contains("OTEL_TRACES_SAMPLER=sometimes"), "{done:?}");
}

#[test]
fn proxy_calls_join_client_traces() {
    let (home, collector) = (Home::new(), Collector::new(200));
    let model = Listener::start(home.command(&["mock-model"]));
    let args = ["proxy", "anthropic", "--upstream", model.url()];
    let proxy = Listener::start(traced(&home, &collector.url(), &args));
    let body = r#"{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":"pr0mpt"}]}"#;
    let address = proxy.address();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "POST /v1/messages HTTP/1.0\r\nhost: {address}\r\ntraceparent: {CALLER}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    let call = collector.wait_for_span("chat claude-x");
    assert_eq!(
        (call.trace_id.as_slice(), attribute_of(&call, "http.response.status_code").unwrap().as_str()),
        (&TRACE[..], "200")
    );
    assert!(!format!("{call:?}").contains("pr0mpt"), "{call:#?}");
}
