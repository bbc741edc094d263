//! Tests of graph files: parsing, checks, messages, execution.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod checks;
mod diagrams;
mod execution;
mod files;
mod parsing;
mod robustness;
mod schema;
mod templates;

use nerve_graph::file::GraphFile;

/// Returns the problems of a YAML file, one per line.
fn problems(yaml: &str) -> String {
    match GraphFile::from_yaml(yaml, "g.yaml") {
        Ok(_) => "fine".to_string(),
        Err(error) => error.to_string(),
    }
}

/// Checks the problems of a YAML file.
#[track_caller]
fn check(yaml: &str, expected: &str) {
    assert_eq!(problems(yaml), expected, "of\n{yaml}");
}
