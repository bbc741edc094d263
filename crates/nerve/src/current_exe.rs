//! Path of this program, for the processes it starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Suffix that Linux appends to the path of a program whose file was replaced or removed (proc(5), `/proc/PID/exe`).
const DELETED_SUFFIX: &str = " (deleted)";

/// Returns the path of this program, or of the file that replaced it in an update.
///
/// # Errors
/// The system does not report the path.
pub(crate) fn path() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(existing_path(path))
}

/// Returns the path if it exists, otherwise the path without the deletion suffix, otherwise this process's `/proc`
/// link.
fn existing_path(path: PathBuf) -> PathBuf {
    if path.exists() {
        return path;
    }
    let replaced = path.to_str().and_then(|path| path.strip_suffix(DELETED_SUFFIX)).map(Path::new);
    match replaced.filter(|path| path.exists()) {
        Some(path) => path.to_path_buf(),
        None => PathBuf::from(format!("/proc/{}/exe", std::process::id())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updated_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("nerve");
        std::fs::write(&own, "").unwrap();
        assert_eq!(existing_path(own.clone()), own);
        let replaced = PathBuf::from(format!("{}{DELETED_SUFFIX}", own.display()));
        assert_eq!(existing_path(replaced.clone()), own);
        std::fs::remove_file(&own).unwrap();
        assert!(existing_path(replaced).exists(), "a running program can be restarted");
    }
}
