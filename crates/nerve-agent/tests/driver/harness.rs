//! A driver with a hand-made terminal on simulated time.

use std::time::Duration;

use nerve_agent::driver::{AgentState, Driver, Effect, SubmitError, TurnEnd, View};
use nerve_agent::profile::Profiles;
use nerve_types::Foreground;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

/// A terminal, a driver and a simulated clock.
pub(crate) struct Harness {
    pub(crate) terminal: TerminalState,
    pub(crate) driver: Driver,
    pub(crate) now: TsNs,
    pub(crate) foreground: Foreground,
    written: Vec<u8>,
    pub(crate) ended: Vec<TurnEnd>,
    answers: Vec<bool>,
    /// Number of reports of the blocked state.
    blocked_count: usize,
}

/// The rule around Claude's composer.
pub(crate) const RULE: &str = "────────────────────────────────────────────────────────────";

impl Harness {
    pub(crate) fn new(profile: &str) -> Harness {
        Harness {
            terminal: TerminalState::new(Size::new(60, 20)),
            driver: Driver::new(Profiles::builtin().get(profile).unwrap(), TsNs(1)),
            now: TsNs(1),
            foreground: Foreground::Unknown,
            written: Vec::new(),
            ended: Vec::new(),
            answers: Vec::new(),
            blocked_count: 0,
        }
    }

    pub(crate) fn observe(&mut self) {
        let screen = self.terminal.screen();
        let cursor_line = self.terminal.cursor_line().0;
        let covered_line = self.terminal.covered_line().map(|line| line.0);
        let foreground = self.foreground;
        self.driver.observe(self.now, View { screen: &screen, cursor_line, covered_line, foreground });
        self.effects();
    }

    pub(crate) fn effects(&mut self) {
        while let Some(effect) = self.driver.poll_effect() {
            match effect {
                Effect::Write(bytes) => self.written.extend(bytes),
                Effect::TurnEnded(end) => self.ended.push(*end),
                Effect::Answered { is_closed } => self.answers.push(is_closed),
                Effect::StateChanged => {
                    self.blocked_count +=
                        usize::from(matches!(self.driver.state(), AgentState::Blocked { .. }));
                }
            }
        }
    }

    pub(crate) fn feed(&mut self, text: &str) {
        let changes = self.terminal.process_data(self.now, text.as_bytes());
        self.driver.on_output(self.now, self.terminal.offset());
        for alert in &changes.alerts {
            self.driver.on_alert(alert);
        }
        self.observe();
    }

    pub(crate) fn advance(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(at) = self.driver.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.observe();
        }
        self.now = until;
    }

    pub(crate) fn submit(&mut self, prompt: &str) -> Result<u64, SubmitError> {
        let number =
            self.driver.submit(self.now, prompt.into(), self.terminal.modes(), self.terminal.cursor_line().0);
        self.effects();
        number
    }

    /// Submits a prompt, which Claude's composer then shows.
    pub(crate) fn type_prompt(&mut self, prompt: &str) {
        self.submit(prompt).unwrap();
        self.composer("", prompt, "");
    }

    pub(crate) fn take_written(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.written)).unwrap()
    }

    pub(crate) fn take_answers(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn take_blocked_count(&mut self) -> usize {
        std::mem::take(&mut self.blocked_count)
    }

    /// Draws Claude's composer with a draft and a footer from the top of the screen.
    pub(crate) fn composer(&mut self, above: &str, draft: &str, footer: &str) {
        let above = above.replace('\n', "\r\n");
        let draft = draft.replace('\n', "\r\n  ");
        self.feed(&format!(
            "\x1b[H\x1b[2J\x1b[?2004h{above}\r\n{RULE}\r\n❯ {draft}\x1b7\r\n{RULE}\r\n  {footer}\x1b8"
        ));
    }

    /// Returns a shell that marks its prompts and waits for a command.
    pub(crate) fn ready_shell() -> Harness {
        let mut harness = Harness::new("shell");
        harness.foreground = Foreground::Idle;
        harness.feed("\x1b]133;A\x07$ \x1b]133;B\x07");
        harness.advance(100);
        harness
    }

    pub(crate) fn ready_claude() -> Harness {
        let mut harness = Harness::new("claude");
        harness.feed("\x1b]0;✳ Claude Code\x07");
        harness.composer("", "", "? for shortcuts");
        harness.advance(1000);
        assert_eq!(*harness.driver.state(), AgentState::Ready);
        harness
    }
}
