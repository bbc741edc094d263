//! Graphs and nodes that a session keeps, over a restart of its server too.

use crate::graphs::{graph, wait_for_status, with_server, write};
use crate::harness::{Home, NERVE};

const HELLO: &str = "graph: hello\ninputs: {who: {default: you}}\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: say, node: sh, input: 'echo hello {{ input.who }}'}\n";

#[test]
fn graph_is_registered_run_by_id_and_deleted() {
    let home = with_server();
    write(&home, "h.yaml", HELLO);
    graph(&home, &["list"]).assert_stderr(0, &["no registered graphs", "graph create FILE"]);
    graph(&home, &["list", "--runs"]).assert_stderr(0, &["no runs"]);
    assert_eq!(home.ok(&["server", "graph", "create", "h.yaml"]), "graph 'hello' created\n");
    graph(&home, &["create", "h.yaml"]).assert_stderr(1, &["graph 'hello'"]);
    assert!(home.ok(&["server", "graph", "list"]).contains("hello"));
    assert_eq!(graph(&home, &["list", "--json"]).json()["graphs"][0], "hello");
    assert_eq!(
        home.ok(&["server", "graph", "run", "hello", "--set", "who=Ada", "--run-id", "r1"]),
        "hello Ada\n"
    );
    assert!(home.ok(&["server", "graph", "run", "hello", "--dry-run"]).contains("input: echo hello you"));
    std::fs::create_dir(home.hermetic.work().join("hello")).unwrap();
    assert_eq!(home.ok(&["server", "graph", "run", "hello"]), "hello you\n", "not the folder of that name");
    graph(&home, &["run", "hello", "--set", "whom=x"]).assert_stderr(2, &["'who'"]);
    let shown = home.ok(&["server", "graph", "show", "hello"]);
    assert!(shown.contains("1. say: sh (bash)"), "{shown}");
    assert_eq!(home.ok(&["server", "graph", "show", "r1"]), shown, "the graph of a run is in its journal");
    graph(&home, &["show", "nothing"]).assert_stderr(3, &["run 'nothing'"]);

    assert_eq!(home.ok(&["server", "graph", "delete", "hello"]), "graph 'hello' deleted\n");
    graph(&home, &["run", "hello"]).assert_stderr(3, &["graph 'hello'"]);
    let runs = graph(&home, &["list", "--runs", "--json"]).json();
    assert_eq!((&runs["runs"][1]["run_id"], &runs["runs"][1]["state"]), (&"r1".into(), &"completed".into()));
}

#[test]
fn sessions_keep_graphs_and_nodes_across_restart() {
    let home = with_server();
    write(&home, "h.yaml", HELLO);
    let agent = format!("{NERVE} mock-agent");
    home.ok(&["server", "session", "create", "work", "-d", "what I do"]);
    home.ok(&["server", "node", "create", "me", "-c", &agent, "--profile", "claude", "--session", "work"]);
    home.ok(&["server", "graph", "create", "h.yaml", "--session", "work"]);
    home.ok(&["server", "stop"]);
    home.ok(&["server", "start"]);

    let info = home.ok(&["server", "session", "info", "work"]);
    assert!(info.contains("what I do") && info.contains("me") && info.contains("hello"), "{info}");
    let state = || {
        home.nerve(&["server", "node", "info", "me", "--session", "work", "--json"]).json()["state"].clone()
    };
    assert_eq!(state(), "stopped");
    assert_eq!(home.ok(&["server", "graph", "run", "hello", "--session", "work"]), "hello you\n");

    assert_eq!(home.ok(&["server", "node", "start", "me", "--session", "work"]), "node 'me' started\n");
    home.ok(&["server", "node", "wait", "me", "--session", "work"]);
    assert_eq!(home.ok(&["server", "session", "stop", "work"]), "node 'me' stopped\n");
    assert_eq!(state(), "stopped");
    assert_eq!(home.ok(&["server", "session", "start", "work"]), "node 'me' started\n");
    home.ok(&["server", "node", "wait", "me", "--session", "work"]);
    let execute = ["server", "node", "execute", "me", "hello", "--session", "work"];
    assert_eq!(home.ok(&execute), "You said: hello\n");
    home.nerve(&["server", "session", "start", "none"]).assert_stderr(3, &["none"]);
}

#[test]
fn unreadable_sessions_are_reported_at_server_start() {
    let home = with_server();
    write(&home, "h.yaml", HELLO);
    home.ok(&["server", "graph", "create", "h.yaml"]);
    home.ok(&["server", "stop"]);
    let sessions = home.hermetic.nerve_home().join("sessions.json");
    let kept = std::fs::read_to_string(&sessions).unwrap();
    let start = || home.nerve(&["server", "start"]);

    std::fs::write(&sessions, kept.replace("\"1.0\"", "\"99.0\"")).unwrap();
    start().assert_stderr(0, &["warning: the sessions in", "version 99.0", "not written"]);
    home.ok(&["server", "stop"]);
    assert!(std::fs::read_to_string(&sessions).unwrap().contains("99.0"), "it is left as it is");

    // An invalid graph in the file does not prevent the restore of the others.
    std::fs::write(&sessions, kept.replace("input.who", "input.absent")).unwrap();
    start().assert_stderr(0, &["graph 'hello' of session 'default' was not restored"]);
    home.ok(&["server", "stop"]);

    std::fs::write(&sessions, &kept[..kept.len() / 2]).unwrap();
    start().assert_stderr(0, &["warning: the sessions in", "were damaged", "sessions.json.damaged-1"]);
    home.ok(&["server", "stop"]);
    let fine = start();
    assert!(fine.code == 0 && !fine.stderr.contains("warning"), "{fine:?}");
}

#[test]
fn old_name_works_and_warns_once() {
    let home: Home = with_server();
    write(&home, "h.yaml", HELLO);
    let done = home.nerve(&["server", "dag", "run", "h.yaml", "-d"]);
    done.assert_stderr(0, &["'nerve server dag run' is now 'nerve graph run'"]);
    assert_eq!(done.stderr.matches("is now").count(), 1);
    assert!(done.stdout.contains("dry run"));
    let done = home.nerve(&["server", "dag", "run", "h.yaml", "--run-id", "r1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "hello you\n"), "{done:?}");
    assert!(!home.ok(&["server", "--help"]).contains("dag"));
    wait_for_status(&home, "r1", "completed");
}
