//! Reads complete lines that another program appends to a file, each once.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Default of [`LineReader::with_backlog`]: bytes read from the end of a file that is already long.
const MAX_BACKLOG: u64 = 8 << 20;
/// Maximum length of a line in bytes; longer ones are skipped.
const LINE_LIMIT: usize = 16 << 20;
/// Size of one read in bytes.
const CHUNK: usize = 64 << 10;

/// Reads the lines of a growing file.
#[derive(Debug)]
pub struct LineReader {
    path: PathBuf,
    /// Device and inode of the file at the last read.
    file: Option<(u64, u64)>,
    /// Number of bytes read.
    position: u64,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// The rest of the current line is skipped.
    is_skipping: bool,
    /// Maximum bytes before the end of the file at which the first read begins.
    backlog: u64,
}

/// A result of reading the file.
#[derive(Debug, PartialEq, Eq)]
pub enum LineEvent<'a> {
    /// A complete line, without its line end.
    Line(&'a str),
    /// The file was truncated or replaced. It is read from its beginning, so lines may be repeated.
    Reset,
}

impl LineReader {
    /// Creates a reader at the beginning. The file need not exist.
    pub fn new(path: PathBuf) -> LineReader {
        LineReader {
            path,
            file: None,
            position: 0,
            partial: Vec::new(),
            is_skipping: false,
            backlog: MAX_BACKLOG,
        }
    }

    /// Creates a reader that starts at most this many bytes before the end.
    pub fn with_backlog(path: PathBuf, bytes: u64) -> LineReader {
        LineReader { backlog: bytes, ..LineReader::new(path) }
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was appended since the last call. A missing file counts as empty.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, mut each: impl FnMut(LineEvent<'_>)) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(());
        }
        let id = (about.dev(), about.ino());
        match self.file.replace(id) {
            None => {
                self.position = about.len().saturating_sub(self.backlog);
                self.is_skipping = self.position > 0;
            }
            Some(before) if before != id || about.len() < self.position => {
                (self.position, self.is_skipping) = (0, false);
                self.partial.clear();
                each(LineEvent::Reset);
            }
            Some(_) => {}
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let size = file.read(&mut chunk)?;
            if size == 0 {
                return Ok(());
            }
            self.position += size as u64;
            self.take(&chunk[..size], &mut each);
        }
    }

    fn take(&mut self, mut bytes: &[u8], each: &mut impl FnMut(LineEvent<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if !std::mem::take(&mut self.is_skipping) {
                self.partial.extend_from_slice(line);
                each(LineEvent::Line(&String::from_utf8_lossy(&self.partial)));
            }
            self.partial.clear();
        }
        if self.is_skipping {
            return;
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > LINE_LIMIT {
            self.is_skipping = true;
            self.partial = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn read(lines: &mut LineReader) -> Vec<String> {
        let mut found = Vec::new();
        let each = |piece: LineEvent<'_>| {
            found.push(match piece {
                LineEvent::Line(line) => line.to_string(),
                LineEvent::Reset => "(anew)".to_string(),
            });
        };
        lines.read(each).unwrap();
        found
    }

    #[test]
    fn line_is_read_once_and_only_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let mut lines = LineReader::new(path.clone());
        assert!(read(&mut lines).is_empty(), "a missing file is empty");
        let mut file = File::create(&path).unwrap();
        file.write_all("one\ntw\u{f6}".as_bytes()).unwrap();
        assert_eq!(read(&mut lines), ["one"]);
        assert!(read(&mut lines).is_empty());
        file.write_all(b" and a half\n\nthree\n").unwrap();
        assert_eq!(read(&mut lines), ["tw\u{f6} and a half", "", "three"]);
        assert!(read(&mut lines).is_empty());
    }

    #[test]
    fn truncated_or_replaced_file_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        fs::write(&path, "one\ntwo\nhalf").unwrap();
        let mut lines = LineReader::new(path.clone());
        assert_eq!(read(&mut lines), ["one", "two"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(read(&mut lines), ["(anew)", "new"]);
        let other = dir.path().join("b");
        fs::write(&other, "another\nfile\n").unwrap();
        fs::rename(other, &path).unwrap();
        assert_eq!(read(&mut lines), ["(anew)", "another", "file"]);
        fs::remove_file(&path).unwrap();
        assert!(read(&mut lines).is_empty());
    }

    #[test]
    fn only_the_end_of_a_long_file_is_read_and_long_lines_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let line = format!("{}\n", "x".repeat(1023));
        fs::write(&path, line.repeat(9 << 10)).unwrap();
        let mut lines = LineReader::new(path.clone());
        assert_eq!(read(&mut lines).len(), (8 << 10) - 1, "the first line may be incomplete");
        let mut file = File::options().append(true).open(&path).unwrap();
        for _ in 0..17 {
            file.write_all(&vec![b'y'; 1 << 20]).unwrap();
            assert!(read(&mut lines).is_empty());
        }
        assert!(lines.partial.capacity() < LINE_LIMIT);
        file.write_all(b"end of it\nnext\n").unwrap();
        assert_eq!(read(&mut lines), ["next"]);
    }
}
