//! The lease of a terminal's input.

use nerve_host::backend::Lease;
use nerve_types::TsNs;

/// The last known holder of a terminal's input lease. Prompts wait while a person holds it.
#[derive(Debug, Default)]
pub(super) struct InputLease {
    holder: Option<String>,
    /// Time at which a held lease is queried again.
    check_at: Option<TsNs>,
}

impl InputLease {
    /// Returns true if input may be typed now. Queries the lease unless it is known to be held.
    pub(super) fn acquire(&mut self, now: TsNs, query: impl FnOnce() -> Lease) -> bool {
        if self.check_at.is_some_and(|at| at > now) {
            return false;
        }
        match query() {
            Lease::Free => {
                self.holder = None;
                true
            }
            Lease::Pending => false,
            Lease::Held { by, until } => {
                (self.holder, self.check_at) = (Some(by), Some(until));
                false
            }
        }
    }

    /// Notes that the lease may have changed: the next prompt queries it.
    pub(super) fn invalidate(&mut self) {
        self.check_at = None;
    }

    /// Returns the time at which a held lease is queried again.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.check_at
    }

    /// Returns the holder, if it is not this node.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }
}
