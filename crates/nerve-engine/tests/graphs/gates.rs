//! Gates: steps that a person answers.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::gate::Gate;
use nerve_graph::gate::open_gates::OpenGates;
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, GraphRun, step::Step};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{Notes, context};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs a graph of independent gates; returns when all of them are waiting.
async fn run_gates(
    gates: &OpenGates,
    asking: impl IntoIterator<Item = (&'static str, Gate)>,
) -> JoinHandle<GraphRun> {
    let mut graph = Graph::new("g");
    graph.set_max_parallel(9);
    for (step, gate) in asking {
        graph.add_step(Arc::new(gate), Step::new(step)).unwrap();
    }
    let (context, wanted) = (context().with_gates(gates.clone()), graph.len());
    let run = tokio::spawn(async move { graph.run(&context).await });
    let mut changes = gates.changes();
    while gates.waiting().len() < wanted {
        changes.changed().await.unwrap();
    }
    run
}

fn gate() -> Gate {
    Gate::new("gate", "Ship it?").choices(["yes", "no"])
}

#[tokio::test(start_paused = true)]
async fn gate_waits_for_its_answer() {
    let gates = OpenGates::new();
    let run = run_gates(&gates, [("ship", gate())]).await;
    let waiting = gates.waiting();
    assert_eq!((waiting[0].step_id.as_str(), waiting[0].question.as_str()), ("ship", "Ship it?"));
    assert_eq!((&waiting[0].choices, waiting[0].deadline_at), (&vec!["yes".to_string(), "no".into()], None));
    assert_eq!(gates.answer(Some("ship"), "YES").unwrap(), "ship");
    assert_eq!(run.await.unwrap().results["ship"], json!({"choice": "yes", "by": "person"}));
    assert!(gates.waiting().is_empty());
}

#[tokio::test(start_paused = true)]
async fn invalid_choice_is_rejected_and_gate_keeps_waiting() {
    let gates = OpenGates::new();
    let run = run_gates(&gates, [("ship", gate())]).await;
    let error = gates.answer(None, "maybe").unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'maybe'", "'ship'"]);
    assert_eq!(error.choices.to_vec(), ["yes", "no"]);
    gates.answer(None, "no").unwrap();
    assert_eq!(run.await.unwrap().results["ship"]["choice"], json!("no"));
    assert_eq!(gates.answer(None, "no").unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn any_text_is_allowed_without_choices() {
    let gates = OpenGates::new();
    let run = run_gates(&gates, [("name", Gate::new("gate", "Which name?"))]).await;
    gates.answer(None, "Grace").unwrap();
    assert_eq!(run.await.unwrap().results["name"], json!({"choice": "Grace", "by": "person"}));
}

#[tokio::test(start_paused = true)]
async fn answer_must_name_one_of_two_gates() {
    let gates = OpenGates::new();
    let run = run_gates(&gates, [("one", gate()), ("two", gate())]).await;
    let error = gates.answer(None, "yes").unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["one, two"]);
    let other = gates.answer(Some("three"), "yes").unwrap_err();
    assert_error(&other, ErrorKind::NotFound, &["'three'", "one, two"]);
    gates.answer(Some("two"), "no").unwrap();
    assert_eq!(gates.answer(None, "yes").unwrap(), "one");
    let results = run.await.unwrap().results;
    assert_eq!((&results["one"]["choice"], &results["two"]["choice"]), (&json!("yes"), &json!("no")));
}

#[tokio::test(start_paused = true)]
async fn timeout_uses_default_or_fails() {
    let gates = OpenGates::new();
    let started = Instant::now();
    let run = run_gates(&gates, [("ship", gate().default_choice("no").timeout(MINUTE))]).await;
    assert!(gates.waiting()[0].deadline_at.is_some());
    assert_eq!(run.await.unwrap().results["ship"], json!({"choice": "no", "by": "default"}));
    assert_eq!(started.elapsed().as_secs(), 60);

    let run = run_gates(&gates, [("ship", gate().timeout(MINUTE))]).await.await.unwrap();
    let error = run.error.unwrap();
    assert_error(&error, ErrorKind::Timeout, &["'ship'"]);
    assert!(gates.waiting().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_withdraws_its_question() {
    let (gates, token, notes) = (OpenGates::new(), CancellationToken::new(), Notes::default());
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(gate()), Step::new("ship")).unwrap();
    graph.add_step(notes.node("a"), Step::new("a").depends_on(["ship"])).unwrap();
    let context = context().with_gates(gates.clone()).with_cancellation(token.clone());
    let mut changes = gates.changes();
    let run = tokio::spawn(async move { graph.run(&context).await });
    changes.changed().await.unwrap();
    token.cancel();
    assert_eq!(run.await.unwrap().status, TraceStatus::Cancelled);
    assert!(gates.waiting().is_empty());
    assert_eq!(gates.answer(Some("ship"), "yes").unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn default_applies_at_once_if_unanswerable() {
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(gate().default_choice("yes")), Step::new("ship")).unwrap();
    assert_eq!(graph.run(&context()).await.results["ship"], json!({"choice": "yes", "by": "default"}));
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(gate()), Step::new("gate")).unwrap();
    let error = graph.run(&context()).await.error.unwrap();
    assert_error(&error, ErrorKind::Blocked, &["'gate'"]);
}

#[tokio::test(start_paused = true)]
async fn question_uses_earlier_results_and_path_names_nested_gate() {
    let gates = OpenGates::new();
    let mut inner = Graph::new("inner");
    let asks =
        Step::new("ask").input_from(|scope| Ok(json!(format!("Ship {}?", scope.input.as_str().unwrap()))));
    inner.add_step(Arc::new(Gate::new("gate", "not this")), asks).unwrap();
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(inner), Step::new("in").input("v2")).unwrap();
    let context = context().with_gates(gates.clone());
    let mut changes = gates.changes();
    let run = tokio::spawn(async move { graph.run(&context).await });
    changes.changed().await.unwrap();
    assert_eq!(gates.waiting()[0].question, "Ship v2?");
    gates.answer(Some("in/ask"), "go").unwrap();
    assert_eq!(run.await.unwrap().results["in"]["ask"]["choice"], json!("go"));
}
