//! Iterates over the lines of a file, forwards or backwards, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

/// Longer lines are skipped. Nerve writes none, and each would have to fit in memory.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;

const BLOCK_BYTES: usize = 64 << 10;

/// A line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// File offset of the line.
    pub(super) offset: u64,
    /// `None` for a line longer than [`MAX_LINE_BYTES`].
    pub(super) bytes: Option<Vec<u8>>,
}

/// Iterates over the lines of a file from its start. Uses positioned reads, so that the file can be shared.
pub(super) struct Lines<'a> {
    input: BufReader<Region<'a>>,
    offset: u64,
}

/// The bytes of a file from `at` to `end`.
struct Region<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Region<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let remaining = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let limit = buf.len().min(remaining);
        let len = self.file.read_at(&mut buf[..limit], self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl<'a> Lines<'a> {
    /// Iterates over the first `len` bytes of `file`.
    pub(super) fn new(file: &'a File, len: u64) -> Lines<'a> {
        Lines { input: BufReader::with_capacity(BLOCK_BYTES, Region { file, at: 0, end: len }), offset: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        let offset = self.offset;
        let mut bytes = Some(Vec::new());
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                return Ok((self.offset > offset).then_some(Line { offset, bytes }));
            }
            let newline = available.iter().position(|&byte| byte == b'\n');
            let content = &available[..newline.unwrap_or(available.len())];
            match &mut bytes {
                Some(line) if line.len() + content.len() <= MAX_LINE_BYTES => line.extend_from_slice(content),
                _ => bytes = None,
            }
            let used = content.len() + usize::from(newline.is_some());
            self.input.consume(used);
            self.offset += used as u64;
            if newline.is_some() {
                return Ok(Some(Line { offset, bytes }));
            }
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = io::Result<Line>;
    fn next(&mut self) -> Option<io::Result<Line>> {
        self.next_line().transpose()
    }
}

/// Iterates over the lines of a file backwards. A trailing newline yields an empty last line.
pub(super) struct TailLines<'a> {
    file: &'a File,
    /// End offset of the next line; `None` when done.
    end: Option<u64>,
    /// The last block read, and its file offset.
    block: Vec<u8>,
    block_start: u64,
}

impl<'a> TailLines<'a> {
    /// Iterates backwards over the first `len` bytes of `file`.
    pub(super) fn new(file: &'a File, len: u64) -> TailLines<'a> {
        TailLines { file, end: (len > 0).then_some(len), block: Vec::new(), block_start: len }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        let Some(end) = self.end else { return Ok(None) };
        let offset = self.start_of_line(end)?;
        let bytes = self.read_line(offset, end)?;
        self.end = offset.checked_sub(1);
        Ok(Some(Line { offset, bytes }))
    }

    /// Returns the start of the line that ends before `end`. Does not keep the bytes, since a line may be long.
    fn start_of_line(&mut self, end: u64) -> io::Result<u64> {
        let mut before = end;
        while before > 0 {
            let part = match self.in_block(self.block_start, before) {
                Some(part) if !part.is_empty() => part,
                _ => {
                    self.load_block_before(before)?;
                    &self.block
                }
            };
            if let Some(newline) = part.iter().rposition(|&byte| byte == b'\n') {
                return Ok(self.block_start + newline as u64 + 1);
            }
            before = self.block_start;
        }
        Ok(0)
    }

    fn read_line(&self, start: u64, end: u64) -> io::Result<Option<Vec<u8>>> {
        if let Some(line) = self.in_block(start, end) {
            return Ok(Some(line.to_vec()));
        }
        match usize::try_from(end - start) {
            Ok(len) if len <= MAX_LINE_BYTES => {
                let mut line = vec![0; len];
                self.file.read_exact_at(&mut line, start)?;
                Ok(Some(line))
            }
            _ => Ok(None),
        }
    }

    /// Returns the bytes from `start` to `end` if the block contains them.
    fn in_block(&self, start: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.block_start)?).ok()?;
        let to = usize::try_from(end.checked_sub(self.block_start)?).ok()?;
        self.block.get(from..to)
    }

    fn load_block_before(&mut self, end: u64) -> io::Result<()> {
        self.block_start = end.saturating_sub(BLOCK_BYTES as u64);
        self.block.resize(usize::try_from(end - self.block_start).unwrap_or(BLOCK_BYTES), 0);
        self.file.read_exact_at(&mut self.block, self.block_start)
    }
}

impl Iterator for TailLines<'_> {
    type Item = io::Result<Line>;
    fn next(&mut self) -> Option<io::Result<Line>> {
        self.next_line().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Line, Lines, MAX_LINE_BYTES, TailLines};
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    fn file_with(content: &[u8]) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        (file, content.len() as u64)
    }

    fn both_ways(content: &[u8]) -> (Vec<Line>, Vec<Line>) {
        let (file, len) = file_with(content);
        let forward: Vec<Line> = Lines::new(&file, len).map(Result::unwrap).collect();
        let mut backward: Vec<Line> = TailLines::new(&file, len).map(Result::unwrap).collect();
        backward.reverse();
        (forward, backward)
    }

    /// Backwards, a trailing newline yields an empty last line.
    fn check(content: &[u8]) {
        let (forward, mut backward) = both_ways(content);
        if content.is_empty() || content.last() == Some(&b'\n') {
            let last = backward.pop();
            assert!(content.is_empty() == last.is_none());
            assert!(last.is_none_or(|line| line.bytes == Some(vec![])));
        }
        assert_eq!(forward, backward);
        let expected: Vec<&[u8]> = content.split_inclusive(|&byte| byte == b'\n').collect();
        let found: Vec<&[u8]> = forward.iter().map(|line| line.bytes.as_deref().unwrap()).collect();
        assert_eq!(
            found,
            expected.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn lines_around_block_size_are_complete() {
        for extra in [-2_i64, -1, 0, 1, 2] {
            let long = vec![b'x'; usize::try_from(BLOCK_BYTES as i64 + extra).unwrap()];
            let mut content = b"first\n".to_vec();
            content.extend_from_slice(&long);
            content.extend_from_slice(b"\nlast\n");
            check(&content);
            check(&content[..content.len() - 1]);
        }
        check(b"");
        check(b"\n");
        check(b"\n\n\na");
    }

    proptest! {
        #[test]
        fn forwards_and_backwards_agree(lines in prop::collection::vec(0_usize..40_000, 0..12), torn in any::<bool>()) {
            let mut content = Vec::new();
            for (index, len) in lines.iter().enumerate() {
                content.extend(std::iter::repeat_n(b'a' + u8::try_from(index).unwrap(), *len));
                content.push(b'\n');
            }
            if torn {
                content.pop();
            }
            check(&content);
        }
    }

    #[test]
    fn overlong_line_is_skipped() {
        let (mut file, _) = file_with(b"before\n");
        // A hole, which takes no disk space.
        let after = file.seek(SeekFrom::Current(MAX_LINE_BYTES as i64 + 5)).unwrap();
        file.write_all(b"\nafter\n").unwrap();
        let len = after + 7;
        let forward: Vec<Line> = Lines::new(&file, len).map(Result::unwrap).collect();
        let backward: Vec<Line> = TailLines::new(&file, len).map(Result::unwrap).collect();
        let seen = |line: &Line| line.bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_eq!(
            forward.iter().map(seen).collect::<Vec<_>>(),
            [Some("before".into()), None, Some("after".into())]
        );
        assert_eq!(
            backward.iter().map(seen).collect::<Vec<_>>(),
            [Some(String::new()), Some("after".into()), None, Some("before".into())]
        );
        assert_eq!(forward[1].offset, 7);
        assert_eq!(backward[2].offset, 7);
    }
}
