//! The snapshot socket's messages (seed agent-record §8): a program in the recorded terminal asks, the recorder answers when the
//! snapshot is safely in the recording.

use super::SszError;
use super::container::{Field, Value, join, number, selected, split};
use super::frame::{MAX_MESSAGE, encode_frame};

/// The most bytes a label may have: its length is a u16 in the recording. A frame has room for [`MAX_LABEL_IN_FRAME`].
pub const MAX_LABEL: usize = u16::MAX as usize;

/// The most bytes of label that fit a frame of [`MAX_MESSAGE`] beside selector, id and offset. What a caller should check.
pub const MAX_LABEL_IN_FRAME: usize = MAX_MESSAGE - (1 + size_of::<u64>() + size_of::<u32>());

/// What is asked of a recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Note a snapshot at the byte offset all output so far leads to.
    Snapshot {
        /// The snapshot's number; the answer repeats it.
        id: u64,
        /// UTF-8 by convention, at most [`MAX_LABEL`] bytes; empty when there is none.
        label: Vec<u8>,
    },
}

/// What a recorder answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The snapshot is in the recording and on disk.
    Success {
        /// As in the request.
        id: u64,
        /// Output bytes before the snapshot.
        anchor: u64,
        /// When it was noted; nanoseconds since the Unix epoch.
        at_ns: u64,
    },
    /// It is not.
    Error {
        /// Why; for people.
        message: String,
    },
}

const SNAPSHOT: [Field; 2] = [Field::Number, Field::Variable];
const SUCCESS: [Field; 3] = [Field::Number, Field::Number, Field::Number];

impl Request {
    /// The body, without its length.
    pub fn encode(&self) -> Vec<u8> {
        let Request::Snapshot { id, label } = self;
        join(0, [Value::Number(*id), Value::Bytes(label)])
    }

    /// The whole frame.
    ///
    /// # Errors
    /// [`SszError::TooLong`] for a label of more than [`MAX_LABEL_IN_FRAME`] bytes.
    pub fn frame(&self) -> Result<Vec<u8>, SszError> {
        encode_frame(&self.encode(), MAX_MESSAGE)
    }

    /// Reads a body. It borrows nothing and allocates the label only.
    ///
    /// # Errors
    /// [`SszError`]: another selector, a bad length or offset, a label over [`MAX_LABEL`] bytes. The recorder answers with the
    /// error's text and can read on.
    pub fn decode(body: &[u8]) -> Result<Request, SszError> {
        match selected(body)? {
            (0, rest) => {
                let [id, label] = split(rest, SNAPSHOT)?;
                if label.len() > MAX_LABEL {
                    return Err(SszError::LabelTooLong { length: label.len() });
                }
                Ok(Request::Snapshot { id: number(id)?, label: label.to_vec() })
            }
            (selector, _) => Err(SszError::Selector { union: "a request", selector }),
        }
    }
}

impl Response {
    /// The body, without its length. A message is cut so that a frame takes it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Response::Success { id, anchor, at_ns } => {
                join(0, [Value::Number(*id), Value::Number(*anchor), Value::Number(*at_ns)])
            }
            // No container: the variant is the list of bytes itself.
            Response::Error { message } => {
                let end = message.len().min(MAX_MESSAGE - 1);
                let end = (0..=end).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
                [&[1], &message.as_bytes()[..end]].concat()
            }
        }
    }

    /// The whole frame; it always fits.
    pub fn frame(&self) -> Vec<u8> {
        encode_frame(&self.encode(), MAX_MESSAGE).unwrap_or_default()
    }

    /// Reads a body. A message that is not UTF-8 is read as far as it goes.
    ///
    /// # Errors
    /// [`SszError`]: another selector or a bad length.
    pub fn decode(body: &[u8]) -> Result<Response, SszError> {
        match selected(body)? {
            (0, rest) => {
                let [id, anchor, at_ns] = split(rest, SUCCESS)?;
                Ok(Response::Success { id: number(id)?, anchor: number(anchor)?, at_ns: number(at_ns)? })
            }
            (1, message) => Ok(Response::Error { message: String::from_utf8_lossy(message).into_owned() }),
            (selector, _) => Err(SszError::Selector { union: "a response", selector }),
        }
    }
}
