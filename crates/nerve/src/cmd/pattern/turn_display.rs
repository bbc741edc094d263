//! The turns of a loop on stderr: as they grow on a terminal, else a line for each as it ends.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::out;

/// Characters of an answer on a line.
const MAX_PREVIEW: usize = 160;

/// Shows turns.
#[derive(Debug)]
pub(super) struct TurnDisplay {
    streams: bool,
    /// Something of this turn has been has_output.
    has_output: AtomicBool,
}

impl TurnDisplay {
    pub(super) fn new() -> TurnDisplay {
        TurnDisplay { streams: std::io::stderr().is_terminal(), has_output: AtomicBool::new(false) }
    }

    /// Answers are has_output while they grow.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    /// A turn begins.
    pub(super) fn begin_turn(&self, round: u32, role: &str) {
        self.has_output.store(false, Ordering::Relaxed);
        if self.streams {
            out::note(format_args!("{}round {round}, {role}{:#}", out::STRONG, out::STRONG));
        }
    }

    /// More of an answer.
    pub(super) fn chunk(&self, text: &str) {
        self.has_output.store(true, Ordering::Relaxed);
        out::note_piece(text);
    }

    /// A turn has ended.
    pub(super) fn end_turn(&self, round: u32, role: &str, message: &str) {
        if !self.streams {
            out::note(format_args!("round {round}, {role}: {}", out::preview(message, MAX_PREVIEW)));
        } else if self.has_output.load(Ordering::Relaxed) {
            out::note("\n");
        } else {
            out::note_piece(message);
            out::note("\n");
        }
    }
}
