//! `docs/cli.md` is written by the program itself; CI compares it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::report::Outcome;

/// Builds the program and writes the reference.
pub(crate) fn generate(project: &Project) -> anyhow::Result<bool> {
    project.cargo(&["build", "--workspace", "--bins", "--locked"])?;
    let file = path(project);
    fs::write(&file, reference(project)?).with_context(|| format!("cannot write {}", file.display()))?;
    println!("wrote {}", relative(&file, project));
    Ok(true)
}

/// The committed reference is what the program prints.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let wanted = reference(project)?;
    let file = path(project);
    let found = fs::read_to_string(&file).unwrap_or_default();
    if let Some((line, old, new)) = first_difference(&found, &wanted) {
        eprintln!("{}:{line}\n  is:        {old}\n  should be: {new}", relative(&file, project));
        bail!("docs/cli.md is out of date: run `cargo xtask generate`");
    }
    Ok(Outcome::Passed(format!("{} lines", wanted.lines().count())))
}

fn path(project: &Project) -> PathBuf {
    project.root.join("docs/cli.md")
}

fn relative(file: &Path, project: &Project) -> String {
    file.strip_prefix(&project.root).unwrap_or(file).display().to_string()
}

/// What `nerve cli-reference` prints.
fn reference(project: &Project) -> anyhow::Result<String> {
    let mut command = project.command(project.nerve());
    command.arg("cli-reference").stdin(Stdio::null());
    let text = String::from_utf8(project::output(&mut command)?).context("the reference is not UTF-8")?;
    if text.trim().is_empty() {
        bail!("nerve cli-reference printed nothing");
    }
    Ok(text)
}

/// Number of the first line that differs, from 1, and both versions of it.
fn first_difference<'a>(found: &'a str, wanted: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if found == wanted {
        return None;
    }
    const END: &str = "(the end)";
    let mut found = found.split('\n');
    let mut wanted = wanted.split('\n');
    (1..).find_map(|line| match (found.next(), wanted.next()) {
        (old, new) if old == new => None,
        (old, new) => Some((line, old.unwrap_or(END), new.unwrap_or(END))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_first_line_that_differs() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, "", "b")));
        assert_eq!(first_difference("", "a"), Some((1, "", "a")));
        assert_eq!(first_difference("a\nb", "a"), Some((2, "b", "(the end)")));
    }
}
