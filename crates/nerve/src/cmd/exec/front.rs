//! What is in front of an execution: its output out, keys of a terminal in, signals passed on.

use std::collections::VecDeque;
use std::io;

use anyhow::{Context, Result};
use nerve_core::host::connection::Connection;
use nerve_core::host::link::{Order, Report, Window};
use nerve_core::host::process::Host;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::terminal::TerminalState;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::lines::PlainLines;
use crate::out;
use crate::tty::streams::{read_keys, show};
use crate::tty::{self, RawMode};

/// Bytes of orders that may wait for the host.
const MAX_ORDERS: usize = 64 * 1024;
/// Rows above the screen that are kept to answer the program's questions; what is asked is about the screen.
const ROWS: u64 = 10;
/// Output without a sequence in it asks nothing; so much of its end says where the cursor is.
const TAIL: usize = 4096;

/// What of the outside belongs to the command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    /// Standard input is a terminal: its keys.
    pub(super) keys: bool,
    /// The window's size counts.
    pub(super) follow_size: bool,
    /// Line ends are written as the command wrote them.
    pub(super) plain_lines: bool,
    /// Its questions to a terminal of this size are answered here.
    pub(super) answers: Option<Size>,
}

/// The signals that a command is sent by who sends them to us.
pub(super) struct Signals(mpsc::Receiver<Signal>);

impl Signals {
    /// Begins to listen. Must be called on a runtime.
    pub(super) fn listen() -> Result<Signals> {
        let (sender, signals) = mpsc::channel(16);
        let passed = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
        for number in passed {
            let kind = SignalKind::from_raw(number.as_raw());
            let mut come = signal(kind).context("cannot listen for signals")?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while come.recv().await.is_some() && sender.send(number).await.is_ok() {} },
            );
        }
        Ok(Signals(signals))
    }
}

/// Stays until the command has ended and all its output is out.
pub(super) async fn run(
    host: &mut Host,
    stream: UnixStream,
    front: Front,
    mut signals: Signals,
) -> Result<ExitStatus> {
    let mut link = Connection::greeted(stream).await.context("the command's terminal does not answer")?;
    let mut orders = VecDeque::new();
    push(&mut orders, &Order::From { off: 0, whatever: true });
    // Others may look too: the smallest window counts.
    if let Some(size) = tty::window().filter(|_| front.follow_size) {
        push(&mut orders, &Order::View(Window::Shares(size)));
    }
    let raw = front.keys.then(RawMode::enter).flatten();
    let mut keys = if front.keys { read_keys() } else { mpsc::channel(1).1 };
    let mut sizes = signal(SignalKind::window_change()).context("cannot follow the window's size")?;
    let (screen, showing) = show();
    let mut faults = link.hello.faults.clone();
    let mut model = front.answers.map(|size| TerminalState::new(size).with_limits(ROWS, usize::MAX));
    let mut lines = PlainLines::default();
    // Output that nobody has taken yet; meanwhile nothing more is taken from the host.
    let mut shown: Option<Vec<u8>> = None;
    let (mut over, mut stopping) = (false, false);
    loop {
        while shown.is_none()
            && !over
            && let Some(report) = link.decoded()?
        {
            match report {
                Report::Output { at, bytes, .. } => {
                    if let Some(model) = &mut model {
                        answer(model, at, &bytes, &mut orders);
                    }
                    shown = Some(if front.plain_lines { lines.plain(&bytes) } else { bytes });
                }
                Report::Fault(message) => faults.push(message),
                Report::Exited(_) => push(&mut orders, &Order::Seen),
                Report::Closed => over = true,
                Report::Resized(size) => model.iter_mut().for_each(|model| model.resize(size)),
                _ => {}
            }
        }
        if over && shown.is_none() {
            break;
        }
        tokio::select! {
            room = screen.reserve(), if shown.is_some() => {
                let bytes = shown.take().unwrap_or_default();
                match room {
                    Ok(room) => room.send(bytes),
                    // Nobody reads any more: the command ends, as it would by SIGPIPE.
                    Err(_) if !stopping => {
                        stopping = true;
                        host.stop().await;
                    }
                    Err(_) => {}
                }
            }
            alive = link.exchange(&mut orders), if shown.is_none() && !over => over |= !alive?,
            Some(bytes) = keys.recv(), if orders.len() < MAX_ORDERS => {
                push(&mut orders, &Order::Input { origin: Origin::User, bytes });
            }
            Some(()) = sizes.recv(), if front.follow_size && orders.len() < MAX_ORDERS => {
                if let Some(size) = tty::window() {
                    push(&mut orders, &Order::View(Window::Shares(size)));
                }
            }
            Some(signal) = signals.0.recv() => host.entry.signal_child(signal),
        }
    }
    let rest = lines.rest();
    if !rest.is_empty() {
        // Somebody who is gone misses nothing.
        let _ = screen.send(rest).await;
    }
    drop((link, screen));
    let exit = host.finished().await;
    let written = showing.await.context("cannot write to standard output")?;
    drop(raw);
    faults.iter().for_each(out::warning);
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(exit),
    }
}

/// Answers what the command asks its terminal.
fn answer(model: &mut TerminalState, at: TsNs, bytes: &[u8], orders: &mut VecDeque<u8>) {
    let from = if bytes.contains(&0x1b) { 0 } else { bytes.len().saturating_sub(TAIL) };
    let replies = model.process_data(at, &bytes[from..]).replies;
    if !replies.is_empty() && orders.len() < MAX_ORDERS {
        push(orders, &Order::Input { origin: Origin::Terminal, bytes: replies });
    }
}

fn push(orders: &mut VecDeque<u8>, order: &Order) {
    let mut bytes = Vec::new();
    order.encode(&mut bytes);
    orders.extend(bytes);
}
