//! The snapshots of a session beside its recording: `<stem>.snapshots.jsonl` (seed agent-record §5.2).

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store;

/// Longer lines are passed over. A label has at most 65,535 bytes, six times that in JSON at worst.
const MAX_LINE: u64 = 1 << 20;

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLine {
    /// Its number; a later line of the same number amends the earlier one.
    pub id: u64,
    /// When it was taken: nanoseconds since the Unix epoch.
    pub ts_ns: u64,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What made it: `auto`, `manual` …
    #[serde(default)]
    pub kind: String,
    /// Output bytes before it.
    pub anchor_byte: u64,
    /// How to get the files back; missing until they are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRef>,
}

/// Where the files of a snapshot are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRef {
    /// Who keeps them: `git`, `copy` or `reflink`.
    pub provider: String,
    /// The folder they were taken from.
    pub source: PathBuf,
    /// What the provider finds them by.
    pub reference: String,
}

/// The file beside `recording`.
pub fn path_of(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "snapshots.jsonl")
}

/// Adds a line to the file beside `recording`, by one write at its end: several processes may add lines. Makes the file
/// (mode 0600) if it is missing.
///
/// # Errors
/// What the operating system says.
pub fn append(recording: &Path, line: &SnapshotLine) -> io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path_of(recording))?;
    let mut text = Vec::new();
    // After a line that was cut short, by a full disk or a power failure.
    if !ends_in_newline(&mut file)? {
        text.push(b'\n');
    }
    serde_json::to_writer(&mut text, line)?;
    text.push(b'\n');
    file.write_all(&text)
}

fn ends_in_newline(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The snapshots in the file beside `recording`, in the order they were taken; none when there is no file. Lines that are
/// none are passed over.
///
/// # Errors
/// What the operating system says.
pub fn read(recording: &Path) -> io::Result<Vec<SnapshotLine>> {
    let mut lines = match File::open(path_of(recording)) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut snapshots: Vec<SnapshotLine> = Vec::new();
    let mut places = HashMap::new();
    let mut bytes = Vec::new();
    while next_line(&mut lines, &mut bytes)? {
        let Ok(line) = serde_json::from_slice::<SnapshotLine>(&bytes) else { continue };
        match places.get(&line.id) {
            Some(&place) => amend(&mut snapshots[place], line),
            None => {
                places.insert(line.id, snapshots.len());
                snapshots.push(line);
            }
        }
    }
    Ok(snapshots)
}

/// Reads one line into `bytes`, or as much of it as is taken; false at the end.
fn next_line(lines: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    if lines.by_ref().take(MAX_LINE).read_until(b'\n', bytes)? == 0 {
        return Ok(false);
    }
    if !bytes.ends_with(b"\n") && bytes.len() as u64 == MAX_LINE {
        bytes.clear();
        lines.skip_until(b'\n')?;
    }
    Ok(true)
}

fn amend(snapshot: &mut SnapshotLine, later: SnapshotLine) {
    *snapshot = SnapshotLine {
        label: later.label.or(snapshot.label.take()),
        files: later.files.or(snapshot.files.take()),
        ..later
    };
}
