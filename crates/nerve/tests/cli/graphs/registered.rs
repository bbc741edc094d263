//! Graphs and nodes that a session keeps, over a restart of its server too.

use crate::graphs::{graph, reaches, with_server, write};
use crate::harness::{Home, NERVE};

const HELLO: &str = "graph: hello\ninputs: {who: {default: you}}\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: say, node: sh, input: 'echo hello {{ input.who }}'}\n";

#[test]
fn a_graph_is_registered_run_by_its_id_and_deleted() {
    let home = with_server();
    write(&home, "h.yaml", HELLO);
    graph(&home, &["list"]).says(0, &["no graphs are registered", "graph create FILE"]);
    graph(&home, &["list", "--runs"]).says(0, &["no runs"]);
    assert_eq!(home.ok(&["server", "graph", "create", "h.yaml"]), "graph 'hello' created\n");
    graph(&home, &["create", "h.yaml"]).says(1, &["hello"]);
    assert!(home.ok(&["server", "graph", "list"]).contains("hello"));
    assert_eq!(graph(&home, &["list", "--json"]).json()["graphs"][0], "hello");
    assert_eq!(
        home.ok(&["server", "graph", "run", "hello", "--set", "who=Ada", "--run-id", "r1"]),
        "hello Ada\n"
    );
    assert!(home.ok(&["server", "graph", "run", "hello", "--dry-run"]).contains("input: echo hello you"));
    graph(&home, &["run", "hello", "--set", "whom=x"]).says(2, &["did you mean 'who'"]);
    let shown = home.ok(&["server", "graph", "show", "hello"]);
    assert!(shown.contains("1. say: sh (bash)"), "{shown}");
    assert_eq!(home.ok(&["server", "graph", "show", "r1"]), shown, "the graph of a run is in its journal");
    graph(&home, &["show", "nothing"]).says(3, &["no file, no graph and no run 'nothing'"]);

    assert_eq!(home.ok(&["server", "graph", "delete", "hello"]), "graph 'hello' deleted\n");
    graph(&home, &["run", "hello"]).says(3, &["no graph 'hello'"]);
    let runs = graph(&home, &["list", "--runs", "--json"]).json();
    assert_eq!((&runs["runs"][0]["run_id"], &runs["runs"][0]["status"]), (&"r1".into(), &"completed".into()));
}

#[test]
fn sessions_keep_graphs_and_nodes_over_a_restart() {
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
    assert_eq!(state(), "created");
    assert_eq!(home.ok(&["server", "graph", "run", "hello", "--session", "work"]), "hello you\n");

    assert_eq!(home.ok(&["server", "node", "start", "me", "--session", "work"]), "node 'me' started\n");
    home.ok(&["server", "node", "wait", "me", "--session", "work"]);
    assert_eq!(home.ok(&["server", "session", "stop", "work"]), "node 'me' stopped\n");
    assert_eq!(state(), "created");
    assert_eq!(home.ok(&["server", "session", "start", "work"]), "node 'me' started\n");
    home.ok(&["server", "node", "wait", "me", "--session", "work"]);
    let execute = ["server", "node", "execute", "me", "hello", "--session", "work"];
    assert_eq!(home.ok(&execute), "You said: hello\n");
    home.nerve(&["server", "session", "start", "none"]).says(3, &["none"]);
}

#[test]
fn the_older_name_works_and_says_once_that_it_is_old() {
    let home: Home = with_server();
    write(&home, "h.yaml", HELLO);
    let done = home.nerve(&["server", "dag", "run", "h.yaml", "-d"]);
    done.says(0, &["'nerve server dag run' is now 'nerve server graph run'"]);
    assert_eq!(done.stderr.matches("is now").count(), 1);
    assert!(done.stdout.contains("nothing is started"));
    let done = home.nerve(&["server", "dag", "run", "h.yaml", "--run-id", "r1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "hello you\n"), "{done:?}");
    assert!(!home.ok(&["server", "--help"]).contains("dag"));
    reaches(&home, "r1", "completed");
}
