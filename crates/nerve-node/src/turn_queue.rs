//! The queue of a node whose turns run in this process, one at a time.

use std::sync::Arc;

use nerve_api::event::EventKind;
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cancellation::cancelled_error;
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::turn_state::TurnState;

/// Maximum number of queued prompts.
pub(crate) const MAX_QUEUED: usize = 64;

/// The queue of the prompts of a node.
#[derive(Debug)]
pub struct TurnQueue {
    /// Held during a turn.
    turn: Arc<Mutex<()>>,
    /// The free places.
    places: Semaphore,
}

impl Default for TurnQueue {
    fn default() -> TurnQueue {
        TurnQueue { turn: Arc::default(), places: Semaphore::new(MAX_QUEUED) }
    }
}

impl TurnQueue {
    /// Returns the number of queued prompts.
    pub fn waiting(&self) -> usize {
        MAX_QUEUED - self.places.available_permits()
    }

    /// Waits until no turn runs, and prevents the next one while the guard exists.
    pub async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Waits for the place of a prompt. No other turn runs while the guard exists.
    ///
    /// # Errors
    /// Busy, Timeout, Cancelled.
    pub async fn enter(
        &self,
        state: &TurnState,
        prompt: &Prompt,
        cancellation: &CancellationToken,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<()>, EngineError> {
        match Arc::clone(&self.turn).try_lock_owned() {
            Ok(turn) => return Ok(turn),
            Err(_) if prompt.fail_if_busy => {
                return Err(state.error(ErrorKind::Busy, "another turn is running"));
            }
            Err(_) => {}
        }
        let place = self.places.try_acquire().map_err(|_| {
            let what = format!("the queue is full: {MAX_QUEUED} prompts are waiting");
            state.error(ErrorKind::Busy, &what).hint("try again later")
        })?;
        state.publish(EventKind::NodeQueueChanged {});
        let turn = tokio::select! {
            turn = timeout_at(deadline, self.lock()) => turn.map_err(|_| {
                state.error(ErrorKind::Timeout, "timed out before the turn began: another one is running")
            }),
            () = cancellation.cancelled() => Err(cancelled_error()),
        };
        drop(place);
        state.publish(EventKind::NodeQueueChanged {});
        turn
    }
}
