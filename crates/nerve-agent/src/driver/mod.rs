//! Turns prompts into delivered, finished turns, and reports at any time whether the agent is ready, busy, blocked or
//! suspended.
//!
//! No I/O and no clock: the pump reports events and the time ([`Driver::on_output`], [`Driver::on_alert`],
//! [`Driver::observe`], [`Driver::on_exit`]). The driver answers with [`Effect`]s and the [deadline](Driver::deadline)
//! of the next observation. Several signals are weighed to decide a state: see [`Source`]. A stale screen never counts:
//! a turn ends only by evidence newer than its prompt.

mod activity;
mod agent_queue;
mod barrier;
mod columns;
mod continuation_prompt;
mod cursor_row;
mod dialog_answer;
mod field_match;
mod foreign_input;
mod hook;
mod inherited_line;
mod interrupt;
mod marks;
mod observation;
mod output_end;
mod profile_mismatch;
mod prompt_end;
mod prompt_line;
mod reset_time;
mod state;
mod turn;
mod typeahead;
mod usage_limit;
mod verdict;

pub use field_match::{FieldMatch, match_fields};
pub use hook::Hook;
pub use observation::{
    ChoiceRow, ComposerView, Observation, RuleMatch, Signal, is_echo_of, match_rules, observe_screen,
};
pub use state::{AgentState, Delivery, Evidence, Source};
pub use turn::{Outcome, Overwrite, Span, SubmitError, TurnEnd};
pub use usage_limit::LimitNotice;

use std::collections::VecDeque;
use std::sync::Arc;

use nerve_types::{ExitStatus, Foreground, TsNs};
use nerve_vt::keys::unescape;
use nerve_vt::screen::Screen;
use nerve_vt::terminal::{Alert, MarkKind};

use crate::profile::Profile;
use activity::Activity;
use barrier::Barrier;
use cursor_row::CursorRow;
use dialog_answer::Dialogs;
use marks::Marks;
use observation::observe_screen_except;
use prompt_line::PromptLine;
use turn::Turns;
use typeahead::Typeahead;
use verdict::Verdict;

/// Evidence of a program that was taken over and whose state is not known yet.
pub const NOT_OBSERVED: &str = "taken over; state not observed yet";

/// An action that the driver requests from its caller. Effects are executed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write these bytes to the child process.
    Write(Vec<u8>),
    /// The state changed; see [`Driver::state`] and [`Driver::evidence`].
    StateChanged,
    /// The answer to a dialog is complete.
    Answered {
        /// The dialog closed; false if it is still on the screen.
        is_closed: bool,
    },
    /// The turn ended.
    TurnEnded(Box<TurnEnd>),
}

/// The terminal as the pump presents it to the driver.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The last complete frame.
    pub screen: &'a Screen,
    /// Absolute line number of the cursor.
    pub cursor_line: u64,
    /// The line whose latest text covers other text; see [`TerminalState::covered_line`](nerve_vt::terminal::TerminalState::covered_line).
    pub covered_line: Option<u64>,
    /// The process that owns the terminal.
    pub foreground: Foreground,
}

/// Drives the agent in one terminal.
#[derive(Debug)]
pub struct Driver {
    profile: Arc<Profile>,
    /// The program was started to resume a conversation.
    is_resuming: bool,
    /// The program begins each prompt in a row of its own.
    has_fresh_lines: bool,
    state: AgentState,
    evidence: Evidence,
    observation: Observation,
    /// Time since which the observation and the dialog are unchanged. Half a frame lasts only a moment.
    observed_since: TsNs,
    outbox: Outbox,
    activity: Activity,
    /// Place where the last prompt was entered. Ready evidence must be newer.
    barrier: Barrier,
    ready_since: Option<TsNs>,
    marks: Marks,
    prompt_line: PromptLine,
    cursor_row: CursorRow,
    typeahead: Typeahead,
    turns: Turns,
    dialogs: Dialogs,
    hooks: hook::Hooks,
    usage_limits: usage_limit::UsageLimits,
    interrupts: interrupt::Interrupts,
    /// The screen does not fit the profile.
    is_mismatched: bool,
}

/// The requests of the driver to its caller: effects, and when to call again.
#[derive(Debug, Default)]
struct Outbox {
    effects: VecDeque<Effect>,
    deadline: Option<TsNs>,
}

impl Outbox {
    fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Requests an observation at this time or earlier.
    fn wake_at(&mut self, at: TsNs) {
        self.deadline = Some(self.deadline.map_or(at, |earlier| earlier.min(at)));
    }
}

impl Driver {
    /// Creates a driver for a program that starts now.
    pub fn new(profile: Arc<Profile>, now: TsNs) -> Driver {
        Driver {
            profile,
            is_resuming: false,
            has_fresh_lines: false,
            state: AgentState::Starting,
            evidence: Evidence { source: Source::Quiet, text: "just started".into(), offset: 0, at: now },
            observation: Observation::default(),
            observed_since: now,
            outbox: Outbox::default(),
            activity: Activity::new(now),
            barrier: Barrier::Start { at: now },
            ready_since: None,
            marks: Marks::default(),
            prompt_line: PromptLine::default(),
            cursor_row: CursorRow::default(),
            typeahead: Typeahead::default(),
            turns: Turns::default(),
            dialogs: Dialogs::default(),
            hooks: hook::Hooks::default(),
            usage_limits: usage_limit::UsageLimits::default(),
            interrupts: interrupt::Interrupts::default(),
            is_mismatched: false,
        }
    }

    /// Marks the program as resuming a conversation: it is not ready until the conversation is loaded.
    pub fn resuming(mut self) -> Driver {
        self.is_resuming = true;
        self
    }

    /// Marks the program as one that begins each prompt in a row of its own, whatever its output ends with.
    pub fn with_fresh_lines(mut self) -> Driver {
        self.has_fresh_lines = true;
        self
    }

    /// Records that the program was ready under an earlier driver: it is busy or waiting, but not starting. `was_typed`: keys
    /// were typed after the earlier driver had stored its state, so its dialog may be answered.
    pub fn on_takeover(&mut self, now: TsNs, was_typed: bool) {
        if self.state == AgentState::Starting {
            let text = match was_typed {
                true => "keys were typed before the takeover; state not observed yet",
                false => NOT_OBSERVED,
            };
            self.set_state(now, AgentState::Busy, Source::Input, text.into());
        }
    }

    /// Returns the text of the prompt that a line-based program draws, as far as it is known.
    pub fn learned_prompt(&self) -> Option<&str> {
        self.prompt_line.learned.as_deref()
    }

    /// Records the prompt that the program drew under an earlier driver.
    pub fn on_known_prompt(&mut self, prompt: String) {
        self.prompt_line.learned.get_or_insert(prompt);
    }

    /// Records that the program was ready under an earlier driver and has written nothing since.
    pub fn on_idle_takeover(&mut self, now: TsNs) {
        if self.state == AgentState::Starting {
            let text = "ready under an earlier server, no output since";
            self.set_state(now, AgentState::Ready, Source::Quiet, text.into());
        }
    }

    /// Returns the agent's profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Returns the current state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns the evidence for the current state.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Returns the last observation of the screen.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// Returns the number of the running turn and the delivery state of its prompt.
    pub fn turn(&self) -> Option<(u64, Delivery)> {
        self.turns.current.as_ref().map(|turn| (turn.number, turn.delivery))
    }

    /// Returns the absolute line where the running turn's text begins.
    pub fn turn_start_line(&self) -> Option<u64> {
        self.turns.current.as_ref().map(|turn| self.span_start(turn))
    }

    /// Returns when to call [`Driver::observe`] again if nothing happens before.
    pub fn deadline(&self) -> Option<TsNs> {
        self.outbox.deadline
    }

    /// Returns the next effect to execute.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.outbox.effects.pop_front()
    }

    /// Records output; `offset` is the number of output bytes so far.
    pub fn on_output(&mut self, now: TsNs, offset: u64) {
        self.activity.on_output(now, offset);
    }

    /// Records an alert of the terminal. Signals between two observations are not lost.
    pub fn on_alert(&mut self, alert: &Alert) {
        match alert {
            Alert::Mark(mark) => {
                // If a prompt ran several commands, the first one begins the output.
                let keeps_output = self.turns.current.is_some() && self.has_command_output();
                self.marks.record(mark, keeps_output);
                if matches!(mark.kind, MarkKind::CommandEnd(_)) && mark.has_text_after {
                    self.on_output_covered();
                }
                if matches!(mark.kind, MarkKind::PromptStart | MarkKind::Continuation) {
                    self.typeahead.on_prompt();
                }
            }
            Alert::ScreenErased { line, end } => self.on_screen_erased(line.0, end.0),
            Alert::Redraw { line } => self.on_redraw(line.0),
            Alert::Title(title)
                if self.profile.title.busy.as_ref().is_some_and(|busy| busy.is_match(title)) =>
            {
                self.activity.on_busy_title();
                self.usage_limits.forget();
            }
            _ => {}
        }
    }

    /// Records the exit of the program. A running turn ends with it.
    pub fn on_exit(&mut self, now: TsNs, status: ExitStatus) {
        self.set_state(now, AgentState::Exited(status), Source::Exit, status.to_string());
        if self.dialogs.answer.take().is_some() {
            self.outbox.push(Effect::Answered { is_closed: true });
        }
        self.end_turn(now, Outcome::Exited(status), None);
        self.outbox.deadline = None;
    }

    /// Observes the terminal and updates the state. Call it after output (one call may cover several reads), at the
    /// deadline and after any input.
    pub fn observe(&mut self, now: TsNs, view: View<'_>) {
        if matches!(self.state, AgentState::Exited(_)) {
            return;
        }
        self.outbox.deadline = None;
        let observation = observe_screen_except(&self.profile, view.screen, |notice| {
            self.usage_limits.is_over(now, notice)
        });
        if !observation.is_unchanged_from(&self.observation) {
            self.observed_since = now;
        }
        self.observation = observation;
        if matches!(self.observation.signal, Some(Signal::Busy(..))) {
            self.hooks.on_busy_screen(now);
            self.forget_written_answer();
            self.usage_limits.forget();
        }
        self.activity.on_foreground(now, view.foreground);
        self.track_foreign_input(now, &view);
        let verdict = self.judge(now, &view);
        self.observe_cursor_row(&view);
        self.learn_prompt(&verdict, &view);
        if matches!(verdict, Verdict::Ready { .. }) {
            self.prompt_line.foreign_input = None;
        }
        self.prompt_line.draft = self.find_line_draft(&view);
        self.apply(now, verdict);
        self.advance_turn(now, &view);
        self.advance_answer(now);
        self.advance_interrupt(now, view.screen);
        self.check_profile(now, &view);
    }

    /// Records input that was written without the driver. After a line end or control key, a line-based program is not
    /// ready until it shows its prompt again; a composer shows its own contents.
    pub fn on_input(&mut self, now: TsNs, cursor_line: u64, bytes: &[u8]) {
        let runs = bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x1a | 0x1c));
        if runs && self.turns.current.is_none() {
            self.typeahead.record(bytes, cursor_line);
            self.expect_prompt(now, cursor_line, "input was typed");
        }
    }

    fn expect_prompt(&mut self, now: TsNs, cursor_line: u64, why: &str) {
        if self.profile.composer.is_none() && matches!(self.state, AgentState::Ready | AgentState::Busy) {
            self.raise_barrier(now, cursor_line);
            self.set_state(now, AgentState::Busy, Source::Input, why.into());
        }
    }

    /// Returns true if a command started its output after the last input.
    fn has_command_output(&self) -> bool {
        self.marks.has_output_after(self.barrier.offset())
    }

    fn raise_barrier(&mut self, now: TsNs, line: u64) {
        self.barrier = Barrier::Input { at: now, offset: self.activity.offset, line };
        self.prompt_line.foreign_input = None;
        self.ready_since = None;
        self.wake_at(now + self.profile.timing.quiet());
    }

    fn wake_at(&mut self, at: TsNs) {
        self.outbox.wake_at(at);
    }

    fn write_keys(&mut self, notation: &str) {
        // Profiles are validated on load; invalid notation is sent literally.
        let bytes = unescape(notation).unwrap_or_else(|_| notation.as_bytes().to_vec());
        self.outbox.push(Effect::Write(bytes));
    }

    fn set_state(&mut self, now: TsNs, state: AgentState, source: Source, text: String) {
        if self.state != state {
            self.state = state;
            self.evidence = Evidence { source, text, offset: self.activity.offset, at: now };
            self.outbox.push(Effect::StateChanged);
        }
    }

    /// Applies a verdict. A ready verdict must hold for a while first.
    fn apply(&mut self, now: TsNs, verdict: Verdict) {
        match verdict {
            Verdict::Ready { source, text, hold } => {
                let since = *self.ready_since.get_or_insert(now);
                // Idle agents are silent: while output arrives, the frame may be incomplete. The wait is bounded
                // because some agents blink.
                let due = (since.max(self.activity.last_output) + hold).min(since + hold * 10);
                if now >= due {
                    self.typeahead = Typeahead::default();
                    self.set_state(now, AgentState::Ready, source, text);
                } else if self.state != AgentState::Ready {
                    self.wake_at(due);
                }
            }
            Verdict::Busy { source, text, recheck } => {
                self.ready_since = None;
                recheck.into_iter().for_each(|at| self.wake_at(at));
                if self.state != AgentState::Starting || matches!(source, Source::Title | Source::Mark) {
                    self.set_state(now, AgentState::Busy, source, text);
                }
            }
            Verdict::Blocked { kind, text, source } => {
                self.ready_since = None;
                self.dialogs.blocking = self.visible_dialog();
                let choices = self.observation.choices.iter().map(|choice| choice.label.clone()).collect();
                self.set_state(now, AgentState::Blocked { kind, choices }, source, text);
            }
            Verdict::Suspended { until, text, recheck } => {
                self.ready_since = None;
                self.wake_at(recheck);
                self.set_state(now, AgentState::Suspended { until }, Source::Screen, text);
            }
            Verdict::Unknown { recheck } => {
                self.ready_since = None;
                recheck.into_iter().for_each(|at| self.wake_at(at));
            }
        }
    }
}
