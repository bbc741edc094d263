//! A pane of tmux as the backend of a node.

use std::io;
use std::time::Duration;

use nerve_host::backend::{Backend, BackendEvent, Lease, Memory};
use nerve_host::recorder::Flusher;
use nerve_types::os::ProcessExit;
use nerve_types::{Foreground, Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::time::Instant;

use super::TmuxPane;
use super::link::{AttachError, LinkState};
use crate::tmux::input_lease;
use crate::tmux::query_queue::Query;
use crate::tmux::quoting::command;
use crate::tty;

/// Time between exit and end of output.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval of status queries if the system cannot report the exit.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Backend for TmuxPane {
    async fn next(&mut self) -> BackendEvent {
        loop {
            self.events.extend(self.pump.take_failures().into_iter().map(BackendEvent::Fault));
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.output.clear();
            self.send_input();
            let retry_at = self.exit_tracker.retry_at();
            match &mut self.link {
                LinkState::Connecting(connecting) => match connecting.await {
                    Ok(Ok(attached)) => self.on_attached(attached, true),
                    Ok(Err(attach_error)) => self.on_attach_failed(&attach_error),
                    Err(error) => {
                        self.on_attach_failed(&AttachError { reason: error.to_string(), gone: false })
                    }
                },
                LinkState::Live(control) => {
                    let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
                    let poll_at = match retry_at {
                        Some(at) => at,
                        None if self.target.exit.is_none() => Instant::now() + POLL_INTERVAL,
                        None => Instant::now() + nerve_host::clock::MAX_TIMEOUT,
                    };
                    let exit = self.target.exit.as_ref().filter(|_| !self.exit_tracker.has_process_exited());
                    tokio::select! {
                        message = control.next(), if on_disk.is_none() => match message {
                            Ok(message) => self.on_message(message),
                            Err(error) => self.on_disconnect(&error.to_string()),
                        },
                        () = wait_for_disk(on_disk), if on_disk.is_some() => {}
                        () = wait_exit(exit), if exit.is_some() => {
                            self.exit_tracker.on_process_exit(Instant::now());
                            self.query_exit();
                        }
                        () = tokio::time::sleep_until(poll_at) => {
                            self.exit_tracker.clear_retry();
                            self.query_exit();
                        }
                    }
                    self.gather_output();
                    if !self.output.is_empty() {
                        self.pump.output(self.clock.now(), &self.output);
                        return BackendEvent::Output;
                    }
                }
                LinkState::Closing { completing, last_event } => {
                    let failed = completing.await.unwrap_or_else(|error| Some(error.to_string()));
                    self.events.extend(failed.map(BackendEvent::Fault));
                    self.events.extend(last_event.take());
                    self.link = LinkState::Closed;
                }
                LinkState::Closed => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        let attached = !matches!(self.link, LinkState::Closed)
            && !self.exit_tracker.is_reported()
            && self.input.push(bytes);
        if attached {
            let hidden = self.hides_input();
            self.pump.input(now, bytes, origin, hidden);
        }
        attached
    }

    fn queued_input(&self) -> usize {
        self.input.queued_input()
    }

    fn resize(&mut self, _now: TsNs, size: Size) -> io::Result<()> {
        if !matches!(self.link, LinkState::Live(_)) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "not connected to tmux"));
        }
        let (cols, rows) = (size.cols.to_string(), size.rows.to_string());
        let pane = &self.entry.pane;
        let to = format!("-t {pane} -x {cols} -y {rows}");
        let is_alone = "#{==:#{window_panes},1}";
        let resize = format!("if-shell -F -t {pane} '{is_alone}' 'resize-window {to}' 'resize-pane {to}'");
        let is_same = match self.entry.pid {
            Some(pid) => format!("#{{==:#{{pane_pid}},{pid}}}"),
            None => "1".to_string(),
        };
        let size = ["display-message", "-p", "-t", &self.entry.pane, "#{pane_width} #{pane_height}"];
        let resize = ["if-shell", "-F", "-t", &self.entry.pane, &is_same, &resize];
        let commands = [command(&resize), command(&size)];
        self.query(Query::Size { requested: true }, &commands);
        Ok(())
    }

    /// Does nothing: the program is not ours.
    fn signal(&self, _signal: Signal) {}

    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        self.entry.pid.map_or(Foreground::Unknown, |pid| tty::foreground(pid, detailed, shells))
    }

    fn hides_input(&self) -> bool {
        self.target.tty.as_deref().is_some_and(tty::hides_input)
    }

    fn remember(&mut self, memory: &Memory) {
        self.entry.memory = memory.clone();
        if self.exit_tracker.is_reported() {
            return;
        }
        if let Err(error) = self.panes.store(&self.entry) {
            self.events.push_back(BackendEvent::Fault(format!("cannot write the pane's entry: {error}")));
        }
    }

    fn drain_time(&self) -> Duration {
        DRAIN
    }

    fn pid(&self) -> Option<i32> {
        self.entry.pid
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        if !matches!(self.link, LinkState::Live(_)) {
            // A new connection reports it.
            return Lease::Pending;
        }
        if let Some(lease) = self.input_lease.take(now) {
            return lease;
        }
        if !self.queries.contains(Query::InputLease) {
            let commands = input_lease::queries(&self.entry.pane);
            self.query(Query::InputLease, &commands);
        }
        Lease::Pending
    }

    fn is_foreign(&self) -> bool {
        true
    }

    /// Detaches from the pane.
    fn end(&mut self, _signal: Signal) {
        if !std::mem::replace(&mut self.detached, true) && !self.exit_tracker.is_reported() {
            self.on_exit();
        }
    }
}

async fn wait_for_disk(on_disk: Option<&Flusher>) {
    match on_disk {
        Some(flusher) => flusher.room().await,
        None => std::future::pending().await,
    }
}

/// Waits for a process to exit.
async fn wait_exit(process: Option<&ProcessExit>) {
    match process {
        // On an error, tmux is queried as after an exit.
        Some(process) => drop(process.wait().await),
        None => std::future::pending().await,
    }
}
