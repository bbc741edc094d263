//! Reads the lines of a journal up to its last complete record, and decides what counts as a crash and what as damage.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::error::JournalError;
use super::record::MAX_RECORD_BYTES;

/// Maximum length of a line: a record, its newline, and some slack for newer writers.
const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES + 1024;

const READ_BYTES: usize = 256 << 10;

/// End of the complete records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Bytes up to the end of the last complete record.
    pub(super) whole: u64,
    /// Bytes of an incomplete record after them.
    pub(super) cut: u64,
    /// The last record is complete, but its newline is missing.
    pub(super) missing_newline: bool,
}

/// Reason for rejecting a line.
pub(super) enum LineError {
    /// No valid record: the trace of a crash in the last line, damage before it.
    Malformed(String),
    /// Further lines cannot be read, either.
    Fatal(JournalError),
}

/// Passes each line to `take`, with its number (from 1) and without its newline. Empty lines are skipped.
///
/// # Errors
/// The file cannot be read; [`JournalError::Damaged`] for a malformed line that is not the last; fatal errors of `take`.
pub(super) fn scan(
    file: &File,
    path: &Path,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), LineError>,
) -> Result<Extent, JournalError> {
    let mut input = BufReader::with_capacity(READ_BYTES, file);
    let mut extent = Extent { whole: 0, cut: 0, missing_newline: false };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = read_line(&mut input, &mut line).map_err(JournalError::io("read", path))?;
        if read == 0 {
            break;
        }
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        let result = if line.len() > MAX_LINE_BYTES {
            Err(LineError::Malformed("longer than a record may be".to_string()))
        } else if line.iter().all(u8::is_ascii_whitespace) {
            // An incomplete empty line is skipped, too: it holds no data.
            Ok(())
        } else {
            take(number, &line)
        };
        match result {
            Ok(()) => {
                extent.whole += read;
                extent.missing_newline = !ended;
            }
            Err(LineError::Malformed(why)) => {
                let more = !input.fill_buf().map_err(JournalError::io("read", path))?.is_empty();
                if more {
                    return Err(JournalError::Damaged { path: path.into(), line: number, why });
                }
                extent.cut = read;
            }
            Err(LineError::Fatal(error)) => return Err(error),
        }
    }
    Ok(extent)
}

/// Reads a line with its newline, truncated if it is too long. Returns the number of bytes consumed.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut read = input.by_ref().take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', line)? as u64;
    if line.len() > MAX_LINE_BYTES + 1 && line.last() != Some(&b'\n') {
        read += input.skip_until(b'\n')? as u64;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::{Extent, LineError, MAX_LINE_BYTES, scan};
    use crate::journal::JournalError;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::path::Path;

    fn scanned(file: &File) -> (Vec<String>, Result<Extent, JournalError>) {
        let mut lines = Vec::new();
        let extent = scan(file, Path::new("r.jsonl"), |number, line| {
            if line.starts_with(b"bad") {
                return Err(LineError::Malformed("bad".into()));
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
    fn extent_ends_at_last_complete_record() {
        let cases: [(&str, &[&str], Extent); 6] = [
            ("", &[], Extent { whole: 0, cut: 0, missing_newline: false }),
            ("a\nb\n", &["1:a", "2:b"], Extent { whole: 4, cut: 0, missing_newline: false }),
            ("a\nb", &["1:a", "2:b"], Extent { whole: 3, cut: 0, missing_newline: true }),
            ("a\nbad", &["1:a"], Extent { whole: 2, cut: 3, missing_newline: false }),
            ("a\nbad\n", &["1:a"], Extent { whole: 2, cut: 4, missing_newline: false }),
            ("a\n\n \nb\n", &["1:a", "4:b"], Extent { whole: 7, cut: 0, missing_newline: false }),
        ];
        for (content, lines, extent) in cases {
            let (found, end) = scanned(&file(content.as_bytes()));
            assert_eq!(found, lines, "{content:?}");
            assert_eq!(end.unwrap(), extent, "{content:?}");
        }
    }

    #[test]
    fn malformed_line_before_others_is_damage() {
        let (_, end) = scanned(&file(b"a\nbad\nb\n"));
        assert!(matches!(end, Err(JournalError::Damaged { line: 2, .. })), "{end:?}");
    }

    #[test]
    fn endless_line_is_not_held_in_memory() {
        let mut file = file(b"a\n");
        // A hole in a sparse file: uses no disk space.
        file.seek(SeekFrom::Start(3 * MAX_LINE_BYTES as u64)).unwrap();
        file.write_all(b"x").unwrap();
        let len = file.stream_position().unwrap();
        file.rewind().unwrap();
        assert_eq!(scanned(&file).1.unwrap(), Extent { whole: 2, cut: len - 2, missing_newline: false });
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\nb\n").unwrap();
        file.rewind().unwrap();
        let (lines, end) = scanned(&file);
        assert_eq!(lines, ["1:a"]);
        assert!(matches!(end, Err(JournalError::Damaged { line: 2, .. })), "{end:?}");
    }
}
