//! Rows of DAGs, on shells.

use std::path::Path;
use std::sync::Arc;

use nerve_core::graph::Graph;
use nerve_core::graph::step::Step;
use nerve_core::trace::{TraceStatus, Tracer};
use serde_json::json;

use super::Bench;

/// Says that it is there, and waits for another.
fn meet(mine: &Path, other: &Path) -> String {
    format!("touch {}; until [ -e {} ]; do sleep 0.01; done; echo met", mine.display(), other.display())
}

/// Row: DAG.run(parallel=True) → test_parallel_execution.
#[tokio::test]
async fn test_parallel_execution() {
    let bench = Bench::new();
    let (one, two) = (bench.bash("one").await, bench.bash("two").await);
    let (here, there) = (bench.file("here"), bench.file("there"));
    let mut graph = Graph::new("parallel");
    graph.add_step(Arc::new(one), Step::new("a").input(meet(&here, &there))).unwrap();
    graph.add_step(Arc::new(two), Step::new("b").input(meet(&there, &here))).unwrap();
    graph.set_max_parallel(2);
    // Neither ends before the other has begun.
    let run = graph.run(&bench.context()).await;
    assert_eq!(run.status, TraceStatus::Completed, "{run:?}");
    assert_eq!((&run.results["a"]["text"], &run.results["b"]["text"]), (&json!("met"), &json!("met")));
    bench.session.stop().await;
}

/// Row: DAG.run(parallel=False) → test_sequential_execution.
#[tokio::test]
async fn test_sequential_execution() {
    let bench = Bench::new();
    let log = bench.file("log");
    let mut graph = Graph::new("sequential");
    for id in ["a", "b", "c"] {
        let node = bench.bash(id).await;
        let command = format!("echo {id} begins >> {0}; sleep 0.05; echo {id} ends >> {0}", log.display());
        graph.add_step(Arc::new(node), Step::new(id).input(command)).unwrap();
    }
    let run = graph.run(&bench.context()).await;
    assert_eq!(run.status, TraceStatus::Completed, "{run:?}");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log, "a begins\na ends\nb begins\nb ends\nc begins\nc ends\n");
}

/// Row: DAG.chain() → test_chain.
#[tokio::test]
async fn test_chain() {
    let bench = Bench::new();
    let node = Arc::new(bench.bash("sh").await);
    let mut graph = Graph::new("chain");
    // Added in another order than they are chained.
    for (id, command) in [("c", "echo $x"), ("b", "x=$((x + 1))"), ("a", "x=1")] {
        graph.add_step(node.clone(), Step::new(id).input(command)).unwrap();
    }
    graph.set_max_parallel(4).chain(["a", "b", "c"]).unwrap();
    assert_eq!(graph.get_step("c").unwrap().dependencies().collect::<Vec<_>>(), ["b"]);
    let run = graph.run(&bench.context()).await;
    assert_eq!(run.results["c"]["text"], "2", "{run:?}");
    node.stop("done").await;
}

/// Row: DAG.validate() → test_validate.
#[tokio::test]
async fn test_validate() {
    let bench = Bench::new();
    let node = Arc::new(bench.bash("sh").await);
    let mut graph = Graph::new("bad");
    graph.add_step(node.clone(), Step::new("a").depends_on(["a"])).unwrap();
    graph.add_step(node.clone(), Step::new("b").depends_on(["nowhere"])).unwrap();
    let problems = graph.validate();
    assert!(problems.contains(&"Step 'a' depends on itself".to_string()), "{problems:?}");
    assert!(problems.contains(&"Step 'b' depends on unknown step 'nowhere'".to_string()), "{problems:?}");
    let mut graph = Graph::new("cycle");
    for (id, after) in [("a", "c"), ("b", "a"), ("c", "b")] {
        graph.add_step(node.clone(), Step::new(id).depends_on([after])).unwrap();
    }
    let problems = graph.validate();
    assert!(problems[0].starts_with("Cycle detected: a → "), "{problems:?}");
    let run = graph.run(&bench.context()).await;
    assert_eq!(run.error.unwrap().kind, nerve_core::error::ErrorKind::InvalidRequest);
    // A terminal does one thing at a time.
    let mut graph = Graph::new("shared");
    for id in ["a", "b"] {
        graph.add_step(node.clone(), Step::new(id).input("echo x")).unwrap();
    }
    assert_eq!(graph.validate(), Vec::<String>::new());
    graph.set_max_parallel(2);
    assert!(graph.validate()[0].contains("'a' and 'b'"), "{:?}", graph.validate());
    node.stop("done").await;
}

/// Row: DAG.execution_order() → test_execution_order.
#[tokio::test]
async fn test_execution_order() {
    let bench = Bench::new();
    let node = Arc::new(bench.bash("sh").await);
    let mut graph = Graph::new("order");
    let log = bench.file("log");
    for (id, after) in [("ship", &["test", "lint"][..]), ("test", &["build"]), ("lint", &[]), ("build", &[])]
    {
        let command = format!("echo {id} >> {}", log.display());
        graph.add_step(node.clone(), Step::new(id).input(command).depends_on(after.iter().copied())).unwrap();
    }
    let order = graph.execution_order().unwrap();
    assert_eq!(order, ["lint", "build", "test", "ship"]);
    assert_eq!(graph.run(&bench.context()).await.status, TraceStatus::Completed);
    let done = std::fs::read_to_string(log).unwrap();
    assert_eq!(done.lines().collect::<Vec<_>>(), order);
    node.stop("done").await;
}

/// Row: Task callbacks → test_trace_records_steps.
#[tokio::test]
async fn test_trace_records_steps() {
    let bench = Bench::new();
    let node = Arc::new(bench.bash("sh").await);
    let mut graph = Graph::new("traced");
    graph.add_step(node.clone(), Step::new("good").input("echo fine")).unwrap();
    graph.add_step(node.clone(), Step::new("bad").input("exit_with() { return 3; }; exit_with")).unwrap();
    graph.chain(["good", "bad"]).unwrap();
    let tracer = Tracer::new("traced");
    let run = graph.run(&bench.context().with_trace(tracer.clone())).await;
    assert_eq!(run.status, TraceStatus::Failed, "{run:?}");
    let trace = tracer.snapshot();
    assert_eq!((trace.status, trace.steps.len()), (TraceStatus::Failed, 2), "{}", trace.explain());
    let [good, bad] = &trace.steps[..] else { panic!() };
    assert_eq!((&*good.step_id, &*good.node_id, good.node_type), ("good", "sh", "pty"));
    assert_eq!((&good.input, &good.output["text"]), (&json!("echo fine"), &json!("fine")));
    assert!(good.error.is_none() && good.duration_ms() > 0.0 && good.end_time <= bad.start_time);
    assert_eq!(good.metadata["turn"], good.output["turn"]);
    assert!(bad.error.as_ref().unwrap().contains("exit code 3"), "{bad:?}");
    let explained = trace.explain();
    assert!(
        explained.contains("  [+] good (pty): ") && explained.contains("  [x] bad (pty): "),
        "{explained}"
    );
    node.stop("done").await;
}
