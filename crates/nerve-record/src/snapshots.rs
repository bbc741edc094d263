//! Snapshots of a recorded session: `<stem>.snapshots.jsonl`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nerve_types::files::replace_unsynced;
use serde::{Deserialize, Serialize};

use crate::store;

/// Maximum bytes of a line; longer ones are skipped. A label has at most 65,535 bytes, up to six times that in JSON.
const MAX_LINE: u64 = 1 << 20;

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLine {
    /// Number; a later line with the same number amends the earlier one.
    pub id: u64,
    /// Time; nanoseconds since the Unix epoch.
    pub ts_ns: u64,
    /// Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Origin: `auto`, `manual` …
    #[serde(default)]
    pub kind: String,
    /// Output bytes before the snapshot.
    pub anchor_byte: u64,
    /// Reference to the files; missing until they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRef>,
}

/// Reference to the files of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRef {
    /// Provider: `git`, `copy` or `reflink`.
    pub provider: String,
    /// The source folder.
    pub source: PathBuf,
    /// The provider's reference.
    pub reference: String,
}

impl FilesRef {
    /// Returns true for files in a git repository.
    pub fn is_in_git(&self) -> bool {
        self.provider == "git"
    }
}

/// Returns the path of the snapshot list of `recording`.
pub fn list_path(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "snapshots.jsonl")
}

/// Appends a line to the list of `recording` in a single write, because several processes may append. Creates the file
/// (mode 0600) if it is missing.
///
/// # Errors
/// Any I/O error.
pub fn append(recording: &Path, line: &SnapshotLine) -> io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(list_path(recording))?;
    let mut text = Vec::new();
    // The last line may be incomplete after a full disk or a power failure.
    if !ends_in_newline(&mut file)? {
        text.push(b'\n');
    }
    serde_json::to_writer(&mut text, line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// Replaces the list of `recording` with `lines`; removes it if there are none.
///
/// # Errors
/// Any I/O error.
pub fn replace(recording: &Path, lines: &[SnapshotLine]) -> io::Result<()> {
    let path = list_path(recording);
    if lines.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    replace_unsynced(&path, &text)
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

/// Reads the snapshots of `recording` in the order they were taken; empty if there is no list. Skips invalid lines.
///
/// # Errors
/// Any I/O error.
pub fn read(recording: &Path) -> io::Result<Vec<SnapshotLine>> {
    let mut lines = match File::open(list_path(recording)) {
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

/// Reads one line into `bytes`, which stays empty for an overlong line; false at the end.
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
