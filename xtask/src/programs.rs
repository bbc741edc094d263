//! Looks up installed programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of a program in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Returns true if the command succeeds; discards its output.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns true if the process runs as root.
pub(crate) fn is_root() -> bool {
    // The standard library has no geteuid.
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_existing_programs() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-in-any-path").is_none());
        assert!(!is_executable(Path::new("/etc/passwd")));
    }
}
