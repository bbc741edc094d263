//! A range of a recording's file, for a copy on another machine.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use crate::library::is_live;
use crate::meta::Meta;
use crate::snapshots::list_path;
use nerve_types::regular_file::{Links, open_regular};

/// Maximum size of a file next to the recording, in bytes. A larger one is left out.
const MAX_SIDECAR: u64 = 1 << 20;

/// A range of a recording's file. A recording only grows, so ranges that join are a copy of its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingRange {
    /// Length of the whole file in bytes.
    pub file_len: u64,
    /// The bytes of the range; fewer than the limit at the end of the file.
    pub bytes: Vec<u8>,
    /// CRC-32C of the bytes.
    pub checksum: u32,
    /// The recording is being written.
    pub is_live: bool,
    /// Text of the file with the metadata, if the range reaches the end.
    pub metadata: Option<String>,
    /// Text of the file with the snapshots, if the range reaches the end.
    pub snapshots: Option<String>,
}

impl RecordingRange {
    /// Reads at most `limit` bytes from `offset` on.
    ///
    /// # Errors
    /// Any I/O error; the recording is no regular file.
    pub fn read(recording: &Path, offset: u64, limit: u64) -> io::Result<RecordingRange> {
        let mut file = open_regular(recording, OpenOptions::new().read(true), Links::Follow)?;
        let is_live = is_live(recording);
        let mut bytes = Vec::new();
        // Not every file system can seek behind the end.
        if offset < file.metadata()?.len() {
            file.seek(SeekFrom::Start(offset))?;
            (&mut file).take(limit).read_to_end(&mut bytes)?;
        }
        let file_len = file.metadata()?.len();
        let is_end = offset.saturating_add(bytes.len() as u64) >= file_len;
        let sidecar = |path: &Path| if is_end { read_sidecar(path) } else { Ok(None) };
        Ok(RecordingRange {
            file_len,
            checksum: crc32c::crc32c(&bytes),
            bytes,
            is_live,
            metadata: sidecar(&Meta::sidecar_path(recording))?,
            snapshots: sidecar(&list_path(recording))?,
        })
    }
}

/// Reads a file next to the recording; `None` if there is none, or if it is too large or no text.
fn read_sidecar(path: &Path) -> io::Result<Option<String>> {
    let file = match open_regular(path, OpenOptions::new().read(true), Links::Follow) {
        Ok(file) => file,
        Err(error) => {
            let error = io::Error::from(error);
            return if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) };
        }
    };
    let mut bytes = Vec::new();
    file.take(MAX_SIDECAR + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes)
        .filter(|bytes| bytes.len() as u64 <= MAX_SIDECAR)
        .and_then(|bytes| String::from_utf8(bytes).ok()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ranges_join_and_the_last_one_has_the_sidecars() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ahr");
        let content: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
        fs::write(&path, &content).unwrap();
        fs::write(Meta::sidecar_path(&path), "{}").unwrap();
        let mut joined = Vec::new();
        loop {
            let range = RecordingRange::read(&path, joined.len() as u64, 1500).unwrap();
            assert_eq!((range.file_len, range.is_live), (4000, false));
            assert_eq!(range.checksum, crc32c::crc32c(&range.bytes));
            joined.extend(range.bytes);
            let is_end = joined.len() == content.len();
            assert_eq!((range.metadata.is_some(), range.snapshots), (is_end, None));
            if is_end {
                break;
            }
        }
        assert_eq!(joined, content);
        let after = RecordingRange::read(&path, u64::MAX >> 1, 10).unwrap();
        assert!(after.bytes.is_empty() && after.metadata.is_some());
        assert!(RecordingRange::read(folder.path(), 0, 10).is_err());
        fs::write(list_path(&path), "x").unwrap();
        let list = OpenOptions::new().write(true).open(list_path(&path)).unwrap();
        list.set_len(MAX_SIDECAR + 1).unwrap();
        assert_eq!(RecordingRange::read(&path, 0, 10_000).unwrap().snapshots, None);
    }
}
