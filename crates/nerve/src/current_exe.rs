//! The path of this program, for the processes it starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What Linux puts behind the path of a program whose file was replaced or removed (proc(5), `/proc/PID/exe`).
const DELETED_SUFFIX: &str = " (deleted)";

/// Where this program is, also after an update has put another file in its place: then that one is meant.
///
/// # Errors
/// The system does not tell.
pub(crate) fn path() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(existing_path(path))
}

/// The path if something is there, else where it was before its file was replaced. One that is gone for good is still this process's own.
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
    fn a_program_that_was_updated_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("nerve");
        std::fs::write(&own, "").unwrap();
        assert_eq!(existing_path(own.clone()), own);
        let replaced = PathBuf::from(format!("{}{DELETED_SUFFIX}", own.display()));
        assert_eq!(existing_path(replaced.clone()), own);
        std::fs::remove_file(&own).unwrap();
        assert!(existing_path(replaced).exists(), "what still runs can be started again");
    }
}
