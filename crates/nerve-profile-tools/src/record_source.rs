//! Reads the records of a file into a terminal and its observer.

use std::path::Path;

use nerve_record::ahr::{AhrError, Part, Reader, Record};
use nerve_record::replay::TerminalReplay;
use nerve_types::Size;

/// Limits of the terminal's scrollback, in rows and bytes. Profiles refer to the screen only.
const SCROLLBACK: (u64, usize) = (1000, 4 << 20);

/// Takes the records of a recording.
pub(crate) trait RecordSink {
    /// Returns the terminal to which the sink applies the records.
    fn terminal(&mut self) -> &mut TerminalReplay;

    /// Takes the next record.
    fn apply(&mut self, record: &Record<'_>);
}

/// Creates a blank terminal.
pub(crate) fn new_terminal(size: Size) -> TerminalReplay {
    TerminalReplay::new(size).with_limits(SCROLLBACK.0, SCROLLBACK.1)
}

/// Passes all records to `sink`. Returns true if parts of the recording are lost.
///
/// # Errors
/// The file cannot be read, or demands too much work.
pub(crate) fn read_records(recording: &Path, sink: &mut impl RecordSink) -> Result<bool, AhrError> {
    let mut reader = Reader::open(recording)?;
    let mut is_damaged = false;
    while let Some(part) = reader.next()? {
        let Part::Block(block) = part else {
            is_damaged = true;
            continue;
        };
        is_damaged |= block.damage().is_some();
        sink.terminal().begin_block(&block);
        for record in block.records() {
            sink.apply(&record);
            sink.terminal().check_work()?;
        }
    }
    Ok(is_damaged)
}
