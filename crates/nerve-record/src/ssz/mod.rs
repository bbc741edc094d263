//! The recorder's wire format: length-prefixed SSZ (simple serialize) unions, for snapshot requests on a socket and for
//! events on a pipe.
//!
//! Nothing here does I/O, so that blocking and async callers share one codec.
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | the u32 length before each message, checked before allocation |
//! | [`snapshot`] | the snapshot request and its response |
//! | [`event`] | agent activity on the events pipe |

mod container;
pub mod event;
pub mod frame;
pub mod snapshot;

/// A message that cannot be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SszError {
    /// A frame exceeds its limit.
    #[error("the message is {length} bytes long, more than the limit of {limit}")]
    TooLong {
        /// Bytes of the body.
        length: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A label does not fit its u16 length field.
    #[error("the label is {length} bytes long, more than {}", snapshot::MAX_LABEL)]
    LabelTooLong {
        /// Bytes of the label.
        length: usize,
    },
    /// The frame is empty.
    #[error("the message is empty")]
    Empty,
    /// The selector is unknown.
    #[error("{union} has no variant {selector}")]
    Selector {
        /// Name of the union.
        union: &'static str,
        /// The selector.
        selector: u8,
    },
    /// The message is too short or too long.
    #[error("the message has {found} bytes where {expected} are needed")]
    Length {
        /// Expected bytes.
        expected: usize,
        /// Actual bytes.
        found: usize,
    },
    /// The offset of a variable part is outside of the message, decreasing, or leaves a hole.
    #[error("offset {offset} does not fit a message of {length} bytes")]
    Offset {
        /// The offset.
        offset: u32,
        /// Bytes of the message without the selector.
        length: usize,
    },
    /// An unknown number of an enumeration.
    #[error("invalid {field} {number}")]
    Number {
        /// Name of the enumeration.
        field: &'static str,
        /// The number.
        number: u8,
    },
    /// Invalid UTF-8 in the named field.
    #[error("the {0} is not UTF-8")]
    Text(&'static str),
}
