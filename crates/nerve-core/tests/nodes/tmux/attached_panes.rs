//! Panes that were there before us: driven, and never ended.

use nerve_api::request::{ResizeNode, RunCommand};
use nerve_core::command::StateName;
use nerve_core::error::ErrorKind;
use nerve_testkit::wait_until;

use super::Tmux;
use crate::harness::{LIMIT, at};

const SHELL: &str = "env PS1='$ ' bash --norc --noprofile";

fn shows(tmux: &Tmux, pane: &str, text: &str) {
    let shown = || tmux.tmux(&["capture-pane", "-p", "-S", "-", "-t", pane]).unwrap_or_default();
    assert!(wait_until(LIMIT, || shown().contains(text)), "no '{text}':\n{}", shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pane_is_taken_over_with_its_past_and_left_as_it_is() {
    let Some(tmux) = Tmux::new("a_pane_is_taken_over") else { return };
    let pane = tmux.pane("work", SHELL);
    tmux.tmux(&[
        "send-keys",
        "-t",
        &pane,
        "seq 1000 1100; printf '\\033[31mred\\033[m\\n'; echo 日本語",
        "Enter",
    ])
    .unwrap();
    shows(&tmux, &pane, "日本語\n$");
    let pid = tmux.ask(&pane, "#{pane_pid}");
    for (node, target) in [("id", pane.as_str()), ("name", "work:0.0")] {
        let info = tmux.create(tmux.over(node, target)).await.unwrap();
        assert_eq!((&info.metadata["pane_id"], &info.metadata["pid"]), (&pane, &pid));
        assert_eq!(info.metadata["owned"], "false");
        tmux.stage.wait(node, StateName::Ready).await.unwrap();
        let text = tmux.stage.buffer(node, None).await;
        assert!(text.contains("1000\n1001\n") && text.contains("1100\nred\n日本語\n$"), "{text}");
        assert_eq!(tmux.stage.ask(node, "echo $((6 * 7))").await.text, "42");
        let lines = tmux.stage.ask(node, "for i in 1 2; do\n  echo line $i\ndone").await.text;
        assert_eq!(lines.lines().last(), Some("line 2"), "{lines}");
        tmux.stop(node).await;
        assert_eq!(tmux.ask(&pane, "#{pane_pid} #{pane_dead}"), format!("{pid} 0"), "it was ended");
    }
    tmux.tmux(&["send-keys", "-t", &pane, "echo person $((1 + 1))", "Enter"]).unwrap();
    shows(&tmux, &pane, "person 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_screen_is_taken_over_as_it_stands() {
    let Some(tmux) = Tmux::new("the_screen_is_taken_over") else { return };
    let draw = "printf 'main\\n\\033[?1049h\\033[?1h\\033[3;5Hfull\\033[7mscreen\\033[m\\033[10;20H'; exec sleep 1000";
    let pane = tmux.pane("work", &format!("sh -c \"{}\"", draw.replace('\\', "\\\\")));
    shows(&tmux, &pane, "fullscreen");
    tmux.create(tmux.over("full", &pane)).await.unwrap();
    tmux.stage.shows("full", "fullscreen").await;
    let screen = tmux.stage.screen("full").await;
    let captured = tmux.tmux(&["capture-pane", "-p", "-t", &pane]).unwrap();
    assert!(screen.ends_with(captured.trim_end()), "{screen}\nbut\n{captured}");
    tmux.stop("full").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pastes_are_in_brackets_where_the_program_wants_them_and_nowhere_else() {
    let Some(tmux) = Tmux::new("pastes_are_in_brackets") else { return };
    for (session, on, wanted) in [("off", "", "^[[200~"), ("on", "\\\\033[?2004h", "none")] {
        let script = format!("stty -echo -icrnl; printf '{on}ready'; exec cat -v");
        let pane = tmux.pane(session, &format!("sh -c \"{script}\""));
        shows(&tmux, &pane, "ready");
        tmux.create(tmux.over(session, &pane)).await.unwrap();
        tmux.stage.shows(session, "ready").await;
        let request =
            RunCommand { node_id: session.into(), command: "one\ntwo".into(), ..RunCommand::default() };
        tmux.stage.engine.run_command(request, Default::default()).await.unwrap();
        tmux.stage.engine.write_bytes(&at(session), b"end\n".to_vec()).await.unwrap();
        tmux.stage.shows(session, "end").await;
        let text = tmux.stage.buffer(session, None).await;
        assert!(!text.contains(wanted), "{session}: {text}");
        if session == "on" {
            assert!(text.contains("^[[200~one\ntwo^[[201~^Mend"), "{text}");
        } else {
            assert!(text.contains("one\ntwo^Mend"), "{text}");
        }
        tmux.stop(session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pane_that_vanishes_in_a_turn_fails_it_with_its_screen() {
    let Some(tmux) = Tmux::new("a_pane_that_vanishes") else { return };
    tmux.pane("keep", "sleep 1000");
    let pane = tmux.pane("work", SHELL);
    tmux.create(tmux.over("theirs", &pane)).await.unwrap();
    let made = tmux.start("ours", &super::BASH).await;
    for (node, pane) in [("theirs", &pane), ("ours", &made.metadata["pane_id"])] {
        tmux.stage.wait(node, StateName::Ready).await.unwrap();
        let engine = tmux.stage.engine.clone();
        let execute = tmux.stage.execute(node, "echo begun; sleep 1000");
        let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
        tmux.stage.shows(node, "\nbegun").await;
        tmux.tmux(&["kill-pane", "-t", pane]).unwrap();
        let error = tokio::time::timeout(LIMIT, turn).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Process, "{error:?}");
        assert!(error.message.contains(&format!("pane {pane} is gone")), "{}", error.message);
        assert!(error.message.contains("it was closed"), "{}", error.message);
        assert!(error.screen.as_deref().unwrap_or_default().contains("begun"), "{error:?}");
        tmux.stage.wait(node, StateName::Stopped).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pane_that_ends_by_itself_is_told() {
    let Some(tmux) = Tmux::new("a_pane_that_ends_by_itself") else { return };
    tmux.pane("keep", "sleep 1000");
    let pane = tmux.pane("work", SHELL);
    tmux.create(tmux.over("sh", &pane)).await.unwrap();
    tmux.stage.wait("sh", StateName::Ready).await.unwrap();
    let request = RunCommand { node_id: "sh".into(), command: "exit".into(), ..RunCommand::default() };
    tmux.stage.engine.run_command(request, Default::default()).await.unwrap();
    tmux.stage.wait("sh", StateName::Stopped).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_pane_is_resized_alone() {
    let Some(tmux) = Tmux::new("a_split_pane") else { return };
    let pane = tmux.pane("work", SHELL);
    let below =
        tmux.tmux(&["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", &pane, "sleep 1000"]).unwrap();
    let info = tmux.create(tmux.over("sh", &pane)).await.unwrap();
    assert_eq!(info.metadata["rows"], tmux.ask(&pane, "#{pane_height}"));
    let resize = ResizeNode { node_id: "sh".into(), cols: 100, rows: 8, ..ResizeNode::default() };
    tmux.stage.engine.resize_node(resize, Default::default()).await.unwrap();
    assert_eq!(tmux.ask(&pane, "#{pane_height}"), "8");
    assert_eq!(tmux.stage.ask("sh", "stty size").await.text, "8 100");
    tmux.tmux(&["kill-pane", "-t", &below]).unwrap();
    let grown = async {
        while tmux.info("sh").await.metadata["rows"] == "8" {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, grown).await.is_ok(), "{:?}", tmux.info("sh").await);
    tmux.stop("sh").await;
}
