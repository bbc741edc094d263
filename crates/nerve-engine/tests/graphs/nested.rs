//! Nested graphs.

use std::sync::Arc;

use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_graph::session::Session;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, step::Step};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::{Value, json};

use crate::harness::{chain, constant, context, echo, failing, run};

#[tokio::test]
async fn results_are_nested() {
    let inner = chain("inner", [("a", constant("n", json!(1))), ("b", constant("n", json!(2)))]);
    let middle = chain(
        "middle",
        [("inner", Executable::from(Arc::new(inner))), ("c", constant("n", json!(3)).into())],
    );
    let outer = chain(
        "outer",
        [("first", Executable::from(constant("n", json!(0)))), ("middle", Arc::new(middle).into())],
    );
    let tracer = Tracer::new("outer");
    let run = outer.run(&context().with_trace(tracer.clone())).await;
    assert_eq!(json!(run.results), json!({"first": 0, "middle": {"c": 3, "inner": {"a": 1, "b": 2}}}));
    let steps: Vec<String> =
        tracer.snapshot().steps.iter().map(|step| format!("{} {}", step.step_id, step.node_type)).collect();
    assert_eq!(
        steps,
        [
            "first function",
            "middle/inner/a function",
            "middle/inner/b function",
            "middle/inner graph",
            "middle/c function",
            "middle graph"
        ]
    );
}

#[tokio::test]
async fn inner_graph_sees_only_its_input_and_results() {
    let mut inner = Graph::new("inner");
    let looks = Step::new("looks").input_from(|scope| Ok(json!([scope.input, scope.upstream.to_value()])));
    inner.add_step(echo("e"), looks).unwrap();
    let mut outer = Graph::new("outer");
    outer.add_step(constant("n", json!("before")), Step::new("before")).unwrap();
    outer.add_step(Arc::new(inner), Step::new("in").input("for you").depends_on(["before"])).unwrap();
    assert_eq!(run(&outer).await.results["in"], json!({"looks": ["for you", {}]}));
}

#[tokio::test]
async fn step_ids_may_equal_reply_fields() {
    let inner = chain(
        "inner",
        [
            ("success", constant("n", json!(false))),
            ("error", constant("n", json!("no error"))),
            ("tokens", constant("n", json!(1000))),
        ],
    );
    let run = run(&chain("outer", [("in", Arc::new(inner))])).await;
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
    assert_eq!(run.usage.tokens_used(), 0);
}

#[tokio::test]
async fn inner_failure_fails_the_outer_step() {
    let inner = chain("inner", [("a", constant("n", json!(1))), ("b", failing("f", "broken"))]);
    let outer = chain(
        "outer",
        [("first", Executable::from(constant("n", json!(0)))), ("in", Arc::new(inner).into())],
    );
    let tracer = Tracer::new("outer");
    let run = outer.run(&context().with_trace(tracer.clone())).await;
    assert_eq!(run.status, TraceStatus::Failed);
    assert_eq!(run.error.unwrap().message, "broken");
    assert_eq!(json!(run.results), json!({"first": 0, "in": {"a": 1}}));
    let trace = tracer.snapshot();
    let failed: Vec<&str> =
        trace.steps.iter().filter(|step| step.error.is_some()).map(|step| &*step.step_id).collect();
    assert_eq!(failed, ["in/b", "in"]);
    assert_eq!(trace.steps.iter().find(|step| &*step.step_id == "in/a").unwrap().output, json!(1));
}

/// Nests graphs `levels` deep, with one step at the bottom.
fn deep(levels: usize) -> Graph {
    (0..levels).fold(chain("bottom", [("s", constant("n", json!("found")))]), |inner, level| {
        let mut graph = Graph::new(format!("level-{level}"));
        graph.add_step(Arc::new(inner), Step::new("s")).unwrap();
        graph
    })
}

#[tokio::test]
async fn two_hundred_levels_run() {
    let graph = deep(200);
    assert_eq!(graph.collect_persistent_nodes().len(), 0);
    let tracer = Tracer::new("deep");
    let run = graph.run(&context().with_trace(tracer.clone())).await;
    let mut value: &Value = &run.results["s"];
    for _ in 0..200 {
        value = &value["s"];
    }
    assert_eq!(value, &json!("found"));
    let trace = tracer.snapshot();
    assert_eq!((trace.status, trace.steps.len()), (TraceStatus::Completed, 201));
    assert_eq!(trace.steps[0].step_id.matches('/').count(), 200);
    assert_eq!(trace.explain().lines().count(), 4 + 201);
    graph.interrupt().await;
}

#[test]
fn thousands_of_levels_are_built_validated_and_dropped() {
    let graph = deep(100_000);
    assert_eq!(graph.validate(), [""; 0]);
    assert_eq!(graph.collect_persistent_nodes().len(), 0);
    drop(graph);
}

#[tokio::test]
async fn recursion_error_names_the_path() {
    let session = Session::new("s");
    for (id, next) in [("one", "two"), ("two", "three"), ("three", "one")] {
        let mut graph = Graph::new(id);
        graph.add_step_ref(next, Step::new("go")).unwrap();
        session.register(Arc::new(graph), None).unwrap();
    }
    let one = session.get("one").unwrap();
    let run = one.graph().unwrap().run(&RunContext::new(&session)).await;
    let error = run.error.unwrap();
    assert_error(&error, ErrorKind::InvalidRequest, &["one → two → three → one"]);
}

#[tokio::test]
async fn two_graphs_may_have_the_same_id() {
    let inner = chain("same", [("a", constant("n", json!(1)))]);
    let outer = chain("same", [("in", Arc::new(inner))]);
    assert_eq!(json!(run(&outer).await.results), json!({"in": {"a": 1}}));
}

#[tokio::test]
async fn one_graph_can_be_several_steps() {
    let inner = Arc::new(chain("inner", [("a", echo("e"))]));
    let mut outer = Graph::new("outer");
    outer.set_max_parallel(2);
    outer.add_step(inner.clone(), Step::new("one")).unwrap();
    outer.add_step(inner, Step::new("two")).unwrap();
    assert_eq!(json!(run(&outer).await.results), json!({"one": {"a": null}, "two": {"a": null}}));
}

/// Each level uses the next one twice: 2^40 paths through 40 graphs.
#[test]
fn shared_graph_is_visited_once() {
    let notes = crate::harness::Notes::default();
    let bottom = chain("bottom", [("s", crate::harness::StatefulNode::new("desk", &notes))]);
    let graph = (0..40).fold(bottom, |inner, level| {
        let inner = Arc::new(inner);
        let mut graph = Graph::new(format!("level-{level}"));
        graph.add_step(inner.clone(), Step::new("one")).unwrap();
        graph.add_step(inner, Step::new("two").depends_on(["one"])).unwrap();
        graph
    });
    assert_eq!(graph.collect_persistent_nodes().len(), 1);
    assert_eq!(graph.validate(), [""; 0]);
}

#[tokio::test]
async fn panicking_input_function_fails_only_the_run() {
    let mut graph = chain("g", [("a", echo("e"))]);
    graph.set_input(|_| panic!("no such thing"));
    let error = run(&graph).await.error.unwrap();
    assert_error(&error, ErrorKind::Internal, &["no such thing"]);
}

#[tokio::test]
async fn thousand_levels_run() {
    let run = run(&deep(1_000)).await;
    assert_eq!(run.status, TraceStatus::Completed);
}
