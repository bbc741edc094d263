//! Imports an asciicast (version 2 or 3, <https://docs.asciinema.org/manual/asciicast/v3/>) as a recording.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::time::Duration;

use nerve_types::{ExitStatus, Origin, Size, TsNs};
use serde::Deserialize;

use crate::ahr::{AhrError, Body, DEFAULT_QUALITY, Mark, Record, RecordError, Segment, Writer};
use crate::meta::{Host, Meta};

/// Maximum bytes of a line.
const MAX_LINE: u64 = 16 << 20;
/// Maximum output bytes of a record; well below the limit of a block.
const MAX_DATA: usize = 128 << 10;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportSummary {
    /// Version of the cast, 2 or 3.
    pub version: u8,
    /// Imported events.
    pub events: u64,
    /// Bytes of output.
    pub output: u64,
    /// Markers, imported as snapshots without files.
    pub snapshots: u64,
    /// Time from the first to the last event.
    pub duration: Duration,
}

/// Creates the recording `to` and its `meta.json` from a cast. `started` is the start time if the cast has none.
///
/// Imports output (`o`), input (`i`), resizes (`r`), the exit status (`x`) and markers (`m`), which become snapshots.
/// Events of other kinds are skipped, as the format requires.
///
/// # Errors
/// [`ImportError`], with the line number for an invalid event. `to` is never overwritten, and is removed if the import
/// fails.
pub fn import(cast: impl BufRead, to: &Path, started: TsNs) -> Result<ImportSummary, ImportError> {
    let mut lines = Lines { cast, number: 0, bytes: Vec::new() };
    let header = lines.header()?;
    let start = header.timestamp.map_or(started, |seconds| TsNs(seconds.saturating_mul(1_000_000_000)));
    let writer = Writer::create(to)?;
    let import = Importer {
        writer,
        segment: Segment::new(0),
        version: header.version,
        start,
        at: Duration::ZERO,
        done: ImportSummary { version: header.version, ..ImportSummary::default() },
    };
    import.run(&mut lines, header).inspect_err(|_| {
        // The cast is unchanged, so the partial recording can go.
        let _ = std::fs::remove_file(to);
    })
}

struct Importer {
    writer: Writer,
    segment: Segment,
    version: u8,
    start: TsNs,
    /// Time of the previous event.
    at: Duration,
    done: ImportSummary,
}

impl Importer {
    fn run(mut self, lines: &mut Lines<impl BufRead>, header: Header) -> Result<ImportSummary, ImportError> {
        let Size { cols, rows } = header.size;
        self.push(Body::Resize { cols, rows }).map_err(|error| lines.bad(error.to_string()))?;
        while let Some(event) = lines.event()? {
            self.event(&event).map_err(|problem| match problem {
                EventError::Line(reason) => lines.bad(reason),
                EventError::Io(error) => self.write_error(error),
            })?;
        }
        let last = self.segment.seal(DEFAULT_QUALITY, true);
        let written = self.writer.append(&last).and_then(|()| self.writer.sync());
        written.map_err(|error| self.write_error(error))?;
        let meta = Meta {
            started_at: self.start,
            ended_at: Some(self.start + self.at),
            cmd: header.command.map(|command| vec!["sh".into(), "-c".into(), command]).unwrap_or_default(),
            cols,
            rows,
            host: Host::this(),
            title: header.title,
            ..Meta::default()
        };
        meta.store(self.writer.path()).map_err(|error| self.write_error(error))?;
        Ok(ImportSummary { duration: self.at, ..self.done })
    }

    fn event(&mut self, Event(time, code, text): &Event) -> Result<(), EventError> {
        let time = Duration::try_from_secs_f64(*time)
            .map_err(|_| EventError::Line(format!("invalid event time {time}")))?;
        // Version 3 has times relative to the previous event. Version 2 has times since the start, which must not
        // decrease.
        self.at = if self.version == 3 { self.at.saturating_add(time) } else { self.at.max(time) };
        match code.as_str() {
            "o" => {
                for piece in text.as_bytes().chunks(MAX_DATA) {
                    self.add(Body::Data { off: self.segment.end(), bytes: piece })?;
                }
                self.done.output += text.len() as u64;
            }
            "i" => {
                self.add(Body::Mark(Mark::Input { origin: Origin::User, redacted: false }))?;
                self.add(Body::Input { bytes: text.as_bytes() })?;
            }
            "r" => {
                let size =
                    parse_size(text).ok_or_else(|| EventError::Line(format!("invalid size {text:?}")))?;
                self.add(Body::Resize { cols: size.cols, rows: size.rows })?;
            }
            "m" => {
                self.done.snapshots += 1;
                let anchor = self.segment.end();
                self.add(Body::Snapshot { id: self.done.snapshots, anchor, label: text.as_bytes() })?;
            }
            "x" => {
                let code: i32 =
                    text.parse().map_err(|_| EventError::Line(format!("invalid exit status {text:?}")))?;
                self.add(Body::Mark(Mark::Exit(ExitStatus::Code(code))))?;
            }
            _ => return Ok(()),
        }
        self.done.events += 1;
        Ok(())
    }

    fn add(&mut self, body: Body<'_>) -> Result<(), EventError> {
        self.push(body).map_err(|error| EventError::Line(error.to_string()))?;
        if self.segment.is_full() {
            self.writer.append(&self.segment.seal(DEFAULT_QUALITY, false)).map_err(EventError::Io)?;
            self.segment = Segment::new(self.segment.end());
        }
        Ok(())
    }

    fn push(&mut self, body: Body<'_>) -> Result<(), RecordError> {
        self.segment.push(&Record { at: self.start + self.at, body })
    }

    fn write_error(&self, source: io::Error) -> ImportError {
        AhrError::Io { action: "write to", path: self.writer.path().into(), source }.into()
    }
}

enum EventError {
    Line(String),
    Io(io::Error),
}

/// The first line of a cast.
struct Header {
    version: u8,
    size: Size,
    /// Seconds since the Unix epoch.
    timestamp: Option<u64>,
    command: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct RawHeader {
    version: u8,
    width: Option<u16>,
    height: Option<u16>,
    term: Option<RawTerm>,
    timestamp: Option<f64>,
    command: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct RawTerm {
    cols: u16,
    rows: u16,
}

/// Time in seconds, code, data.
#[derive(Deserialize)]
struct Event(f64, String, String);

struct Lines<R> {
    cast: R,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn header(&mut self) -> Result<Header, ImportError> {
        if !self.advance()? {
            return Err(ImportError::NoCast("it is empty".into()));
        }
        let raw: RawHeader = serde_json::from_slice(&self.bytes)
            .map_err(|error| ImportError::NoCast(format!("invalid header: {error}")))?;
        let size = match (raw.version, raw.width, raw.height, raw.term) {
            (2, Some(cols), Some(rows), _) | (3, _, _, Some(RawTerm { cols, rows })) => Size::new(cols, rows),
            (2 | 3, ..) => return Err(ImportError::NoCast("its header has no size".into())),
            (version, ..) => return Err(ImportError::Version(version)),
        };
        // Some version 2 files have a fraction.
        let timestamp = raw.timestamp.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Header {
            version: raw.version,
            size,
            timestamp: timestamp.map(|time| time.as_secs()),
            command: raw.command,
            title: raw.title,
        })
    }

    /// Returns the next event; skips empty lines and comments.
    fn event(&mut self) -> Result<Option<Event>, ImportError> {
        while self.advance()? {
            let text = self.bytes.trim_ascii();
            if !text.is_empty() && text[0] != b'#' {
                return serde_json::from_slice(text).map(Some).map_err(|error| self.bad(error.to_string()));
            }
        }
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, ImportError> {
        self.bytes.clear();
        self.number += 1;
        let read = self.cast.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.bytes);
        let len = read.map_err(ImportError::Read)?;
        if len as u64 == MAX_LINE && self.bytes.last() != Some(&b'\n') {
            return Err(self.bad(format!("it is longer than {MAX_LINE} bytes")));
        }
        Ok(len > 0)
    }

    fn bad(&self, reason: String) -> ImportError {
        ImportError::Line { number: self.number, reason }
    }
}

/// Parses a size such as `80x24`.
fn parse_size(text: &str) -> Option<Size> {
    let (cols, rows) = text.split_once('x')?;
    Some(Size::new(cols.parse().ok()?, rows.parse().ok()?))
}

/// A cast that cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input is not an asciicast.
    #[error("not an asciicast: {0}")]
    NoCast(String),
    /// The version is unsupported.
    #[error("unsupported asciicast version {0}: use 2 or 3 (`asciinema convert` converts others)")]
    Version(u8),
    /// A line is not a valid event.
    #[error("line {number} is not an event: {reason}")]
    Line {
        /// Line number; the header is line 1.
        number: u64,
        /// The cause.
        reason: String,
    },
    /// The cast cannot be read.
    #[error("cannot read the cast: {0}")]
    Read(io::Error),
    /// The recording cannot be written.
    #[error(transparent)]
    Write(#[from] AhrError),
}
