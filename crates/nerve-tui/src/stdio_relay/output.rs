//! Writes the program's output to standard output, and answers its terminal queries.

use std::io;

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;
use tokio::time::Instant;

use super::line_endings::CrlfFilter;
use super::streams::Streams;
use crate::terminal::pacing::until;
use crate::terminal::{FLUSH_TIMEOUT, Writer, job_control};

/// Maximum number of queued output chunks.
const MAX_QUEUED_CHUNKS: usize = 4;
/// Scrollback rows of the model that answers terminal queries, which concern only the screen.
const MODEL_SCROLLBACK: u64 = 10;
/// Number of bytes at the end of the output that determine the cursor position. Output without escape sequences sends no queries.
const CURSOR_TAIL: usize = 4096;

/// Writes output to standard output.
pub(super) struct OutputRelay {
    /// `None` once output is discarded.
    writer: Option<Writer>,
    /// Error of the writer.
    failure: Option<io::Error>,
    /// Answers the program's terminal queries.
    model: Option<TerminalState>,
    lines: Option<CrlfFilter>,
    /// A chunk waiting for room; meanwhile nothing is read from the host.
    pending_chunk: Option<Vec<u8>>,
    /// Time to stop writing after a termination request.
    deadline: Option<Instant>,
}

impl OutputRelay {
    /// Starts the writer and the model that the streams need.
    pub(super) fn new(streams: Streams) -> OutputRelay {
        OutputRelay {
            writer: streams.stdout.then(Writer::start),
            failure: None,
            model: streams
                .answers
                .map(|size| TerminalState::new(size).with_limits(MODEL_SCROLLBACK, usize::MAX)),
            lines: streams.plain_lines.then(CrlfFilter::default),
            pending_chunk: None,
            deadline: None,
        }
    }

    /// Returns true if the next chunk can be taken from the host.
    pub(super) fn accepts_output(&self) -> bool {
        self.pending_chunk.is_none()
    }

    /// Adds output. Returns the replies to terminal queries.
    pub(super) fn push(&mut self, at: TsNs, bytes: Vec<u8>) -> Vec<u8> {
        let from = if bytes.contains(&0x1b) { 0 } else { bytes.len().saturating_sub(CURSOR_TAIL) };
        let replies = self.model.as_mut().map(|model| model.process_data(at, &bytes[from..]).replies);
        if self.writer.is_some() {
            self.pending_chunk = Some(match &mut self.lines {
                Some(lines) => lines.filter(&bytes),
                None => bytes,
            });
        }
        replies.unwrap_or_default()
    }

    /// Resizes the model.
    pub(super) fn resize(&mut self, size: Size) {
        self.model.iter_mut().for_each(|model| model.resize(size));
    }

    /// Limits the time for output that is not accepted.
    pub(super) fn start_deadline(&mut self) {
        self.deadline.get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
    }

    /// Resolves when the chunk is queued; false if the writer has failed. Cancel-safe.
    pub(super) async fn wait_written(&mut self) -> bool {
        let Some(writer) = &self.writer else { return true };
        let has_room = tokio::select! {
            has_room = writer.has_room(MAX_QUEUED_CHUNKS) => has_room,
            () = until(self.deadline) => {
                self.discard();
                return true;
            }
        };
        if !has_room {
            self.failure = writer.failure();
            (self.writer, self.pending_chunk) = (None, None);
            return false;
        }
        if let Some(pending_chunk) = self.pending_chunk.take() {
            writer.write(pending_chunk);
        }
        self.deadline = self.deadline.map(|_| Instant::now() + FLUSH_TIMEOUT);
        true
    }

    fn discard(&mut self) {
        // A terminal that accepts no output accepts no messages either.
        job_control::silence();
        (self.writer, self.pending_chunk) = (None, None);
    }

    /// Waits until all output is written. A closed pipe is not an error.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        let rest = self.lines.as_mut().map(CrlfFilter::finish).unwrap_or_default();
        if let Some(writer) = &self.writer {
            if !rest.is_empty() {
                writer.write(rest);
            }
            tokio::select! {
                _ = writer.flushed() => self.failure = writer.failure(),
                () = until(self.deadline) => self.discard(),
            }
        }
        match self.failure {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}
