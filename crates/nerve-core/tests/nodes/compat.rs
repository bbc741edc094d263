//! Channels and DAGs of the first nerve, as nodes and graphs.
#![expect(deprecated, reason = "the older words are what is tested")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_core::cancellation::CancellationToken;
use nerve_core::command::StateName;
use nerve_core::compat::{
    Channel, ChannelNode, ChannelState, ChannelType, Dag, DagOptions, Task, TaskResult, TaskStatus,
};
use nerve_core::context::ExecutionContext;
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::graph::Graph;
use nerve_core::graph::step::Step;
use nerve_core::node::{Node, NodeFuture};
use nerve_core::session::Session;
use nerve_core::trace::TraceStatus;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::LIMIT;
use crate::matrix::Bench;

/// A channel of somebody else: answers in upper case, and waits for an interrupt when told to.
#[derive(Debug, Default)]
struct Loud {
    notes: Mutex<Vec<String>>,
    interrupted: Notify,
}

impl Loud {
    fn note(&self, note: String) -> NodeFuture<'_, ()> {
        self.notes.lock().unwrap().push(note);
        Box::pin(async { Ok(()) })
    }

    fn closed(&self) -> bool {
        self.notes.lock().unwrap().iter().any(|note| note == "close")
    }
}

impl Channel for Loud {
    fn id(&self) -> &str {
        "loud"
    }

    fn state(&self) -> ChannelState {
        if self.closed() { ChannelState::Closed } else { ChannelState::Open }
    }

    fn send<'a>(
        &'a self,
        input: &'a str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> NodeFuture<'a> {
        Box::pin(async move {
            self.note(format!("send {input} {parser:?} {timeout:?}")).await?;
            if input == "wait" {
                self.interrupted.notified().await;
            }
            Ok(json!(input.to_uppercase()))
        })
    }

    fn run<'a>(&'a self, command: &'a str) -> NodeFuture<'a, ()> {
        self.note(format!("run {command}"))
    }

    fn write<'a>(&'a self, data: &'a [u8]) -> NodeFuture<'a, ()> {
        self.note(format!("write {}", data.len()))
    }

    fn read(&self) -> NodeFuture<'_, String> {
        Box::pin(async { Ok("one\ntwo\nthree".to_string()) })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        self.interrupted.notify_one();
        self.note("interrupt".to_string())
    }

    fn close(&self) -> NodeFuture<'_, ()> {
        self.note("close".to_string())
    }
}

#[tokio::test]
async fn a_channel_is_a_step_of_a_graph() {
    let channel = Arc::new(Loud::default());
    let node = ChannelNode::new(channel.clone());
    assert!(node.persistent() && channel.is_open());
    assert_eq!((node.id(), node.info().state), ("loud", StateName::Ready));
    assert_eq!(channel.channel_type(), ChannelType::Terminal);
    let session = Session::new("old");
    session.register(Arc::new(node.clone()), Some("channel")).unwrap();
    let mut graph = Graph::new("g");
    graph.add_step_ref("channel", Step::new("a").input("hello").parser(ParserKind::Codex)).unwrap();
    let run = graph.run(&ExecutionContext::new(&session)).await;
    assert_eq!(run.results["a"], "HELLO", "{run:?}");
    assert_eq!(*channel.notes.lock().unwrap(), ["send hello Some(Codex) None"]);
    assert_eq!(channel.read_tail(2).await.unwrap(), "two\nthree");
    session.stop().await;
    assert!(channel.closed() && !channel.is_open());
    assert_eq!(node.info().state, StateName::Stopped);
}

#[tokio::test]
async fn a_cancelled_run_interrupts_the_channel() {
    let channel = Arc::new(Loud::default());
    let token = CancellationToken::new();
    let context =
        ExecutionContext::new(&Session::new("old")).with_input("wait").with_cancellation(token.clone());
    let node = ChannelNode::new(channel.clone());
    let work = tokio::spawn(async move { node.execute(&context).await });
    crate::matrix::until("it works", async || !channel.notes.lock().unwrap().is_empty()).await;
    token.cancel();
    let error = tokio::time::timeout(LIMIT, work).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(channel.notes.lock().unwrap()[1], "interrupt");
}

#[tokio::test]
async fn a_terminal_speaks_the_words_of_channels() {
    let bench = Bench::new();
    let shell = bench.bash("sh").await;
    let channel: Arc<dyn Channel> = Arc::new(shell.clone());
    assert_eq!((channel.id(), channel.state()), ("sh", ChannelState::Open));
    let answer = channel.send("echo hello", Some(ParserKind::None), Some(LIMIT)).await.unwrap();
    assert_eq!(answer["text"], "hello");
    channel.run("echo ran").await.unwrap();
    channel.write(b"echo wri'tt'en\r").await.unwrap();
    crate::matrix::until("it is written", async || channel.read().await.unwrap().contains("\nwritten")).await;
    assert_eq!(channel.read_tail(1).await.unwrap().lines().count(), 1);
    let node = ChannelNode::new(Arc::clone(&channel));
    let value = node.execute(&bench.context().with_input("echo as a node")).await.unwrap();
    assert_eq!(value["text"], "as a node");
    channel.close().await.unwrap();
    assert!(!channel.is_open());
    assert_eq!(channel.send("echo x", None, None).await.unwrap_err().kind, ErrorKind::NodeStopped);
}

fn gives(id: &str, value: Value) -> Task {
    Task::new(id, move |_| {
        let value = value.clone();
        async move { Ok(value) }
    })
}

fn fails(id: &str) -> Task {
    Task::new(id, |_| async { Err(EngineError::new(ErrorKind::Process, "broken")) })
}

/// The input of the task before, and its own id.
fn joins(id: &'static str, before: &'static str) -> Task {
    let task = Task::new(id, move |context| async move {
        Ok(json!(format!(
            "{} {id}",
            context.upstream.get(before).and_then(Value::as_str).unwrap_or_default()
        )))
    });
    task.depends_on([before])
}

fn context() -> ExecutionContext {
    ExecutionContext::new(&Session::new("old"))
}

#[tokio::test]
async fn a_failed_task_stops_those_that_wait_for_it_and_no_others() {
    let mut dag = Dag::new();
    let tasks =
        [fails("bad"), joins("after-bad", "bad"), gives("good", json!("g")), joins("after-good", "good")];
    dag.add_tasks(tasks).unwrap();
    for parallel in [true, false] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (start, end) = (Arc::clone(&told), Arc::clone(&told));
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
        let told = told.lock().unwrap();
        for note in ["bad starts", "bad failed", "good starts", "good completed", "after-good completed"] {
            assert!(told.iter().any(|told| told == note), "{note}: {told:?}");
        }
        assert!(!told.iter().any(|told| told.starts_with("after-bad")), "{told:?}");
    }
}

#[tokio::test]
async fn tasks_run_at_once_or_one_after_the_other() {
    let meeting = Arc::new(tokio::sync::Barrier::new(3));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let (mut meets, mut notices) = (Dag::new(), Dag::new());
    for id in ["a", "b", "c"] {
        let meeting = Arc::clone(&meeting);
        // Nobody ends before all have begun.
        let meet = move |_| {
            let meeting = Arc::clone(&meeting);
            async move { Ok(json!(meeting.wait().await.is_leader())) }
        };
        meets.add_task(Task::new(id, meet)).unwrap();
        let notes = Arc::clone(&notes);
        let notice = move |_| {
            let notes = Arc::clone(&notes);
            async move {
                notes.lock().unwrap().push(format!("{id} begins"));
                tokio::time::sleep(Duration::from_millis(20)).await;
                notes.lock().unwrap().push(format!("{id} ends"));
                Ok(json!(null))
            }
        };
        notices.add_task(Task::new(id, notice)).unwrap();
    }
    let context = context();
    let at_once =
        tokio::time::timeout(LIMIT, meets.run(&context, DagOptions::default())).await.unwrap().unwrap();
    assert!(at_once.values().all(|result| result.status == TaskStatus::Completed), "{at_once:?}");
    let one = DagOptions { parallel: false, ..DagOptions::default() };
    let alone = notices.run(&context, one).await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
    assert!(alone.values().all(|result| result.duration_ms >= 19.0), "{alone:?}");
}

#[tokio::test]
async fn a_dag_is_checked_ordered_and_looked_at() {
    let mut dag = Dag::new();
    dag.add_tasks([gives("c", json!(3)), gives("b", json!(2)), gives("a", json!(1))]).unwrap();
    assert_eq!(dag.add_task(gives("a", json!(0))).unwrap_err().kind, ErrorKind::AlreadyExists);
    assert_eq!(dag.chain(["a", "nobody"]).unwrap_err().kind, ErrorKind::NotFound);
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
async fn a_cancelled_dag_says_so_and_has_what_it_has() {
    let token = CancellationToken::new();
    let mut dag = Dag::new();
    let stop = token.clone();
    dag.add_task(Task::new("a", move |_| {
        stop.cancel();
        async { Ok(json!(1)) }
    }))
    .unwrap();
    dag.add_task(joins("b", "a")).unwrap();
    let error = dag.run(&context().with_cancellation(token), DagOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn a_dag_in_a_step_that_is_watched_gives_its_results() {
    use nerve_core::graph::{Graph, step::Step};
    use nerve_core::node::function::FunctionNode;
    use nerve_core::trace::Tracer;
    let node = FunctionNode::asynchronous("dag", |context| async move {
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
