//! Panes created by nerve.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_api::request::{ResizeNode, RunCommand};
use nerve_api::value::Delivery;
use nerve_node::command::{Choice, NodeSpec, StateName};
use nerve_node::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_testkit::harness::node_ref;
use nerve_testkit::{wait_until, wait_until_async};
use nerve_types::ExitStatus;

use super::{BASH, Tmux, marks, output};
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shell_in_new_session_closes_with_its_pane() {
    let Some(tmux) = Tmux::new("shell_in_new_session_closes_with_its_pane") else { return };
    let info = tmux.start("sh", &BASH).await;
    assert_eq!(info.kind, "tmux");
    assert_eq!(info.metadata["tmux_session"], "nerve");
    assert_eq!(info.metadata["owned"], "true");
    let pane = info.metadata["pane_id"].clone();
    assert_eq!(tmux.query(&pane, "#{pane_pid}"), info.metadata["pid"]);
    for n in 0..20 {
        let response = tmux.nodes.ask("sh", &format!("echo {n}")).await;
        assert_eq!(
            (response.text.as_str(), response.attributes["exit_code"].as_i64()),
            (&*n.to_string(), Some(0))
        );
    }
    let lines = tmux.nodes.ask("sh", "for i in 1 2; do\n  echo line $i\ndone").await.text;
    assert_eq!(lines.lines().last(), Some("line 2"));
    assert_eq!(tmux.nodes.ask("sh", "seq 1 5000").await.text.lines().count(), 5000);
    tmux.stop("sh").await;
    assert!(tmux.tmux(&["list-panes", "-a"]).is_err(), "the session outlived its only pane");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn existing_session_is_not_disturbed() {
    let Some(tmux) = Tmux::new("existing_session_is_not_disturbed") else { return };
    let pane = tmux.new_pane("mine", "sleep 1000");
    let spec = |node| NodeSpec { tmux_session: Some("mine".into()), ..tmux.spec(node, &BASH) };
    let info = tmux.create(spec("sh")).await.unwrap();
    tmux.create(spec("two")).await.unwrap();
    assert_eq!(info.metadata["tmux_session"], "mine");
    assert_eq!(tmux.query("=mine:", "#{pane_id}"), pane, "the active pane changed");
    assert_eq!(tmux.nodes.ask("sh", "stty size").await.text, "30 100");
    // Output of other panes is still read, although no one else is attached.
    let file = tmux.home.root().join("through");
    let script = format!("seq 1 300000; echo done > {}; sleep 1000", file.display());
    tmux.tmux(&["respawn-pane", "-k", "-t", &pane, "bash", "-c", &script]).unwrap();
    assert!(wait_until(LIMIT, || file.exists()), "the other program is blocked");
    assert_eq!(tmux.nodes.ask("sh", "echo still").await.text, "still");
    tmux.stop("sh").await;
    tmux.stop("two").await;
    assert_eq!(tmux.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).unwrap(), pane);
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
    let mut spec = tmux.spec("raw", &["sh", "-c", &script]);
    spec.record = true;
    let info = tmux.create(spec).await.unwrap();
    tmux.nodes.shows("raw", "ready").await;
    for piece in [&bytes[..1], &bytes[1..200], &bytes[200..5000], &bytes[5000..]] {
        tmux.nodes.engine.write_bytes(&node_ref("raw"), piece.to_vec()).await.unwrap();
    }
    assert!(wait_until(LIMIT, || to.exists()), "no input arrived");
    assert!(std::fs::read(&to).unwrap() == bytes, "the input differs");
    let recording = PathBuf::from(&info.metadata["recording"]);
    let all = [b"ready", bytes.as_slice(), b"the-end"].concat();
    assert!(wait_until(LIMIT, || output(&recording).len() >= all.len()), "{}", output(&recording).len());
    assert!(output(&recording) == all, "the recording differs");
    tmux.stop("raw").await;
    // Differences to the final screen are appended after the output.
    assert!(output(&recording).starts_with(&all));
    assert!(matches!(marks(&recording).last(), Some(Mark::Exit(_))), "{:?}", marks(&recording));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_status_and_last_output_are_kept() {
    let Some(tmux) = Tmux::new("exit_status_and_last_output_are_kept") else { return };
    for n in 0..6 {
        let (node, script) = (format!("n{n}"), format!("sleep 0.{n}; echo last words; exit {n}"));
        let mut spec = tmux.spec(&node, &["sh", "-c", &script]);
        spec.record = true;
        let info = tmux.create(spec).await.unwrap();
        tmux.nodes.wait(&node, StateName::Stopped).await.unwrap();
        assert_eq!(tmux.info(&node).await.metadata["exit"], format!("exit code {n}"));
        assert!(tmux.nodes.buffer(&node, None).await.contains("last words"));
        let recording = PathBuf::from(&info.metadata["recording"]);
        // tmux discards unsent output when a program ends. It is restored from the screen, after a gap mark.
        let marks = marks(&recording);
        assert_eq!(marks.last(), Some(&Mark::Exit(ExitStatus::Code(n))));
        assert!(marks[..marks.len() - 1].iter().all(|mark| *mark == Mark::Gap(1)), "{marks:?}");
        assert!(String::from_utf8_lossy(&output(&recording)).contains("last words"));
    }
    tmux.start("killed", &["sh", "-c", "kill -9 $$"]).await;
    tmux.nodes.wait("killed", StateName::Stopped).await.unwrap();
    assert_eq!(tmux.info("killed").await.metadata["exit"], "signal 9");
    assert!(tmux.tmux(&["list-panes", "-a"]).is_err(), "a pane is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_kills_program_that_ignores_signals_and_its_children() {
    let Some(tmux) = Tmux::new("stop_kills_program_that_ignores_signals_and_its_children") else { return };
    tmux.new_pane("keep", "sleep 1000");
    let script =
        "trap '' HUP TERM INT; sh -c 'trap \"\" HUP TERM; sleep 1000' & echo up; while :; do sleep 1; done";
    let info = tmux.start("stubborn", &["bash", "-c", script]).await;
    tmux.nodes.shows("stubborn", "up").await;
    tmux.stop("stubborn").await;
    let pid: i32 = info.metadata["pid"].parse().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // tmux 3.3 sometimes reaps a child late, so a zombie counts as exited.
    let has_exited = || state().is_empty() || state().contains(") Z ");
    assert!(wait_until(LIMIT, has_exited), "still running: {}", state());
    let panes = || tmux.tmux(&["list-panes", "-a", "-F", "#{session_name}"]).unwrap();
    assert!(wait_until(LIMIT, || panes() == "keep"), "{}", panes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn size_is_requested_and_follows_viewers() {
    let Some(tmux) = Tmux::new("size_is_requested_and_follows_viewers") else { return };
    let info = tmux.start("sh", &BASH).await;
    assert_eq!((info.metadata["cols"].as_str(), info.metadata["rows"].as_str()), ("100", "30"));
    assert_eq!(tmux.nodes.ask("sh", "stty size").await.text, "30 100");
    let resize = ResizeNode { node_id: "sh".into(), cols: 70, rows: 20, ..ResizeNode::default() };
    tmux.nodes.engine.resize_node(resize, Default::default()).await.unwrap();
    assert_eq!(tmux.nodes.ask("sh", "stty size; tput cols").await.text, "20 70\n70");
    assert_eq!(tmux.info("sh").await.metadata["cols"], "70");
    // Windows of the session follow the latest viewer.
    tmux.tmux(&["set-option", "-w", "-t", &info.metadata["pane_id"], "window-size", "latest"]).unwrap();
    let viewer = tmux.attach_viewer("nerve");
    let resized = async || tmux.info("sh").await.metadata["cols"] == "90";
    assert!(wait_until_async(LIMIT, resized).await, "{:?}", tmux.info("sh").await);
    drop(viewer);
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environment_is_passed_exactly() {
    let Some(tmux) = Tmux::new("environment_is_passed_exactly") else { return };
    let value = "a b;\"$HOME'#{pane_id}~\\ é;";
    let mut spec = tmux.spec("env", &["bash", "--norc", "--noprofile"]);
    spec.env.insert("ODD".into(), value.into());
    tmux.create(spec).await.unwrap();
    assert_eq!(tmux.nodes.ask("env", "echo \"$ODD\"").await.text, value);
    assert!(
        !tmux.nodes.ask("env", "echo \"<$TMUX>\"").await.text.contains("<>"),
        "TMUX is not set in a shell"
    );
    let mut spec = tmux.spec("agent", &["bash", "--norc", "--noprofile"]);
    spec.profile = Some("claude".into());
    spec.env = BTreeMap::from([("PS1".to_string(), "$ ".to_string())]);
    tmux.create(spec).await.unwrap();
    let command = "echo \"<$TMUX$TMUX_PANE>\"".to_string();
    let request = RunCommand { node_id: "agent".into(), command, ..RunCommand::default() };
    tmux.nodes.engine.run_command(request, Default::default()).await.unwrap();
    tmux.nodes.shows("agent", "\n<>").await;
    tmux.stop("env").await;
    tmux.stop("agent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrently_created_panes_share_a_session() {
    let Some(tmux) = Tmux::new("concurrently_created_panes_share_a_session") else { return };
    let tasks = (0..6).map(|n| {
        let (engine, spec) = (tmux.nodes.engine.clone(), tmux.spec(&format!("n{n}"), &BASH));
        tokio::spawn(async move { engine.create(spec).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        let created = task.await.unwrap();
        assert!(created.is_ok(), "{created:?}");
    }
    assert_eq!(tmux.tmux(&["list-sessions", "-F", "#{session_name}"]).unwrap(), "nerve");
    for n in 0..6 {
        assert_eq!(tmux.nodes.ask(&format!("n{n}"), &format!("echo {n}")).await.text, n.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environment_is_hidden_from_process_lists() {
    let Some(tmux) = Tmux::new("environment_is_hidden_from_process_lists") else { return };
    let mut spec = tmux.spec("sh", &BASH);
    spec.env.extend([("TOKEN", "it's; a #{secret} $HOME"), ("SHELL", "/x/sh"), ("EMPTY", "")].map(pair));
    let info = tmux.create(spec).await.unwrap();
    let variables = tmux.nodes.ask("sh", "echo \"$TOKEN|$SHELL|${EMPTY-unset}\"").await.text;
    assert_eq!(variables, "it's; a #{secret} $HOME|/x/sh|");
    let command = tmux.query(&info.metadata["pane_id"], "#{pane_start_command}");
    assert!(command.contains("bash") && !command.contains("secret"), "{command}");
    tmux.stop("sh").await;
}

fn pair((name, value): (&str, &str)) -> (String, String) {
    (name.to_string(), value.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn respawned_pane_is_not_closed() {
    let Some(tmux) = Tmux::new("respawned_pane_is_not_closed") else { return };
    let info = tmux.start("sh", &BASH).await;
    tmux.nodes.wait("sh", StateName::Ready).await.unwrap();
    let pane = &info.metadata["pane_id"];
    tmux.tmux(&["respawn-pane", "-k", "-t", pane, "sleep 1000"]).unwrap();
    let pid = tmux.query(pane, "#{pane_pid}");
    assert_ne!(pid, info.metadata["pid"]);
    tmux.nodes.wait("sh", StateName::Stopped).await.unwrap();
    tmux.stop("sh").await;
    assert_eq!(tmux.query(pane, "#{pane_pid} #{pane_dead}"), format!("{pid} 0"), "the new program was ended");
}
