//! The audit log of a node, and when to capture the screen for it: before a prompt, after input has settled, and before the end.
//! The log does not sleep: a capture is due after a moment without output, or before the next entry.

use std::path::PathBuf;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_api::DEFAULT_SESSION;
use nerve_api::event::EventKind;
use nerve_api::request::NodeRef;
use nerve_record::history::{
    HISTORY_BUFFER_LINES, HistoryWriter, LoggedUsage, Operation, RequestedBy, ResponseData, SendEntry,
    SendStreamEntry,
};
use nerve_types::{TimeSpan, TsNs};

use crate::client_origin::ClientOrigin;
use crate::error::EngineError;
use crate::events::Publisher;
use crate::names::check_name;

/// Silence after which the effect of an input is assumed to be on the screen.
const SETTLE_TIME: Duration = Duration::from_millis(60);
/// Maximum delay of the capture after an input.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Writes the audit log of a node, with screen captures.
#[derive(Debug)]
pub struct AuditLog {
    writer: HistoryWriter,
    due: Option<PendingCapture>,
}

#[derive(Debug, Clone, Copy)]
struct PendingCapture {
    at: TsNs,
    latest: TsNs,
}

/// Opens the audit logs of a server's nodes.
#[derive(Debug, Clone)]
pub(crate) struct AuditLogs {
    /// The folder of the histories.
    pub(crate) dir: PathBuf,
    /// Name of the server.
    pub(crate) server: String,
    /// Publishes failures.
    pub(crate) events: Publisher,
}

impl AuditLogs {
    /// Opens the audit log of a node. If the log cannot be opened, the node runs without one.
    ///
    /// # Errors
    /// InvalidRequest: the server's name is invalid.
    pub(crate) fn open(&self, at: &NodeRef) -> Result<AuditLog, EngineError> {
        check_name(&self.server, "server")?;
        let session = at.session.as_deref().filter(|session| *session != DEFAULT_SESSION);
        match HistoryWriter::create_in_session(&self.dir, &self.server, session, &at.node) {
            Ok(writer) => Ok(AuditLog::new(writer)),
            Err(error) => {
                tracing::warn!(node = %at.node, %error, "no history is kept");
                let message = format!("no history is kept: {error}");
                self.events.publish(Some(&at.with_session()), EventKind::machine_failure(message));
                Ok(AuditLog::disabled())
            }
        }
    }
}

/// A finished prompt to log.
pub(super) struct FinishedPrompt<'a> {
    pub(super) input: &'a str,
    pub(super) preceding: Option<u64>,
    pub(super) time: TimeSpan,
    pub(super) parser: ParserKind,
    /// Usage of a model's API.
    pub(super) usage: Option<LoggedUsage>,
}

impl AuditLog {
    /// Creates a log that writes with `writer`.
    pub fn new(writer: HistoryWriter) -> AuditLog {
        AuditLog { writer, due: None }
    }

    /// Creates a log that discards everything.
    pub fn disabled() -> AuditLog {
        AuditLog::new(HistoryWriter::disabled())
    }

    /// Returns true if entries are written.
    pub fn is_enabled(&self) -> bool {
        self.writer.is_enabled()
    }

    /// Returns the messages on lost entries since the last call.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        self.writer.take_notices()
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
        if !self.is_enabled() {
            return None;
        }
        self.flush(now, &tail);
        Some(self.log_screen(now, &tail())).filter(|seq| *seq > 0)
    }

    /// Logs a prompt of a node without a terminal. A completed stream is logged as its last lines.
    pub fn log_answer(
        &mut self,
        input: &str,
        time: TimeSpan,
        response: ResponseData,
        usage: Option<LoggedUsage>,
        streamed: Option<&str>,
    ) {
        let sent = FinishedPrompt { input, preceding: None, time, parser: ParserKind::None, usage };
        let Some(text) = streamed else { return self.log_turn(&sent, response, String::new) };
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(HISTORY_BUFFER_LINES)..].join("\n");
        self.log_streamed_turn(&sent, || end.clone());
    }

    /// Logs an ended turn, after the capture that an input during the turn may have left pending.
    pub(super) fn log_turn(
        &mut self,
        sent: &FinishedPrompt<'_>,
        response: ResponseData,
        tail: impl FnOnce() -> String,
    ) {
        self.flush(sent.time.end, tail);
        self.writer.log(&Operation::Send(SendEntry {
            ts_start: sent.time.start,
            ts_end: sent.time.end,
            input: sent.input,
            preceding_buffer_seq: sent.preceding,
            response,
            usage: sent.usage.clone(),
        }));
    }

    /// Logs an ended turn that was streamed.
    pub(super) fn log_streamed_turn(&mut self, sent: &FinishedPrompt<'_>, tail: impl Fn() -> String) {
        self.flush(sent.time.end, &tail);
        self.writer.log(&Operation::SendStream(SendStreamEntry {
            ts_start: sent.time.start,
            ts_end: sent.time.end,
            input: sent.input,
            preceding_buffer_seq: sent.preceding,
            final_buffer: &tail(),
            parser: sent.parser,
            usage: sent.usage.clone(),
        }));
    }

    pub(super) fn log_write(&mut self, now: TsNs, data: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log(&Operation::Write { ts: now, input: data });
        self.schedule_capture(now);
    }

    pub(super) fn log_run(&mut self, now: TsNs, command: &str, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log(&Operation::Run { ts: now, input: command });
        self.schedule_capture(now);
    }

    pub(super) fn log_interrupt(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        self.flush(now, tail);
        self.writer.log(&Operation::Interrupt { ts: now });
        self.schedule_capture(now);
    }

    /// Logs the answer to a dialog; without a choice, that it was closed.
    pub fn log_dialog(&mut self, now: TsNs, dialog: &str, choice: Option<&str>, by: &ClientOrigin) {
        match choice {
            Some(choice) => {
                self.writer.log(&Operation::Answer { ts: now, dialog, choice, by: requested_by(by) })
            }
            None => self.writer.log(&Operation::Cancel {
                ts: now,
                dialog: Some(dialog),
                input: None,
                by: requested_by(by),
            }),
        };
    }

    /// Logs that a prompt, or its turn, was cancelled.
    pub(super) fn log_cancel(&mut self, now: TsNs, prompt: &str, by: &ClientOrigin) {
        self.writer.log(&Operation::Cancel {
            ts: now,
            dialog: None,
            input: Some(prompt),
            by: requested_by(by),
        });
    }

    /// Logs a prompt that was never typed.
    pub(super) fn log_unsent(&mut self, now: TsNs, prompt: &str, reason: &str, by: &ClientOrigin) {
        self.writer.log(&Operation::Unsent { ts: now, input: prompt, reason, by: requested_by(by) });
    }

    /// Logs the end of the node with its text, and closes the log.
    pub fn close(&mut self, now: TsNs, reason: Option<&str>, tail: impl FnOnce() -> String) {
        if self.is_enabled() {
            self.due = None;
            self.log_screen(now, &tail());
            self.writer.log(&Operation::Close { ts: now, reason });
            self.writer.close();
        }
    }

    /// Logs the last lines of the screen and returns the entry's sequence number; 0 if it was not written.
    fn log_screen(&mut self, now: TsNs, tail: &str) -> u64 {
        self.writer.log(&Operation::Read { ts: now, buffer: tail, lines: HISTORY_BUFFER_LINES })
    }

    fn schedule_capture(&mut self, now: TsNs) {
        if self.is_enabled() {
            self.due = Some(PendingCapture { at: now + SETTLE_TIME, latest: now + MAX_DELAY });
        }
    }

    fn flush(&mut self, now: TsNs, tail: impl FnOnce() -> String) {
        if self.due.take().is_some() {
            self.log_screen(now, &tail());
        }
    }
}

fn requested_by(origin: &ClientOrigin) -> RequestedBy<'_> {
    RequestedBy { client: &origin.client, transport: origin.transport }
}
