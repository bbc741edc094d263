//! Nodes for agents that speak the Agent Client Protocol, with the stand-in of the testkit.

use std::time::Duration;

use nerve_agent::parse::SectionKind;
use nerve_api::event::EventKind;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{CommandLine, ExecuteInput, ForkNode, NodeSpec, StartNode};
use nerve_api::value::{BackendKind, NodeState, ResponseSource, SignalSource};
use nerve_engine::EngineConfig;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_testkit::eventually;
use nerve_testkit::harness::{EngineHarness, assert_error, example, is_alive, node_ref};

use crate::harness::{Harness, LIMIT, ops};

fn config(folder: &std::path::Path) -> EngineConfig {
    EngineConfig { sessions_file: Some(folder.join("sessions.json")), ..EngineHarness::config(folder) }
}

fn harness() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    Harness::with(config(folder.path()), folder)
}

fn spec(harness: &Harness, options: &[&str]) -> NodeSpec {
    let program = example("acp_agent").display().to_string();
    let argv = [program.as_str()].iter().chain(options).map(ToString::to_string).collect();
    NodeSpec {
        backend: BackendKind::Acp,
        command: Some(CommandLine::Argv(argv)),
        cwd: Some(harness.folder.path().to_path_buf()),
        ready_timeout: LIMIT.into(),
        response_timeout: LIMIT.into(),
        ..NodeSpec::new("a")
    }
}

async fn started(options: &[&str]) -> Harness {
    let harness = harness();
    let info = harness.create(spec(&harness, options)).await;
    assert_eq!((info.kind.as_str(), info.state), ("acp", NodeState::Ready), "{info:?}");
    harness
}

async fn start(harness: &Harness, fresh: bool) -> Result<NodeInfo, EngineError> {
    let request = StartNode { fresh, ..StartNode::new("a", None) };
    harness.engine.start_node(request, Default::default()).await
}

/// Starts a turn in the background and waits until the node shows `text`.
async fn begin(
    harness: &Harness,
    request: ExecuteInput,
    text: &str,
) -> tokio::task::JoinHandle<Result<Response, EngineError>> {
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(request, Default::default()).await });
    harness.wait_for_output("a", text).await;
    turn
}

fn pid(info: &NodeInfo) -> u32 {
    info.metadata.number("pid").unwrap().try_into().unwrap()
}

#[tokio::test]
async fn answer_has_sections_usage_and_events() {
    let mut harness = started(&[]).await;
    let request = ExecuteInput { stream: true, ..harness.execute("a", "WORK") };
    let response = harness.run(request).await.unwrap();
    assert!(response.is_success(), "{response:?}");
    let kinds: Vec<SectionKind> = response.sections.iter().map(|section| section.kind).collect();
    assert_eq!(
        kinds,
        [SectionKind::Thinking, SectionKind::ToolCall, SectionKind::ToolCall, SectionKind::Text]
    );
    let tool = |at: usize, key: &str| response.sections[at].metadata[key].clone();
    assert_eq!(
        (tool(1, "tool"), tool(2, "tool"), tool(2, "status")),
        ("update_plan".into(), "read".into(), "ok".into())
    );
    assert_eq!((response.text.as_str(), response.source), ("done", ResponseSource::Acp));
    assert_eq!(response.tokens.and_then(|tokens| tokens.total), Some(30));
    assert_eq!(harness.info("a").progress.tokens, Some(30));
    let events = harness.take_events();
    let chunks: String = events
        .iter()
        .filter_map(|event| match event {
            EventKind::OutputChunk { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(chunks, "done");
    let activities = events.iter().filter(|event| matches!(event, EventKind::NodeActivity(_))).count();
    assert_eq!(activities, 5, "a thought, and the start and the end of two tools");
    let info = harness.info("a");
    assert_eq!(info.metadata.text("agent"), "stand-in");
    assert!(info.metadata.text("evidence").starts_with("acp: "), "{info:?}");
    assert!(harness.history("a").await.iter().any(|entry| entry.contains("WORK")));
}

#[tokio::test]
async fn fork_continues_a_copy_of_the_conversation() {
    let harness = started(&[]).await;
    let fork = |target: &str| {
        let request =
            ForkNode { source_id: "a".to_string(), target_id: target.to_string(), ..ForkNode::default() };
        let engine = harness.engine.clone();
        async move { engine.fork_node(request, Default::default()).await }
    };
    assert_error(&fork("b").await.unwrap_err(), ErrorKind::InvalidRequest, &["never had a turn"]);
    harness.send("a", "hello").await.unwrap();
    fork("b").await.unwrap();
    assert!(harness.send("b", "RECALL").await.unwrap().text.starts_with("hello"));
    harness.send("b", "only here").await.unwrap();
    assert!(!harness.send("a", "RECALL").await.unwrap().text.contains("only here"));
    let id = |node: &str| harness.info(node).metadata.text("conversation_id").to_string();
    let (own, copy) = (id("a"), id("b"));
    assert_ne!(own, copy);
    // It is started again with its own conversation.
    harness.engine.stop_node(node_ref("b").into(), Default::default()).await.unwrap();
    let request = StartNode::new("b", None);
    harness.engine.start_node(request, Default::default()).await.unwrap();
    assert_eq!(id("b"), copy);
    assert!(harness.send("b", "RECALL").await.unwrap().text.contains("only here"));
}

#[tokio::test]
async fn agent_without_forks_refuses_a_fork() {
    let harness = started(&["--no-fork"]).await;
    harness.send("a", "hello").await.unwrap();
    let request = ForkNode { source_id: "a".to_string(), target_id: "b".to_string(), ..ForkNode::default() };
    let error = harness.engine.fork_node(request, Default::default()).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["does not fork"]);
    assert!(harness.send("a", "hello").await.is_ok(), "the source is not affected");
}

#[tokio::test]
async fn permission_blocks_the_node_until_it_is_answered() {
    let harness = started(&[]).await;
    let error = harness.send("a", "PERMIT").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["touch a", "nerve answer a"]);
    assert_eq!(*error.choices, ["Allow once", "Always allow", "Reject"]);
    let found = harness.engine.explain_node(node_ref("a").into(), Default::default()).await.unwrap();
    assert_eq!((found.state, found.source), (NodeState::Blocked, SignalSource::Acp));
    assert_eq!(found.choices.len(), 3);
    assert!(found.dialog_id.is_some() && found.screen.contains("command: touch a"), "{found:?}");
    assert_eq!(harness.info("a").metadata.text("blocked"), "permission");
    let error = harness.answer("a", Choice::Number(4)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    let response = harness.answer("a", Choice::Label("always".into())).await.unwrap().unwrap();
    assert_eq!((response.success, response.text.trim_end()), (true, "a: always"));
    let tool = &response.sections[0];
    assert_eq!((tool.content.as_str(), tool.metadata["status"].as_str()), ("the output", "ok"));
    assert!(ops(&harness.history("a").await).contains(&"answer".to_string()));
    let error = harness.answer("a", Choice::Number(1)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    harness.wait_ready("a").await;
}

#[tokio::test]
async fn permissions_at_once_are_answered_one_after_the_other() {
    let harness = started(&[]).await;
    harness.send("a", "TWICE").await.unwrap_err();
    let error = harness.answer("a", Choice::Number(1)).await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["touch b"]);
    let response = harness.answer("a", Choice::Number(3)).await.unwrap().unwrap();
    assert_eq!(response.text.trim_end(), "a: once\nb: no", "{response:?}");
}

#[tokio::test]
async fn withdrawn_permission_opens_the_way() {
    let harness = started(&[]).await;
    // The dialog may be seen before it is withdrawn.
    match harness.send("a", "WITHDRAW").await {
        Ok(response) => assert_eq!(response.text, "withdrawn"),
        Err(error) => assert_error(&error, ErrorKind::Blocked, &[]),
    }
    harness.wait_ready("a").await;
    assert_eq!(harness.ask("a", "next").await.text, "You said: next");
}

#[tokio::test]
async fn interrupt_cancels_the_turn_and_its_dialog() {
    let harness = started(&[]).await;
    let turn = begin(&harness, harness.execute("a", "SLOW"), "one").await;
    harness.interrupt("a").await.unwrap();
    let response = turn.await.unwrap().unwrap();
    assert_eq!(response.failure().map(|failure| failure.kind), Some(ErrorKind::Interrupted));
    assert_eq!(response.text, "one two");
    harness.send("a", "PERMIT").await.unwrap_err();
    harness.interrupt("a").await.unwrap();
    harness.wait_ready("a").await;
    assert!(harness.buffer("a", None).await.contains("a: cancelled"));
    assert_eq!(harness.ask("a", "hello").await.text, "You said: hello");
}

#[tokio::test]
async fn time_limit_cancels_the_turn_and_keeps_its_text() {
    let harness = started(&[]).await;
    let timeout = Some(Duration::from_secs(1).into());
    let request = ExecuteInput { timeout, ..harness.execute("a", "SLOW") };
    let error = harness.run(request).await.unwrap_err();
    assert_error(&error, ErrorKind::Timeout, &[]);
    assert_eq!(error.text.as_deref(), Some("one two"));
    assert_eq!(harness.ask("a", "hello").await.text, "You said: hello");
}

#[tokio::test]
async fn only_a_whole_answer_is_a_success() {
    let harness = started(&[]).await;
    for (prompt, kind, text) in [
        ("REFUSE", ErrorKind::Api, "half"),
        ("LIMIT", ErrorKind::Incomplete, "half"),
        ("NOTHING", ErrorKind::NoAnswer, ""),
    ] {
        let response = harness.send("a", prompt).await.unwrap();
        assert_eq!(response.failure().map(|failure| failure.kind), Some(kind), "{prompt}");
        assert_eq!(response.text, text, "{prompt}");
    }
    let error = harness.send("a", "FAIL").await.unwrap_err();
    assert_error(&error, ErrorKind::Api, &["the model is overloaded"]);
    assert_eq!(error.text.as_deref(), Some("half"));
    harness.wait_ready("a").await;
}

#[tokio::test]
async fn client_methods_are_not_offered() {
    let harness = started(&[]).await;
    assert_eq!(harness.ask("a", "METHODS").await.text.trim_end(), "-32601 -32601 -32601");
}

#[tokio::test]
async fn end_of_the_agent_is_an_error_and_its_session_is_resumed() {
    let harness = started(&[]).await;
    assert_eq!(harness.ask("a", "first").await.text, "You said: first");
    let id = harness.info("a").metadata.text("conversation_id").to_string();
    let error = harness.send("a", "DIE").await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["exit code 9", "out of memory"]);
    assert_eq!(error.text.as_deref(), Some("half"));
    harness.wait("a", NodeState::Stopped).await.unwrap();
    assert_error(&harness.send("a", "hello").await.unwrap_err(), ErrorKind::NodeStopped, &[]);
    let info = start(&harness, false).await.unwrap();
    assert_eq!(info.metadata.text("conversation_id"), id);
    assert_eq!(harness.ask("a", "RECALL").await.text.trim_end(), "first\nDIE");
    // Without a turn in between.
    harness.stop("a").await;
    start(&harness, false).await.unwrap();
    harness.stop("a").await;
    start(&harness, false).await.unwrap();
    assert!(harness.ask("a", "RECALL").await.text.starts_with("first"));
    harness.stop("a").await;
    start(&harness, true).await.unwrap();
    assert_ne!(harness.info("a").metadata.text("conversation_id"), id);
}

#[tokio::test]
async fn invalid_messages_end_the_turn_at_once() {
    for (prompt, fact) in
        [("GARBAGE", "Segmentation fault"), ("OBJECT", "a log line"), ("HUGE", "104857600 bytes")]
    {
        let harness = started(&[]).await;
        let pid = pid(&harness.info("a"));
        let error = harness.send("a", prompt).await.unwrap_err();
        assert_error(&error, ErrorKind::Process, &[fact]);
        harness.wait("a", NodeState::Stopped).await.unwrap();
        eventually("the agent is gone", async || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn failed_start_says_why_and_leaves_nothing() {
    let harness = harness();
    let short =
        NodeSpec { ready_timeout: Duration::from_millis(300).into(), ..spec(&harness, &["--silent"]) };
    let missing = CommandLine::Text("no-such-agent acp".to_string());
    for (spec, kind, fact) in [
        (spec(&harness, &["--exit"]), ErrorKind::Process, "no licence"),
        (spec(&harness, &["--protocol", "2"]), ErrorKind::Process, "version 2"),
        (spec(&harness, &["--login"]), ErrorKind::Authentication, "stand-in login"),
        (short, ErrorKind::Timeout, ""),
        (NodeSpec { command: Some(missing), ..spec(&harness, &[]) }, ErrorKind::Process, "no-such-agent"),
        (NodeSpec { command: None, ..spec(&harness, &[]) }, ErrorKind::InvalidRequest, ""),
        (
            NodeSpec { conversation_id: Some("unknown".to_string()), ..spec(&harness, &[]) },
            ErrorKind::NotFound,
            "No such file",
        ),
        (
            NodeSpec { conversation_id: Some("any".to_string()), ..spec(&harness, &["--no-load"]) },
            ErrorKind::NotFound,
            "cannot load sessions",
        ),
    ] {
        let error = harness.engine.create(spec).await.unwrap_err();
        assert_error(&error, kind, &[fact]);
        assert!(error.hint.is_some(), "{error}");
        assert_error(&harness.engine.node_info(&node_ref("a")).unwrap_err(), ErrorKind::NotFound, &[]);
    }
}

#[tokio::test]
async fn greeting_before_the_protocol_is_ignored() {
    let harness = started(&["--greet"]).await;
    assert_eq!(harness.ask("a", "hello").await.text, "You said: hello");
}

#[tokio::test]
async fn stop_ends_an_agent_that_ignores_the_cancellation() {
    let harness = started(&[]).await;
    let pid = pid(&harness.info("a"));
    let engine = harness.engine.clone();
    let request = harness.execute("a", "STUBBORN");
    let turn = tokio::spawn(async move { engine.run_turn(request, Default::default()).await });
    harness.wait("a", NodeState::Busy).await.unwrap();
    harness.stop("a").await;
    assert_error(&turn.await.unwrap().unwrap_err(), ErrorKind::Interrupted, &[]);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn prompts_are_queued() {
    let harness = started(&[]).await;
    let slow = begin(&harness, harness.execute("a", "SLOW"), "one").await;
    let busy = ExecuteInput { fail_if_busy: true, ..harness.execute("a", "now") };
    assert_error(&harness.run(busy).await.unwrap_err(), ErrorKind::Busy, &[]);
    let (engine, request) = (harness.engine.clone(), harness.execute("a", "next"));
    let next = tokio::spawn(async move { engine.run_turn(request, Default::default()).await });
    eventually("a prompt is queued", async || harness.info("a").metadata.number("queued") == Some(1)).await;
    harness.interrupt("a").await.unwrap();
    slow.await.unwrap().unwrap();
    assert_eq!(next.await.unwrap().unwrap().text, "You said: next");
}
