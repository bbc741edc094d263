//! The last things a host does when its program is over: what is written, what is told, and how long a disk is waited for.

use std::time::Duration;

use nerve_term::event::ExitStatus;
use rustix::process::Signal;
use tokio::time::Instant;

use super::super::blocking::run_with_timeout;
use super::super::end_snapshot::PendingEndSnapshot;
use super::super::protocol::HostEvent;
use super::{Inbox, Session};

/// How long the last frames may take to leave.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the end of the recording may take, and what stands beside it: more than the recorder waits for its disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(12);
/// How long each little file may take that is read or written then.
const FILE_TIMEOUT: Duration = Duration::from_secs(2);

impl Session {
    /// A disk that hangs costs what would be on it, and so much time: nobody waits for it for ever.
    pub(super) async fn finish(mut self, mut inbox: Inbox) -> ExitStatus {
        let exit = self.lifecycle.exit().unwrap_or(ExitStatus::Unknown);
        let ended = self.clock.now();
        // Whatever its group left behind must not outlive it.
        self.pty.control.signal(Signal::HUP);
        let (spec, last, anchor) = (self.spec.clone(), self.last_snapshot, self.pump.offset());
        let end_snapshot =
            run_with_timeout(FILE_TIMEOUT, move || PendingEndSnapshot::plan(&spec, last, ended, anchor));
        let end_snapshot = self.serve_until(&mut inbox, end_snapshot).await.flatten();
        if let Some(end_snapshot) = &end_snapshot {
            end_snapshot.record(&mut self.pump);
            self.clients.broadcast(&end_snapshot.event());
        }
        self.pump.exit(ended, exit);
        self.report_faults();
        // Writes the last block and syncs.
        let (taps, end) = (self.pump.take_taps(), self.metadata.finish(ended, exit, None));
        let closing = run_with_timeout(CLOSE_TIMEOUT, move || {
            drop(taps);
            end()
        });
        let closed = self.serve_until(&mut inbox, closing).await;
        match &closed {
            Some(Ok(())) => {}
            Some(Err(error)) => self.add_fault(format!("the metadata lacks the end: {error}")),
            None => self.add_fault(self.disk_hangs()),
        }
        self.flusher = None;
        // Whoever hears that it is over finds a whole recording, and no host.
        let seen = self.exit_ack.is_acknowledged();
        run_with_timeout(FILE_TIMEOUT, self.metadata.settle_entry(seen)).await;
        // On a disk that hangs already nothing more is tried.
        if let Some(end_snapshot) = end_snapshot.filter(|_| closed.is_some())
            && let Some(note) = self.serve_until(&mut inbox, end_snapshot.store()).await
        {
            // It is only a note.
            run_with_timeout(FILE_TIMEOUT, self.metadata.finish(ended, exit, Some(note))).await;
        }
        if self.exit_ack.is_acknowledged() && !seen {
            run_with_timeout(FILE_TIMEOUT, self.metadata.settle_entry(true)).await;
        }
        self.clients.broadcast(&HostEvent::Closed);
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        while !self.clients.is_drained() && Instant::now() < deadline {
            self.clients.wait_for_progress().await;
        }
        self.clients.detach_all();
        exit
    }

    fn disk_hangs(&self) -> String {
        let path = self.spec.recording.as_deref().unwrap_or(&self.spec.registry).display();
        format!("{path} takes nothing any more: its end may be missing, and no snapshot was taken at it")
    }

    /// Waits for something at the end, and answers whoever is connected or comes meanwhile.
    async fn serve_until<T>(&mut self, inbox: &mut Inbox, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            self.clients.check_backpressure();
            self.remove_disconnected();
            tokio::select! {
                done = &mut work => return done,
                Some((stream, is_internal)) = inbox.connections.recv() => self.on_connect(stream, is_internal),
                Some((client, event)) = inbox.client_events.recv() => self.on_client_event(client, event),
                // It is over already.
                Some(()) = inbox.stops.recv() => {}
            }
        }
    }
}
