//! Graphs with real programs: a bash in a terminal, and one-shot commands.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::value::{BackendKind, NodeState};
use nerve_graph::event::StepEventKind;
use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, step::Step};
use nerve_node::error::ErrorKind;
use nerve_node::terminal::Prompt;
use nerve_node::{Node, NodeHandle};
use nerve_testkit::eventually;
use nerve_testkit::harness::assert_error;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{LIMIT, TestEnv, endless};

fn prompt(text: &str) -> Prompt {
    Prompt {
        text: text.into(),
        parser: None,
        stream: false,
        tag: None,
        timeout: Some(LIMIT),
        fail_if_busy: false,
        at_dialog: Default::default(),
        detach_on_timeout: false,
        trace: None,
        origin: Default::default(),
    }
}

/// A graph of commands in sequence on the node `shell`.
fn commands(commands: &[(&'static str, &str)]) -> Graph {
    let mut graph = Graph::new("g");
    for (step, command) in commands {
        graph.add_step_ref("shell", Step::new(*step).input(*command)).unwrap();
    }
    graph.chain(commands.iter().map(|(step, _)| *step)).unwrap();
    graph
}

#[tokio::test]
async fn terminal_runs_steps_in_one_program() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let tracer = Tracer::new("g");
    let graph = commands(&[("set", "word=graph"), ("say", "echo \"the $word\"")]);
    let run = graph.run(&test_env.context().with_trace(tracer.clone())).await;
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
    let reply = &run.results["say"];
    assert_eq!(
        (&reply["text"], &reply["success"], &reply["node_id"]),
        (&json!("the graph"), &json!(true), &json!("shell"))
    );
    let trace = tracer.snapshot();
    assert_eq!((trace.steps[1].node_type, &trace.steps[1].metadata["turn"]), ("pty", &reply["turn"]));
    shell.stop("done").await;
}

#[tokio::test]
async fn one_shot_commands_run_concurrently_and_fail_by_exit_code() {
    let test_env = TestEnv::new();
    let bash: NodeHandle =
        Arc::new(test_env.factory.create_bash(test_env.spec("check", BackendKind::Bash)).unwrap());
    // Each waits for the other, so they must run at the same time.
    let command =
        |mine: &str, other: &str| format!("mkfifo {mine} 2>/dev/null; echo {mine} > {mine} & cat < {other}");
    let mut graph = Graph::new("g");
    graph.set_max_parallel(2);
    graph.add_step(bash.clone(), Step::new("make").input("mkfifo a b")).unwrap();
    graph.add_step(bash.clone(), Step::new("one").depends_on(["make"]).input(command("a", "b"))).unwrap();
    graph.add_step(bash.clone(), Step::new("two").depends_on(["make"]).input(command("b", "a"))).unwrap();
    let run = tokio::time::timeout(LIMIT, graph.run(&test_env.context())).await.unwrap();
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
    assert_eq!((&run.results["one"]["text"], &run.results["two"]["text"]), (&json!("b"), &json!("a")));

    let policy =
        ErrorPolicy { on_error: OnError::Skip, fallback_value: json!("no"), ..ErrorPolicy::default() };
    let mut graph = Graph::new("g");
    graph.add_step(bash.clone(), Step::new("skips").input("exit 3").error_policy(policy)).unwrap();
    graph.add_step(bash, Step::new("fails").input("echo why >&2; exit 4").depends_on(["skips"])).unwrap();
    let run = graph.run(&test_env.context()).await;
    assert_eq!(run.results["skips"], json!("no"));
    let error = run.error.unwrap();
    assert_error(&error, ErrorKind::Process, &["exit code 4"]);
    assert_eq!(error.screen.as_deref(), Some("why\n"));
}

#[tokio::test]
async fn cancel_interrupts_running_turn_but_not_queued_one() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let token = CancellationToken::new();
    let context = test_env.context().with_cancellation(token.clone());
    let graph = commands(&[("long", "sleep 1000"), ("never", "echo never > never.txt")]);
    let run = tokio::spawn(async move { graph.run(&context).await });
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    let other = {
        let shell = shell.clone();
        tokio::spawn(async move { shell.execute(prompt("echo $((6 * 7))")).await })
    };
    // It is queued.
    eventually("queued", async || shell.info().metadata.contains_key("queued")).await;
    token.cancel();
    let run = tokio::time::timeout(LIMIT, run).await.unwrap().unwrap();
    assert_eq!((run.status, run.results.len()), (TraceStatus::Cancelled, 0), "{:?}", run.error);
    let answer = tokio::time::timeout(LIMIT, other).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.text, "42");
    assert_eq!(shell.execute(prompt("ls")).await.unwrap().text, "");
    shell.stop("done").await;
}

/// Some agents exit on a second interrupt.
#[tokio::test]
async fn cancel_interrupts_only_once() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let token = CancellationToken::new();
    let context = test_env.context().with_cancellation(token.clone());
    // Under another name it counts as a program, not as a nested shell.
    let slow = "ln -s \"$BASH\" slow && ./slow -c 'trap \"echo hit >> hits.txt\" INT; for i in {1..12}; do echo at-$i; sleep 0.5; done'";
    let graph = commands(&[("slow", slow)]);
    let run = tokio::spawn(async move { graph.run(&context).await });
    // The program owns the terminal now: before that, a shell could lose the interrupt, which is then repeated.
    eventually("started", async || shell.read(None).await.unwrap().contains("at-3")).await;
    token.cancel();
    tokio::time::timeout(LIMIT, run).await.unwrap().unwrap();
    assert!(shell.read(None).await.unwrap().contains("at-12"), "the program must end by itself");
    assert_eq!(shell.execute(prompt("cat hits.txt")).await.unwrap().text, "hit");
    shell.stop("done").await;
}

#[tokio::test]
async fn cancelled_queued_step_leaves_running_turn_alone() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let first = {
        let shell = shell.clone();
        tokio::spawn(async move { shell.execute(prompt("read word; echo \"got $word\"")).await })
    };
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    let token = CancellationToken::new();
    let graph = commands(&[("waits", "echo too late")]);
    let mut events = graph.execute_stream(test_env.context().with_cancellation(token.clone()));
    assert_eq!(events.next().await.unwrap().kind, StepEventKind::Start { queued: true });
    token.cancel();
    let run = tokio::time::timeout(LIMIT, events.end()).await.unwrap();
    assert_eq!(run.status, TraceStatus::Cancelled);
    shell.write(b"it\n".to_vec()).await.unwrap();
    assert!(first.await.unwrap().unwrap().text.contains("got it"));
    assert!(!shell.read(None).await.unwrap().contains("too late"));
    shell.stop("done").await;
}

#[tokio::test]
async fn step_timeout_interrupts_its_terminal() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let policy = ErrorPolicy {
        on_error: OnError::Skip,
        timeout: Some(Duration::from_millis(300)),
        fallback_value: json!("late"),
        ..ErrorPolicy::default()
    };
    let mut graph = Graph::new("g");
    graph.add_step_ref("shell", Step::new("long").input("sleep 1000").error_policy(policy)).unwrap();
    graph.add_step_ref("shell", Step::new("next").input("echo next").depends_on(["long"])).unwrap();
    let run = tokio::time::timeout(LIMIT, graph.run(&test_env.context())).await.unwrap();
    assert_eq!(run.status, TraceStatus::Completed, "{:?}", run.error);
    assert_eq!((&run.results["long"], &run.results["next"]["text"]), (&json!("late"), &json!("next")));
    shell.stop("done").await;
}

#[tokio::test]
async fn run_time_limit_interrupts_its_terminal() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let graph = commands(&[("first", "echo first"), ("long", "sleep 1000")]);
    let context = test_env.context().with_timeout(Duration::from_millis(1500));
    let run = tokio::time::timeout(LIMIT, graph.run(&context)).await.unwrap();
    assert_eq!(run.error.unwrap().kind, ErrorKind::Timeout);
    assert_eq!(run.results["first"]["text"], json!("first"));
    assert_eq!(shell.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap(), NodeState::Ready);
    shell.stop("done").await;
}

#[tokio::test]
async fn failure_elsewhere_interrupts_the_terminal() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let (busy, node) = (shell.clone(), "fails");
    let fails = nerve_graph::function::FunctionNode::asynchronous(node, move |_| {
        let busy = busy.clone();
        async move {
            busy.wait(&[NodeState::Busy], Some(LIMIT)).await?;
            Err(crate::harness::error("broken"))
        }
    });
    let mut graph = commands(&[("long", "sleep 1000")]);
    graph.set_max_parallel(2).add_step(Arc::new(fails), Step::new("bad")).unwrap();
    let run = tokio::time::timeout(LIMIT, graph.run(&test_env.context())).await.unwrap();
    assert_eq!(run.error.unwrap().message, "broken");
    shell.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    shell.stop("done").await;
}

#[tokio::test]
async fn runs_on_one_node_take_turns_and_report_it() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let graph = commands(&[("ask", "read word; echo \"got $word\"")]);
    let mut first = graph.execute_stream(test_env.context());
    assert_eq!(first.next().await.unwrap().kind, StepEventKind::Start { queued: false });
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    let mut second = graph.execute_stream(test_env.context());
    assert_eq!(second.next().await.unwrap().kind, StepEventKind::Start { queued: true });
    shell.write(b"one\n".to_vec()).await.unwrap();
    let one = tokio::time::timeout(LIMIT, first.end()).await.unwrap();
    assert!(one.results["ask"]["text"].as_str().unwrap().contains("got one"));
    // Now it is its turn.
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    shell.write(b"two\n".to_vec()).await.unwrap();
    let two = tokio::time::timeout(LIMIT, second.end()).await.unwrap();
    assert!(two.results["ask"]["text"].as_str().unwrap().contains("got two"), "{:?}", two.results);
    shell.stop("done").await;
}

#[tokio::test]
async fn dying_node_fails_its_step() {
    let test_env = TestEnv::new();
    test_env.shell("shell").await;
    let mut graph = commands(&[("good", "echo good"), ("dies", "kill -9 $$"), ("never", "echo never")]);
    graph.add_step(endless("e"), Step::new("other").depends_on(["good"])).unwrap();
    graph.set_max_parallel(2);
    let run = tokio::time::timeout(LIMIT, graph.run(&test_env.context())).await.unwrap();
    assert_eq!((run.status, run.results.len()), (TraceStatus::Failed, 1));
    assert_error(&run.error.unwrap(), ErrorKind::Process, &["'shell'"]);

    let second_run = graph.run(&test_env.context()).await;
    assert_eq!(second_run.error.unwrap().kind, ErrorKind::NodeStopped);
}

#[tokio::test]
async fn fallback_replaces_dead_node() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    shell.stop("before it begins").await;
    let bash = test_env.factory.create_bash(test_env.spec("check", BackendKind::Bash)).unwrap();
    test_env.session.register(Arc::new(bash), None).unwrap();
    let policy = ErrorPolicy {
        on_error: OnError::Fallback,
        fallback_node: Some(nerve_graph::executable::Target::Name("check".into())),
        ..ErrorPolicy::default()
    };
    let mut graph = Graph::new("g");
    graph.add_step_ref("shell", Step::new("a").input("echo here").error_policy(policy)).unwrap();
    assert_eq!(graph.run(&test_env.context()).await.results["a"]["text"], json!("here"));
}

#[tokio::test]
async fn chunks_of_terminal_answer_precede_its_end() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let graph = commands(&[("talk", "echo one; read word; echo two")]);
    let mut events = graph.execute_stream(test_env.context());
    assert_eq!(events.next().await.unwrap().kind, StepEventKind::Start { queued: false });
    let mut text = String::new();
    let mut typed = false;
    let done = async {
        while let Some(event) = events.next().await {
            match event.kind {
                StepEventKind::Chunk => {
                    assert_eq!((&*event.step, &*event.node), ("talk", "shell"));
                    text.push_str(event.data.as_str().unwrap());
                    if text.contains("one") && !typed {
                        typed = true;
                        shell.write(b"go\n".to_vec()).await.unwrap();
                    }
                }
                StepEventKind::Complete { .. } => return event,
                other => panic!("{other:?}"),
            }
        }
        panic!("no end");
    };
    let end = tokio::time::timeout(LIMIT, done).await.unwrap();
    assert!(typed && text.contains("two"), "{text:?}");
    assert!(end.data["text"].as_str().unwrap().contains("two"));
    assert!(events.next().await.is_none());
    shell.stop("done").await;
}

#[tokio::test]
async fn dropped_stream_interrupts_the_terminal() {
    let test_env = TestEnv::new();
    let shell = test_env.shell("shell").await;
    let graph = commands(&[("long", "sleep 1000"), ("never", "echo never > never.txt")]);
    let mut events = graph.execute_stream(test_env.context());
    events.next().await.unwrap();
    shell.wait(&[NodeState::Busy], Some(LIMIT)).await.unwrap();
    drop(events);
    shell.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    assert_eq!(shell.execute(prompt("ls")).await.unwrap().text, "");
    shell.stop("done").await;
}

#[tokio::test]
async fn session_stops_terminals_of_its_graphs() {
    let test_env = TestEnv::new();
    let node = test_env.factory.create_terminal(test_env.spec("inside", BackendKind::Pty)).await.unwrap();
    let mut graph = Graph::new("g");
    graph.add_step(Arc::new(node.clone()), Step::new("a").input("echo hi")).unwrap();
    test_env.session.register(Arc::new(graph), None).unwrap();
    test_env.session.start().await.unwrap();
    node.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    tokio::time::timeout(LIMIT, test_env.session.stop()).await.unwrap();
    assert_eq!(Node::info(&node).state, NodeState::Stopped);
}
