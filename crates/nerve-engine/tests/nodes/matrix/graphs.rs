//! Graphs on shells.

use std::path::Path;
use std::sync::Arc;

use nerve_graph::Graph;
use nerve_graph::step::Step;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_node::Node;
use serde_json::json;

use super::Fixture;

/// Returns a command that creates the file `mine` and waits for `other`.
fn rendezvous(mine: &Path, other: &Path) -> String {
    format!("touch {}; until [ -e {} ]; do sleep 0.01; done; echo met", mine.display(), other.display())
}

#[tokio::test]
async fn steps_run_in_parallel() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.bash("one").await, fixture.bash("two").await);
    let (here, there) = (fixture.file("here"), fixture.file("there"));
    let mut graph = Graph::new("parallel");
    graph.add_step(Arc::new(one), Step::new("a").input(rendezvous(&here, &there))).unwrap();
    graph.add_step(Arc::new(two), Step::new("b").input(rendezvous(&there, &here))).unwrap();
    graph.set_max_parallel(2);
    // Neither ends before the other has started.
    let run = graph.run(&fixture.context()).await;
    assert_eq!(run.status, TraceStatus::Completed, "{run:?}");
    assert_eq!((&run.results["a"]["text"], &run.results["b"]["text"]), (&json!("met"), &json!("met")));
    fixture.session.stop().await;
}

#[tokio::test]
async fn steps_run_sequentially() {
    let fixture = Fixture::new();
    let log = fixture.file("log");
    let mut graph = Graph::new("sequential");
    for id in ["a", "b", "c"] {
        let node = fixture.bash(id).await;
        let command = format!("echo {id} begins >> {0}; sleep 0.05; echo {id} ends >> {0}", log.display());
        graph.add_step(Arc::new(node), Step::new(id).input(command)).unwrap();
    }
    let run = graph.run(&fixture.context()).await;
    assert_eq!(run.status, TraceStatus::Completed, "{run:?}");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log, "a begins\na ends\nb begins\nb ends\nc begins\nc ends\n");
}

#[tokio::test]
async fn chain_orders_steps() {
    let fixture = Fixture::new();
    let node = Arc::new(fixture.bash("sh").await);
    let mut graph = Graph::new("chain");
    // The steps are not added in the order of the chain.
    for (id, command) in [("c", "echo $x"), ("b", "x=$((x + 1))"), ("a", "x=1")] {
        graph.add_step(node.clone(), Step::new(id).input(command)).unwrap();
    }
    graph.set_max_parallel(4).chain(["a", "b", "c"]).unwrap();
    assert_eq!(graph.get_step("c").unwrap().dependencies().collect::<Vec<_>>(), ["b"]);
    let run = graph.run(&fixture.context()).await;
    assert_eq!(run.results["c"]["text"], "2", "{run:?}");
    node.stop("done").await;
}

#[tokio::test]
async fn validation_reports_problems() {
    let fixture = Fixture::new();
    let node = Arc::new(fixture.bash("sh").await);
    let mut graph = Graph::new("bad");
    graph.add_step(node.clone(), Step::new("a").depends_on(["a"])).unwrap();
    graph.add_step(node.clone(), Step::new("b").depends_on(["nowhere"])).unwrap();
    let problems = graph.validate();
    assert!(problems.contains(&"Step 'a' depends on itself".to_string()), "{problems:?}");
    assert!(problems.contains(&"Step 'b' depends on unknown step 'nowhere'".to_string()), "{problems:?}");
    let mut graph = Graph::new("cycle");
    for (id, dependency) in [("a", "c"), ("b", "a"), ("c", "b")] {
        graph.add_step(node.clone(), Step::new(id).depends_on([dependency])).unwrap();
    }
    let problems = graph.validate();
    assert!(problems[0].starts_with("Cycle detected: a → "), "{problems:?}");
    let run = graph.run(&fixture.context()).await;
    assert_eq!(run.error.unwrap().kind, nerve_node::error::ErrorKind::InvalidRequest);
    // A terminal runs one turn at a time.
    let mut graph = Graph::new("shared");
    for id in ["a", "b"] {
        graph.add_step(node.clone(), Step::new(id).input("echo x")).unwrap();
    }
    assert_eq!(graph.validate(), Vec::<String>::new());
    graph.set_max_parallel(2);
    assert!(graph.validate()[0].contains("'a' and 'b'"), "{:?}", graph.validate());
    node.stop("done").await;
}

#[tokio::test]
async fn execution_follows_execution_order() {
    let fixture = Fixture::new();
    let node = Arc::new(fixture.bash("sh").await);
    let mut graph = Graph::new("order");
    let log = fixture.file("log");
    for (id, dependency) in
        [("ship", &["test", "lint"][..]), ("test", &["build"]), ("lint", &[]), ("build", &[])]
    {
        let command = format!("echo {id} >> {}", log.display());
        graph
            .add_step(node.clone(), Step::new(id).input(command).depends_on(dependency.iter().copied()))
            .unwrap();
    }
    let order = graph.execution_order().unwrap();
    assert_eq!(order, ["lint", "build", "test", "ship"]);
    assert_eq!(graph.run(&fixture.context()).await.status, TraceStatus::Completed);
    let executed = std::fs::read_to_string(log).unwrap();
    assert_eq!(executed.lines().collect::<Vec<_>>(), order);
    node.stop("done").await;
}

#[tokio::test]
async fn trace_records_steps() {
    let fixture = Fixture::new();
    let node = Arc::new(fixture.bash("sh").await);
    let mut graph = Graph::new("traced");
    graph.add_step(node.clone(), Step::new("good").input("echo fine")).unwrap();
    graph.add_step(node.clone(), Step::new("bad").input("exit_with() { return 3; }; exit_with")).unwrap();
    graph.chain(["good", "bad"]).unwrap();
    let tracer = Tracer::new("traced");
    let run = graph.run(&fixture.context().with_trace(tracer.clone())).await;
    assert_eq!(run.status, TraceStatus::Failed, "{run:?}");
    let trace = tracer.snapshot();
    assert_eq!((trace.status, trace.steps.len()), (TraceStatus::Failed, 2), "{}", trace.explain());
    let [good, bad] = &trace.steps[..] else { panic!() };
    assert_eq!((&*good.step_id, &*good.node_id, good.node_type), ("good", "sh", "pty"));
    assert_eq!((&good.input, &good.output["text"]), (&json!("echo fine"), &json!("fine")));
    assert!(good.error.is_none() && good.start_time < good.end_time && good.end_time <= bad.start_time);
    assert_eq!(good.metadata["turn"], good.output["turn"]);
    assert!(bad.error.as_ref().unwrap().contains("exit code 3"), "{bad:?}");
    let explained = trace.explain();
    assert!(
        explained.contains("  [+] good (pty): ") && explained.contains("  [x] bad (pty): "),
        "{explained}"
    );
    node.stop("done").await;
}
