//! Recorded sessions of real agents, replayed through terminal and driver on recorded time: the delay from the last
//! byte to the end of a turn. `crates/nerve-agent/tests/driver/replay.rs` tests the results.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_agent::driver::{Driver, Effect, Outcome, View};
use nerve_agent::profile::Profiles;
use nerve_types::Foreground;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

/// A recorded session, nine turns.
pub(crate) struct Session {
    pub(crate) name: &'static str,
    pub(crate) goal_ms: f64,
}

/// Sessions with goals. Claude Code's goal is 100 ms; the others draw for longer after their last word.
pub(crate) const SESSIONS: &[Session] = &[
    Session { name: "claude/classic-modern", goal_ms: 100.0 },
    Session { name: "claude/classic-noanswer", goal_ms: 100.0 },
    Session { name: "claude/fs-noanswer", goal_ms: 100.0 },
    Session { name: "gemini/default-modern", goal_ms: 150.0 },
    Session { name: "codex/inline-none", goal_ms: 150.0 },
    Session { name: "codex/default-none", goal_ms: 150.0 },
    // The end is drawn before the last text, so it must persist for half a second.
    Session { name: "opencode/default-modern", goal_ms: 550.0 },
];

/// Results of a session.
#[derive(Default)]
pub(crate) struct Played {
    /// Milliseconds from the last output before a turn's end to the end, a value for each turn.
    pub(crate) latencies: Vec<f64>,
    /// Turns that ended before their last words were shown.
    pub(crate) premature: usize,
}

/// Plays a session.
pub(crate) fn play(session: &Session) -> Result<Played> {
    let base = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../nerve-vt/tests/fixtures/recordings")
        .join(session.name);
    let read = |extension: &str| {
        let path = base.with_extension(extension);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (output, input, timing) = (read("raw")?, read("in.raw")?, String::from_utf8(read("timing")?)?);
    let profile = session.name.split('/').next().unwrap_or_default();
    let mut player = Player::new(profile)?;
    let (mut output, mut input) = (output.as_slice(), input.as_slice());
    for line in timing.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().context("a short line in the timing");
        let (kind, pause, bytes) = (word()?, word()?.parse()?, word()?.parse()?);
        player.wait(player.now + Duration::from_secs_f64(pause));
        let source = if kind == "O" { &mut output } else { &mut input };
        let (chunk, rest) = source.split_at_checked(bytes).context("the timing is longer than the bytes")?;
        *source = rest;
        if kind == "O" { player.output(chunk) } else { player.input(chunk)? }
    }
    player.wait(player.now + Duration::from_secs(10));
    Ok(player.played)
}

struct Player {
    terminal: TerminalState,
    driver: Driver,
    now: TsNs,
    last_output: TsNs,
    prompt: String,
    played: Played,
}

impl Player {
    fn new(profile: &str) -> Result<Player> {
        let profile = Profiles::builtin().get(profile).context("no such profile")?;
        let (terminal, start) = (TerminalState::new(Size::default()), TsNs(1));
        let driver = Driver::new(profile, start);
        Ok(Player {
            terminal,
            driver,
            now: start,
            last_output: start,
            prompt: String::new(),
            played: Played::default(),
        })
    }

    fn look(&mut self) {
        let screen = self.terminal.screen();
        let cursor_line = self.terminal.cursor_line().0;
        let foreground = Foreground::Unknown;
        self.driver.observe(self.now, View { screen: &screen, cursor_line, covered_line: None, foreground });
        while let Some(effect) = self.driver.poll_effect() {
            let Effect::TurnEnded(end) = effect else { continue };
            self.played.latencies.push(self.now.since(self.last_output).as_secs_f64() * 1e3);
            let shown = self.terminal.tail(420).join("\n");
            // Refused permissions and interrupted turns have no last words.
            let ended = last_words(&self.prompt).is_none_or(|words| shown.contains(words));
            self.played.premature += usize::from(end.outcome == Outcome::Done && !ended);
        }
    }

    /// Advances time and handles the wake-ups that become due.
    fn wait(&mut self, until: TsNs) {
        loop {
            let wake = [self.driver.deadline(), self.terminal.frame_deadline()].into_iter().flatten().min();
            let Some(at) = wake.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.terminal.expire_frame(self.now);
            self.look();
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
        self.look();
    }

    /// Passes on typed input: a prompt begins a turn, Escape or Ctrl+C interrupts it.
    fn input(&mut self, bytes: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(bytes).replace("\x1b[200~", "").replace("\x1b[201~", "");
        match text.as_str() {
            "\r" | "" => {}
            "\x1b" | "\x03" => self.driver.interrupt(self.now, self.terminal.cursor_line().0),
            text if text.starts_with(['\x1b', '/']) => {}
            text => {
                self.prompt = text.to_string();
                let (modes, line) = (self.terminal.modes(), self.terminal.cursor_line().0);
                let submitted = self.driver.submit(self.now, text.into(), modes, line);
                submitted.map_err(|refused| anyhow::anyhow!("{text:?} was refused: {refused}"))?;
                while self.driver.poll_effect().is_some() {}
            }
        }
        Ok(())
    }
}

/// Returns the last words of the answer to a prompt.
fn last_words(prompt: &str) -> Option<&'static str> {
    match prompt {
        p if p.starts_with("ESC") || p.ends_with("interrupted") => None,
        p if p.starts_with("LONG") => Some("END-OF-LONG"),
        p if p.starts_with("SLOW answer") => Some("END-OF-SLOW"),
        p if p.contains("TOOL") => Some("END-OF-TOOL"),
        p if p.starts_with("HUGE") => Some("END-OF-HUGE"),
        p if p.starts_with("WIDE") => Some("END-OF-WIDE"),
        p if p.starts_with("line one") => Some("line three"),
        _ => Some("You said"),
    }
}
