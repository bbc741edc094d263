//! Cancellation of runs.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::executable::Executable;
use nerve_graph::function::{FunctionNode, StepFunction};
use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, OnFailure, step::Step};
use nerve_node::context::TurnContext;
use nerve_node::error::ErrorKind;
use nerve_node::{Node, NodeFuture};
use nerve_testkit::harness::assert_error;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{HOUR, Notes, StatefulNode, chain, constant, context, endless, error, failing};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a token that is cancelled after a second.
fn cancel_after_a_second() -> CancellationToken {
    let token = CancellationToken::new();
    let later = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        later.cancel();
    });
    token
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_does_not_start() {
    let notes = Notes::default();
    let token = CancellationToken::new();
    token.cancel();
    let run = chain("g", [("a", notes.node("a"))]).run(&context().with_cancellation(token)).await;
    assert_eq!((run.status, run.results.len()), (TraceStatus::Cancelled, 0));
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn last_step_is_cancelled() {
    let started = Instant::now();
    let graph = chain("g", [("a", constant("n", json!(1))), ("b", endless("e"))]);
    let run = graph.run(&context().with_cancellation(cancel_after_a_second())).await;
    assert_eq!(run.status, TraceStatus::Cancelled);
    assert_eq!(json!(run.results), json!({"a": 1}));
    assert_error(&run.error.unwrap(), ErrorKind::Cancelled, &["'g'"]);
    assert_eq!(started.elapsed(), SECOND + Duration::from_millis(0));
}

#[tokio::test(start_paused = true)]
async fn on_failure_finish_does_not_complete_a_cancelled_run() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    graph.set_on_failure(OnFailure::Finish).set_max_parallel(2);
    graph.add_step(endless("e"), Step::new("a")).unwrap();
    graph.add_step(endless("e"), Step::new("b")).unwrap();
    graph.add_step(notes.node("c"), Step::new("c")).unwrap();
    let run = graph.run(&context().with_cancellation(cancel_after_a_second())).await;
    assert_eq!(run.status, TraceStatus::Cancelled);
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cancelled_step_has_no_retry_skip_or_fallback() {
    for on_error in [OnError::Retry, OnError::Skip, OnError::Fallback] {
        let notes = Notes::default();
        let policy = ErrorPolicy {
            on_error,
            retry_count: 3,
            fallback_node: Some(nerve_graph::executable::Target::Executable(notes.node("stand-in").into())),
            ..ErrorPolicy::default()
        };
        let mut graph = Graph::new("g");
        graph.add_step(endless("e"), Step::new("a").error_policy(policy)).unwrap();
        let run = graph.run(&context().with_cancellation(cancel_after_a_second())).await;
        assert_eq!((run.status, run.results.len()), (TraceStatus::Cancelled, 0), "{on_error:?}");
        assert_eq!(notes.all(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_retry_delay() {
    let policy = ErrorPolicy { retry_count: 3, retry_delay: HOUR, ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(failing("f", "no"), Step::new("a").error_policy(policy)).unwrap();
    let started = Instant::now();
    let run = graph.run(&context().with_cancellation(cancel_after_a_second())).await;
    assert_eq!((run.status, started.elapsed().as_secs()), (TraceStatus::Cancelled, 1));
}

/// A node that winds down after its cancellation and returns its own result.
#[derive(Debug)]
struct Slow {
    takes: Duration,
    patience: Duration,
}

impl Node for Slow {
    fn id(&self) -> &str {
        "slow"
    }

    fn kind(&self) -> &'static str {
        "slow"
    }

    fn cancel_grace(&self) -> Duration {
        self.patience
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            context.cancellation().cancelled().await;
            tokio::time::sleep(self.takes).await;
            Err(error("its program was killed by the interrupt"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn reply_to_interrupt_does_not_matter() {
    let slow = Slow { takes: SECOND, patience: 3 * SECOND };
    let run =
        chain("g", [("a", Arc::new(slow))]).run(&context().with_cancellation(cancel_after_a_second())).await;
    assert_eq!(run.status, TraceStatus::Cancelled, "{:?}", run.error);
}

#[tokio::test(start_paused = true)]
async fn node_that_ignores_interrupt_is_dropped() {
    let slow = Slow { takes: HOUR, patience: 3 * SECOND };
    let started = Instant::now();
    let run =
        chain("g", [("a", Arc::new(slow))]).run(&context().with_cancellation(cancel_after_a_second())).await;
    assert_eq!((run.status, started.elapsed().as_secs()), (TraceStatus::Cancelled, 4));
}

#[tokio::test(start_paused = true)]
async fn inner_cancellation_is_a_failure_of_the_outer_run() {
    // A node may cancel its own inner run; the outer run was not cancelled.
    let node = Arc::new(StepFunction::new("own", |context| async move {
        let inner = chain("inner", [("x", endless("e"))]);
        inner.run(&context.with_cancellation(cancel_after_a_second())).await.into_result().map(Value::Object)
    }));
    let run = chain("g", [("a", node)]).run(&context()).await;
    assert_eq!(run.status, TraceStatus::Failed);
    assert_error(&run.error.unwrap(), ErrorKind::Cancelled, &["'inner'"]);
}

#[tokio::test(start_paused = true)]
async fn interrupt_reaches_nodes_of_the_graph() {
    let notes = Notes::default();
    let inner = chain("inner", [("x", StatefulNode::new("inside", &notes))]);
    let desk = StatefulNode::new("outside", &notes);
    let graph = chain(
        "g",
        [("in", Executable::from(Arc::new(inner))), ("a", desk.clone().into()), ("b", desk.into())],
    );
    graph.interrupt().await;
    let mut all = notes.all();
    all.sort();
    assert_eq!(all, ["inside is interrupted", "outside is interrupted"]);
}

/// A node that fails with its own error when it is cancelled.
fn fails_on_cancel() -> nerve_node::NodeHandle {
    Arc::new(FunctionNode::asynchronous("sulks", |context| async move {
        context.cancellation().cancelled().await;
        Err(error("I was doing something"))
    }))
}

#[tokio::test(start_paused = true)]
async fn error_policy_ignores_cancelled_step() {
    use nerve_graph::executable::Target;
    for on_error in [OnError::Skip, OnError::Fallback] {
        let notes = Notes::default();
        let policy = ErrorPolicy {
            on_error,
            fallback_value: json!("none"),
            fallback_node: Some(Target::Executable(notes.node("stand-in").into())),
            ..ErrorPolicy::default()
        };
        let mut graph = Graph::new("g");
        graph.add_step(fails_on_cancel(), Step::new("s").error_policy(policy)).unwrap();
        let run = graph.run(&context().with_cancellation(cancel_after_a_second())).await;
        assert_eq!((run.status, json!(run.results)), (TraceStatus::Cancelled, json!({})), "{on_error:?}");
        assert_eq!(notes.all(), [""; 0], "{on_error:?}");
    }
}
