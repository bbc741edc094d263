//! The lines of a journal, from its first to its last whole fact. How a file can end after a crash is decided here.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::error::JournalError;
use super::record::MAX_FACT_BYTES;

/// Room for a fact and its newline, and for a newer writer to be a little more generous.
const MAX_LINE_BYTES: usize = MAX_FACT_BYTES + 1024;

const READ_BYTES: usize = 256 << 10;

/// Where the facts of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Bytes up to the end of the last whole fact.
    pub(super) whole: u64,
    /// Bytes after them that are no fact.
    pub(super) cut: u64,
    /// The last fact is whole, but its newline is missing.
    pub(super) open: bool,
}

/// What became of a line.
pub(super) enum Refusal {
    /// It is not a fact. At the end of the file that is what a crash leaves; before, it is damage.
    Garbled(String),
    /// No further line can be read either.
    Fatal(JournalError),
}

/// Gives `take` one line after the other, with their 1-based numbers and without their newlines. Empty lines are passed over.
///
/// # Errors
/// The file cannot be read; [`JournalError::Damaged`] for a line that `take` calls garbled and that is not the last; what `take`
/// calls fatal.
pub(super) fn scan(
    file: &File,
    path: &Path,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), Refusal>,
) -> Result<Extent, JournalError> {
    let mut input = BufReader::with_capacity(READ_BYTES, file);
    let mut extent = Extent { whole: 0, cut: 0, open: false };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = read_line(&mut input, &mut line).map_err(JournalError::io("read", path))?;
        if read == 0 {
            break;
        }
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        let taken = if line.len() > MAX_LINE_BYTES {
            Err(Refusal::Garbled("it is longer than a fact may be".to_string()))
        } else if line.iter().all(u8::is_ascii_whitespace) {
            // An unfinished empty line is none of a journal's lines either, but there is nothing in it to lose.
            Ok(())
        } else {
            take(number, &line)
        };
        match taken {
            Ok(()) => {
                extent.whole += read;
                extent.open = !ended;
            }
            Err(Refusal::Garbled(why)) => {
                let more = !input.fill_buf().map_err(JournalError::io("read", path))?.is_empty();
                if more {
                    return Err(JournalError::Damaged { path: path.into(), line: number, why });
                }
                extent.cut = read;
            }
            Err(Refusal::Fatal(error)) => return Err(error),
        }
    }
    Ok(extent)
}

/// Reads a line with its newline; of a line that is too long only so much that this can be seen. Returns the bytes passed in the file.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut read = input.by_ref().take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', line)? as u64;
    if line.len() > MAX_LINE_BYTES + 1 && line.last() != Some(&b'\n') {
        read += input.skip_until(b'\n')? as u64;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::{Extent, MAX_LINE_BYTES, Refusal, scan};
    use crate::graph::journal::JournalError;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::path::Path;

    fn scanned(file: &File) -> (Vec<String>, Result<Extent, JournalError>) {
        let mut lines = Vec::new();
        let extent = scan(file, Path::new("r.jsonl"), |number, line| {
            if line.starts_with(b"bad") {
                return Err(Refusal::Garbled("bad".into()));
            }
            lines.push(format!("{number}:{}", String::from_utf8_lossy(line)));
            Ok(())
        });
        (lines, extent)
    }

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn where_facts_end() {
        let cases: [(&str, &[&str], Extent); 6] = [
            ("", &[], Extent { whole: 0, cut: 0, open: false }),
            ("a\nb\n", &["1:a", "2:b"], Extent { whole: 4, cut: 0, open: false }),
            ("a\nb", &["1:a", "2:b"], Extent { whole: 3, cut: 0, open: true }),
            ("a\nbad", &["1:a"], Extent { whole: 2, cut: 3, open: false }),
            ("a\nbad\n", &["1:a"], Extent { whole: 2, cut: 4, open: false }),
            ("a\n\n \nb\n", &["1:a", "4:b"], Extent { whole: 7, cut: 0, open: false }),
        ];
        for (content, lines, extent) in cases {
            let (found, end) = scanned(&file(content.as_bytes()));
            assert_eq!(found, lines, "{content:?}");
            assert_eq!(end.unwrap(), extent, "{content:?}");
        }
    }

    #[test]
    fn a_bad_line_before_others_is_damage() {
        let (_, end) = scanned(&file(b"a\nbad\nb\n"));
        assert!(matches!(end, Err(JournalError::Damaged { line: 2, .. })), "{end:?}");
    }

    #[test]
    fn a_line_without_an_end_is_not_held() {
        let mut file = file(b"a\n");
        // A hole: no disk is used for it.
        file.seek(SeekFrom::Start(3 * MAX_LINE_BYTES as u64)).unwrap();
        file.write_all(b"x").unwrap();
        let len = file.stream_position().unwrap();
        file.rewind().unwrap();
        assert_eq!(scanned(&file).1.unwrap(), Extent { whole: 2, cut: len - 2, open: false });
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\nb\n").unwrap();
        file.rewind().unwrap();
        let (lines, end) = scanned(&file);
        assert_eq!(lines, ["1:a"]);
        assert!(matches!(end, Err(JournalError::Damaged { line: 2, .. })), "{end:?}");
    }
}
