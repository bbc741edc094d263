//! The style of what the commands print with `--json`: the rules of the wire protocol (docs/wire.md).

use std::collections::BTreeSet;
use std::fs;

use nerve_testkit::json_style::style_violations;
use nerve_testkit::wait_until;
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

/// Properties that violate the style, with the reason. `*` stands for any beginning.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("*entries[].ts", "an entry of a node's history file"),
    ("*history[].ts", "an entry of a node's history file"),
    ("*data.ts", "the same name as in the recordings' event files"),
    ("*graph", "the text of a graph file"),
    ("*steps[].id", "the text of a graph file"),
    ("*steps[].node", "the text of a graph file"),
    ("*properties.max_time_ms", "a description of graph files"),
    ("*properties.retry_delay_ms", "a description of graph files"),
    ("*properties.timeout_ms", "a description of graph files"),
    ("meta.id", "the text of a recording's metadata file"),
];

/// Commands with `--json` that the tests here do not run, with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("ask", "needs an agent; prints what 'send' prints"),
    ("branch", "needs an agent"),
    ("cluster cancel", "needs a broker"),
    ("cluster decide", "needs a broker"),
    ("cluster init", "needs a broker"),
    ("cluster join", "needs a broker"),
    ("cluster leave", "needs a broker"),
    ("cluster remove", "needs a broker"),
    ("cluster resume", "needs a broker"),
    ("cluster runs", "needs a broker"),
    ("cluster status", "needs a broker"),
    ("events", "prints one event per line"),
    ("fan-out", "needs an agent"),
    ("fan-out clean", "needs an agent"),
    ("fan-out diff", "needs an agent"),
    ("fan-out pick", "needs an agent"),
    ("fan-out wait", "needs an agent"),
    ("machine drain", "needs a broker"),
    ("machine undrain", "needs a broker"),
    ("mcp", "serves until it is stopped"),
    ("node answer", "needs a dialog"),
    ("notify", "prints one event per line"),
    ("node fork", "needs an agent"),
    ("node show", "needs a multiplexer"),
    ("pattern debate", "needs agents"),
    ("pattern dev-coach", "needs agents"),
    ("proxy anthropic", "serves until it is stopped"),
    ("proxy openai", "serves until it is stopped"),
    ("service install", "needs systemd"),
    ("service status", "needs systemd"),
    ("service uninstall", "needs systemd"),
    ("tmux kill", "needs a multiplexer"),
    ("tmux list", "needs a multiplexer"),
    ("tmux read", "needs a multiplexer"),
    ("tmux send", "needs a multiplexer"),
    ("tmux spawn", "needs a multiplexer"),
    ("wezterm kill", "needs a multiplexer"),
    ("wezterm list", "needs a multiplexer"),
    ("wezterm read", "needs a multiplexer"),
    ("wezterm send", "needs a multiplexer"),
    ("wezterm spawn", "needs a multiplexer"),
];

/// Runs commands with `--json` and collects the violations of the style.
struct Checked {
    home: Home,
    run: BTreeSet<String>,
    found: Vec<String>,
}

impl Checked {
    fn new() -> Checked {
        Checked { home: Home::new(), run: BTreeSet::new(), found: Vec::new() }
    }

    /// Runs a command and checks its document, or that of its error.
    fn run(&mut self, code: i32, command: &str, args: &[&str]) -> Value {
        self.run.insert(command.to_string());
        let words: Vec<&str> = command.split(' ').chain(args.iter().copied()).chain(["--json"]).collect();
        let done = self.home.nerve(&words);
        assert_eq!(done.code, code, "{words:?}: {done:?}");
        let text = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
        let document: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{words:?}: {error}: {done:?}"));
        let new = style_violations(&document).into_iter().filter(|path| !is_exception(path));
        self.found.extend(new.map(|path| format!("{command}: {path}")));
        document
    }

    fn ok(&mut self, command: &str, args: &[&str]) -> Value {
        self.run(0, command, args)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.home.hermetic.work().join(name), text).unwrap();
    }
}

fn is_exception(path: &str) -> bool {
    EXCEPTIONS.iter().any(|(known, _)| match known.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path == *known,
    })
}

/// The commands of the guide that have `--json`, without groups.
fn commands_with_json(home: &Home) -> BTreeSet<String> {
    let (mut commands, mut command) = (BTreeSet::new(), String::new());
    let reference = home.ok(&["cli-reference"]);
    for line in reference.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            command = title.strip_prefix("`nerve ").unwrap_or_default().trim_end_matches('`').to_string();
        } else if line == format!("Usage: nerve {command} [OPTIONS] <COMMAND>") {
            command.clear();
        } else if line.starts_with("| `-j, --json`") && !command.is_empty() {
            commands.insert(command.clone());
        }
    }
    commands
}

#[test]
fn all_commands_print_json_of_one_style() {
    let mut checked = Checked::new();
    servers(&mut checked);
    nodes(&mut checked);
    usage(&mut checked);
    graphs(&mut checked);
    recordings(&mut checked);
    settings(&mut checked);
    ends(&mut checked);
    assert!(checked.found.is_empty(), "not in the style of the JSON (docs/wire.md): {:#?}", checked.found);
    let not_run = NOT_RUN.iter().map(|(command, _)| (*command).to_string());
    let known: BTreeSet<String> = checked.run.iter().cloned().chain(not_run).collect();
    let all = commands_with_json(&checked.home);
    assert_eq!(known.symmetric_difference(&all).collect::<Vec<_>>(), Vec::<&String>::new(), "checked != all");
}

fn servers(checked: &mut Checked) {
    checked.ok("server start", &["--http", "0"]);
    checked.ok("server status", &[]);
    checked.ok("server list", &[]);
    checked.ok("server restart", &[]);
    checked.ok("server logs", &[]);
    checked.ok("web", &[]);
    checked.ok("web sessions list", &[]);
    checked.run(3, "web sessions revoke", &["abc"]);
    checked.ok("web shares list", &[]);
    checked.run(3, "web shares revoke", &["abc"]);
    checked.run(3, "share", &["nosuch"]);
    checked.ok("machine add", &["work", "ssh://127.0.0.1:1"]);
    checked.ok("machine list", &[]);
    checked.run(1, "machine doctor", &["work"]);
    checked.ok("machine disconnect", &["work"]);
    checked.ok("machine remove", &["work"]);
    checked.ok("session create", &["work"]);
    checked.ok("session list", &[]);
    checked.ok("session info", &["work"]);
}

fn nodes(checked: &mut Checked) {
    checked.ok("node create", &["b", "--backend", "bash"]);
    checked.ok("node create", &["sh", "-c", "bash --norc"]);
    checked.ok("node execute", &["b", "echo one"]);
    checked.ok("node execute", &["sh", "echo two"]);
    checked.run(1, "node execute", &["b", "exit 3"]);
    let later = checked.ok("node execute", &["b", "echo later", "--no-wait"]);
    checked.ok("result", &[later["result_id"].as_str().unwrap(), "--wait"]);
    checked.ok("result", &["--list"]);
    for node in ["b", "sh"] {
        checked.ok("node info", &[node]);
        checked.ok("node history", &[node]);
        checked.ok("node history", &[node, "--summary"]);
        checked.ok("transcript", &[node]);
    }
    checked.ok("node list", &[]);
    checked.ok("node why", &["sh"]);
    checked.ok("node run", &["sh", "echo three"]);
    checked.ok("node wait", &["sh"]);
    checked.ok("node read", &["sh"]);
    checked.ok("node write", &["sh", "x"]);
    checked.ok("node interrupt", &["sh"]);
    checked.ok("node resize", &["sh", "--cols", "90", "--rows", "20"]);
    checked.run(3, "node info", &["absent"]);
    checked.run(2, "node list", &["--absent"]);
}

fn usage(checked: &mut Checked) {
    checked.ok("node budget", &["sh"]);
    checked.ok("node budget", &["sh", "--budget-tokens", "1000"]);
    for by in ["node", "session", "day", "model"] {
        checked.ok("usage", &["--by", by]);
    }
    checked.ok("usage", &["--prices"]);
    checked.ok("search", &["two"]);
}

fn graphs(checked: &mut Checked) {
    let steps = [("good", "echo one"), ("fails", "exit 3")];
    for (name, input) in steps {
        let text = format!(
            "graph: {name}\nnodes: {{sh: {{type: bash}}}}\nsteps: [{{id: a, node: sh, input: {input}}}]\n"
        );
        checked.write(&format!("{name}.yaml"), &text);
    }
    checked.write("gate.yaml", "graph: gate\nsteps: [{id: ok, gate: {question: Ship?, choices: [a, b]}}]\n");
    checked.write("bad.yaml", "graph: bad\nsteps: 3\n");
    checked.ok("graph validate", &["good.yaml"]);
    checked.run(2, "graph validate", &["bad.yaml"]);
    checked.ok("graph show", &["good.yaml"]);
    checked.ok("graph schema", &[]);
    checked.ok("graph run", &["good.yaml", "--dry-run"]);
    checked.ok("graph run", &["good.yaml", "--trace", "-"]);
    checked.run(1, "graph run", &["fails.yaml", "--run-id", "failed"]);
    checked.ok("graph status", &["failed"]);
    checked.run(1, "graph resume", &["failed"]);
    for (run, command, end) in
        [("one", "graph answer", &["one", "a"][..]), ("two", "graph cancel", &["two"][..])]
    {
        checked.ok("graph run", &["gate.yaml", "--no-wait", "--run-id", run]);
        let waits = || checked.home.nerve(&["graph", "status", run, "--json"]).json()["state"] == "waiting";
        assert!(wait_until(DEADLINE, waits), "run {run} does not wait");
        checked.ok(command, end);
    }
    checked.ok("graph create", &["good.yaml"]);
    checked.ok("graph list", &[]);
    checked.ok("graph list", &["--runs"]);
    checked.ok("graph delete", &["good"]);
}

fn recordings(checked: &mut Checked) {
    checked.home.ok(&["record", "--headless", "--", "sh", "-c", "echo hello"]);
    let all = checked.ok("recording list", &[]);
    let is_own = |recording: &&Value| recording["node_id"].is_null();
    let recorded = all["recordings"].as_array().unwrap().iter().find(is_own).unwrap();
    let id = recorded["recording_id"].as_str().unwrap();
    for command in ["recording branch-points", "recording inspect", "recording extract", "recording repair"] {
        checked.ok(command, &[id]);
    }
    checked.ok("recording replay", &[id, "--print-meta"]);
    checked.ok("recording export", &[id, "-o", "exported.txt", "--format", "txt"]);
    checked.run(2, "recording replay", &[id]);
    checked.write("a.cast", "{\"version\": 2, \"width\": 80, \"height\": 24}\n[0.1, \"o\", \"hello\"]\n");
    checked.ok("recording import", &["a.cast", "-o", "a.ahr"]);
    checked.ok("profile test", &["shell", "--recording", "sh", "--recording", "a.ahr"]);
    checked.ok("recording branches", &[]);
    checked.ok("recording prune", &["--max-size", "0", "--dry-run"]);
    checked.ok("snapshot", &["--session", "sh", "--dir", "."]);
    checked.ok("snapshot list", &["sh"]);
    checked.ok("snapshot list", &[]);
    checked.ok("snapshot restore", &["1", "--session", "sh", "--to", "restored"]);
    checked.ok("prune", &["--older-than", "1d", "--dry-run"]);
}

fn settings(checked: &mut Checked) {
    for command in
        ["config path", "config show", "config check", "token show", "token path", "token rotate", "doctor"]
    {
        checked.ok(command, &[]);
    }
    checked.ok("profile list", &[]);
    checked.ok("profile show", &["claude"]);
    checked.ok("demo", &[]);
    checked.ok("fan-out list", &[]);
}

fn ends(checked: &mut Checked) {
    checked.ok("node stop", &["sh"]);
    checked.ok("node start", &["sh"]);
    let hosts = checked.ok("host list", &[]);
    let host = hosts["hosts"].as_array().unwrap().iter().find(|host| host["alive"] == true).unwrap();
    checked.ok("host write", &[host["host_id"].as_str().unwrap(), "x"]);
    checked.ok("node stop", &["sh"]);
    checked.ok("node remove", &["sh"]);
    checked.ok("node prune", &[]);
    checked.ok("host stop", &["--all"]);
    checked.ok("session stop", &["default"]);
    checked.ok("session start", &["default"]);
    checked.ok("session delete", &["work"]);
    checked.ok("server stop", &[]);
    checked.run(3, "server status", &[]);
}
