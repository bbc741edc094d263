//! Detects the state of a watched agent from its screen. It never types.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::driver::{Driver, Effect, View};
use nerve_agent::profile::{Profile, Profiles};
use nerve_host::backend::{Backend, HostedBackend};
use nerve_host::registry::Entry;
use nerve_types::Foreground;
use nerve_types::{ExitStatus, TsNs};
use nerve_vt::terminal::{Alert, TerminalState};

/// Minimum interval between checks while the screen changes.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the driver of an agent without sending input.
pub(super) struct AgentMonitor {
    driver: Driver,
    uses_foreground: bool,
    last_check: TsNs,
    check_due: Option<TsNs>,
}

impl AgentMonitor {
    /// Creates the monitor of a host; `None` if no profile matches.
    pub(super) fn new(entry: &Entry, profiles: &Profiles, now: TsNs) -> Option<AgentMonitor> {
        let profile = profile_of(entry, profiles)?;
        let uses_foreground = profile.foreground;
        Some(AgentMonitor {
            driver: driver(profile, entry, now),
            uses_foreground,
            last_check: TsNs(0),
            check_due: None,
        })
    }

    /// Returns true if the agent reports its tools as they run.
    pub(super) fn reports_tools(&self) -> bool {
        self.driver.profile().transcript.is_some()
    }

    /// Records that the agent was ready when last seen; earlier output was handled.
    pub(super) fn taken_over(&mut self, now: TsNs) {
        self.driver.on_takeover(now, false);
    }

    /// Handles output; `offset` is the total number of bytes.
    pub(super) fn output(&mut self, now: TsNs, offset: u64, alerts: &[Alert]) {
        self.driver.on_output(now, offset);
        alerts.iter().for_each(|alert| self.driver.on_alert(alert));
        // Marks and titles reveal the state, so check at once.
        match alerts.iter().any(|alert| matches!(alert, Alert::Mark(_) | Alert::Title(_))) {
            true => self.check_now(now),
            false => self.schedule_check(),
        }
    }

    pub(super) fn exited(&mut self, now: TsNs, exit: ExitStatus) {
        self.driver.on_exit(now, exit);
    }

    pub(super) fn schedule_check(&mut self) {
        self.check_due.get_or_insert(self.last_check + CHECK_INTERVAL);
    }

    pub(super) fn check_now(&mut self, now: TsNs) {
        self.check_due = Some(now);
    }

    /// Returns when [`AgentMonitor::check`] is due.
    pub(super) fn due(&self) -> Option<TsNs> {
        self.check_due.into_iter().chain(self.driver.deadline()).min()
    }

    /// Updates the state. Returns true if it has changed.
    pub(super) fn check(&mut self, now: TsNs, terminal: &TerminalState, host: &HostedBackend) -> bool {
        self.last_check = now;
        self.check_due = None;
        let foreground = match self.uses_foreground {
            true => host.foreground(!self.driver.trusts_marks(), &self.driver.profile().programs),
            false => Foreground::Unknown,
        };
        let screen = terminal.screen();
        let cursor_line = terminal.cursor_line().0;
        let covered_line = terminal.covered_line().map(|line| line.0);
        self.driver.observe(now, View { screen: &screen, cursor_line, covered_line, foreground });
        let mut changed = false;
        while let Some(effect) = self.driver.poll_effect() {
            // Without a turn there is nothing to type.
            changed |= matches!(effect, Effect::StateChanged);
        }
        changed
    }

    /// Returns the state and its evidence for display.
    pub(super) fn state(&self) -> (&'static str, String) {
        let evidence = self.driver.evidence();
        let text = match evidence.text.is_empty() {
            true => evidence.source.as_str().to_string(),
            false => format!("{}: {}", evidence.source.as_str(), evidence.text),
        };
        (self.driver.state().as_str(), text)
    }
}

fn profile_of(entry: &Entry, profiles: &Profiles) -> Option<Arc<Profile>> {
    let name = entry.label.get("profile").and_then(serde_json::Value::as_str);
    name.and_then(|name| profiles.get(name)).or_else(|| profiles.for_command(&entry.argv))
}

fn driver(profile: Arc<Profile>, entry: &Entry, now: TsNs) -> Driver {
    let resumes = profile.session.as_ref().is_some_and(|forms| forms.resumes(&entry.argv));
    let driver = Driver::new(profile, now);
    if resumes { driver.resuming() } else { driver }
}
