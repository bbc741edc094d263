//! Runs that come to their end, and what is printed of them.

use std::fs;

use crate::graphs::{UNTIL_GO, begin, go, graph, wait_for_status, with_server, write};
use crate::harness::{Home, NERVE};

const TWO: &str = "\
graph: two
inputs: {who: {default: world}, n: {default: 1}}
nodes:
  sh: {type: bash}
steps:
  - {id: greet, node: sh, input: 'echo hello {{ input.who | sh }}; echo $PWD > where'}
  - {id: shout, node: sh, input: 'printf %s {{ steps.greet.text | sh }} | tr a-z A-Z; echo {{ input.n + 1 }}', depends_on: [greet]}
";

fn two() -> Home {
    let home = with_server();
    write(&home, "two.yaml", TWO);
    home
}

#[test]
fn results_go_to_stdout_and_events_to_stderr() {
    let home = two();
    let done = graph(&home, &["run", "two.yaml", "--run-id", "r1", "--set", "who=big world"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "== greet\nhello big world\n== shout\nHELLO BIG WORLD2\n"),
        "{done:?}"
    );
    let lines: Vec<&str> = done.stderr.lines().collect();
    let wanted = [
        "two started: 2 steps, run r1",
        "two/greet started on sh",
        "two/greet completed after ",
        "two/shout started on sh",
        "two/shout completed after ",
        "two completed after ",
    ];
    assert_eq!(lines.len(), wanted.len(), "{lines:#?}");
    for (line, words) in lines.iter().zip(wanted) {
        let (time, said) = line.split_at(9);
        assert!(said.starts_with(words), "{line}");
        let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(digits, "00:00:00 ");
    }
    // Nodes without a directory work where the command was started, not where the server was.
    let work = home.hermetic.work().canonicalize().unwrap();
    let where_it_was = crate::graphs::read(&home, "where");
    assert_eq!(fs::canonicalize(where_it_was.trim()).unwrap(), work);
}

#[test]
fn json_has_results_and_trace_goes_to_its_file() {
    let home = two();
    let done = graph(&home, &["run", "two.yaml", "--json", "--trace", "trace.json"]);
    let data = done.json();
    assert_eq!((done.code, &data["state"]), (0, &"completed".into()));
    assert_eq!(data["results"]["shout"]["text"], "HELLO WORLD2");
    assert!(data["run_id"].as_str().unwrap().starts_with("r-") && data["trace"].is_null(), "{data:#}");
    let trace: serde_json::Value = serde_json::from_str(&crate::graphs::read(&home, "trace.json")).unwrap();
    assert_eq!((trace["state"].as_str(), trace["steps"].as_array().unwrap().len()), (Some("completed"), 2));
    assert_eq!(trace["steps"][0]["step_id"], "greet");

    let data = graph(&home, &["run", "two.yaml", "--json", "--trace", "-"]).json();
    assert_eq!(data["trace"]["steps"][1]["node_id"], "sh");
}

#[test]
fn input_is_text_json_file_or_fields() {
    let home = two();
    let shout = |args: &[&str]| {
        graph(&home, &[&["run", "two.yaml", "--json"], args].concat()).json()["results"]["shout"]["text"]
            .clone()
    };
    assert_eq!(shout(&["--input", "{\"who\": \"you\"}"]), "HELLO YOU2");
    assert_eq!(
        shout(&["--input", "{\"who\": \"you\"}", "--set", "who=them", "--set", "n=41"]),
        "HELLO THEM42"
    );
    write(&home, "input.json", "{\"who\": \"file\"}\n");
    assert_eq!(shout(&["--input", "@input.json"]), "HELLO FILE2");

    for (args, words) in [
        (vec!["--input", "just text"], "expects a mapping"),
        (vec!["--set", "whom=x"], "did you mean 'who'"),
        (vec!["--input", "[1]", "--set", "who=x"], "--set requires a JSON object"),
        (vec!["--set", "who"], "KEY=VALUE"),
        (vec!["--run-id", "Not A Name"], "run"),
    ] {
        graph(&home, &[vec!["run", "two.yaml"], args].concat()).assert_stderr(2, &[words]);
    }
    graph(&home, &["run", "two.yaml", "--input", "@missing"]).assert_stderr(1, &["missing"]);
    graph(&home, &["run", "missing.yaml"]).assert_stderr(3, &["missing.yaml"]);
    graph(&home, &["run", "missing"]).assert_stderr(3, &["graph 'missing'", "file 'missing'"]);
}

#[test]
fn graph_is_read_from_stdin_as_yaml_or_json() {
    let home = two();
    let done = home.nerve_with(&["server", "graph", "run", "-", "--set", "who=pipe"], TWO);
    assert!(done.code == 0 && done.stdout.contains("hello pipe"), "{done:?}");
    let json = r#"{"graph": "j", "steps": [{"id": "a", "node": "t", "input": "x"}], "nodes": {"t": {"type": "template", "template": "<{{ input }}>"}}}"#;
    let done = home.nerve_with(&["server", "graph", "run", "-"], json);
    assert_eq!((done.code, done.stdout.as_str()), (0, "<x>\n"), "{done:?}");
    home.nerve_with(&["server", "graph", "run", "-"], "graph: g\nstepps: []\n")
        .assert_stderr(2, &["standard input:2:1", "steps"]);
}

#[test]
fn dry_run_prints_plan_and_needs_no_server() {
    let home = Home::new();
    write(&home, "two.yaml", TWO);
    let done = graph(&home, &["run", "two.yaml", "--dry-run", "--set", "who=a b"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (
            0,
            "graph two: 2 steps, at most 1 at once; dry run\ninput {\"who\":\"a b\",\"n\":1}\n  1. greet (node sh)\n     \
            input: echo hello 'a b'; echo $PWD > where\n  2. shout (node sh, after greet)\n     input, not yet known: printf %s \
            {{ steps.greet.text | sh }} | tr a-z A-Z; echo {{ input.n + 1 }}\n"
        ),
        "{done:?}"
    );
    let data = graph(&home, &["run", "two.yaml", "-d", "--json"]).json();
    assert_eq!(
        (&data["valid"], &data["steps"][0]["input_known"], &data["steps"][1]["input_known"]),
        (&true.into(), &true.into(), &false.into())
    );
    graph(&home, &["run", "two.yaml", "-d", "--set", "x=1"]).assert_code(2);
    graph(&home, &["run", "two.yaml"]).assert_stderr(3, &["server 'default'"]);
}

#[test]
fn detached_run_is_watched_by_another_command() {
    let home = with_server();
    write(
        &home,
        "long.yaml",
        &format!(
            "graph: long\nnodes: {{sh: {{type: bash}}}}\nsteps:\n  - {{id: a, node: sh, input: '{UNTIL_GO}; echo went on'}}\n"
        ),
    );
    let done = graph(&home, &["run", "long.yaml", "--detach", "--run-id", "r1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "r1\n"), "{done:?}");
    let watch = begin(&home, &["status", "r1", "--watch"]);
    wait_for_status(&home, "r1", "running");
    assert!(graph(&home, &["list", "--runs"]).stdout.contains("running"));
    go(&home);
    let done = watch.output();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("completed") && done.stdout.contains("1/1 done"), "{done:?}");
    // For a run that has ended, the command returns at once.
    let done = graph(&home, &["status", "r1", "--watch", "--json"]);
    assert_eq!((done.code, done.json()["steps"][0]["state"].clone()), (0, "completed".into()));
    graph(&home, &["status", "r2"]).assert_stderr(3, &["run 'r2'"]);
}

#[test]
fn graph_agent_and_session_agent_take_turns() {
    let home = with_server();
    let agent = format!("{NERVE} mock-agent");
    home.ok(&["server", "node", "create", "mine", "-c", &agent, "--profile", "claude"]);
    write(
        &home,
        "agents.yaml",
        &format!(
            "graph: agents\nnodes:\n  own: {{type: pty, command: '{agent}', profile: claude, parser: claude}}\nsteps:\n  \
            - {{id: one, node: own, input: 'first words'}}\n  \
            - {{id: two, node: mine, input: 'it said: {{{{ steps.one }}}}', depends_on: [one]}}\n"
        ),
    );
    let done = graph(&home, &["run", "agents.yaml", "--keep-nodes", "--run-id", "kept"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "== one\nYou said: first words\n== two\nYou said: it said: You said: first words\n"),
        "{done:?}"
    );
    // The graph's own node is kept in the session of the run.
    let nodes = home.ok(&["server", "node", "list", "--session", "kept"]);
    assert!(nodes.contains("own"), "{nodes}");
    home.ok(&["server", "node", "stop", "own", "--session", "kept"]);
}

#[test]
fn truncated_output_fails_its_step() {
    let home = with_server();
    write(
        &home,
        "long.yaml",
        "graph: long\nnodes: {sh: {type: bash}}\nsteps: [{id: a, node: sh, input: 'head -c 1000000 /dev/zero | tr \"\\0\" x'}]\n",
    );
    let done = graph(&home, &["run", "long.yaml"]);
    done.assert_stderr(8, &["475712 bytes"]);
    assert_eq!(done.stdout.len(), (512 << 10) + 1);
}
