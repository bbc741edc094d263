//! The turns of a loop on stderr: as they grow on a terminal, else a line for each as it ends.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::out;

/// Characters of an answer on a line.
const PREVIEW: usize = 160;

/// Shows turns.
#[derive(Debug)]
pub(super) struct Show {
    streams: bool,
    /// Something of this turn has been shown.
    shown: AtomicBool,
}

impl Show {
    pub(super) fn new() -> Show {
        Show { streams: std::io::stderr().is_terminal(), shown: AtomicBool::new(false) }
    }

    /// Answers are shown while they grow.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    /// A turn begins.
    pub(super) fn begin(&self, round: u32, who: &str) {
        self.shown.store(false, Ordering::Relaxed);
        if self.streams {
            out::note(format_args!("{}round {round}, {who}{:#}", out::STRONG, out::STRONG));
        }
    }

    /// More of an answer.
    pub(super) fn chunk(&self, text: &str) {
        self.shown.store(true, Ordering::Relaxed);
        out::note_piece(text);
    }

    /// A turn has ended.
    pub(super) fn end(&self, round: u32, who: &str, message: &str) {
        if !self.streams {
            out::note(format_args!("round {round}, {who}: {}", out::preview(message, PREVIEW)));
        } else if self.shown.load(Ordering::Relaxed) {
            out::note("\n");
        } else {
            out::note_piece(message);
            out::note("\n");
        }
    }
}
