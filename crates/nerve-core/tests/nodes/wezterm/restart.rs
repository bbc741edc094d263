//! A server that goes and comes again finds its panes, on the stand-in for WezTerm.

use std::path::Path;

use nerve_core::command::{PanePlace, StateName};
use nerve_record::ahr::Mark;
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_types::Size;

use super::mux::Scene;
use crate::matrix::until;
use crate::tmux::marks;

#[tokio::test]
async fn a_new_server_goes_on_with_the_panes_of_the_old_one() {
    let scene = Scene::new();
    let before = scene.bash("sh").await;
    scene.stage.ask("sh", "x=kept; seq 1 40").await;
    let scene = scene.restart().await;
    scene.stage.wait("sh", StateName::Ready).await.unwrap();
    assert_eq!(scene.stage.ask("sh", "echo $x").await.text, "kept");
    let after = scene.info("sh").await;
    assert_eq!(after.kind, "wezterm");
    for same in ["pid", "recording", "cols", "rows"] {
        assert_eq!(after.metadata[same], before.metadata[same], "{same}");
    }
    assert!(!after.metadata.contains_key("faults"), "{after:?}");
    let shown = scene.stage.screen("sh").await;
    scene.stage.stop("sh").await;
    assert!(scene.mux.wezterm().list().await.unwrap().is_empty(), "it is still ours to close");
    let gaps = marks(Path::new(&after.metadata["recording"]));
    assert_eq!(gaps.iter().filter(|mark| matches!(mark, Mark::Gap(_))).count(), 1, "{gaps:?}");
    let mut playback = Playback::open(Path::new(&after.metadata["recording"]), Size::new(100, 30)).unwrap();
    playback.seek(Position::Offset(u64::MAX)).unwrap();
    let played = playback.into_replay().terminal.screen().text();
    assert!(shown.ends_with(&played), "{shown}\n--\n{played}");
}

#[tokio::test]
async fn an_agent_is_still_an_agent_after_a_restart() {
    let scene = Scene::new();
    scene.mock("m", &[]).await;
    scene.stage.ask("m", "hello there").await;
    let scene = scene.restart().await;
    scene.stage.wait("m", StateName::Ready).await.unwrap();
    assert_eq!(scene.stage.ask("m", "hello again").await.text, "You said: hello again");
    scene.stage.stop("m").await;
}

#[tokio::test]
async fn an_attached_pane_is_found_again_and_still_not_closed() {
    let scene = Scene::new();
    let argv = ["bash", "--norc", "--noprofile"].map(String::from).to_vec();
    let new = nerve_mux::pane::NewPane { argv, size: Size::new(90, 20), ..Default::default() };
    let pane = scene.mux.wezterm().spawn(&new).await.unwrap();
    let mut spec = scene.spec("sh", &[]);
    spec.place = PanePlace { pane: Some(pane), ..spec.place };
    scene.create(spec).await.unwrap();
    scene.stage.wait("sh", StateName::Ready).await.unwrap();
    let scene = scene.restart().await;
    scene.stage.wait("sh", StateName::Ready).await.unwrap();
    scene.stage.stop("sh").await;
    assert_eq!(scene.mux.wezterm().list().await.unwrap().len(), 1);
    // And it is forgotten.
    let scene = scene.restart().await;
    assert!(scene.stage.send("sh", "echo x").await.unwrap_err().message.contains("no node"));
}

#[tokio::test]
async fn a_pane_that_went_meanwhile_is_told_as_gone() {
    let scene = Scene::new();
    scene.bash("sh").await;
    let pane = scene.pane("sh").await;
    let wezterm = scene.mux.wezterm();
    let mut scene = scene;
    scene.stage.engine.shut_down(true).await;
    wezterm.kill(&pane).await.unwrap();
    scene = scene.restart().await;
    until("the node is gone", async || {
        let error = scene.stage.send("sh", "echo x").await.unwrap_err();
        error.message.contains("WezTerm has no pane") || error.message.contains("no node")
    })
    .await;
}
