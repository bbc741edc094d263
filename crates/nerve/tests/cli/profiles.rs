//! `nerve profile`: built-in and own profiles, and their tests with recordings.

use std::fs;

use serde_json::Value;

use crate::harness::{Home, NERVE};

/// Adds a profile to the user's own.
fn add(home: &Home, file: &str, text: &str) {
    let folder = home.hermetic.root().join("nerve/profiles");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(file), text).unwrap();
}

/// Starts a node with the scripted agent and runs a turn.
fn recorded_turn(home: &Home) {
    home.ok(&["server", "start"]);
    home.ok(&["new", "m", "-c", &format!("{NERVE} mock-agent"), "--profile", "claude"]);
    home.ok(&["send", "m", "hello"]);
    home.ok(&["stop", "m"]);
    home.ok(&["server", "stop"]);
}

#[test]
fn list_has_own_profiles_and_their_errors() {
    let home = Home::new();
    add(&home, "own.toml", "name = \"claude\"\nprograms = [\"my-claude\"]\n");
    add(&home, "broken.toml", "name = \"x\"\n\n[timing]\nsettle = 3\n");
    let listed = home.nerve(&["profile", "list", "--json"]).json();
    let profiles = listed["profiles"].as_array().unwrap();
    let file = |name: &str| {
        let profile = profiles.iter().find(|profile| profile["profile"] == name);
        profile.map(|profile| profile["file"].clone())
    };
    assert!(file("claude").unwrap().as_str().unwrap().ends_with("own.toml"), "{listed:#}");
    assert_eq!((file("codex"), file("x")), (Some(Value::Null), None));
    let error = &listed["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&4.into(), &1.into()), "{listed:#}");
    assert_eq!(home.ok(&["profile", "show", "claude"]), "name = \"claude\"\nprograms = [\"my-claude\"]\n");
    assert_eq!(home.nerve(&["profile", "show", "x"]).code, 3);
}

#[test]
fn states_are_compared_with_turns_of_node() {
    let home = Home::new();
    recorded_turn(&home);
    let good = home.nerve(&["profile", "test", "claude", "--recording", "m", "--json"]);
    let report = good.json();
    assert_eq!(good.code, 0, "{report:#}");
    assert_eq!(report["recordings"][0]["turns"], 1, "{report:#}");
    // Neither the composer nor the title is found.
    let claude = home.ok(&["profile", "show", "claude"]);
    let blind = claude.replace("'^[❯>]\\s?'", "'^@'").replace("busy = '^", "busy = '^@");
    fs::write(home.hermetic.work().join("bad.toml"), blind).unwrap();
    let bad = home.nerve(&["profile", "test", "bad.toml", "--recording", "m", "--json"]);
    assert_eq!(bad.code, 1, "{:#}", bad.json());
    assert_eq!(bad.json()["recordings"][0]["mismatches"][0]["turn"], 1);
    let text = home.nerve(&["profile", "test", "bad.toml", "--recording", "m"]);
    assert!(text.stderr.contains("turn 1 of "), "{text:?}");
}

#[test]
fn profile_with_error_names_line_and_column() {
    let home = Home::new();
    home.ok(&["record", "--headless", "--", "sh", "-c", "echo hello"]);
    let recordings = home.nerve(&["recording", "list", "--json"]).json();
    let id = recordings["recordings"][0]["recording_id"].as_str().unwrap();
    fs::write(home.hermetic.work().join("bad.toml"), "name = \"x\"\n[title]\nbusy = '^['\n").unwrap();
    let bad = home.nerve(&["profile", "test", "bad.toml", "--recording", id]);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("line 3, column 8"), "{bad:?}");
    assert_eq!(home.nerve(&["profile", "test", "absent", "--recording", id]).code, 3);
}

#[test]
fn drafted_profile_passes_test_with_same_recording() {
    let home = Home::new();
    recorded_turn(&home);
    let draft = ["profile", "new", "mine", "--from", "m", "--program", "mine", "-o", "mine.toml"];
    home.ok(&draft);
    let text = fs::read_to_string(home.hermetic.work().join("mine.toml")).unwrap();
    let tested = home.nerve(&["profile", "test", "mine.toml", "--recording", "m", "--json"]);
    assert_eq!(tested.code, 0, "{text}\n{:#}", tested.json());
    assert_eq!(tested.json()["recordings"][0]["turns"], 1);
    // An existing file is kept.
    assert_eq!(home.nerve(&draft).code, 1);
    assert_eq!(home.nerve(&["profile", "new", "a b", "--from", "m"]).code, 2);
}
