//! Small file systems, to test full disks.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// A file system in memory, unmounted on drop. Requires permission to mount.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this size (`64k`, `1m`) at `path`, a directory that is created if it is missing. Returns
    /// `None`, and records a skip of `test`, without the permission.
    pub fn mount(test: &str, path: &Path, size: &str) -> Option<SmallDisk> {
        let options = format!("size={size},mode=0700");
        let mounted = fs::create_dir_all(path)
            .map_err(|error| error.to_string())
            .and_then(|()| run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], path));
        match mounted {
            Ok(()) => Some(SmallDisk { path: path.to_path_buf() }),
            Err(reason) => {
                skip(test, &reason);
                None
            }
        }
    }

    /// Changes the size.
    ///
    /// # Panics
    /// The system refuses.
    #[track_caller]
    pub fn resize(&self, size: &str) {
        let resized = run("mount", &["-o", &format!("remount,size={size}")], &self.path);
        assert!(resized.is_ok(), "{resized:?}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process of the test may still have a file open there.
        if let Err(error) = run("umount", &["-l"], &self.path) {
            eprintln!("{error}");
        }
    }
}

fn run(program: &str, args: &[&str], path: impl AsRef<OsStr>) -> Result<(), String> {
    match Command::new(program).args(args).arg(path).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
