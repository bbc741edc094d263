//! The lines another program appends to a file, each once, when its end is there.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How much of a file that is already long is read when it is first seen.
const BACK: u64 = 8 << 20;
/// A longer line is passed over.
const LINE_LIMIT: usize = 16 << 20;
/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    /// Which file it was at the last look: device and inode.
    file: Option<(u64, u64)>,
    /// Bytes read of it.
    position: u64,
    /// A line whose end is not there yet.
    partial: Vec<u8>,
    /// The rest of this line is not wanted.
    is_skipping: bool,
    /// How much of it is read if it is already long when it is first seen, bytes.
    back: u64,
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A whole line, without its end.
    Line(&'a str),
    /// The file was cut short or is another one: what follows is read from its beginning, and may have been told already.
    Anew,
}

impl Lines {
    /// A file nothing was read of yet. It need not be there.
    pub(crate) fn new(path: PathBuf) -> Lines {
        Lines { path, file: None, position: 0, partial: Vec::new(), is_skipping: false, back: BACK }
    }

    /// One that is read from its beginning up to so many bytes; of a longer one the end.
    pub(crate) fn of_at_most(path: PathBuf, bytes: u64) -> Lines {
        Lines { back: bytes, ..Lines::new(path) }
    }

    /// Bytes read of it.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was added since the last time. No file is an empty one.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Found<'_>)) -> io::Result<()> {
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
                self.position = about.len().saturating_sub(self.back);
                self.is_skipping = self.position > 0;
            }
            Some(before) if before != id || about.len() < self.position => {
                (self.position, self.is_skipping) = (0, false);
                self.partial.clear();
                each(Found::Anew);
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

    fn take(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Found<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if !std::mem::take(&mut self.is_skipping) {
                self.partial.extend_from_slice(line);
                each(Found::Line(&String::from_utf8_lossy(&self.partial)));
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

    fn read(lines: &mut Lines) -> Vec<String> {
        let mut found = Vec::new();
        let each = |piece: Found<'_>| {
            found.push(match piece {
                Found::Line(line) => line.to_string(),
                Found::Anew => "(anew)".to_string(),
            });
        };
        lines.read(each).unwrap();
        found
    }

    #[test]
    fn a_line_is_taken_once_and_only_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let mut lines = Lines::new(path.clone());
        assert!(read(&mut lines).is_empty(), "no file is an empty one");
        let mut file = File::create(&path).unwrap();
        file.write_all("one\ntw\u{f6}".as_bytes()).unwrap();
        assert_eq!(read(&mut lines), ["one"]);
        assert!(read(&mut lines).is_empty());
        file.write_all(b" and a half\n\nthree\n").unwrap();
        assert_eq!(read(&mut lines), ["tw\u{f6} and a half", "", "three"]);
        assert!(read(&mut lines).is_empty());
    }

    #[test]
    fn a_file_cut_short_or_replaced_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        fs::write(&path, "one\ntwo\nhalf").unwrap();
        let mut lines = Lines::new(path.clone());
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
    fn of_a_long_file_only_the_end_is_read_and_an_endless_line_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let line = format!("{}\n", "x".repeat(1023));
        fs::write(&path, line.repeat(9 << 10)).unwrap();
        let mut lines = Lines::new(path.clone());
        assert_eq!(read(&mut lines).len(), (8 << 10) - 1, "the first may be a part of one");
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
