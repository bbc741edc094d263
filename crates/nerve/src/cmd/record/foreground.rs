//! This terminal in front of a host: output out, keys in, the window's size followed.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;

use anyhow::{Context, Result};
use nerve_core::host::connection::Connection;
use nerve_core::host::link::{Order, Report, Window};
use nerve_core::host::process::Host;
use nerve_term::event::{ExitStatus, Origin, Size};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::out;
use crate::tty::streams::{read_keys, show};
use crate::tty::{self, RawMode};

/// Bytes of orders that may wait for the host.
const MAX_ORDERS: usize = 64 * 1024;

/// What of this terminal belongs to the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    /// Nothing of it.
    pub(super) headless: bool,
    /// A viewer before it tells what went wrong.
    pub(super) behind: bool,
    /// The size that was asked for: it counts whatever the windows are.
    pub(super) fixed: Option<Size>,
    /// The window's size counts.
    pub(super) follow_size: bool,
}

/// Stays until the program has ended and all its output is out.
pub(super) async fn run(
    host: &mut Host,
    stream: UnixStream,
    front: Front,
    stop: impl Future<Output = ()>,
) -> Result<ExitStatus> {
    let mut link = Connection::greeted(stream).await.context("the program's terminal does not answer")?;
    let mut orders = VecDeque::new();
    push(&mut orders, &Order::From { off: 0, whatever: true });
    // Others may look too: the smallest window counts.
    let shared = tty::window().filter(|_| front.follow_size).map(Window::Shares);
    if let Some(window) = front.fixed.map(Window::Sets).or(shared) {
        push(&mut orders, &Order::View(window));
    }
    let raw = (!front.headless).then(RawMode::enter).flatten();
    let mut keys = if front.headless { mpsc::channel(1).1 } else { read_keys() };
    let mut sizes = signal(SignalKind::window_change()).context("cannot follow the window's size")?;
    let mut stop = pin!(stop);
    let mut stopping = false;
    let (screen, showing) = show();
    let mut faults = link.hello.faults.clone();
    // Output that the screen has no room for yet; meanwhile nothing more is taken from the host.
    let mut shown: Option<Vec<u8>> = None;
    let mut over = false;
    loop {
        while shown.is_none()
            && !over
            && let Some(report) = link.decoded()?
        {
            match report {
                Report::Output { bytes, .. } => shown = Some(bytes).filter(|_| !front.headless),
                Report::Fault(message) => faults.push(message),
                Report::Exited(_) => push(&mut orders, &Order::Seen),
                Report::Closed => over = true,
                Report::Hello(_)
                | Report::Resized(_)
                | Report::Snapshot { .. }
                | Report::Behind { .. }
                | Report::Typed { .. }
                | Report::Full(_) => {}
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
                    // Nobody looks any more: the program ends as it would without us, and is recorded to its end.
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
            () = &mut stop, if !stopping => {
                stopping = true;
                host.stop().await;
            }
        }
    }
    drop((link, screen));
    let exit = host.finished().await;
    let written = showing.await.context("cannot write to this terminal")?;
    drop(raw);
    if !front.behind {
        faults.iter().for_each(out::warning);
    }
    written.context("cannot write to this terminal")?;
    Ok(exit)
}

fn push(orders: &mut VecDeque<u8>, order: &Order) {
    let mut bytes = Vec::new();
    order.encode(&mut bytes);
    orders.extend(bytes);
}
