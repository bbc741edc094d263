//! Detects that the screens of an agent do not fit its profile.

use std::time::Duration;

use nerve_types::TsNs;

use super::{Driver, View};

/// Time without output after which a screen without composer, dialog or sign of work is a mismatch.
const MISMATCH_DELAY: Duration = Duration::from_secs(10);

impl Driver {
    /// Returns how the screen differs from the profile, if it does: the agent may be another version, or another
    /// program.
    pub fn mismatch(&self) -> Option<String> {
        self.is_mismatched.then(|| {
            let (name, seconds) = (&self.profile.name, MISMATCH_DELAY.as_secs());
            format!("for {seconds} s the screen shows no composer, dialog or sign of work that profile '{name}' knows")
        })
    }

    /// Compares the last observation with the profile.
    pub(super) fn check_profile(&mut self, now: TsNs, view: &View<'_>) {
        let observation = &self.observation;
        let is_expected = self.profile.composer.is_none()
            || observation.composer.is_some()
            || observation.signal.is_some()
            || !observation.choices.is_empty()
            // Nothing is drawn yet, or a loaded machine takes long to start the agent.
            || view.screen.rows.iter().all(|row| row.text.trim().is_empty());
        let due = self.activity.last_output.max(self.barrier.at()) + MISMATCH_DELAY;
        self.is_mismatched = !is_expected && now >= due;
        if !is_expected && now < due {
            self.wake_at(due);
        }
    }
}
