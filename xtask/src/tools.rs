//! Programs on this machine: is it there, and where.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program of this name in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// The command ends with success; its output is thrown away.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// We may write to the whole system.
pub(crate) fn is_root() -> bool {
    // The standard library has no geteuid; `id` is on every Debian.
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_shell_and_not_a_made_up_name() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-in-any-path").is_none());
        assert!(!is_executable(Path::new("/etc/passwd")));
    }
}
