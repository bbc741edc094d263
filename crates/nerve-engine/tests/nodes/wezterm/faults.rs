//! Failures of panes and servers of the fake WezTerm.

use std::path::PathBuf;

use nerve_api::event::EventKind;
use nerve_api::request::NodeSpec;
use nerve_api::value::NodeState;
use nerve_engine::EngineConfig;
use nerve_mux::pane::{NewPane, Panes};
use nerve_mux::wezterm::{Keys, RowRange};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_node::response::Response;
use nerve_testkit::harness::assert_error;
use nerve_testkit::{eventually, within_deadline};
use tokio::task::JoinHandle;

use super::mux::{BASH, WeztermHarness};
use crate::harness::Harness;

#[tokio::test]
async fn missing_wezterm_server_or_hosts_are_reported() {
    let mut harness = WeztermHarness::new();
    // A new pane shows a host.
    let new = NodeSpec { pane_id: None, ..harness.spec("sh", "") };
    let error = harness.create(new).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    harness.mux.kill();
    let error = harness.create(harness.spec("sh", "0")).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &[]);
    let folder = tempfile::tempdir().unwrap();
    let panes = Panes { wezterm: Some(folder.path().join("wezterm")), ..Panes::default() };
    let nodes = FactoryConfig { panes, ..FactoryConfig::default() };
    let nodes = Harness::with(EngineConfig { nodes, ..EngineConfig::default() }, folder);
    let error = nodes.engine.create(harness.spec("sh", "0")).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'wezterm'", "PATH"]);
}

#[tokio::test]
async fn killed_pane_fails_its_turn() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let pane = harness.pane("sh").await;
    let turn = harness.nodes.send("sh", "sleep 100");
    let close = async {
        harness.nodes.wait_for_output("sh", "$ sleep 100").await;
        harness.mux.wezterm().kill(&pane).await.unwrap();
    };
    let (turn, ()) = tokio::join!(turn, close);
    let error = turn.unwrap_err();
    assert_error(&error, ErrorKind::Process, &[&format!("pane {pane}")]);
    // The name is available again.
    harness.bash("sh").await;
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn exited_program_stops_its_node() {
    let mut harness = WeztermHarness::new();
    harness.bash("sh").await;
    let error = harness.nodes.send("sh", "exit 3").await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'sh'"]);
    let stopped = harness.nodes.wait_for_event(|kind| matches!(kind, EventKind::NodeStopped { .. })).await;
    assert!(format!("{stopped:?}").contains("WezTerm has no pane"), "{stopped:?}");
}

#[tokio::test]
async fn killed_server_stops_its_nodes() {
    let mut harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.mux.kill();
    let error = harness.nodes.send("sh", "echo hello").await.unwrap_err();
    assert!(error.message.contains("server is gone"), "{error}");
}

#[tokio::test]
async fn node_survives_temporarily_hanging_server() {
    let mut harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.mux.fault("hang");
    let prompt = harness.nodes.execute("sh", "echo hello");
    let engine = harness.nodes.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    let event = harness.nodes.wait_for_event(|kind| matches!(kind, EventKind::Error { .. })).await;
    assert!(format!("{event:?}").contains("timed out after"), "{event:?}");
    harness.mux.fault("none");
    // Delivery of the prompt is unknown; the node survives.
    turn.abort();
    let faults = harness.info("sh").await.metadata.text("faults").to_string();
    assert!(faults.contains("wezterm timed out"), "{faults}");
    harness.bash("other").await;
    assert_eq!(harness.nodes.ask("other", "echo again").await.text, "again");
}

/// Starts a turn of node `sh` that waits for the returned file between two commands.
fn start_waiting_turn(
    harness: &WeztermHarness,
    before: &str,
    after: &str,
) -> (PathBuf, JoinHandle<Result<Response, EngineError>>) {
    let go = harness.nodes.folder.path().join("go");
    let command = format!("{before}; until [ -e {} ]; do sleep 0.01; done; {after}", go.display());
    let (engine, prompt) = (harness.nodes.engine.clone(), harness.nodes.execute("sh", &command));
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    (go, turn)
}

fn numbers(last: u32) -> String {
    (1..=last).map(|number| number.to_string()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn command_that_ends_while_wezterm_hangs_is_whole_or_failed() {
    let mut harness = WeztermHarness::new();
    harness.bash("sh").await;
    let (go, turn) = start_waiting_turn(&harness, "echo begun", "seq 1 60");
    harness.nodes.wait_for_output("sh", "\nbegun").await;
    harness.mux.fault("hang");
    std::fs::write(go, "").unwrap();
    harness.nodes.wait_for_event(|kind| matches!(kind, EventKind::Error { .. })).await;
    harness.mux.fault("none");
    if let Ok(response) = within_deadline("the turn", turn).await.unwrap() {
        let is_whole = response.text == format!("begun\n{}", numbers(60));
        assert!(is_whole || !response.is_success(), "{response:?}");
    }
}

#[tokio::test]
async fn resize_in_a_turn_adds_no_earlier_output() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.nodes.ask("sh", "seq 1000 1100").await;
    let (go, turn) = start_waiting_turn(&harness, "seq 1 60", "echo end");
    harness.nodes.wait_for_output("sh", "\n60").await;
    let split =
        NewPane { argv: vec!["cat".into()], split: Some(harness.pane("sh").await), ..NewPane::default() };
    harness.mux.wezterm().spawn(&split).await.unwrap();
    let is_resized = async || harness.info("sh").await.metadata.display("cols") != "100";
    eventually("the node has the new size", is_resized).await;
    std::fs::write(go, "").unwrap();
    let response = within_deadline("the turn", turn).await.unwrap().unwrap();
    assert!(!response.text.contains("1000"), "{response:?}");
    let is_whole = response.text == format!("{}\nend", numbers(60));
    assert!(is_whole || !response.is_success(), "{response:?}");
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn pane_has_only_one_driver() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let other = harness.other();
    let spec = harness.spec("second", &harness.pane("sh").await);
    let error = other.create(spec.clone()).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'sh'", "'test'"]);
    harness.nodes.stop("sh").await;
    other.create(spec).await.unwrap();
}

#[tokio::test]
async fn pane_of_same_id_after_restart_is_left_alone() {
    let mut harness = WeztermHarness::new();
    let info = harness.bash("sh").await;
    assert!(info.approximate);
    let pane = harness.pane("sh").await;
    harness.mux.restart();
    let other = NewPane { argv: vec!["cat".into()], ..NewPane::default() };
    assert_eq!(harness.mux.wezterm().spawn(&other).await.unwrap(), pane);
    harness.nodes.wait("sh", NodeState::Stopped).await.unwrap();
    harness.nodes.stop("sh").await;
    let left = harness.mux.wezterm().list().await.unwrap();
    assert_eq!(left.iter().map(|left| left.pane.clone()).collect::<Vec<_>>(), [pane]);
}

#[tokio::test]
async fn empty_answer_of_polled_pane_is_incomplete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let response = harness.nodes.ask("sh", "true").await;
    let failure = response.failure().expect("an empty answer succeeded");
    assert_eq!(failure.kind, ErrorKind::Incomplete, "{}", failure.message);
    assert!(harness.nodes.ask("sh", "echo text").await.is_success());
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn repeated_and_overlapping_output_is_whole() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    for last in [130, 130, 140, 5, 5] {
        let expected: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
        let response = harness.nodes.ask("sh", &format!("seq 1 {last}")).await;
        assert_eq!((response.text, response.missing_text), (expected.join("\n"), None));
    }
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn equal_rows_beyond_full_scrollback_are_incomplete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    // Before the second turn, scrollback and screen hold the same rows as after it.
    for _ in 0..2 {
        let response = harness.nodes.ask("sh", "yes same | head -n 8000").await;
        let failure = response.failure().expect("rows are missing");
        assert_eq!(failure.kind, ErrorKind::Incomplete, "{}", failure.message);
    }
    // The turn is polled while nothing changes.
    let response = harness.nodes.ask("sh", "yes same | head -n 8000; sleep 0.5; echo end").await;
    let failure = response.failure().expect("rows are missing");
    assert_eq!(failure.kind, ErrorKind::Incomplete, "{}", failure.message);
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn answer_whose_prompt_left_the_scrollback_is_incomplete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    // Each poll sees the rows of the one before.
    let response =
        harness.nodes.ask("sh", "for i in 1 2 3 4 5; do seq ${i}0000 ${i}0800; sleep 0.5; done").await;
    let failure = response.failure().expect("the scrollback does not show the prompt");
    assert_eq!(failure.kind, ErrorKind::Incomplete, "{}", failure.message);
    assert!(harness.nodes.ask("sh", "echo text").await.is_success());
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn silence_above_equal_rows_is_complete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let _ = harness.nodes.ask("sh", "yes same | head -n 300").await;
    let response = harness.nodes.ask("sh", "sleep 0.5; echo one; sleep 0.5; echo two").await;
    assert_eq!((response.text.as_str(), response.missing_text), ("one\ntwo", None));
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn answer_of_cleared_screen_is_incomplete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    for last in [50, 50, 60] {
        let response = harness.nodes.ask("sh", &format!("clear; seq 1 {last}")).await;
        let failure = response.failure().expect("the beginning is unknown");
        assert_eq!(failure.kind, ErrorKind::Incomplete, "{}", failure.message);
    }
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn draft_of_a_person_is_not_typed_over() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let pane = harness.pane("sh").await;
    let wezterm = harness.mux.wezterm();
    for _ in 0..8 {
        harness.nodes.ask("sh", "echo before").await;
        wezterm.keys(&pane, &Keys::new(b"echo draft").unwrap()).await.unwrap();
        eventually("the draft stands there", async || {
            wezterm.text(&pane, RowRange::screen(30), false).await.unwrap().contains("$ echo draft")
        })
        .await;
        let error = harness.nodes.send("sh", "echo ours").await.unwrap_err();
        assert_error(&error, ErrorKind::Blocked, &["echo draft"]);
        wezterm.keys(&pane, &Keys::new(b"\x15clear\r").unwrap()).await.unwrap();
        eventually("the draft is gone", async || {
            !wezterm.text(&pane, RowRange::screen(30), false).await.unwrap().contains("draft")
        })
        .await;
    }
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn draft_before_attaching_is_not_typed_over() {
    let harness = WeztermHarness::new();
    let pane = harness.spawn(&BASH).await;
    let wezterm = harness.mux.wezterm();
    let screen = async || wezterm.text(&pane, RowRange::screen(30), false).await.unwrap();
    let has_draft = async || screen().await.contains("$ echo draft");
    // Before bash reads keys, the terminal echoes them in front of the prompt.
    eventually("the prompt stands there", async || screen().await.trim_end().ends_with('$')).await;
    wezterm.keys(&pane, &Keys::new(b"echo draft").unwrap()).await.unwrap();
    eventually("the draft stands there", has_draft).await;
    harness.create(harness.spec("sh", &pane)).await.unwrap();
    let error = harness.nodes.send("sh", "echo ours").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["'echo draft'"]);
    assert!(has_draft().await);
    wezterm.keys(&pane, &Keys::new(b"\x15").unwrap()).await.unwrap();
    eventually("the draft is gone", async || !has_draft().await).await;
    assert_eq!(harness.nodes.ask("sh", "echo ours").await.text, "ours");
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn dead_program_of_kept_pane_is_stopped() {
    let harness = WeztermHarness::new();
    harness.mux.fault("hold");
    harness.bash("sh").await;
    let pane = harness.pane("sh").await;
    let error = harness.nodes.send("sh", "exit").await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'sh'"]);
    harness.nodes.wait("sh", NodeState::Stopped).await.unwrap();
    let error = harness.create(harness.spec("dead", &pane)).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &[]);
}

#[tokio::test]
async fn echo_of_prompt_with_tabs_is_no_answer() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let response = harness.nodes.ask("sh", "if true; then\n\techo a\tb\nfi").await;
    assert_eq!(response.text, "a b", "{}", harness.nodes.screen("sh").await);
    harness.nodes.stop("sh").await;
}
