use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nerve_record::history::{Filter, HistoryReader, HistoryWriter};

use super::at;

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
fn full_disk_loses_entries_and_then_recovers() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(reason) => {
            eprintln!("SKIPPED full_disk_loses_entries_and_then_recovers: {reason}");
            return;
        }
    };
    let mut writer = HistoryWriter::create(&disk.at, "server", "node").unwrap();
    assert_eq!(writer.log_run(at(0), "fits"), 1);
    // Leaves space for only part of the next entry.
    assert_eq!(writer.log_write(at(0), &"x".repeat(100 << 10)), 0);
    assert_eq!(writer.log_interrupt(at(0)), 0);
    assert_eq!((writer.lost(), writer.seq(), writer.enabled()), (2, 3, true));

    let path = writer.path().unwrap().to_path_buf();
    assert!(!fs::read(&path).unwrap().ends_with(b"\n"));
    run("mount", &["-o", "remount,size=1m"], &disk.at).unwrap();
    assert_eq!(writer.log_run(at(0), "room again"), 4);
    assert_eq!(writer.log_close(at(0), None), 5);
    assert_eq!(writer.lost(), 2);

    let page = HistoryReader::open(&disk.at, "server", "node").unwrap().query(&Filter::default()).unwrap();
    assert_eq!((page.total, page.malformed), (3, 1));
    assert!(page.entries[1].contains("room again"));
}
