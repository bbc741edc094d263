//! The faults of a host, for clients that connect later.

use std::collections::VecDeque;

/// Maximum number of faults kept.
const MAX_FAULTS: usize = 8;

/// The last faults, and the number of all.
#[derive(Debug, Default)]
pub(super) struct Faults {
    newest: VecDeque<String>,
    total: usize,
}

impl Faults {
    /// Adds a fault. The oldest is dropped if there are too many.
    pub(super) fn push(&mut self, message: String) {
        self.newest.push_back(message);
        self.total += 1;
        if self.newest.len() > MAX_FAULTS {
            self.newest.pop_front();
        }
    }

    /// Returns the newest faults, oldest first.
    pub(super) fn newest(&self) -> Vec<String> {
        self.newest.iter().cloned().collect()
    }

    /// Returns the number of faults so far.
    pub(super) fn total(&self) -> usize {
        self.total
    }
}

impl FromIterator<String> for Faults {
    fn from_iter<I: IntoIterator<Item = String>>(messages: I) -> Faults {
        let mut faults = Faults::default();
        messages.into_iter().for_each(|message| faults.push(message));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_faults_are_kept_and_all_counted() {
        let faults: Faults = (0..20).map(|number| number.to_string()).collect();
        assert_eq!((faults.newest().len(), faults.total()), (MAX_FAULTS, 20));
        assert_eq!((faults.newest()[0].as_str(), faults.newest()[7].as_str()), ("12", "19"));
    }
}
