//! Server restarts with the fake WezTerm: a new server finds its panes.

use std::path::Path;

use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_record::index::Position;
use nerve_record::playback::Playback;
use nerve_testkit::eventually;
use nerve_types::Size;

use super::mux::WeztermHarness;
use crate::tmux::marks;

#[tokio::test]
async fn restarted_server_resumes_its_panes() {
    let harness = WeztermHarness::new();
    let before = harness.bash("sh").await;
    harness.nodes.ask("sh", "x=kept; seq 1 40").await;
    let harness = harness.restart().await;
    harness.nodes.wait("sh", NodeState::Ready).await.unwrap();
    assert_eq!(harness.nodes.ask("sh", "echo $x").await.text, "kept");
    let after = harness.info("sh").await;
    assert_eq!(after.kind, "wezterm");
    for key in ["pid", "recording_path", "cols", "rows"] {
        assert_eq!(after.metadata[key], before.metadata[key], "{key}");
    }
    assert!(!after.metadata.contains_key("faults"), "{after:?}");
    let screen = harness.nodes.screen("sh").await;
    harness.nodes.stop("sh").await;
    let gaps = marks(Path::new(after.metadata.text("recording_path")));
    assert_eq!(gaps.iter().filter(|mark| matches!(mark, Mark::Gap(_))).count(), 1, "{gaps:?}");
    let mut playback =
        Playback::open(Path::new(after.metadata.text("recording_path")), Size::new(100, 30)).unwrap();
    playback.seek(Position::Offset(u64::MAX)).unwrap();
    let played = playback.into_replay().terminal.screen().text();
    assert!(screen.ends_with(&played), "{screen}\n--\n{played}");
}

#[tokio::test]
async fn agent_takes_turns_after_restart() {
    let harness = WeztermHarness::new();
    harness.mock("m", &[]).await;
    harness.nodes.ask("m", "hello there").await;
    let harness = harness.restart().await;
    harness.nodes.wait("m", NodeState::Ready).await.unwrap();
    assert_eq!(harness.nodes.ask("m", "hello again").await.text, "You said: hello again");
    harness.nodes.stop("m").await;
}

#[tokio::test]
async fn attached_pane_stays_foreign_after_restart() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let harness = harness.restart().await;
    harness.nodes.wait("sh", NodeState::Ready).await.unwrap();
    harness.nodes.stop("sh").await;
    assert_eq!(harness.mux.wezterm().list().await.unwrap().len(), 1);
    // A stopped node is not restored.
    let harness = harness.restart().await;
    assert_eq!(harness.nodes.send("sh", "echo x").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn pane_closed_during_restart_is_reported() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let pane = harness.pane("sh").await;
    let wezterm = harness.mux.wezterm();
    let mut harness = harness;
    harness.nodes.engine.shut_down(true).await;
    wezterm.kill(&pane).await.unwrap();
    harness = harness.restart().await;
    eventually("the node is gone", async || {
        let error = harness.nodes.send("sh", "echo x").await.unwrap_err();
        error.message.contains("WezTerm has no pane") || error.message.contains("no node")
    })
    .await;
}
