//! Concurrent steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nerve_graph::function::FunctionNode;
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, step::Step};
use nerve_node::NodeHandle;
use serde_json::json;
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::harness::{LIMIT, Notes, delayed_echo, echo, run};

#[tokio::test]
async fn steps_run_concurrently() {
    let all = Arc::new(Barrier::new(5));
    let meet = Arc::new(FunctionNode::asynchronous("meet", move |_| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok(json!("met"))
        }
    }));
    let mut graph = Graph::new("g");
    graph.set_max_parallel(5);
    for step in 0..5 {
        graph.add_step(meet.clone(), Step::new(format!("s{step}"))).unwrap();
    }
    let run = tokio::time::timeout(LIMIT, run(&graph)).await.unwrap();
    assert_eq!(run.results.len(), 5);
}

/// Runs steps of a second each; returns the maximum number at once, and the seconds it took.
async fn run_concurrently(steps: usize, max_parallel: usize) -> (usize, u64) {
    let (running, maximum) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let result = Arc::clone(&maximum);
    let node: NodeHandle = Arc::new(FunctionNode::asynchronous("count", move |_| {
        let (running, maximum) = (Arc::clone(&running), Arc::clone(&maximum));
        async move {
            maximum.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(json!(null))
        }
    }));
    let mut graph = Graph::new("g");
    graph.set_max_parallel(max_parallel);
    for step in 0..steps {
        graph.add_step(node.clone(), Step::new(format!("s{step}"))).unwrap();
    }
    let started = Instant::now();
    assert_eq!(run(&graph).await.results.len(), steps);
    (result.load(Ordering::Relaxed), started.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn max_parallel_is_reached_and_not_exceeded() {
    assert_eq!(run_concurrently(10, 1).await, (1, 10));
    assert_eq!(run_concurrently(10, 3).await, (3, 4));
    assert_eq!(run_concurrently(10, 100).await, (10, 1));
    assert_eq!(run_concurrently(2, 0).await, (1, 2), "at least one");
}

#[tokio::test(start_paused = true)]
async fn step_starts_when_its_own_dependencies_are_done() {
    let mut graph = Graph::new("g");
    graph.set_max_parallel(4);
    graph.add_step(delayed_echo("long", Duration::from_secs(10)), Step::new("long")).unwrap();
    graph.add_step(delayed_echo("short", Duration::from_secs(1)), Step::new("short")).unwrap();
    let started = Instant::now();
    let when = Arc::new(FunctionNode::new("when", move |_| Ok(json!(started.elapsed().as_secs()))));
    graph.add_step(when.clone(), Step::new("after-short").depends_on(["short"])).unwrap();
    graph.add_step(when, Step::new("after-both").depends_on(["short", "long"])).unwrap();
    let results = run(&graph).await.results;
    assert_eq!((&results["after-short"], &results["after-both"]), (&json!(1), &json!(10)));
}

#[tokio::test(start_paused = true)]
async fn limit_applies_to_each_graph() {
    let notes = Notes::default();
    let inner = |name: &'static str, a, b| {
        let mut graph = Graph::new(name);
        graph.add_step(notes.slow(a), Step::new("a")).unwrap();
        graph.add_step(notes.slow(b), Step::new("b")).unwrap();
        Arc::new(graph)
    };
    let mut outer = Graph::new("outer");
    outer.set_max_parallel(2);
    outer.add_step(inner("one", "1a", "1b"), Step::new("one")).unwrap();
    outer.add_step(inner("two", "2a", "2b"), Step::new("two")).unwrap();
    let started = Instant::now();
    assert_eq!(run(&outer).await.status, TraceStatus::Completed);
    assert_eq!(started.elapsed().as_secs(), 2);
    assert_eq!(notes.all()[..2], ["1a begins", "2a begins"]);
}

#[tokio::test]
async fn thousand_wide_and_thousand_deep() {
    let mut wide = Graph::new("wide");
    wide.set_max_parallel(1000);
    wide.add_step(echo("e"), Step::new("start").input(1)).unwrap();
    for step in 0..1000 {
        let step = Step::new(format!("w{step}")).depends_on(["start"]);
        wide.add_step(echo("e"), step.input_fn(|upstream| upstream.get("start").cloned().unwrap())).unwrap();
    }
    let ids: Vec<String> = (0..1000).map(|step| format!("w{step}")).collect();
    let sum = Step::new("sum")
        .depends_on(ids)
        .input_fn(|upstream| json!(upstream.iter().filter_map(|(_, value)| value.as_i64()).sum::<i64>()));
    wide.add_step(echo("e"), sum).unwrap();
    assert_eq!(run(&wide).await.results["sum"], json!(1001));

    let mut deep = Graph::new("deep");
    deep.add_step(echo("e"), Step::new("0").input(0)).unwrap();
    for step in 1..=1000_usize {
        let before = (step - 1).to_string();
        let count = Step::new(step.to_string()).depends_on([before.as_str()]);
        let count =
            count.input_fn(move |upstream| json!(upstream.get(&before).unwrap().as_i64().unwrap() + 1));
        deep.add_step(echo("e"), count).unwrap();
    }
    assert_eq!(run(&deep).await.results["1000"], json!(1000));
}

#[tokio::test(start_paused = true)]
async fn steps_that_never_wait_starve_no_others() {
    let mut graph = Graph::new("g");
    for step in 0..20_000 {
        graph.add_step(echo("e"), Step::new(format!("s{step}"))).unwrap();
    }
    let others = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&others);
    let other = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    run(&graph).await;
    other.abort();
    assert!(others.load(Ordering::Relaxed) > 50);
}
