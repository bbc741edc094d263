//! Existing panes, which nerve drives but never closes.

use std::path::PathBuf;

use nerve_api::request::{CreateNode, NodeSpec, ResizeNode, RunCommand};
use nerve_api::value::{Delivery, NodeState};
use nerve_engine::RequestContext;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_testkit::{wait_until, wait_until_async};

use super::{BASH, Tmux, marks, output};
use crate::harness::LIMIT;

const SHELL: &str = "env PS1='$ ' bash --norc --noprofile";

fn wait_for_text(tmux: &Tmux, pane: &str, text: &str) {
    let shown = || tmux.tmux(&["capture-pane", "-p", "-S", "-", "-t", pane]).unwrap_or_default();
    assert!(wait_until(LIMIT, || shown().contains(text)), "no '{text}':\n{}", shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_pane_keeps_scrollback_and_outlives_its_node() {
    let Some(tmux) = Tmux::new("attached_pane_keeps_scrollback_and_outlives_its_node") else { return };
    let pane = tmux.new_pane("work", SHELL);
    tmux.tmux(&[
        "send-keys",
        "-t",
        &pane,
        "seq 1000 1100; printf '\\033[31mred\\033[m\\n'; echo 日本語",
        "Enter",
    ])
    .unwrap();
    wait_for_text(&tmux, &pane, "日本語\n$");
    let pid = tmux.query(&pane, "#{pane_pid}");
    for (node, target) in [("id", pane.as_str()), ("name", "work:0.0")] {
        let info = tmux.create(tmux.attached_spec(node, target)).await.unwrap();
        assert_eq!(
            (info.metadata.text("pane_id"), info.metadata.display("pid")),
            (pane.as_str(), pid.clone())
        );
        assert!(info.approximate);
        tmux.nodes.wait(node, NodeState::Ready).await.unwrap();
        let text = tmux.nodes.buffer(node, None).await;
        assert!(text.contains("1000\n1001\n") && text.contains("1100\nred\n日本語\n$"), "{text}");
        assert_eq!(tmux.nodes.ask(node, "echo $((6 * 7))").await.text, "42");
        let lines = tmux.nodes.ask(node, "for i in 1 2; do\n  echo line $i\ndone").await.text;
        assert_eq!(lines.lines().last(), Some("line 2"), "{lines}");
        tmux.stop(node).await;
        assert_eq!(
            tmux.query(&pane, "#{pane_pid} #{pane_dead}"),
            format!("{pid} 0"),
            "the program was ended"
        );
    }
    tmux.tmux(&["send-keys", "-t", &pane, "echo person $((1 + 1))", "Enter"]).unwrap();
    wait_for_text(&tmux, &pane, "person 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_of_cleared_screen_is_exact_or_incomplete() {
    let Some(tmux) = Tmux::new("answer_of_cleared_screen_is_exact_or_incomplete") else { return };
    let pane = tmux.new_pane("work", SHELL);
    tmux.create(tmux.attached_spec("sh", &pane)).await.unwrap();
    for _ in 0..2 {
        let response = tmux.nodes.ask("sh", "clear; echo x").await;
        let failure = response.failure().map(|failure| failure.kind);
        assert!(failure == Some(ErrorKind::Incomplete) || response.text == "x", "{response:?}");
    }
    assert_eq!(tmux.nodes.ask("sh", "echo next").await.text, "next");
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn current_screen_is_taken_over() {
    let Some(tmux) = Tmux::new("current_screen_is_taken_over") else { return };
    let draw = "printf 'main\\n\\033[?1049h\\033[?1h\\033[3;5Hfull\\033[7mscreen\\033[m\\033[10;20H'; exec sleep 1000";
    let pane = tmux.new_pane("work", &format!("sh -c \"{}\"", draw.replace('\\', "\\\\")));
    wait_for_text(&tmux, &pane, "fullscreen");
    tmux.create(tmux.attached_spec("full", &pane)).await.unwrap();
    tmux.nodes.wait_for_output("full", "fullscreen").await;
    let screen = tmux.nodes.screen("full").await;
    let captured = tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap();
    assert!(screen.ends_with(captured.trim_end()), "{screen}\nbut\n{captured}");
    tmux.stop("full").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bracketed_paste_is_used_only_if_enabled() {
    let Some(tmux) = Tmux::new("bracketed_paste_is_used_only_if_enabled") else { return };
    for (session, sequence, unexpected) in [("off", "", "^[[200~"), ("on", "\\\\033[?2004h", "none")] {
        let script = format!("stty -echo -icrnl; printf '{sequence}ready'; exec cat -v");
        let pane = tmux.new_pane(session, &format!("sh -c \"{script}\""));
        wait_for_text(&tmux, &pane, "ready");
        tmux.create(tmux.attached_spec(session, &pane)).await.unwrap();
        tmux.nodes.wait_for_output(session, "ready").await;
        let request =
            RunCommand { node_id: session.into(), command: "one\ntwo".into(), ..RunCommand::default() };
        tmux.nodes.engine.run_command(request, Default::default()).await.unwrap();
        tmux.nodes.engine.write_bytes(&node_ref(session), b"end\n".to_vec()).await.unwrap();
        tmux.nodes.wait_for_output(session, "end").await;
        let text = tmux.nodes.buffer(session, None).await;
        assert!(!text.contains(unexpected), "{session}: {text}");
        if session == "on" {
            assert!(text.contains("^[[200~one\ntwo^[[201~^Mend"), "{text}");
        } else {
            assert!(text.contains("one\ntwo^Mend"), "{text}");
        }
        tmux.stop(session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_pane_fails_its_turn_with_screen() {
    let Some(tmux) = Tmux::new("killed_pane_fails_its_turn_with_screen") else { return };
    tmux.new_pane("keep", "sleep 1000");
    let pane = tmux.new_pane("work", SHELL);
    tmux.create(tmux.attached_spec("theirs", &pane)).await.unwrap();
    tmux.nodes.wait("theirs", NodeState::Ready).await.unwrap();
    let engine = tmux.nodes.engine.clone();
    let execute = tmux.nodes.execute("theirs", "echo begun; sleep 1000");
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    tmux.nodes.wait_for_output("theirs", "\nbegun").await;
    tmux.tmux(&["kill-pane", "-t", &pane]).unwrap();
    let error = tokio::time::timeout(LIMIT, turn).await.unwrap().unwrap().unwrap_err();
    assert_error(&error, ErrorKind::Process, &[&pane]);
    assert!(error.screen.as_deref().unwrap_or_default().contains("begun"), "{error:?}");
    tmux.nodes.wait("theirs", NodeState::Stopped).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_pane_stops_its_node() {
    let Some(tmux) = Tmux::new("ended_pane_stops_its_node") else { return };
    tmux.new_pane("keep", "sleep 1000");
    let pane = tmux.new_pane("work", SHELL);
    tmux.create(tmux.attached_spec("sh", &pane)).await.unwrap();
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    let request = RunCommand { node_id: "sh".into(), command: "exit".into(), ..RunCommand::default() };
    tmux.nodes.engine.run_command(request, Default::default()).await.unwrap();
    tmux.nodes.wait("sh", NodeState::Stopped).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_pane_is_resized_independently() {
    let Some(tmux) = Tmux::new("split_pane_is_resized_independently") else { return };
    let pane = tmux.new_pane("work", SHELL);
    let below =
        tmux.tmux(&["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", &pane, "sleep 1000"]).unwrap();
    let info = tmux.create(tmux.attached_spec("sh", &pane)).await.unwrap();
    assert_eq!(info.metadata.display("rows"), tmux.query(&pane, "#{pane_height}"));
    let resize = ResizeNode { node_id: "sh".into(), cols: 100, rows: 8, ..ResizeNode::default() };
    tmux.nodes.engine.resize_node(resize, Default::default()).await.unwrap();
    assert_eq!(tmux.query(&pane, "#{pane_height}"), "8");
    assert_eq!(tmux.nodes.ask("sh", "stty size").await.text, "8 100");
    tmux.tmux(&["kill-pane", "-t", &below]).unwrap();
    let resized = async || tmux.info("sh").await.metadata.display("rows") != "8";
    assert!(wait_until_async(LIMIT, resized).await, "{:?}", tmux.info("sh").await);
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn size_that_the_pane_does_not_take_is_a_warning() {
    let Some(tmux) = Tmux::new("size_that_the_pane_does_not_take_is_a_warning") else { return };
    let pane = tmux.new_pane("work", SHELL);
    for (node, cols, warns) in [("wide", Some(90), true), ("same", Some(100), false), ("any", None, false)] {
        let request = CreateNode { cols, rows: None, ..tmux.attached_spec(node, &pane) };
        let context = RequestContext::default();
        let warnings = context.warnings.clone();
        tmux.nodes.engine.create_node(request, context).await.unwrap();
        let warnings = warnings.take();
        assert_eq!(warnings.iter().any(|warning| warning.contains("100 columns")), warns, "{warnings:?}");
        tmux.stop(node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_panes_of_the_session_are_not_blocked() {
    let Some(tmux) = Tmux::new("other_panes_of_the_session_are_not_blocked") else { return };
    tmux.start("sh", &BASH).await;
    assert_eq!(tmux.nodes.ask("sh", "echo first").await.text, "first");
    // Output of other panes is still read, although no one else is attached.
    let file = tmux.home.root().join("through");
    let script = format!("seq 1 300000; echo done > {}; sleep 1000", file.display());
    tmux.tmux(&["new-window", "-d", "-t", "=sh:", "bash", "-c", &script]).unwrap();
    assert!(wait_until(LIMIT, || file.exists()), "the other program is blocked");
    assert_eq!(tmux.nodes.ask("sh", "echo still").await.text, "still");
    assert_eq!(tmux.nodes.ask("sh", "seq 1 5000").await.text.lines().count(), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_answers_blocks_and_accepts_large_pastes() {
    let Some(tmux) = Tmux::new("agent_answers_blocks_and_accepts_large_pastes") else { return };
    let harness = &tmux.nodes;
    tmux.start_mock("m", &[]).await;
    assert_eq!(harness.ask("m", "hello there").await.text, "You said: hello there");
    assert!(harness.ask("m", "LONG answer please").await.text.contains("END-OF-LONG"));
    let blocked = harness.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!((blocked.kind, blocked.delivery), (ErrorKind::Blocked, Some(Delivery::Started)));
    assert!(harness.answer("m", Choice::Number(1)).await.unwrap().unwrap().is_complete);
    let paste: String = (1..=4000).map(|row| format!("row {row} {}\n", "word ".repeat(10))).collect();
    assert!(paste.len() > 200_000);
    let pasted = harness.ask("m", &paste).await;
    assert!(pasted.text.contains("row 4000"), "{}", pasted.ended_by);
    tmux.start_mock("f", &["--full-screen"]).await;
    assert_eq!(harness.ask("f", "hello there").await.text, "You said: hello there");
    tmux.stop("m").await;
    tmux.stop("f").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_preserved_both_ways_and_in_recording() {
    let Some(tmux) = Tmux::new("bytes_are_preserved_both_ways_and_in_recording") else { return };
    let bytes: Vec<u8> =
        (0..70_000_u32).map(|n| (n.wrapping_mul(n).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (from, to) = (tmux.home.root().join("soup"), tmux.home.root().join("got"));
    std::fs::write(&from, &bytes).unwrap();
    let script = format!(
        "stty raw -echo -opost; printf ready; head -c {} > {to}.part; mv {to}.part {to}; cat {from}; printf the-end; sleep 1000",
        bytes.len(),
        to = to.display(),
        from = from.display(),
    );
    let pane = tmux.new_pane("raw", &shell_words::join(["sh", "-c", &script]));
    let info = tmux.create(NodeSpec { record: true, ..tmux.attached_spec("raw", &pane) }).await.unwrap();
    tmux.nodes.wait_for_output("raw", "ready").await;
    for piece in [&bytes[..1], &bytes[1..200], &bytes[200..5000], &bytes[5000..]] {
        tmux.nodes.engine.write_bytes(&node_ref("raw"), piece.to_vec()).await.unwrap();
    }
    assert!(wait_until(LIMIT, || to.exists()), "no input arrived");
    assert!(std::fs::read(&to).unwrap() == bytes, "the input differs");
    let recording = PathBuf::from(info.metadata.text("recording_path"));
    let all = [bytes.as_slice(), b"the-end"].concat();
    // The first output is the screen at the beginning.
    let is_recorded = || output(&recording).ends_with(&all);
    assert!(wait_until(LIMIT, is_recorded), "the recording differs");
    tmux.stop("raw").await;
    assert!(is_recorded(), "the recording changed");
    assert!(matches!(marks(&recording).last(), Some(Mark::Exit(_))), "{:?}", marks(&recording));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn size_follows_viewers() {
    let Some(tmux) = Tmux::new("size_follows_viewers") else { return };
    let info = tmux.start("sh", &BASH).await;
    assert_eq!(tmux.nodes.ask("sh", "stty size").await.text, "30 100");
    let resize = ResizeNode { node_id: "sh".into(), cols: 70, rows: 20, ..ResizeNode::default() };
    tmux.nodes.engine.resize_node(resize, Default::default()).await.unwrap();
    assert_eq!(tmux.nodes.ask("sh", "stty size; tput cols").await.text, "20 70\n70");
    // Windows of the session follow the latest viewer.
    tmux.tmux(&["set-option", "-w", "-t", info.metadata.text("pane_id"), "window-size", "latest"]).unwrap();
    let viewer = tmux.attach_viewer("sh");
    let resized = async || tmux.info("sh").await.metadata.display("cols") == "90";
    assert!(wait_until_async(LIMIT, resized).await, "{:?}", tmux.info("sh").await);
    drop(viewer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn respawned_pane_is_not_closed() {
    let Some(tmux) = Tmux::new("respawned_pane_is_not_closed") else { return };
    let info = tmux.start("sh", &BASH).await;
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    let pane = info.metadata.text("pane_id");
    tmux.tmux(&["respawn-pane", "-k", "-t", pane, "sleep 1000"]).unwrap();
    let pid = tmux.query(pane, "#{pane_pid}");
    assert_ne!(pid, info.metadata.display("pid"));
    tmux.nodes.wait("sh", NodeState::Stopped).await.unwrap();
    tmux.stop("sh").await;
    assert_eq!(tmux.query(pane, "#{pane_pid} #{pane_dead}"), format!("{pid} 0"), "the new program was ended");
}
