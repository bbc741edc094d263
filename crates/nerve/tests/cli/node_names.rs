//! Names of nodes: SESSION/NODE, other servers, ambiguous and unknown names.

use nerve_types::Size;

use crate::harness::Home;
use crate::tty::Tty;

const SHELL: &str = "bash --norc --noprofile";

/// A server with session `night`, whose node `web` has recorded text.
fn with_night() -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["session", "create", "night"]);
    home.ok(&["new", "web", "--session", "night", "-c", SHELL]);
    home.ok(&["send", "night/web", "echo wordsigma"]);
    home
}

#[test]
fn attach_names_server_that_runs_the_node() {
    let home = Home::new();
    home.ok(&["server", "start", "work"]);
    home.ok(&["new", "wk", "-s", "work", "-c", SHELL]);
    let hint = ["runs on server 'work'", "nerve attach wk --server work"];
    home.nerve(&["attach", "wk"]).assert_stderr(3, &hint);
    home.ok(&["server", "start"]);
    home.nerve(&["attach", "wk"]).assert_stderr(3, &hint);
    home.nerve(&["attach", "wj", "-s", "work"]).assert_stderr(3, &["'wk'"]);
}

#[test]
fn attach_to_earlier_recording_names_viewer() {
    let home = with_night();
    home.ok(&["stop", "night/web"]);
    home.ok(&["start", "night/web"]);
    for target in [&["night/web@2"][..], &["web@2", "--session", "night"]] {
        let done = home.nerve(&[&["attach"], target].concat());
        done.assert_stderr(3, &["nerve view night/web@2"]);
    }
    home.nerve(&["attach", "night/web@9"]).assert_stderr(3, &["'web'"]);
}

#[test]
fn transcript_of_ambiguous_name_lists_candidates() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    for session in ["s1", "s2"] {
        home.ok(&["session", "create", session]);
        home.ok(&["new", "amb", "--session", session, "-c", SHELL]);
    }
    home.nerve(&["transcript", "amb"]).assert_stderr(2, &["'amb'", "'s1/amb'", "'s2/amb'"]);
    home.ok(&["transcript", "s1/amb"]);
    home.nerve(&["transcript", "s1/am"]).assert_stderr(3, &["'s1/amb'"]);
}

#[test]
fn session_before_node_selects_it_in_all_commands() {
    let home = with_night();
    assert_eq!(home.ok(&["wait", "night/web"]), "ready\n");
    assert!(home.ok(&["node", "info", "night/web"]).contains("night"));
    assert!(home.ok(&["logs", "night/web"]).contains("wordsigma"));
    home.nerve(&["logs", "night/wbe"]).assert_stderr(3, &["'wbe'", "hint:", "web"]);
    home.nerve(&["answer", "night/web", "1"]).assert_stderr(2, &["node 'web'"]);
    home.nerve(&["send", "night/web", "x", "--session", "day"])
        .assert_stderr(2, &["node 'night/web'", "session 'day'"]);
    home.nerve(&["send", "night/", "x"]).assert_stderr(2, &["SESSION/NODE"]);
    assert_eq!(home.ok(&["stop", "night/web", "--session", "night"]), "node 'web' stopped\n");
    assert_eq!(home.ok(&["start", "night/web"]), "node 'web' started\n");
    home.ok(&["stop", "night/web"]);
    assert_eq!(home.ok(&["rm", "night/web"]), "node 'web' removed\n");
    home.ok(&["server", "stop"]);
    assert!(home.ok(&["logs", "night/web"]).contains("wordsigma"));
}

#[test]
fn search_rejects_unknown_nodes_and_sessions() {
    let home = with_night();
    let found = |args: &[&str]| home.ok(&[&["search", "wordsigma"], args].concat());
    let answers = ["--in", "answers"];
    let by_path = found(&[&answers[..], &["--node", "night/web"]].concat());
    assert_eq!(by_path, found(&[&answers[..], &["--node", "web", "--session", "night"]].concat()));
    let search = |args: &[&str]| home.nerve(&[&["search", "wordsigma"], args].concat());
    search(&["--node", "wev"]).assert_stderr(3, &["'wev'", "'web'"]);
    search(&["--session", "nigth"]).assert_stderr(3, &["'nigth'", "'night'"]);
    search(&["--node", "default/web"]).assert_stderr(3, &["'night/web'"]);
    assert_eq!(home.nerve(&["search", "absent", "--node", "night/web"]).code, 1);
}

#[test]
fn hint_for_unknown_node_lists_stopped_nodes() {
    let home = with_night();
    home.ok(&["stop", "night/web"]);
    home.ok(&["new", "sh", "--session", "night", "-c", SHELL]);
    for command in ["start", "rm", "stop"] {
        home.nerve(&[command, "night/absent"]).assert_stderr(3, &["nodes: sh; stopped: web"]);
    }
}

#[test]
fn detached_prompt_to_stopped_node_fails() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "seven", "-c", "sh -c 'exit 7'"]);
    home.nerve(&["wait", "seven", "--until", "stopped"]).assert_stderr(0, &[]);
    for args in [&["send", "seven", "hi"][..], &["send", "seven", "hi", "--no-wait"]] {
        home.nerve(args).assert_stderr(1, &["node 'seven'", "exit code 7"]);
    }
}

#[test]
fn all_servers_and_sessions_are_listed() {
    let home = with_night();
    home.ok(&["server", "start", "work"]);
    home.ok(&["-s", "work", "new", "wk", "-c", SHELL]);
    let list = home.ok(&["ls", "--all"]);
    assert!(list.starts_with("SERVER   SESSION  NODE"), "{list}");
    for row in ["default  night    web", "work     default  wk"] {
        assert!(list.contains(row), "{list}");
    }
    let json = home.nerve(&["-j", "ls", "--all", "--session", "night"]).json();
    assert_eq!(json["nodes_info"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(
        (&json["nodes_info"][0]["server_name"], &json["nodes_info"][0]["node_id"]),
        (&"default".into(), &"web".into())
    );
    let mut tty = Tty::with_stderr(home.command(&["ls"]), Size::new(80, 10));
    tty.expect("2 more nodes in other sessions: nerve ls --all");
    assert_eq!(tty.wait_for_exit(), Some(0));
}
