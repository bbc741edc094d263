//! Messages of the snapshot socket: a program in the recorded terminal sends a request, and the recorder responds when
//! the snapshot is safely in the recording.

use super::SszError;
use super::container::{Field, Value, join, number, selected, split};
use super::frame::{MAX_MESSAGE, encode_frame};

/// Maximum bytes of a label, whose length is a u16 in the recording. A frame has room for [`MAX_LABEL_IN_FRAME`].
pub const MAX_LABEL: usize = u16::MAX as usize;

/// Maximum bytes of a label in a frame of [`MAX_MESSAGE`]; the limit that callers should check.
pub const MAX_LABEL_IN_FRAME: usize = MAX_MESSAGE - (1 + size_of::<u64>() + size_of::<u32>());

/// A request to the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Record a snapshot after all output so far.
    Snapshot {
        /// The snapshot's number, repeated in the response.
        id: u64,
        /// UTF-8 by convention, at most [`MAX_LABEL`] bytes; empty when there is none.
        label: Vec<u8>,
    },
}

/// A response of the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The snapshot is in the recording and on disk.
    Success {
        /// The number from the request.
        id: u64,
        /// Output bytes before the snapshot.
        anchor: u64,
        /// Time of the snapshot; nanoseconds since the Unix epoch.
        at_ns: u64,
    },
    /// The snapshot failed.
    Error {
        /// The cause, for people.
        message: String,
    },
}

const SNAPSHOT: [Field; 2] = [Field::Number, Field::Variable];
const SUCCESS: [Field; 3] = [Field::Number, Field::Number, Field::Number];

impl Request {
    /// Encodes the body, without its length.
    pub fn encode(&self) -> Vec<u8> {
        let Request::Snapshot { id, label } = self;
        join(0, [Value::Number(*id), Value::Bytes(label)])
    }

    /// Encodes the whole frame.
    ///
    /// # Errors
    /// [`SszError::TooLong`] for a label of more than [`MAX_LABEL_IN_FRAME`] bytes.
    pub fn frame(&self) -> Result<Vec<u8>, SszError> {
        encode_frame(&self.encode(), MAX_MESSAGE)
    }

    /// Decodes a body. Allocates only the label.
    ///
    /// # Errors
    /// [`SszError`]: unknown selector, invalid length or offset, a label over [`MAX_LABEL`] bytes. The recorder
    /// responds with the error's text and can continue reading.
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
    /// Encodes the body, without its length. Truncates a message that exceeds a frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Response::Success { id, anchor, at_ns } => {
                join(0, [Value::Number(*id), Value::Number(*anchor), Value::Number(*at_ns)])
            }
            // This variant is a list of bytes, not a container.
            Response::Error { message } => {
                let end = message.floor_char_boundary(MAX_MESSAGE - 1);
                [&[1], &message.as_bytes()[..end]].concat()
            }
        }
    }

    /// Encodes the whole frame, which always fits.
    pub fn frame(&self) -> Vec<u8> {
        encode_frame(&self.encode(), MAX_MESSAGE).unwrap_or_default()
    }

    /// Decodes a body. Replaces invalid UTF-8 in a message.
    ///
    /// # Errors
    /// [`SszError`]: unknown selector or invalid length.
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
