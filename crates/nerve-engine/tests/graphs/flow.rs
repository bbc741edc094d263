//! Control flow: `when`, `foreach` and `until`.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::event::{Completion, StepEventKind};
use nerve_graph::executable::Executable;
use nerve_graph::function::FunctionNode;
use nerve_graph::step::{Scope, Step};
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, GraphRun};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Notes, constant, context, echo, error, run};

async fn run_step(node: impl Into<Executable>, step: Step) -> GraphRun {
    let mut graph = Graph::new("g");
    graph.add_step(node, step).unwrap();
    run(&graph).await
}

fn numbers(count: i64) -> impl Fn(&Scope<'_>) -> Result<Vec<Value>, nerve_node::error::EngineError> {
    move |_| Ok((0..count).map(Value::from).collect())
}

fn item(scope: &Scope<'_>) -> Result<Value, nerve_node::error::EngineError> {
    Ok(json!([scope.index, scope.item]))
}

#[tokio::test]
async fn skipped_step_is_null_and_dependants_run() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!("rainy")), Step::new("weather")).unwrap();
    let is =
        |word: &'static str| move |scope: &Scope<'_>| Ok(scope.upstream.get("weather") == Some(&json!(word)));
    graph
        .add_step(
            notes.node("umbrella"),
            Step::new("umbrella").when(is("rainy")).input(1).depends_on(["weather"]),
        )
        .unwrap();
    graph
        .add_step(notes.node("hat"), Step::new("hat").when(is("sunny")).input(1).depends_on(["weather"]))
        .unwrap();
    graph.add_step(notes.node("go"), Step::new("go").depends_on(["hat", "umbrella"])).unwrap();
    let tracer = Tracer::new("g");
    let run = graph.run(&context().with_trace(tracer.clone())).await;
    assert_eq!(json!(run.results), json!({"weather": "rainy", "umbrella": 1, "hat": null, "go": null}));
    assert_eq!(notes.all(), ["umbrella", "go"]);
    let trace = tracer.snapshot();
    let hat = trace.steps.iter().find(|step| &*step.step_id == "hat").unwrap();
    assert_eq!(json!(hat.metadata), json!({"skipped": true}));
    assert_eq!(hat.node_type, "function");
}

#[tokio::test]
async fn failing_condition_fails_its_step() {
    let run = run_step(echo("e"), Step::new("a").when(|_| Err(error("no such name")))).await;
    assert_error(&run.error.unwrap(), ErrorKind::Process, &["'a'", "when:", "no such name"]);
}

#[tokio::test(start_paused = true)]
async fn item_results_keep_their_order() {
    let node = Arc::new(FunctionNode::asynchronous("n", |context| async move {
        let item = context.input[1].as_u64().unwrap();
        tokio::time::sleep(Duration::from_secs(10 - item)).await;
        Ok(json!(item * item))
    }));
    for (parallel, seconds) in [(1, 10 + 9 + 8 + 7 + 6), (2, 10 + 7 + 6), (5, 10), (100, 10)] {
        let started = Instant::now();
        let run =
            run_step(node.clone(), Step::new("each").foreach(numbers(5), parallel).input_from(item)).await;
        assert_eq!(run.results["each"], json!([0, 1, 4, 9, 16]));
        assert_eq!(started.elapsed().as_secs(), seconds, "{parallel} at once");
    }
}

#[tokio::test]
async fn empty_list_runs_nothing() {
    let notes = Notes::default();
    let run = run_step(notes.node("n"), Step::new("each").foreach(numbers(0), 4)).await;
    assert_eq!((run.status, &run.results["each"]), (TraceStatus::Completed, &json!([])));
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn failed_item_cancels_the_others() {
    let notes = Notes::default();
    let seen = notes.clone();
    let node = Arc::new(FunctionNode::asynchronous("n", move |context| {
        let notes = seen.clone();
        async move {
            let item = context.input[1].as_u64().unwrap();
            tokio::time::sleep(Duration::from_secs(1 + item)).await;
            notes.add(item.to_string());
            if item == 1 { Err(error("item 1 is bad")) } else { Ok(json!(item)) }
        }
    }));
    let run = run_step(node, Step::new("each").foreach(numbers(9), 3).input_from(item)).await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Failed, 0));
    assert_eq!(run.error.unwrap().message, "item 1 is bad");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(notes.all(), ["0", "1"]);
}

#[tokio::test]
async fn error_policy_applies_to_each_item() {
    use nerve_graph::policy::{ErrorPolicy, OnError};
    let node = Arc::new(FunctionNode::new("n", |context| match context.input[1].as_i64() {
        Some(1) => Err(error("bad")),
        other => Ok(json!(other)),
    }));
    let policy =
        ErrorPolicy { on_error: OnError::Skip, fallback_value: json!("none"), ..ErrorPolicy::default() };
    let run =
        run_step(node, Step::new("each").foreach(numbers(3), 1).input_from(item).error_policy(policy)).await;
    assert_eq!(run.results["each"], json!([0, "none", 2]));
}

#[tokio::test]
async fn rounds_repeat_until_condition_holds() {
    // Each round gets the result of the previous one.
    let more = |scope: &Scope<'_>| Ok(json!([scope.round, scope.result]));
    let grow = Arc::new(FunctionNode::new("grow", |context| {
        assert_eq!(context.input[0] == json!(1), context.input[1].is_null());
        Ok(json!(context.input[1].as_i64().unwrap_or(1) * 2))
    }));
    let big = |scope: &Scope<'_>| Ok(scope.result.and_then(Value::as_i64) >= Some(16));
    let run = run_step(grow.clone(), Step::new("loop").input_from(more).until(big, 9)).await;
    assert_eq!((&run.results["loop"], run.usage.steps_executed()), (&json!(16), 4));
    let never = run_step(grow.clone(), Step::new("loop").input_from(more).until(big, 3)).await;
    assert_error(&never.error.unwrap(), ErrorKind::Process, &["'loop'", "3 rounds"]);
    let none = run_step(grow, Step::new("loop").input_from(more).until(big, 0)).await;
    assert_eq!(none.status, TraceStatus::Failed);
}

#[tokio::test]
async fn graph_repeats_all_steps_until_its_condition_holds() {
    let make = |max_rounds: u32| {
        let mut graph = Graph::new("g");
        // The first step continues from the last step of the previous round.
        let before = |scope: &Scope<'_>| Ok(scope.result.map_or(json!(1), |results| results["b"].clone()));
        let twice =
            |scope: &Scope<'_>| Ok(json!(scope.upstream.get("a").and_then(Value::as_i64).unwrap() * 2));
        graph.add_step(echo("e"), Step::new("a").input_from(before)).unwrap();
        graph.add_step(echo("e"), Step::new("b").input_from(twice).depends_on(["a"])).unwrap();
        graph.set_until(|scope| Ok(scope.round >= 2 && scope.result.unwrap()["b"] == json!(8)), max_rounds);
        graph
    };
    let tracer = Tracer::new("g");
    let run = make(9).run(&context().with_trace(tracer.clone())).await;
    assert_eq!((json!(run.results), run.usage.steps_executed()), (json!({"a": 4, "b": 8}), 6));
    let trace = tracer.snapshot();
    let steps: Vec<&str> = trace.steps.iter().map(|step| &*step.step_id).collect();
    assert_eq!(steps, ["a#1", "b#1", "a#2", "b#2", "a#3", "b#3"]);
    assert_eq!(trace.status, TraceStatus::Completed);
    let short = make(2).run(&context()).await;
    assert_error(&short.error.unwrap(), ErrorKind::Process, &["'g'", "2 rounds"]);
    assert_eq!(json!(short.results), json!({"a": 2, "b": 4}));
    assert_eq!(make(0).run(&context()).await.status, TraceStatus::Failed);
    let mut panicking = make(9);
    panicking.set_until(|_| panic!("never"), 9);
    let error = panicking.run(&context()).await.error.unwrap();
    assert_error(&error, ErrorKind::Internal, &["'g'", "until:", "never"]);
}

#[tokio::test]
async fn items_and_rounds_combine_in_paths() {
    let count = |scope: &Scope<'_>| Ok(json!(scope.round));
    let enough = |scope: &Scope<'_>| Ok(i64::from(scope.round) > scope.item.and_then(Value::as_i64).unwrap());
    let mut graph = Graph::new("g");
    graph
        .add_step(echo("e"), Step::new("s").foreach(numbers(3), 1).input_from(count).until(enough, 5))
        .unwrap();
    let mut events = graph.execute_stream(context());
    let mut paths = Vec::new();
    while let Some(event) = events.next().await {
        if let StepEventKind::Start { .. } = event.kind {
            paths.push(event.step.to_string());
        }
    }
    assert_eq!(paths, ["s", "s[0]#1", "s[1]#1", "s[1]#2", "s[2]#1", "s[2]#2", "s[2]#3"]);
    assert_eq!(events.end().await.results["s"], json!([1, 2, 3]));
}

#[tokio::test]
async fn skipped_step_has_one_event() {
    let mut graph = Graph::new("g");
    graph.add_step(echo("e"), Step::new("s").when(|_| Ok(false)).foreach(numbers(3), 2)).unwrap();
    let mut events = graph.execute_stream(context());
    let event = events.next().await.unwrap();
    assert_eq!(event.kind, StepEventKind::Complete { how: Completion::Skipped, ms: 0, tokens: 0 });
    assert_eq!((&*event.step, event.data), ("s", json!(null)));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn items_can_run_a_graph() {
    let mut inner = Graph::new("inner");
    inner
        .add_step(
            echo("e"),
            Step::new("twice").input_from(|scope| Ok(json!(scope.input.as_i64().unwrap() * 2))),
        )
        .unwrap();
    let each = Step::new("each").foreach(numbers(3), 2).input_from(|scope| Ok(scope.item.cloned().unwrap()));
    let run = run_step(Arc::new(inner), each).await;
    assert_eq!(run.results["each"], json!([{"twice": 0}, {"twice": 2}, {"twice": 4}]));
}

#[tokio::test]
async fn hundred_thousand_items_run() {
    let run = run_step(echo("e"), Step::new("each").foreach(numbers(100_000), 8).input_from(item)).await;
    let results = run.results["each"].as_array().unwrap();
    assert_eq!((results.len(), &results[99_999]), (100_000, &json!([99_999, 99_999])));
}
