//! What goes wrong with panes, on the stand-in for WezTerm.

use std::time::Duration;

use nerve_core::backend::pane::Panes;
use nerve_core::command::{EventKind, StateName};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::ErrorKind;
use nerve_core::node::factory::FactoryConfig;

use super::mux::Scene;
use crate::harness::Stage;
use crate::matrix::until;

#[tokio::test]
async fn without_wezterm_and_without_a_server_nothing_is_made() {
    let mut scene = Scene::new();
    scene.mux.kill();
    let error = scene.create(scene.spec("sh", &["bash"])).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Process);
    assert!(error.message.contains("no wezterm server is running; start WezTerm"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let panes = Panes { wezterm: Some(folder.path().join("wezterm")), ..Panes::default() };
    let nodes = FactoryConfig { panes, ..FactoryConfig::default() };
    let engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
    let stage = Stage { events: engine.subscribe(), engine, folder };
    let spec = scene.spec("sh", &["bash"]);
    let scene = Scene { stage, ..scene };
    let error = scene.create(spec).await.unwrap_err();
    assert!(error.message.contains("no program 'wezterm' in PATH; install WezTerm"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_of_create() {
    let scene = Scene::new();
    let error = scene.create(scene.spec("x", &["no-such-program-at-all"])).await.unwrap_err();
    assert!(error.message.contains("no program 'no-such-program-at-all'"), "{error}");
    assert_eq!(scene.mux.calls("spawn"), 0);
}

#[tokio::test]
async fn a_pane_that_vanishes_in_the_middle_of_a_turn_ends_it() {
    let scene = Scene::new();
    scene.bash("sh").await;
    let pane = scene.pane("sh").await;
    let turn = scene.stage.send("sh", "sleep 100");
    let closing = async {
        scene.stage.wait("sh", StateName::Busy).await.unwrap();
        scene.mux.wezterm().kill(&pane).await.unwrap();
    };
    let (turn, ()) = tokio::join!(turn, closing);
    let error = turn.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Process);
    assert!(error.message.contains(&format!("WezTerm has no pane {pane}:")), "{error}");
    // The name is free again.
    scene.bash("sh").await;
    scene.stage.stop("sh").await;
}

#[tokio::test]
async fn a_program_that_exits_takes_its_pane_and_its_node_along() {
    let mut scene = Scene::new();
    scene.bash("sh").await;
    let error = scene.stage.send("sh", "exit 3").await.unwrap_err();
    assert!(error.message.contains("its program has ended, or it was closed"), "{error}");
    let stopped = scene.stage.event(|kind| matches!(kind, EventKind::NodeStopped { .. })).await;
    assert!(format!("{stopped:?}").contains("WezTerm has no pane"), "{stopped:?}");
}

#[tokio::test]
async fn a_server_that_goes_takes_its_nodes_along() {
    let mut scene = Scene::new();
    scene.bash("sh").await;
    scene.mux.kill();
    let error = scene.stage.send("sh", "echo hello").await.unwrap_err();
    assert!(error.message.contains("WezTerm's server is gone"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_for_a_while_is_told_and_outlived() {
    let mut scene = Scene::new();
    scene.bash("sh").await;
    scene.mux.fault("hang");
    let prompt = scene.stage.execute("sh", "echo hello");
    let engine = scene.stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    let told = scene.stage.event(|kind| matches!(kind, EventKind::Error { .. })).await;
    assert!(format!("{told:?}").contains("timed out after"), "{told:?}");
    scene.mux.fault("none");
    // Whether the prompt was typed is not known; the node lives.
    turn.abort();
    let faults = scene.info("sh").await.metadata["faults"].clone();
    assert!(faults.contains("wezterm did not answer"), "{faults}");
    scene.bash("other").await;
    assert_eq!(scene.stage.ask("other", "echo again").await.text, "again");
}

#[tokio::test]
async fn two_servers_do_not_drive_one_pane() {
    let scene = Scene::new();
    scene.bash("sh").await;
    let other = scene.other();
    let mut spec = scene.spec("thief", &[]);
    spec.place.pane = Some(scene.pane("sh").await);
    let error = other.create(spec.clone()).await.unwrap_err();
    assert!(error.message.contains("is driven by node 'sh' of server 'test'"), "{error}");
    scene.stage.stop("sh").await;
    let error = other.create(spec).await.unwrap_err();
    assert!(error.message.contains("no such pane"), "the pane was the first one's: {error}");
}

#[tokio::test]
async fn a_program_that_outlives_its_pane_is_ended() {
    let scene = Scene::new();
    let script = "trap '' HUP; echo deaf; while :; do sleep 0.05; done";
    let info = scene.create(scene.spec("deaf", &["bash", "-c", script])).await.unwrap();
    scene.stage.shows("deaf", "deaf").await;
    let pid = &info.metadata["pid"];
    scene.stage.stop("deaf").await;
    let gone = async || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    until("the program is gone", gone).await;
    tokio::time::timeout(Duration::from_secs(5), scene.bash("deaf")).await.unwrap();
    scene.stage.stop("deaf").await;
}
