//! Shuts a host down after its program has ended: completes the recording and notifies clients, with a time limit for each
//! step.

use std::time::Duration;

use nerve_types::ExitStatus;
use rustix::process::Signal;
use tokio::time::Instant;

use super::super::blocking_task::run_with_timeout;
use super::super::end_snapshot::PendingEndSnapshot;
use super::super::protocol::HostEvent;
use super::{Inbox, Session};

/// Time for sending the last frames.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for completing the recording and its metadata. Exceeds the recorder's own timeout.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(12);
/// Time for each small file read or written.
const FILE_TIMEOUT: Duration = Duration::from_secs(2);

impl Session {
    /// Completes the session. A hanging disk costs at most the time limits, and what was not written yet.
    pub(super) async fn finish(mut self, mut inbox: Inbox) -> ExitStatus {
        let exit = self.lifecycle.exit().unwrap_or(ExitStatus::Unknown);
        let ended = self.clock.now();
        // Other processes of its group must not outlive it.
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
        // Dropping the taps writes the last block and syncs.
        let (taps, end) = (self.pump.take_taps(), self.metadata.finish(ended, exit, None));
        let closing = run_with_timeout(CLOSE_TIMEOUT, move || {
            drop(taps);
            end()
        });
        let closed = self.serve_until(&mut inbox, closing).await;
        match &closed {
            Some(Ok(())) => {}
            Some(Err(error)) => self.add_fault(format!("cannot write the exit to the metadata: {error}")),
            None => self.add_fault(self.disk_hangs()),
        }
        if let Some(error) = self.flusher.take().and_then(|flusher| flusher.outage()) {
            self.add_fault(format!("the end of the recording is missing: {error}"));
        }
        // A client that receives `Closed` finds the recording complete and the entry removed.
        let was_acknowledged = self.exit_ack.is_acknowledged();
        run_with_timeout(FILE_TIMEOUT, self.metadata.settle_entry(was_acknowledged)).await;
        // A hanging disk is not tried again.
        if let Some(end_snapshot) = end_snapshot.filter(|_| closed.is_some())
            && let Some(note) = self.serve_until(&mut inbox, end_snapshot.store()).await
        {
            // The note is optional.
            run_with_timeout(FILE_TIMEOUT, self.metadata.finish(ended, exit, Some(note))).await;
        }
        if self.exit_ack.is_acknowledged() && !was_acknowledged {
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
        format!(
            "the disk of {path} does not respond: the end of the recording and the end snapshot may be missing"
        )
    }

    /// Runs `work` while the host continues to serve clients.
    async fn serve_until<T>(&mut self, inbox: &mut Inbox, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            self.clients.check_backpressure();
            self.remove_disconnected();
            tokio::select! {
                done = &mut work => return done,
                Some((stream, is_internal)) = inbox.connections.recv() => self.on_connect(stream, is_internal),
                Some((client, event)) = inbox.client_events.recv() => self.on_client_event(client, event),
                // The program has already ended.
                Some(_) = inbox.owner_requests.recv() => {}
            }
        }
    }
}
