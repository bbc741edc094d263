//! Reports tests that are skipped because a tool is missing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Records that `test` is skipped on this machine, and why: on stderr, and as a line `test<TAB>reason` in the file
/// named by `NERVE_TEST_SKIPS`.
///
/// ```no_run
/// # use nerve_testkit::{find_agent, skip};
/// let Some(claude) = find_agent("claude") else {
///     return skip("a_real_agent_answers", "Claude Code is not installed");
/// };
/// ```
///
/// # Panics
/// With `NERVE_TEST_NO_SKIP=1`, as in CI, and when the file cannot be written.
pub fn skip(test: &str, reason: &str) {
    let forbidden = std::env::var_os("NERVE_TEST_NO_SKIP").is_some_and(|value| value == "1");
    assert!(!forbidden, "{test} must not be skipped here: {reason}");
    eprintln!("skipped {test}: {reason}");
    if let Some(path) = std::env::var_os("NERVE_TEST_SKIPS") {
        let written = append(Path::new(&path), test, reason);
        assert!(written.is_ok(), "cannot note the skipped test in {}: {written:?}", path.display());
    }
}

/// A single write, so that lines of concurrent tests do not mix.
fn append(path: &Path, test: &str, reason: &str) -> io::Result<()> {
    let line = format!("{test}\t{}\n", reason.replace('\n', " "));
    File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skips");
        append(&path, "a", "no\ntool").unwrap();
        append(&path, "b", "none").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a\tno tool\nb\tnone\n");
    }
}
