//! The source files of the program, without files of tests.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::project::{self, Project};

/// A source file.
pub(crate) struct Source {
    /// Path from the root of the checkout.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Reads the files below `crates/*/src` that git tracks.
pub(crate) fn read_sources(project: &Project) -> anyhow::Result<Vec<Source>> {
    let list = project::output(project.command("git").args(["ls-files", "--", "crates/*/src/*.rs"]))
        .context("cannot list the project's files")?;
    let list = String::from_utf8(list).context("a file's name is not UTF-8")?;
    // A tracked file may be deleted.
    let files = list.lines().filter(|name| !is_test(name) && project.root.join(name).is_file());
    files
        .map(|name| {
            let text = fs::read_to_string(project.root.join(name));
            Ok(Source { name: name.to_string(), text: text.with_context(|| format!("cannot read {name}"))? })
        })
        .collect()
}

/// Returns true for a file with unit tests, or with what they share.
fn is_test(name: &str) -> bool {
    Path::new(name).file_stem().is_some_and(|stem| stem == "tests") || name.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::is_test;

    #[test]
    fn files_of_tests_are_left_out() {
        assert!(is_test("crates/nerve-host/src/executions/watch/tests.rs"));
        assert!(is_test("crates/nerve-host/src/tests/pump.rs") && !is_test("crates/nerve-host/src/pump.rs"));
    }
}
