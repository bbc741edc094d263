//! A job that the viewer runs in the background, and finishes after it has closed unless a signal arrives.

use std::pin::Pin;

use tokio::sync::mpsc;

use crate::out;

/// A handle to a running job, which receives its events.
pub(super) struct BackgroundJob<E> {
    events: mpsc::UnboundedReceiver<E>,
    /// Creates the event of a job that ended without one because it panicked.
    on_panic: fn() -> E,
    /// Printed once if the job is still running after the viewer has closed.
    notice: Option<&'static str>,
    /// Resolves when this process was signalled after the job started.
    stop: Pin<Box<dyn Future<Output = ()>>>,
}

impl<E> BackgroundJob<E> {
    /// Creates the handle of a job that has begun. Must be called on a runtime.
    pub(super) fn new(
        events: mpsc::UnboundedReceiver<E>,
        on_panic: fn() -> E,
        notice: &'static str,
    ) -> BackgroundJob<E> {
        // A signal that ends the viewer also ends the job.
        BackgroundJob { events, on_panic, notice: Some(notice), stop: Box::pin(nerve_server::stop_signal()) }
    }

    /// Returns the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> E {
        self.events.recv().await.unwrap_or_else(self.on_panic)
    }

    /// Returns the next event after the viewer has closed; `None` if this process was signalled.
    pub(super) async fn next_unless_stopped(&mut self) -> Option<E> {
        loop {
            tokio::select! {
                biased;
                () = &mut self.stop => return None,
                event = self.events.recv() => return Some(event.unwrap_or_else(self.on_panic)),
                () = async {}, if self.notice.is_some() => self.notice.take().into_iter().for_each(out::note),
            }
        }
    }
}
