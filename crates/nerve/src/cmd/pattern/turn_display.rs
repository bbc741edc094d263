//! Shows the turns of a loop on stderr: streamed on a terminal, otherwise one line per completed turn.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::out;

/// Maximum length of an answer on a line, in characters.
const MAX_PREVIEW: usize = 160;

/// Displays turns.
#[derive(Debug)]
pub(super) struct TurnDisplay {
    streams: bool,
    /// Output of this turn has been shown.
    has_output: AtomicBool,
}

impl TurnDisplay {
    /// Streams answers if standard error is a terminal.
    pub(super) fn new() -> TurnDisplay {
        TurnDisplay { streams: std::io::stderr().is_terminal(), has_output: AtomicBool::new(false) }
    }

    /// Returns true if answers are streamed.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    /// Shows the start of a turn.
    pub(super) fn begin_turn(&self, round: u32, role: &str) {
        self.has_output.store(false, Ordering::Relaxed);
        if self.streams {
            out::note(format_args!("{}round {round}, {role}{:#}", out::STRONG, out::STRONG));
        }
    }

    /// Shows a chunk of an answer.
    pub(super) fn chunk(&self, text: &str) {
        self.has_output.store(true, Ordering::Relaxed);
        out::note_piece(text);
    }

    /// Shows the end of a turn.
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
