//! The recorder's wire: length-prefixed SSZ (simple serialize) unions, for snapshot requests on a socket and for events on a pipe
//! (seed agent-record §8, §9).
//!
//! Nothing here reads or writes: bytes go in and messages come out, so that blocking and async callers share one codec.
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | the u32 length before each message, checked before anything is allocated |
//! | [`snapshot`] | the request for a snapshot and its answer |
//! | [`event`] | what an agent does, as the events pipe carries it |

mod container;
pub mod event;
pub mod frame;
pub mod snapshot;

/// Bytes that are no message of this wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SszError {
    /// A frame, as announced or as it would have to be sent, is over the limit.
    #[error("the message is {length} bytes long, more than the limit of {limit}")]
    TooLong {
        /// Bytes of the body.
        length: usize,
        /// The most a body may have here.
        limit: usize,
    },
    /// A label is longer than its field on disk can say (u16).
    #[error("the label is {length} bytes long, more than {}", snapshot::MAX_LABEL)]
    LabelTooLong {
        /// Bytes of the label.
        length: usize,
    },
    /// There is no message in the frame.
    #[error("the message is empty")]
    Empty,
    /// The first byte names no variant of the union.
    #[error("{union} has no variant {selector}")]
    Selector {
        /// The union.
        union: &'static str,
        /// The byte.
        selector: u8,
    },
    /// A message ends too early or goes on too long.
    #[error("the message has {found} bytes where {expected} are needed")]
    Length {
        /// Bytes its fixed part needs.
        expected: usize,
        /// Bytes it has.
        found: usize,
    },
    /// The offset of a variable part points outside the message, backwards, or leaves a hole.
    #[error("offset {offset} does not fit a message of {length} bytes")]
    Offset {
        /// As it was given.
        offset: u32,
        /// Bytes of the message, the selector left out.
        length: usize,
    },
    /// A number that stands for nothing.
    #[error("{number} is no {what}")]
    Number {
        /// What it should have been.
        what: &'static str,
        /// The number.
        number: u8,
    },
    /// A text that is not UTF-8.
    #[error("the {0} is not UTF-8")]
    Text(&'static str),
}
