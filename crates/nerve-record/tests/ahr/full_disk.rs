use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nerve_record::ahr::Writer;

use super::{data, noise, output, read, sealed, shape};

/// A file system of 64 KiB, unmounted on drop. Requires permission to mount.
struct SmallDisk {
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Result<SmallDisk, String> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_path_buf();
        run("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &at)?;
        Ok(SmallDisk { at, _folder: folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = run("umount", &[], &self.at) {
            eprintln!("{error}");
        }
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> Result<(), String> {
    match Command::new(program).args(args).arg(path).output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

#[test]
fn partial_block_after_full_disk_is_removed() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(reason) => {
            eprintln!("SKIPPED partial_block_after_full_disk_is_removed: {reason}");
            return;
        }
    };
    let path = disk.at.join("full.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let fits = noise(1, 20_000);
    let block = sealed(&[data(0, 0, &fits)]);
    writer.append(&block).unwrap();
    // Some pages fit, and would remain without truncation.
    let large = sealed(&[data(1, 20_000, &noise(2, 100_000))]);
    for _ in 0..2 {
        assert_eq!(writer.append(&large).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), block);
    }
    // A short block fits; a long one fits when there is space again.
    writer.append(&sealed(&[data(2, 20_000, b"small")])).unwrap();
    run("mount", &["-o", "remount,size=1m"], &disk.at).unwrap();
    writer.append(&large).unwrap();
    let parts = read(fs::read(&path).unwrap());
    assert_eq!(shape(&parts), "BBB");
    assert_eq!(output(&parts).len(), 20_000 + 5 + 100_000);
    assert_eq!(writer.len(), fs::metadata(&path).unwrap().len());
}
