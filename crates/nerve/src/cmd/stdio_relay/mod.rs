//! Relays between the standard streams and a host in this process: output, keys, window size and signals.

mod line_endings;
mod signals;

use std::collections::VecDeque;
use std::io;

use anyhow::{Context, Result};
use nerve_host::connection::Connection;
use nerve_host::process::Host;
use nerve_host::protocol::{HostEvent, HostRequest, Window};
use nerve_tui::terminal::pacing::until;
use nerve_tui::terminal::raw_mode::{StdinEvent, StdinTerminal};
use nerve_tui::terminal::{self, FLUSH_TIMEOUT, Writer, job_control};
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_vt::terminal::TerminalState;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;

use self::line_endings::CrlfFilter;
use self::signals::SignalEvent;
pub(crate) use self::signals::Signals;
use crate::exit::Interrupted;
use crate::out;

/// Maximum size of queued orders in bytes.
const MAX_ORDERS: usize = 64 * 1024;
/// Maximum number of queued output chunks.
const MAX_PIECES: usize = 4;
/// Scrollback rows of the model that answers terminal queries, which concern only the screen.
const ROWS: u64 = 10;
/// Byte that a cooked terminal turns into an interrupt.
const CTRL_C: u8 = 0x03;
/// Number of bytes at the end of the output that determine the cursor position. Output without escape sequences sends no queries.
const TAIL: usize = 4096;

/// Standard streams that are connected to the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    /// Send standard input as keys.
    pub(crate) keys: bool,
    /// Write output to standard output.
    pub(crate) stdout: bool,
    /// Print faults.
    pub(crate) reports_faults: bool,
    pub(crate) size: SizeFrom,
    /// Remove the carriage returns of line ends.
    pub(crate) plain_lines: bool,
    /// Answer terminal queries for this size.
    pub(crate) answers: Option<Size>,
}

/// Source of the terminal's size.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SizeFrom {
    /// The window; the smallest of all windows counts.
    Window,
    /// A fixed size.
    Fixed(Size),
    /// The initial size.
    Start,
}

/// The program's end.
pub(crate) struct ProgramEnd {
    pub(crate) exit: ExitStatus,
    /// Interruption of this process, if there was one.
    pub(crate) interrupted: Option<Interrupted>,
}

/// Runs until the program has ended and its output is written. After a termination signal, output that is not
/// accepted is discarded.
pub(crate) async fn run(
    host: &mut Host,
    stream: UnixStream,
    streams: Streams,
    mut signals: Signals,
) -> Result<ProgramEnd> {
    let mut link = Connection::handshake(stream).await.context("the program's terminal does not answer")?;
    let mut orders = VecDeque::new();
    push(&mut orders, &HostRequest::Subscribe { off: 0, allow_gap: true });
    if let Some(window) = streams.size.window() {
        push(&mut orders, &HostRequest::View(window));
    }
    let mut stdin = StdinTerminal::take(streams.keys).context("cannot listen for signals")?;
    let mut faults = link.hello.faults.clone();
    let mut output = OutputRelay::new(streams);
    let mut is_closed = false;
    let mut interrupted = None;
    loop {
        while output.accepts_output()
            && !is_closed
            && let Some(report) = link.next_buffered()?
        {
            match report {
                HostEvent::Output { at, bytes, .. } => {
                    let replies = output.push(at, bytes);
                    if !replies.is_empty() && orders.len() < MAX_ORDERS {
                        push(&mut orders, &HostRequest::Input { origin: Origin::Terminal, bytes: replies });
                    }
                }
                HostEvent::Fault(message) => faults.push(message),
                HostEvent::Exited(_) => push(&mut orders, &HostRequest::AckExit),
                HostEvent::Closed => is_closed = true,
                HostEvent::Resized(size) => output.resize(size),
                _ => {}
            }
        }
        if is_closed && output.accepts_output() {
            break;
        }
        tokio::select! {
            // Standard output is closed: the program is ended as without us, and recorded to its end.
            is_written = output.written(), if !output.accepts_output() => if !is_written {
                host.stop().await;
            },
            alive = link.exchange(&mut orders), if output.accepts_output() && !is_closed => if !alive? {
                is_closed = true;
                faults.push("the program's terminal closed before its end was reported: output may be missing".into());
            },
            event = stdin.next(), if orders.len() < MAX_ORDERS => match event {
                StdinEvent::Keys(bytes) => {
                    if stdin.is_terminal() && bytes.contains(&CTRL_C) {
                        interrupted = Some(Interrupted::Typed);
                    }
                    push(&mut orders, &HostRequest::Input { origin: Origin::User, bytes });
                }
                StdinEvent::Resize => if let (SizeFrom::Window, Some(window)) = (streams.size, streams.size.window()) {
                    push(&mut orders, &HostRequest::View(window));
                },
            },
            signal_event = signals.next() => {
                if signal_event.is_termination() {
                    output.start_deadline();
                }
                match signal_event {
                    SignalEvent::Stop => host.stop().await,
                    SignalEvent::Signal(signal) => {
                        if signal == Signal::INT {
                            interrupted = interrupted.or(Some(Interrupted::Signalled));
                        }
                        host.entry.signal_child(signal);
                    }
                }
            }
        }
    }
    drop(link);
    let exit = host.wait().await;
    let written = output.finish().await;
    drop(stdin);
    if streams.reports_faults {
        faults.iter().for_each(out::warning);
    }
    written.context("cannot write to standard output")?;
    Ok(ProgramEnd { exit, interrupted })
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
    piece: Option<Vec<u8>>,
    /// Time to stop writing after a termination request.
    deadline: Option<Instant>,
}

impl OutputRelay {
    fn new(streams: Streams) -> OutputRelay {
        OutputRelay {
            writer: streams.stdout.then(Writer::start),
            failure: None,
            model: streams.answers.map(|size| TerminalState::new(size).with_limits(ROWS, usize::MAX)),
            lines: streams.plain_lines.then(CrlfFilter::default),
            piece: None,
            deadline: None,
        }
    }

    fn accepts_output(&self) -> bool {
        self.piece.is_none()
    }

    /// Adds output. Returns the replies to terminal queries.
    fn push(&mut self, at: TsNs, bytes: Vec<u8>) -> Vec<u8> {
        let from = if bytes.contains(&0x1b) { 0 } else { bytes.len().saturating_sub(TAIL) };
        let replies = self.model.as_mut().map(|model| model.process_data(at, &bytes[from..]).replies);
        if self.writer.is_some() {
            self.piece = Some(match &mut self.lines {
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
    async fn written(&mut self) -> bool {
        let Some(writer) = &self.writer else { return true };
        let has_room = tokio::select! {
            has_room = writer.has_room(MAX_PIECES) => has_room,
            () = until(self.deadline) => {
                self.discard();
                return true;
            }
        };
        if !has_room {
            self.failure = writer.failure();
            (self.writer, self.piece) = (None, None);
            return false;
        }
        if let Some(piece) = self.piece.take() {
            writer.write(piece);
        }
        self.deadline = self.deadline.map(|_| Instant::now() + FLUSH_TIMEOUT);
        true
    }

    fn discard(&mut self) {
        // A terminal that accepts no output accepts no messages either.
        job_control::silence();
        (self.writer, self.piece) = (None, None);
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

fn push(orders: &mut VecDeque<u8>, order: &HostRequest) {
    let mut bytes = Vec::new();
    order.encode(&mut bytes);
    orders.extend(bytes);
}
