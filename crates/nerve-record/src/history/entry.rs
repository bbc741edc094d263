//! The logged operations and their JSON encoding.

use std::io;

use jiff::Timestamp;
use nerve_types::{HistoryOp, ParserKind, Section, Tokens, TsNs};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A prompt and its parsed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendEntry<'a> {
    /// Start of the turn.
    pub ts_start: TsNs,
    /// End of the answer.
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// Sequence number, from [`super::HistoryWriter::log_read`], of the capture made before the prompt; 0 counts as
    /// none.
    pub preceding_buffer_seq: Option<u64>,
    /// The answer.
    pub response: ResponseData,
}

/// A prompt with a streamed answer. Only the final text is logged, not the chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendStreamEntry<'a> {
    /// Start of the turn.
    pub ts_start: TsNs,
    /// End of the stream.
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// Sequence number, from [`super::HistoryWriter::log_read`], of the capture made before the prompt; 0 counts as
    /// none.
    pub preceding_buffer_seq: Option<u64>,
    /// The last [`super::HISTORY_BUFFER_LINES`] lines at the end of the stream.
    pub final_buffer: &'a str,
    /// The parser used for the turn.
    pub parser: ParserKind,
}

/// The answer in a [`SendEntry`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseData {
    /// Sections in the order of the answer.
    pub sections: Vec<Section>,
    /// Token usage, if the agent showed it.
    pub tokens: Option<Tokens>,
    /// The end of the turn was detected.
    pub is_complete: bool,
    /// The node is ready for the next prompt.
    pub is_ready: bool,
}

/// The client that requested an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedBy<'a> {
    /// The client: its process, or its address.
    pub client: &'a str,
    /// The transport of its connection.
    pub transport: &'a str,
}

/// An operation that can be logged.
pub(super) enum Operation<'a> {
    Send(SendEntry<'a>),
    SendStream(SendStreamEntry<'a>),
    Write { ts: TsNs, input: &'a str },
    Run { ts: TsNs, input: &'a str },
    Read { ts: TsNs, buffer: &'a str, lines: usize },
    Interrupt { ts: TsNs },
    Answer { ts: TsNs, dialog: &'a str, choice: &'a str, by: RequestedBy<'a> },
    Cancel { ts: TsNs, dialog: Option<&'a str>, input: Option<&'a str>, by: RequestedBy<'a> },
    Unsent { ts: TsNs, input: &'a str, reason: &'a str, by: RequestedBy<'a> },
    Close { ts: TsNs, reason: Option<&'a str> },
}

impl Operation<'_> {
    fn op(&self) -> HistoryOp {
        match self {
            Operation::Send(_) => HistoryOp::Send,
            Operation::SendStream(_) => HistoryOp::SendStream,
            Operation::Write { .. } => HistoryOp::Write,
            Operation::Run { .. } => HistoryOp::Run,
            Operation::Read { .. } => HistoryOp::Read,
            Operation::Interrupt { .. } => HistoryOp::Interrupt,
            Operation::Answer { .. } => HistoryOp::Answer,
            Operation::Cancel { .. } => HistoryOp::Cancel,
            Operation::Unsent { .. } => HistoryOp::Unsent,
            Operation::Close { .. } => HistoryOp::Close,
        }
    }

    /// Appends the entry's line with a newline to `line`.
    pub(super) fn encode(&self, seq: u64, line: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        Record { seq, operation: self }
            .serialize(&mut serde_json::Serializer::with_formatter(&mut *line, SpacedFormatter))?;
        line.push(b'\n');
        Ok(())
    }
}

struct Record<'a> {
    seq: u64,
    operation: &'a Operation<'a>,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("op", &self.operation.op())?;
        match self.operation {
            Operation::Send(send) => {
                map.serialize_entry("ts_start", &Iso(send.ts_start))?;
                map.serialize_entry("ts_end", &Iso(send.ts_end))?;
                map.serialize_entry("input", send.input)?;
                map.serialize_entry("preceding_buffer_seq", &reference(send.preceding_buffer_seq))?;
                map.serialize_entry("response", &ResponseJson(&send.response))?;
            }
            Operation::SendStream(send) => {
                map.serialize_entry("ts_start", &Iso(send.ts_start))?;
                map.serialize_entry("ts_end", &Iso(send.ts_end))?;
                map.serialize_entry("input", send.input)?;
                map.serialize_entry("preceding_buffer_seq", &reference(send.preceding_buffer_seq))?;
                map.serialize_entry("final_buffer", send.final_buffer)?;
                map.serialize_entry("parser", send.parser.as_str())?;
            }
            Operation::Write { ts, input } | Operation::Run { ts, input } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("input", input)?;
            }
            Operation::Read { ts, buffer, lines } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("buffer", buffer)?;
                map.serialize_entry("lines", lines)?;
            }
            Operation::Interrupt { ts } => map.serialize_entry("ts", &Iso(*ts))?,
            Operation::Answer { ts, dialog, choice, by } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("dialog", dialog)?;
                map.serialize_entry("choice", choice)?;
                serialize_requester(&mut map, by)?;
            }
            Operation::Cancel { ts, dialog, input, by } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("dialog", dialog)?;
                map.serialize_entry("input", input)?;
                serialize_requester(&mut map, by)?;
            }
            Operation::Unsent { ts, input, reason, by } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("input", input)?;
                map.serialize_entry("reason", reason)?;
                serialize_requester(&mut map, by)?;
            }
            Operation::Close { ts, reason } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("reason", reason)?;
            }
        }
        map.end()
    }
}

fn serialize_requester<M: SerializeMap>(map: &mut M, by: &RequestedBy<'_>) -> Result<(), M::Error> {
    map.serialize_entry("client", by.client)?;
    map.serialize_entry("transport", by.transport)
}

/// A capture that failed has the number 0 and cannot be referenced.
fn reference(seq: Option<u64>) -> Option<u64> {
    seq.filter(|&seq| seq > 0)
}

/// ISO 8601, UTC, milliseconds, `Z`.
struct Iso(TsNs);

impl Serialize for Iso {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A u64 of nanoseconds ends in the year 2554, well within the range of a Timestamp.
        let time = Timestamp::from_nanosecond(i128::from(self.0.0)).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{time:.3}"))
    }
}

struct ResponseJson<'a>(&'a ResponseData);

impl Serialize for ResponseJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sections", &SectionsJson(&self.0.sections))?;
        map.serialize_entry("tokens", &self.0.tokens.filter(|tokens| *tokens != Tokens::default()))?;
        map.serialize_entry("is_complete", &self.0.is_complete)?;
        map.serialize_entry("is_ready", &self.0.is_ready)?;
        map.end()
    }
}

struct SectionsJson<'a>(&'a [Section]);

impl Serialize for SectionsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(SectionJson))
    }
}

struct SectionJson<'a>(&'a Section);

impl Serialize for SectionJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.0.kind.as_str())?;
        map.serialize_entry("content", &self.0.content)?;
        // Omitted if empty.
        if !self.0.metadata.is_empty() {
            map.serialize_entry("metadata", &self.0.metadata)?;
        }
        map.end()
    }
}

/// Writes a blank after each colon and comma, as older versions did, so that `grep '"op": "send"'` finds all entries.
struct SpacedFormatter;

impl serde_json::ser::Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
