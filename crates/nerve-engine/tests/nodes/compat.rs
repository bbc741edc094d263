//! The deprecated channels and DAGs as nodes and graphs.
#![expect(deprecated, reason = "the deprecated API is under test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_api::value::NodeState;
use nerve_engine::compat::{
    Channel, ChannelNode, ChannelState, ChannelType, Dag, DagOptions, Task, TaskResult, TaskStatus,
};
use nerve_graph::Graph;
use nerve_graph::context::RunContext;
use nerve_graph::session::Session;
use nerve_graph::step::Step;
use nerve_graph::trace::TraceStatus;
use nerve_node::context::TurnContext;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::{Node, NodeFuture};
use nerve_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::harness::LIMIT;
use crate::matrix::Fixture;

/// A third-party channel that answers in upper case; the input `wait` blocks until an interrupt.
#[derive(Debug, Default)]
struct UppercaseChannel {
    log: Mutex<Vec<String>>,
    interrupted: Notify,
}

impl UppercaseChannel {
    fn record(&self, call: String) -> NodeFuture<'_, ()> {
        self.log.lock().unwrap().push(call);
        Box::pin(async { Ok(()) })
    }

    fn is_closed(&self) -> bool {
        self.log.lock().unwrap().iter().any(|call| call == "close")
    }
}

impl Channel for UppercaseChannel {
    fn id(&self) -> &str {
        "loud"
    }

    fn state(&self) -> ChannelState {
        if self.is_closed() { ChannelState::Closed } else { ChannelState::Open }
    }

    fn send<'a>(
        &'a self,
        input: &'a str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> NodeFuture<'a> {
        Box::pin(async move {
            self.record(format!("send {input} {parser:?} {timeout:?}")).await?;
            if input == "wait" {
                self.interrupted.notified().await;
            }
            Ok(json!(input.to_uppercase()))
        })
    }

    fn run<'a>(&'a self, command: &'a str) -> NodeFuture<'a, ()> {
        self.record(format!("run {command}"))
    }

    fn write<'a>(&'a self, data: &'a [u8]) -> NodeFuture<'a, ()> {
        self.record(format!("write {}", data.len()))
    }

    fn read(&self) -> NodeFuture<'_, String> {
        Box::pin(async { Ok("one\ntwo\nthree".to_string()) })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        self.interrupted.notify_one();
        self.record("interrupt".to_string())
    }

    fn close(&self) -> NodeFuture<'_, ()> {
        self.record("close".to_string())
    }
}

#[tokio::test]
async fn channel_runs_as_graph_step() {
    let channel = Arc::new(UppercaseChannel::default());
    let node = ChannelNode::new(channel.clone());
    assert!(node.is_persistent() && channel.is_open());
    assert_eq!((node.id(), node.info().state), ("loud", NodeState::Ready));
    assert_eq!(channel.channel_type(), ChannelType::Terminal);
    let session = Session::new("old");
    session.register(Arc::new(node.clone()), Some("channel")).unwrap();
    let mut graph = Graph::new("g");
    graph.add_step_ref("channel", Step::new("a").input("hello").parser(ParserKind::Codex)).unwrap();
    let run = graph.run(&RunContext::new(&session)).await;
    assert_eq!(run.results["a"], "HELLO", "{run:?}");
    assert_eq!(*channel.log.lock().unwrap(), ["send hello Some(Codex) None"]);
    assert_eq!(channel.read_tail(2).await.unwrap(), "two\nthree");
    session.stop().await;
    assert!(channel.is_closed() && !channel.is_open());
    assert_eq!(node.info().state, NodeState::Stopped);
}

#[tokio::test]
async fn cancelled_run_interrupts_the_channel() {
    let channel = Arc::new(UppercaseChannel::default());
    let token = CancellationToken::new();
    let context = TurnContext::new().with_input("wait").with_cancellation(token.clone());
    let node = ChannelNode::new(channel.clone());
    let execution = tokio::spawn(async move { node.execute(&context).await });
    eventually("the channel receives the input", async || !channel.log.lock().unwrap().is_empty()).await;
    token.cancel();
    let error = tokio::time::timeout(LIMIT, execution).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(channel.log.lock().unwrap()[1], "interrupt");
}

#[tokio::test]
async fn terminal_implements_channel() {
    let fixture = Fixture::new();
    let shell = fixture.bash("sh").await;
    let channel: Arc<dyn Channel> = Arc::new(shell.clone());
    assert_eq!((channel.id(), channel.state()), ("sh", ChannelState::Open));
    let answer = channel.send("echo hello", Some(ParserKind::None), Some(LIMIT)).await.unwrap();
    assert_eq!(answer["text"], "hello");
    channel.run("echo ran").await.unwrap();
    channel.write(b"echo wri'tt'en\r").await.unwrap();
    eventually("the output contains the written text", async || {
        channel.read().await.unwrap().contains("\nwritten")
    })
    .await;
    assert_eq!(channel.read_tail(1).await.unwrap().lines().count(), 1);
    let node = ChannelNode::new(Arc::clone(&channel));
    let value = node.execute(&fixture.turn_context().with_input("echo as a node")).await.unwrap();
    assert_eq!(value["text"], "as a node");
    channel.close().await.unwrap();
    assert!(!channel.is_open());
    assert_eq!(channel.send("echo x", None, None).await.unwrap_err().kind, ErrorKind::NodeStopped);
}

fn constant_task(id: &str, value: Value) -> Task {
    Task::new(id, move |_| {
        let value = value.clone();
        async move { Ok(value) }
    })
}

fn failing_task(id: &str) -> Task {
    Task::new(id, |_| async { Err(EngineError::process("broken")) })
}

/// Creates a task that returns the output of `dependency` followed by its own id.
fn append_task(id: &'static str, dependency: &'static str) -> Task {
    let task = Task::new(id, move |context| async move {
        Ok(json!(format!(
            "{} {id}",
            context.upstream.get(dependency).and_then(Value::as_str).unwrap_or_default()
        )))
    });
    task.depends_on([dependency])
}

fn context() -> RunContext {
    RunContext::new(&Session::new("old"))
}

#[tokio::test]
async fn failed_task_skips_only_its_dependants() {
    let mut dag = Dag::new();
    let tasks = [
        failing_task("bad"),
        append_task("after-bad", "bad"),
        constant_task("good", json!("g")),
        append_task("after-good", "good"),
    ];
    dag.add_tasks(tasks).unwrap();
    for parallel in [true, false] {
        let events = Arc::new(Mutex::new(Vec::new()));
        let (start, end) = (Arc::clone(&events), Arc::clone(&events));
        let options = DagOptions {
            parallel,
            max_workers: 2,
            on_task_start: Some(Arc::new(move |id| start.lock().unwrap().push(format!("{id} starts")))),
            on_task_complete: Some(Arc::new(move |id, result: &TaskResult| {
                end.lock().unwrap().push(format!("{id} {}", result.status.as_str()));
            })),
        };
        let results = dag.run(&context(), options).await.unwrap();
        let status: BTreeMap<&str, TaskStatus> =
            results.iter().map(|(id, result)| (&**id, result.status)).collect();
        assert_eq!(
            status,
            BTreeMap::from([
                ("bad", TaskStatus::Failed),
                ("after-bad", TaskStatus::Skipped),
                ("good", TaskStatus::Completed),
                ("after-good", TaskStatus::Completed),
            ])
        );
        assert_eq!(
            (&results["after-good"].output, &results["after-good"].error),
            (&json!("g after-good"), &None)
        );
        assert_eq!((&results["bad"].output, results["bad"].error.as_deref()), (&Value::Null, Some("broken")));
        assert!(results.values().all(|result| result.duration_ms >= 0.0 && result.duration_ms < 60_000.0));
        let events = events.lock().unwrap();
        for expected in ["bad starts", "bad failed", "good starts", "good completed", "after-good completed"]
        {
            assert!(events.iter().any(|event| event == expected), "{expected}: {events:?}");
        }
        assert!(!events.iter().any(|event| event.starts_with("after-bad")), "{events:?}");
    }
}

#[tokio::test]
async fn tasks_run_in_parallel_or_sequentially() {
    let barrier = Arc::new(tokio::sync::Barrier::new(3));
    let log = Arc::new(Mutex::new(Vec::new()));
    let (mut parallel_dag, mut sequential_dag) = (Dag::new(), Dag::new());
    for id in ["a", "b", "c"] {
        let barrier = Arc::clone(&barrier);
        // No task ends before all have started.
        let wait = move |_| {
            let barrier = Arc::clone(&barrier);
            async move { Ok(json!(barrier.wait().await.is_leader())) }
        };
        parallel_dag.add_task(Task::new(id, wait)).unwrap();
        let log = Arc::clone(&log);
        let record = move |_| {
            let log = Arc::clone(&log);
            async move {
                log.lock().unwrap().push(format!("{id} begins"));
                tokio::time::sleep(Duration::from_millis(20)).await;
                log.lock().unwrap().push(format!("{id} ends"));
                Ok(json!(null))
            }
        };
        sequential_dag.add_task(Task::new(id, record)).unwrap();
    }
    let context = context();
    let parallel = tokio::time::timeout(LIMIT, parallel_dag.run(&context, DagOptions::default()))
        .await
        .unwrap()
        .unwrap();
    assert!(parallel.values().all(|result| result.status == TaskStatus::Completed), "{parallel:?}");
    let options = DagOptions { parallel: false, ..DagOptions::default() };
    let sequential = sequential_dag.run(&context, options).await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
    assert!(sequential.values().all(|result| result.duration_ms >= 19.0), "{sequential:?}");
}

#[tokio::test]
async fn dag_is_validated_ordered_and_inspected() {
    let mut dag = Dag::new();
    dag.add_tasks([constant_task("c", json!(3)), constant_task("b", json!(2)), constant_task("a", json!(1))])
        .unwrap();
    assert_eq!(dag.add_task(constant_task("a", json!(0))).unwrap_err().kind, ErrorKind::AlreadyExists);
    assert_eq!(dag.chain(["a", "missing"]).unwrap_err().kind, ErrorKind::NotFound);
    dag.chain(["a", "b", "c"]).unwrap().chain(["a", "b"]).unwrap();
    assert_eq!(dag.validate(), Vec::<String>::new());
    assert_eq!(dag.execution_order().unwrap(), ["a", "b", "c"]);
    assert_eq!(dag.list_tasks(), ["c", "b", "a"]);
    assert_eq!(dag.get_task("b").unwrap().depends_on, ["a"]);
    assert!(dag.get_task("x").is_none());
    let graph = Graph::from(dag.clone());
    assert_eq!(graph.list_steps(), dag.list_tasks());
    let run = dag.clone().into_graph().run(&context()).await;
    assert_eq!((run.status, &run.results["c"]), (TraceStatus::Completed, &json!(3)));

    dag.chain(["c", "a"]).unwrap();
    assert_eq!(dag.validate(), ["Cycle detected: c → a → b → c"]);
    let error = dag.run(&context(), DagOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(dag.execution_order().is_err());
}

#[tokio::test]
async fn cancelled_dag_fails_as_cancelled() {
    let token = CancellationToken::new();
    let mut dag = Dag::new();
    let stop = token.clone();
    dag.add_task(Task::new("a", move |_| {
        stop.cancel();
        async { Ok(json!(1)) }
    }))
    .unwrap();
    dag.add_task(append_task("b", "a")).unwrap();
    let error = dag.run(&context().with_cancellation(token), DagOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn dag_inside_traced_step_returns_results() {
    use nerve_graph::function::StepFunction;
    use nerve_graph::trace::Tracer;
    use nerve_graph::{Graph, step::Step};
    let node = StepFunction::new("dag", |context| async move {
        let mut dag = Dag::new();
        dag.add_task(Task::new("one", |_| async { Ok(json!(1)) }))?;
        let results = dag.run(&context, DagOptions::default()).await?;
        Ok(results["one"].output.clone())
    });
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(node), Step::new("outer")).unwrap();
    let run = graph.run(&context().with_trace(Tracer::new("g"))).await;
    assert_eq!(json!(run.results), json!({"outer": 1}));
}
