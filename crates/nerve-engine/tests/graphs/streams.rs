//! Event streams of runs.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::event::{Completion, StepEvent, StepEventKind, StepEventStream};
use nerve_graph::executable::Executable;
use nerve_graph::function::FunctionNode;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, step::Step};
use nerve_node::error::ErrorKind;
use nerve_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::{LIMIT, chain, constant, context, delayed_echo, error, failing};

async fn collect(events: &mut StepEventStream) -> Vec<StepEvent> {
    let mut collected = Vec::new();
    while let Some(event) = events.next().await {
        collected.push(event);
    }
    collected
}

fn event_names(events: &[StepEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{} {} {}", event.kind.as_str(), event.step, event.node)).collect()
}

#[tokio::test(start_paused = true)]
async fn steps_have_start_and_end_events() {
    let inner = chain("inner", [("x", delayed_echo("wait", Duration::from_secs(3)))]);
    let graph = chain(
        "g",
        [
            ("a", Executable::from(constant("n", json!({"v": 1, "tokens": 5})))),
            ("in", Arc::new(inner).into()),
            ("b", failing("f", "no").into()),
        ],
    );
    let mut events = graph.execute_stream(context());
    let collected = collect(&mut events).await;
    assert_eq!(
        event_names(&collected),
        [
            "step_start a n",
            "step_complete a n",
            "step_start in inner",
            "step_start in/x wait",
            "step_complete in/x wait",
            "step_complete in inner",
            "step_start b f",
            "step_error b f"
        ]
    );
    assert_eq!(collected[0].kind, StepEventKind::Start { queued: false });
    assert_eq!(collected[1].kind, StepEventKind::Complete { how: Completion::Completed, ms: 0, tokens: 5 });
    assert_eq!(collected[1].data, json!({"v": 1, "tokens": 5}));
    assert!(
        matches!(collected[4].kind, StepEventKind::Complete { ms: 3000..3010, .. }),
        "{:?}",
        collected[4].kind
    );
    assert_eq!(
        (collected[7].kind, &collected[7].data),
        (StepEventKind::Error { error_type: ErrorKind::Process }, &json!("no"))
    );
    assert!(collected.is_sorted_by_key(|event| event.at));
    assert!(events.next().await.is_none());
    let run = events.end().await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Failed, 2));
}

#[tokio::test]
async fn chunks_name_their_step() {
    let node = Arc::new(FunctionNode::new("talk", |context| {
        let chunks = context.chunks().expect("a chunk receiver");
        ["one ", "two"].into_iter().for_each(|chunk| chunks(chunk));
        Ok(json!("one two"))
    }));
    let graph = chain("g", [("say", node)]);
    let collected = collect(&mut graph.execute_stream(context())).await;
    assert_eq!(
        event_names(&collected),
        ["step_start say talk", "step_chunk say talk", "step_chunk say talk", "step_complete say talk"]
    );
    assert_eq!((&collected[1].data, &collected[2].data), (&json!("one "), &json!("two")));
}

/// Sends a signal when it is dropped.
struct Guard(Option<oneshot::Sender<()>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(gone) = self.0.take() {
            let _ = gone.send(());
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_run() {
    let (gone, is_gone) = oneshot::channel();
    let guard = std::sync::Mutex::new(Some(Guard(Some(gone))));
    let node = Arc::new(FunctionNode::asynchronous("wait", move |_| {
        let guard = guard.lock().unwrap().take();
        async move {
            let _guard = guard;
            std::future::pending::<Result<Value, _>>().await
        }
    }));
    let tracer = Tracer::new("g");
    let graph = chain("g", [("a", node)]);
    let mut events = graph.execute_stream(context().with_trace(tracer.clone()));
    events.next().await.unwrap();
    drop(events);
    tokio::time::timeout(LIMIT, is_gone).await.unwrap().unwrap();
    eventually("ended", async || tracer.snapshot().status != TraceStatus::Running).await;
    assert_eq!(tracer.snapshot().status, TraceStatus::Cancelled);
}

#[tokio::test]
async fn dropping_the_stream_does_not_cancel_the_callers_token() {
    let context = context();
    let graph = chain("g", [("a", crate::harness::endless("e"))]);
    let mut events = graph.execute_stream(context.clone());
    events.next().await.unwrap();
    drop(events);
    assert!(!context.turn.cancellation().is_cancelled());
}

#[tokio::test]
async fn stream_ends_even_if_a_node_keeps_its_context() {
    let (give, held) = std::sync::mpsc::channel();
    let node = Arc::new(FunctionNode::new("keep", move |context| {
        give.send(context.clone()).map(|()| Value::Null).map_err(|_| error("no receiver"))
    }));
    let graph = chain("g", [("a", node)]);
    let mut events = graph.execute_stream(context());
    let collected = tokio::time::timeout(LIMIT, collect(&mut events)).await.expect("the stream ends");
    assert_eq!(event_names(&collected), ["step_start a keep", "step_complete a keep"]);
    assert_eq!(events.end().await.status, TraceStatus::Completed);
    drop(held);
}

#[tokio::test]
async fn end_can_be_awaited_without_reading_events() {
    let graph = chain("g", [("a", constant("n", json!(1)))]);
    assert_eq!(graph.execute_stream(context()).end().await.results["a"], json!(1));
}

#[tokio::test]
async fn observer_of_the_context_gets_events_too() {
    let received = Arc::new(std::sync::Mutex::new(Vec::new()));
    let collected = Arc::clone(&received);
    let context = context().with_observer(Arc::new(move |event| collected.lock().unwrap().push(event)));
    let mut graph = Graph::new("g");
    graph.add_step(constant("n", json!(1)), Step::new("a")).unwrap();
    let streamed = collect(&mut graph.execute_stream(context)).await;
    assert_eq!(*received.lock().unwrap(), streamed);
}
