//! What a prompt does at a dialog of the agent.

/// The behaviour of a prompt at a dialog of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DialogPolicy {
    /// Fails at any dialog.
    Fail,
    /// Fails at a dialog of its own turn, and waits behind the turn of another prompt.
    #[default]
    Report,
    /// Waits until the dialog is answered. Its turn ends with its real outcome.
    Wait,
}

impl DialogPolicy {
    /// Returns true if a queued prompt fails at a dialog. `has_turn`: the dialog belongs to the turn of another prompt.
    pub(crate) fn fails_in_queue(self, has_turn: bool) -> bool {
        match self {
            DialogPolicy::Fail => true,
            DialogPolicy::Report => !has_turn,
            DialogPolicy::Wait => false,
        }
    }
}
