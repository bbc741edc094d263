//! A copy of the terminal in which the output of a turn covers no older text.

use nerve_types::TsNs;
use nerve_vt::terminal::{Alert, TerminalState};

/// Maximum number of rows that scroll off the copy: more than the longest response has.
const MAX_ROWS: u64 = 600_000;
/// Maximum size of these rows in bytes. Beyond it, the response is incomplete.
const MAX_BYTES: usize = 8 << 20;

/// A copy of the terminal without the text below the program's prompt. A program that left its cursor above older text writes over
/// that text; in the copy, its output has rows of its own. Its lines have the same numbers as in the terminal.
#[derive(Debug)]
pub(super) struct ShadowTerminal {
    terminal: TerminalState,
}

impl ShadowTerminal {
    /// Copies a terminal whose output so far ends between control sequences. `None` while a frame or a character is incomplete.
    pub(super) fn new(terminal: &TerminalState, now: TsNs) -> Option<ShadowTerminal> {
        let terminal = terminal.copy_without_text_below(now)?.with_limits(MAX_ROWS, MAX_BYTES);
        Some(ShadowTerminal { terminal })
    }

    /// Returns the copy.
    pub(super) fn terminal(&self) -> &TerminalState {
        &self.terminal
    }

    /// Processes output that `original` has processed, and returns its alerts. `None` if the copy is no longer usable: it failed, or
    /// its line numbers differ from the terminal's, because the program erased a screen of which the copy lacks a part.
    pub(super) fn process_data(
        &mut self,
        now: TsNs,
        output: &[u8],
        original: &TerminalState,
    ) -> Option<Vec<Alert>> {
        let alerts = self.terminal.process_data(now, output).alerts;
        let has_failed = alerts.iter().any(|alert| matches!(alert, Alert::Rebuilt { .. }));
        (!has_failed && self.terminal.cursor_line() == original.cursor_line()).then_some(alerts)
    }
}
