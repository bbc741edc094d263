//! Operations of a node's audit log.

use strum::{EnumString, IntoStaticStr, VariantNames};

/// Operations of a node's audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum HistoryOp {
    /// A prompt and its answer.
    Send,
    /// A prompt and its streamed answer.
    SendStream,
    /// Bytes written to the node.
    Write,
    /// A command typed into the terminal.
    Run,
    /// An interrupt.
    Interrupt,
    /// The answer to a dialog.
    Answer,
    /// A dialog that was closed without an answer, or a prompt that was cancelled.
    Cancel,
    /// A prompt that was never typed.
    Unsent,
    /// A capture of the terminal's text.
    Read,
    /// The end of the node.
    Close,
    /// The removal of the node; only in logs of older versions.
    Delete,
}

text_value!(closed HistoryOp: "operation");

impl HistoryOp {
    /// Returns true if the operation sends input to the node.
    pub fn is_input(self) -> bool {
        matches!(self, HistoryOp::Send | HistoryOp::SendStream | HistoryOp::Write | HistoryOp::Run)
    }
}
