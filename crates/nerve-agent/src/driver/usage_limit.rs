//! Usage limits that the agent has reported, and when each of them expires.

use std::time::Duration;

use nerve_types::TsNs;

use super::reset_time::parse_reset_time;

/// A notice in which an agent reports a usage limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitNotice {
    /// The notice's text, its wrapped rows joined.
    pub text: String,
    /// The part of the text that names a time.
    pub when: Option<String>,
}

/// Time for which a notice counts if its reset time is unknown. A time of day in an unknown zone has passed by then. After that a prompt
/// may be tried, and the agent repeats the notice if the limit still holds.
const MAX_SUSPENSION: Duration = Duration::from_secs(24 * 60 * 60);

/// Notices to remember; a screen shows two or three.
const MAX_NOTICES: usize = 8;

/// A notice and when it was first seen: `3pm` means another time tomorrow.
#[derive(Debug)]
pub(super) struct SeenNotice {
    text: String,
    pub(super) since: TsNs,
    pub(super) until: Option<TsNs>,
    /// The user chose not to wait.
    dismissed: bool,
}

impl SeenNotice {
    /// Returns when the notice stops counting even if it is still on the screen.
    pub(super) fn expires_at(&self) -> TsNs {
        self.until.unwrap_or(self.since + MAX_SUSPENSION)
    }
}

/// The notices of one terminal.
#[derive(Debug, Default)]
pub(super) struct UsageLimits(Vec<SeenNotice>);

impl UsageLimits {
    /// Records a notice on the screen. Returns true if it has expired or was dismissed.
    pub(super) fn is_over(&mut self, now: TsNs, notice: &LimitNotice) -> bool {
        if self.find(&notice.text).is_none() {
            if self.0.len() >= MAX_NOTICES {
                self.0.remove(0);
            }
            let until = notice.when.as_ref().and_then(|when| parse_reset_time(when, now));
            self.0.push(SeenNotice { text: notice.text.clone(), since: now, until, dismissed: false });
        }
        self.find(&notice.text).is_some_and(|known| known.dismissed || now >= known.expires_at())
    }

    pub(super) fn find(&self, text: &str) -> Option<&SeenNotice> {
        self.0.iter().find(|known| known.text == text)
    }

    /// Dismisses all notices seen so far.
    pub(super) fn dismiss(&mut self) {
        self.0.iter_mut().for_each(|known| known.dismissed = true);
    }

    /// Forgets all notices: the agent works, so a later notice is new.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
