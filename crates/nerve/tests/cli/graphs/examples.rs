//! The graphs in `examples/` do what they say.

use std::path::{Path, PathBuf};

use crate::graphs::{begin, graph, wait_for_status, with_server};
use crate::harness::{Home, NERVE};

fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.canonicalize().unwrap().display().to_string()
}

#[test]
fn all_examples_are_valid() {
    let home = Home::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            home.ok(&["server", "graph", "validate", &path.display().to_string()]);
            count += 1;
        }
    }
    assert!(count >= 2, "{count} examples");
}

#[test]
fn pipeline_example_counts() {
    let home = with_server();
    let run = |args: &[&str]| {
        graph(&home, &[&["run", &example("pipeline.yaml"), "--json"], args].concat()).json()["results"]
            .clone()
    };
    assert_eq!(run(&[])["report"]["text"].as_str().unwrap().lines().last(), Some("total: 13, that is a lot"));
    let few = run(&["--set", "texts=[\"it's one\", \"$HOME\"]"]);
    assert_eq!(
        (&few["lines"][0], &few["praise"]),
        (&"2 words in 'it's one'".into(), &serde_json::Value::Null)
    );
    assert_eq!(few["report"]["text"].as_str().unwrap().lines().last(), Some("total: 3"));
}

#[test]
fn review_example_fixes_until_check_passes_then_gates() {
    let home = with_server();
    home.ok(&[
        "server",
        "node",
        "create",
        "coder",
        "-c",
        &format!("{NERVE} mock-agent"),
        "--profile",
        "claude",
    ]);
    let run = begin(&home, &["run", &example("review.yaml"), "--run-id", "r1", "--json"]);
    let info = wait_for_status(&home, "r1", "waiting");
    let question = info["gates"][0]["question"].as_str().unwrap();
    assert!(question.starts_with("Take this message? You said: That has "), "{question}");
    home.ok(&["server", "graph", "answer", "r1", "yes"]);
    let done = run.output();
    let data = done.json();
    assert_eq!((done.code, &data["results"]["approve"]["choice"]), (0, &"yes".into()), "{data:#}");
    // The agent is the session's, and still there.
    home.ok(&["server", "node", "wait", "coder"]);
}
