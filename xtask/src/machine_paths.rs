//! Finds absolute paths of a developer's machine in the project's files.

use std::fs;

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::report::Outcome;

/// Folders that exist only on a developer's machine, concatenated so that this file does not contain them.
const FOREIGN: [&str; 3] = [concat!("/wo", "rk/"), concat!("/tmp/", "agents"), concat!("/home/", "runner/")];

/// Fails if a tracked or untracked file of the project names such a folder.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let list =
        project::output(project.command("git").args(list)).context("cannot list the project's files")?;
    let list = String::from_utf8(list).context("a file's name is not UTF-8")?;
    let mut files = 0;
    let mut matches = Vec::new();
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let path = project.root.join(name);
        // A listed file may be deleted, a link or a submodule.
        if !path.symlink_metadata().is_ok_and(|data| data.is_file()) {
            continue;
        }
        files += 1;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {name}"))?;
        matches.extend(foreign_lines(&bytes).map(|line| format!("{name}:{line}")));
    }
    if !matches.is_empty() {
        eprintln!("{}", matches.join("\n"));
        bail!("{} lines name a folder of a developer's machine", matches.len());
    }
    Ok(Outcome::Passed(format!("{files} files")))
}

/// Returns the 1-based numbers of lines with such a path.
fn foreign_lines(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| FOREIGN.iter().any(|folder| contains_path(line, folder.as_bytes())))
        .map(|(index, _)| index + 1)
}

/// Returns true if the line contains the path from its root, not as the end of a longer path (`~/x/` in `/home/me/x/`).
fn contains_path(line: &[u8], path: &[u8]) -> bool {
    line.windows(path.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|index| line.get(index));
        window == path && before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"._-~}*".contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_only_from_their_root() {
        let root = FOREIGN[0];
        let text = format!("fine\ncd {root}main\nmy~{root}x and /home/me{root}x\n\"{root}a\"\n");
        assert_eq!(foreign_lines(text.as_bytes()).collect::<Vec<_>>(), [2, 4]);
    }
}
