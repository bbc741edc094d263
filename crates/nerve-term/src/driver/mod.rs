//! Turns prompts into delivered, finished turns, and says at any time whether the agent is ready, busy, blocked or suspended.
//!
//! No I/O and no clock: the pump tells it what happened ([`Driver::output`], [`Driver::notice`], [`Driver::observe`],
//! [`Driver::exited`]) and when it is; it answers with [`Effect`]s and the [deadline](Driver::deadline) at which it wants to
//! look again. States are evidence, weighed: see [`Source`]. A stale screen never counts: whatever ends a turn must have
//! been seen at a later byte offset than the turn's prompt.

mod dialog_answer;
mod foreign_input;
mod hook;
mod observation;
mod prompt_line;
mod reset_time;
mod state;
mod turn;
mod usage_limit;
mod verdict;

pub use hook::Hook;
pub use observation::{ChoiceRow, ComposerView, Reading, Says, echoes, look};
pub use state::{AgentState, Delivery, Evidence, Foreground, Source};
pub use turn::{Outcome, Refused, Span, TurnEnd};
pub use usage_limit::LimitNotice;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{ExitStatus, TsNs};
use crate::keys::unescape;
use crate::profile::Profile;
use crate::screen::Screen;
use crate::terminal::{Mark, MarkKind, Notice};

use observation::look_past;
use prompt_line::PromptEnd;
use turn::Turn;
use verdict::Verdict;

/// How often an interrupt that may have hit nothing is repeated, and after which pause.
const INTERRUPTS: u32 = 2;
const INTERRUPT_TIME: Duration = Duration::from_millis(700);

/// What the driver wants done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write these bytes to the child.
    Write(Vec<u8>),
    /// The agent's state changed; [`Driver::state`] and [`Driver::evidence`] tell.
    StateChanged,
    /// The dialog that was answered is gone, or stands there still.
    Answered {
        /// It is gone.
        gone: bool,
    },
    /// The turn is over.
    TurnEnded(Box<TurnEnd>),
}

/// What the pump shows the driver.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The last finished frame.
    pub screen: &'a Screen,
    /// Absolute line of the cursor.
    pub cursor_line: u64,
    /// Who has the terminal.
    pub foreground: Foreground,
}

/// The driver of one terminal.
#[derive(Debug)]
pub struct Driver {
    profile: Arc<Profile>,
    /// It was started to go on with an earlier conversation.
    goes_on: bool,
    state: AgentState,
    evidence: Evidence,
    reading: Reading,
    /// Since when the screen says the same and shows the same dialog: half a frame does so only for a moment.
    seen_since: TsNs,
    effects: VecDeque<Effect>,
    deadline: Option<TsNs>,
    offset: u64,
    last_output: TsNs,
    /// Since when the program was seen to have the terminal and to sleep: a glimpse between two of its jobs is not idleness.
    idle_since: Option<TsNs>,
    foreground: Foreground,
    /// Ready evidence must be newer than this: where the last prompt went in.
    barrier: Barrier,
    ready_since: Option<TsNs>,
    marks: Marks,
    learned_prompt: Option<String>,
    /// At the last look: the cursor's line, and whether nothing but a known prompt stood there.
    cursor_line: u64,
    bare_prompt: bool,
    /// The prompt of a line-based program as it was drawn, and the line it stands on: what follows it there was typed by somebody.
    prompt_at: Option<PromptEnd>,
    /// Somebody's line that it left its prompt for.
    departure: Option<foreign_input::Departure>,
    /// Somebody's half a line behind that prompt.
    line_draft: Option<String>,
    /// Offset of the last title that said busy: titles between two looks are not missed.
    busy_title: u64,
    turn: Option<Turn>,
    turns: u64,
    /// A prompt that may stand in the composer again: it did not arrive, or was interrupted.
    returned_prompt: Option<String>,
    /// The dialog that the agent is blocked by.
    asked: dialog_answer::Asked,
    answer: Option<dialog_answer::Answer>,
    hooks: hook::Hooks,
    limits: usage_limit::Limits,
    /// When the interrupt is sent again, and how often still.
    repeat_interrupt: Option<(TsNs, u32)>,
    /// When the agent was last sent the interrupt it had asked for once more.
    confirmed: TsNs,
}

/// Where input went in that must show an effect before "ready" means anything.
#[derive(Debug, Clone, Copy, Default)]
struct Barrier {
    at: TsNs,
    offset: u64,
    line: u64,
    set: bool,
}

/// Shell integration marks seen so far.
#[derive(Debug, Clone, Default)]
struct Marks {
    last: Option<Mark>,
    prompt: Option<Mark>,
    output: Option<Mark>,
    end: Option<Mark>,
}

impl Driver {
    /// A driver for a program that starts now.
    pub fn new(profile: Arc<Profile>, now: TsNs) -> Driver {
        Driver {
            profile,
            goes_on: false,
            state: AgentState::Starting,
            evidence: Evidence { source: Source::Quiet, text: "just started".into(), offset: 0, at: now },
            reading: Reading::default(),
            seen_since: now,
            effects: VecDeque::new(),
            deadline: None,
            offset: 0,
            last_output: now,
            idle_since: None,
            foreground: Foreground::Unknown,
            barrier: Barrier { at: now, ..Barrier::default() },
            ready_since: None,
            marks: Marks::default(),
            learned_prompt: None,
            cursor_line: 0,
            bare_prompt: false,
            prompt_at: None,
            departure: None,
            line_draft: None,
            busy_title: 0,
            turn: None,
            turns: 0,
            returned_prompt: None,
            asked: dialog_answer::Asked::default(),
            answer: None,
            hooks: hook::Hooks::default(),
            limits: usage_limit::Limits::default(),
            repeat_interrupt: None,
            confirmed: TsNs(0),
        }
    }

    /// The program was started to go on with an earlier conversation: it is not ready before that is there.
    pub fn going_on(mut self) -> Driver {
        self.goes_on = true;
        self
    }

    /// The program was driven before, by somebody who saw it ready: it does something or waits, but does not start.
    pub fn taken_over(&mut self, now: TsNs) {
        if self.state == AgentState::Starting {
            self.set_state(
                now,
                AgentState::Busy,
                Source::Input,
                "taken over; what it does is seen next".into(),
            );
        }
    }

    /// The profile it goes by.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The state now.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// What the state rests on.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The last look at the screen.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The running turn and how far its prompt came.
    pub fn turn(&self) -> Option<(u64, Delivery)> {
        self.turn.as_ref().map(|turn| (turn.number, turn.delivery))
    }

    /// Where the running turn's text begins: an absolute line.
    pub fn turn_start_line(&self) -> Option<u64> {
        self.turn.as_ref().map(|turn| self.span_start(turn))
    }

    /// When to call [`Driver::observe`] again though nothing happened.
    pub fn deadline(&self) -> Option<TsNs> {
        self.deadline
    }

    /// The next thing to do, if there is one.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The child wrote: `offset` is the count of its bytes so far.
    pub fn output(&mut self, now: TsNs, offset: u64) {
        self.offset = offset;
        self.last_output = now;
    }

    /// The terminal noticed something in the bytes. Nothing that passes between two looks is missed.
    pub fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Mark(mark) => {
                match mark.kind {
                    // Of several commands in one prompt the first one begins its output.
                    MarkKind::OutputStart if self.turn.is_some() && self.ran() => {}
                    MarkKind::OutputStart => self.marks.output = Some(mark.clone()),
                    MarkKind::CommandEnd(_) => self.marks.end = Some(mark.clone()),
                    MarkKind::PromptStart => self.marks.prompt = Some(mark.clone()),
                    MarkKind::CommandStart | MarkKind::Continuation => {}
                }
                self.marks.last = Some(mark.clone());
            }
            Notice::Title(title)
                if self.profile.title.busy.as_ref().is_some_and(|busy| busy.is_match(title)) =>
            {
                self.busy_title = self.offset;
                self.limits.forget();
            }
            _ => {}
        }
    }

    /// The child is gone. A running turn ends with it.
    pub fn exited(&mut self, now: TsNs, status: ExitStatus) {
        self.set_state(now, AgentState::Exited(status), Source::Exit, status.to_string());
        if self.answer.take().is_some() {
            self.effects.push_back(Effect::Answered { gone: true });
        }
        self.end_turn(now, Outcome::Exited(status), None);
        self.deadline = None;
    }

    /// Looks at the terminal and draws conclusions. Call it after output (many reads may share a look), on the deadline, and
    /// after any input.
    pub fn observe(&mut self, now: TsNs, view: View<'_>) {
        if matches!(self.state, AgentState::Exited(_)) {
            return;
        }
        self.deadline = None;
        let reading = look_past(&self.profile, view.screen, |notice| self.limits.is_over(now, notice));
        if !reading.stands(&self.reading) {
            self.seen_since = now;
        }
        self.reading = reading;
        if matches!(self.reading.says, Some(Says::Busy(..))) {
            self.hooks.seen_busy(now);
            self.limits.forget();
        }
        self.foreground = view.foreground;
        self.idle_since = match view.foreground {
            Foreground::Awake | Foreground::Other => None,
            Foreground::Idle | Foreground::Unknown => self.idle_since.or(Some(now)),
        };
        self.note_departure(now, &view);
        let verdict = self.judge(now, &view);
        self.cursor_line = view.cursor_line;
        self.bare_prompt = self.is_prompt(&verdict::before_cursor(view.screen));
        self.learn_prompt(&verdict, &view);
        if matches!(verdict, Verdict::Ready { .. }) {
            self.departure = None;
        }
        self.line_draft = self.find_line_draft(&view);
        self.apply(now, verdict);
        self.advance_turn(now, &view);
        self.advance_answer(now);
        self.advance_interrupt(now);
        self.confirm_interrupt(now, view.screen);
    }

    /// Interrupts what runs, the profile's way. A running turn ends as interrupted once the agent is ready again; a prompt that
    /// was not yet sent is taken back and its turn ends at once. A suspended agent is waited for no longer: the next prompt may
    /// be tried.
    ///
    /// A shell that has read its line and not yet started the command loses an interrupt: one that may have fallen into that
    /// gap is repeated while the shell stays busy. A program that has the terminal gets one, for many take a second one as an
    /// order to stop at once.
    pub fn interrupt(&mut self, now: TsNs, cursor_line: u64) {
        if self.take_back_prompt(now) {
            return;
        }
        if matches!(self.state, AgentState::Suspended { .. }) {
            self.limits.dismiss();
            self.wake_at(now);
        }
        match &mut self.turn {
            Some(turn) => turn.interrupted = true,
            None => self.expect_prompt(now, cursor_line, "an interrupt was sent"),
        }
        self.write_keys(&self.profile.interrupt.clone());
        if self.profile.foreground && self.foreground != Foreground::Other {
            self.repeat_interrupt = Some((now + INTERRUPT_TIME, INTERRUPTS));
            self.wake_at(now + INTERRUPT_TIME);
        }
    }

    fn advance_interrupt(&mut self, now: TsNs) {
        let Some((due, left)) = self.repeat_interrupt else { return };
        if self.state != AgentState::Busy {
            self.repeat_interrupt = None;
        } else if now < due {
            self.wake_at(due);
        } else {
            self.write_keys(&self.profile.interrupt.clone());
            let next = now + INTERRUPT_TIME;
            self.repeat_interrupt = (left > 1).then_some((next, left - 1));
            self.wake_at(next);
        }
    }

    /// An agent that wants the interrupt of a turn once more gets it, as often as it asks.
    fn confirm_interrupt(&mut self, now: TsNs, screen: &Screen) {
        let (Some(asks), Some(composer)) = (&self.profile.interrupt_again, &self.reading.composer) else {
            return;
        };
        let interrupted = self.turn.as_ref().is_some_and(|turn| turn.interrupted);
        let footer = screen.rows.get(composer.rows.1..).unwrap_or_default();
        if !interrupted || !footer.iter().any(|row| asks.is_match(&row.text)) {
            return;
        }
        let due = self.confirmed + INTERRUPT_TIME;
        if now < due {
            return self.wake_at(due);
        }
        self.confirmed = now;
        self.write_keys(&self.profile.interrupt.clone());
        self.wake_at(now + INTERRUPT_TIME);
    }

    /// Says that `bytes` were written past the driver. Where they may run something, a stale ready state does not count any
    /// more: a line-based program shows its prompt again, a composer shows for itself what it holds.
    pub fn typed(&mut self, now: TsNs, cursor_line: u64, bytes: &[u8]) {
        let runs = bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x1a | 0x1c));
        if runs && self.turn.is_none() {
            self.expect_prompt(now, cursor_line, "input was typed");
        }
    }

    fn expect_prompt(&mut self, now: TsNs, cursor_line: u64, why: &str) {
        if self.profile.composer.is_none() && matches!(self.state, AgentState::Ready | AgentState::Busy) {
            self.raise_barrier(now, cursor_line);
            self.set_state(now, AgentState::Busy, Source::Input, why.into());
        }
    }

    /// Did a command start its output since the last input?
    fn ran(&self) -> bool {
        self.marks.output.as_ref().is_some_and(|mark| mark.offset > self.barrier.offset)
    }

    fn raise_barrier(&mut self, now: TsNs, line: u64) {
        self.barrier = Barrier { at: now, offset: self.offset, line, set: true };
        self.departure = None;
        self.ready_since = None;
        self.wake_at(now + self.profile.timing.quiet());
    }

    fn wake_at(&mut self, at: TsNs) {
        self.deadline = Some(self.deadline.map_or(at, |earlier| earlier.min(at)));
    }

    fn write_keys(&mut self, notation: &str) {
        // Profiles are checked when they are loaded; keys that do not parse are sent as they stand.
        let bytes = unescape(notation).unwrap_or_else(|_| notation.as_bytes().to_vec());
        self.effects.push_back(Effect::Write(bytes));
    }

    fn set_state(&mut self, now: TsNs, state: AgentState, source: Source, text: String) {
        if self.state != state {
            self.state = state;
            self.evidence = Evidence { source, text, offset: self.offset, at: now };
            self.effects.push_back(Effect::StateChanged);
        }
    }

    /// Applies a verdict; ready has to hold for a while first.
    fn apply(&mut self, now: TsNs, verdict: Verdict) {
        match verdict {
            Verdict::Ready { source, text, hold } => {
                let since = *self.ready_since.get_or_insert(now);
                // Agents are silent when idle: while they still draw, the frame may not be the last. Bounded, for some blink.
                let due = (since.max(self.last_output) + hold).min(since + hold * 10);
                if now >= due {
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
                self.asked = self.drawn_dialog();
                let choices = self.reading.choices.iter().map(|choice| choice.label.clone()).collect();
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

    /// A line-based program's prompt, once it was ready, is how it looks when it is ready again.
    fn learn_prompt(&mut self, verdict: &Verdict, view: &View<'_>) {
        if self.profile.composer.is_some() || !matches!(verdict, Verdict::Ready { .. }) {
            return;
        }
        if self.prompt_at.as_ref().is_some_and(|prompt| prompt.is_there(view)) {
            // Somebody types behind it.
            return;
        }
        if self.has_departed() && !self.is_prompt(&verdict::before_cursor(view.screen)) {
            // A prompt with somebody's text behind it: a line that was typed ahead. Or silence, and none.
            if let Some(prompt) = self.prompt_of_line(view) {
                self.prompt_at = Some(prompt);
            }
            return;
        }
        self.prompt_at = PromptEnd::at_cursor(view);
        let quiet = matches!(verdict, Verdict::Ready { source: Source::Quiet | Source::Foreground, .. });
        if quiet {
            let row = verdict::before_cursor(view.screen);
            self.learned_prompt = (!row.trim().is_empty()).then_some(row);
        }
    }

    /// What stands between the prompt and the cursor of a line-based program that waits for a line. What stands behind the cursor
    /// may be the program's: a prompt on the right, a proposal.
    fn find_line_draft(&self, view: &View<'_>) -> Option<String> {
        if self.profile.composer.is_some() || self.turn.is_some() {
            return None;
        }
        let mark = self.marks.last.as_ref().filter(|mark| mark.kind == MarkKind::CommandStart);
        let draft = mark.and_then(|mark| prompt_line::typed(view, mark.line.0, mark.col)).or_else(|| {
            let prompt = self.prompt_at.as_ref().filter(|prompt| prompt.is_there(view))?;
            prompt_line::typed(view, prompt.line, prompt.col)
        })?;
        Some(draft.trim().to_string()).filter(|draft| !draft.is_empty())
    }
}
