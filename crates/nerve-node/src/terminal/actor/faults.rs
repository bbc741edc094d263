//! The failures that a node survived.

/// Maximum number of messages kept.
const MAX_MESSAGES: usize = 8;

/// The first failures that a node survived, and the number of later ones, which are only in the log and the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    messages: Vec<String>,
    omitted: u64,
}

impl Faults {
    /// Adds a message, or counts it if there are too many.
    pub(super) fn add(&mut self, message: String) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the messages as one line for the node's info, or `None` without a failure.
    pub(crate) fn summary(&self) -> Option<String> {
        let omitted = (self.omitted > 0).then(|| format!("{} more in the log", self.omitted));
        let parts: Vec<&str> = self.messages.iter().chain(&omitted).map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_faults_are_counted() {
        let mut faults = Faults::default();
        assert_eq!(faults.summary(), None);
        faults.add("disk full".into());
        assert_eq!(faults.summary().as_deref(), Some("disk full"));
        for nth in 2..=10 {
            faults.add(format!("fault {nth}"));
        }
        let summary = faults.summary().unwrap();
        assert!(summary.starts_with("disk full; fault 2; "), "{summary}");
        assert!(summary.ends_with("; fault 8; 2 more in the log"), "{summary}");
    }
}
