//! Resuming runs whose server has ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nerve_graph::event::{Completion, StepEventKind};
use nerve_graph::function::FunctionNode;
use nerve_graph::gate::Gate;
use nerve_graph::gate::open_gates::OpenGates;
use nerve_graph::journal::{Header, Journal, journal_path, read_result};
use nerve_graph::step::{OnResume, Scope, Step};
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, GraphRun};
use nerve_node::NodeHandle;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use nerve_types::TsNs;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::{LIMIT, Notes, StatefulNode, context};

/// A directory for the journal of one run.
pub(crate) struct JournalDir {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl JournalDir {
    pub(crate) fn new() -> JournalDir {
        let folder = tempfile::tempdir().unwrap();
        let path = journal_path(folder.path(), "r-1");
        let head = Header {
            at: TsNs(1),
            run: "r-1".into(),
            graph: "g".into(),
            session: None,
            definition: json!({}),
            input: json!(null),
            options: json!({}),
        };
        drop(Journal::create(&path, &head).unwrap());
        JournalDir { path, _folder: folder }
    }

    /// Runs `graph` to its end, resuming from the journal.
    pub(crate) async fn run(&self, graph: &Graph, gates: &OpenGates) -> GraphRun {
        let (journal, past) = Journal::resume(&self.path).unwrap();
        let context = context().with_journal(journal, Some(past)).with_gates(gates.clone());
        tokio::time::timeout(LIMIT, graph.run(&context)).await.unwrap()
    }

    /// Runs `graph` until a step waits at `at`, then drops it as if the server had crashed.
    async fn run_until(&self, graph: &Graph, at: &Notify) {
        let (journal, past) = Journal::resume(&self.path).unwrap();
        let context = context().with_journal(journal, Some(past));
        tokio::select! {
            run = graph.run(&context) => panic!("the run ended: {:?}", run.error),
            () = at.notified() => {}
            () = tokio::time::sleep(LIMIT) => panic!("the step was not reached"),
        }
    }

    /// Like `run_until`, and answers a gate on the way with `choice`.
    async fn run_answered_until(&self, graph: &Graph, choice: &str, at: &Notify) {
        let (journal, past) = Journal::resume(&self.path).unwrap();
        let gates = OpenGates::new();
        let context = context().with_journal(journal, Some(past)).with_gates(gates.clone());
        let mut changes = gates.changes();
        let answered = async {
            changes.changed().await.unwrap();
            gates.answer(None, choice).unwrap();
            at.notified().await;
        };
        tokio::select! {
            run = graph.run(&context) => panic!("the run ended: {:?}", run.error),
            () = answered => {}
            () = tokio::time::sleep(LIMIT) => panic!("the step was not reached"),
        }
    }
}

/// A node that hangs at the given call (from 1); otherwise it logs and returns its input.
fn hangs_at(call: usize, notes: &Notes, at: &Arc<Notify>) -> NodeHandle {
    let (calls, notes, at) = (AtomicUsize::new(0), notes.clone(), Arc::clone(at));
    Arc::new(FunctionNode::asynchronous("work", move |context| {
        let hangs = calls.fetch_add(1, Ordering::Relaxed) + 1 == call;
        let (notes, at) = (notes.clone(), Arc::clone(&at));
        async move {
            if hangs {
                at.notify_one();
                std::future::pending::<()>().await;
            }
            notes.add(context.input.to_string());
            Ok(context.input)
        }
    }))
}

fn letters(node: &NodeHandle) -> Graph {
    let mut graph = Graph::new("g");
    for id in ["a", "b", "c", "d"] {
        graph.add_step(node.clone(), Step::new(id).input(id)).unwrap();
    }
    graph.chain(["a", "b", "c", "d"]).unwrap();
    graph
}

#[tokio::test]
async fn finished_steps_do_not_run_again() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let graph = letters(&hangs_at(3, &notes, &at));
    journal_dir.run_until(&graph, &at).await;
    assert_eq!(notes.all(), ["\"a\"", "\"b\""]);
    let run = journal_dir.run(&graph, &OpenGates::new()).await;
    assert_eq!(json!(run.results), json!({"a": "a", "b": "b", "c": "c", "d": "d"}));
    assert_eq!(notes.all(), ["\"a\"", "\"b\"", "\"c\"", "\"d\""]);
    // Resumed again: nothing is left to do.
    assert_eq!(journal_dir.run(&graph, &OpenGates::new()).await.results, run.results);
    assert_eq!(notes.all().len(), 4);
}

#[tokio::test]
async fn events_mark_reused_results() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let graph = letters(&hangs_at(3, &notes, &at));
    journal_dir.run_until(&graph, &at).await;
    let (journal, past) = Journal::resume(&journal_dir.path).unwrap();
    let mut events = graph.execute_stream(context().with_journal(journal, Some(past)));
    let mut how = Vec::new();
    while let Some(event) = events.next().await {
        if let StepEventKind::Complete { how: done, .. } = event.kind {
            how.push((event.step.to_string(), done));
        }
    }
    let of = |step: &str, done| (step.to_string(), done);
    assert_eq!(
        how,
        [
            of("a", Completion::Reused),
            of("b", Completion::Reused),
            of("c", Completion::Completed),
            of("d", Completion::Completed)
        ]
    );
}

#[tokio::test]
async fn changed_steps_and_their_dependants_run_again() {
    let (journal_dir, notes) = (JournalDir::new(), Notes::default());
    let node = notes.node("n");
    let graph = |first: &str, definition| {
        let mut graph = Graph::new("g");
        graph.add_step(node.clone(), Step::new("a").input(first)).unwrap();
        let follows =
            Step::new("b").depends_on(["a"]).input_fn(|upstream| upstream.get("a").cloned().unwrap());
        graph.add_step(node.clone(), follows).unwrap();
        graph.add_step(node.clone(), Step::new("c").input("same").definition(definition)).unwrap();
        graph
    };
    let gates = OpenGates::new();
    journal_dir.run(&graph("one", 1), &gates).await;
    assert_eq!(notes.all().len(), 3);
    assert_eq!(journal_dir.run(&graph("two", 1), &gates).await.results["b"], json!("two"));
    assert_eq!(notes.all().len(), 5, "a and b");
    journal_dir.run(&graph("two", 2), &gates).await;
    assert_eq!(notes.all().len(), 6, "c");
    journal_dir.run(&graph("one", 1), &gates).await;
    assert_eq!(notes.all().len(), 6, "each step must run once");
}

#[tokio::test]
async fn failed_steps_run_again() {
    let journal_dir = JournalDir::new();
    let graph = crate::harness::chain("g", [("a", crate::harness::failing_first("f", 1))]);
    assert_eq!(journal_dir.run(&graph, &OpenGates::new()).await.status, TraceStatus::Failed);
    assert_eq!(journal_dir.run(&graph, &OpenGates::new()).await.results["a"], json!(2));
}

#[tokio::test]
async fn items_and_rounds_resume_individually() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let items = |_: &Scope<'_>| Ok((0..5).map(|item| json!(item)).collect());
    let input =
        |scope: &Scope<'_>| Ok(json!([scope.item, scope.round, scope.result.map(|result| &result[1])]));
    let mut graph = Graph::new("g");
    let step = Step::new("s").foreach(items, 1).until(|scope| Ok(scope.round == 2), 3).input_from(input);
    graph.add_step(hangs_at(6, &notes, &at), step).unwrap();
    journal_dir.run_until(&graph, &at).await;
    assert_eq!(notes.all().len(), 5);
    let run = journal_dir.run(&graph, &OpenGates::new()).await;
    assert_eq!(run.results["s"], json!([[0, 2, 1], [1, 2, 1], [2, 2, 1], [3, 2, 1], [4, 2, 1]]));
    let mut all = notes.all();
    assert_eq!(all.len(), 10, "each round must run once");
    all.dedup();
    assert_eq!(all.len(), 10);
}

#[tokio::test]
async fn nested_steps_resume_individually() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let inner = Arc::new(letters(&hangs_at(6, &notes, &at)));
    let outer = crate::harness::chain("outer", [("one", inner.clone()), ("two", inner)]);
    journal_dir.run_until(&outer, &at).await;
    assert_eq!(notes.all().len(), 5);
    let run = journal_dir.run(&outer, &OpenGates::new()).await;
    assert_eq!(run.results["two"], json!({"a": "a", "b": "b", "c": "c", "d": "d"}));
    assert_eq!(notes.all().len(), 8);
}

#[tokio::test]
async fn skipped_condition_is_reevaluated_ignored_failure_is_not() {
    use nerve_graph::policy::{ErrorPolicy, OnError};
    let (journal_dir, notes) = (JournalDir::new(), Notes::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let bad = Arc::new(FunctionNode::new("bad", move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Err(crate::harness::error("bad"))
    }));
    let graph = |open: bool| {
        let mut graph = Graph::new("g");
        graph.add_step(notes.node("w"), Step::new("when").when(move |_| Ok(open)).input(1)).unwrap();
        let skip =
            ErrorPolicy { on_error: OnError::Skip, fallback_value: json!("none"), ..ErrorPolicy::default() };
        graph.add_step(bad.clone(), Step::new("bad").error_policy(skip)).unwrap();
        graph
    };
    let gates = OpenGates::new();
    assert_eq!(
        json!(journal_dir.run(&graph(false), &gates).await.results),
        json!({"when": null, "bad": "none"})
    );
    assert_eq!(json!(journal_dir.run(&graph(true), &gates).await.results), json!({"when": 1, "bad": "none"}));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn skipped_graph_is_read_back_as_its_fallback_value() {
    use nerve_graph::policy::{ErrorPolicy, OnError};
    let (journal_dir, notes) = (JournalDir::new(), Notes::default());
    let bad: NodeHandle = Arc::new(FunctionNode::new("bad", |_| Err(crate::harness::error("bad"))));
    let inner = crate::harness::chain("inner", [("a", notes.node("a")), ("b", bad)]);
    let skip =
        ErrorPolicy { on_error: OnError::Skip, fallback_value: json!("none"), ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(inner), Step::new("outer").error_policy(skip)).unwrap();
    for pass in ["first", "resumed"] {
        let run = journal_dir.run(&graph, &OpenGates::new()).await;
        assert_eq!(run.results["outer"], json!("none"), "{pass}");
        assert_eq!(read_result(&journal_dir.path, "outer").unwrap(), Some(json!("none")), "{pass}");
    }
    assert_eq!(notes.all(), ["a"], "a completed step of a skipped graph is reused");
}

/// A stateful node that does not end until it is released.
#[derive(Debug)]
struct Stuck {
    desk: Arc<StatefulNode>,
    at: Arc<Notify>,
    stuck: std::sync::atomic::AtomicBool,
}

impl nerve_node::Node for Stuck {
    fn id(&self) -> &str {
        "stuck"
    }

    fn kind(&self) -> &'static str {
        "desk"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a nerve_node::context::TurnContext) -> nerve_node::NodeFuture<'a> {
        Box::pin(async move {
            if self.stuck.swap(false, Ordering::Relaxed) {
                self.at.notify_one();
                std::future::pending::<()>().await;
            }
            self.desk.execute(context).await
        })
    }
}

/// Interrupts a run during a step on a stateful node, then resumes it and answers its question.
async fn interrupt_and_resume(on_resume: OnResume, answer: Option<&str>) -> (GraphRun, Vec<String>) {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let stuck = Stuck { desk: StatefulNode::new("stuck", &notes), at: Arc::clone(&at), stuck: true.into() };
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(stuck), Step::new("s").input("in").on_resume(on_resume)).unwrap();
    graph.add_step(notes.node("after"), Step::new("after").depends_on(["s"])).unwrap();
    journal_dir.run_until(&graph, &at).await;
    let gates = OpenGates::new();
    let mut changes = gates.changes();
    let answer = async {
        let Some(answer) = answer else { return };
        changes.changed().await.unwrap();
        let waiting = gates.waiting();
        assert_eq!(
            waiting[0].question,
            "Step 's' was running on node 'stuck' when the run was interrupted. Run it again?"
        );
        assert_eq!(waiting[0].choices, ["rerun", "skip", "fail"]);
        gates.answer(None, answer).unwrap();
    };
    let (run, ()) = tokio::join!(journal_dir.run(&graph, &gates), answer);
    (run, notes.all())
}

#[tokio::test]
async fn interrupted_step_on_stateful_node_asks() {
    let (run, notes) = interrupt_and_resume(OnResume::Ask, Some("rerun")).await;
    assert_eq!(
        (json!(run.results), notes.join(", ")),
        (json!({"s": "in", "after": null}), "stuck works, after".into())
    );
    let (run, notes) = interrupt_and_resume(OnResume::Ask, Some("skip")).await;
    assert_eq!((json!(run.results), notes.join(", ")), (json!({"s": null, "after": null}), "after".into()));
    let (run, notes) = interrupt_and_resume(OnResume::Ask, Some("fail")).await;
    assert_error(&run.error.unwrap(), ErrorKind::Interrupted, &["'s'"]);
    assert_eq!(notes, [""; 0]);
}

#[tokio::test]
async fn on_resume_rerun_does_not_ask() {
    let (run, notes) = interrupt_and_resume(OnResume::Rerun, None).await;
    assert_eq!((run.status, notes.join(", ")), (TraceStatus::Completed, "stuck works, after".into()));
}

#[tokio::test]
async fn answer_is_not_requested_twice() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(Gate::new("gate", "Ship it?")), Step::new("ship")).unwrap();
    let goes_on =
        Step::new("go").depends_on(["ship"]).input_fn(|upstream| upstream.get("ship").cloned().unwrap());
    graph.add_step(hangs_at(1, &notes, &at), goes_on).unwrap();
    journal_dir.run_answered_until(&graph, "yes", &at).await;
    let run = journal_dir.run(&graph, &OpenGates::new()).await;
    assert_eq!(run.results["go"], json!({"choice": "yes", "by": "person"}));
}

#[tokio::test]
async fn open_question_keeps_its_deadline() {
    let (journal_dir, gates) = (JournalDir::new(), OpenGates::new());
    let mut graph = Graph::new("g");
    let gate = Gate::new("gate", "Ship it?").timeout(crate::harness::HOUR);
    graph.add_step(Arc::new(gate), Step::new("ship")).unwrap();
    let mut deadlines = Vec::new();
    for _ in 0..2 {
        let (journal, past) = Journal::resume(&journal_dir.path).unwrap();
        let context = context().with_journal(journal, Some(past)).with_gates(gates.clone());
        let mut changes = gates.changes();
        tokio::select! {
            _ = graph.run(&context) => panic!("the run ended"),
            changed = changes.changed() => changed.unwrap(),
        }
        // The run is gone, and its question with it.
        assert!(gates.waiting().is_empty());
        let (journal, past) = {
            drop(context);
            Journal::resume(&journal_dir.path).unwrap()
        };
        drop(journal);
        let key = nerve_graph::journal::key(0, None, &Value::Null);
        let question = past.step("ship", key).unwrap().question.as_ref().unwrap();
        deadlines.push(question.deadline.unwrap());
    }
    assert_eq!(deadlines[0], deadlines[1]);
}

#[tokio::test]
async fn earlier_usage_counts_and_is_not_repeated() {
    let journal_dir = JournalDir::new();
    let graph = crate::harness::chain("g", [("a", crate::harness::constant("n", json!({"tokens": 5})))]);
    assert_eq!(journal_dir.run(&graph, &OpenGates::new()).await.usage.tokens_used(), 5);
    assert_eq!(journal_dir.run(&graph, &OpenGates::new()).await.usage.tokens_used(), 5);
}

#[tokio::test]
async fn rerun_decision_is_not_requested_twice() {
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let stuck = Stuck { desk: StatefulNode::new("stuck", &notes), at: Arc::clone(&at), stuck: true.into() };
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(stuck), Step::new("s").input("in")).unwrap();
    graph.add_step(hangs_at(1, &notes, &at), Step::new("after").depends_on(["s"])).unwrap();
    journal_dir.run_until(&graph, &at).await;
    // Resumed, answered, and interrupted again.
    journal_dir.run_answered_until(&graph, "skip", &at).await;
    let run = journal_dir.run(&graph, &OpenGates::new()).await;
    assert_eq!(json!(run.results), json!({"s": null, "after": null}));
    let summary = nerve_graph::journal::Summary::read(&journal_dir.path).unwrap();
    assert_eq!((summary.steps.skipped, summary.steps.running), (1, 0));
}

#[tokio::test]
async fn sealed_journal_prevents_start_on_stateful_node() {
    let (journal_dir, notes) = (JournalDir::new(), Notes::default());
    let (journal, past) = Journal::resume(&journal_dir.path).unwrap();
    let sealing = journal.clone();
    let first = FunctionNode::new("first", move |_| {
        // The server shuts down, and leaves its nodes running.
        sealing.seal();
        Ok(json!(1))
    });
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(first), Step::new("a")).unwrap();
    graph.add_step(StatefulNode::new("desk", &notes), Step::new("b").depends_on(["a"])).unwrap();
    let run = graph.run(&context().with_journal(journal, Some(past))).await;
    assert_eq!(notes.all(), [""; 0]);
    assert_ne!(run.status, TraceStatus::Completed);
}

#[tokio::test]
async fn interrupted_stateful_fallback_asks() {
    use nerve_graph::executable::Target;
    use nerve_graph::policy::{ErrorPolicy, OnError};
    let (journal_dir, notes, at) = (JournalDir::new(), Notes::default(), Arc::new(Notify::new()));
    let stuck = Stuck { desk: StatefulNode::new("stuck", &notes), at: Arc::clone(&at), stuck: true.into() };
    let policy = ErrorPolicy {
        on_error: OnError::Fallback,
        fallback_node: Some(Target::Executable(Arc::new(stuck).into())),
        ..ErrorPolicy::default()
    };
    let mut graph = Graph::new("g");
    graph.add_step(crate::harness::failing("bad", "no"), Step::new("s").error_policy(policy)).unwrap();
    journal_dir.run_until(&graph, &at).await;
    let gates = OpenGates::new();
    let mut changes = gates.changes();
    let answered = async {
        changes.changed().await.unwrap();
        gates.answer(None, "skip").unwrap();
    };
    let run = tokio::select! {
        (run, ()) = async { tokio::join!(journal_dir.run(&graph, &gates), answered) } => run,
        () = tokio::time::sleep(LIMIT) => panic!("no question"),
    };
    assert_eq!((json!(run.results), notes.all()), (json!({"s": null}), Vec::new()));
}
