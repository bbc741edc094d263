//! One record of a recording and its encoding.

use nerve_types::{ExitStatus, Origin, TsNs};

const DATA: u8 = 0;
const RESIZE: u8 = 1;
const INPUT: u8 = 2;
const MARK: u8 = 3;
const SNAPSHOT: u8 = 4;

/// Tag, 3 bytes of padding, time.
const PREFIX_LEN: usize = 12;

/// One event on the recorded terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since the Unix epoch. Decreases if the clock was set back.
    pub at: TsNs,
    /// The event.
    pub body: Body<'a>,
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// Output of the child.
    Data {
        /// Output offset of the first byte.
        off: u64,
        /// The bytes as read from the terminal.
        bytes: &'a [u8],
    },
    /// The terminal was resized.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Bytes written to the child; a preceding [`Mark::Input`] has their origin.
    Input {
        /// The bytes; replaced by others of the same length if the terminal's echo was off.
        bytes: &'a [u8],
    },
    /// A note by the recorder.
    Mark(Mark),
    /// A snapshot was taken.
    Snapshot {
        /// The snapshot's number.
        id: u64,
        /// Output bytes before it.
        anchor: u64,
        /// Label in UTF-8, at most 65,535 bytes; empty for none.
        label: &'a [u8],
    },
}

/// A note by the recorder: `code` and `val` of a MARK record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Code 1: the origin of the INPUT record that follows. Bits 0–7 of the value are the origin, bit 8 is `redacted`.
    Input {
        /// The origin.
        origin: Origin,
        /// Echo was off: the length is correct, the content is replaced.
        redacted: bool,
    },
    /// Code 2: the child exited. The value is its exit code, or 256 plus the signal, or all ones if unknown.
    Exit(ExitStatus),
    /// Code 3: output is missing. 0: unknown reason, 1: reattached to a foreign terminal, 2: repaired,
    /// 3: the disk was full.
    Gap(u32),
    /// Any other code, preserved as it is.
    Other {
        /// The code.
        code: u32,
        /// The value.
        val: u32,
    },
}

impl Mark {
    /// A [`Mark::Gap`] inserted by [`super::repair`].
    pub const GAP_REPAIRED: Mark = Mark::Gap(2);

    const INPUT: u32 = 1;
    const EXIT: u32 = 2;
    const GAP: u32 = 3;
    const REDACTED: u32 = 0x100;
    const SIGNAL: u32 = 0x100;
    const UNKNOWN: u32 = u32::MAX;

    /// Decodes the two numbers of a mark. Unknown numbers become a [`Mark::Other`].
    pub fn from_parts(code: u32, val: u32) -> Mark {
        let mark = match code {
            Mark::INPUT => decode_origin(val & !Mark::REDACTED)
                .map(|origin| Mark::Input { origin, redacted: val & Mark::REDACTED != 0 }),
            Mark::EXIT => decode_exit(val).map(Mark::Exit),
            Mark::GAP => Some(Mark::Gap(val)),
            _ => None,
        };
        mark.unwrap_or(Mark::Other { code, val })
    }

    /// Returns code and value. An invalid exit code (over 255) becomes unknown.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Mark::Input { origin, redacted } => {
                (Mark::INPUT, origin_number(origin) | if redacted { Mark::REDACTED } else { 0 })
            }
            Mark::Exit(status) => (Mark::EXIT, number_of_exit(status)),
            Mark::Gap(reason) => (Mark::GAP, reason),
            Mark::Other { code, val } => (code, val),
        }
    }
}

fn decode_origin(number: u32) -> Option<Origin> {
    [Origin::User, Origin::Api, Origin::Injected, Origin::Terminal]
        .into_iter()
        .find(|&origin| origin_number(origin) == number)
}

fn origin_number(origin: Origin) -> u32 {
    match origin {
        Origin::User => 0,
        Origin::Api => 1,
        Origin::Injected => 2,
        Origin::Terminal => 3,
    }
}

fn decode_exit(val: u32) -> Option<ExitStatus> {
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
    /// Returns the record's length in a segment.
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

    /// Appends the encoded record to `out`.
    ///
    /// # Errors
    /// [`RecordError`] if a length does not fit its field; nothing is appended.
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

    /// Decodes the record at the start of `bytes` and returns its length.
    ///
    /// # Errors
    /// [`RecordFault`] unless a complete record of a known kind is there.
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

/// The bytes not yet decoded.
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

/// A record that cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A label does not fit its 16-bit length field.
    #[error("a snapshot label of {len} bytes exceeds the limit of 65,535")]
    Label {
        /// Bytes of the label.
        len: usize,
    },
    /// A payload does not fit its 32-bit length field.
    #[error("{len} bytes exceed the limit of one record")]
    Bytes {
        /// Bytes of the payload.
        len: usize,
    },
    /// The segment would exceed [`super::MAX_SEGMENT`].
    #[error("a record of {len} bytes exceeds the block limit of {} bytes", super::MAX_SEGMENT)]
    Segment {
        /// Bytes of the record.
        len: usize,
    },
}

/// Bytes that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// An unknown kind of record, hence of unknown length.
    #[error("a record has the unknown tag {0}")]
    UnknownTag(u8),
    /// The record is incomplete.
    #[error("the last record is cut short")]
    CutShort,
}
