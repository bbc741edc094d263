//! Writes the log file in its own thread, so that no request waits for the disk. Lines that exceed the queue are
//! dropped and counted, and so are lines that the disk refuses.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::LogConfig;
use crate::error::ProxyError;
use crate::report::LogFaults;

/// Maximum number of lines waiting to be written.
const QUEUE_LENGTH: usize = 128;
/// Field with the number of lines that are missing before a line.
const LINES_LOST: &str = "lines_lost";

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<Option<SyncSender<Value>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    dropped: AtomicU64,
    pub(crate) bodies: bool,
}

impl Log {
    /// Opens the file and starts the writer thread. `faults` receives its interruptions.
    pub(crate) fn open(config: &LogConfig, faults: LogFaults) -> Result<Log, ProxyError> {
        let failed = |source| ProxyError::Log { path: config.path.clone(), source };
        let file = LogFile::open(config.path.clone(), config.max_bytes).map_err(failed)?;
        let (lines, queue) = sync_channel(QUEUE_LENGTH);
        let writer = std::thread::Builder::new()
            .name("proxy-log".into())
            .spawn(move || LogWriter { file, lost: 0, faults }.run(&queue))
            .map_err(failed)?;
        Ok(Log {
            lines: Mutex::new(Some(lines)),
            writer: Mutex::new(Some(writer)),
            dropped: AtomicU64::new(0),
            bodies: config.bodies,
        })
    }

    /// Queues a line, which is an object, without blocking.
    pub(crate) fn add(&self, line: &impl Serialize) {
        // Cannot fail: lines contain only strings, numbers and maps with string keys.
        let Ok(mut line) = serde_json::to_value(line) else { return };
        let lines = self.lines.lock();
        let Some(lines) = lines.as_ref() else { return };
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            line[LINES_LOST] = json!(dropped);
        }
        if lines.try_send(line).is_err() {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }

    /// Writes the queued lines and closes the file. Blocks.
    pub(crate) fn close(&self) {
        drop(self.lines.lock().take());
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::warn!("the writer of the proxy's log panicked");
        }
    }
}

/// Writes queued lines to the file.
#[derive(Debug)]
struct LogWriter {
    file: LogFile,
    /// Lines since the last one that was written.
    lost: u64,
    faults: LogFaults,
}

impl LogWriter {
    /// Writes the lines until the log is closed.
    fn run(mut self, lines: &Receiver<Value>) {
        lines.iter().for_each(|line| self.add(line));
        if self.lost > 0 {
            tracing::warn!(path = %self.file.path.display(), lost = self.lost, "the end of the proxy's log is missing");
        }
    }

    /// Writes a line. If that fails, for example because the disk is full, the line counts as lost in the next one.
    fn add(&mut self, mut line: Value) {
        let lost = self.lost + line[LINES_LOST].as_u64().unwrap_or(0);
        if lost > 0 {
            line[LINES_LOST] = json!(lost);
        }
        let path = self.file.path.display().to_string();
        match self.file.add(&line) {
            Ok(()) => {
                if std::mem::take(&mut self.lost) > 0 {
                    tracing::warn!(path, lost, "the proxy's log continues");
                    self.faults.add(format!("the log of its proxy continues: {lost} lines are missing"));
                }
            }
            Err(error) => {
                if self.lost == 0 {
                    tracing::warn!(path, %error, "the proxy's log is interrupted");
                    self.faults.add(format!(
                        "the log of its proxy is interrupted, so `nerve usage` lacks the requests meanwhile: cannot write {path}: {error}"
                    ));
                }
                self.lost = lost + 1;
            }
        }
    }
}

/// The log file and its size.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
}

impl LogFile {
    fn open(path: PathBuf, max_bytes: u64) -> io::Result<LogFile> {
        let mut file = open(&path)?;
        let mut bytes = file.metadata()?.len();
        let mut last = [b'\n'];
        if let Some(last_offset) = bytes.checked_sub(1) {
            file.read_exact_at(&mut last, last_offset)?;
        }
        // An earlier process may have left a part of a line.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(LogFile { path, file, bytes, max_bytes })
    }

    fn add(&mut self, line: &Value) -> io::Result<()> {
        let line = format!("{line}\n");
        let bytes = line.len() as u64;
        if self.bytes > 0 && self.bytes + bytes > self.max_bytes {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            match std::fs::rename(&self.path, older) {
                // Renamed by an earlier call that could not create the new file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            self.file = open(&self.path)?;
            self.bytes = 0;
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Otherwise the next line would continue the part that was written.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// Opens the file and sets its mode to 0600.
fn open(path: &PathBuf) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use nerve_testkit::harness::SmallDisk;

    use super::*;

    fn lines(path: &std::path::Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn close_writes_all_lines_to_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, "{\"old\":1}\n").unwrap();
        let log = Log::open(&LogConfig::new(&path), LogFaults::default()).unwrap();
        for n in 0..50 {
            log.add(&json!({ "n": n }));
        }
        log.close();
        log.add(&json!({ "late": 1 }));
        let lines = lines(&path);
        assert_eq!((lines.len(), lines[50]["n"].clone()), (51, json!(49)));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn log_continues_after_full_disk_with_lost_lines_counted() {
        let dir = tempfile::tempdir().unwrap();
        let test = "log_continues_after_full_disk_with_lost_lines_counted";
        let Some(_disk) = SmallDisk::mount(test, dir.path(), "64k") else { return };
        let (path, filler) = (dir.path().join("log"), dir.path().join("filler"));
        let faults = LogFaults::default();
        let mut writer = LogWriter {
            file: LogFile::open(path.clone(), 1 << 20).unwrap(),
            lost: 0,
            faults: faults.clone(),
        };
        writer.add(json!({ "n": 0 }));
        // Fails once the disk is full.
        let _ = std::fs::write(&filler, vec![0; 1 << 20]);
        let text = "x".repeat(8 << 10);
        for n in 1..4 {
            writer.add(json!({ "n": n, "text": text }));
        }
        assert_eq!(lines(&path), [json!({ "n": 0 })], "a part of a line");
        assert_eq!(faults.take().len(), 1, "once");
        std::fs::remove_file(&filler).unwrap();
        // One more line did not fit into the queue.
        writer.add(json!({ "n": 5, LINES_LOST: 1 }));
        writer.add(json!({ "n": 6 }));
        let last = [json!({ "n": 5, LINES_LOST: 4 }), json!({ "n": 6 })];
        assert_eq!(lines(&path), [&[json!({ "n": 0 })][..], &last].concat());
        assert_eq!(faults.take().len(), 1, "its end");
    }

    #[test]
    fn interrupted_rotation_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::open(path.clone(), 10).unwrap();
        file.add(&json!({ "n": 0 })).unwrap();
        // As if the new file could not be created.
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        file.add(&json!({ "n": 1 })).unwrap();
        assert_eq!(
            (lines(&path), lines(&dir.path().join("log.1"))),
            (vec![json!({ "n": 1 })], vec![json!({ "n": 0 })])
        );
    }

    #[test]
    fn torn_line_is_ended_before_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "{\"n\":0}\n{\"n\":1,\"te").unwrap();
        LogFile::open(path.clone(), 1 << 20).unwrap().add(&json!({ "n": 2 })).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), ["{\"n\":0}", "{\"n\":1,\"te", "{\"n\":2}"]);
    }

    #[test]
    fn rotation_keeps_one_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::open(path.clone(), 100).unwrap();
        for n in 0..100 {
            file.add(&json!({ "n": n, "text": "0123456789" })).unwrap();
        }
        let (new, old) = (lines(&path), lines(&dir.path().join("log.1")));
        assert_eq!(new.last().unwrap()["n"], 99);
        assert_eq!(old.last().unwrap()["n"].as_u64().unwrap() + 1, new[0]["n"].as_u64().unwrap());
        assert!(path.metadata().unwrap().len() <= 100);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn symlink_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        let error = Log::open(&LogConfig::new(&path), LogFaults::default()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
