//! Committed pages that the program generates; CI compares them.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::report::Outcome;

/// A committed page and the command that prints it.
struct Page {
    file: &'static str,
    command: &'static [&'static str],
}

const PAGES: [Page; 3] = [
    Page { file: "docs/cli.md", command: &["cli-reference"] },
    Page { file: "docs/graph.schema.json", command: &["graph", "schema"] },
    Page { file: "docs/openapi.json", command: &["openapi"] },
];

/// Programs that generate the Python client's modules from other modules and pages.
const PYTHON_GENERATORS: [&str; 2] = ["python/tools/generate_sync.py", "python/tools/generate_types.py"];

/// Builds the program and writes all generated pages, and the Python modules that depend on them.
pub(crate) fn generate(project: &Project) -> anyhow::Result<bool> {
    project.cargo(&["build", "--workspace", "--bins", "--locked"])?;
    for page in PAGES {
        let text = page_output(project, &page)?;
        fs::write(project.root.join(page.file), text)
            .with_context(|| format!("cannot write {}", page.file))?;
        println!("wrote {}", page.file);
    }
    for generator in PYTHON_GENERATORS {
        project::run(project.command("python3").arg(generator))?;
        println!("ran {generator}");
    }
    pictures(project)?;
    Ok(true)
}

/// Redraws the pictures of the viewer with the test that otherwise compares them.
fn pictures(project: &Project) -> anyhow::Result<()> {
    let mut command = project.command(project::cargo_program());
    command.args(["test", "--package", "nerve-tui", "--test", "it", "--locked", "--", "pictures::"]);
    project::run(command.env("NERVE_PICTURES", "write"))?;
    println!("wrote docs/images");
    Ok(())
}

/// Fails if a committed page differs from the program's output.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let mut lines = 0;
    let mut old = Vec::new();
    for page in PAGES {
        let expected = page_output(project, &page)?;
        let committed = fs::read_to_string(project.root.join(page.file)).unwrap_or_default();
        lines += expected.lines().count();
        if let Some((line, actual, correct)) = first_difference(&committed, &expected) {
            eprintln!("{}:{line}\n  is:        {actual}\n  should be: {correct}", page.file);
            old.push(page.file);
        }
    }
    if !old.is_empty() {
        bail!("out of date: {}; run `cargo xtask generate`", old.join(", "));
    }
    Ok(Outcome::Passed(format!("{lines} lines")))
}

/// Returns the output of the page's command.
fn page_output(project: &Project, page: &Page) -> anyhow::Result<String> {
    let mut command = project.command(project.nerve());
    command.args(page.command).stdin(Stdio::null());
    let text = project::output(&mut command)?;
    let text = String::from_utf8(text).with_context(|| format!("{} is not UTF-8", page.file))?;
    if text.trim().is_empty() {
        bail!("nothing was printed for {}", page.file);
    }
    Ok(text)
}

/// Returns the 1-based number of the first differing line and both versions of it.
fn first_difference<'a>(actual: &'a str, expected: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if actual == expected {
        return None;
    }
    const END: &str = "(the end)";
    let mut actual = actual.split('\n');
    let mut expected = expected.split('\n');
    (1..).find_map(|line| match (actual.next(), expected.next()) {
        (old, new) if old == new => None,
        (old, new) => Some((line, old.unwrap_or(END), new.unwrap_or(END))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_first_differing_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, "", "b")));
        assert_eq!(first_difference("", "a"), Some((1, "", "a")));
        assert_eq!(first_difference("a\nb", "a"), Some((2, "b", "(the end)")));
    }
}
