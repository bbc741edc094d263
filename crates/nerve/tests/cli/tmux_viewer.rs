//! The viewer in a real tmux window: keys by `send-keys`, screens by `capture-pane`.

use std::fs;
use std::path::Path;

use nerve_record::ahr::Body;
use nerve_testkit::harness::TmuxServer;
use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home, NERVE};
use crate::recordings::record;

/// Real sessions of Claude Code, as `script` recorded them on 120 × 40.
const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nerve-vt/tests/fixtures/recordings/claude");

/// Opens a window of a private tmux server with `nerve` in it. Returns `None`, and records a skip of `test`, without tmux.
pub(crate) fn open_window(
    test: &str,
    home: &Home,
    (cols, rows): (u16, u16),
    args: &[&str],
) -> Option<TmuxServer> {
    let server = TmuxServer::new(test, &home.hermetic, "tmux.sock")?;
    let (cols, rows) = (cols.to_string(), rows.to_string());
    server.ok(&[&["new-session", "-d", "-x", &cols, "-y", &rows, NERVE], args].concat());
    Some(server)
}

/// Converts a session to a recording with snapshots after these shares of its bytes.
fn recorded(home: &Home, name: &str, shares: &[f64]) -> String {
    let read = |end: &str| fs::read(Path::new(SESSIONS).join(format!("{name}.{end}"))).unwrap();
    let (raw, timing) = (read("raw"), String::from_utf8(read("timing")).unwrap());
    let mut records = vec![(0, Body::Resize { cols: 120, rows: 40 })];
    let (mut seconds, mut off) = (0.0, 0);
    let mut snapshots = (1..).zip(shares).peekable();
    for line in timing.lines() {
        // Lines are output (`O`) or typed input; only output is converted.
        let [kind, wait, bytes] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        seconds += wait.parse::<f64>().unwrap();
        if kind != "O" {
            continue;
        }
        let end = (off + bytes.parse::<usize>().unwrap()).min(raw.len());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a minute in milliseconds"
        )]
        let at = (seconds * 1000.0) as u64;
        records.push((at, Body::Data { off: off as u64, bytes: &raw[off..end] }));
        off = end;
        #[expect(clippy::cast_precision_loss, reason = "a hundred kilobytes")]
        let share = off as f64 / raw.len() as f64;
        while let Some((id, _)) = snapshots.next_if(|(_, wanted)| **wanted <= share) {
            records.push((at, Body::Snapshot { id, anchor: off as u64, label: b"a turn" }));
        }
    }
    let path = home.hermetic.work().join(format!("{name}.ahr"));
    record(&path, &records);
    path.to_str().unwrap().to_string()
}

#[test]
fn claude_recording_is_browsed_with_task_entry() {
    let home = Home::new();
    let path = recorded(&home, "classic-modern", &[0.3, 0.6]);
    let test = "claude_recording_is_browsed_with_task_entry";
    let Some(window) = open_window(test, &home, (130, 48), &["view", "--task", &path]) else { return };
    window.expect("branch from the end");
    window.type_text("do it 世界 otherwise");
    window.expect("do it 世界 otherwise");
    window.press(&["C-S-Up"]);
    window.expect("branch from snapshot 2");
    // A one-line entry: Up moves to the previous snapshot.
    window.press(&["Up"]);
    window.expect("branch from snapshot 1");
    window.expect("do it 世界 otherwise");
    window.press(&["C-S-Down"]);
    window.expect("branch from snapshot 2");
    window.press(&["Escape"]);
    window.expect("press Esc again to leave");
    assert!(!window.screen().contains("branch from"), "{}", window.screen());
    window.press(&["g"]);
    window.expect("Claude Code");
    window.type_text("/claude");
    window.press(&["Enter"]);
    window.expect("match ");
    window.ok(&["resize-window", "-x", "60", "-y", "14"]);
    assert!(wait_until(DEADLINE, || window
        .screen()
        .lines()
        .next()
        .is_some_and(|line| line.starts_with('─'))));
    window.press(&["q"]);
    window.wait_for_end();
}

#[test]
fn snapshot_key_takes_snapshot_to_branch_from() {
    let home = Home::new();
    let path = home.hermetic.root().join("session.ahr").to_str().unwrap().to_string();
    let test = "snapshot_key_takes_snapshot_to_branch_from";
    let args = ["record", "--out-file", &path, "--", "sh"];
    let Some(window) = open_window(test, &home, (100, 30), &args) else { return };
    window.expect("live");
    window.type_text("echo o''ne");
    window.press(&["Enter"]);
    window.expect("\none");
    window.press(&["C-]", "s"]);
    window.expect("snapshot 1 taken");
    let marked = || window.screen().lines().any(|line| line.ends_with('▶'));
    assert!(wait_until(DEADLINE, marked), "{}", window.screen());
    window.type_text("echo t''wo");
    window.press(&["Enter"]);
    window.expect("\ntwo");
    window.press(&["C-S-Up"]);
    window.expect("branch from snapshot 1");
    window.press(&["Escape"]);
    window.expect("press Esc again to return to the program");
    window.press(&["q"]);
    window.expect("live");
    window.type_text("exit");
    window.press(&["Enter"]);
    window.wait_for_end();
}

#[test]
fn agent_is_used_through_the_viewer() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let agent = format!("{NERVE} mock-agent --full-screen");
    home.ok(&["server", "node", "create", "me", "-c", &agent, "--profile", "claude"]);
    let args = ["attach", "me"];
    let Some(window) = open_window("agent_is_used_through_the_viewer", &home, (100, 30), &args) else {
        return;
    };
    window.expect("ready");
    window.type_text("say hello 世界");
    window.expect("say hello 世界");
    window.press(&["Enter"]);
    assert!(
        wait_until(DEADLINE, || window.screen().matches("hello 世界").count() > 1),
        "{}",
        window.screen()
    );
    // A bracketed paste arrives as a whole.
    window.ok(&["set-buffer", "two\nlines"]);
    window.ok(&["paste-buffer", "-p"]);
    window.expect("lines");
    assert!(!window.screen().contains("200~"), "{}", window.screen());
    // Without extended keys in tmux, the prefix reaches every function.
    window.press(&["C-]", "?"]);
    window.expect("ctrl+]");
    window.press(&["q"]);
    window.expect("two");
    window.press(&["C-]", "s"]);
    window.expect("snapshot 1 taken");
    window.expect("1 snapshot");
    window.press(&["C-]", "d"]);
    window.wait_for_end();
    // Text that is typed at once may precede the evidence that the agent has started.
    assert!(wait_until(DEADLINE, || home.info("me")["state"] == "ready"), "{}", home.info("me"));
}

#[test]
fn underlines_and_clipboard_texts_reach_tmux() {
    let home = Home::new();
    let says = r"stty -echo; echo up; read n; printf '\033[4:3;58;5;9mcurls\033[m \033]52;c;aGVsbG8gdGhlcmU=\007'; echo said; read n";
    let args = ["record", "--", "sh", "-c", says];
    let test = "underlines_and_clipboard_texts_reach_tmux";
    let Some(window) = open_window(test, &home, (60, 12), &args) else { return };
    window.ok(&["set-option", "-s", "set-clipboard", "on"]);
    window.expect("up");
    window.press(&["Enter"]);
    window.expect("curls said");
    let copied = || window.run(&["show-buffer"]).as_deref() == Ok("hello there");
    assert!(wait_until(DEADLINE, copied), "{:?}", window.run(&["show-buffer"]));
    let drawn = window.ok(&["capture-pane", "-p", "-e"]);
    assert!(drawn.contains("4:3") && drawn.contains("58"), "{drawn:?}");
    window.press(&["Enter"]);
    window.wait_for_end();
}

#[test]
fn agent_is_recorded_branched_and_its_tools_viewed() {
    let home = Home::new();
    let test = "agent_is_recorded_branched_and_its_tools_viewed";
    let claude = home.hermetic.root().join("claude");
    fs::write(&claude, format!("#!/bin/sh\nexec '{NERVE}' mock-agent \"$@\"\n")).unwrap();
    fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = home.hermetic.root().join("session.ahr").to_str().unwrap().to_string();
    let id = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
    let args = ["record", "--out-file", &path, "--", claude.to_str().unwrap(), "--session-id", id];
    let Some(window) = open_window(test, &home, (140, 30), &args) else { return };
    // Cursor keys with modifiers arrive unchanged.
    window.ok(&["set-option", "-s", "extended-keys", "on"]);
    window.expect("ready");
    for word in ["one", "two"] {
        window.type_text(word);
        window.press(&["Enter"]);
        window.expect(&format!("You said: {word}"));
        window.expect("ready");
        if word == "one" {
            home.ok(&["snapshot", "--session", &path, "--label", "first"]);
            window.expect("▶");
        }
    }
    window.press(&["C-S-Up"]);
    window.expect("branch from snapshot 1");
    window.type_text("RECALL");
    window.expect("RECALL");
    window.press(&["Enter"]);
    window.expect("branched to node");
    assert!(wait_until(DEADLINE, || home.read("claude-branch").contains("You said: one")));
    assert!(!home.read("claude-branch").contains("one | two"));
    window.press(&["Escape"]);
    window.expect("live");
    // Shows a tool in its own terminal.
    let mut tool = home.command(&["exec", "--id", "t1", "-c", "seq 1 90; echo the end"]);
    let tool = tool.env("NERVE_RECORDING", &path).stdin(std::process::Stdio::null());
    assert!(tool.stdout(std::process::Stdio::null()).status().unwrap().success());
    window.expect("1 tool ended");
    window.press(&["C-]", "t"]);
    window.expect("tools");
    window.press(&["Enter"]);
    window.expect("the end");
    window.press(&["C-]", "d"]);
    window.wait_for_end();
    let id = home.hosts().into_iter().find(|host| host["recording_path"] == path).unwrap()["host_id"].clone();
    home.ok(&["host", "stop", id.as_str().unwrap()]);
}
