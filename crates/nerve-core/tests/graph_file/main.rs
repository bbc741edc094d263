//! Graph files: what they say, and what is said of those that are wrong.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod checks;
mod diagrams;
mod execution;
mod files;
mod parsing;
mod robustness;
mod schema;
mod templates;

use nerve_core::graph::file::GraphFile;

/// What is said of a YAML file, line by line.
fn said(yaml: &str) -> String {
    match GraphFile::from_yaml(yaml, "g.yaml") {
        Ok(_) => "fine".to_string(),
        Err(error) => error.to_string(),
    }
}

/// Says of each file what is expected of it.
#[track_caller]
fn check(yaml: &str, expected: &str) {
    assert_eq!(said(yaml), expected, "of\n{yaml}");
}
