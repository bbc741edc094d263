//! This terminal in front of a host: output out, keys in, the window's size followed.

use std::future::Future;
use std::io::{IsTerminal, Read};
use std::pin::pin;

use anyhow::{Context, Result};
use nerve_core::host::connection::Connection;
use nerve_core::host::link::{Order, Report};
use nerve_core::host::process::Host;
use nerve_term::event::{ExitStatus, Origin};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::tty::{self, RawMode};
use crate::out;

/// Keys are read in pieces of this size; a paste is several.
const KEYS: usize = 16 * 1024;
/// End of file, where the keys come from a file or a pipe that has ended (termios(3), VEOF).
const END_OF_FILE: u8 = 0x04;

/// What of this terminal belongs to the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    /// Nothing of it.
    pub(super) headless: bool,
    /// The window's size counts.
    pub(super) follow_size: bool,
}

/// Stays until the program has ended and all its output is out.
pub(super) async fn run(host: &mut Host, front: Front, stop: impl Future<Output = ()>) -> Result<ExitStatus> {
    let stream = host.connect().await.context("cannot connect to the program's terminal")?;
    let mut link = Connection::greeted(stream).await.context("the program's terminal does not answer")?;
    link.send(&Order::From { off: 0, whatever: true }).await?;
    let raw = (!front.headless).then(RawMode::enter).flatten();
    let mut keys = if front.headless { mpsc::channel(1).1 } else { read_keys() };
    let mut sizes = signal(SignalKind::window_change()).context("cannot follow the window's size")?;
    let mut stop = pin!(stop);
    let mut stopping = false;
    let mut screen = tokio::io::stdout();
    let mut faults = link.hello.faults.clone();
    loop {
        tokio::select! {
            report = link.next() => match report? {
                Some(Report::Output { bytes, .. }) if !front.headless => {
                    screen.write_all(&bytes).await.context("cannot write to this terminal")?;
                    screen.flush().await.context("cannot write to this terminal")?;
                }
                Some(Report::Fault(message)) => faults.push(message),
                Some(Report::Closed) | None => break,
                Some(_) => {}
            },
            Some(bytes) = keys.recv() => link.send(&Order::Input { origin: Origin::User, bytes }).await?,
            Some(()) = sizes.recv(), if front.follow_size => {
                if let Some(size) = tty::window() {
                    link.send(&Order::Resize(size)).await?;
                }
            }
            () = &mut stop, if !stopping => {
                stopping = true;
                host.stop().await;
            }
        }
    }
    drop(link);
    let exit = host.finished().await;
    drop(raw);
    for fault in faults {
        out::warning(fault);
    }
    Ok(exit)
}

/// Reads standard input on a thread of its own: such a read cannot be given up.
fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = vec![0; KEYS];
        loop {
            let piece = match input.read(&mut bytes) {
                Ok(0) if input.is_terminal() => return,
                Ok(0) => vec![END_OF_FILE],
                Ok(size) => bytes[..size].to_vec(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let ended = piece == [END_OF_FILE] && !input.is_terminal();
            if sender.blocking_send(piece).is_err() || ended {
                return;
            }
        }
    });
    keys
}
