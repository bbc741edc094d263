//! Types into a pane, one call after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::input::InputCall;
use super::pane_cache::WeztermServer;
use super::poller::{PaneEvent, SharedState};
use crate::backend::pane::PaneError;

/// What was written at once.
pub(super) type Batch = VecDeque<InputCall>;

/// See the module.
pub(super) struct InputWriter {
    pub(super) server: Arc<WeztermServer>,
    pub(super) pane: String,
    pub(super) shared: Arc<SharedState>,
    pub(super) batches: mpsc::UnboundedReceiver<Batch>,
    /// Bytes that wait here.
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) events: mpsc::Sender<PaneEvent>,
}

impl InputWriter {
    /// Types until nobody asks for it any more.
    pub(super) async fn run(mut self) {
        while let Some(mut batch) = self.batches.recv().await {
            while let Some(call) = batch.pop_front() {
                let sent = self.send(&call).await;
                self.waiting.fetch_sub(call.size(), Ordering::Relaxed);
                self.shared.wake.notify_one();
                let Err(error) = sent else { continue };
                // Half of it must not be followed by its Enter.
                let rest: usize = batch.iter().map(InputCall::size).sum();
                batch.clear();
                self.waiting.fetch_sub(rest, Ordering::Relaxed);
                let gone = matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
                // That the pane is gone is seen, and told.
                if !gone
                    && self.events.send(PaneEvent::Fault(fault_message(&call, rest, &error))).await.is_err()
                {
                    return;
                }
            }
        }
    }

    async fn send(&self, call: &InputCall) -> Result<(), PaneError> {
        match call {
            InputCall::Paste(text) => self.server.wezterm.paste(&self.pane, text).await,
            InputCall::Keys(keys) => self.server.wezterm.keys(&self.pane, keys).await,
        }
    }
}

fn fault_message(call: &InputCall, rest: usize, error: &PaneError) -> String {
    let rest = if rest > 0 { format!(", and {rest} bytes after them were not typed") } else { String::new() };
    match error {
        PaneError::NoAnswer(..) => {
            format!("{} bytes may or may not have been typed{rest}: {error}", call.size())
        }
        _ => format!("{} bytes were not typed{rest}: {error}", call.size()),
    }
}
