//! Cancels a run at every possible point: at each poll and inside each function it calls.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nerve_graph::function::FunctionNode;
use nerve_graph::gate::Gate;
use nerve_graph::gate::open_gates::OpenGates;
use nerve_graph::policy::ErrorPolicy;
use nerve_graph::trace::{ExecutionTrace, TraceStatus, Tracer};
use nerve_graph::{Graph, GraphRun, step::Step};
use nerve_node::NodeHandle;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{HOUR, context, error};

/// Counts the points of a run, and cancels it at one of them.
#[derive(Clone)]
struct Points {
    passed: Arc<AtomicUsize>,
    cancel_at: usize,
    token: CancellationToken,
    /// Nodes that started.
    started_nodes: Arc<AtomicUsize>,
}

impl Points {
    fn new(cancel_at: usize) -> Points {
        let zero = || Arc::new(AtomicUsize::new(0));
        Points { passed: zero(), cancel_at, token: CancellationToken::new(), started_nodes: zero() }
    }

    fn pass(&self) {
        if self.passed.fetch_add(1, Ordering::Relaxed) == self.cancel_at {
            self.token.cancel();
        }
    }

    /// A node with a point at its start, one where it waits and one at its end.
    fn node(&self, id: &str) -> NodeHandle {
        let points = self.clone();
        Arc::new(FunctionNode::asynchronous(id, move |context| {
            let points = points.clone();
            async move {
                points.started_nodes.fetch_add(1, Ordering::Relaxed);
                points.pass();
                tokio::time::sleep(Duration::from_secs(1)).await;
                points.pass();
                Ok(context.input)
            }
        }))
    }

    /// A node that fails twice before it succeeds.
    fn fails_twice(&self) -> NodeHandle {
        let (points, calls) = (self.clone(), AtomicUsize::new(0));
        Arc::new(FunctionNode::new("shaky", move |_| {
            points.started_nodes.fetch_add(1, Ordering::Relaxed);
            points.pass();
            if calls.fetch_add(1, Ordering::Relaxed) < 2 { Err(error("shaky")) } else { Ok(json!("steady")) }
        }))
    }

    /// A graph with all features: sequence, concurrency, nesting, items, rounds, retries and a gate.
    fn graph(&self) -> Graph {
        let at = || self.clone();
        let mut bottom = Graph::new("bottom");
        bottom.add_step(self.node("b"), Step::new("b")).unwrap();
        let mut inner = Graph::new("inner");
        inner.set_max_parallel(2);
        inner.add_step(self.node("x"), Step::new("x")).unwrap();
        inner.add_step(self.node("y"), Step::new("y")).unwrap();
        inner.add_step(Arc::new(bottom), Step::new("bottom").depends_on(["x"])).unwrap();

        let mut graph = Graph::new("mixed");
        graph.set_max_parallel(3);
        graph.add_step(self.node("a"), Step::new("first").input(1)).unwrap();
        let points = at();
        let when = Step::new("when").depends_on(["first"]).when(move |_| {
            points.pass();
            Ok(true)
        });
        graph.add_step(self.node("w"), when.input(2)).unwrap();
        graph.add_step(Arc::new(inner), Step::new("inner").depends_on(["first"])).unwrap();
        let points = at();
        let each = Step::new("each").depends_on(["first"]).input_from(move |scope| {
            points.pass();
            Ok(scope.item.cloned().unwrap_or_default())
        });
        let each = each.foreach(|_| Ok(vec![json!(1), json!(2), json!(3)]), 2);
        graph.add_step(self.node("i"), each).unwrap();
        let points = at();
        let until = Step::new("until").depends_on(["when"]).until(
            move |scope| {
                points.pass();
                Ok(scope.round == 3)
            },
            5,
        );
        graph.add_step(self.node("u"), until).unwrap();
        let policy = ErrorPolicy { retry_count: 2, ..ErrorPolicy::default() };
        graph
            .add_step(self.fails_twice(), Step::new("shaky").depends_on(["inner"]).error_policy(policy))
            .unwrap();
        let gate = Gate::new("gate", "Continue?").default_choice("yes").timeout(Duration::from_secs(60));
        graph.add_step(Arc::new(gate), Step::new("gate").depends_on(["each", "shaky"])).unwrap();
        graph.add_step(self.node("z"), Step::new("last").depends_on(["gate", "until"]).input("end")).unwrap();
        graph
    }
}

/// The state after a run was cancelled at a point.
struct Aftermath {
    run: GraphRun,
    trace: ExecutionTrace,
    points: usize,
    /// Time between the cancellation and the end.
    took: Duration,
}

async fn cancel_at(point: usize) -> Aftermath {
    let points = Points::new(point);
    let (gates, tracer) = (OpenGates::new(), Tracer::new("mixed"));
    let context = context()
        .with_cancellation(points.token.clone())
        .with_gates(gates.clone())
        .with_trace(tracer.clone());
    let graph = points.graph();
    let start_time = Instant::now();
    let (run, took) = {
        let mut run = pin!(graph.run(&context));
        let mut since = None;
        let ended = std::future::poll_fn(|task| {
            points.pass();
            let polled = run.as_mut().poll(task);
            if since.is_none() && points.token.is_cancelled() {
                since = Some(Instant::now());
            }
            polled
        });
        let ended = tokio::time::timeout(HOUR, ended).await.expect("the run must end");
        (ended, since.unwrap_or(start_time).elapsed())
    };
    let (passed, nodes) =
        (points.passed.load(Ordering::Relaxed), points.started_nodes.load(Ordering::Relaxed));
    tokio::time::sleep(HOUR).await;
    assert_eq!(
        points.passed.load(Ordering::Relaxed),
        passed,
        "cancelled at {point}: something runs afterwards"
    );
    assert_eq!(points.started_nodes.load(Ordering::Relaxed), nodes);
    assert!(gates.waiting().is_empty(), "cancelled at {point}: a question is left");
    Aftermath { run, trace: tracer.snapshot(), points: passed, took }
}

#[tokio::test(start_paused = true)]
async fn cancellation_at_any_point_ends_as_cancelled() {
    let whole = cancel_at(usize::MAX).await;
    assert_eq!(whole.run.status, TraceStatus::Completed, "{:?}", whole.run.error);
    assert_eq!(
        json!(whole.run.results),
        json!({
            "first": 1, "when": 2, "inner": {"x": null, "y": null, "bottom": {"b": null}}, "each": [1, 2, 3], "until": null,
            "shaky": "steady", "gate": {"choice": "yes", "by": "default"}, "last": "end"
        })
    );
    assert!(whole.points > 40, "{} points", whole.points);
    let mut cancelled = 0;
    for point in 0..whole.points {
        let Aftermath { run, trace, took, .. } = cancel_at(point).await;
        assert_eq!(trace.status, run.status, "at {point}");
        for (step, value) in &run.results {
            // A nested graph has partial results.
            let expected = &whole.run.results[step];
            let part = |(id, inner): (&String, &Value)| {
                &expected[id] == inner || inner.as_object().is_some_and(|inner| inner.len() < 2)
            };
            let partly = step == "inner" && value.as_object().is_some_and(|done| done.iter().all(part));
            assert!(value == expected || partly, "at {point}: {step} is not whole: {value}");
        }
        check_trace(&trace, point);
        if run.status == TraceStatus::Completed {
            // The last step was already done.
            assert_eq!(run.results, whole.run.results, "at {point}");
            continue;
        }
        cancelled += 1;
        assert_eq!(run.status, TraceStatus::Cancelled, "at {point}: {:?}", run.error);
        assert_error(&run.error.unwrap(), ErrorKind::Cancelled, &["'mixed'"]);
        assert_eq!(took, Duration::ZERO, "at {point}");
    }
    assert!(cancelled >= whole.points - 2, "{cancelled} of {}", whole.points);
}

/// Checks that steps only failed because of the cancellation.
fn check_trace(trace: &ExecutionTrace, point: usize) {
    for step in &trace.steps {
        let reason = step.error.as_deref().unwrap_or("cancelled");
        assert!(reason.contains("cancelled"), "at {point}: {}: {reason}", step.step_id);
        assert!(step.error.is_none() || step.output == Value::Null);
    }
    assert!(trace.end_time.is_some());
}
