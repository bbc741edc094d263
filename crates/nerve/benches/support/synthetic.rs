//! Synthetic recordings.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nerve_record::ahr::{Body, DEFAULT_QUALITY, Record, Segment, Writer};
use nerve_types::{Size, TsNs};

pub(crate) const START: TsNs = TsNs(1_766_399_400_000_000_000);

/// Output rate of the recording in bytes per second.
pub(crate) const RATE: u64 = 10_000_000;

/// Writes a recording of a terminal of `size` with these pieces of output, at [`RATE`].
pub(crate) fn record(path: &Path, size: Size, pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<()> {
    record_timed(path, size, |offset| START + Duration::from_micros(offset * 1_000_000 / RATE), pieces)
}

/// Writes a recording like [`record`]. `time_at` returns the time of the output at an offset.
pub(crate) fn record_timed(
    path: &Path,
    size: Size,
    time_at: impl Fn(u64) -> TsNs,
    pieces: impl Iterator<Item = impl AsRef<[u8]>>,
) -> Result<()> {
    let (mut writer, mut segment) = (Writer::create(path)?, Segment::new(0));
    segment.push(&Record { at: time_at(0), body: Body::Resize { cols: size.cols, rows: size.rows } })?;
    for piece in pieces {
        if segment.is_full() {
            writer.append(&segment.seal(DEFAULT_QUALITY, false))?;
            segment = Segment::new(segment.end());
        }
        let off = segment.end();
        segment.push(&Record { at: time_at(off), body: Body::Data { off, bytes: piece.as_ref() } })?;
    }
    writer.append(&segment.seal(DEFAULT_QUALITY, true))?;
    writer.sync()?;
    Ok(())
}
