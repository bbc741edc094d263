//! Failures of steps.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::function::FunctionNode;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, OnFailure, step::Step};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::harness::assert_error;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Notes, chain, constant, context, delayed_echo, endless, error, failing, run};

const SECOND: Duration = Duration::from_secs(1);

/// `bad` fails after a second; `slow` takes ten; `child` depends on `bad`, `cousin` on `slow`, `later` on nothing.
fn forest(notes: &Notes, on_failure: OnFailure) -> Graph {
    let bad = Arc::new(FunctionNode::asynchronous("bad", |_| async {
        tokio::time::sleep(SECOND).await;
        Err(error("broken"))
    }));
    let mut graph = Graph::new("forest");
    graph.set_max_parallel(3).set_on_failure(on_failure);
    graph.add_step(constant("n", json!("here")), Step::new("first")).unwrap();
    graph.add_step(bad, Step::new("bad").depends_on(["first"])).unwrap();
    graph
        .add_step(delayed_echo("slow", 10 * SECOND), Step::new("slow").input("done").depends_on(["first"]))
        .unwrap();
    graph.add_step(notes.node("child"), Step::new("child").depends_on(["bad"])).unwrap();
    graph.add_step(notes.node("grandchild"), Step::new("grandchild").depends_on(["child", "slow"])).unwrap();
    graph.add_step(notes.node("cousin"), Step::new("cousin").depends_on(["slow"])).unwrap();
    graph
}

#[tokio::test(start_paused = true)]
async fn stop_cancels_running_steps() {
    let notes = Notes::default();
    let tracer = Tracer::new("forest");
    let started = Instant::now();
    let run = forest(&notes, OnFailure::Stop).run(&context().with_trace(tracer.clone())).await;
    assert_eq!(started.elapsed().as_secs(), 1);
    assert_eq!(run.status, TraceStatus::Failed);
    assert_eq!(run.error.unwrap().message, "broken");
    assert_eq!(json!(run.results), json!({"first": "here"}));
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(notes.all(), [""; 0]);
    let trace = tracer.snapshot();
    assert_eq!((trace.status, trace.error.as_deref()), (TraceStatus::Failed, Some("broken")));
    let of = |id: &str| trace.steps.iter().find(|step| &*step.step_id == id).unwrap().error.clone();
    assert_eq!((of("bad").as_deref(), of("slow").as_deref()), (Some("broken"), Some("cancelled")));
}

#[tokio::test(start_paused = true)]
async fn finish_runs_independent_steps() {
    let notes = Notes::default();
    let started = Instant::now();
    let run = run(&forest(&notes, OnFailure::Finish)).await;
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(run.status, TraceStatus::Failed);
    assert_eq!(run.error.unwrap().message, "broken");
    assert_eq!(json!(run.results), json!({"first": "here", "slow": "done", "cousin": null}));
    assert_eq!(notes.all(), ["cousin"]);
}

#[tokio::test]
async fn first_failure_is_reported() {
    let mut graph = Graph::new("g");
    graph.set_on_failure(OnFailure::Finish);
    graph.add_step(failing("one", "first"), Step::new("a")).unwrap();
    graph.add_step(failing("two", "second"), Step::new("b")).unwrap();
    assert_eq!(run(&graph).await.error.unwrap().message, "first");
}

#[tokio::test]
async fn reply_with_success_false_is_a_failure() {
    let reply = json!({
        "success": false, "error": "exit code 3", "error_type": "timeout", "attributes": {"stderr": "cannot\n"}
    });
    let error = run(&chain("g", [("a", constant("n", reply))])).await.error.unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Timeout, "exit code 3"));
    assert_eq!(error.screen.as_deref(), Some("cannot\n"));
    let bare = run(&chain("g", [("a", constant("n", json!({"success": false})))])).await.error.unwrap();
    assert_eq!(bare.kind, ErrorKind::Process);
    for fine in
        [json!({"success": true}), json!({"success": "false"}), json!([{"success": false}]), json!(false)]
    {
        assert_eq!(run(&chain("g", [("a", constant("n", fine))])).await.status, TraceStatus::Completed);
    }
}

/// Runs `step` after a successful one; returns the error of the run, which has a partial result and a trace.
async fn run_failing(step: Step, node: FunctionNode) -> EngineError {
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!("kept")), Step::new("good")).unwrap();
    graph.add_step(Arc::new(node), step.depends_on(["good"])).unwrap();
    let tracer = Tracer::new("g");
    let run = graph.run(&context().with_trace(tracer.clone())).await;
    assert_eq!(json!(run.results), json!({"good": "kept"}));
    assert_eq!(run.status, TraceStatus::Failed);
    assert_eq!(tracer.snapshot().status, TraceStatus::Failed);
    let error = run.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Internal);
    error
}

fn succeeds() -> FunctionNode {
    FunctionNode::new("fine", |_| Ok(Value::Null))
}

#[tokio::test]
async fn panicking_node_fails_its_step() {
    let sync = FunctionNode::new("sync", |_| panic!("at {}", 1));
    assert_error(&run_failing(Step::new("a"), sync).await, ErrorKind::Internal, &["'sync'"]);
    let waiting = FunctionNode::asynchronous("async", |_| async {
        tokio::task::yield_now().await;
        panic!("while it waits")
    });
    assert_error(&run_failing(Step::new("a"), waiting).await, ErrorKind::Internal, &["'async'"]);
    let early = FunctionNode::asynchronous("early", |context| {
        assert!(context.input.is_string(), "before its future is there");
        std::future::ready(Ok(Value::Null))
    });
    let facts = ["'early'", "before its future is there"];
    assert_error(&run_failing(Step::new("a"), early).await, ErrorKind::Internal, &facts);
    let blocking = FunctionNode::blocking("blocking", |_| panic!("in its thread"));
    run_failing(Step::new("a"), blocking).await;
}

#[tokio::test]
async fn panicking_step_function_fails_its_step() {
    let input = Step::new("a").input_fn(|_| panic!("no such page"));
    assert_error(&run_failing(input, succeeds()).await, ErrorKind::Internal, &["'a'", "input:"]);
    let when = Step::new("a").when(|_| panic!("neither"));
    assert_error(&run_failing(when, succeeds()).await, ErrorKind::Internal, &["'a'", "when:", "neither"]);
    let each = Step::new("a").foreach(|_| panic!("no list"), 1);
    assert_error(&run_failing(each, succeeds()).await, ErrorKind::Internal, &["'a'", "foreach:"]);
    let until = Step::new("a").until(|_| panic!("never"), 3);
    assert_error(&run_failing(until, succeeds()).await, ErrorKind::Internal, &["'a'", "until:", "never"]);
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_endless_graph() {
    let graph =
        chain("g", [("a", constant("n", json!(1))), ("b", endless("e")), ("c", constant("n", json!(1)))]);
    let started = Instant::now();
    let run = graph.run(&context().with_timeout(5 * SECOND)).await;
    assert_eq!(started.elapsed().as_secs(), 5);
    let error = run.error.unwrap();
    assert_error(&error, ErrorKind::Timeout, &["'g'", "5s"]);
    assert_eq!(json!(run.results), json!({"a": 1}));
}

#[tokio::test]
async fn time_limit_ends_steps_that_never_wait() {
    let mut graph = Graph::new("g");
    let started = std::time::Instant::now();
    let limit = Duration::from_millis(20);
    let busy = Arc::new(FunctionNode::new("busy", move |_| {
        // A fallback end, in case the limit does not work.
        Ok(json!(started.elapsed() < Duration::from_secs(20)))
    }));
    let again = Step::new("again").until(|scope| Ok(scope.result == Some(&json!(false))), u32::MAX);
    graph.add_step(busy, again).unwrap();
    let run = graph.run(&context().with_timeout(limit)).await;
    assert_eq!(run.error.unwrap().kind, ErrorKind::Timeout);
}
