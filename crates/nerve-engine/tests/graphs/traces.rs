//! Traces of runs.

use std::time::Duration;

use nerve_graph::function::StepFunction;
use nerve_graph::trace::{ExecutionTrace, TraceStatus, Tracer};
use nerve_graph::{Graph, step::Step};
use nerve_node::error::EngineError;
use serde_json::json;

use crate::harness::{chain, constant, context, delayed_echo, failing};

async fn traced(graph: &Graph) -> ExecutionTrace {
    let tracer = Tracer::new(graph.id());
    graph.run(&context().with_trace(tracer.clone())).await;
    tracer.snapshot()
}

#[tokio::test(start_paused = true)]
async fn trace_has_all_fields() {
    let mut graph = Graph::new("g");
    graph
        .add_step(
            constant("talk", json!({"text": "hi", "tokens": {"input": 5, "output": 7}, "turn": 3})),
            Step::new("ask").input("Hello"),
        )
        .unwrap();
    graph
        .add_step(
            delayed_echo("wait", Duration::from_secs(2)),
            Step::new("wait").input([1, 2].to_vec()).depends_on(["ask"]),
        )
        .unwrap();
    let trace = traced(&graph).await;
    assert_eq!(
        (trace.graph_id.as_str(), trace.status, trace.error.as_deref()),
        ("g", TraceStatus::Completed, None)
    );
    assert_eq!((trace.total_tokens, trace.total_cost), (12, 0.0));
    let [ask, wait] = trace.steps.as_slice() else { panic!("{:?}", trace.steps) };
    assert_eq!((&*ask.step_id, &*ask.node_id, ask.node_type), ("ask", "talk", "function"));
    assert_eq!((&ask.input, &ask.output["text"], ask.tokens_used), (&json!("Hello"), &json!("hi"), 12));
    assert_eq!(ask.metadata["turn"], json!(3));
    assert_eq!((&wait.input, &wait.output, wait.tokens_used), (&json!([1, 2]), &json!([1, 2]), 0));
    assert_eq!(wait.duration_ms(), 2000);
    assert!(trace.start_time <= ask.start_time && ask.end_time <= wait.start_time);
    assert!(wait.end_time <= trace.end_time.unwrap());
}

#[tokio::test(start_paused = true)]
async fn trace_explains_itself() {
    let good = chain(
        "review",
        [
            ("fetch", constant("n", json!({"tokens": 9}))),
            ("think", delayed_echo("t", Duration::from_millis(1500))),
        ],
    );
    // Timers end at whole milliseconds: the wait may be a part of one longer.
    let explained = traced(&good).await.explain().replace("1501ms", "1500ms");
    assert_eq!(
        explained,
        "Graph: review\nStatus: completed\nDuration: 1500ms\nTokens: 9\nSteps: 2\n  [+] fetch (function): 0ms\n  [+] think (function): 1500ms\n"
    );
    let bad = chain("review", [("fetch", failing("f", "no such page"))]);
    assert_eq!(
        traced(&bad).await.explain(),
        "Graph: review\nStatus: failed\nDuration: 0ms\nError: no such page\nSteps: 1\n  [x] fetch (function): 0ms\n    Error: no such page\n"
    );
}

#[tokio::test]
async fn trace_dict_has_all_fields() {
    let trace = traced(&chain("g", [("a", constant("n", json!(1))), ("b", failing("f", "no"))])).await;
    let dict = trace.to_dict();
    for field in [
        "graph_id",
        "started_at",
        "ended_at",
        "state",
        "steps",
        "total_tokens",
        "total_cost_usd",
        "error",
        "duration_ms",
    ] {
        assert!(dict.get(field).is_some(), "{field}");
    }
    assert_eq!((&dict["state"], &dict["error"]), (&json!("failed"), &json!("no")));
    let step = &dict["steps"][1];
    for field in [
        "step_id",
        "node_id",
        "node_type",
        "input",
        "output",
        "error",
        "started_at",
        "ended_at",
        "duration_ms",
        "tokens_used",
        "metadata",
    ] {
        assert!(step.get(field).is_some(), "{field}");
    }
    assert_eq!(
        (&step["error"], &step["output"], &dict["steps"][0]["output"]),
        (&json!("no"), &json!(null), &json!(1))
    );
    let start = dict["started_at"].as_str().unwrap();
    assert!(start > "2024" && start <= dict["ended_at"].as_str().unwrap());
    assert!(dict["duration_ms"].is_u64() && step["duration_ms"].is_u64(), "{dict}");
}

#[tokio::test]
async fn hint_of_an_error_is_not_part_of_its_text() {
    let node = StepFunction::new("n", |_| async { Err(EngineError::process("no").hint("try again")) });
    let dict = traced(&chain("g", [("a", std::sync::Arc::new(node))])).await.to_dict();
    for part in [&dict, &dict["steps"][0]] {
        assert_eq!((&part["error"], &part["hint"]), (&json!("no"), &json!("try again")), "{dict}");
    }
}

#[tokio::test]
async fn invalid_graph_has_a_trace() {
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!(1)), Step::new("a").depends_on(["nowhere"])).unwrap();
    let trace = traced(&graph).await;
    assert_eq!((trace.status, trace.steps.len()), (TraceStatus::Failed, 0));
    assert!(trace.end_time.is_some() && trace.error.unwrap().contains("unknown step 'nowhere'"));
}

#[tokio::test]
async fn nodes_can_add_to_the_trace() {
    use nerve_graph::trace::StepTrace;
    let node = StepFunction::new("proxy", |context| async move {
        let now = nerve_types::TsNs(5);
        context.record_step(StepTrace {
            step_id: "call".into(),
            node_id: "model".into(),
            node_type: "api",
            input: json!(null),
            output: json!(null),
            error: None,
            error_type: None,
            hint: None,
            start_time: now,
            end_time: now,
            tokens_used: 1,
            metadata: Default::default(),
        });
        context.turn.add_api_call(0.25);
        Ok(json!(null))
    });
    let trace = traced(&chain("g", [("a", std::sync::Arc::new(node))])).await;
    assert_eq!(trace.steps.iter().map(|step| &*step.step_id).collect::<Vec<_>>(), ["call", "a"]);
    assert_eq!(trace.total_cost, 0.25);
}

#[tokio::test]
async fn items_and_rounds_count_their_own_tokens() {
    use nerve_graph::{Graph, step::Step};
    let ask = constant("ask", json!({"tokens": 10}));
    let mut graph = Graph::new("g");
    let items = |_: &nerve_graph::step::Scope<'_>| Ok(vec![json!(1), json!(2), json!(3)]);
    graph.add_step(ask.clone(), Step::new("each").foreach(items, 1)).unwrap();
    graph.add_step(ask, Step::new("loop").until(|scope| Ok(scope.round == 3), 5)).unwrap();
    let trace = traced(&graph).await;
    let used: Vec<(&str, u64)> = trace.steps.iter().map(|step| (&*step.step_id, step.tokens_used)).collect();
    let expected = ["each[0]", "each[1]", "each[2]", "loop#1", "loop#2", "loop#3"].map(|step| (step, 10));
    assert_eq!(used, expected);
    assert_eq!(trace.total_tokens, 60);
}
