//! One record of a recording and its bytes (seed agent-record §5.1.2).

use nerve_term::event::{ExitStatus, Origin, TsNs};

const DATA: u8 = 0;
const RESIZE: u8 = 1;
const INPUT: u8 = 2;
const MARK: u8 = 3;
const SNAPSHOT: u8 = 4;

/// tag, 3 bytes of padding, time.
const PREFIX_LEN: usize = 12;

/// Something that happened on the recorded terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When: nanoseconds since the Unix epoch. A clock that was set back makes it fall.
    pub at: TsNs,
    /// What.
    pub body: Body<'a>,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// Output of the child.
    Data {
        /// Output bytes before these.
        off: u64,
        /// The bytes, as they came from the terminal.
        bytes: &'a [u8],
    },
    /// The terminal has this size from here on.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Bytes written to the child; a [`Mark::Input`] before it says by whom.
    Input {
        /// The bytes; where the terminal had its echo off, others of the same length.
        bytes: &'a [u8],
    },
    /// A note of the recorder.
    Mark(Mark),
    /// The files were snapshotted here.
    Snapshot {
        /// Number of the snapshot, as its taker gave it.
        id: u64,
        /// Output bytes before it.
        anchor: u64,
        /// Its name in UTF-8, at most 65,535 bytes; empty for none.
        label: &'a [u8],
    },
}

/// A note of the recorder: `code` and `val` of a MARK record, which the seed leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Code 1: who typed the INPUT record that follows. Bits 0–7 of the value are the origin, bit 8 tells `redacted`.
    Input {
        /// Who typed it.
        origin: Origin,
        /// The terminal's echo was off: the length is true, the content is not.
        redacted: bool,
    },
    /// Code 2: the child ended. The value is its exit code, or 256 plus the signal, or all ones when unknown.
    Exit(ExitStatus),
    /// Code 3: output is missing here. 0 for no known reason, 1 reattached to a terminal owned by somebody else, 2 repaired.
    Gap(u32),
    /// Any other: kept as it is.
    Other {
        /// What kind of note.
        code: u32,
        /// Its value.
        val: u32,
    },
}

impl Mark {
    /// [`Mark::Gap`] made by [`super::repair`].
    pub const GAP_REPAIRED: Mark = Mark::Gap(2);

    const INPUT: u32 = 1;
    const EXIT: u32 = 2;
    const GAP: u32 = 3;
    const REDACTED: u32 = 0x100;
    const SIGNAL: u32 = 0x100;
    const UNKNOWN: u32 = u32::MAX;

    /// The mark of a record's two numbers. Numbers without a meaning make a [`Mark::Other`].
    pub fn from_parts(code: u32, val: u32) -> Mark {
        let known = match code {
            Mark::INPUT => origin_of(val & !Mark::REDACTED)
                .map(|origin| Mark::Input { origin, redacted: val & Mark::REDACTED != 0 }),
            Mark::EXIT => exit_of(val).map(Mark::Exit),
            Mark::GAP => Some(Mark::Gap(val)),
            _ => None,
        };
        known.unwrap_or(Mark::Other { code, val })
    }

    /// Code and value on disk. An exit status that cannot be one (a code over 255) is unknown.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Mark::Input { origin, redacted } => {
                (Mark::INPUT, number_of(origin) | if redacted { Mark::REDACTED } else { 0 })
            }
            Mark::Exit(status) => (Mark::EXIT, number_of_exit(status)),
            Mark::Gap(reason) => (Mark::GAP, reason),
            Mark::Other { code, val } => (code, val),
        }
    }
}

fn origin_of(number: u32) -> Option<Origin> {
    [Origin::User, Origin::Api, Origin::Injected, Origin::Terminal]
        .into_iter()
        .find(|&origin| number_of(origin) == number)
}

fn number_of(origin: Origin) -> u32 {
    match origin {
        Origin::User => 0,
        Origin::Api => 1,
        Origin::Injected => 2,
        Origin::Terminal => 3,
    }
}

fn exit_of(val: u32) -> Option<ExitStatus> {
    match val {
        Mark::UNKNOWN => Some(ExitStatus::Unknown),
        0..=0xFF => i32::try_from(val).ok().map(ExitStatus::Code),
        0x100..=0x1FF => i32::try_from(val - Mark::SIGNAL).ok().map(ExitStatus::Signal),
        _ => None,
    }
}

fn number_of_exit(status: ExitStatus) -> u32 {
    let byte = |number: i32| u8::try_from(number).ok().map(u32::from);
    match status {
        ExitStatus::Code(code) => byte(code),
        ExitStatus::Signal(signal) => byte(signal).map(|signal| Mark::SIGNAL + signal),
        ExitStatus::Unknown => None,
    }
    .unwrap_or(Mark::UNKNOWN)
}

impl<'a> Record<'a> {
    /// Bytes of the record in a segment.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN
            + match self.body {
                Body::Data { bytes, .. } => 12 + bytes.len(),
                Body::Resize { .. } => 4,
                Body::Input { bytes } => 4 + bytes.len(),
                Body::Mark(_) => 8,
                Body::Snapshot { label, .. } => 18 + label.len(),
            }
    }

    /// Appends the record's bytes to `out`.
    ///
    /// # Errors
    /// [`RecordError`] when a length does not fit the field it goes into; nothing is appended.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        match self.body {
            Body::Data { off, bytes } => {
                let len = length(bytes)?;
                self.prefix(DATA, out);
                out.extend(off.to_le_bytes());
                out.extend(len.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Body::Resize { cols, rows } => {
                self.prefix(RESIZE, out);
                out.extend(cols.to_le_bytes());
                out.extend(rows.to_le_bytes());
            }
            Body::Input { bytes } => {
                let len = length(bytes)?;
                self.prefix(INPUT, out);
                out.extend(len.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Body::Mark(mark) => {
                let (code, val) = mark.parts();
                self.prefix(MARK, out);
                out.extend(code.to_le_bytes());
                out.extend(val.to_le_bytes());
            }
            Body::Snapshot { id, anchor, label } => {
                let len = u16::try_from(label.len()).map_err(|_| RecordError::Label { len: label.len() })?;
                self.prefix(SNAPSHOT, out);
                out.extend(id.to_le_bytes());
                out.extend(anchor.to_le_bytes());
                out.extend(len.to_le_bytes());
                out.extend_from_slice(label);
            }
        }
        Ok(())
    }

    fn prefix(&self, tag: u8, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        out.extend([tag, 0, 0, 0]);
        out.extend(self.at.0.to_le_bytes());
    }

    /// Reads the record at the start of `bytes` and says how long it is there.
    ///
    /// # Errors
    /// [`RecordFault`] when there is no whole record of a known kind.
    pub fn decode(bytes: &'a [u8]) -> Result<(Record<'a>, usize), RecordFault> {
        let mut fields = Fields(bytes);
        let [tag, _, _, _] = fields.array()?;
        let at = TsNs(fields.u64()?);
        let body = match tag {
            DATA => {
                let off = fields.u64()?;
                let len = fields.u32()?;
                Body::Data { off, bytes: fields.take(len as usize)? }
            }
            RESIZE => Body::Resize { cols: fields.u16()?, rows: fields.u16()? },
            INPUT => {
                let len = fields.u32()?;
                Body::Input { bytes: fields.take(len as usize)? }
            }
            MARK => Body::Mark(Mark::from_parts(fields.u32()?, fields.u32()?)),
            SNAPSHOT => {
                let (id, anchor) = (fields.u64()?, fields.u64()?);
                let len = fields.u16()?;
                Body::Snapshot { id, anchor, label: fields.take(usize::from(len))? }
            }
            tag => return Err(RecordFault::UnknownTag(tag)),
        };
        Ok((Record { at, body }, bytes.len() - fields.0.len()))
    }
}

fn length(bytes: &[u8]) -> Result<u32, RecordError> {
    u32::try_from(bytes.len()).map_err(|_| RecordError::Bytes { len: bytes.len() })
}

/// What is left of the bytes being read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], RecordFault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(RecordFault::CutShort)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RecordFault::CutShort)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, RecordFault> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, RecordFault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, RecordFault> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// A record that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The format has 16 bits for a label's length.
    #[error("a snapshot's label of {len} bytes is longer than the 65,535 a recording can keep")]
    Label {
        /// Bytes of the label.
        len: usize,
    },
    /// The format has 32 bits for the length of output or input.
    #[error("{len} bytes are more than one record can keep")]
    Bytes {
        /// Bytes that were to be recorded.
        len: usize,
    },
    /// The record would make the segment longer than [`super::MAX_SEGMENT`], which no reader takes.
    #[error("a record of {len} bytes does not fit into its block of {} bytes at most", super::MAX_SEGMENT)]
    Segment {
        /// Bytes of the record.
        len: usize,
    },
}

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// A kind of record that is not known here: its length is not known either.
    #[error("a record has the unknown tag {0}")]
    UnknownTag(u8),
    /// The record goes on beyond the end of the bytes.
    #[error("the last record is cut short")]
    CutShort,
}
