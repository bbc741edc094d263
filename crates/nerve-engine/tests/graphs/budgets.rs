//! Budgets of runs and steps.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::executable::Executable;
use nerve_graph::function::FunctionNode;
use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, GraphRun, OnFailure, step::Step};
use nerve_node::NodeHandle;
use nerve_node::budget::RunBudget;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Notes, chain, constant, context, delayed_echo, endless, failing_first, run};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a chain of `steps` steps on `node`.
async fn run_chain(steps: usize, node: NodeHandle, budget: RunBudget) -> GraphRun {
    let mut graph = Graph::new("g");
    for step in 0..steps {
        let before = step.checked_sub(1).map(|before| format!("s{before}"));
        graph.add_step(node.clone(), Step::new(format!("s{step}")).depends_on(before)).unwrap();
    }
    graph.run(&context().with_budget(budget)).await
}

/// Asserts that this limit ended the run, with this use of it.
#[track_caller]
fn assert_exceeded(run: &GraphRun, limit: &str, used: &str) {
    let error = run.error.as_ref().unwrap();
    assert_error(error, ErrorKind::Budget, &[limit, used]);
    assert_eq!((&error.exceeded().unwrap().reason, run.status), (&error.message, TraceStatus::Failed));
}

fn steps(max_steps: u64) -> RunBudget {
    RunBudget { max_steps: Some(max_steps), ..RunBudget::default() }
}

fn tokens(max_tokens: u64) -> RunBudget {
    RunBudget { max_tokens: Some(max_tokens), ..RunBudget::default() }
}

fn time(seconds: f64) -> RunBudget {
    RunBudget { max_time_ms: Some((seconds * 1e3) as u64), ..RunBudget::default() }
}

/// A node that uses tokens and reports them in its reply, as terminal nodes do.
fn uses_tokens(used: u64) -> NodeHandle {
    constant("talks", json!({"success": true, "tokens": {"input": used - 1, "output": 1}}))
}

/// A node that calls a model API.
fn calls_api(dollars: f64) -> NodeHandle {
    Arc::new(FunctionNode::new("calls", move |context| {
        context.add_api_call(dollars);
        Ok(json!(null))
    }))
}

#[tokio::test]
async fn step_limit_is_exact() {
    let run = run_chain(5, constant("n", json!(1)), steps(3)).await;
    assert_exceeded(&run, "Step", "3/3");
    assert_eq!(json!(run.results), json!({"s0": 1, "s1": 1, "s2": 1}));
    assert_eq!(run.usage.steps_executed(), 3);
    let all = run_chain(3, constant("n", json!(1)), steps(3)).await;
    assert_eq!(all.status, TraceStatus::Completed, "{:?}", all.error);
}

#[tokio::test(start_paused = true)]
async fn running_steps_may_finish() {
    let mut graph = Graph::new("g");
    graph.set_max_parallel(2);
    for id in ["a", "b", "c"] {
        graph.add_step(delayed_echo("t", SECOND), Step::new(id).input(id)).unwrap();
    }
    let run = graph.run(&context().with_budget(steps(2))).await;
    assert_exceeded(&run, "Step", "2/2");
    assert_eq!(json!(run.results), json!({"a": "a", "b": "b"}));
}

#[tokio::test]
async fn tokens_in_replies_count() {
    let run = run_chain(5, uses_tokens(40), tokens(100)).await;
    assert_exceeded(&run, "Token", "120/100");
    assert_eq!(run.results.len(), 3);
    assert_eq!(run.usage.tokens_used(), 120);
    let whole = json!({"tokens": {"input": 1, "output": 1, "total": 50}});
    assert_eq!(run_chain(1, constant("n", whole), RunBudget::default()).await.usage.tokens_used(), 50);
    assert_eq!(
        run_chain(2, constant("n", json!({"tokens": 7})), RunBudget::default()).await.usage.tokens_used(),
        14
    );
    assert_eq!(
        run_chain(1, constant("n", json!({"tokens": {}})), RunBudget::default()).await.usage.tokens_used(),
        0
    );
    assert_eq!(
        run_chain(1, constant("n", json!({"tokens": null})), RunBudget::default()).await.usage.tokens_used(),
        0
    );
}

#[tokio::test]
async fn tokens_of_failed_attempts_count() {
    let bad = constant("n", json!({"success": false, "tokens": 30}));
    let policy = ErrorPolicy {
        retry_count: 9,
        retry_delay: Duration::ZERO,
        on_error: OnError::Skip,
        ..ErrorPolicy::default()
    };
    let mut graph = Graph::new("g");
    graph.add_step(bad, Step::new("a").error_policy(policy)).unwrap();
    let run = graph.run(&context().with_budget(tokens(100))).await;
    assert_exceeded(&run, "Token", "120/100");
}

#[tokio::test]
async fn api_calls_and_cost_count() {
    let budget = RunBudget { max_api_calls: Some(2), ..RunBudget::default() };
    let run = run_chain(5, calls_api(0.5), budget).await;
    assert_exceeded(&run, "API call", "2/2");
    let budget = RunBudget { max_cost_usd: Some(1.25), ..RunBudget::default() };
    let run = run_chain(5, calls_api(0.5), budget).await;
    assert_exceeded(&run, "Cost", "$1.5/$1.25");
    assert_eq!((run.results.len(), run.usage.api_calls(), run.usage.cost_usd()), (3, 3, 1.5));
    // An invalid cost counts as zero.
    assert_eq!(run_chain(1, calls_api(f64::NAN), RunBudget::default()).await.usage.cost_usd(), 0.0);
    assert_eq!(run_chain(1, calls_api(-5.0), RunBudget::default()).await.usage.cost_usd(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn time_limit_stops_a_running_step() {
    let notes = Notes::default();
    let graph = chain("g", [("a", constant("n", json!(1))), ("b", endless("e")), ("c", notes.node("c"))]);
    let started = Instant::now();
    let run = graph.run(&context().with_budget(time(1.5))).await;
    assert_eq!(started.elapsed().as_millis() / 10, 150);
    assert_exceeded(&run, "Time", "1.5s/1.5s");
    assert_eq!(json!(run.results), json!({"a": 1}));
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn limits_are_checked_in_order() {
    let all = RunBudget {
        max_tokens: Some(0),
        max_time_ms: Some(0),
        max_steps: Some(0),
        max_api_calls: Some(0),
        max_cost_usd: Some(0.0),
        asks_at_limit: false,
    };
    let mut budget = all;
    for limit in ["Token", "Step", "Time", "API call", "Cost"] {
        let run = run_chain(1, constant("n", json!(1)), budget.clone()).await;
        assert!(run.results.is_empty());
        assert_exceeded(&run, limit, "0");
        match limit {
            "Token" => budget.max_tokens = None,
            "Step" => budget.max_steps = None,
            "Time" => budget.max_time_ms = None,
            "API call" => budget.max_api_calls = None,
            _ => {}
        }
    }
    assert_eq!(run_chain(1, constant("n", json!(1)), budget).await.status, TraceStatus::Failed);
    assert_eq!(
        run_chain(0, constant("n", json!(1)), steps(0)).await.status,
        TraceStatus::Completed,
        "nothing to limit"
    );
}

#[tokio::test]
async fn error_has_usage_and_results() {
    let mut graph = chain("g", [("a", uses_tokens(40)), ("b", uses_tokens(40))]);
    graph.set_budget(tokens(10));
    let error = Executable::from(Arc::new(graph)).execute(&context()).await.unwrap_err();
    let exceeded = error.exceeded().unwrap();
    assert_eq!((&exceeded.budget, exceeded.usage.tokens_used()), (&tokens(10), 40));
    assert!(error.partial().unwrap().contains_key("a"));
}

#[tokio::test]
async fn nested_graphs_share_the_budget() {
    let inner = Arc::new(chain("inner", [("x", uses_tokens(40)), ("y", uses_tokens(40))]));
    let outer = chain(
        "outer",
        [("one", inner.clone().into()), ("two", inner.into()), ("three", Executable::from(uses_tokens(40)))],
    );
    let run = outer.run(&context().with_budget(tokens(100))).await;
    assert_exceeded(&run, "Token", "120/100");
    let done = |run: &nerve_graph::GraphRun| {
        let steps =
            |id: &str| run.results.get(id).and_then(|inner| inner.as_object()).map(|inner| inner.len());
        (steps("one"), steps("two"), run.results.contains_key("three"))
    };
    assert_eq!(done(&run), (Some(2), Some(1), false), "the partial result must be kept");
    // Nested graphs count as steps, as do their own steps.
    assert_eq!(outer.run(&context()).await.usage.steps_executed(), 7);
    let run = outer.run(&context().with_budget(steps(4))).await;
    assert_exceeded(&run, "Step", "4/4");
    assert_eq!(done(&run), (Some(2), None, false));
}

#[tokio::test]
async fn nested_budget_counts_toward_outer_budget() {
    let mut inner = chain("inner", [("x", uses_tokens(40)), ("y", uses_tokens(40))]);
    inner.set_budget(tokens(50));
    let outer = chain("outer", [("in", Arc::new(inner.clone()))]);
    let run = outer.run(&context().with_budget(tokens(1000))).await;
    assert_exceeded(&run, "Token", "80/50");
    assert_eq!(run.usage.tokens_used(), 80);
    inner.set_budget(tokens(1000));
    let outer = chain("outer", [("in", Arc::new(inner))]);
    assert_exceeded(&outer.run(&context().with_budget(tokens(50))).await, "Token", "80/50");
}

/// A graph whose middle step has its own budget.
fn with_sub(node: impl Into<Executable>, sub: RunBudget) -> Graph {
    let mut graph = Graph::new("g");
    graph.add_step(uses_tokens(40), Step::new("before")).unwrap();
    graph.add_step(node, Step::new("sub").sub_budget(sub)).unwrap();
    graph.add_step(uses_tokens(40), Step::new("after")).unwrap();
    graph.chain(["before", "sub", "after"]).unwrap();
    graph
}

#[tokio::test]
async fn step_budget_counts_toward_both() {
    let stopped = run(&with_sub(uses_tokens(40), tokens(30))).await;
    assert_exceeded(&stopped, "Token", "40/30");
    assert_eq!(stopped.usage.tokens_used(), 80, "earlier usage must not count toward the step");
    let both = with_sub(uses_tokens(40), tokens(50)).run(&context().with_budget(tokens(100))).await;
    assert_exceeded(&both, "Token", "120/100");
    assert_eq!(run(&with_sub(uses_tokens(40), tokens(50))).await.status, TraceStatus::Completed);
}

#[tokio::test]
async fn step_limit_of_a_step_counts_its_runs() {
    let notes = Notes::default();
    let none = run(&with_sub(notes.node("n"), steps(0))).await;
    assert_exceeded(&none, "Step", "0/0");
    assert_eq!(notes.all(), [""; 0], "a budget of 0 must prevent every step");
    assert_eq!(run(&with_sub(notes.node("n"), steps(1))).await.status, TraceStatus::Completed);

    let each = |max_steps| {
        let items = |_: &nerve_graph::step::Scope<'_>| Ok(vec![json!(1), json!(2), json!(3)]);
        let mut graph = Graph::new("g");
        graph
            .add_step(notes.node("i"), Step::new("each").foreach(items, 1).sub_budget(steps(max_steps)))
            .unwrap();
        graph
    };
    assert_exceeded(&run(&each(2)).await, "Step", "2/2");
    assert_eq!(run(&each(3)).await.status, TraceStatus::Completed);
    assert_eq!(notes.all(), ["n", "i", "i", "i", "i", "i"]);

    let inner = chain("inner", [("x", notes.node("x")), ("y", notes.node("y"))]);
    let inner = Arc::new(inner);
    assert_eq!(run(&with_sub(inner.clone(), steps(2))).await.status, TraceStatus::Completed);
    assert_exceeded(&run(&with_sub(inner, steps(1))).await, "Step", "1/1");
}

#[tokio::test(start_paused = true)]
async fn time_limit_of_a_step_stops_it() {
    let started = Instant::now();
    let stopped = run(&with_sub(endless("e"), time(2.0))).await;
    assert_exceeded(&stopped, "Time", "2.0s/2s");
    assert_eq!(started.elapsed().as_secs(), 2);
    assert_eq!(json!(stopped.results.keys().collect::<Vec<_>>()), json!(["before"]));
    let inner = Arc::new(chain("inner", [("x", endless("e"))]));
    assert_exceeded(&run(&with_sub(inner, time(2.0))).await, "Time", "2.0s/2s");
}

#[tokio::test(start_paused = true)]
async fn step_budget_with_finish_runs_other_steps() {
    let mut graph = with_sub(uses_tokens(40), tokens(30));
    graph.set_on_failure(OnFailure::Finish).set_max_parallel(2);
    graph.add_step(delayed_echo("t", SECOND), Step::new("apart").input("done")).unwrap();
    graph.add_step(constant("n", json!(1)), Step::new("after-apart").depends_on(["apart"])).unwrap();
    let run = run(&graph).await;
    assert_exceeded(&run, "Token", "40/30");
    assert_eq!((&run.results["apart"], &run.results["after-apart"]), (&json!("done"), &json!(1)));
    assert!(!run.results.contains_key("after"));
}

#[tokio::test(start_paused = true)]
async fn retry_is_not_a_step() {
    let policy = ErrorPolicy { retry_count: 3, ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(failing_first("f", 3), Step::new("a").error_policy(policy)).unwrap();
    let run = graph.run(&context().with_budget(steps(1))).await;
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
    assert_eq!(run.usage.steps_executed(), 1);
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_prevents_retry() {
    let policy = ErrorPolicy { retry_count: 3, retry_delay: 10 * SECOND, ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(failing_first("f", 3), Step::new("a").error_policy(policy)).unwrap();
    let started = Instant::now();
    let run = graph.run(&context().with_budget(time(5.0))).await;
    assert_exceeded(&run, "Time", "5.0s/5s");
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn running_items_may_finish_after_step_limit() {
    let notes = Notes::default();
    let items = |_: &nerve_graph::step::Scope<'_>| Ok((0..5).map(|item| json!(item)).collect());
    let mut graph = Graph::new("g");
    graph.add_step(notes.slow("i"), Step::new("each").foreach(items, 2)).unwrap();
    let run = graph.run(&context().with_budget(steps(3))).await;
    assert_exceeded(&run, "Step", "3/3");
    assert_eq!(notes.all().iter().filter(|note| *note == "i begins").count(), 3);
    assert_eq!(notes.all().iter().filter(|note| *note == "i ends").count(), 3);
}

#[tokio::test]
async fn node_sees_same_budget_with_and_without_observer() {
    use nerve_graph::trace::Tracer;
    let looks = || {
        let node = nerve_graph::function::FunctionNode::new("looks", |context| {
            Ok(json!([context.budget().and_then(|budget| budget.max_tokens), context.usage().tokens_used()]))
        });
        chain("g", [("spend", constant("n", json!({"tokens": 3}))), ("look", Arc::new(node) as NodeHandle)])
    };
    for context in [context(), context().with_trace(Tracer::new("g"))] {
        let mut graph = looks();
        graph.set_budget(RunBudget { max_tokens: Some(100), ..RunBudget::default() });
        assert_eq!(graph.run(&context).await.results["look"], json!([100, 3]));
    }
}
