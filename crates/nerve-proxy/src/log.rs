//! Writes the log file in its own thread, so that no request waits for the disk. Lines that exceed the queue are
//! dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::LogConfig;
use crate::error::ProxyError;

/// Maximum number of lines waiting to be written.
const QUEUE_LENGTH: usize = 128;

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<Option<SyncSender<Value>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    dropped: AtomicU64,
    pub(crate) bodies: bool,
}

impl Log {
    /// Opens the file and starts the writer thread.
    pub(crate) fn open(config: &LogConfig) -> Result<Log, ProxyError> {
        let failed = |source| ProxyError::Log { path: config.path.clone(), source };
        let file = LogFile::open(config.path.clone(), config.max_bytes).map_err(failed)?;
        let (lines, queue) = sync_channel(QUEUE_LENGTH);
        let writer = std::thread::Builder::new()
            .name("proxy-log".into())
            .spawn(move || write(file, &queue))
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
            line["lines_lost"] = json!(dropped);
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

fn write(mut file: LogFile, lines: &Receiver<Value>) {
    for line in lines {
        if let Err(error) = file.add(&line) {
            tracing::warn!(path = %file.path.display(), %error, "writing the proxy's log failed: logging stops");
            return;
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
        let file = open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path, file, bytes, max_bytes })
    }

    fn add(&mut self, line: &Value) -> io::Result<()> {
        let line = format!("{line}\n");
        let bytes = line.len() as u64;
        if self.bytes > 0 && self.bytes + bytes > self.max_bytes {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            std::fs::rename(&self.path, older)?;
            self.file = open(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(line.as_bytes())?;
        self.bytes += bytes;
        Ok(())
    }
}

/// Opens the file and sets its mode to 0600.
fn open(path: &PathBuf) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
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
        let log = Log::open(&LogConfig::new(&path)).unwrap();
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
        let error = Log::open(&LogConfig::new(&path)).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
