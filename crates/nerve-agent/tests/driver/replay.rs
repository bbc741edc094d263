//! Recorded sessions (nine turns each): every turn has to end exactly once, after its last word and soon after its last
//! byte. The recordings were made by a script that typed a prompt, waited, and pressed Enter.

use std::path::PathBuf;
use std::time::Duration;

use nerve_agent::driver::{AgentState, Driver, Effect, Outcome, TurnEnd, View};
use nerve_agent::profile::Profiles;
use nerve_types::Foreground;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

/// A turn as the driver reported it.
#[derive(Debug)]
struct Turn {
    prompt: String,
    outcome: Outcome,
    delivery: &'static str,
    text: String,
    /// Time from the last output byte to the end of the turn.
    latency: Duration,
    /// Output bytes between the end of the turn and the next input.
    late_bytes: u64,
    blocked: bool,
    /// Number of reports of the blocked state.
    blocked_count: usize,
}

struct Replay {
    terminal: TerminalState,
    driver: Driver,
    now: TsNs,
    last_output: TsNs,
    blocked: bool,
    blocked_count: usize,
    prompt: String,
    turns: Vec<Turn>,
    ended_offset: u64,
    answer_started: bool,
}

impl Replay {
    fn new(profile: &str) -> Replay {
        let profile = Profiles::builtin().get(profile).unwrap();
        Replay {
            terminal: TerminalState::new(Size::new(120, 40)),
            driver: Driver::new(profile, TsNs(1)),
            now: TsNs(1),
            last_output: TsNs(1),
            blocked: false,
            blocked_count: 0,
            prompt: String::new(),
            turns: Vec::new(),
            ended_offset: 0,
            answer_started: false,
        }
    }

    fn observe(&mut self) {
        let screen = self.terminal.screen();
        let cursor_line = self.terminal.cursor_line().0;
        self.driver.observe(
            self.now,
            View { screen: &screen, cursor_line, covered_line: None, foreground: Foreground::Unknown },
        );
        while let Some(effect) = self.driver.poll_effect() {
            match effect {
                Effect::TurnEnded(end) => self.ended(&end),
                Effect::StateChanged if matches!(self.driver.state(), AgentState::Blocked { .. }) => {
                    self.blocked = true;
                    self.blocked_count += 1;
                }
                Effect::StateChanged => {}
                Effect::Write(_) | Effect::Answered { .. } => {}
            }
        }
    }

    fn ended(&mut self, end: &TurnEnd) {
        let screen = self.terminal.screen();
        let text = if screen.modes.alternate { screen.text() } else { self.terminal.tail(420).join("\n") };
        self.ended_offset = self.terminal.offset();
        self.turns.push(Turn {
            prompt: self.prompt.clone(),
            outcome: end.outcome,
            delivery: end.delivery.as_str(),
            text,
            latency: self.now.since(self.last_output),
            late_bytes: 0,
            blocked: std::mem::take(&mut self.blocked),
            blocked_count: std::mem::take(&mut self.blocked_count),
        });
    }

    /// Advances the time to `until`, with all wake-ups in between.
    fn wait(&mut self, until: TsNs) {
        loop {
            let wake = [self.driver.deadline(), self.terminal.frame_deadline()].into_iter().flatten().min();
            let Some(at) = wake.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.terminal.expire_frame(self.now);
            self.observe();
        }
        self.now = until;
    }

    fn output(&mut self, bytes: &[u8]) {
        let changes = self.terminal.process_data(self.now, bytes);
        self.last_output = self.now;
        self.driver.on_output(self.now, self.terminal.offset());
        for alert in &changes.alerts {
            self.driver.on_alert(alert);
        }
        self.observe();
    }

    fn input(&mut self, bytes: &[u8]) {
        if let Some(turn) = self.turns.last_mut()
            && turn.late_bytes == 0
        {
            turn.late_bytes = self.terminal.offset() - self.ended_offset;
        }
        let text = String::from_utf8_lossy(bytes).replace("\x1b[200~", "").replace("\x1b[201~", "");
        match text.as_str() {
            "\r" => {
                if let AgentState::Blocked { choices, .. } = self.driver.state().clone() {
                    // Picks the first choice, as in the recording.
                    self.driver.answer(self.now, &choices, Some(0));
                    while self.driver.poll_effect().is_some() {}
                }
            }
            "" => {}
            "\x1b" | "\x03" => self.driver.interrupt(self.now, self.terminal.cursor_line().0),
            text if text.starts_with('\x1b') || text.starts_with('/') => {}
            text => {
                self.prompt = text.to_string();
                let line = self.terminal.cursor_line().0;
                let modes = self.terminal.modes();
                self.driver.submit(self.now, text.into(), modes, line).unwrap_or_else(|refused| {
                    panic!(
                        "{text:?} was refused: {refused}; {:?}\n{}",
                        self.driver.evidence(),
                        self.terminal.screen().text()
                    )
                });
                self.answer_started = true;
                while self.driver.poll_effect().is_some() {}
            }
        }
    }
}

/// Replays a recording in pieces of `piece` bytes, because a read can end in the middle of a frame.
fn replay(profile: &str, name: &str, piece: usize) -> Vec<Turn> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../nerve-vt/tests/fixtures/recordings").join(profile);
    let read = |suffix: &str| std::fs::read(folder.join(format!("{name}{suffix}"))).unwrap();
    let (output, input) = (read(".raw"), read(".in.raw"));
    let timing = String::from_utf8(read(".timing")).unwrap();
    let mut replay = Replay::new(profile);
    let (mut out_at, mut in_at) = (0, 0);
    for line in timing.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let pause: f64 = words.next().unwrap().parse().unwrap();
        let bytes: usize = words.next().unwrap().parse().unwrap();
        replay.wait(replay.now + Duration::from_secs_f64(pause));
        if kind == "O" {
            for piece in output[out_at..out_at + bytes].chunks(piece) {
                replay.output(piece);
                replay.wait(replay.now + Duration::from_micros(100));
            }
            out_at += bytes;
        } else {
            replay.input(&input[in_at..in_at + bytes]);
            in_at += bytes;
        }
    }
    replay.wait(replay.now + Duration::from_secs(10));
    replay.turns
}

/// Returns the text that must be on the screen when a turn ends.
fn last_words(prompt: &str) -> &str {
    match prompt {
        p if p.starts_with("LONG") => "END-OF-LONG",
        p if p.starts_with("SLOW answer") => "END-OF-SLOW",
        p if p.contains("TOOL") && !p.starts_with("ESC") => "END-OF-TOOL",
        p if p.starts_with("HUGE") => "END-OF-HUGE",
        p if p.starts_with("WIDE") => "END-OF-WIDE",
        p if p.starts_with("line one") => "line three",
        _ => "You said",
    }
}

fn check(profile: &str, name: &str, most: Duration) {
    check_turns(profile, name, most, &replay(profile, name, usize::MAX));
    check_turns(profile, name, most, &replay(profile, name, 700));
}

fn check_turns(profile: &str, name: &str, most: Duration, turns: &[Turn]) {
    let list = || {
        turns
            .iter()
            .map(|t| {
                format!(
                    "{:?} {:?} {} {:?} late {} blocked {}",
                    t.prompt, t.outcome, t.delivery, t.latency, t.late_bytes, t.blocked
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(turns.len(), 9, "{profile}/{name}:\n{}", list());
    for turn in turns {
        let interrupted = turn.prompt.ends_with("interrupted");
        let expected = if interrupted { Outcome::Interrupted } else { Outcome::Done };
        assert_eq!(turn.outcome, expected, "{profile}/{name} {:?}\n{}", turn.prompt, list());
        assert_eq!(turn.delivery, "started", "{profile}/{name} {:?}\n{}", turn.prompt, list());
        if !interrupted && turn.blocked == (turn.prompt.contains("TOUCH") || turn.prompt.contains("ESCTOOL"))
        {
            assert!(
                turn.text.contains(last_words(&turn.prompt)),
                "{profile}/{name} {:?} ended early:\n{}\n{}",
                turn.prompt,
                turn.text,
                list()
            );
        }
        assert!(
            turn.latency <= most,
            "{profile}/{name} {:?} took {:?} after its last byte\n{}",
            turn.prompt,
            turn.latency,
            list()
        );
        let has_dialog = turn.prompt.starts_with("TOUCHTOOL") || turn.prompt.starts_with("ESCTOOL");
        assert_eq!(turn.blocked, has_dialog, "{profile}/{name} {:?} permission\n{}", turn.prompt, list());
        assert_eq!(
            turn.blocked_count,
            usize::from(has_dialog),
            "{profile}/{name} {:?} dialogs\n{}",
            turn.prompt,
            list()
        );
    }
}

#[test]
fn claude_classic_with_terminal_replies() {
    check("claude", "classic-modern", Duration::from_millis(100));
}

#[test]
fn claude_classic_without_terminal_replies() {
    check("claude", "classic-noanswer", Duration::from_millis(100));
}

#[test]
fn claude_full_screen() {
    check("claude", "fs-noanswer", Duration::from_millis(100));
}

#[test]
fn gemini_full_screen() {
    check("gemini", "default-modern", Duration::from_millis(150));
}

#[test]
fn codex_inline() {
    check("codex", "inline-none", Duration::from_millis(150));
}

#[test]
fn codex_on_the_alternate_screen() {
    check("codex", "default-none", Duration::from_millis(150));
}

#[test]
fn opencode_full_screen() {
    check("opencode", "default-modern", Duration::from_millis(550));
}
