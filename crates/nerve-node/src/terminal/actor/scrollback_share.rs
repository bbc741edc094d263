//! The share of a terminal in the scrollback memory of the process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_types::os::release_free_memory;
use nerve_vt::terminal::TerminalState;
use tokio::sync::watch;

/// Scrollback of all terminals of the process, in bytes. Older rows remain in the recordings.
const TOTAL: usize = 512 << 20;
/// Smallest and largest share of a terminal, in bytes.
const SHARE: std::ops::RangeInclusive<usize> = (1 << 20)..=(256 << 20);
/// Scrollback of a terminal, in rows.
const ROWS: u64 = 1_000_000;

/// Number of terminals. Memory belongs to the process, so all its engines share one count.
static TERMINALS: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);
/// Freed memory is about to be returned to the system.
static IS_RELEASING: AtomicBool = AtomicBool::new(false);

/// The share of one terminal. All shares are equal and change when a terminal starts or ends.
pub(super) struct ScrollbackShare {
    terminals: watch::Receiver<usize>,
}

impl ScrollbackShare {
    pub(super) fn new() -> ScrollbackShare {
        TERMINALS.send_modify(|count| *count += 1);
        let mut terminals = TERMINALS.subscribe();
        terminals.mark_changed();
        ScrollbackShare { terminals }
    }

    /// Waits until the share differs. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        // The sender is static, so this cannot fail.
        let _ = self.terminals.changed().await;
    }

    /// Limits the terminal to the share, and drops the oldest rows beyond it.
    pub(super) fn apply(&self, terminal: &mut TerminalState) {
        terminal.set_limits(ROWS, share_of(*self.terminals.borrow()));
    }
}

impl Drop for ScrollbackShare {
    fn drop(&mut self) {
        TERMINALS.send_modify(|count| *count -= 1);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !IS_RELEASING.swap(true, Ordering::AcqRel) {
            runtime.spawn_blocking(|| {
                IS_RELEASING.store(false, Ordering::Release);
                release_free_memory();
            });
        }
    }
}

/// Returns the bytes for each of `terminals`.
fn share_of(terminals: usize) -> usize {
    (TOTAL / terminals.max(1)).clamp(*SHARE.start(), *SHARE.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_total() {
        for terminals in [1, 2, 3, 10, 100, 512] {
            assert!(share_of(terminals) * terminals <= TOTAL, "{terminals}");
        }
        assert_eq!((share_of(1), share_of(10_000)), (*SHARE.end(), *SHARE.start()));
    }

    #[tokio::test]
    async fn terminals_learn_of_each_other() {
        let mut first = ScrollbackShare::new();
        first.changed().await;
        let count = *first.terminals.borrow_and_update();
        let second = ScrollbackShare::new();
        first.changed().await;
        assert_eq!(*first.terminals.borrow_and_update(), count + 1);
        drop(second);
        first.changed().await;
        assert_eq!(*first.terminals.borrow_and_update(), count);
    }
}
