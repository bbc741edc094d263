//! The lease of a terminal's input.

use std::time::Duration;

use nerve_host::backend::Lease;
use nerve_types::TsNs;

/// Time for which a person who types through the server keeps the lease.
const TYPING_TIMEOUT: Duration = Duration::from_secs(2);

/// The last known holder of a terminal's input lease. Prompts wait while a person holds it.
#[derive(Debug, Default)]
pub(super) struct InputLease {
    holder: Option<String>,
    /// Time at which a held lease is queried again.
    check_at: Option<TsNs>,
    /// End of the lease of a person who types through the server, of which the backend does not know.
    held_until: Option<TsNs>,
}

impl InputLease {
    /// Returns true if input may be typed now. Queries the lease unless it is known to be held.
    pub(super) fn acquire(&mut self, now: TsNs, query: impl FnOnce() -> Lease) -> bool {
        if self.check_at.is_some_and(|at| at > now) {
            return false;
        }
        if let Some(until) = self.held_until.filter(|until| *until > now) {
            (self.holder, self.check_at) = (Some("a person in a browser".to_string()), Some(until));
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

    /// Gives the lease to a person who types through the server.
    pub(super) fn hold(&mut self, now: TsNs) {
        self.held_until = Some(now + TYPING_TIMEOUT);
        self.check_at = None;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_through_the_server_holds_the_lease() {
        let mut lease = InputLease::default();
        let start = TsNs(1_000_000_000);
        assert!(lease.acquire(start, || Lease::Free));
        lease.hold(start);
        assert!(!lease.acquire(start, || panic!("the holder is known")));
        assert_eq!(
            (lease.holder(), lease.deadline()),
            (Some("a person in a browser"), Some(start + TYPING_TIMEOUT))
        );
        // The next key extends it, also if the backend reports another change.
        let later = start + TYPING_TIMEOUT / 2;
        lease.hold(later);
        lease.invalidate();
        assert!(!lease.acquire(start + TYPING_TIMEOUT, || Lease::Free));
        lease.invalidate();
        assert!(lease.acquire(later + TYPING_TIMEOUT, || Lease::Free));
        assert_eq!(lease.holder(), None);
    }
}
