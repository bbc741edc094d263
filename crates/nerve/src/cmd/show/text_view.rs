//! Shows the output of an execution without a terminal in the viewer, as a temporary recording.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_host::clock::Clock;
use nerve_record::ahr::{Body, DEFAULT_QUALITY, Record, Segment, Writer};

use super::view_recording;
use crate::cmd::viewer::{DEFAULT_SIZE, lines_of};
use nerve_cli::exec::ShowArgs;

/// Bytes per record; much less than a block.
const PIECE: usize = 64 << 10;

/// Shows the text until the user leaves and returns the exit code.
pub(super) fn show(text: &str, name: &str, args: &ShowArgs) -> Result<u8> {
    // The folder is readable by this user only.
    let folder = tempfile::Builder::new().prefix("nerve-show-").tempdir();
    let folder = folder.context("cannot make a folder for what it wrote")?;
    let file = folder.path().join("output.ahr");
    record(&lines_of(text), &file).with_context(|| format!("cannot write {}", file.display()))?;
    view_recording(&file, name, args)
}

fn record(lines: &str, file: &Path) -> Result<()> {
    let mut writer = Writer::create(file)?;
    let mut segment = Segment::new(0);
    let at = Clock::start().now();
    segment.push(&Record { at, body: Body::Resize { cols: DEFAULT_SIZE.cols, rows: DEFAULT_SIZE.rows } })?;
    for bytes in lines.as_bytes().chunks(PIECE) {
        if segment.is_full() {
            writer.append(&segment.seal(DEFAULT_QUALITY, false))?;
            segment = Segment::new(segment.end());
        }
        segment.push(&Record { at, body: Body::Data { off: segment.end(), bytes } })?;
    }
    writer.append(&segment.seal(DEFAULT_QUALITY, true))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use nerve_record::ahr::Reader;
    use nerve_record::replay::TerminalReplay;
    use nerve_vt::terminal::LineIndex;

    use super::*;

    #[test]
    fn long_text_is_complete_and_sequences_are_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("output.ahr");
        let text: String = (0..100_000).map(|n| format!("line {n} \x1b[2J\n")).collect();
        record(&lines_of(&text), &file).unwrap();
        let mut lost = 0;
        let replay = TerminalReplay::read_all(&mut Reader::open(&file).unwrap(), |_| lost += 1).unwrap();
        let line = |number| replay.terminal.line_text(LineIndex(number));
        assert_eq!((lost, line(99_999).as_deref().map(str::trim_end)), (0, Some("line 99999 [2J")));
        assert_eq!(replay.terminal.size(), DEFAULT_SIZE);
    }
}
