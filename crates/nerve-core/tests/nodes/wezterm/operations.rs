//! What a node in a pane is for: prompts, keys, text, focus.

use std::path::Path;

use nerve_core::command::{Choice, PanePlace, StateName};
use nerve_core::context::ExecutionContext;
use nerve_core::error::ErrorKind;
use nerve_core::node::Node;
use nerve_core::session::Session;
use nerve_record::index::Position;
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_types::Size;

use super::mux::Scene;
use crate::harness::{LIMIT, at};
use crate::matrix::until;

#[tokio::test]
async fn a_shell_in_a_pane_of_the_fake_takes_prompts() {
    let scene = Scene::new();
    let info = scene.bash("sh").await;
    assert_eq!(info.kind, "wezterm");
    let response = scene.stage.ask("sh", "echo one; echo two").await;
    assert_eq!(response.text, "one\ntwo", "{response:?}");
    assert_eq!(scene.stage.ask("sh", "cd /; pwd").await.text, "/");
    assert_eq!(scene.stage.ask("sh", "true").await.text, "");
    let slow = scene.stage.ask("sh", "sleep 0.6; echo slept").await;
    assert_eq!(slow.text, "slept");
    // Longer than what is typed exactly: it goes as a paste, and its Enter apart.
    let long = "x".repeat(300);
    let counted = scene.stage.ask("sh", &format!("echo {long} | wc -c")).await;
    assert_eq!(counted.text, "301", "{counted:?}\n{}", scene.stage.screen("sh").await);
    scene.stage.stop("sh").await;
    assert!(scene.mux.wezterm().list().await.unwrap().is_empty(), "the pane was ours: it is gone");
}

#[tokio::test]
async fn the_mock_agent_in_a_pane_of_the_fake_answers() {
    let scene = Scene::new();
    scene.mock("m", &[]).await;
    assert_eq!(scene.stage.ask("m", "hello there").await.text, "You said: hello there");
    let long = scene.stage.ask("m", "LONG answer please").await;
    assert!(long.text.contains("END-OF-LONG") && long.is_complete, "{long:?}");
    let blocked = scene.stage.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked);
    assert!(scene.stage.answer("m", Choice::Number(1)).await.unwrap().unwrap().is_complete);
    let paste: String = (1..=40).map(|row| format!("row {row}\n")).collect();
    assert!(scene.stage.ask("m", &paste).await.text.contains("row 40"));
    let wide = scene.stage.ask("m", "WIDE answer").await;
    assert!(wide.text.contains("日本語"), "{wide:?}");
    scene.stage.stop("m").await;
}

#[tokio::test]
async fn the_full_screen_mock_agent_in_a_pane_of_the_fake_answers() {
    let scene = Scene::new();
    scene.mock("m", &["--full-screen"]).await;
    assert_eq!(scene.stage.ask("m", "hello there").await.text, "You said: hello there");
    assert!(scene.stage.ask("m", "SLOW answer").await.text.contains("END-OF-SLOW"));
    scene.stage.stop("m").await;
}

#[tokio::test]
async fn a_paste_of_200_kilobytes_reaches_the_agent() {
    let scene = Scene::new();
    scene.mock("m", &[]).await;
    let sent = scene.stage.ask("m", &"word ".repeat(40_000)).await;
    assert!(sent.is_complete, "{}", sent.ended_by);
    let next = scene.stage.ask("m", "hello").await;
    assert_eq!(next.text, "You said: hello", "{next:?}\n{}", scene.stage.screen("m").await);
    scene.stage.stop("m").await;
}

#[tokio::test]
async fn a_pane_that_is_there_is_attached_and_never_closed() {
    let scene = Scene::new();
    let argv = ["bash", "--norc", "--noprofile"].map(String::from).to_vec();
    let new = nerve_core::backend::pane::NewPane { argv, size: Size::new(90, 20), ..Default::default() };
    let wezterm = scene.mux.wezterm();
    let pane = wezterm.spawn(&new).await.unwrap();
    let mut spec = scene.spec("sh", &[]);
    spec.place = PanePlace { pane: Some(pane.clone()), ..spec.place };
    scene.create(spec).await.unwrap();
    scene.stage.wait("sh", StateName::Ready).await.unwrap();
    assert_eq!(scene.stage.ask("sh", "echo attached").await.text, "attached");
    let info = scene.info("sh").await.metadata;
    assert_eq!((info["cols"].as_str(), info["rows"].as_str()), ("90", "20"), "its size is its own");
    scene.stage.stop("sh").await;
    assert_eq!(wezterm.list().await.unwrap().len(), 1, "it was there before us");
    let mut missing = scene.spec("no", &[]);
    missing.place.pane = Some("77".into());
    let error = scene.create(missing).await.unwrap_err();
    assert!(error.message.contains("no such pane: 77"), "{error}");
}

#[tokio::test]
async fn a_node_knows_its_pane_and_takes_the_focus() {
    let scene = Scene::new();
    let node =
        scene.factory().create_terminal(scene.spec("sh", &["bash", "--norc", "--noprofile"])).await.unwrap();
    node.wait(&[StateName::Ready], Some(LIMIT)).await.unwrap();
    let is = |key: &str, value: &str| node.info().metadata.get(key).is_some_and(|is| is == value);
    assert!(is("workspace", "default") && is("is_active", "true"), "{:?}", node.info());
    let pane = node.info().metadata["pane_id"].clone();
    let beside = scene.mux.run(&["cli", "split-pane", "--pane-id", &pane, "--bottom", "--", "cat"]);
    assert!(beside.status.success());
    until("it has lost the focus", async || is("is_active", "false")).await;
    assert!(!node.pane_info().await.unwrap().active);
    node.focus().await.unwrap();
    let info = node.pane_info().await.unwrap();
    assert!(info.active && info.pane == pane && info.pid.is_some(), "{info:?}");
    // The other one took half of it.
    until("the new size is known", async || is("rows", "14")).await;
    let context = ExecutionContext::new(&Session::new("s")).with_timeout(LIMIT).with_input("stty size");
    let said = Node::execute(&node, &context).await.unwrap();
    assert_eq!(said["text"], "14 100");
    let error = node.resize(Size::new(80, 24)).await.unwrap_err();
    assert!(error.message.contains("size"), "{error}");
    node.stop("done").await;
}

#[tokio::test]
async fn text_is_asked_from_wezterm_itself() {
    let scene = Scene::new();
    scene.bash("sh").await;
    scene.stage.ask("sh", "seq 1 60").await;
    let text = scene.stage.buffer("sh", None).await;
    assert!(text.contains("\n1\n2\n3\n") && text.contains("\n60\n"), "{text}");
    assert_eq!(scene.stage.buffer("sh", Some(2)).await, "60\n$");
    let before = scene.mux.calls("get-text");
    scene.stage.buffer("sh", None).await;
    assert!(scene.mux.calls("get-text") > before);
    scene.stage.stop("sh").await;
}

#[tokio::test]
async fn fast_output_leaves_every_row_in_the_scrollback() {
    let scene = Scene::new();
    scene.bash("sh").await;
    let response = scene.stage.ask("sh", "seq 1000 4000").await;
    let expected: Vec<String> = (1000..=4000).map(|n| n.to_string()).collect();
    assert_eq!(response.text, expected.join("\n"));
    scene.stage.stop("sh").await;
}

#[tokio::test]
async fn the_recording_of_a_pane_plays_to_the_same_screen_and_says_what_it_is() {
    let scene = Scene::new();
    scene.bash("sh").await;
    scene.stage.ask("sh", "printf '\\033[1;31mred\\033[0m plain\\n'; seq 1 50").await;
    let shown = scene.stage.screen("sh").await;
    let recording = scene.info("sh").await.metadata["recording"].clone();
    scene.stage.stop("sh").await;
    let meta = Meta::load(Path::new(&recording)).unwrap().unwrap();
    assert!(meta.screens && meta.ended_at.is_some(), "{meta:?}");
    assert_eq!(meta.node.as_deref(), Some("sh"));
    let mut playback = Playback::open(Path::new(&recording), Size::new(100, 30)).unwrap();
    playback.seek(Position::Offset(u64::MAX)).unwrap();
    let played = playback.into_replay().terminal.screen().text();
    assert!(shown.ends_with(&played) && played.contains("\n50\n"), "{shown}\n--\n{played}");
}

#[tokio::test]
async fn keys_go_through_as_they_are() {
    let scene = Scene::new();
    scene.bash("sh").await;
    let command = "echo it-runs; cat".to_string();
    scene
        .stage
        .engine
        .run_command(
            nerve_api::request::RunCommand { node_id: "sh".into(), command, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap();
    // From then on the terminal is cat's.
    scene.stage.shows("sh", "\nit-runs").await;
    let data = b"typed\r".to_vec();
    scene.stage.engine.write_bytes(&at("sh"), data).await.unwrap();
    scene.stage.shows("sh", "typed\ntyped").await;
    scene.stage.engine.send_interrupt(at("sh").into(), Default::default()).await.unwrap();
    scene.stage.wait("sh", StateName::Ready).await.unwrap();
    scene.stage.stop("sh").await;
}
