//! Panes that we make.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_api::request::{ResizeNode, RunCommand};
use nerve_core::command::{Choice, NodeSpec, PanePlace, StateName};
use nerve_core::error::ErrorKind;
use nerve_record::ahr::Mark;
use nerve_testkit::wait_until;
use nerve_types::ExitStatus;

use super::{BASH, Tmux, marks, output};
use crate::harness::{LIMIT, at};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_in_a_new_session_takes_turns_and_goes_with_its_pane() {
    let Some(tmux) = Tmux::new("a_shell_in_a_new_session") else { return };
    let info = tmux.start("sh", &BASH).await;
    assert_eq!(info.kind, "tmux");
    assert_eq!(info.metadata["tmux_session"], "nerve");
    assert_eq!(info.metadata["owned"], "true");
    let pane = info.metadata["pane_id"].clone();
    assert_eq!(tmux.ask(&pane, "#{pane_pid}"), info.metadata["pid"]);
    for n in 0..20 {
        let response = tmux.stage.ask("sh", &format!("echo {n}")).await;
        assert_eq!(
            (response.text.as_str(), response.attributes["exit_code"].as_str()),
            (&*n.to_string(), "0")
        );
    }
    let lines = tmux.stage.ask("sh", "for i in 1 2; do\n  echo line $i\ndone").await.text;
    assert_eq!(lines.lines().last(), Some("line 2"));
    assert_eq!(tmux.stage.ask("sh", "seq 1 5000").await.text.lines().count(), 5000);
    tmux.stop("sh").await;
    assert!(tmux.tmux(&["list-panes", "-a"]).is_err(), "the session was made for it, and is gone with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_session_that_is_there_nobody_is_disturbed() {
    let Some(tmux) = Tmux::new("in_a_session_that_is_there") else { return };
    let theirs = tmux.pane("mine", "sleep 1000");
    let place = PanePlace { session: Some("mine".into()), ..tmux.place() };
    let info = tmux.create(NodeSpec { place: place.clone(), ..tmux.spec("sh", &BASH) }).await.unwrap();
    tmux.create(NodeSpec { place, ..tmux.spec("two", &BASH) }).await.unwrap();
    assert_eq!(info.metadata["tmux_session"], "mine");
    assert_eq!(tmux.ask("=mine:", "#{pane_id}"), theirs, "what they look at is what they looked at");
    assert_eq!(tmux.stage.ask("sh", "stty size").await.text, "30 100");
    // Their programs are read on, though nobody but us is attached.
    let file = tmux.home.path().join("through");
    let noisy = format!("seq 1 300000; echo done > {}; sleep 1000", file.display());
    tmux.tmux(&["respawn-pane", "-k", "-t", &theirs, "bash", "-c", &noisy]).unwrap();
    assert!(wait_until(LIMIT, || file.exists()), "their program is held up");
    assert_eq!(tmux.stage.ask("sh", "echo still").await.text, "still");
    tmux.stop("sh").await;
    tmux.stop("two").await;
    assert_eq!(tmux.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).unwrap(), theirs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_answers_is_blocked_and_takes_large_pastes() {
    let Some(tmux) = Tmux::new("an_agent_answers") else { return };
    let stage = &tmux.stage;
    tmux.start_mock("m", &[]).await;
    assert_eq!(stage.ask("m", "hello there").await.text, "You said: hello there");
    assert!(stage.ask("m", "LONG answer please").await.text.contains("END-OF-LONG"));
    let blocked = stage.send("m", "PERMIT this").await.unwrap_err();
    assert_eq!((blocked.kind, blocked.delivery), (ErrorKind::Blocked, Some("started")));
    assert!(stage.answer("m", Choice::Number(1)).await.unwrap().unwrap().is_complete);
    let paste: String = (1..=4000).map(|row| format!("row {row} {}\n", "word ".repeat(10))).collect();
    assert!(paste.len() > 200_000);
    let pasted = stage.ask("m", &paste).await;
    assert!(pasted.text.contains("row 4000"), "{}", pasted.ended_by);
    tmux.start_mock("f", &["--full-screen"]).await;
    assert_eq!(stage.ask("f", "hello there").await.text, "You said: hello there");
    tmux.stop("m").await;
    tmux.stop("f").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_exact_both_ways_and_in_the_recording() {
    let Some(tmux) = Tmux::new("bytes_are_exact") else { return };
    let soup: Vec<u8> =
        (0..70_000_u32).map(|n| (n.wrapping_mul(n).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (from, to) = (tmux.home.path().join("soup"), tmux.home.path().join("got"));
    std::fs::write(&from, &soup).unwrap();
    let script = format!(
        "stty raw -echo -opost; printf ready; head -c {} > {to}.part; mv {to}.part {to}; cat {from}; printf the-end; sleep 1000",
        soup.len(),
        to = to.display(),
        from = from.display(),
    );
    let mut spec = tmux.spec("raw", &["sh", "-c", &script]);
    spec.record = true;
    let info = tmux.create(spec).await.unwrap();
    tmux.stage.shows("raw", "ready").await;
    for piece in [&soup[..1], &soup[1..200], &soup[200..5000], &soup[5000..]] {
        tmux.stage.engine.write_bytes(&at("raw"), piece.to_vec()).await.unwrap();
    }
    assert!(wait_until(LIMIT, || to.exists()), "nothing came");
    assert!(std::fs::read(&to).unwrap() == soup, "what came is something else");
    let recording = PathBuf::from(&info.metadata["recording"]);
    let all = [b"ready", soup.as_slice(), b"the-end"].concat();
    assert!(wait_until(LIMIT, || output(&recording).len() >= all.len()), "{}", output(&recording).len());
    assert!(output(&recording) == all, "the recording has something else");
    tmux.stop("raw").await;
    // What is told at the end of a screen that two terminals see differently is behind it.
    assert!(output(&recording).starts_with(&all));
    assert!(matches!(marks(&recording).last(), Some(Mark::Exit(_))), "{:?}", marks(&recording));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_a_program_ended_and_its_last_words() {
    let Some(tmux) = Tmux::new("how_a_program_ended") else { return };
    for n in 0..6 {
        let (node, script) = (format!("n{n}"), format!("sleep 0.{n}; echo last words; exit {n}"));
        let mut spec = tmux.spec(&node, &["sh", "-c", &script]);
        spec.record = true;
        let info = tmux.create(spec).await.unwrap();
        tmux.stage.wait(&node, StateName::Stopped).await.unwrap();
        assert_eq!(tmux.info(&node).await.metadata["exit"], format!("exit code {n}"));
        assert!(tmux.stage.buffer(&node, None).await.contains("last words"));
        let recording = PathBuf::from(&info.metadata["recording"]);
        // tmux throws away what it has not sent when a program ends: that is taken from its screen, and a gap tells so.
        let marks = marks(&recording);
        assert_eq!(marks.last(), Some(&Mark::Exit(ExitStatus::Code(n))));
        assert!(marks[..marks.len() - 1].iter().all(|mark| *mark == Mark::Gap(1)), "{marks:?}");
        assert!(String::from_utf8_lossy(&output(&recording)).contains("last words"));
    }
    tmux.start("killed", &["sh", "-c", "kill -9 $$"]).await;
    tmux.stage.wait("killed", StateName::Stopped).await.unwrap();
    assert_eq!(tmux.info("killed").await.metadata["exit"], "signal 9");
    assert!(tmux.tmux(&["list-panes", "-a"]).is_err(), "none is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_program_that_ignores_signals_and_what_it_started() {
    let Some(tmux) = Tmux::new("a_stop_ends_a_program") else { return };
    tmux.pane("keep", "sleep 1000");
    let script =
        "trap '' HUP TERM INT; sh -c 'trap \"\" HUP TERM; sleep 1000' & echo up; while :; do sleep 1; done";
    let info = tmux.start("stubborn", &["bash", "-c", script]).await;
    tmux.stage.shows("stubborn", "up").await;
    tmux.stop("stubborn").await;
    let pid: i32 = info.metadata["pid"].parse().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // tmux 3.3 asks for the status of a child late now and then: one that has ended is gone.
    let gone = || state().is_empty() || state().contains(") Z ");
    assert!(wait_until(LIMIT, gone), "it lives: {}", state());
    let panes = || tmux.tmux(&["list-panes", "-a", "-F", "#{session_name}"]).unwrap();
    assert!(wait_until(LIMIT, || panes() == "keep"), "{}", panes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_are_asked_for_and_follow_who_looks() {
    let Some(tmux) = Tmux::new("sizes") else { return };
    let info = tmux.start("sh", &BASH).await;
    assert_eq!((info.metadata["cols"].as_str(), info.metadata["rows"].as_str()), ("100", "30"));
    assert_eq!(tmux.stage.ask("sh", "stty size").await.text, "30 100");
    let resize = ResizeNode { node_id: "sh".into(), cols: 70, rows: 20, ..ResizeNode::default() };
    tmux.stage.engine.resize_node(resize, Default::default()).await.unwrap();
    assert_eq!(tmux.stage.ask("sh", "stty size; tput cols").await.text, "20 70\n70");
    assert_eq!(tmux.info("sh").await.metadata["cols"], "70");
    // A session whose windows follow who looks at them.
    tmux.tmux(&["set-option", "-w", "-t", &info.metadata["pane_id"], "window-size", "latest"]).unwrap();
    let person = tmux.person("nerve");
    let followed = async {
        while tmux.info("sh").await.metadata["cols"] != "90" {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, followed).await.is_ok(), "{:?}", tmux.info("sh").await);
    drop(person);
    tmux.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_is_what_was_asked_for() {
    let Some(tmux) = Tmux::new("the_environment") else { return };
    let odd = "a b;\"$HOME'#{pane_id}~\\ é;";
    let mut spec = tmux.spec("env", &["bash", "--norc", "--noprofile"]);
    spec.env.insert("ODD".into(), odd.into());
    tmux.create(spec).await.unwrap();
    assert_eq!(tmux.stage.ask("env", "echo \"$ODD\"").await.text, odd);
    assert!(!tmux.stage.ask("env", "echo \"<$TMUX>\"").await.text.contains("<>"), "a shell may know of tmux");
    let mut spec = tmux.spec("agent", &["bash", "--norc", "--noprofile"]);
    spec.profile = Some("claude".into());
    spec.env = BTreeMap::from([("PS1".to_string(), "$ ".to_string())]);
    tmux.create(spec).await.unwrap();
    let command = "echo \"<$TMUX$TMUX_PANE>\"".to_string();
    let request = RunCommand { node_id: "agent".into(), command, ..RunCommand::default() };
    tmux.stage.engine.run_command(request, Default::default()).await.unwrap();
    tmux.stage.shows("agent", "\n<>").await;
    tmux.stop("env").await;
    tmux.stop("agent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panes_made_at_the_same_time_share_a_session() {
    let Some(tmux) = Tmux::new("panes_made_at_the_same_time") else { return };
    let made = (0..6).map(|n| {
        let (engine, spec) = (tmux.stage.engine.clone(), tmux.spec(&format!("n{n}"), &BASH));
        tokio::spawn(async move { engine.create(spec).await })
    });
    for made in made.collect::<Vec<_>>() {
        let made = made.await.unwrap();
        assert!(made.is_ok(), "{made:?}");
    }
    assert_eq!(tmux.tmux(&["list-sessions", "-F", "#{session_name}"]).unwrap(), "nerve");
    for n in 0..6 {
        assert_eq!(tmux.stage.ask(&format!("n{n}"), &format!("echo {n}")).await.text, n.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_reaches_the_program_and_no_list_of_processes() {
    let Some(tmux) = Tmux::new("a_variable_reaches_the_program") else { return };
    let mut spec = tmux.spec("sh", &BASH);
    spec.env.extend([("TOKEN", "it's; a #{secret} $HOME"), ("SHELL", "/x/sh"), ("EMPTY", "")].map(pair));
    let info = tmux.create(spec).await.unwrap();
    let told = tmux.stage.ask("sh", "echo \"$TOKEN|$SHELL|${EMPTY-unset}\"").await.text;
    assert_eq!(told, "it's; a #{secret} $HOME|/x/sh|");
    let command = tmux.ask(&info.metadata["pane_id"], "#{pane_start_command}");
    assert!(command.contains("bash") && !command.contains("secret"), "{command}");
    tmux.stop("sh").await;
}

fn pair((name, value): (&str, &str)) -> (String, String) {
    (name.to_string(), value.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pane_that_somebody_uses_for_another_program_is_not_closed() {
    let Some(tmux) = Tmux::new("a_pane_that_somebody_uses") else { return };
    let info = tmux.start("sh", &BASH).await;
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    let pane = &info.metadata["pane_id"];
    tmux.tmux(&["respawn-pane", "-k", "-t", pane, "sleep 1000"]).unwrap();
    let pid = tmux.ask(pane, "#{pane_pid}");
    assert_ne!(pid, info.metadata["pid"]);
    tmux.stage.wait("sh", StateName::Stopped).await.unwrap();
    tmux.stop("sh").await;
    assert_eq!(tmux.ask(pane, "#{pane_pid} #{pane_dead}"), format!("{pid} 0"), "it is theirs");
}
