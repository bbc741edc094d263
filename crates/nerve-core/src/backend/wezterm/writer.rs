//! Types into a pane, one call after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::input::Typing;
use super::pane_cache::Server;
use super::poller::{Seen, Shared};
use crate::backend::pane::PaneError;

/// What was written at once.
pub(super) type Batch = VecDeque<Typing>;

/// See the module.
pub(super) struct Hand {
    pub(super) server: Arc<Server>,
    pub(super) pane: String,
    pub(super) shared: Arc<Shared>,
    pub(super) batches: mpsc::UnboundedReceiver<Batch>,
    /// Bytes that wait here.
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) reports: mpsc::Sender<Seen>,
}

impl Hand {
    /// Types until nobody asks for it any more.
    pub(super) async fn run(mut self) {
        while let Some(mut batch) = self.batches.recv().await {
            while let Some(typing) = batch.pop_front() {
                let typed = self.type_one(&typing).await;
                self.waiting.fetch_sub(typing.size(), Ordering::Relaxed);
                self.shared.poke.notify_one();
                let Err(error) = typed else { continue };
                // Half of it must not be followed by its Enter.
                let rest: usize = batch.iter().map(Typing::size).sum();
                batch.clear();
                self.waiting.fetch_sub(rest, Ordering::Relaxed);
                let gone = matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
                // That the pane is gone is seen, and told.
                if !gone && self.reports.send(Seen::Fault(told(&typing, rest, &error))).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn type_one(&self, typing: &Typing) -> Result<(), PaneError> {
        match typing {
            Typing::Paste(text) => self.server.wezterm.paste(&self.pane, text).await,
            Typing::Keys(keys) => self.server.wezterm.keys(&self.pane, keys).await,
        }
    }
}

fn told(typing: &Typing, rest: usize, error: &PaneError) -> String {
    let rest = if rest > 0 { format!(", and {rest} bytes after them were not typed") } else { String::new() };
    match error {
        PaneError::NoAnswer(..) => {
            format!("{} bytes may or may not have been typed{rest}: {error}", typing.size())
        }
        _ => format!("{} bytes were not typed{rest}: {error}", typing.size()),
    }
}
