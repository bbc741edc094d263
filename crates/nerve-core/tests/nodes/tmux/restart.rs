//! A pane outlives us: a new engine goes on with it.

use std::path::PathBuf;

use nerve_core::command::StateName;
use nerve_core::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_testkit::{wait_for, wait_until};

use super::{BASH, Tmux, marks, output};
use crate::harness::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_goes_on_with_a_gap_in_the_recording() {
    let Some(mut tmux) = Tmux::new("a_new_server_goes_on") else { return };
    let mut spec = tmux.spec("sh", &BASH);
    spec.record = true;
    let info = tmux.create(spec).await.unwrap();
    let (pane, recording) = (info.metadata["pane_id"].clone(), PathBuf::from(&info.metadata["recording"]));
    assert_eq!(tmux.stage.ask("sh", "echo before").await.text, "before");
    tmux.restarted();
    assert!(
        wait_until(LIMIT, || !tmux.tmux(&["list-clients"]).unwrap().contains("client")),
        "the old one is still there"
    );
    let is_written = || std::fs::File::open(&recording).unwrap().try_lock().is_ok();
    assert!(wait_until(LIMIT, is_written), "the old one still writes its recording");
    let before = output(&recording);
    assert!(String::from_utf8_lossy(&before).contains("before"));
    tmux.tmux(&["send-keys", "-t", &pane, "echo missed $((40 + 2))", "Enter"]).unwrap();
    assert!(wait_until(LIMIT, || tmux
        .tmux(&["capture-pane", "-p", "-t", &pane])
        .unwrap()
        .contains("missed 42")));
    tmux.stage.engine.adopt();
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    let again = tmux.info("sh").await;
    for same in ["pane_id", "pid", "recording", "tmux_session", "owned"] {
        assert_eq!(again.metadata[same], info.metadata[same], "{same}");
    }
    let text = tmux.stage.buffer("sh", None).await;
    assert!(text.contains("before\n") && text.contains("missed 42\n"), "{text}");
    assert_eq!(tmux.stage.ask("sh", "echo after").await.text, "after");
    assert_eq!(tmux.stage.ask("sh", "for i in 1 2; do\n echo $i\ndone").await.text.lines().last(), Some("2"));
    tmux.stop("sh").await;
    let all = output(&recording);
    assert!(all.starts_with(&before), "what was there before is not the same");
    assert!(String::from_utf8_lossy(&all[before.len()..]).contains("after"));
    let gaps = marks(&recording).iter().filter(|mark| **mark == Mark::Gap(1)).count();
    assert_eq!(gaps, 1);
    assert!(tmux.tmux(&["list-panes", "-a"]).is_err(), "it is ours still, and goes with its node");
    assert_eq!(std::fs::read_dir(tmux.home.path().join("registry")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_pane_is_theirs_after_a_restart_too() {
    let Some(mut tmux) = Tmux::new("somebody_elses_pane") else { return };
    let pane = tmux.pane("work", "env PS1='$ ' bash --norc --noprofile");
    tmux.create(tmux.over("sh", &pane)).await.unwrap();
    assert_eq!(tmux.stage.ask("sh", "echo one").await.text, "one");
    tmux.restarted();
    tmux.stage.engine.adopt();
    assert_eq!(tmux.stage.ask("sh", "echo two").await.text, "two");
    tmux.stop("sh").await;
    assert_eq!(tmux.ask(&pane, "#{pane_dead}"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pane_that_is_gone_or_another_one_is_told_as_lost() {
    let Some(mut tmux) = Tmux::new("a_pane_that_is_gone") else { return };
    tmux.pane("keep", "sleep 1000");
    let info = tmux.start("sh", &BASH).await;
    tmux.restarted();
    tmux.tmux(&["kill-pane", "-t", &info.metadata["pane_id"]]).unwrap();
    tmux.stage.engine.adopt();
    tmux.stage.wait("sh", StateName::Stopped).await.unwrap();
    let error = tmux.stage.send("sh", "echo x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NodeStopped);
    assert!(error.message.contains("is gone"), "{}", error.message);
    // Another server gives the same numbers.
    let info = tmux.start("two", &BASH).await;
    tmux.restarted();
    tmux.tmux(&["kill-server"]).unwrap();
    let pane = wait_for(LIMIT, || {
        tmux.tmux(&["new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "new", "bash"]).ok()
    });
    while tmux.tmux(&["new-window", "-P", "-F", "#{pane_id}", "bash"]).unwrap() < info.metadata["pane_id"] {}
    tmux.stage.engine.adopt();
    tmux.stage.wait("two", StateName::Stopped).await.unwrap();
    let error = tmux.stage.send("two", "echo x").await.unwrap_err();
    assert!(error.message.contains("another tmux server"), "{}", error.message);
    assert_eq!(pane.as_deref().map(|pane| tmux.ask(pane, "#{pane_dead}")).as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_is_refused_and_told_whose_pane_it_is() {
    let Some(tmux) = Tmux::new("a_second_server_is_refused") else { return };
    let pane = tmux.pane("work", "env PS1='$ ' bash --norc --noprofile");
    tmux.create(tmux.over("first", &pane)).await.unwrap();
    let error = tmux.create(tmux.over("second", &pane)).await.unwrap_err();
    assert!(error.message.contains(&format!("pane {pane} is driven by node 'first'")), "{}", error.message);
    assert!(error.message.contains("nerve server 'test'"), "{}", error.message);
    assert_eq!(tmux.stage.ask("first", "echo mine").await.text, "mine");
    tmux.stop("first").await;
    tmux.create(tmux.over("second", &pane)).await.unwrap();
    assert_eq!(tmux.stage.ask("second", "echo now mine").await.text, "now mine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_is_made_again() {
    let Some(tmux) = Tmux::new("a_connection_that_breaks") else { return };
    let mut spec = tmux.spec("sh", &BASH);
    spec.record = true;
    let info = tmux.create(spec).await.unwrap();
    assert_eq!(tmux.stage.ask("sh", "echo before").await.text, "before");
    let recording = PathBuf::from(&info.metadata["recording"]);
    for n in 1..=3 {
        // The client, as the out-of-memory killer would.
        tmux.tmux(&["detach-client", "-s", "=nerve"]).unwrap();
        assert!(wait_until(LIMIT, || marks(&recording).len() >= n), "{:?}", marks(&recording));
        assert_eq!(tmux.stage.ask("sh", &format!("echo after {n}")).await.text, format!("after {n}"));
    }
    assert!(tmux.stage.buffer("sh", None).await.contains("before"));
    tmux.stop("sh").await;
    assert_eq!(marks(&recording).iter().filter(|mark| **mark == Mark::Gap(1)).count(), 3);
}
