//! What is logged, and its JSON: fields, their order and spacing as in the examples of seed channel-history §4.2.

use std::io;

use jiff::Timestamp;
use nerve_term::event::TsNs;
use nerve_term::parse::{ParserKind, Section, Tokens};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A prompt and its parsed answer (seed §4.1, Send Entry).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendEntry<'a> {
    /// When the prompt was taken up.
    pub ts_start: TsNs,
    /// When the answer was complete.
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// What [`super::HistoryWriter::log_read`] returned for the capture made before the prompt; 0 counts as none.
    pub preceding_buffer_seq: Option<u64>,
    /// The answer.
    pub response: ResponseData,
}

/// A prompt whose answer was streamed: the text at the end stands for it, chunks are not logged (seed §4.1, NG1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendStreamEntry<'a> {
    /// When the prompt was taken up.
    pub ts_start: TsNs,
    /// When the stream ended.
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// What [`super::HistoryWriter::log_read`] returned for the capture made before the prompt; 0 counts as none.
    pub preceding_buffer_seq: Option<u64>,
    /// The last [`super::HISTORY_BUFFER_LINES`] lines when the stream ended.
    pub final_buffer: &'a str,
    /// The parser of the turn.
    pub parser: ParserKind,
}

/// The answer in a [`SendEntry`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseData {
    /// In the order they appeared.
    pub sections: Vec<Section>,
    /// Where the agent showed them.
    pub tokens: Option<Tokens>,
    /// The end of the turn was seen.
    pub is_complete: bool,
    /// The node waits for the next prompt.
    pub is_ready: bool,
}

/// Everything that can be logged.
pub(super) enum Operation<'a> {
    Send(SendEntry<'a>),
    SendStream(SendStreamEntry<'a>),
    Write { ts: TsNs, input: &'a str },
    Run { ts: TsNs, input: &'a str },
    Read { ts: TsNs, buffer: &'a str, lines: usize },
    Interrupt { ts: TsNs },
    Close { ts: TsNs, reason: Option<&'a str> },
}

impl Operation<'_> {
    fn op(&self) -> &'static str {
        match self {
            Operation::Send(_) => "send",
            Operation::SendStream(_) => "send_stream",
            Operation::Write { .. } => "write",
            Operation::Run { .. } => "run",
            Operation::Read { .. } => "read",
            Operation::Interrupt { .. } => "interrupt",
            Operation::Close { .. } => "close",
        }
    }

    /// Appends the entry's line, newline included, to `line`.
    pub(super) fn encode(&self, seq: u64, line: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        Record { seq, operation: self }
            .serialize(&mut serde_json::Serializer::with_formatter(&mut *line, Spaced))?;
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
        map.serialize_entry("op", self.operation.op())?;
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
            Operation::Close { ts, reason } => {
                map.serialize_entry("ts", &Iso(*ts))?;
                map.serialize_entry("reason", reason)?;
            }
        }
        map.end()
    }
}

/// A capture that failed returned 0: there is nothing to point at.
fn reference(seq: Option<u64>) -> Option<u64> {
    seq.filter(|&seq| seq > 0)
}

/// ISO 8601, UTC, milliseconds, `Z`.
struct Iso(TsNs);

impl Serialize for Iso {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A u64 of nanoseconds ends in the year 2554, well inside what a Timestamp holds.
        let time = Timestamp::from_nanosecond(i128::from(self.0.0)).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{time:.3}"))
    }
}

struct ResponseJson<'a>(&'a ResponseData);

impl Serialize for ResponseJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sections", &SectionsJson(&self.0.sections))?;
        map.serialize_entry("tokens", &self.0.tokens.and_then(TokensJson::new))?;
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
        // The seed's example leaves it out, its code writes it: written where there is something in it.
        if !self.0.metadata.is_empty() {
            map.serialize_entry("metadata", &self.0.metadata)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct TokensJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl TokensJson {
    fn new(tokens: Tokens) -> Option<TokensJson> {
        let Tokens { input, output, total } = tokens;
        (tokens != Tokens::default()).then_some(TokensJson { input, output, total })
    }
}

/// A blank after each colon and comma, as the first nerve writes: one `grep '"op": "send"'` finds old and new entries.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
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
