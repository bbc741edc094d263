//! One turn: typed, seen, submitted, started, ended.

use std::time::Duration;

use super::observation::{Says, echoes};
use super::state::{AgentState, Delivery, Source};
use super::{Driver, Effect, View};
use crate::event::{ExitStatus, TsNs};
use crate::keys::{paste, unescape};
use crate::profile::{Pattern, SubmitMode};
use crate::screen::{Modes, Row};
use crate::terminal::MarkKind;

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Its number, from 1.
    pub number: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// How far its prompt came.
    pub delivery: Delivery,
    /// Which signal ended it, in words.
    pub evidence: String,
    /// Where its text stands.
    pub span: Span,
    /// The exit code of a shell's command, where its marks tell.
    pub exit_code: Option<i32>,
    /// When it began and ended.
    pub time: (TsNs, TsNs),
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The agent is ready again.
    Done,
    /// It was interrupted and the agent is ready again.
    Interrupted,
    /// The prompt could not be shown to have arrived in time.
    NotDelivered,
    /// The child ended.
    Exited(ExitStatus),
}

/// Where the text of a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Output bytes: first, and one past the last.
    pub bytes: (u64, u64),
    /// Absolute lines: first, and one past the last.
    pub lines: (u64, u64),
    /// The last line counts only up to this column (a shell's prompt follows on it).
    pub last_col: Option<u16>,
}

/// Why a prompt was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A turn runs.
    #[error("a turn is running")]
    Busy,
    /// The agent does not wait for a prompt.
    #[error("the agent is not ready")]
    NotReady,
    /// Somebody's text stands in the composer.
    #[error("the composer holds a draft: '{0}'")]
    Draft(String),
    /// Somebody's half a line stands behind the prompt of a line-based program.
    #[error("half a line stands at the prompt: '{0}'")]
    Line(String),
    /// There is nothing to send.
    #[error("the prompt is empty")]
    Empty,
}

/// A running turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) delivery: Delivery,
    pub(super) interrupted: bool,
    answered: bool,
    /// A sign of work was seen on the screen or in the title since Enter was pressed.
    worked: bool,
    prompt: String,
    phase: Phase,
    began: TsNs,
    first_byte: u64,
    first_line: u64,
    /// The end of an answer that stood on the screen when Enter was pressed.
    old_end: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Our own old text is being taken out of the composer.
    Clearing { since: TsNs },
    /// Pasted; the composer does not show it yet.
    Typing { since: TsNs },
    /// Enter was sent; the composer still shows the text.
    Submitting { since: TsNs, enters: u32 },
    /// The agent has it.
    Running,
}

/// How long an agent may take to empty its composer of our own draft.
const CLEAR_TIME: Duration = Duration::from_secs(2);

impl Driver {
    /// Sends a prompt and begins a turn; its number comes back.
    ///
    /// # Errors
    /// [`Refused`]: nothing was written.
    pub fn submit(
        &mut self,
        now: TsNs,
        prompt: &str,
        modes: Modes,
        cursor_line: u64,
    ) -> Result<u64, Refused> {
        if prompt.is_empty() {
            return Err(Refused::Empty);
        }
        if self.turn.is_some() {
            return Err(Refused::Busy);
        }
        if self.state != AgentState::Ready {
            return Err(Refused::NotReady);
        }
        if let Some(line) = &self.line_draft {
            return Err(Refused::Line(line.clone()));
        }
        let draft = self.reading.composer.as_ref().map_or("", |composer| composer.draft.as_str());
        let ours = self.reading.composer.as_ref().zip(self.returned_prompt.as_ref());
        let ours = ours.is_some_and(|(view, prompt)| echoes(view, prompt));
        if !draft.is_empty() && !ours {
            return Err(Refused::Draft(draft.to_string()));
        }
        let phase = match (self.profile.submit.mode, draft.is_empty()) {
            (SubmitMode::Line, _) => Phase::Running,
            (SubmitMode::Paste, true) => Phase::Typing { since: now },
            (SubmitMode::Paste, false) => Phase::Clearing { since: now },
        };
        self.turns += 1;
        self.turn = Some(Turn {
            number: self.turns,
            delivery: Delivery::Typed,
            interrupted: false,
            answered: false,
            worked: false,
            prompt: prompt.to_string(),
            phase,
            began: now,
            first_byte: self.offset,
            first_line: cursor_line,
            old_end: Vec::new(),
        });
        match phase {
            Phase::Clearing { .. } => self.clear_composer(now),
            Phase::Typing { .. } => self.type_prompt(now, modes),
            _ => self.send_line(now, prompt, modes, cursor_line),
        }
        Ok(self.turns)
    }

    /// Takes back a prompt whose Enter was not pressed yet, and ends its turn. `false` if there is none.
    pub(super) fn take_back_prompt(&mut self, now: TsNs) -> bool {
        let unsent = |turn: &Turn| matches!(turn.phase, Phase::Clearing { .. } | Phase::Typing { .. });
        if !self.turn.as_ref().is_some_and(unsent) {
            return false;
        }
        self.clear_composer(now);
        self.end_turn(now, Outcome::Interrupted, Some("interrupted before Enter was pressed"));
        true
    }

    fn clear_composer(&mut self, now: TsNs) {
        let keys = self.profile.composer.as_ref().map(|composer| composer.clear.clone()).unwrap_or_default();
        self.write_keys(&keys);
        self.wake_at(now + CLEAR_TIME);
    }

    fn type_prompt(&mut self, now: TsNs, modes: Modes) {
        let Some(turn) = &self.turn else { return };
        // A backslash right before Enter asks for a new line: a blank between them keeps it what it is.
        let text =
            if turn.prompt.ends_with('\\') { format!("{} ", turn.prompt) } else { turn.prompt.clone() };
        self.effects.push_back(Effect::Write(paste(&text, modes)));
        self.wake_at(now + Duration::from_millis(self.profile.submit.echo_ms));
    }

    fn send_line(&mut self, now: TsNs, prompt: &str, modes: Modes, cursor_line: u64) {
        // Several lines are pasted where the program takes pastes, so that they arrive as one command.
        let single = !prompt.contains(['\n', '\r']);
        let mut bytes =
            if single { crate::keys::paste(prompt, Modes::default()) } else { paste(prompt, modes) };
        bytes.extend(unescape(&self.profile.submit.enter).unwrap_or_else(|_| b"\r".to_vec()));
        self.effects.push_back(Effect::Write(bytes));
        self.raise_barrier(now, cursor_line);
        self.set_state(now, AgentState::Busy, Source::Input, "a prompt was sent".into());
        if let Some(turn) = &mut self.turn {
            turn.delivery = Delivery::Submitted;
        }
    }

    pub(super) fn advance_turn(&mut self, now: TsNs, view: &View<'_>) {
        let Some(phase) = self.turn.as_ref().map(|turn| turn.phase) else { return };
        match phase {
            Phase::Clearing { since } => self.advance_clearing(now, since, view),
            Phase::Typing { since } => self.advance_typing(now, since, view),
            Phase::Submitting { since, enters } => self.advance_submitting(now, since, enters, view),
            Phase::Running => {
                self.see_answer(view);
                self.see_work();
                self.advance_running(now);
            }
        }
    }

    fn advance_clearing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        if self.reading.composer.as_ref().is_some_and(|composer| composer.draft.is_empty()) {
            self.set_phase(Phase::Typing { since: now });
            self.type_prompt(now, view.screen.modes);
        } else if now >= since + CLEAR_TIME {
            self.end_turn(now, Outcome::NotDelivered, Some("the old draft could not be cleared"));
        } else {
            self.wake_at(since + CLEAR_TIME);
        }
    }

    fn advance_typing(&mut self, now: TsNs, since: TsNs, view: &View<'_>) {
        let due = since + Duration::from_millis(self.profile.submit.echo_ms);
        let shown = match (&self.turn, &self.reading.composer) {
            (Some(turn), Some(composer)) => echoes(composer, &turn.prompt),
            _ => false,
        };
        if shown {
            let top = self.reading.composer.as_ref().map_or(0, |composer| composer.rows.0);
            let line = view.screen.first_line + top as u64;
            let old_end =
                self.profile.turn_end.as_ref().map(|end| end_of_answer(&view.screen.rows[..top], end));
            if let Some(turn) = &mut self.turn {
                turn.old_end = old_end.unwrap_or_default();
                // The echo of the prompt is drawn where the live area stood, what is above the composer included.
                let above = self.profile.composer.as_ref().map_or(0, |composer| composer.live_above);
                turn.first_line = line.saturating_sub(u64::from(above));
            }
            self.set_phase(Phase::Submitting { since: now, enters: 1 });
            self.raise_barrier(now, view.cursor_line);
            self.write_keys(&self.profile.submit.enter.clone());
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        } else if now >= due {
            self.end_turn(now, Outcome::NotDelivered, Some("the text never showed in the composer"));
        } else {
            self.wake_at(due);
        }
    }

    fn advance_submitting(&mut self, now: TsNs, since: TsNs, enters: u32, view: &View<'_>) {
        self.see_answer(view);
        self.see_work();
        let works = self.works();
        let asks = matches!(self.state, AgentState::Blocked { .. } | AgentState::Suspended { .. });
        let cleared = self.reading.composer.as_ref().is_some_and(|composer| composer.draft.is_empty());
        let due = since + Duration::from_millis(self.profile.submit.enter_ms);
        if works || asks || cleared {
            if let Some(turn) = &mut self.turn {
                turn.delivery = if works || asks { Delivery::Started } else { Delivery::Submitted };
            }
            self.set_phase(Phase::Running);
            if !asks {
                self.set_state(now, AgentState::Busy, Source::Input, "the prompt left the composer".into());
            }
            // Weighed anew at once: a ready screen has to hold from here on.
            self.ready_since = None;
            self.wake_at(now);
        } else if now < due {
            self.wake_at(due);
        } else if enters < self.profile.submit.enters && self.reading.composer.is_some() {
            // The text still stands there: that Enter was swallowed.
            self.set_phase(Phase::Submitting { since: now, enters: enters + 1 });
            self.write_keys(&self.profile.submit.enter.clone());
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        } else if self.reading.composer.is_some() {
            self.end_turn(
                now,
                Outcome::NotDelivered,
                Some("Enter had no effect: the text still stands in the composer"),
            );
        } else {
            // No composer and no dialog we know: something else is drawn. Look again when it changes or later.
            self.wake_at(now + Duration::from_millis(self.profile.submit.enter_ms));
        }
    }

    fn advance_running(&mut self, now: TsNs) {
        let works =
            self.works() || self.marks.output.as_ref().is_some_and(|mark| mark.offset > self.barrier.offset);
        let unsure = !works && self.unsure();
        let Some(turn) = &mut self.turn else { return };
        if works && turn.delivery != Delivery::Started {
            turn.delivery = Delivery::Started;
        }
        if self.state == AgentState::Ready {
            let outcome = if turn.interrupted { Outcome::Interrupted } else { Outcome::Done };
            let evidence = unsure.then_some("ready again and silent; no sign of work was seen");
            self.end_turn(now, outcome, evidence);
        }
    }

    /// Does a hook still have to tell the turn's end? And how long may a ready screen stand until it counts all the same: an agent that
    /// was not seen at work yet may not have begun to draw it.
    pub(super) fn awaits_hook(&self) -> Option<Duration> {
        let turn = self.turn.as_ref().filter(|turn| !turn.interrupted)?;
        let timing = &self.profile.timing;
        let patience = if turn.worked { timing.settle() * 5 } else { timing.quiet() };
        self.hooks.will_end(self.barrier.at).then_some(patience)
    }

    /// A turn that was never seen to start: it ends only by a longer silence (`/help` and the like give no sign of work).
    pub(super) fn unsure(&self) -> bool {
        let unseen = |turn: &Turn| turn.delivery != Delivery::Started && !turn.interrupted;
        self.profile.composer.is_some() && !self.works() && self.turn.as_ref().is_some_and(unseen)
    }

    /// A finished answer below the prompt's echo says that the agent worked, however fast.
    fn see_answer(&mut self, view: &View<'_>) {
        let (Some(turn), Some(composer), Some(end)) =
            (&mut self.turn, &self.reading.composer, self.profile.turn_end.as_ref())
        else {
            return;
        };
        let above = &view.screen.rows[..composer.rows.0];
        let Some(at) = above.iter().rposition(|row| end.is_match(&row.text)) else { return };
        turn.answered = if view.screen.modes.alternate {
            let mark = self.profile.composer.as_ref().map(|composer| &composer.prompt);
            let echo = |row: &Row| {
                mark.and_then(|mark| mark.after(&row.text)).is_some_and(|text| is_start(text, &turn.prompt))
            };
            match above.iter().rposition(echo) {
                Some(echo) => echo < at && !above[echo..at].iter().any(|row| end.is_match(&row.text)),
                // A long answer has pushed its echo off the screen: its end is not the one that stood there before.
                None => {
                    let now = end_of_answer(above, end);
                    let rows = now.iter().rev().zip(turn.old_end.iter().rev());
                    turn.old_end.is_empty() || !rows.into_iter().all(|(now, old)| now == old)
                }
            }
        } else {
            view.screen.first_line + at as u64 >= turn.first_line
        };
    }

    /// Did the agent work since the prompt went in?
    fn works(&self) -> bool {
        self.shows_work() || self.hooks.began(self.barrier.at)
    }

    /// Is that to be seen?
    fn shows_work(&self) -> bool {
        let answered = self.turn.as_ref().is_some_and(|turn| turn.answered);
        let titled = self.busy_title > self.barrier.offset;
        let busy = matches!(self.reading.says, Some(Says::Busy(..))) && self.offset > self.barrier.offset;
        answered || titled || busy
    }

    fn see_work(&mut self) {
        let shows = self.shows_work();
        if let Some(turn) = &mut self.turn {
            turn.worked |= shows;
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turn {
            turn.phase = phase;
        }
    }

    pub(super) fn span_start(&self, turn: &Turn) -> u64 {
        let mark = self.marks.output.as_ref().filter(|mark| mark.offset > turn.first_byte);
        match (mark, self.profile.composer.is_some()) {
            (Some(mark), false) => mark.line.0,
            (None, false) => turn.first_line + 1,
            (_, true) => turn.first_line,
        }
    }

    pub(super) fn end_turn(&mut self, now: TsNs, outcome: Outcome, evidence: Option<&str>) {
        let Some(turn) = self.turn.take() else { return };
        self.returned_prompt = (outcome != Outcome::Done).then(|| turn.prompt.clone());
        let start = self.span_start(&turn);
        let end = self.marks.end.as_ref().filter(|mark| mark.offset > turn.first_byte);
        let (end_line, last_col) = match end {
            Some(mark) if self.profile.composer.is_none() && mark.col > 0 => {
                (mark.line.0 + 1, Some(mark.col))
            }
            Some(mark) if self.profile.composer.is_none() => (mark.line.0, None),
            // To the end of what there is: the parser finds the composer, and no prompt is drawn by a program that is gone.
            _ if self.profile.composer.is_some() || matches!(outcome, Outcome::Exited(_)) => (u64::MAX, None),
            _ if self.bare_prompt => (self.cursor_line, None),
            _ => (self.cursor_line + 1, None),
        };
        let exit_code = end.and_then(|mark| match mark.kind {
            MarkKind::CommandEnd(code) => code,
            _ => None,
        });
        let evidence = evidence.map_or_else(
            || format!("{}: {}", self.evidence.source.as_str(), self.evidence.text),
            str::to_string,
        );
        self.effects.push_back(Effect::TurnEnded(Box::new(TurnEnd {
            number: turn.number,
            outcome,
            delivery: turn.delivery,
            evidence,
            span: Span { bytes: (turn.first_byte, self.offset), lines: (start, end_line), last_col },
            exit_code,
            time: (turn.began, now),
        })));
    }
}

/// How many rows above the end of an answer tell it from another one.
const END_ROWS: usize = 3;

/// The last row that ends an answer, with some of those above it; empty if there is none.
fn end_of_answer(rows: &[Row], end: &Pattern) -> Vec<String> {
    let Some(at) = rows.iter().rposition(|row| end.is_match(&row.text)) else { return Vec::new() };
    rows[at.saturating_sub(END_ROWS)..=at].iter().map(|row| row.text.clone()).collect()
}

/// Is `text` (a row of an echo) how `prompt` begins?
fn is_start(text: &str, prompt: &str) -> bool {
    let words = |s: &str| s.split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ");
    let text = words(text);
    !text.is_empty() && words(prompt).starts_with(&text)
}
