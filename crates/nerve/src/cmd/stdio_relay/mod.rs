//! Standard streams in front of a host in this process: its output out, keys in, the window's size followed, signals heard.

mod line_endings;
mod signals;

use std::collections::VecDeque;
use std::io;

use anyhow::{Context, Result};
use nerve_core::host::connection::Connection;
use nerve_core::host::process::Host;
use nerve_core::host::protocol::{HostEvent, HostRequest, Window};
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::terminal::TerminalState;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;

use self::line_endings::CrlfFilter;
use self::signals::SignalEvent;
pub(crate) use self::signals::Signals;
use crate::exit::Interrupted;
use crate::out;
use crate::tty::pacing::until;
use crate::tty::raw_mode::{StdinEvent, StdinTerminal};
use crate::tty::{self, FLUSH_TIMEOUT, Writer, job_control};

/// Bytes of orders that may wait for the host.
const MAX_ORDERS: usize = 64 * 1024;
/// Pieces of output that may wait to be written.
const MAX_PIECES: usize = 4;
/// Rows above the screen that are kept to answer the program's questions; what is asked is about the screen.
const ROWS: u64 = 10;
/// What a terminal that is not raw makes an interrupt of.
const CTRL_C: u8 = 0x03;
/// Output without a sequence in it asks nothing; so much of its end says where the cursor is.
const TAIL: usize = 4096;

/// What of the outside belongs to the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    /// Standard input: keys.
    pub(crate) keys: bool,
    /// Standard output shows what it writes.
    pub(crate) stdout: bool,
    /// What went wrong is told here.
    pub(crate) reports_faults: bool,
    pub(crate) size: SizeFrom,
    /// Line ends are written as the program wrote them.
    pub(crate) plain_lines: bool,
    /// Its questions to a terminal of this size are answered here.
    pub(crate) answers: Option<Size>,
}

/// Whose size its terminal has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SizeFrom {
    /// The window's; others may look too: the smallest counts.
    Window,
    /// This one, whatever the windows are.
    Fixed(Size),
    /// The one it was started with.
    Start,
}

/// How a program has ended.
pub(crate) struct Ended {
    pub(crate) exit: ExitStatus,
    /// This process was interrupted while it ran, and how.
    pub(crate) interrupted: Option<Interrupted>,
}

/// Stays until the program has ended and all its output is out; after a signal that ends it, for as long as somebody takes that.
pub(crate) async fn run(
    host: &mut Host,
    stream: UnixStream,
    streams: Streams,
    mut signals: Signals,
) -> Result<Ended> {
    let mut link = Connection::greeted(stream).await.context("the program's terminal does not answer")?;
    let mut orders = VecDeque::new();
    push(&mut orders, &HostRequest::Subscribe { off: 0, allow_gap: true });
    if let Some(window) = streams.size.window() {
        push(&mut orders, &HostRequest::View(window));
    }
    let mut stdin = StdinTerminal::take(streams.keys)?;
    let mut faults = link.hello.faults.clone();
    let mut output = OutputRelay::new(streams);
    let mut is_closed = false;
    let mut interrupted = None;
    loop {
        while output.accepts_output()
            && !is_closed
            && let Some(report) = link.decoded()?
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
            // Nobody takes it any more: the program ends as it would without us, and is recorded to its end.
            is_written = output.written(), if !output.accepts_output() => if !is_written {
                host.stop().await;
            },
            alive = link.exchange(&mut orders), if output.accepts_output() && !is_closed => if !alive? {
                is_closed = true;
                faults.push("the program's terminal went away before its end was told: output may be missing".into());
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
            told = signals.next() => {
                if told.is_termination() {
                    output.start_deadline();
                }
                match told {
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
    let exit = host.finished().await;
    let written = output.finish().await;
    drop(stdin);
    if streams.reports_faults {
        faults.iter().for_each(out::warning);
    }
    written.context("cannot write to standard output")?;
    Ok(Ended { exit, interrupted })
}

impl SizeFrom {
    fn window(self) -> Option<Window> {
        match self {
            SizeFrom::Window => tty::window().map(Window::Shares),
            SizeFrom::Fixed(size) => Some(Window::Sets(size)),
            SizeFrom::Start => None,
        }
    }
}

/// Output on its way to standard output.
struct OutputRelay {
    /// `None` if nobody takes it.
    writer: Option<Writer>,
    /// Why nobody does any more.
    failure: Option<io::Error>,
    /// Answers what the program asks its terminal.
    model: Option<TerminalState>,
    lines: Option<CrlfFilter>,
    /// What there is no room for yet; meanwhile nothing more is taken from the host.
    piece: Option<Vec<u8>>,
    /// The end was asked for: when it is given up, unless something is taken before.
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

    /// Gives back what answers the program's questions.
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

    /// From now on who takes nothing is not waited for.
    fn start_deadline(&mut self) {
        self.deadline.get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
    }

    /// Ends when the piece is on its way; false if nobody takes it. May be dropped and called again.
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
        // A terminal that takes no output takes no words either.
        job_control::silence();
        (self.writer, self.piece) = (None, None);
    }

    /// Waits until all is out. Somebody who is gone misses nothing.
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
