//! The last things a host does when its program is over: what is written, what is told, and how long a disk is waited for.

use std::time::Duration;

use nerve_term::event::ExitStatus;
use rustix::process::Signal;
use tokio::time::Instant;

use super::super::blocking::within;
use super::super::end_snapshot::Ending;
use super::super::protocol::HostEvent;
use super::{Inbox, Session};

/// How long the last frames may take to leave.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the end of the recording may take, and what stands beside it: more than the recorder waits for its disk.
const CLOSING: Duration = Duration::from_secs(12);
/// How long each little file may take that is read or written then.
const A_FILE: Duration = Duration::from_secs(2);

impl Session {
    /// A disk that hangs costs what would be on it, and so much time: nobody waits for it for ever.
    pub(super) async fn finish(mut self, mut inbox: Inbox) -> ExitStatus {
        let exit = self.life.exit().unwrap_or(ExitStatus::Unknown);
        let ended = self.clock.now();
        // Whatever its group left behind must not outlive it.
        self.pty.control.signal(Signal::HUP);
        let (spec, last, anchor) = (self.spec.clone(), self.last_snapshot, self.pump.offset());
        let ending = within(A_FILE, move || Ending::of(&spec, last, ended, anchor));
        let ending = self.serving(&mut inbox, ending).await.flatten();
        if let Some(ending) = &ending {
            ending.mark(&mut self.pump);
            self.links.tell(&ending.event());
        }
        self.pump.exit(ended, exit);
        self.report_faults();
        // Writes the last block and syncs.
        let (taps, end) = (self.pump.take_taps(), self.notes.end(ended, exit, None));
        let closing = within(CLOSING, move || {
            drop(taps);
            end()
        });
        let closed = self.serving(&mut inbox, closing).await;
        match &closed {
            Some(Ok(())) => {}
            Some(Err(error)) => self.fault(format!("the metadata lacks the end: {error}")),
            None => self.fault(self.disk_hangs()),
        }
        self.flusher = None;
        // Whoever hears that it is over finds a whole recording, and no host.
        let seen = self.witness.has_seen();
        within(A_FILE, self.notes.settle(seen)).await;
        // On a disk that hangs already nothing more is tried.
        if let Some(ending) = ending.filter(|_| closed.is_some())
            && let Some(note) = self.serving(&mut inbox, ending.keep()).await
        {
            // It is only a note.
            within(A_FILE, self.notes.end(ended, exit, Some(note))).await;
        }
        if self.witness.has_seen() && !seen {
            within(A_FILE, self.notes.settle(true)).await;
        }
        self.links.tell(&HostEvent::Closed);
        let deadline = Instant::now() + FAREWELL;
        while !self.links.drained() && Instant::now() < deadline {
            self.links.room().await;
        }
        self.links.let_go();
        exit
    }

    fn disk_hangs(&self) -> String {
        let path = self.spec.recording.as_deref().unwrap_or(&self.spec.registry).display();
        format!("{path} takes nothing any more: its end may be missing, and no snapshot was taken at it")
    }

    /// Waits for something at the end, and answers whoever is connected or comes meanwhile.
    async fn serving<T>(&mut self, inbox: &mut Inbox, something: impl Future<Output = T>) -> T {
        let mut something = std::pin::pin!(something);
        loop {
            self.links.keeping_up();
            self.forget_cut();
            tokio::select! {
                done = &mut something => return done,
                Some((stream, inside)) = inbox.connected.recv() => self.connected(stream, inside),
                Some((link, heard)) = inbox.heard.recv() => self.heard(link, heard),
                // It is over already.
                Some(()) = inbox.stops.recv() => {}
            }
        }
    }
}
