//! The user's settings: the output of `nerve config`, and their effect on the viewer.

use std::fs;
use std::path::PathBuf;

use nerve_record::ahr::Body;
use nerve_testkit::wait_until;
use nerve_types::Size;

use crate::harness::Home;
use crate::recordings::{data, record};
use crate::tty::Tty;

fn write(home: &Home, settings: &str) -> PathBuf {
    let path = PathBuf::from(home.ok(&["config", "path"]).trim_end());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, settings).unwrap();
    path
}

#[test]
fn settings_are_shown_next_to_defaults() {
    let home = Home::new();
    let path = PathBuf::from(home.ok(&["config", "path"]).trim_end());
    assert!(path.ends_with("config.toml") && !path.exists(), "{}", path.display());
    let usual = home.ok(&["config", "show"]);
    assert!(usual.contains("[agent.record]\ngutter = \"right\"\n"), "{usual}");
    assert!(usual.contains("\nquit = [\"q\", \"Q\", \"Z\", \"ctrl+c\"]\n"), "{usual}");
    assert!(home.ok(&["config", "check"]).contains("not found: the defaults apply"));
    assert_eq!(home.nerve(&["config", "path", "--json"]).json()["path"], path.to_str().unwrap());
    let checked = home.nerve(&["config", "check", "--json"]).json();
    assert_eq!((&checked["exists"], &checked["notes"]), (&false.into(), &serde_json::json!([])), "{checked}");

    write(&home, &usual);
    assert_eq!(home.ok(&["config", "show"]), usual, "what is shown changes nothing");
    assert!(home.ok(&["config", "check"]).ends_with("config.toml: valid\n"));

    write(&home, "[agent.record]\ngutter = \"none\"\n[keys]\nline-down = [\"x\"]\n");
    let shown = home.nerve(&["config", "show", "--json"]).json();
    assert_eq!(shown["agent"]["record"]["gutter"], "none");
    assert_eq!(shown["keys"]["line-down"], serde_json::json!(["x"]));
    assert_eq!((&shown["exists"], &shown["path"]), (&true.into(), &path.to_str().unwrap().into()));
}

#[test]
fn config_error_is_reported_with_its_position() {
    let home = Home::new();
    let path = write(&home, "[keys]\nhelp = \"f1\"\nline-donw = \"x\"\nquit = \"ctrl+shft+q\"\n");
    let place = format!("{}:3:1: unknown operation 'line-donw'; did you mean 'line-down'?", path.display());
    let here = path.to_str().unwrap();
    let all = [
        &["config", "check"][..],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "check", here],
    ];
    for args in all {
        home.nerve(args).assert_stderr(2, &[&place, "config.toml:4:8", "nerve config check"]);
    }
    home.nerve(&["config", "check", "/nowhere/at/all"])
        .assert_stderr(1, &["/nowhere/at/all", "No such file"]);
    write(&home, "[keys]\nquit = \"x\"\nhelp = \"x\"\n");
    home.nerve(&["config", "check"]).assert_stderr(2, &["config.toml:3:1", "key 'x'", "'quit'", "'help'"]);
    fs::write(&path, [b'#', 0xff, b'\n']).unwrap();
    home.nerve(&["config", "check"]).assert_stderr(1, &["config.toml"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    home.nerve(&["config", "check"]).assert_stderr(1, &["config.toml"]);
}

#[test]
fn unbound_action_is_a_note_and_no_error() {
    let home = Home::new();
    write(&home, "[keys]\nline-down = \"k\"\nprefix = []\n");
    let checked = home.ok(&["config", "check"]);
    assert!(checked.contains("config.toml:2:1: note: 'line-down' takes 'k' from 'line-up'"), "{checked}");
    assert!(checked.contains("config.toml:3:1: note: without 'prefix' no key leaves"), "{checked}");
    assert!(checked.ends_with("config.toml: valid, with notes\n"), "{checked}");
}

#[test]
fn config_errors_do_not_prevent_recording() {
    let home = Home::new();
    write(&home, "[keys]\nhelpp = \"f1\"\n");
    let mut tty = Tty::with_stderr(
        home.command(&["record", "--", "sh", "-c", "echo up; read line"]),
        Size::new(90, 20),
    );
    tty.expect("invalid settings: see 'nerve config check'");
    tty.expect("up");
    tty.send("over\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("config.toml:2:1: unknown operation 'helpp'");
}

#[test]
fn viewer_uses_configured_keys_and_gutter() {
    let home = Home::new();
    write(
        &home,
        "[agent.record]\ngutter = \"left\"\n[keys]\nstart = \"ctrl+x\"\nleave = \"X\"\nquit = \"E\"\n",
    );
    let path = home.hermetic.work().join("ten.ahr");
    let mut records = vec![(0, Body::Resize { cols: 20, rows: 4 })];
    let lines: Vec<String> = (1..=10).map(|n| format!("line {n}\r\n")).collect();
    let mut off = 0;
    for (at, line) in (1..).zip(&lines) {
        records.push((at, data(off, line)));
        off += line.len() as u64;
    }
    records.push((10, Body::Snapshot { id: 1, anchor: off, label: b"end" }));
    record(&path, &records);
    let path = path.to_str().unwrap();
    let mut tty = Tty::new(&home, Size::new(60, 20), &["view", "--task", path]);
    tty.expect("│▶");
    // Closes the task entry.
    tty.send("\x1b");
    tty.expect("press Esc again");
    tty.send("\x18");
    tty.expect("│ line 1 ");
    tty.send("g");
    tty.send("E");
    assert_eq!(tty.wait_for_exit(), Some(0));
    let mut tty = Tty::new(&home, Size::new(60, 20), &["view", "--task", path, "--gutter", "right"]);
    tty.expect("▶│");
    tty.send("\x1b");
    tty.expect("press Esc again");
    tty.send("E");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn rebound_prefix_frees_default_keys_for_program() {
    let home = Home::new();
    let keys = "[keys]\nprefix = \"ctrl+g\"\ndetach = \"ctrl+alt+d\"\nhalf-down = [\"d\", \"ctrl+d\"]\n";
    write(&home, &format!("[agent.record]\ngutter = \"left\"\n\n{keys}"));
    home.ok(&["server", "start"]);
    let shows_keys = "sh -c 'stty -icanon -echo min 1; seq 1 60; echo up; exec cat -v'";
    home.ok(&["server", "node", "create", "me", "-c", shows_keys]);
    let attach = || Tty::new(&home, Size::new(100, 14), &["attach", "me"]);
    let mut tty = attach();
    tty.expect("\n up");
    tty.expect("ctrl+g ? help");
    // As terminals with the kitty keyboard protocol send them: ctrl+], and d.
    tty.send("\x1b[93;5ud.");
    tty.expect("^]d.");
    // ctrl+g [: what was written before; from its start half a window down, which is six lines.
    tty.send("\x1b[103;5u[");
    tty.expect("scroll");
    tty.send("g");
    assert!(wait_until(crate::tty::LIMIT, || tty.text().starts_with(" 1\n")), "{}", tty.text());
    tty.send("\x1b[100;5u");
    assert!(wait_until(crate::tty::LIMIT, || tty.text().starts_with(" 7\n")), "{}", tty.text());
    tty.send("q");
    tty.expect("live");
    // ctrl+alt+d.
    tty.send("\x1b[100;7u");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert!(home.read("me").contains("^]d."), "{}", home.read("me"));
    let mut tty = attach();
    tty.expect("^]d.");
    tty.send("\x1b[103;5ud");
    assert_eq!(tty.wait_for_exit(), Some(0), "and after the prefix");
    assert!(!home.read("me").contains("^G"), "{}", home.read("me"));
}
