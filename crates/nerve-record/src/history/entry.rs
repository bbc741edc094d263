//! The logged operations and their JSON encoding.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use nerve_types::{ParserKind, Section, SectionKind, Tokens, TsNs};
use serde::{Deserialize, Serialize, Serializer};

/// A prompt and its parsed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SendEntry<'a> {
    /// Start of the turn.
    #[serde(serialize_with = "iso")]
    pub ts_start: TsNs,
    /// End of the answer.
    #[serde(serialize_with = "iso")]
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// Sequence number, from [`Operation::Read`], of the capture made before the prompt; 0 counts as
    /// none.
    #[serde(serialize_with = "reference")]
    pub preceding_buffer_seq: Option<u64>,
    /// The answer.
    pub response: ResponseData,
    /// Usage of a model's API, if the node calls one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<LoggedUsage>,
}

/// Usage of a model's API in a turn, failed attempts included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedUsage {
    /// The model that answered.
    pub model: String,
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// A prompt with a streamed answer. Only the final text is logged, not the chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SendStreamEntry<'a> {
    /// Start of the turn.
    #[serde(serialize_with = "iso")]
    pub ts_start: TsNs,
    /// End of the stream.
    #[serde(serialize_with = "iso")]
    pub ts_end: TsNs,
    /// The prompt.
    pub input: &'a str,
    /// Sequence number, from [`Operation::Read`], of the capture made before the prompt; 0 counts as
    /// none.
    #[serde(serialize_with = "reference")]
    pub preceding_buffer_seq: Option<u64>,
    /// The last [`super::HISTORY_BUFFER_LINES`] lines at the end of the stream.
    pub final_buffer: &'a str,
    /// The parser used for the turn.
    pub parser: ParserKind,
    /// Usage of a model's API, if the node calls one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<LoggedUsage>,
}

/// The answer in a [`SendEntry`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ResponseData {
    /// Sections in the order of the answer.
    #[serde(serialize_with = "sections")]
    pub sections: Vec<Section>,
    /// Token usage, if the agent showed it.
    #[serde(serialize_with = "known_tokens")]
    pub tokens: Option<Tokens>,
    /// The end of the turn was detected.
    pub is_complete: bool,
    /// The node is ready for the next prompt.
    pub is_ready: bool,
}

/// The client that requested an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RequestedBy<'a> {
    /// The client: its process, or its address.
    pub client: &'a str,
    /// The transport of its connection.
    pub transport: &'a str,
}

/// An operation that can be logged. The fields are in the order of the log's lines.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation<'a> {
    /// A prompt and its parsed answer.
    Send(SendEntry<'a>),
    /// A prompt and the final text of its streamed answer.
    SendStream(SendStreamEntry<'a>),
    /// Raw data written to the terminal.
    Write {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// The data.
        input: &'a str,
    },
    /// A command that was typed without waiting for its end.
    Run {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// The command.
        input: &'a str,
    },
    /// A capture of the screen text.
    Read {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// The text.
        buffer: &'a str,
        /// The requested number of lines, usually [`super::HISTORY_BUFFER_LINES`].
        lines: usize,
    },
    /// An interrupt.
    Interrupt {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
    },
    /// The answer to a dialog.
    Answer {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// Kind of the dialog.
        dialog: &'a str,
        /// The choice.
        choice: &'a str,
        /// The client.
        #[serde(flatten)]
        by: RequestedBy<'a>,
    },
    /// A dialog was closed without an answer, or a prompt or its turn was cancelled.
    Cancel {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// Kind of the dialog.
        dialog: Option<&'a str>,
        /// The prompt.
        input: Option<&'a str>,
        /// The client.
        #[serde(flatten)]
        by: RequestedBy<'a>,
    },
    /// A prompt that was never typed.
    Unsent {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// The prompt.
        input: &'a str,
        /// Reason why it was not typed.
        reason: &'a str,
        /// The client.
        #[serde(flatten)]
        by: RequestedBy<'a>,
    },
    /// The end of the node.
    Close {
        /// Time of the operation.
        #[serde(serialize_with = "iso")]
        ts: TsNs,
        /// The reason, if known.
        reason: Option<&'a str>,
    },
}

impl Operation<'_> {
    /// Appends the entry's line with a newline to `line`.
    pub(super) fn encode(&self, seq: u64, line: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let mut serializer = serde_json::Serializer::with_formatter(&mut *line, SpacedFormatter);
        Record { seq, operation: self }.serialize(&mut serializer)?;
        line.push(b'\n');
        Ok(())
    }
}

/// A line of the log.
#[derive(Serialize)]
struct Record<'a> {
    seq: u64,
    #[serde(flatten)]
    operation: &'a Operation<'a>,
}

/// A section without its metadata if that is empty.
#[derive(Serialize)]
struct SectionRecord<'a> {
    #[serde(rename = "type")]
    kind: SectionKind,
    content: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
}

fn sections<S: Serializer>(sections: &[Section], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(sections.iter().map(|Section { kind, content, metadata }| SectionRecord {
        kind: *kind,
        content,
        metadata,
    }))
}

/// Tokens without any count are unknown.
fn known_tokens<S: Serializer>(tokens: &Option<Tokens>, to: S) -> Result<S::Ok, S::Error> {
    tokens.filter(|tokens| *tokens != Tokens::default()).serialize(to)
}

/// A capture that failed has the number 0 and cannot be referenced.
fn reference<S: Serializer>(seq: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    seq.filter(|seq| *seq > 0).serialize(to)
}

/// ISO 8601, UTC, milliseconds, `Z`.
fn iso<S: Serializer>(time: &TsNs, to: S) -> Result<S::Ok, S::Error> {
    // A u64 of nanoseconds ends in the year 2554, well within the range of a Timestamp.
    let time = Timestamp::from_nanosecond(i128::from(time.0)).map_err(serde::ser::Error::custom)?;
    to.collect_str(&format_args!("{time:.3}"))
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
