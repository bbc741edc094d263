//! Usage limits that an agent has told: until when each of them counts.

use std::time::Duration;

use super::reset_time::named_time;
use crate::event::TsNs;

/// What an agent writes when it has hit a usage limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitNotice {
    /// The row and those it goes on in.
    pub text: String,
    /// The words in it that name a time.
    pub when: Option<String>,
}

/// How long a notice counts whose time cannot be told. A time of day in an unknown zone has passed by then; after that a prompt
/// may be tried, and the agent says again what it has to say.
const AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// How many notices are remembered: a screen shows two or three.
const KNOWN: usize = 8;

/// A notice and when it was first seen: `3pm` means another time tomorrow.
#[derive(Debug)]
pub(super) struct Known {
    text: String,
    pub(super) since: TsNs,
    pub(super) until: Option<TsNs>,
    /// Nobody wants to wait for it.
    dismissed: bool,
}

impl Known {
    /// When the agent is judged afresh, whatever still stands there.
    pub(super) fn ends(&self) -> TsNs {
        self.until.unwrap_or(self.since + AT_MOST)
    }
}

/// The notices of this terminal.
#[derive(Debug, Default)]
pub(super) struct Limits(Vec<Known>);

impl Limits {
    /// A notice is on the screen. Does it count no more?
    pub(super) fn is_over(&mut self, now: TsNs, notice: &LimitNotice) -> bool {
        if self.find(&notice.text).is_none() {
            if self.0.len() >= KNOWN {
                self.0.remove(0);
            }
            let until = notice.when.as_ref().and_then(|when| named_time(when, now));
            self.0.push(Known { text: notice.text.clone(), since: now, until, dismissed: false });
        }
        self.find(&notice.text).is_some_and(|known| known.dismissed || now >= known.ends())
    }

    pub(super) fn find(&self, text: &str) -> Option<&Known> {
        self.0.iter().find(|known| known.text == text)
    }

    /// Notices seen so far count no more.
    pub(super) fn dismiss(&mut self) {
        self.0.iter_mut().for_each(|known| known.dismissed = true);
    }

    /// The agent was seen working: what it says from now on is news.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
