//! Exports asciicasts (<https://docs.asciinema.org/manual/asciicast/v2/> and `v3`) in a single pass over the recording.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

use nerve_types::{ExitStatus, Size, TsNs};
use serde::Serialize;

use super::ExportError;
use super::utf8::Utf8Decoder;
use crate::ahr::{Body, DamagedRange, Mark, Part, Reader, Record};

/// Terminal type in the header.
const TERM: &str = "xterm-256color";

/// Version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastVersion {
    /// Version 2: times are relative to the start.
    V2,
    /// Version 3: times are relative to the previous event; the exit status is an event.
    V3,
}

/// Options of an export.
#[derive(Debug, Clone)]
pub struct CastOptions {
    /// Version of the format.
    pub version: CastVersion,
    /// Size until the first resize record.
    pub size: Size,
    /// The recorded command, quoted for a shell.
    pub command: Option<String>,
    /// Title of the cast.
    pub title: Option<String>,
    /// Include input. Passwords are not in a recording, but other secrets may be.
    pub input: bool,
}

impl CastOptions {
    /// Creates options for output only, at 120 × 40.
    pub fn new(version: CastVersion) -> CastOptions {
        CastOptions { version, size: Size::default(), command: None, title: None, input: false }
    }
}

/// Exports the rest of `reader` in constant memory.
///
/// # Errors
/// The recording cannot be read or the cast cannot be written.
pub fn cast<R: Read + Seek>(
    reader: &mut Reader<R>,
    options: CastOptions,
    out: impl Write,
    mut on_lost: impl FnMut(&DamagedRange),
) -> Result<(), ExportError> {
    let mut cast = CastWriter::new(options, out);
    while let Some(part) = reader.next()? {
        match part {
            Part::Block(block) => {
                for record in block.records() {
                    cast.record(&record)?;
                }
                block.damage().into_iter().for_each(&mut on_lost);
            }
            Part::Lost(lost) => on_lost(&lost),
        }
    }
    Ok(cast.finish()?)
}

/// Writes an asciicast.
struct CastWriter<W> {
    out: W,
    options: CastOptions,
    /// Time of the first record.
    start: Option<TsNs>,
    /// The latest time of any record: clocks can step back, casts must not.
    clock: TsNs,
    /// Microseconds from the start to the last event.
    written: u64,
    /// Expected output offset of the next record.
    offset: u64,
    output: Utf8Decoder,
    input: Utf8Decoder,
}

impl<W: Write> CastWriter<W> {
    /// Creates a writer. Writes nothing before the first record.
    fn new(options: CastOptions, out: W) -> CastWriter<W> {
        CastWriter {
            out,
            options,
            start: None,
            clock: TsNs::default(),
            written: 0,
            offset: 0,
            output: Utf8Decoder::default(),
            input: Utf8Decoder::default(),
        }
    }

    /// Writes a record: output as an `o` event, input as `i`, a resize as `r`, a snapshot as `m` with its label. Version 3
    /// also has the exit as `x`.
    fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        if self.start.is_none() {
            let is_resize = matches!(record.body, Body::Resize { .. });
            if let Body::Resize { cols, rows } = record.body {
                self.options.size = Size::new(cols, rows);
            }
            self.header(record.at)?;
            if is_resize {
                return Ok(());
            }
        }
        self.clock = self.clock.max(record.at);
        match record.body {
            Body::Data { off, bytes } => self.data(off, bytes),
            Body::Input { bytes } if self.options.input => {
                let text = self.input.push(bytes);
                self.event("i", &text)
            }
            Body::Resize { cols, rows } => {
                let Size { cols, rows } = Size::new(cols, rows);
                self.event("r", &format!("{cols}x{rows}"))
            }
            Body::Snapshot { label, .. } => self.write("m", &String::from_utf8_lossy(label)),
            Body::Mark(Mark::Exit(status)) => self.exit(status),
            Body::Input { .. } | Body::Mark(_) => Ok(()),
        }
    }

    /// Finishes the cast. An incomplete character is written as U+FFFD.
    fn finish(mut self) -> io::Result<()> {
        if self.start.is_none() {
            self.header(TsNs::default())?;
        }
        self.cut_off()?;
        let text = self.input.finish();
        self.event("i", &text)?;
        self.out.flush()
    }

    fn data(&mut self, off: u64, bytes: &[u8]) -> io::Result<()> {
        if off > self.offset {
            // The rest of a pending character is missing.
            self.cut_off()?;
        }
        self.offset = off.saturating_add(bytes.len() as u64);
        let text = self.output.push(bytes);
        self.event("o", &text)
    }

    fn cut_off(&mut self) -> io::Result<()> {
        let text = self.output.finish();
        self.event("o", &text)
    }

    fn exit(&mut self, status: ExitStatus) -> io::Result<()> {
        let Some(code) = status.shell_code() else { return Ok(()) };
        match self.options.version {
            CastVersion::V2 => Ok(()),
            CastVersion::V3 => self.event("x", &code.to_string()),
        }
    }

    /// Writes an event unless it is empty.
    fn event(&mut self, code: &str, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.write(code, text) }
    }

    fn write(&mut self, code: &str, text: &str) -> io::Result<()> {
        let since_start = self.clock.since(self.start.unwrap_or(self.clock));
        let micros = u64::try_from(since_start.as_micros()).unwrap_or(u64::MAX);
        let time = match self.options.version {
            CastVersion::V2 => micros,
            CastVersion::V3 => micros - self.written,
        };
        self.written = micros;
        write!(self.out, "[{}.{:06}, \"{code}\", ", time / 1_000_000, time % 1_000_000)?;
        serde_json::to_writer(&mut self.out, text)?;
        self.out.write_all(b"]\n")
    }

    fn header(&mut self, start: TsNs) -> io::Result<()> {
        (self.start, self.clock) = (Some(start), start);
        let Size { cols, rows } = self.options.size;
        let description = Description {
            timestamp: Some(start.0 / 1_000_000_000).filter(|seconds| *seconds > 0),
            command: self.options.command.as_deref(),
            title: self.options.title.as_deref(),
        };
        let header = match self.options.version {
            CastVersion::V2 => {
                let env = BTreeMap::from([("TERM", TERM)]);
                Header::V2 { version: 2, width: cols, height: rows, description, env }
            }
            CastVersion::V3 => Header::V3 { version: 3, term: Term { cols, rows, kind: TERM }, description },
        };
        serde_json::to_writer(&mut self.out, &header)?;
        self.out.write_all(b"\n")
    }
}

/// The first line of a cast.
#[derive(Serialize)]
#[serde(untagged)]
enum Header<'a> {
    V2 {
        version: u8,
        width: u16,
        height: u16,
        #[serde(flatten)]
        description: Description<'a>,
        env: BTreeMap<&'static str, &'static str>,
    },
    V3 {
        version: u8,
        term: Term,
        #[serde(flatten)]
        description: Description<'a>,
    },
}

/// The fields of both versions.
#[derive(Serialize)]
struct Description<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
struct Term {
    cols: u16,
    rows: u16,
    #[serde(rename = "type")]
    kind: &'static str,
}
