//! Server restarts: panes survive, and a new engine resumes them.

use std::path::PathBuf;

use nerve_api::request::NodeSpec;
use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_testkit::harness::assert_error;
use nerve_testkit::{wait_for, wait_until};

use super::{BASH, Tmux, marks, output};
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_server_resumes_pane_with_recording_gap() {
    let Some(mut tmux) = Tmux::new("restarted_server_resumes_pane_with_recording_gap") else { return };
    let pane = tmux.new_pane("work", "env PS1='$ ' bash --norc --noprofile");
    let info = tmux.create(NodeSpec { record: true, ..tmux.attached_spec("sh", &pane) }).await.unwrap();
    let recording = PathBuf::from(info.metadata.text("recording_path"));
    assert_eq!(tmux.nodes.ask("sh", "echo before").await.text, "before");
    tmux.restart_engine();
    assert!(
        wait_until(LIMIT, || !tmux.tmux(&["list-clients"]).unwrap().contains("client")),
        "the old client is still attached"
    );
    let is_written = || std::fs::File::open(&recording).unwrap().try_lock().is_ok();
    assert!(wait_until(LIMIT, is_written), "the old engine still holds the recording");
    let before = output(&recording);
    assert!(String::from_utf8_lossy(&before).contains("before"));
    tmux.tmux(&["send-keys", "-t", &pane, "echo missed $((40 + 2))", "Enter"]).unwrap();
    assert!(wait_until(LIMIT, || tmux
        .tmux(&["capture-pane", "-p", "-t", &pane])
        .unwrap()
        .contains("missed 42")));
    tmux.nodes.engine.adopt();
    tmux.nodes.wait("sh", NodeState::Ready).await.unwrap();
    let resumed = tmux.info("sh").await;
    for key in ["pane_id", "pid", "recording_path", "tmux_session", "owned"] {
        assert_eq!(resumed.metadata[key], info.metadata[key], "{key}");
    }
    let text = tmux.nodes.buffer("sh", None).await;
    assert!(text.contains("before\n") && text.contains("missed 42\n"), "{text}");
    assert_eq!(tmux.nodes.ask("sh", "echo after").await.text, "after");
    assert_eq!(tmux.nodes.ask("sh", "for i in 1 2; do\n echo $i\ndone").await.text.lines().last(), Some("2"));
    tmux.stop("sh").await;
    let all = output(&recording);
    assert!(all.starts_with(&before), "the earlier output changed");
    assert!(String::from_utf8_lossy(&all[before.len()..]).contains("after"));
    let gaps = marks(&recording).iter().filter(|mark| **mark == Mark::Gap(1)).count();
    assert_eq!(gaps, 1);
    assert_eq!(tmux.query(&pane, "#{pane_dead}"), "0");
    assert_eq!(std::fs::read_dir(tmux.home.root().join("registry")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_pane_stays_foreign_after_restart() {
    let Some(mut tmux) = Tmux::new("attached_pane_stays_foreign_after_restart") else { return };
    let pane = tmux.new_pane("work", "env PS1='$ ' bash --norc --noprofile");
    tmux.create(tmux.attached_spec("sh", &pane)).await.unwrap();
    assert_eq!(tmux.nodes.ask("sh", "echo one").await.text, "one");
    tmux.restart_engine();
    tmux.nodes.engine.adopt();
    assert_eq!(tmux.nodes.ask("sh", "echo two").await.text, "two");
    tmux.stop("sh").await;
    assert_eq!(tmux.query(&pane, "#{pane_dead}"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_or_replaced_pane_is_reported_after_restart() {
    let Some(mut tmux) = Tmux::new("missing_or_replaced_pane_is_reported_after_restart") else { return };
    tmux.new_pane("keep", "sleep 1000");
    let info = tmux.start("sh", &BASH).await;
    tmux.restart_engine();
    tmux.tmux(&["kill-pane", "-t", info.metadata.text("pane_id")]).unwrap();
    tmux.nodes.engine.adopt();
    tmux.nodes.wait("sh", NodeState::Stopped).await.unwrap();
    let error = tmux.nodes.send("sh", "echo x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NodeStopped);
    // A new tmux server reuses pane ids.
    let info = tmux.start("two", &BASH).await;
    tmux.restart_engine();
    tmux.tmux(&["kill-server"]).unwrap();
    let pane = wait_for(LIMIT, || {
        tmux.tmux(&["new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "new", "bash"]).ok()
    });
    while tmux.tmux(&["new-window", "-P", "-F", "#{pane_id}", "bash"]).unwrap().as_str()
        < info.metadata.text("pane_id")
    {}
    tmux.nodes.engine.adopt();
    tmux.nodes.wait("two", NodeState::Stopped).await.unwrap();
    let error = tmux.nodes.send("two", "echo x").await.unwrap_err();
    assert_error(&error, ErrorKind::NodeStopped, &[]);
    assert_eq!(pane.as_deref().map(|pane| tmux.query(pane, "#{pane_dead}")).as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_driver_of_a_pane_is_rejected() {
    let Some(tmux) = Tmux::new("second_driver_of_a_pane_is_rejected") else { return };
    let pane = tmux.new_pane("work", "env PS1='$ ' bash --norc --noprofile");
    tmux.create(tmux.attached_spec("first", &pane)).await.unwrap();
    let error = tmux.create(tmux.attached_spec("second", &pane)).await.unwrap_err();
    assert_error(&error, ErrorKind::Process, &[&format!("pane {pane}"), "'first'", "'test'"]);
    assert_eq!(tmux.nodes.ask("first", "echo mine").await.text, "mine");
    tmux.stop("first").await;
    tmux.create(tmux.attached_spec("second", &pane)).await.unwrap();
    assert_eq!(tmux.nodes.ask("second", "echo now mine").await.text, "now mine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_is_reestablished() {
    let Some(tmux) = Tmux::new("broken_connection_is_reestablished") else { return };
    let pane = tmux.new_pane("work", "env PS1='$ ' bash --norc --noprofile");
    let info = tmux.create(NodeSpec { record: true, ..tmux.attached_spec("sh", &pane) }).await.unwrap();
    assert_eq!(tmux.nodes.ask("sh", "echo before").await.text, "before");
    let recording = PathBuf::from(info.metadata.text("recording_path"));
    for n in 1..=3 {
        // Detaching ends the control client, as a crash would.
        tmux.tmux(&["detach-client", "-s", "=work"]).unwrap();
        assert!(wait_until(LIMIT, || marks(&recording).len() >= n), "{:?}", marks(&recording));
        assert_eq!(tmux.nodes.ask("sh", &format!("echo after {n}")).await.text, format!("after {n}"));
    }
    assert!(tmux.nodes.buffer("sh", None).await.contains("before"));
    tmux.stop("sh").await;
    assert_eq!(marks(&recording).iter().filter(|mark| **mark == Mark::Gap(1)).count(), 3);
}
