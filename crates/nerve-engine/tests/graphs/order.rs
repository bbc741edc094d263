//! Order and input of steps.

use std::sync::Arc;

use nerve_graph::context::RunContext;
use nerve_graph::function::FunctionNode;
use nerve_graph::session::Session;
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, step::Step};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::json;

use crate::harness::{Notes, constant, context, echo, run};

#[tokio::test]
async fn steps_follow_dependencies_then_insertion_order() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    for (id, deps) in
        [("d", vec!["b", "c"]), ("a", vec![]), ("b", vec!["a"]), ("c", vec!["a"]), ("e", vec![])]
    {
        graph.add_step(notes.node(id), Step::new(id).depends_on(deps)).unwrap();
    }
    assert_eq!(graph.execution_order().unwrap(), ["a", "e", "b", "c", "d"]);
    assert_eq!(graph.list_steps(), ["d", "a", "b", "c", "e"]);
    assert_eq!(run(&graph).await.status, TraceStatus::Completed);
    assert_eq!(notes.all(), ["a", "e", "b", "c", "d"]);
}

#[tokio::test]
async fn chain_extends_existing_dependencies() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    graph.add_step(notes.node("c"), Step::new("c")).unwrap();
    graph.add_step(notes.node("b"), Step::new("b").depends_on(["a"])).unwrap();
    graph.add_step(notes.node("a"), Step::new("a")).unwrap();
    graph.chain(["a", "b", "c"]).unwrap();
    assert_eq!(graph.get_step("b").unwrap().dependencies().collect::<Vec<_>>(), ["a"]);
    run(&graph).await;
    assert_eq!(notes.all(), ["a", "b", "c"]);
    let error = graph.chain(["a", "nowhere"]).unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'g'", "'nowhere'"]);
}

#[tokio::test]
async fn empty_graph_completes_at_once() {
    let run = run(&Graph::new("nothing")).await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Completed, 0));
    assert!(run.error.is_none());
}

#[tokio::test]
async fn input_is_function_value_or_null() {
    let mut graph = Graph::new("g");
    graph.add_step(constant("fetch", json!({"data": "page"})), Step::new("fetch")).unwrap();
    let upper = Step::new("upper")
        .depends_on(["fetch"])
        .input_fn(|upstream| json!(upstream.get("fetch").unwrap()["data"].as_str().unwrap().to_uppercase()));
    graph.add_step(echo("e"), upper).unwrap();
    graph.add_step(echo("e"), Step::new("fixed").input("as it is")).unwrap();
    graph.add_step(echo("e"), Step::new("nothing")).unwrap();
    let own = Step::new("own").input_from(|scope| Ok(json!([scope.input, scope.upstream.get("nowhere")])));
    graph.add_step(echo("e"), own).unwrap();
    // The graph's input is not passed to steps automatically.
    let results = graph.run(&context().with_input("all of it")).await.results;
    assert_eq!(
        json!(results),
        json!({"fetch": {"data": "page"}, "upper": "PAGE", "fixed": "as it is", "nothing": null, "own": ["all of it", null]})
    );
}

#[tokio::test]
async fn context_has_earlier_results() {
    let node = FunctionNode::new("sum", |context| {
        assert_eq!(context.upstream.to_value(), json!({"a": 1, "b": 2}));
        Ok(json!(context.upstream.iter().filter_map(|(_, value)| value.as_i64()).sum::<i64>()))
    });
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!(1)), Step::new("a")).unwrap();
    graph.add_step(constant("n", json!(2)), Step::new("b")).unwrap();
    graph.add_step(Arc::new(node), Step::new("sum").depends_on(["a", "b"])).unwrap();
    assert_eq!(run(&graph).await.results["sum"], json!(3));
}

#[tokio::test]
async fn failing_input_function_names_its_step() {
    let mut graph = Graph::new("g");
    graph
        .add_step(echo("e"), Step::new("a").input_from(|_| Err(crate::harness::error("no such field"))))
        .unwrap();
    let tracer = nerve_graph::trace::Tracer::new("g");
    let run = graph.run(&context().with_trace(tracer.clone())).await;
    let error = run.error.unwrap();
    assert_error(&error, ErrorKind::Process, &["'a'", "input:", "no such field"]);
    assert_eq!(run.status, TraceStatus::Failed);
    let trace = tracer.snapshot();
    assert_eq!((&*trace.steps[0].step_id, trace.steps[0].node_type), ("a", "function"));
    assert_eq!(trace.steps[0].error.as_deref(), Some(error.message.as_str()));
}

#[tokio::test]
async fn name_is_resolved_when_the_step_starts() {
    let session = Session::new("s");
    let mut graph = Graph::new("g");
    let registers = {
        let session = session.clone();
        FunctionNode::new("registers", move |_| {
            session.unregister("worker");
            session.register(constant("worker", json!("new")), None).map(|()| json!(null))
        })
    };
    graph.add_step_ref("worker", Step::new("before")).unwrap();
    graph.add_step(Arc::new(registers), Step::new("change")).unwrap();
    graph.add_step_ref("worker", Step::new("after")).unwrap();
    graph.chain(["before", "change", "after"]).unwrap();
    let context = RunContext::new(&session);

    let missing = graph.run(&context).await;
    let error = missing.error.unwrap();
    assert_error(&error, ErrorKind::NotFound, &["'before'", "'worker'", "'s'"]);

    session.register(constant("worker", json!("old")), None).unwrap();
    let results = graph.run(&context).await.results;
    assert_eq!((&results["before"], &results["after"]), (&json!("old"), &json!("new")));
}

#[tokio::test]
async fn clone_of_a_graph_is_independent() {
    let mut graph = Graph::new("g");
    graph.add_step(echo("e"), Step::new("a")).unwrap();
    let copy = graph.clone();
    graph.add_step(echo("e"), Step::new("b")).unwrap();
    assert_eq!((copy.len(), graph.len()), (1, 2));
    assert_eq!(run(&copy).await.results.len(), 1);
    assert_eq!(run(&graph).await.results.len(), 2);
}

#[tokio::test]
async fn graph_node_returns_results_or_error_with_them() {
    use nerve_graph::executable::Executable;
    let good = crate::harness::chain("good", [("a", constant("n", json!(1)))]);
    assert_eq!(Executable::from(Arc::new(good)).execute(&context()).await.unwrap(), json!({"a": 1}));
    let bad = crate::harness::chain(
        "bad",
        [("a", constant("n", json!(1))), ("b", crate::harness::failing("f", "no"))],
    );
    let error = Executable::from(Arc::new(bad)).execute(&context()).await.unwrap_err();
    assert_eq!(json!(error.partial().unwrap()), json!({"a": 1}));
    assert_eq!(error.message, "no");
}
