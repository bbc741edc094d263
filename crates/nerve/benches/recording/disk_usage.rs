//! Compression ratio of recordings.

use std::time::Duration;

use anyhow::Result;
use nerve_record::ahr::{Body, DEFAULT_QUALITY, ROTATE_AFTER, Record, Segment};
use nerve_types::TsNs;

use crate::corpus;
use crate::support::{Figure, Report};

/// Bytes that the kernel returns per read.
const PIECE: usize = 4096;
const LOG: usize = 10_000_000;

pub(crate) fn compare(report: &mut Report) -> Result<()> {
    for session in corpus::SESSIONS {
        let pieces = corpus::timed(session)?;
        let pieces = pieces.iter().map(|(at, bytes)| (*at, bytes.as_slice()));
        report.row(&format!("output / file: {session}, in its own time"), &ratio(pieces)?);
    }
    let (agents, log) = (corpus::agents()?, corpus::log(LOG));
    let at_once =
        |bytes| corpus::pieces(bytes, PIECE, bytes.len() as u64).map(|piece| (Duration::ZERO, piece));
    report.row("output / file: all agents, full blocks", &ratio(at_once(&agents))?);
    report.row("output / file: a log in colour, full blocks", &ratio(at_once(&log))?);
    Ok(())
}

/// Returns output bytes divided by bytes of the recording, rotated as the recorder does.
fn ratio<'a>(pieces: impl Iterator<Item = (Duration, &'a [u8])>) -> Result<Figure> {
    let (mut segment, mut since, mut file) = (Segment::new(0), Duration::ZERO, 0);
    for (at, bytes) in pieces {
        if segment.is_full() || (!segment.is_empty() && at > since + ROTATE_AFTER) {
            file += segment.seal(DEFAULT_QUALITY, false).len();
            segment = Segment::new(segment.end());
        }
        if segment.is_empty() {
            since = at;
        }
        let body = Body::Data { off: segment.end(), bytes };
        segment.push(&Record { at: TsNs(1) + at, body })?;
    }
    file += segment.seal(DEFAULT_QUALITY, true).len();
    Ok(Figure::one(segment.end() as f64 / file as f64, "×"))
}
