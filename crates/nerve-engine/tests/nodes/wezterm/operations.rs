//! Prompts, keys, text and focus of nodes in panes of the fake WezTerm.

use std::path::Path;

use nerve_api::request::NodeSpec;
use nerve_api::value::NodeState;
use nerve_node::Node;
use nerve_node::context::TurnContext;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::ErrorKind;
use nerve_record::index::Position;
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_testkit::eventually;
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_types::Size;

use super::mux::{BASH, WeztermHarness};
use crate::harness::{LIMIT, mock_agent};

#[tokio::test]
async fn shell_takes_prompts() {
    let harness = WeztermHarness::new();
    let info = harness.bash("sh").await;
    assert_eq!(info.kind, "wezterm");
    let response = harness.nodes.ask("sh", "echo one; echo two").await;
    assert_eq!(response.text, "one\ntwo", "{response:?}");
    assert_eq!(harness.nodes.ask("sh", "cd /; pwd").await.text, "/");
    assert_eq!(harness.nodes.ask("sh", "true").await.text, "");
    let slow = harness.nodes.ask("sh", "sleep 0.6; echo slept").await;
    assert_eq!(slow.text, "slept");
    // Too long to be typed, so it is pasted, followed by a separate Enter.
    let long = "x".repeat(300);
    let counted = harness.nodes.ask("sh", &format!("echo {long} | wc -c")).await;
    assert_eq!(counted.text, "301", "{counted:?}\n{}", harness.nodes.screen("sh").await);
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn mock_agent_answers() {
    let harness = WeztermHarness::new();
    harness.mock("m", &[]).await;
    assert_eq!(harness.nodes.ask("m", "hello there").await.text, "You said: hello there");
    let long = harness.nodes.ask("m", "LONG answer please").await;
    assert!(long.text.contains("END-OF-LONG") && long.is_complete, "{long:?}");
    let blocked = harness.nodes.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked);
    assert!(harness.nodes.answer("m", Choice::Number(1)).await.unwrap().unwrap().is_complete);
    let paste: String = (1..=40).map(|row| format!("row {row}\n")).collect();
    assert!(harness.nodes.ask("m", &paste).await.text.contains("row 40"));
    let wide = harness.nodes.ask("m", "WIDE answer").await;
    assert!(wide.text.contains("日本語"), "{wide:?}");
    harness.nodes.stop("m").await;
}

#[tokio::test]
async fn full_screen_mock_agent_answers() {
    let harness = WeztermHarness::new();
    // Rows above the screen that disappear with it show that the alternate screen is active.
    let agent = mock_agent().display().to_string();
    let script = "seq 1 100; read -r; exec \"$0\" --full-screen";
    let pane = harness.spawn(&["bash", "-c", script, &agent]).await;
    let spec = NodeSpec { profile: Some("claude".into()), ..harness.spec("m", &pane) };
    harness.create(spec).await.unwrap();
    harness.nodes.wait_for_output("m", "\n100").await;
    harness.nodes.engine.write_bytes(&node_ref("m"), b"\r".to_vec()).await.unwrap();
    harness.nodes.wait_ready("m").await;
    assert_eq!(harness.nodes.ask("m", "hello there").await.text, "You said: hello there");
    assert!(harness.nodes.ask("m", "SLOW answer").await.text.contains("END-OF-SLOW"));
    harness.nodes.stop("m").await;
}

#[tokio::test]
async fn large_paste_reaches_the_agent() {
    let harness = WeztermHarness::new();
    harness.mock("m", &[]).await;
    let sent = harness.nodes.ask("m", &"word ".repeat(40_000)).await;
    assert!(sent.is_complete, "{}", sent.ended_by);
    let next = harness.nodes.ask("m", "hello").await;
    assert_eq!(next.text, "You said: hello", "{next:?}\n{}", harness.nodes.screen("m").await);
    harness.nodes.stop("m").await;
}

#[tokio::test]
async fn existing_pane_is_attached_and_never_closed() {
    let harness = WeztermHarness::new();
    let info = harness.bash("sh").await;
    assert_eq!(harness.nodes.ask("sh", "echo attached").await.text, "attached");
    assert_eq!(
        (info.metadata.display("cols").as_str(), info.metadata.display("rows").as_str()),
        ("100", "30")
    );
    let wezterm = harness.mux.wezterm();
    harness.nodes.stop("sh").await;
    assert_eq!(wezterm.list().await.unwrap().len(), 1, "the foreign pane was closed");
    let error = harness.create(harness.spec("no", "77")).await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["77"]);
}

#[tokio::test]
async fn node_reports_pane_info_and_takes_focus() {
    let harness = WeztermHarness::new();
    let pane = harness.spawn(&BASH).await;
    let node = harness.factory().create_terminal(harness.spec("sh", &pane)).await.unwrap();
    node.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    let has_metadata = |key: &str, value: &str| node.info().metadata.display(key) == value;
    assert!(has_metadata("workspace", "default") && has_metadata("is_active", "true"), "{:?}", node.info());
    let pane = node.info().metadata.text("pane_id").to_string();
    let split = harness.mux.run(&["cli", "split-pane", "--pane-id", &pane, "--bottom", "--", "cat"]);
    assert!(split.status.success());
    eventually("the pane loses the focus", async || has_metadata("is_active", "false")).await;
    assert!(!node.pane_info().await.unwrap().active);
    node.focus().await.unwrap();
    let info = node.pane_info().await.unwrap();
    assert!(info.active && info.pane == pane && info.pid.is_some(), "{info:?}");
    // The split halved the pane.
    eventually("the new size is known", async || has_metadata("rows", "14")).await;
    let context = TurnContext::new().with_timeout(LIMIT).with_input("stty size");
    let value = Node::execute(&node, &context).await.unwrap();
    assert_eq!(value["text"], "14 100");
    let error = node.resize(Size::new(80, 24)).await.unwrap_err();
    assert!(error.message.contains("size"), "{error}");
    node.stop("done").await;
}

#[tokio::test]
async fn buffer_is_read_from_wezterm() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.nodes.ask("sh", "seq 1 60").await;
    let text = harness.nodes.buffer("sh", None).await;
    assert!(text.contains("\n1\n2\n3\n") && text.contains("\n60\n"), "{text}");
    assert_eq!(harness.nodes.buffer("sh", Some(2)).await, "60\n$");
    let before = harness.mux.calls("get-text");
    harness.nodes.buffer("sh", None).await;
    assert!(harness.mux.calls("get-text") > before);
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn fast_output_is_complete() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let response = harness.nodes.ask("sh", "seq 1000 4000").await;
    let expected: Vec<String> = (1000..=4000).map(|n| n.to_string()).collect();
    assert_eq!(response.text, expected.join("\n"));
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn recording_replays_to_the_same_screen() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.nodes.ask("sh", "printf '\\033[1;31mred\\033[0m plain\\n'; seq 1 50").await;
    let screen = harness.nodes.screen("sh").await;
    let recording = harness.info("sh").await.metadata.text("recording_path").to_string();
    harness.nodes.stop("sh").await;
    let meta = Meta::load(Path::new(&recording)).unwrap().unwrap();
    assert!(meta.screens && meta.ended_at.is_some(), "{meta:?}");
    assert_eq!(meta.node.as_deref(), Some("sh"));
    let mut playback = Playback::open(Path::new(&recording), Size::new(100, 30)).unwrap();
    playback.seek(Position::Offset(u64::MAX)).unwrap();
    let played = playback.into_replay().terminal.screen().text();
    assert!(screen.ends_with(&played) && played.contains("\n50\n"), "{screen}\n--\n{played}");
}

#[tokio::test]
async fn keys_are_passed_unchanged() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    let command = "echo it-runs; cat".to_string();
    harness
        .nodes
        .engine
        .run_command(
            nerve_api::request::RunCommand { node_id: "sh".into(), command, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap();
    // From here on cat owns the terminal.
    harness.nodes.wait_for_output("sh", "\nit-runs").await;
    let data = b"typed\r".to_vec();
    harness.nodes.engine.write_bytes(&node_ref("sh"), data).await.unwrap();
    harness.nodes.wait_for_output("sh", "typed\ntyped").await;
    harness.nodes.engine.send_interrupt(node_ref("sh").into(), Default::default()).await.unwrap();
    harness.nodes.wait("sh", NodeState::Ready).await.unwrap();
    harness.nodes.stop("sh").await;
}
