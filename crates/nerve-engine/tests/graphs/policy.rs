//! Error policies. Time is paused in these tests and advances only by waiting.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::event::StepEventKind;
use nerve_graph::executable::Executable;
use nerve_graph::function::FunctionNode;
use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, GraphRun, executable::Target, step::Step};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Notes, constant, context, echo, endless, error, failing, failing_first, run};

const ALL: [OnError; 4] = [OnError::Fail, OnError::Retry, OnError::Skip, OnError::Fallback];

fn policy(on_error: OnError) -> ErrorPolicy {
    ErrorPolicy { on_error, ..ErrorPolicy::default() }
}

fn one_step(node: impl Into<Executable>, policy: ErrorPolicy) -> Graph {
    let mut graph = Graph::new("g");
    graph.add_step(node, Step::new("a").input("in").error_policy(policy)).unwrap();
    graph
}

async fn run_with(node: impl Into<Executable>, policy: ErrorPolicy) -> GraphRun {
    run(&one_step(node, policy)).await
}

fn error_message(run: GraphRun) -> String {
    run.error.unwrap().message
}

#[tokio::test(start_paused = true)]
async fn fail_fails_the_run() {
    let run = run_with(failing("f", "no"), policy(OnError::Fail)).await;
    assert_eq!((run.status, error_message(run).as_str()), (TraceStatus::Failed, "no"));
}

#[tokio::test(start_paused = true)]
async fn retries_apply_to_any_on_error_with_backoff() {
    for on_error in ALL {
        let times = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (seen, started) = (Arc::clone(&times), Instant::now());
        let node = Arc::new(FunctionNode::new("f", move |_| {
            seen.lock().unwrap().push(started.elapsed().as_millis());
            Err(error("again"))
        }));
        let policy = ErrorPolicy {
            retry_count: 4,
            retry_delay: Duration::from_millis(100),
            retry_backoff: 3.0,
            fallback_node: Some(Target::Executable(echo("stand-in").into())),
            ..policy(on_error)
        };
        run_with(node, policy).await;
        // 100, 300, 900 and 2700 milliseconds between them.
        assert_eq!(*times.lock().unwrap(), [0, 100, 400, 1300, 4000], "{on_error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn last_retry_can_succeed() {
    for on_error in ALL {
        let policy = ErrorPolicy {
            retry_count: 2,
            fallback_node: Some(Target::Executable(failing("stand-in", "not called").into())),
            ..policy(on_error)
        };
        assert_eq!(run_with(failing_first("f", 2), policy.clone()).await.results["a"], json!(3));
        let too_many = run_with(failing_first("f", 3), policy).await;
        assert_eq!(too_many.results.get("a"), (on_error == OnError::Skip).then_some(&json!(null)));
    }
}

#[tokio::test(start_paused = true)]
async fn error_is_that_of_the_last_attempt() {
    let policy = ErrorPolicy { retry_count: 2, ..policy(OnError::Retry) };
    assert_eq!(error_message(run_with(failing_first("f", 9), policy).await), "failure 3");
}

#[tokio::test(start_paused = true)]
async fn skip_uses_fallback_value() {
    let notes = Notes::default();
    let value = ErrorPolicy { fallback_value: json!({"text": "none"}), ..policy(OnError::Skip) };
    let mut graph = one_step(failing("f", "no"), value);
    graph.add_step(notes.node("b"), Step::new("b").depends_on(["a"])).unwrap();
    let run = run(&graph).await;
    assert_eq!((run.status, &run.results["a"]), (TraceStatus::Completed, &json!({"text": "none"})));
    assert_eq!(notes.all(), ["b"]);
    assert_eq!(run_with(failing("f", "no"), policy(OnError::Skip)).await.results["a"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn fallback_gets_same_context_and_its_failure_counts() {
    let stand_in = FunctionNode::new("stand-in", |context| {
        Ok(
            json!({"input": context.input, "upstream": context.upstream.to_value(), "parser": context.parser.map(|p| p.to_string())}),
        )
    });
    let fallback = |node| ErrorPolicy { fallback_node: Some(node), ..policy(OnError::Fallback) };
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!(1)), Step::new("before")).unwrap();
    let step =
        Step::new("a").input("in").depends_on(["before"]).parser(nerve_agent::parse::ParserKind::Claude);
    graph
        .add_step(
            failing("f", "no"),
            step.error_policy(fallback(Target::Executable(Arc::new(stand_in).into()))),
        )
        .unwrap();
    let results = run(&graph).await.results;
    assert_eq!(results["a"], json!({"input": "in", "upstream": {"before": 1}, "parser": "claude"}));

    let broken =
        run_with(failing("f", "no"), fallback(Target::Executable(failing("g", "neither").into()))).await;
    assert_eq!(error_message(broken), "neither");
    let missing = run_with(failing("f", "no"), fallback(Target::Name("missing".into()))).await;
    assert_error(&missing.error.unwrap(), ErrorKind::NotFound, &["'a'", "'missing'", "'test'"]);
    let says_no = run_with(
        failing("f", "no"),
        fallback(Target::Executable(constant("g", json!({"success": false})).into())),
    )
    .await;
    assert_eq!(says_no.status, TraceStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn failed_reply_triggers_retry_skip_and_fallback() {
    let no = || constant("n", json!({"success": false, "error": "exit code 1"}));
    let skip = ErrorPolicy { fallback_value: json!("skipped"), ..policy(OnError::Skip) };
    assert_eq!(run_with(no(), skip).await.results["a"], json!("skipped"));
    let fallback = ErrorPolicy {
        fallback_node: Some(Target::Executable(echo("e").into())),
        ..policy(OnError::Fallback)
    };
    assert_eq!(run_with(no(), fallback).await.results["a"], json!("in"));
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let twice = Arc::new(FunctionNode::new("twice", move |_| {
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(json!({"success": call > 0}))
    }));
    let retry = ErrorPolicy { retry_count: 1, ..policy(OnError::Retry) };
    assert_eq!(run_with(twice, retry).await.results["a"], json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_each_attempt() {
    let started = Instant::now();
    let limited = |on_error| ErrorPolicy {
        retry_count: 2,
        retry_delay: Duration::from_secs(1),
        retry_backoff: 1.0,
        timeout: Some(Duration::from_secs(10)),
        fallback_value: json!("late"),
        ..policy(on_error)
    };
    let failed = run_with(endless("endless"), limited(OnError::Retry)).await;
    assert_eq!(started.elapsed().as_secs(), 3 * 10 + 2);
    assert_error(&failed.error.unwrap(), ErrorKind::Timeout, &["'endless'", "10s"]);
    assert_eq!(run_with(endless("endless"), limited(OnError::Skip)).await.results["a"], json!("late"));
}

#[tokio::test(start_paused = true)]
async fn graph_step_is_timed_out_and_retried() {
    let inner = Arc::new(crate::harness::chain("inner", [("x", endless("e"))]));
    let limited =
        ErrorPolicy { retry_count: 1, timeout: Some(Duration::from_secs(10)), ..policy(OnError::Fail) };
    let started = Instant::now();
    let failed = run_with(inner, limited).await;
    assert_eq!(started.elapsed().as_secs(), 21);
    assert_error(&failed.error.unwrap(), ErrorKind::Timeout, &["'inner'", "10s"]);
    let fails_once = Arc::new(crate::harness::chain("inner", [("x", failing_first("f", 1))]));
    let retry_policy = ErrorPolicy { retry_count: 1, ..policy(OnError::Fail) };
    assert_eq!(run_with(fails_once, retry_policy).await.results["a"], json!({"x": 2}));
}

#[tokio::test(start_paused = true)]
async fn attempts_appear_in_events_and_trace() {
    let retry_policy = ErrorPolicy { retry_count: 2, ..policy(OnError::Retry) };
    let graph = one_step(failing_first("f", 2), retry_policy);
    let tracer = Tracer::new("g");
    let mut events = graph.execute_stream(context().with_trace(tracer.clone()));
    let mut retries = Vec::new();
    while let Some(event) = events.next().await {
        if let StepEventKind::Retry { attempt, delay_ms, error_type } = event.kind {
            retries.push((attempt, delay_ms, error_type, event.data.as_str().unwrap().to_string()));
        }
    }
    let retry = |attempt, delay, message: &str| (attempt, delay, ErrorKind::Process, message.to_string());
    assert_eq!(retries, [retry(2, 1000, "failure 1"), retry(3, 2000, "failure 2")]);
    let trace = tracer.snapshot();
    assert_eq!(trace.steps.len(), 1);
    assert_eq!(trace.steps[0].metadata["attempts"], json!(3));
    assert_eq!(trace.steps[0].duration_ms(), 3000);
}

#[test]
fn delays_are_bounded() {
    let policy =
        ErrorPolicy { retry_delay: Duration::MAX, retry_backoff: f64::MAX, ..ErrorPolicy::default() };
    assert_eq!(policy.delay(0), Duration::from_secs(3600));
    assert_eq!(policy.delay(u32::MAX), Duration::from_secs(3600));
    let none = ErrorPolicy { retry_delay: Duration::ZERO, ..ErrorPolicy::default() };
    assert_eq!(none.delay(u32::MAX), Duration::ZERO);
    let flat = ErrorPolicy { retry_backoff: 1.0, ..ErrorPolicy::default() };
    assert_eq!(flat.delay(1_000_000), Duration::from_secs(1));
}
