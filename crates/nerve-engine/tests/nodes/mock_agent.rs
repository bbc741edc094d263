//! Terminal nodes with the mock agent, which provokes the problems of real agents. Real agents have their own tests.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_agent::parse::SectionKind;
use nerve_api::event::EventKind;
use nerve_api::reply::AnswerReply;
use nerve_api::request::{AnswerNode, ExplainNode, NodeChoice, NodeSpec};
use nerve_api::value::{Delivery, NodeState};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::ErrorKind;
use nerve_record::activity::{Activity, Level};
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_testkit::{eventually, within_deadline};

use crate::fork::claude;
use crate::harness::{Harness, ops};

#[tokio::test]
async fn short_long_tool_wide_and_quoted_answers() {
    for renderer in [&[][..], &["--full-screen"]] {
        let harness = Harness::new();
        harness.start_mock("m", renderer).await;
        assert_eq!(harness.ask("m", "hello there").await.text, "You said: hello there");
        let long = harness.ask("m", "LONG answer please").await;
        assert!(long.text.contains("END-OF-LONG") && long.is_complete, "{renderer:?}: {long:?}");
        // Without a transcript, the alternate screen shows only the end.
        let failure = long.failure().map(|failure| failure.kind);
        assert_eq!(failure, (!renderer.is_empty()).then_some(ErrorKind::Incomplete), "{long:?}");
        let tool = harness.ask("m", "TOOL please").await;
        assert!(
            tool.sections.iter().any(|section| section.kind == SectionKind::ToolCall),
            "{renderer:?}: {tool:?}"
        );
        let quote = harness.ask("m", "QUOTE the markers").await;
        assert!(quote.text.contains("esc to interrupt"), "{renderer:?}: {quote:?}");
        let wide = harness.ask("m", "WIDE answer").await;
        assert!(wide.text.contains("日本語"), "{renderer:?}: {wide:?}");
        harness.stop("m").await;
    }
}

#[tokio::test]
async fn progress_shows_prompt_turn_and_answer() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let before = harness.info("m").progress;
    assert!(before.state_changed_at.is_some() && before.last_prompt.is_none(), "{before:?}");
    harness.send("m", "\n  PERMIT this\nplease").await.unwrap_err();
    let blocked = harness.info("m").progress;
    assert!(
        blocked.turn_started_at.is_some() && blocked.state_changed_at > before.state_changed_at,
        "{blocked:?}"
    );
    assert_eq!(blocked.last_prompt.as_deref(), Some("PERMIT this"));
    harness.answer("m", Choice::Number(1)).await.unwrap();
    let after = harness.info("m").progress;
    assert_eq!((after.turn_started_at, after.last_line.as_deref()), (None, Some("END-OF-TOOL")));
    harness.stop("m").await;
}

#[tokio::test]
async fn slow_turn_does_not_end_early() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let slow = harness.ask("m", "SLOW answer").await;
    assert!(slow.text.contains("END-OF-SLOW"), "{slow:?}");
    assert_eq!(harness.ask("m", "STALL 10 first").await.delivery, Delivery::Started);
    harness.stop("m").await;
}

#[tokio::test]
async fn permission_prompt_blocks_until_answered() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let blocked = harness.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked);
    assert_eq!(blocked.delivery, Some(Delivery::Started));
    assert!(blocked.choices.len() >= 2, "{blocked:?}");
    let second = harness.send("m", "must not be typed").await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::Blocked);
    let wrong = harness.answer("m", Choice::Number(9)).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidRequest);
    let explain = ExplainNode { node_id: "m".into(), session_id: None };
    let explanation = harness.engine.explain_node(explain, Default::default()).await.unwrap();
    let other = AnswerNode {
        node_id: "m".into(),
        choice: Some(NodeChoice::Number(1)),
        dialog_id: Some("0123456789abcdef".into()),
        ..AnswerNode::default()
    };
    let refused = harness.engine.answer_node(other.clone(), Default::default()).await.unwrap_err();
    assert_error(&refused, ErrorKind::Blocked, &[]);
    let same = AnswerNode { dialog_id: explanation.dialog_id, wait: true, ..other };
    let reply = harness.engine.answer_node(same, Default::default()).await.unwrap();
    let AnswerReply::Turn(turn) = reply else { panic!("{reply:?}") };
    assert!(turn.response.is_complete, "{turn:?}");
    let logged = ops(&harness.history("m").await).join(" ");
    assert!(logged.contains("answer") && logged.contains("unsent"), "{logged}");
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    assert!(!harness.buffer("m", None).await.contains("must not be typed"));
    harness.stop("m").await;
}

#[tokio::test]
async fn onboarding_blocks_until_answered() {
    let harness = Harness::new();
    harness.start_mock("m", &["--onboarding"]).await;
    harness.wait("m", NodeState::Blocked).await.unwrap();
    assert_eq!(harness.send("m", "hello").await.unwrap_err().kind, ErrorKind::Blocked);
    harness.answer("m", Choice::Label("yes".into())).await.unwrap();
    harness.wait("m", NodeState::Ready).await.unwrap();
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    harness.stop("m").await;
}

#[tokio::test]
async fn swallowed_enters_and_large_pastes_are_delivered() {
    let harness = Harness::new();
    harness.start_mock("m", &["--swallow-enter", "2"]).await;
    assert_eq!(harness.ask("m", "hello there").await.text, "You said: hello there");
    let paste: String = (1..=40).map(|row| format!("row {row}\n")).collect();
    let pasted = harness.ask("m", &paste).await;
    assert!(pasted.text.contains("row 40"), "{pasted:?}");
    let huge = "word ".repeat(200_000);
    let sent = harness.ask("m", &huge).await;
    assert!(sent.is_complete, "incomplete: {}", sent.ended_by);
    harness.stop("m").await;
}

#[tokio::test]
async fn slow_start_loses_no_prompt_silently() {
    let harness = Harness::new();
    harness.start_mock("m", &["--slow-start", "700"]).await;
    match harness.send("m", "hello there").await {
        Ok(response) => assert_eq!(response.text, "You said: hello there"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Delivery, "{error:?}"),
    }
    harness.stop("m").await;
}

#[tokio::test]
async fn agent_that_never_becomes_ready_times_out() {
    let harness = Harness::new();
    let program = crate::harness::mock_agent().display().to_string();
    let mut spec = harness.spec("m", &[&program, "--never-ready"]);
    spec.profile = Some("claude".into());
    spec.ready_timeout = Duration::from_millis(500).into();
    harness.engine.create(spec).await.unwrap();
    let error = harness.send("m", "hello").await.unwrap_err();
    assert_error(&error, ErrorKind::Timeout, &["500ms"]);
    assert!(error.screen.is_some());
    harness.stop("m").await;
}

#[tokio::test]
async fn crash_during_turn_reports_exit_code() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let crash = harness.send("m", "CRASH now").await.unwrap_err();
    assert_error(&crash, ErrorKind::Process, &["exit code 70"]);
    harness.start_mock("m", &["--exit-at-once", "4"]).await;
    let exited = harness.send("m", "hello").await.unwrap_err();
    assert!(exited.message.contains("exit code 4"), "{exited}");
}

#[tokio::test]
async fn hanging_agent_times_out_and_stops() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let mut hang = harness.execute("m", "HANG");
    hang.timeout = Some(Duration::from_secs(1).into());
    let error = harness.run(hang).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Timeout, Some(Delivery::Started)));
    within_deadline("the agent stops", harness.stop("m")).await;
}

#[tokio::test]
async fn progress_bars_huge_lines_and_invalid_utf8() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    assert!(harness.ask("m", "CR progress").await.is_complete);
    assert!(harness.ask("m", "BADUTF8 please").await.is_complete);
    assert!(harness.ask("m", "HUGELINE please").await.is_complete);
    assert!(harness.ask("m", "FLOOD 5").await.is_complete);
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    harness.stop("m").await;
}

#[tokio::test]
async fn interrupt_ends_the_turn() {
    let mut harness = Harness::new();
    harness.start_mock("m", &[]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    let engine = harness.engine.clone();
    let mut execute = harness.execute("m", "SLOW words");
    execute.stream = true;
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness
        .wait_for_event(|kind| matches!(kind, EventKind::OutputChunk { .. } | EventKind::NodeBusy { .. }))
        .await;
    eventually("the answer begins", async || harness.screen("m").await.contains("Slow")).await;
    harness.engine.send_interrupt(node_ref("m").into(), Default::default()).await.unwrap();
    let Ok(response) = turn.await.unwrap() else { panic!("no response") };
    assert_eq!(response.attributes["interrupted"], true);
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    harness.stop("m").await;
}

#[tokio::test]
async fn draft_of_a_user_blocks_the_prompt() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    harness.engine.write_bytes(&node_ref("m"), b"my own words".to_vec()).await.unwrap();
    eventually("the draft", async || harness.screen("m").await.contains("my own words")).await;
    let error = harness.send("m", "hello").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["my own words"]);
    harness.engine.write_bytes(&node_ref("m"), vec![0x15]).await.unwrap();
    eventually("no draft", async || !harness.screen("m").await.contains("my own words")).await;
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    harness.stop("m").await;
}

/// Returns the paths of the file that names the session of a process, and of that session's transcript.
fn session_files(harness: &Harness, pid: &str) -> (PathBuf, PathBuf) {
    let home = harness.folder.path().join(".claude");
    (home.join(format!("sessions/{pid}.json")), home.join("projects/-tmp/s-1.jsonl"))
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Lines of a transcript: a prompt, and its answer.
const PROMPT: &str = r#"{"type":"user","uuid":"u","message":{"role":"user","content":"hello there"}}"#;
const ANSWER: &str = r#"{"type":"assistant","uuid":"a","parentUuid":"u","message":{"id":"m","stop_reason":"end_turn","content":[{"type":"text","text":"**written**"}]}}"#;

#[tokio::test]
async fn missing_session_file_skips_transcript_wait() {
    let harness = Harness::new();
    let info = harness.start_mock("m", &["--delay", "0"]).await;
    harness.ask("m", "first").await;
    // The transcript never appears, so turns with a session file take longer by the transcript timeout. Of three turns the
    // shortest counts, because other processes may delay one.
    let (session, _) = session_files(&harness, &info.metadata.display("pid"));
    let mut times = Vec::new();
    for has_session_file in [false, true] {
        if has_session_file {
            write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
        }
        let mut shortest = Duration::MAX;
        for _ in 0..3 {
            let started = Instant::now();
            let response = harness.ask("m", "hello there").await;
            let (text, source) = (response.text.as_str(), response.source.as_str());
            assert_eq!((text, source), ("You said: hello there", "screen"));
            shortest = shortest.min(started.elapsed());
        }
        times.push(shortest);
    }
    assert!(times[0] + Duration::from_millis(150) < times[1], "{times:?}");
    harness.stop("m").await;
}

#[tokio::test]
async fn complete_transcript_is_used_immediately() {
    let harness = Harness::new();
    let info = harness.start_mock("m", &[]).await;
    let (session, transcript) = session_files(&harness, &info.metadata.display("pid"));
    write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
    // Without `turn_duration`, which is written only after the agent is ready.
    write(&transcript, &format!("{PROMPT}\n{ANSWER}\n"));
    let response = harness.ask("m", "hello there").await;
    assert_eq!((response.text.as_str(), response.source.as_str()), ("**written**", "transcript"));
    assert!(response.is_complete);
    harness.stop("m").await;
}

#[tokio::test]
async fn unknown_entries_of_the_transcript_are_a_mismatch() {
    let mut harness = Harness::new();
    let info = harness.start_mock("m", &[]).await;
    let (session, transcript) = session_files(&harness, &info.metadata.display("pid"));
    write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
    write(&transcript, &format!("{{\"type\":\"kind-of-a-later-version\"}}\n{PROMPT}\n{ANSWER}\n"));
    harness.ask("m", "hello there").await;
    let warns = |kind: &EventKind| match kind {
        EventKind::NodeActivity(activity) => matches!(**activity, Activity::Log { level: Level::Warn, .. }),
        _ => false,
    };
    harness.wait_for_event(warns).await;
    eventually("the mismatch", async || harness.info("m").metadata.contains_key("profile_mismatch")).await;
    harness.stop("m").await;
}

#[tokio::test]
async fn screen_reader_mode_is_refused_without_force() {
    let harness = Harness::new();
    let claude = claude(&harness);
    let spec = |options: &[&str]| harness.spec("c", &[&[claude.as_str()], options].concat());
    let flag = spec(&["--ax-screen-reader"]);
    let mut variable = spec(&[]);
    variable.env.insert("CLAUDE_AX_SCREEN_READER".into(), "1".into());
    let mut setting = spec(&[]);
    setting.env.insert("CLAUDE_CONFIG_DIR".into(), harness.folder.path().display().to_string());
    write(&harness.folder.path().join("settings.json"), r#"{"axScreenReader":true}"#);
    for refused in [&flag, &variable, &setting] {
        let error = harness.engine.create(refused.clone()).await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidRequest, &["node 'c'"]);
        assert!(error.hint.is_some_and(|hint| hint.contains("--force")));
    }
    harness.create(NodeSpec { force: true, ..variable }).await;
    assert_eq!(harness.ask("c", "hello").await.text, "You said: hello");
    harness.stop("c").await;
}

#[tokio::test]
async fn stop_during_transcript_wait_returns_screen_answer() {
    let mut harness = Harness::new();
    // The first turn waits for the transcript that Claude Code creates.
    let info = harness.start_mock("m", &["--full-screen"]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    let (session, _) = session_files(&harness, &info.metadata.display("pid"));
    write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
    let (engine, execute) = (harness.engine.clone(), harness.execute("m", "hello there"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait_for_event(|kind| matches!(kind, EventKind::NodeBusy { .. })).await;
    eventually("the screen shows the end of the turn", async || {
        let explanation =
            harness.engine.explain_node(node_ref("m").into(), Default::default()).await.unwrap();
        explanation.turn.is_none()
    })
    .await;
    assert_eq!(harness.info("m").state, NodeState::Busy, "the transcript is being read");
    harness.stop("m").await;
    let Ok(response) = turn.await.unwrap() else { panic!("no response") };
    assert_eq!((response.text.as_str(), response.source.as_str()), ("You said: hello there", "screen"));
    assert_eq!(ops(&harness.history("m").await).join(" "), "read send read close");
}
