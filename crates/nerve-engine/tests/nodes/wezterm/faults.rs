//! Failures of panes and servers of the fake WezTerm.

use nerve_engine::EngineConfig;
use nerve_mux::pane::{NewPane, Panes};
use nerve_node::command::{EventKind, StateName};
use nerve_node::error::ErrorKind;
use nerve_node::factory::FactoryConfig;
use nerve_testkit::eventually;
use nerve_testkit::harness::{assert_error, is_alive};

use super::mux::WeztermHarness;
use crate::harness::Harness;

#[tokio::test]
async fn missing_wezterm_or_server_is_reported() {
    let mut harness = WeztermHarness::new();
    harness.mux.kill();
    let error = harness.create(harness.spec("sh", &["bash"])).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["wezterm server"]);
    let folder = tempfile::tempdir().unwrap();
    let panes = Panes { wezterm: Some(folder.path().join("wezterm")), ..Panes::default() };
    let nodes = FactoryConfig { panes, ..FactoryConfig::default() };
    let nodes = Harness::with(EngineConfig { nodes, ..EngineConfig::default() }, folder);
    let spec = harness.spec("sh", &["bash"]);
    let harness = WeztermHarness { nodes, ..harness };
    let error = harness.create(spec).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'wezterm'", "PATH"]);
}

#[tokio::test]
async fn missing_program_fails_create() {
    let harness = WeztermHarness::new();
    let error = harness.create(harness.spec("x", &["no-such-program-at-all"])).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'no-such-program-at-all'"]);
    assert_eq!(harness.mux.calls("spawn"), 0);
}

#[tokio::test]
async fn killed_pane_fails_its_turn() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let pane = harness.pane("sh").await;
    let turn = harness.nodes.send("sh", "sleep 100");
    let close = async {
        harness.nodes.wait("sh", StateName::Busy).await.unwrap();
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
    let stopped = harness.nodes.event(|kind| matches!(kind, EventKind::NodeStopped { .. })).await;
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
    let event = harness.nodes.event(|kind| matches!(kind, EventKind::Error { .. })).await;
    assert!(format!("{event:?}").contains("timed out after"), "{event:?}");
    harness.mux.fault("none");
    // Delivery of the prompt is unknown; the node survives.
    turn.abort();
    let faults = harness.info("sh").await.metadata["faults"].clone();
    assert!(faults.contains("wezterm timed out"), "{faults}");
    harness.bash("other").await;
    assert_eq!(harness.nodes.ask("other", "echo again").await.text, "again");
}

#[tokio::test]
async fn pane_has_only_one_driver() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let other = harness.other();
    let mut spec = harness.spec("second", &[]);
    spec.pane_id = Some(harness.pane("sh").await);
    let error = other.create(spec.clone()).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'sh'", "'test'"]);
    harness.nodes.stop("sh").await;
    let error = other.create(spec).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "the pane outlived its node: {error}");
}

#[tokio::test]
async fn program_that_survives_its_pane_is_killed() {
    let harness = WeztermHarness::new();
    let script = "trap '' HUP; echo deaf; while :; do sleep 0.05; done";
    let info = harness.create(harness.spec("deaf", &["bash", "-c", script])).await.unwrap();
    harness.nodes.shows("deaf", "deaf").await;
    let pid = info.metadata["pid"].parse().unwrap();
    harness.nodes.stop("deaf").await;
    eventually("the program is gone", async || !is_alive(pid)).await;
    harness.bash("deaf").await;
    harness.nodes.stop("deaf").await;
}

#[tokio::test]
async fn pane_of_same_id_after_restart_is_left_alone() {
    let mut harness = WeztermHarness::new();
    let new = NewPane { argv: vec!["bash".into(), "--norc".into()], ..NewPane::default() };
    let pane = harness.mux.wezterm().spawn(&new).await.unwrap();
    let mut spec = harness.spec("sh", &[]);
    spec.pane_id = Some(pane.clone());
    let info = harness.create(spec).await.unwrap();
    assert_eq!(info.metadata["approximate"], "true");
    harness.nodes.wait("sh", StateName::Ready).await.unwrap();
    harness.mux.restart();
    let other = NewPane { argv: vec!["cat".into()], ..NewPane::default() };
    assert_eq!(harness.mux.wezterm().spawn(&other).await.unwrap(), pane);
    harness.nodes.wait("sh", StateName::Stopped).await.unwrap();
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
