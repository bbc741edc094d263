//! Events from an agent's own hooks: the strongest signal for the beginning and end of a turn. Whether the next prompt
//! can be typed is still decided by the composer.

use std::time::Duration;

use nerve_types::TsNs;

use super::{AgentState, Driver};

/// An event that an agent's hook reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// A session began: hooks are active.
    SessionStarted,
    /// The agent accepted a prompt; carries the agent's own prompt id.
    PromptSubmitted(Option<String>),
    /// The turn of that prompt ended.
    Stopped(Option<String>),
}

/// The hook events seen so far.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    is_active: bool,
    submitted: Option<(TsNs, Option<String>)>,
    stopped: Option<TsNs>,
}

/// Time after a Stop hook during which the screen may still show the old turn. Later work belongs to a new turn:
/// another hook made the agent continue.
const STALE_SCREEN_TIME: Duration = Duration::from_millis(300);

impl Hooks {
    /// Records that the screen shows the agent at work.
    pub(super) fn on_busy_screen(&mut self, now: TsNs) {
        self.stopped = self.stopped.filter(|at| now < *at + STALE_SCREEN_TIME);
    }

    /// Returns true if the agent accepted a prompt after `since`.
    pub(super) fn has_submitted_since(&self, since: TsNs) -> bool {
        self.submitted.as_ref().is_some_and(|(at, _)| *at > since)
    }

    /// Returns true if the turn that began after `since` has ended.
    pub(super) fn has_stopped_since(&self, since: TsNs) -> bool {
        self.has_submitted_since(since) && self.stopped.is_some_and(|at| at > since)
    }

    /// Returns true if a Stop hook is expected: hooks are active and reported the beginning of the turn.
    pub(super) fn expects_stop(&self, since: TsNs) -> bool {
        self.is_active && self.has_submitted_since(since)
    }
}

impl Driver {
    /// Records a hook event. Call [`Driver::observe`] after it.
    pub fn on_hook(&mut self, now: TsNs, hook: Hook) {
        self.hooks.is_active = true;
        match hook {
            Hook::SessionStarted => {}
            Hook::PromptSubmitted(prompt) => self.hooks.submitted = Some((now, prompt)),
            Hook::Stopped(prompt) => {
                // A late event for an earlier prompt ends nothing.
                let current = self.hooks.submitted.as_ref().and_then(|(_, id)| id.as_ref());
                if current.is_none() || prompt.is_none() || current == prompt.as_ref() {
                    self.hooks.stopped = Some(now);
                }
            }
        }
        if self.state != AgentState::Starting {
            self.wake_at(now);
        }
    }
}
