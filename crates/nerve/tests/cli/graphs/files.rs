//! Graph files: checked, shown, described.

use crate::graphs::{graph, write};
use crate::harness::Home;

const GOOD: &str = "\
graph: good
nodes: {sh: {type: bash}}
steps:
  - {id: a, node: sh, input: echo}
  - {id: b, gate: {question: 'Continue?'}, depends_on: [a]}
";

const BAD: &str = "\
graph: bad
nodes:
  sh: {type: bash}
steps:
  - id: a
    nod: sh
    input: echo
  - id: b
    node: sh
    input: '{{ steps.a.text }}'
";

#[test]
fn all_errors_are_reported_with_line_and_column() {
    let home = Home::new();
    write(&home, "good.yaml", GOOD);
    write(&home, "bad.yaml", BAD);
    write(
        &home,
        "loop.yaml",
        "graph: loop\nsteps:\n  - {id: a, node: n, depends_on: [b]}\n  - {id: b, node: n, depends_on: [a]}\n",
    );
    let done = graph(&home, &["validate", "good.yaml"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "good.yaml: graph good, 2 steps\n"), "{done:?}");

    let done = graph(&home, &["validate", "good.yaml", "bad.yaml", "loop.yaml", "missing.yaml"]);
    done.assert_stderr(2, &["3 of 4"]);
    assert!(
        done.stdout.contains("bad.yaml:6:5: a step has no field \"nod\" (did you mean `node`?)"),
        "{done:?}"
    );
    assert!(done.stdout.contains("Cycle detected: a → b → a"), "{done:?}");
    assert!(done.stdout.contains("missing.yaml: cannot be read"), "{done:?}");

    let done = graph(&home, &["validate", "bad.yaml", "--json"]);
    let data = done.json();
    assert_eq!((done.code, &data["valid"]), (2, &false.into()));
    let problem = &data["files"][0]["problems"][0];
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(6), Some(5)), "{data:#}");
    assert!(
        problem["message"].as_str().unwrap().contains("nod")
            && problem["hint"].as_str().unwrap().contains("node")
    );

    // Errors of structure and meaning are reported together, with the nodes that only a session can have.
    write(
        &home,
        "both.yaml",
        "graph: both\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: a, node: shh, timeout: 3}\n  - {id: b, node: sh, depends_on: c}\n",
    );
    let done = graph(&home, &["validate", "both.yaml"]);
    done.assert_stderr(2, &["warning: both.yaml:4:19: step 'a' uses node 'shh'"]);
    assert!(done.stdout.contains("both.yaml:4:24: a step has no field \"timeout\""), "{done:?}");
    assert!(done.stdout.contains("both.yaml:5:35: Step 'b' depends on unknown step 'c'"), "{done:?}");
    let data = graph(&home, &["validate", "both.yaml", "--json"]).json();
    assert_eq!(data["files"][0]["warnings"][0]["line"], 4, "{data:#}");

    // A run reports the same errors before it connects to a server.
    graph(&home, &["run", "bad.yaml"]).assert_stderr(2, &["bad.yaml:6:5: "]);
    graph(&home, &["create", "bad.yaml"]).assert_stderr(2, &["bad.yaml:6:5: "]);
}

#[test]
fn graph_is_shown_in_each_format() {
    let home = Home::new();
    write(&home, "good.yaml", GOOD);
    let show = |form: &str| home.ok(&["server", "graph", "show", "good.yaml", "--format", form]);
    assert!(
        show("text").contains("1. a: sh (bash)") && show("text").contains("asks Continue?"),
        "{}",
        show("text")
    );
    assert!(show("mermaid").contains("flowchart TD") && show("mermaid").contains("s0 --> s1"));
    assert!(show("dot").starts_with("digraph \"good\" {") && show("dot").contains("s0 -> s1;"));
    let json: serde_json::Value = serde_json::from_str(&show("json")).unwrap();
    assert_eq!(json["steps"][1]["gate"]["question"], "Continue?");
    assert_eq!(graph(&home, &["show", "good.yaml", "--json"]).json(), json);
    // The JSON output is a valid graph file.
    write(&home, "again.json", &show("json"));
    home.ok(&["server", "graph", "validate", "again.json"]);
    assert_eq!(home.ok(&["server", "graph", "show", "again.json"]), show("text"));
}

#[test]
fn schema_describes_graph_files() {
    let home = Home::new();
    let schema = graph(&home, &["schema"]).json();
    assert_eq!(schema["title"], "nerve graph file");
    for field in ["graph", "nodes", "steps", "inputs", "max_parallel", "on_failure", "on_restart", "budget"] {
        assert!(schema["properties"][field].is_object(), "{field}");
    }
}
