//! Relays between the standard streams and a host in this process: output, keys, window size and signals.

mod line_endings;
mod signals;

use std::collections::VecDeque;
use std::io;

use nerve_host::connection::Connection;
use nerve_host::process::Host;
use nerve_host::protocol::{HostEvent, HostRequest, Window};
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_vt::terminal::TerminalState;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;

use self::line_endings::CrlfFilter;
use self::signals::SignalEvent;
pub use self::signals::Signals;
use crate::TuiError;
use crate::terminal::pacing::until;
use crate::terminal::raw_mode::{StdinEvent, StdinTerminal};
use crate::terminal::{self, FLUSH_TIMEOUT, Writer, job_control};

/// Maximum size of queued requests in bytes.
const MAX_QUEUED_REQUESTS: usize = 64 * 1024;
/// Maximum number of queued output chunks.
const MAX_QUEUED_CHUNKS: usize = 4;
/// Scrollback rows of the model that answers terminal queries, which concern only the screen.
const MODEL_SCROLLBACK: u64 = 10;
/// Byte that a cooked terminal turns into an interrupt.
const CTRL_C: u8 = 0x03;
/// Number of bytes at the end of the output that determine the cursor position. Output without escape sequences sends no queries.
const CURSOR_TAIL: usize = 4096;

/// Standard streams that are connected to the program.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// Send standard input as keys.
    pub keys: bool,
    /// Write output to standard output.
    pub stdout: bool,
    /// Source of the terminal's size.
    pub size: SizeFrom,
    /// Remove the carriage returns of line ends.
    pub plain_lines: bool,
    /// Answer terminal queries for this size.
    pub answers: Option<Size>,
}

/// Source of the terminal's size.
#[derive(Debug, Clone, Copy)]
pub enum SizeFrom {
    /// The window; the smallest of all windows counts.
    Window,
    /// A fixed size.
    Fixed(Size),
    /// The initial size.
    Start,
}

/// SIGINT ended the program in this process. After cleaning up, this process must end by SIGINT too: a shell that sees
/// an exit code assumes that the program handled the signal, and continues its loop or script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub enum Interrupted {
    /// A signal that the whole process group received.
    Signalled,
    /// Ctrl+C in a raw terminal: only this process noticed it.
    Typed,
}

/// The program's end.
pub struct ProgramEnd {
    /// Exit status of the program.
    pub exit: ExitStatus,
    /// Interruption of this process, if there was one.
    pub interrupted: Option<Interrupted>,
}

/// Runs until the program has ended and its output is written. After a termination signal, output that is not
/// accepted is discarded. Faults of the host are reported at the end.
///
/// # Errors
/// The host or standard output fails, or signals cannot be handled.
pub async fn run(
    host: &mut Host,
    stream: UnixStream,
    streams: Streams,
    mut signals: Signals,
    report_fault: impl Fn(&str),
) -> Result<ProgramEnd, TuiError> {
    let mut link = Connection::handshake(stream).await.map_err(TuiError::Handshake)?;
    let mut requests = VecDeque::new();
    push(&mut requests, &HostRequest::Subscribe { off: 0, allow_gap: true });
    if let Some(window) = streams.size.window() {
        push(&mut requests, &HostRequest::View(window));
    }
    let mut stdin = StdinTerminal::take(streams.keys).map_err(TuiError::Signals)?;
    let mut faults = link.hello.faults.clone();
    let mut output = OutputRelay::new(streams);
    let mut is_closed = false;
    let mut interrupted = None;
    loop {
        while output.accepts_output()
            && !is_closed
            && let Some(event) = link.next_buffered().map_err(TuiError::Host)?
        {
            is_closed |= handle_host_event(event, &mut output, &mut requests, &mut faults);
        }
        if is_closed && output.accepts_output() {
            break;
        }
        tokio::select! {
            // Standard output is closed: the program is stopped, as without the relay, and recorded to its end.
            is_written = output.wait_written(), if !output.accepts_output() => if !is_written {
                host.stop().await;
            },
            alive = link.exchange(&mut requests), if output.accepts_output() && !is_closed => if !alive.map_err(TuiError::Host)? {
                is_closed = true;
                faults.push("the program's terminal closed before its end was reported: output may be missing".into());
            },
            event = stdin.next(), if requests.len() < MAX_QUEUED_REQUESTS => match event {
                StdinEvent::Keys(bytes) => {
                    if stdin.is_terminal() && bytes.contains(&CTRL_C) {
                        interrupted = Some(Interrupted::Typed);
                    }
                    push(&mut requests, &HostRequest::Input { origin: Origin::User, bytes });
                }
                StdinEvent::Resize => if let (SizeFrom::Window, Some(window)) = (streams.size, streams.size.window()) {
                    push(&mut requests, &HostRequest::View(window));
                },
            },
            signal_event = signals.next() => {
                if signal_event == SignalEvent::Signal(Signal::INT) {
                    interrupted = interrupted.or(Some(Interrupted::Signalled));
                }
                forward_signal(signal_event, host, &mut output).await;
            }
        }
    }
    drop(link);
    let exit = host.wait().await;
    let written = output.finish().await;
    drop(stdin);
    faults.iter().for_each(|fault| report_fault(fault));
    written.map_err(TuiError::Output)?;
    Ok(ProgramEnd { exit, interrupted })
}

/// Passes a signal on to the program; stops it at a termination of this process.
async fn forward_signal(event: SignalEvent, host: &mut Host, output: &mut OutputRelay) {
    if event.is_termination() {
        output.start_deadline();
    }
    match event {
        SignalEvent::Stop => host.stop().await,
        SignalEvent::Signal(signal) => host.entry.signal_child(signal),
    }
}

/// Handles an event of the host. Returns true if it was the last one.
fn handle_host_event(
    event: HostEvent,
    output: &mut OutputRelay,
    requests: &mut VecDeque<u8>,
    faults: &mut Vec<String>,
) -> bool {
    match event {
        HostEvent::Output { at, bytes, .. } => {
            let replies = output.push(at, bytes);
            if !replies.is_empty() && requests.len() < MAX_QUEUED_REQUESTS {
                push(requests, &HostRequest::Input { origin: Origin::Terminal, bytes: replies });
            }
        }
        HostEvent::Fault(message) => faults.push(message),
        HostEvent::Exited(_) => push(requests, &HostRequest::AckExit),
        HostEvent::Closed => return true,
        HostEvent::Resized(size) => output.resize(size),
        _ => {}
    }
    false
}

impl SizeFrom {
    fn window(self) -> Option<Window> {
        match self {
            SizeFrom::Window => terminal::window().map(Window::Shares),
            SizeFrom::Fixed(size) => Some(Window::Sets(size)),
            SizeFrom::Start => None,
        }
    }
}

/// Writes output to standard output.
struct OutputRelay {
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
    fn new(streams: Streams) -> OutputRelay {
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

    fn accepts_output(&self) -> bool {
        self.pending_chunk.is_none()
    }

    /// Adds output. Returns the replies to terminal queries.
    fn push(&mut self, at: TsNs, bytes: Vec<u8>) -> Vec<u8> {
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

    fn resize(&mut self, size: Size) {
        self.model.iter_mut().for_each(|model| model.resize(size));
    }

    /// Limits the time for output that is not accepted.
    fn start_deadline(&mut self) {
        self.deadline.get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
    }

    /// Resolves when the chunk is queued; false if the writer has failed. Cancel-safe.
    async fn wait_written(&mut self) -> bool {
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
    async fn finish(mut self) -> io::Result<()> {
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

fn push(requests: &mut VecDeque<u8>, request: &HostRequest) {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    requests.extend(bytes);
}
