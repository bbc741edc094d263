//! Windows: panes of tmux and WezTerm that show nodes in hosts. tmux is real; WezTerm is the testkit's stand-in for it.

use nerve_testkit::harness::FakeWezterm;
use nerve_testkit::wait_until;

use crate::forks::mock_claude;
use crate::harness::{DEADLINE, Home};
use crate::panes::Tmux;

/// Id of a conversation with an agent.
const CONVERSATION: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";

/// Creates node `sh`, a shell that tmux shows.
fn create(tmux: &Tmux, options: &[&str]) {
    tmux.home.ok(&["server", "start"]);
    let shell = ["-b", "tmux", "--socket", &tmux.socket, "-c", "bash --norc --noprofile", "--env", "PS1=$ "];
    tmux.home.ok(&[&["server", "node", "create", "sh"], &shell[..], options].concat());
}

fn execute(home: &Home, text: &str) -> String {
    home.ok(&["server", "node", "execute", "sh", text]).trim_end().to_string()
}

/// Opens the window of node `sh` and returns its pane.
fn show(tmux: &Tmux) -> String {
    let shown = ["server", "node", "show", "sh", "--in", "tmux", "--socket", &tmux.socket];
    tmux.home.ok(&shown).trim_end().to_string()
}

fn is_closed(home: &Home) -> bool {
    home.metadata("sh", "window") == "closed"
}

#[test]
fn window_shows_host_and_closes_with_node() {
    let Some(tmux) = Tmux::new("window_shows_host_and_closes_with_node") else { return };
    let keep = tmux.ok(&["spawn", "--session", "keep", "-c", "sleep 1000"]);
    create(&tmux, &[]);
    let home = &tmux.home;
    let node = home.info("sh");
    assert_eq!(node["type"], "tmux");
    let pane = home.metadata("sh", "pane_id");
    assert_eq!(
        ["window", "tmux_session", "owned"].map(|name| home.metadata("sh", name)),
        ["open", "nerve", "true"]
    );
    assert_eq!(home.host_of("sh")["alive"], true);
    assert_eq!(execute(home, "echo $((40 + 2))"), "42");
    home.nerve(&["server", "node", "execute", "sh", "(exit 3)"]).assert_stderr(1, &["exit code 3"]);
    assert_eq!(execute(home, "clear; echo x"), "x");
    // The same output twice.
    let numbers = execute(home, "seq 1 130");
    assert_eq!((numbers.lines().count(), execute(home, "seq 1 130")), (130, numbers));
    tmux.wait_for(&pane, "130");
    let show = show(&tmux);
    assert_eq!(show, pane, "an open window is focused");
    home.ok(&["server", "node", "stop", "sh"]);
    // The viewer ends with the program, and then tmux closes the pane.
    let panes = || tmux.server.ok(&["list-panes", "-a", "-F", "#{pane_id}"]);
    assert!(wait_until(DEADLINE, || panes() == keep.trim_end()), "{}", panes());
}

#[test]
fn turn_survives_its_window_and_multiplexer() {
    let Some(tmux) = Tmux::new("turn_survives_its_window_and_multiplexer") else { return };
    create(&tmux, &[]);
    let home = &tmux.home;
    for kill in [&["kill-pane", "-t", "%0"][..], &["kill-server"]] {
        let begun = home.hermetic.work().join(format!("begun-{}", kill.len()));
        let released = home.hermetic.work().join(format!("released-{}", kill.len()));
        let command = format!(
            "touch {}; until [ -e {} ]; do sleep 0.05; done; echo survived",
            begun.display(),
            released.display()
        );
        let (closed, text) = std::thread::scope(|scope| {
            let turn = scope.spawn(|| execute(home, &command));
            assert!(wait_until(DEADLINE, || begun.exists()), "the turn has not begun");
            tmux.server.ok(kill);
            let closed = wait_until(DEADLINE, || is_closed(home));
            std::fs::write(&released, "").unwrap();
            (closed, turn.join().unwrap())
        });
        assert!(closed, "{}", home.info("sh"));
        assert_eq!(text, "survived");
        let pane = show(&tmux);
        assert_eq!(home.metadata("sh", "pane_id"), pane);
        tmux.wait_for(&pane, "survived");
    }
}

#[test]
fn person_types_into_window() {
    let Some(tmux) = Tmux::new("person_types_into_window") else { return };
    create(&tmux, &[]);
    tmux.home.ok(&["server", "node", "wait", "sh"]);
    tmux.server.expect("ready");
    tmux.server.type_text("echo typed-$((6 * 7))");
    tmux.server.press(&["Enter"]);
    assert!(wait_until(DEADLINE, || tmux.home.read("sh").contains("\ntyped-42")), "{}", tmux.home.read("sh"));
    assert_eq!(execute(&tmux.home, "echo next"), "next");
}

#[test]
fn window_determines_size() {
    let Some(tmux) = Tmux::new("window_determines_size") else { return };
    create(&tmux, &["--cols", "90", "--rows", "20"]);
    let home = &tmux.home;
    assert_eq!(execute(home, "stty size"), "20 90");
    home.ok(&["server", "node", "resize", "sh", "--cols", "70", "--rows", "15"]);
    assert_eq!(execute(home, "stty size"), "15 70");
    tmux.server.ok(&["resize-window", "-t", "%0", "-x", "60", "-y", "12"]);
    // The last row has the viewer's status.
    let size = || (home.metadata("sh", "cols"), home.metadata("sh", "rows"));
    assert!(wait_until(DEADLINE, || size() == ("60".into(), "11".into())), "{:?}", size());
}

#[test]
fn next_server_knows_window() {
    let Some(tmux) = Tmux::new("next_server_knows_window") else { return };
    create(&tmux, &[]);
    let home = &tmux.home;
    let pane = home.metadata("sh", "pane_id");
    assert_eq!(execute(home, "a=kept"), "");
    home.ok(&["server", "stop", "--keep-nodes"]);
    tmux.wait_for(&pane, "a=kept");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!(home.info("sh")["type"], "tmux");
    assert_eq!(home.metadata("sh", "pane_id"), pane);
    assert_eq!(execute(home, "echo $a"), "kept");
    home.ok(&["server", "node", "stop", "sh"]);
    tmux.server.wait_for_end();
}

#[test]
fn pane_of_same_id_is_left_alone() {
    let Some(tmux) = Tmux::new("pane_of_same_id_is_left_alone") else { return };
    create(&tmux, &[]);
    let home = &tmux.home;
    assert_eq!(home.metadata("sh", "pane_id"), "%0");
    tmux.server.ok(&["kill-server"]);
    assert!(wait_until(DEADLINE, || is_closed(home)));
    assert_eq!(tmux.ok(&["spawn", "-c", "sleep 1000"]).trim_end(), "%0");
    assert!(is_closed(home), "the pane of another program was adopted");
    home.ok(&["server", "node", "stop", "sh"]);
    assert_eq!(tmux.server.ok(&["list-panes", "-a", "-F", "#{pane_id}"]), "%0");
}

#[test]
fn node_without_window_is_not_created() {
    let Some(tmux) = Tmux::new("node_without_window_is_not_created") else { return };
    let home = &tmux.home;
    home.ok(&["server", "start"]);
    let create =
        ["server", "node", "create", "sh", "-b", "tmux", "--tmux-session", "a:b", "-c", "sleep 1000"];
    home.nerve(&create).assert_stderr(1, &["'a:b'"]);
    assert_eq!(home.ok(&["host", "list"]), "no hosts\n");
    assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], serde_json::json!([]));
}

#[test]
fn any_node_can_be_shown() {
    let Some(tmux) = Tmux::new("any_node_can_be_shown") else { return };
    let home = &tmux.home;
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "sh", "-c", "bash --norc --noprofile", "--env", "PS1=$ "]);
    assert_eq!(execute(home, "echo hello"), "hello");
    let pane = show(&tmux);
    tmux.wait_for(&pane, "hello");
    home.ok(&["server", "node", "create", "two", "-c", "bash --norc --noprofile", "--env", "PS1=two> "]);
    let split = ["show", "two", "--in", "tmux", "--socket", &tmux.socket, "--split", &pane];
    let second = home.ok(&[&["server", "node"], &split[..]].concat());
    tmux.wait_for(second.trim_end(), "two>");
    assert_eq!(tmux.server.ok(&["display-message", "-p", "-t", &pane, "#{window_panes}"]), "2");
    home.ok(&["server", "node", "create", "bash", "-b", "bash"]);
    let shown = home.nerve(&["server", "node", "show", "bash", "--in", "tmux"]);
    shown.assert_stderr(2, &["node 'bash'"]);
}

#[test]
fn wezterm_window_is_lost_and_reopened() {
    let home = Home::new();
    let wezterm = FakeWezterm::start(&home.hermetic);
    let with_wezterm = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("NERVE_WEZTERM", FakeWezterm::program());
        command.env("WEZTERM_UNIX_SOCKET", wezterm.socket());
        let done = home.run(command);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    };
    with_wezterm(&["server", "start"]);
    let shell = ["-b", "wezterm", "-c", "bash --norc --noprofile", "--env", "PS1=$ "];
    home.ok(&[&["server", "node", "create", "sh", "--cols", "90", "--rows", "20"], &shell[..]].concat());
    let pane = home.metadata("sh", "pane_id");
    let shows = |pane: &str, text: &str| {
        let read = || with_wezterm(&["wezterm", "read", pane]);
        assert!(wait_until(DEADLINE, || read().contains(text)), "no {text:?} in {}", read());
    };
    assert_eq!(execute(&home, "stty size; seq 1 130 | wc -l"), "20 90\n130");
    assert_eq!(execute(&home, "stty size; seq 1 130 | wc -l"), "20 90\n130");
    shows(&pane, "130");
    with_wezterm(&["wezterm", "kill", &pane]);
    assert!(wait_until(DEADLINE, || is_closed(&home)), "{}", home.info("sh"));
    assert_eq!(execute(&home, "echo without a window"), "without a window");
    let again = home.ok(&["server", "node", "show", "sh", "--in", "wezterm"]);
    assert_ne!(again.trim_end(), pane);
    shows(again.trim_end(), "without a window");
    home.ok(&["server", "node", "stop", "sh"]);
    let is_gone = || !with_wezterm(&["wezterm", "list", "--json"]).contains("\"pane\"");
    assert!(wait_until(DEADLINE, is_gone), "{}", with_wezterm(&["wezterm", "list"]));
}

#[test]
fn fork_gets_a_window_of_its_own() {
    let Some(tmux) = Tmux::new("fork_gets_a_window_of_its_own") else { return };
    let home = &tmux.home;
    let claude = mock_claude(home);
    // The fork of an existing pane runs the agent from PATH.
    let mut start = home.command(&["server", "start"]);
    start.env("PATH", format!("{}:{}", home.hermetic.work().display(), std::env::var("PATH").unwrap()));
    assert_eq!(home.run(start).code, 0);
    let pane =
        tmux.ok(&["spawn", "--session", "theirs", "-c", &format!("{claude} --session-id {CONVERSATION}")]);
    let create = |node: &str, options: &[&str]| {
        let backend = ["server", "node", "create", node, "-b", "claude-tmux", "--socket", &tmux.socket];
        home.ok(&[&backend[..], options].concat());
        home.ok(&["server", "node", "execute", node, "one"]);
    };
    create("ours", &["-c", &claude]);
    create("theirs", &["--pane-id", pane.trim_end(), "--conversation-id", CONVERSATION]);
    let listed = home.nerve(&["server", "node", "list", "--json"]).json();
    let is_approximate = |node: &&serde_json::Value| node["approximate"] == true;
    let found: Vec<_> = listed["nodes_info"].as_array().unwrap().iter().filter(is_approximate).collect();
    assert_eq!((found.len(), &found[0]["node_id"]), (1, &"theirs".into()));
    assert!(home.ok(&["server", "node", "list"]).contains("ready (approximate)"));
    for node in ["ours", "theirs"] {
        let fork = format!("{node}-fork");
        home.ok(&["server", "node", "fork", node, &fork]);
        assert_eq!(home.ok(&["server", "node", "execute", &fork, "RECALL"]), "You said: one\n");
        assert_eq!(home.metadata(&fork, "window"), "open");
        assert_ne!(home.metadata(&fork, "pane_id"), home.metadata(node, "pane_id"));
    }
    home.ok(&["server", "stop"]);
    let panes = || tmux.server.ok(&["list-panes", "-a", "-F", "#{pane_id}"]);
    assert!(wait_until(DEADLINE, || panes() == pane.trim_end()), "{}", panes());
}

#[test]
fn window_of_graph_closes_with_its_run() {
    let Some(tmux) = Tmux::new("window_of_graph_closes_with_its_run") else { return };
    let home = &tmux.home;
    home.ok(&["server", "start"]);
    let graph = format!(
        "graph: g\nnodes:\n  sh: {{type: tmux, command: bash --norc, tmux_session: work, socket: {}}}\n\
         steps:\n  - {{id: a, node: sh, input: word=pane}}\n  \
         - {{id: b, node: sh, input: 'echo \"the $word\"', depends_on: [a]}}\n",
        tmux.socket
    );
    let file = home.hermetic.work().join("g.yaml");
    std::fs::write(&file, graph).unwrap();
    let ran = home.ok(&["server", "graph", "run", file.to_str().unwrap(), "--json"]);
    assert!(ran.contains("the pane"), "{ran}");
    tmux.server.wait_for_end();
}
