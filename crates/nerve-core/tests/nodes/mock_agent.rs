//! Terminal nodes over the mock agent: everything that goes wrong with agents, on purpose. (The real ones have tests of their
//! own.)

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_agent::parse::SectionKind;
use nerve_core::command::{Choice, EventKind, StateName};
use nerve_core::error::ErrorKind;

use crate::harness::{Stage, at, ops};

#[tokio::test]
async fn short_long_tool_wide_and_quoted_answers() {
    for renderer in [&[][..], &["--full-screen"]] {
        let stage = Stage::new();
        stage.start_mock("m", renderer).await;
        assert_eq!(stage.ask("m", "hello there").await.text, "You said: hello there");
        let long = stage.ask("m", "LONG answer please").await;
        assert!(long.text.contains("END-OF-LONG") && long.is_complete, "{renderer:?}: {long:?}");
        let tool = stage.ask("m", "TOOL please").await;
        assert!(
            tool.sections.iter().any(|section| section.kind == SectionKind::ToolCall),
            "{renderer:?}: {tool:?}"
        );
        let quote = stage.ask("m", "QUOTE the markers").await;
        assert!(quote.text.contains("esc to interrupt"), "{renderer:?}: {quote:?}");
        let wide = stage.ask("m", "WIDE answer").await;
        assert!(wide.text.contains("日本語"), "{renderer:?}: {wide:?}");
        stage.stop("m").await;
    }
}

#[tokio::test]
async fn a_slow_turn_does_not_end_early() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    let slow = stage.ask("m", "SLOW answer").await;
    assert!(slow.text.contains("END-OF-SLOW"), "{slow:?}");
    assert_eq!(stage.ask("m", "STALL 10 first").await.delivery, "started");
    stage.stop("m").await;
}

#[tokio::test]
async fn a_permission_prompt_blocks_and_is_answered() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    let blocked = stage.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked);
    assert_eq!(blocked.delivery, Some("started"));
    assert!(blocked.choices.len() >= 2, "{blocked:?}");
    let second = stage.send("m", "must not be typed").await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::Blocked);
    let wrong = stage.answer("m", Choice::Number(9)).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidRequest);
    let done = stage.answer("m", Choice::Number(1)).await.unwrap().unwrap();
    assert!(done.is_complete, "{done:?}");
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    assert!(!stage.buffer("m", None).await.contains("must not be typed"));
    stage.stop("m").await;
}

#[tokio::test]
async fn onboarding_blocks_until_it_is_answered() {
    let stage = Stage::new();
    stage.start_mock("m", &["--onboarding"]).await;
    stage.wait("m", StateName::Blocked).await.unwrap();
    assert_eq!(stage.send("m", "hello").await.unwrap_err().kind, ErrorKind::Blocked);
    stage.answer("m", Choice::Label("yes".into())).await.unwrap();
    stage.wait("m", StateName::Ready).await.unwrap();
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    stage.stop("m").await;
}

#[tokio::test]
async fn swallowed_enters_and_paste_chips_are_delivered_all_the_same() {
    let stage = Stage::new();
    stage.start_mock("m", &["--swallow-enter", "2"]).await;
    assert_eq!(stage.ask("m", "hello there").await.text, "You said: hello there");
    let paste: String = (1..=40).map(|row| format!("row {row}\n")).collect();
    let pasted = stage.ask("m", &paste).await;
    assert!(pasted.text.contains("row 40"), "{pasted:?}");
    let huge = "word ".repeat(200_000);
    let sent = stage.ask("m", &huge).await;
    assert!(sent.is_complete, "a megabyte: {}", sent.ended_by);
    stage.stop("m").await;
}

#[tokio::test]
async fn a_slow_start_loses_no_prompt_silently() {
    let stage = Stage::new();
    stage.start_mock("m", &["--slow-start", "700"]).await;
    match stage.send("m", "hello there").await {
        Ok(response) => assert_eq!(response.text, "You said: hello there"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Delivery, "{error:?}"),
    }
    stage.stop("m").await;
}

#[tokio::test]
async fn an_agent_that_never_becomes_ready_times_out_with_its_screen() {
    let stage = Stage::new();
    let program = crate::harness::mock_agent().display().to_string();
    let mut spec = stage.spec("m", &[&program, "--never-ready"]);
    spec.profile = Some("claude".into());
    spec.ready_timeout = Duration::from_millis(500);
    stage.engine.create(spec).await.unwrap();
    let error = stage.send("m", "hello").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("did not become ready within 500ms"), "{error}");
    assert!(error.screen.is_some());
    stage.stop("m").await;
}

#[tokio::test]
async fn crash_and_exit_in_the_middle_of_a_turn() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    let crash = stage.send("m", "CRASH now").await.unwrap_err();
    assert_eq!(crash.kind, ErrorKind::Process);
    assert!(crash.message.contains("exit code 70"), "{crash}");
    stage.start_mock("m", &["--exit-at-once", "4"]).await;
    let gone = stage.send("m", "hello").await.unwrap_err();
    assert!(gone.message.contains("exit code 4"), "{gone}");
}

#[tokio::test]
async fn a_hanging_agent_times_out_and_is_stopped_within_bounds() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    let mut hang = stage.execute("m", "HANG");
    hang.timeout = Some(Duration::from_secs(1).into());
    let error = stage.run(hang).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Timeout, Some("started")));
    let started = Instant::now();
    stage.stop("m").await;
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn progress_bars_huge_lines_and_bad_utf8() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    assert!(stage.ask("m", "CR progress").await.is_complete);
    assert!(stage.ask("m", "BADUTF8 please").await.is_complete);
    assert!(stage.ask("m", "HUGELINE please").await.is_complete);
    assert!(stage.ask("m", "FLOOD 5").await.is_complete);
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    stage.stop("m").await;
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_as_interrupted() {
    let mut stage = Stage::new();
    stage.start_mock("m", &[]).await;
    stage.wait("m", StateName::Ready).await.unwrap();
    let engine = stage.engine.clone();
    let mut execute = stage.execute("m", "SLOW words");
    execute.stream = true;
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    stage.event(|kind| matches!(kind, EventKind::OutputChunk { .. } | EventKind::NodeBusy { .. })).await;
    while !stage.screen("m").await.contains("Slow") {
        tokio::task::yield_now().await;
    }
    stage.engine.send_interrupt(at("m").into(), Default::default()).await.unwrap();
    let Ok(response) = turn.await.unwrap() else { panic!("no response") };
    assert_eq!(response.attributes["interrupted"], "true");
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    stage.stop("m").await;
}

#[tokio::test]
async fn somebodys_draft_is_left_alone() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    stage.wait("m", StateName::Ready).await.unwrap();
    stage.engine.write_bytes(&at("m"), b"my own words".to_vec()).await.unwrap();
    while !stage.screen("m").await.contains("my own words") {
        tokio::task::yield_now().await;
    }
    let error = stage.send("m", "hello").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Blocked);
    assert!(error.message.contains("my own words"), "{error}");
    stage.engine.write_bytes(&at("m"), vec![0x15]).await.unwrap();
    while stage.screen("m").await.contains("my own words") {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    stage.stop("m").await;
}

/// Where an agent says which session a process has, and that session's transcript.
fn record(stage: &Stage, pid: &str) -> (PathBuf, PathBuf) {
    let home = stage.folder.path().join(".claude");
    (home.join(format!("sessions/{pid}.json")), home.join("projects/-tmp/s-1.jsonl"))
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn without_a_record_nothing_is_waited_for() {
    let stage = Stage::new();
    let info = stage.start_mock("m", &["--delay", "0"]).await;
    stage.ask("m", "first").await;
    // Written by nobody; a turn with it takes the whole patience longer.
    let (session, _) = record(&stage, &info.metadata["pid"]);
    let mut times = Vec::new();
    for with_record in [false, true] {
        if with_record {
            write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
        }
        let started = Instant::now();
        let response = stage.ask("m", "hello there").await;
        assert_eq!((response.text.as_str(), response.source), ("You said: hello there", "screen"));
        times.push(started.elapsed());
    }
    assert!(times[0] + Duration::from_millis(150) < times[1], "{times:?}");
    stage.stop("m").await;
}

#[tokio::test]
async fn a_transcript_that_says_its_end_is_taken_at_once() {
    let stage = Stage::new();
    let info = stage.start_mock("m", &[]).await;
    let (session, transcript) = record(&stage, &info.metadata["pid"]);
    write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
    // No `turn_duration`: that is written later than the agent is ready.
    let said = r#"{"type":"user","uuid":"u","message":{"role":"user","content":"hello there"}}"#;
    let answer = r#"{"type":"assistant","uuid":"a","parentUuid":"u","message":{"id":"m","stop_reason":"end_turn","content":[{"type":"text","text":"**written**"}]}}"#;
    write(&transcript, &format!("{said}\n{answer}\n"));
    let response = stage.ask("m", "hello there").await;
    assert_eq!((response.text.as_str(), response.source), ("**written**", "transcript"));
    assert!(response.is_complete);
    stage.stop("m").await;
}

#[tokio::test]
async fn a_node_that_ends_while_its_transcript_is_awaited_has_answered() {
    let mut stage = Stage::new();
    // The full-screen renderer's transcript is waited for longer.
    let info = stage.start_mock("m", &["--full-screen"]).await;
    stage.wait("m", StateName::Ready).await.unwrap();
    let (session, _) = record(&stage, &info.metadata["pid"]);
    write(&session, r#"{"sessionId":"s-1","cwd":"/tmp"}"#);
    let (engine, execute) = (stage.engine.clone(), stage.execute("m", "hello there"));
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    stage.event(|kind| matches!(kind, EventKind::NodeBusy { .. })).await;
    stage.event(|kind| matches!(kind, EventKind::NodeReady { .. })).await;
    stage.stop("m").await;
    let Ok(response) = turn.await.unwrap() else { panic!("the answer was there") };
    assert_eq!((response.text.as_str(), response.source), ("You said: hello there", "screen"));
    assert_eq!(ops(&stage.history("m").await).join(" "), "read send read close");
}
