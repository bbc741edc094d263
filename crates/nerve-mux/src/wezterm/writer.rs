//! Sends input to a pane, one call at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nerve_host::backend::PaneError;
use tokio::sync::mpsc;

use super::input::InputCall;
use super::pane_cache::WeztermServer;
use super::poller::{PaneEvent, Process, SharedState};

/// The calls for one write.
pub(super) type Batch = VecDeque<InputCall>;

/// The task that sends the input of a pane.
pub(super) struct InputWriter {
    pub(super) server: Arc<WeztermServer>,
    pub(super) pane: String,
    pub(super) process: Option<Process>,
    pub(super) shared: Arc<SharedState>,
    pub(super) batches: mpsc::UnboundedReceiver<Batch>,
    /// Bytes queued here.
    pub(super) queued_bytes: Arc<AtomicUsize>,
    pub(super) events: mpsc::Sender<PaneEvent>,
}

impl InputWriter {
    /// Runs until the backend is dropped.
    pub(super) async fn run(mut self) {
        while let Some(mut batch) = self.batches.recv().await {
            while let Some(call) = batch.pop_front() {
                let result = self.send(&call).await;
                self.queued_bytes.fetch_sub(call.size(), Ordering::Relaxed);
                self.shared.wake.notify_one();
                let Err(error) = result else { continue };
                // A partial input must not be followed by its Enter.
                let unsent: usize = batch.iter().map(InputCall::size).sum();
                batch.clear();
                self.queued_bytes.fetch_sub(unsent, Ordering::Relaxed);
                let is_gone = matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
                // The poller reports that the pane is gone.
                if !is_gone
                    && self.events.send(PaneEvent::Fault(fault_message(&call, unsent, &error))).await.is_err()
                {
                    return;
                }
            }
        }
    }

    async fn send(&self, call: &InputCall) -> Result<(), PaneError> {
        // Another program may have a pane of this id by now.
        if self.process.is_some_and(|process| !process.is_alive()) {
            return Err(PaneError::NoPane(self.pane.clone()));
        }
        match call {
            InputCall::Paste(text) => self.server.wezterm.paste(&self.pane, text).await,
            InputCall::Keys(keys) => self.server.wezterm.keys(&self.pane, keys).await,
        }
    }
}

fn fault_message(call: &InputCall, rest: usize, error: &PaneError) -> String {
    let rest = if rest > 0 { format!(", and {rest} bytes after them were not typed") } else { String::new() };
    match error {
        PaneError::Timeout(..) => {
            format!("{} bytes may or may not have been typed{rest}: {error}", call.size())
        }
        _ => format!("{} bytes were not typed{rest}: {error}", call.size()),
    }
}
