//! The audit log of a node, and when to capture the screen for it: before a prompt, after input has settled, and before the end.
//! It does not sleep: a capture is due after a moment without output, or before the next entry.

use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_record::history::{HISTORY_BUFFER_LINES, HistoryWriter, ResponseData, SendEntry, SendStreamEntry};
use nerve_types::TsNs;

/// Silence after which the effect of an input is assumed to be on the screen.
const SETTLE_TIME: Duration = Duration::from_millis(60);
/// Maximum delay of the capture after an input.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Writes the audit log of a node, with screen captures.
#[derive(Debug)]
pub struct Journal {
    writer: HistoryWriter,
    due: Option<PendingCapture>,
}

#[derive(Debug, Clone, Copy)]
struct PendingCapture {
    at: TsNs,
    latest: TsNs,
}

/// A finished prompt to log.
pub(super) struct FinishedPrompt<'a> {
    pub(super) input: &'a str,
    pub(super) preceding: Option<u64>,
    pub(super) time: (TsNs, TsNs),
    pub(super) parser: ParserKind,
}

impl Journal {
    /// Creates a journal that writes with `writer`.
    pub fn new(writer: HistoryWriter) -> Journal {
        Journal { writer, due: None }
    }

    /// Creates a journal that discards everything.
    pub fn disabled() -> Journal {
        Journal::new(HistoryWriter::disabled())
    }

    /// Returns true if entries are written.
    pub fn enabled(&self) -> bool {
        self.writer.enabled()
    }

    /// Returns when a capture is due.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.due.map(|due| due.at)
    }

    /// Records that the program wrote: a pending capture waits for silence.
    pub(super) fn on_output(&mut self, now: TsNs) {
        if let Some(due) = &mut self.due {
            due.at = (now + SETTLE_TIME).min(due.latest);
        }
    }

    /// Takes the pending capture if it is due.
    pub(super) fn capture_if_due(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        if self.due.is_some_and(|due| due.at <= now) {
            self.flush(now, tail);
        }
    }

    /// Captures the screen before a prompt and returns the entry's sequence number.
    pub(super) fn capture_before_prompt(&mut self, now: TsNs, tail: impl Fn() -> String) -> Option<u64> {
        if !self.enabled() {
            return None;
        }
        self.flush(now, &tail);
        Some(self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES)).filter(|seq| *seq > 0)
    }

    /// Logs a streamed prompt of a node without a terminal.
    pub(crate) fn log_stream(&mut self, entry: SendStreamEntry<'_>) {
        self.writer.log_send_stream(entry);
    }

    /// Logs a prompt of a node without a terminal. There is nothing to capture.
    pub(crate) fn log_send(&mut self, entry: SendEntry<'_>) {
        self.writer.log_send(entry);
    }

    /// Logs an ended turn, after the capture that an input during the turn may have left pending.
    pub(super) fn log_turn(
        &mut self,
        sent: &FinishedPrompt<'_>,
        response: ResponseData,
        tail: impl FnOnce() -> String,
    ) {
        self.flush(sent.time.1, tail);
        self.writer.log_send(SendEntry {
            ts_start: sent.time.0,
            ts_end: sent.time.1,
            input: sent.input,
            preceding_buffer_seq: sent.preceding,
            response,
        });
    }

    /// Logs an ended turn that was streamed.
    pub(super) fn log_streamed_turn(&mut self, sent: &FinishedPrompt<'_>, tail: impl Fn() -> String) {
        self.flush(sent.time.1, &tail);
        self.writer.log_send_stream(SendStreamEntry {
            ts_start: sent.time.0,
            ts_end: sent.time.1,
            input: sent.input,
            preceding_buffer_seq: sent.preceding,
            final_buffer: &tail(),
            parser: sent.parser,
        });
    }

    pub(super) fn log_write(&mut self, now: TsNs, data: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_write(now, data);
        self.schedule_capture(now);
    }

    pub(super) fn log_run(&mut self, now: TsNs, command: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_run(now, command);
        self.schedule_capture(now);
    }

    pub(super) fn log_interrupt(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_interrupt(now);
        self.schedule_capture(now);
    }

    pub(crate) fn close(&mut self, now: TsNs, reason: Option<&str>, tail: impl FnOnce() -> String) {
        if self.enabled() {
            self.due = None;
            self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES);
            self.writer.log_close(now, reason);
            self.writer.close();
        }
    }

    fn schedule_capture(&mut self, now: TsNs) {
        if self.enabled() {
            self.due = Some(PendingCapture { at: now + SETTLE_TIME, latest: now + MAX_DELAY });
        }
    }

    fn flush(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        if self.due.take().is_some() {
            self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES);
        }
    }
}
