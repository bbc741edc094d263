//! Relays between the standard streams and a host in this process: output, keys, window size and signals.

mod line_endings;
mod output;
mod signals;
mod streams;

use std::collections::VecDeque;

use nerve_host::connection::Connection;
use nerve_host::process::Host;
use nerve_host::protocol::{HostEvent, HostRequest};
use nerve_types::{ExitStatus, Origin};
use rustix::process::Signal;
use tokio::net::UnixStream;

use self::output::OutputRelay;
use self::signals::SignalEvent;
pub use self::signals::Signals;
pub use self::streams::{SizeFrom, Streams};
use crate::TuiError;
use crate::terminal::raw_mode::{StdinEvent, StdinTerminal};

/// Maximum size of queued requests in bytes.
const MAX_QUEUED_REQUESTS: usize = 64 * 1024;
/// Byte that a cooked terminal turns into an interrupt.
const CTRL_C: u8 = 0x03;

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
    let mut stdin = StdinTerminal::take(streams.keys).map_err(TuiError::Signals)?;
    let mut relay = Relay::new(streams, link.hello.faults.clone());
    loop {
        while relay.accepts_events()
            && let Some(event) = link.next_buffered().map_err(TuiError::Host)?
        {
            relay.on_host_event(event);
        }
        if relay.is_closed && relay.output.accepts_output() {
            break;
        }
        tokio::select! {
            // Standard output is closed: the program is stopped, as without the relay, and recorded to its end.
            is_written = relay.output.wait_written(), if !relay.output.accepts_output() => if !is_written {
                host.stop().await;
            },
            alive = link.exchange(&mut relay.requests), if relay.accepts_events() => if !alive.map_err(TuiError::Host)? {
                relay.on_disconnect();
            },
            event = stdin.next(), if relay.requests.len() < MAX_QUEUED_REQUESTS => {
                relay.on_input(event, stdin.is_terminal());
            }
            event = signals.next() => {
                relay.on_signal(event);
                match event {
                    SignalEvent::Stop => host.stop().await,
                    SignalEvent::Signal(signal) => host.entry.signal_child(signal),
                }
            }
        }
    }
    drop(link);
    let exit = host.wait().await;
    let written = relay.output.finish().await;
    drop(stdin);
    relay.faults.iter().for_each(|fault| report_fault(fault));
    written.map_err(TuiError::Output)?;
    Ok(ProgramEnd { exit, interrupted: relay.interrupted })
}

/// State of the relay.
struct Relay {
    size: SizeFrom,
    /// Encoded requests to the host.
    requests: VecDeque<u8>,
    output: OutputRelay,
    /// Faults of the host, reported at the end.
    faults: Vec<String>,
    /// The host sends no more events.
    is_closed: bool,
    interrupted: Option<Interrupted>,
}

impl Relay {
    /// Creates the state, with the first requests.
    fn new(streams: Streams, faults: Vec<String>) -> Relay {
        let mut relay = Relay {
            size: streams.size,
            requests: VecDeque::new(),
            output: OutputRelay::new(streams),
            faults,
            is_closed: false,
            interrupted: None,
        };
        relay.request(&HostRequest::Subscribe { off: 0, allow_gap: true });
        if let Some(window) = streams.size.window() {
            relay.request(&HostRequest::View(window));
        }
        relay
    }

    /// Returns true if there is room for the output of the next event, and the host may send one.
    fn accepts_events(&self) -> bool {
        self.output.accepts_output() && !self.is_closed
    }

    fn request(&mut self, request: &HostRequest) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.requests.extend(bytes);
    }

    fn on_host_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Output { at, bytes, .. } => {
                let replies = self.output.push(at, bytes);
                if !replies.is_empty() && self.requests.len() < MAX_QUEUED_REQUESTS {
                    self.request(&HostRequest::Input { origin: Origin::Terminal, bytes: replies });
                }
            }
            HostEvent::Fault(message) => self.faults.push(message),
            HostEvent::Exited(_) => self.request(&HostRequest::AckExit),
            HostEvent::Closed => self.is_closed = true,
            HostEvent::Resized(size) => self.output.resize(size),
            _ => {}
        }
    }

    /// Handles the loss of a host that did not report its end.
    fn on_disconnect(&mut self) {
        self.is_closed = true;
        let fault = "the program's terminal closed before its end was reported: output may be missing";
        self.faults.push(fault.into());
    }

    fn on_input(&mut self, event: StdinEvent, is_terminal: bool) {
        match event {
            StdinEvent::Keys(bytes) => {
                if is_terminal && bytes.contains(&CTRL_C) {
                    self.interrupted = Some(Interrupted::Typed);
                }
                self.request(&HostRequest::Input { origin: Origin::User, bytes });
            }
            StdinEvent::Resize => {
                if let (SizeFrom::Window, Some(window)) = (self.size, self.size.window()) {
                    self.request(&HostRequest::View(window));
                }
            }
        }
    }

    /// Handles a signal of this process before it is passed on to the program.
    fn on_signal(&mut self, event: SignalEvent) {
        if event == SignalEvent::Signal(Signal::INT) {
            self.interrupted = self.interrupted.or(Some(Interrupted::Signalled));
        }
        if event.is_termination() {
            self.output.start_deadline();
        }
    }
}
