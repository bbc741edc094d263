//! When to log what (seed channel-history, auto-read rules): a capture before a prompt, one after input has settled, one
//! before the end. Nothing sleeps: a capture is due when output has been silent for a moment, or before the next entry.

use std::time::Duration;

use nerve_record::history::{HISTORY_BUFFER_LINES, HistoryWriter, ResponseData, SendEntry, SendStreamEntry};
use nerve_term::event::TsNs;
use nerve_term::parse::ParserKind;

/// Silence that says that input has shown its effect.
const SETTLE: Duration = Duration::from_millis(60);
/// The latest moment for the capture after an input that keeps the program talking.
const LATEST: Duration = Duration::from_secs(1);

/// The audit log of a node and the captures that are due.
#[derive(Debug)]
pub struct Journal {
    writer: HistoryWriter,
    due: Option<Due>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    at: TsNs,
    latest: TsNs,
}

/// A finished prompt to log.
pub(super) struct Sent<'a> {
    pub(super) input: &'a str,
    pub(super) preceding: Option<u64>,
    pub(super) time: (TsNs, TsNs),
    pub(super) parser: ParserKind,
}

impl Journal {
    /// A journal that writes with `writer`.
    pub fn new(writer: HistoryWriter) -> Journal {
        Journal { writer, due: None }
    }

    /// A journal that keeps nothing.
    pub fn off() -> Journal {
        Journal::new(HistoryWriter::disabled())
    }

    /// Does it keep anything?
    pub fn enabled(&self) -> bool {
        self.writer.enabled()
    }

    /// When a capture is due.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.due.map(|due| due.at)
    }

    /// The program wrote: a due capture waits for silence.
    pub(super) fn output(&mut self, now: TsNs) {
        if let Some(due) = &mut self.due {
            due.at = (now + SETTLE).min(due.latest);
        }
    }

    /// Takes the capture that is due now.
    pub(super) fn settle(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        if self.due.is_some_and(|due| due.at <= now) {
            self.flush(now, tail);
        }
    }

    /// A prompt goes in: logs what stood there before, returns its sequence number.
    pub(super) fn before_send(&mut self, now: TsNs, tail: impl Fn() -> String) -> Option<u64> {
        if !self.enabled() {
            return None;
        }
        self.flush(now, &tail);
        Some(self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES)).filter(|seq| *seq > 0)
    }

    /// Logs a prompt of a node without a terminal whose answer was streamed.
    pub(crate) fn log_stream(&mut self, entry: SendStreamEntry<'_>) {
        self.writer.log_send_stream(entry);
    }

    /// Logs a prompt of a node without a terminal: there is nothing to capture.
    pub(crate) fn log_send(&mut self, entry: SendEntry<'_>) {
        self.writer.log_send(entry);
    }

    /// A turn ended: logs it, what input in its middle showed first.
    pub(super) fn sent(&mut self, sent: &Sent<'_>, response: ResponseData, tail: impl FnOnce() -> String) {
        self.flush(sent.time.1, tail);
        self.writer.log_send(SendEntry {
            ts_start: sent.time.0,
            ts_end: sent.time.1,
            input: sent.input,
            preceding_buffer_seq: sent.preceding,
            response,
        });
    }

    /// The same for a turn that was streamed.
    pub(super) fn streamed(&mut self, sent: &Sent<'_>, tail: impl Fn() -> String) {
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

    pub(super) fn wrote(&mut self, now: TsNs, data: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_write(now, data);
        self.await_effect(now);
    }

    pub(super) fn ran(&mut self, now: TsNs, command: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_run(now, command);
        self.await_effect(now);
    }

    pub(super) fn interrupted(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log_interrupt(now);
        self.await_effect(now);
    }

    pub(crate) fn closed(&mut self, now: TsNs, reason: Option<&str>, tail: impl FnOnce() -> String) {
        if self.enabled() {
            self.due = None;
            self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES);
            self.writer.log_close(now, reason);
            self.writer.close();
        }
    }

    fn await_effect(&mut self, now: TsNs) {
        if self.enabled() {
            self.due = Some(Due { at: now + SETTLE, latest: now + LATEST });
        }
    }

    fn flush(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        if self.due.take().is_some() {
            self.writer.log_read(now, &tail(), HISTORY_BUFFER_LINES);
        }
    }
}
