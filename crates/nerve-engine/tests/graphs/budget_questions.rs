//! Budgets that ask at their limits.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::function::FunctionNode;
use nerve_graph::gate::open_gates::OpenGates;
use nerve_graph::policy::{ErrorPolicy, OnFailure};
use nerve_graph::step::{Scope, Step};
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, GraphRun};
use nerve_node::NodeHandle;
use nerve_node::budget::RunBudget;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{Notes, chain, constant, context, delayed_echo};
use crate::resume::JournalDir;

const MINUTE: Duration = Duration::from_secs(60);

fn asking(budget: RunBudget) -> RunBudget {
    RunBudget { asks_at_limit: true, ..budget }
}

fn tokens(max_tokens: u64) -> RunBudget {
    asking(RunBudget { max_tokens: Some(max_tokens), ..RunBudget::default() })
}

fn steps(max_steps: u64) -> RunBudget {
    asking(RunBudget { max_steps: Some(max_steps), ..RunBudget::default() })
}

fn seconds(seconds: u64) -> RunBudget {
    asking(RunBudget { max_time_ms: Some(seconds * 1000), ..RunBudget::default() })
}

/// A node that reports this number of tokens.
fn uses(tokens: u64) -> NodeHandle {
    constant("talks", json!({ "tokens": tokens }))
}

/// A run whose questions the test answers.
struct AskingRun {
    gates: OpenGates,
    run: JoinHandle<GraphRun>,
}

impl AskingRun {
    fn start(graph: Graph) -> AskingRun {
        let gates = OpenGates::new();
        let context = context().with_gates(gates.clone());
        AskingRun { gates, run: tokio::spawn(async move { graph.run(&context).await }) }
    }

    /// Waits for a question and returns its id and text.
    async fn question(&self) -> (String, String) {
        let mut changes = self.gates.changes();
        while self.gates.waiting().is_empty() {
            changes.changed().await.unwrap();
        }
        let gate = &self.gates.waiting()[0];
        assert_eq!(
            (&gate.choices, gate.default.as_deref()),
            (&vec!["continue".into(), "stop".into()], Some("stop"))
        );
        (gate.step_id.clone(), gate.question.clone())
    }

    /// Waits for a question, asserts that it gives this reason, and answers.
    async fn answer(&self, reason: &str, choice: &str) {
        let (_, question) = self.question().await;
        assert!(question.starts_with(reason), "{question}");
        self.gates.answer(None, choice).unwrap();
    }

    async fn end(self) -> GraphRun {
        let run = self.run.await.unwrap();
        assert!(self.gates.waiting().is_empty());
        run
    }
}

fn graph_with(budget: RunBudget, steps: impl IntoIterator<Item = (&'static str, NodeHandle)>) -> Graph {
    let mut graph = chain("g", steps);
    graph.set_budget(budget);
    graph
}

#[tokio::test(start_paused = true)]
async fn granted_limit_is_raised_above_usage() {
    let graph = graph_with(tokens(10), [("a", uses(25)), ("b", uses(4)), ("c", uses(1)), ("d", uses(1))]);
    let run = AskingRun::start(graph);
    assert_eq!(run.question().await.0, "@max_tokens#1");
    run.answer("Token limit exceeded: 25/10", "continue").await;
    run.answer("Token limit exceeded: 30/30", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, run.results.len(), run.usage.tokens_used()), (TraceStatus::Completed, 4, 31));
}

#[tokio::test(start_paused = true)]
async fn refused_grant_stops_run_and_keeps_results() {
    let run = AskingRun::start(graph_with(tokens(10), [("a", uses(10)), ("b", uses(1))]));
    run.answer("Token limit exceeded: 10/10", "stop").await;
    let run = run.end().await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["Token", "10/10"]);
    assert_eq!((run.status, run.results.len()), (TraceStatus::Failed, 1));
}

#[tokio::test]
async fn last_step_over_limit_completes_run() {
    let run = AskingRun::start(graph_with(tokens(10), [("a", uses(99))])).end().await;
    assert_eq!(run.status, TraceStatus::Completed);
}

#[tokio::test]
async fn run_without_gates_stops_at_limit() {
    let run = graph_with(tokens(10), [("a", uses(10)), ("b", uses(1))]).run(&context()).await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["10/10"]);
}

#[tokio::test(start_paused = true)]
async fn running_steps_finish_while_time_limit_asks() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    graph.set_max_parallel(2);
    graph.add_step(delayed_echo("slow", 3 * MINUTE), Step::new("slow").input(1)).unwrap();
    graph.add_step(notes.node("next"), Step::new("next").depends_on(["slow"])).unwrap();
    graph.set_budget(seconds(60));
    let (run, began) = (AskingRun::start(graph), Instant::now());
    run.question().await;
    assert_eq!(began.elapsed(), MINUTE);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(notes.all(), Vec::<String>::new());
    run.answer("Time limit exceeded: 60.0s/60s", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Completed, 2), "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn open_question_stops_the_clock() {
    let slow = |time| delayed_echo("slow", time);
    let graph = graph_with(seconds(60), [("a", slow(MINUTE)), ("b", slow(MINUTE / 2)), ("c", slow(MINUTE))]);
    let run = AskingRun::start(graph);
    run.question().await;
    tokio::time::sleep(60 * MINUTE).await;
    run.answer("Time limit exceeded: 60.0s/60s", "continue").await;
    run.answer("Time limit exceeded: 120.0s/120s", "continue").await;
    assert_eq!(run.end().await.status, TraceStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_closes_its_question() {
    let (gates, stop) = (OpenGates::new(), CancellationToken::new());
    let context = context().with_gates(gates.clone()).with_cancellation(stop.clone());
    let graph = graph_with(tokens(1), [("a", uses(1)), ("b", uses(1))]);
    let run = AskingRun { gates, run: tokio::spawn(async move { graph.run(&context).await }) };
    run.question().await;
    stop.cancel();
    assert_eq!(run.end().await.status, TraceStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn nested_graphs_wait_for_one_question_of_outer_budget() {
    let inner = |id| Arc::new(chain(id, [("a", uses(5)), ("b", uses(5)), ("c", uses(1))]));
    let mut graph = Graph::new("g");
    graph.set_max_parallel(2);
    graph.set_budget(tokens(10));
    for id in ["x", "y"] {
        graph.add_step(inner(id), Step::new(id)).unwrap();
    }
    let run = AskingRun::start(graph);
    assert_eq!(run.question().await.0, "@max_tokens#1");
    run.answer("Token limit exceeded: ", "continue").await;
    run.answer("Token limit exceeded: ", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, run.usage.tokens_used()), (TraceStatus::Completed, 22));
}

#[tokio::test(start_paused = true)]
async fn nested_budget_asks_under_path_of_its_step() {
    let mut inner = chain("inner", [("a", uses(5)), ("b", uses(5))]);
    inner.set_budget(tokens(5));
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(inner), Step::new("part")).unwrap();
    let run = AskingRun::start(graph);
    assert_eq!(run.question().await.0, "part/@max_tokens#1");
    run.answer("Token limit exceeded: 5/5", "continue").await;
    assert_eq!(run.end().await.status, TraceStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn items_and_rounds_wait_for_the_grant() {
    let mut graph = Graph::new("g");
    graph.set_budget(steps(2));
    let items = |_: &Scope<'_>| Ok((0..5).map(|item| json!(item)).collect());
    graph.add_step(uses(1), Step::new("items").foreach(items, 2)).unwrap();
    let rounds = Step::new("rounds").depends_on(["items"]).until(|scope| Ok(scope.round == 3), 9);
    graph.add_step(uses(1), rounds).unwrap();
    let run = AskingRun::start(graph);
    for reason in ["2/2", "4/4", "6/6"] {
        run.answer(&format!("Step limit exceeded: {reason}"), "continue").await;
    }
    let run = run.end().await;
    assert_eq!((run.status, run.usage.steps_executed()), (TraceStatus::Completed, 8), "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn refused_grant_stops_remaining_items() {
    let mut graph = Graph::new("g");
    graph.set_budget(steps(2));
    let items = |_: &Scope<'_>| Ok((0..5).map(|item| json!(item)).collect());
    graph.add_step(uses(1), Step::new("items").foreach(items, 2)).unwrap();
    let run = AskingRun::start(graph);
    run.answer("Step limit exceeded: 2/2", "stop").await;
    let run = run.end().await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["Step", "2/2"]);
    assert_eq!(run.usage.steps_executed(), 2);
}

/// A node that calls a model's API at once, and returns a minute later.
fn calls_then_waits(dollars: f64) -> NodeHandle {
    Arc::new(FunctionNode::asynchronous("calls", move |context| async move {
        context.add_api_call(dollars);
        tokio::time::sleep(MINUTE).await;
        Ok(json!("done"))
    }))
}

#[tokio::test(start_paused = true)]
async fn usage_of_running_step_asks_at_once_and_step_continues() {
    let budget = asking(RunBudget { max_cost_usd: Some(0.5), ..RunBudget::default() });
    let run = AskingRun::start(graph_with(budget, [("a", calls_then_waits(0.75)), ("b", uses(1))]));
    let began = Instant::now();
    let (_, question) = run.question().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(question, "Cost limit exceeded: $0.75/$0.5. Raise it to $1 and continue?");
    run.answer("Cost limit exceeded: $0.75/$0.5", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Completed, 2), "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn refused_grant_stops_running_step() {
    let budget = asking(RunBudget { max_cost_usd: Some(0.5), ..RunBudget::default() });
    let run = AskingRun::start(graph_with(budget, [("a", calls_then_waits(0.75))]));
    run.answer("Cost limit exceeded: $0.75/$0.5", "stop").await;
    let run = run.end().await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["$0.75/$0.5"]);
}

#[tokio::test(start_paused = true)]
async fn open_question_does_not_outlive_last_step() {
    let graph = graph_with(seconds(60), [("a", delayed_echo("slow", 2 * MINUTE))]);
    let run = AskingRun::start(graph);
    run.question().await;
    assert_eq!(run.end().await.status, TraceStatus::Completed);
}

/// The budget of the nested graph is new in each attempt, so a further attempt would bypass it.
#[tokio::test(start_paused = true)]
async fn nested_graph_that_stops_at_its_own_limit_is_not_repeated() {
    let notes = Notes::default();
    let log = notes.clone();
    let calls: NodeHandle = Arc::new(FunctionNode::new("calls", move |context| {
        log.add("called");
        context.add_api_call(0.0);
        Ok(json!("done"))
    }));
    let mut inner = chain("inner", [("a", calls.clone()), ("b", calls)]);
    inner.set_budget(RunBudget { max_steps: Some(1), ..RunBudget::default() });
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(inner), Step::new("part")).unwrap();
    graph.set_budget(asking(RunBudget { max_api_calls: Some(1), ..RunBudget::default() }));
    let run = AskingRun::start(graph).end().await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["Step", "1/1"]);
    assert_eq!(notes.all(), ["called"]);
}

#[tokio::test]
async fn resumed_run_keeps_grants_and_repeats_refused_question() {
    let dir = JournalDir::new();
    let graph = || graph_with(tokens(10), [("a", uses(10)), ("b", uses(10)), ("c", uses(1))]);
    let run = |choices: &'static [&'static str]| {
        let (gates, graph, dir) = (OpenGates::new(), graph(), &dir);
        async move {
            let answers = async {
                let mut changes = gates.changes();
                for choice in choices {
                    while gates.answer(None, choice).is_err() {
                        changes.changed().await.unwrap();
                    }
                }
                std::future::pending().await
            };
            tokio::select! {
                run = dir.run(&graph, &gates) => run,
                () = answers => unreachable!("the answers are pending"),
            }
        }
    };
    let refused = run(&["continue", "stop"]).await;
    assert_error(refused.error.as_ref().unwrap(), ErrorKind::Budget, &["20/20"]);
    assert_eq!(run(&["continue"]).await.status, TraceStatus::Completed);
}

#[tokio::test]
async fn resumed_run_knows_calls_and_costs_of_earlier_steps() {
    let dir = JournalDir::new();
    let calls = |dollars| -> NodeHandle {
        Arc::new(FunctionNode::new("calls", move |context| {
            context.add_api_call(dollars);
            Ok(json!("done"))
        }))
    };
    let budget = RunBudget { max_cost_usd: Some(1.0), ..RunBudget::default() };
    let graph = graph_with(budget, [("a", calls(0.75)), ("b", calls(0.5)), ("c", calls(0.1))]);
    for _ in 0..2 {
        let run = dir.run(&graph, &OpenGates::new()).await;
        assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["Cost", "$1.25/$1"]);
        assert_eq!((run.usage.api_calls(), run.results.len()), (2, 2));
    }
}

/// A graph with one step, with its own budget, on a node that runs for some time.
fn graph_with_step(budget: RunBudget, time: Duration) -> Graph {
    let mut graph = Graph::new("g");
    graph.add_step(delayed_echo("slow", time), Step::new("part").sub_budget(budget).input("done")).unwrap();
    graph
}

#[tokio::test(start_paused = true)]
async fn step_budget_asks_under_path_of_its_step() {
    let items = |_: &Scope<'_>| Ok((0..3).map(|item| json!(item)).collect());
    let mut graph = Graph::new("g");
    graph.add_step(uses(5), Step::new("items").foreach(items, 1).sub_budget(tokens(10))).unwrap();
    let run = AskingRun::start(graph);
    assert_eq!(run.question().await.0, "items@max_tokens#1");
    run.answer("Token limit exceeded: 10/10", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, run.usage.tokens_used()), (TraceStatus::Completed, 15), "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn running_step_continues_while_its_own_budget_asks() {
    let run = AskingRun::start(graph_with_step(seconds(60), 150 * (MINUTE / 60)));
    let began = Instant::now();
    run.question().await;
    assert_eq!(began.elapsed(), MINUTE);
    run.answer("Time limit exceeded: 60.0s/60s", "continue").await;
    run.answer("Time limit exceeded: 120.0s/120s", "continue").await;
    let run = run.end().await;
    assert_eq!((run.status, &run.results["part"]), (TraceStatus::Completed, &json!("done")));
    assert_eq!(began.elapsed(), 150 * (MINUTE / 60));
}

#[tokio::test(start_paused = true)]
async fn step_that_ends_at_its_own_limit_completes() {
    let run = AskingRun::start(graph_with_step(seconds(60), 2 * MINUTE));
    run.question().await;
    assert_eq!(run.end().await.status, TraceStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn refused_grant_of_a_step_stops_only_that_step() {
    let mut graph = graph_with_step(seconds(60), 60 * MINUTE);
    graph.set_max_parallel(2).set_on_failure(OnFailure::Finish);
    graph.add_step(delayed_echo("other", 5 * MINUTE), Step::new("other").input("done")).unwrap();
    let (run, began) = (AskingRun::start(graph), Instant::now());
    run.answer("Time limit exceeded: 60.0s/60s", "stop").await;
    let run = run.end().await;
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Budget, &["60.0s/60s"]);
    assert_eq!((run.results.len(), &run.results["other"]), (1, &json!("done")));
    assert_eq!(began.elapsed(), 5 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn open_question_stops_the_clocks_inside() {
    let mut inner = chain("inner", [("a", uses(10)), ("b", uses(1)), ("c", delayed_echo("c", MINUTE / 2))]);
    inner.set_budget(RunBudget { max_time_ms: Some(60_000), ..RunBudget::default() });
    let policy = ErrorPolicy { timeout: Some(MINUTE), ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    let part = Step::new("part").error_policy(policy);
    graph
        .add_step(
            Arc::new(inner),
            part.sub_budget(RunBudget { max_time_ms: Some(60_000), ..RunBudget::default() }),
        )
        .unwrap();
    graph.set_budget(tokens(10));
    let run = AskingRun::start(graph);
    run.question().await;
    tokio::time::sleep(60 * MINUTE).await;
    run.answer("Token limit exceeded: 10/10", "continue").await;
    let run = run.end().await;
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn question_stops_the_timeout_of_its_own_graph() {
    let mut inner = chain("inner", [("a", uses(10)), ("b", delayed_echo("b", 2 * MINUTE))]);
    inner.set_budget(tokens(10));
    let policy = ErrorPolicy { timeout: Some(MINUTE), ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(inner), Step::new("part").error_policy(policy)).unwrap();
    let run = AskingRun::start(graph);
    run.question().await;
    tokio::time::sleep(60 * MINUTE).await;
    let answered = Instant::now();
    run.answer("Token limit exceeded: 10/10", "continue").await;
    let run = run.end().await;
    // Its time runs again after the answer.
    assert_error(run.error.as_ref().unwrap(), ErrorKind::Timeout, &["60s"]);
    assert_eq!(answered.elapsed(), MINUTE);
}
