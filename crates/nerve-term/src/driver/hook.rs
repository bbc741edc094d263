//! Messages of an agent's own hooks: the strongest signal there is (design section 5), and still no proof of what the screen
//! takes. A hook says that a turn began or ended; the composer says that the next prompt can be typed.

use std::time::Duration;

use super::{AgentState, Driver};
use crate::event::TsNs;

/// What an agent's hook told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// A session began: hooks work.
    SessionStarted,
    /// A prompt was taken up, with the agent's own id of it.
    PromptSubmitted(Option<String>),
    /// The turn of that prompt is over.
    Stopped(Option<String>),
}

/// Hooks seen so far.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    live: bool,
    submitted: Option<(TsNs, Option<String>)>,
    stopped: Option<TsNs>,
}

/// How long after a Stop hook the screen may still show the turn. Later it is a new one: another hook sent the agent on.
const AFTERGLOW: Duration = Duration::from_millis(300);

impl Hooks {
    /// The screen says busy.
    pub(super) fn seen_busy(&mut self, now: TsNs) {
        self.stopped = self.stopped.filter(|at| now < *at + AFTERGLOW);
    }

    /// The agent took up a prompt after `since`.
    pub(super) fn began(&self, since: TsNs) -> bool {
        self.submitted.as_ref().is_some_and(|(at, _)| *at > since)
    }

    /// The turn that began after `since` is over.
    pub(super) fn ended(&self, since: TsNs) -> bool {
        self.began(since) && self.stopped.is_some_and(|at| at > since)
    }

    /// Its end will be told: hooks work and told its beginning.
    pub(super) fn will_end(&self, since: TsNs) -> bool {
        self.live && self.began(since)
    }
}

impl Driver {
    /// An agent's hook spoke. Call [`Driver::observe`] after it.
    pub fn hook(&mut self, now: TsNs, hook: Hook) {
        self.hooks.live = true;
        match hook {
            Hook::SessionStarted => {}
            Hook::PromptSubmitted(prompt) => self.hooks.submitted = Some((now, prompt)),
            Hook::Stopped(prompt) => {
                // A late word on an earlier prompt ends nothing.
                let asked = self.hooks.submitted.as_ref().and_then(|(_, asked)| asked.as_ref());
                if asked.is_none() || prompt.is_none() || asked == prompt.as_ref() {
                    self.hooks.stopped = Some(now);
                }
            }
        }
        if self.state != AgentState::Starting {
            self.wake_at(now);
        }
    }
}
