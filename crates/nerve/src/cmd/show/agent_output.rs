//! Shows an execution without its own terminal: its output arrives at its end, and keys go to the agent's terminal.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result};
use nerve_host::CONTROL;
use nerve_host::connection::Connection;
use nerve_host::executions::follow::ExecutionFollower;
use nerve_host::protocol::{HostEvent, HostRequest};
use nerve_record::executions::ExecutionLine;
use nerve_server::paths::ServerPaths;
use nerve_tui::terminal::RawMode;
use nerve_tui::terminal::signals::{SignalEvent, Signals};
use nerve_tui::terminal::stdin_reader::read_keys;
use nerve_types::Origin;
use tokio::sync::mpsc;

use crate::cmd::exec::session;
use crate::exit::{Failure, INTERRUPTED};
use crate::out;

/// Ctrl+] leaves, as in the viewer.
const LEAVE: u8 = 0x1d;

/// Waits for the execution's end and returns its output; `None` if the agent ended first.
pub(super) async fn wait(
    session: &Path,
    line: &ExecutionLine,
    paths: &ServerPaths,
) -> Result<Option<String>> {
    let mut follow = ExecutionFollower::new(session)?;
    let ended_line =
        |follow: &ExecutionFollower| follow.known().get(&line.id).filter(|line| line.has_ended()).cloned();
    let Some(host) = session::find_host(session, paths) else {
        return Ok(ended_line(&follow).and_then(|line| line.output));
    };
    let mut link = Connection::open(&host.runtime.join(CONTROL)).await?;
    // Only new events matter.
    let from = link.hello.off;
    link.send(&HostRequest::Subscribe { off: from, allow_gap: true }).await?;
    let forwards_keys = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let raw = forwards_keys.then(RawMode::enter).flatten();
    if forwards_keys {
        // Keys and signals are handled before the user can read this. Raw mode needs the carriage return.
        out::note(
            "the execution has no terminal of its own: its output appears when it ends; keys go to the agent; Ctrl+] detaches\r",
        );
    }
    let mut keys = if forwards_keys { read_keys() } else { mpsc::channel(1).1 };
    let output = loop {
        if let Some(line) = ended_line(&follow) {
            break Ok(line.output);
        }
        tokio::select! {
            changed = follow.changed() => drop(changed?),
            report = link.next() => match report? {
                None | Some(HostEvent::Closed) => {
                    // The last lines may have been listed meanwhile.
                    let last = ExecutionFollower::new(session)?;
                    break Ok(ended_line(&last).and_then(|line| line.output));
                }
                Some(_) => {}
            },
            signal = signals.next() => if let SignalEvent::Terminate(number) = signal {
                // The terminal is restored before anything is printed.
                break Err(Failure::new(128 + number, "detached: the tool continues").into());
            },
            Some(bytes) = keys.recv() => {
                if bytes.contains(&LEAVE) {
                    break Err(Failure::new(INTERRUPTED, "detached: the tool continues").into());
                }
                link.send(&HostRequest::Input { origin: Origin::Injected, bytes }).await?;
            }
        }
    };
    drop(raw);
    output
}
