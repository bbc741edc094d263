//! A pane of tmux as a terminal: its program's bytes come over control mode, ours go there.
//!
//! tmux owns the terminal and outlives us. When the connection breaks, it is made again; what was missed meanwhile is a gap in the
//! recording, and the screen is taken over as it is.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use nerve_term::driver::Foreground;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::attach::{Facts, Joined, join};
use super::client::Tmux;
use super::control::Control;
use super::exit_status::{self, Death};
use super::input::{HELD, Input, Words};
use super::input_lease::{self, Typing};
use super::parser::{Said, size_in};
use super::quoting::words_of;
use super::screen::{self, State};
use crate::backend::pane::{Claim, PaneEntry, PaneError, Panes};
use crate::backend::pty::READ_LIMIT;
use crate::backend::{Backend, BackendEvent, Lease, Memory, tty};
use crate::clock::Clock;
use crate::host::registry::start_ticks;
use crate::pump::Pump;
use crate::recorder::Flusher;

/// A grandchild may hold the terminal open; and tmux is asked how the program ended.
const DRAIN: Duration = Duration::from_secs(2);
/// How often tmux is asked whether the program has ended, where the system does not tell.
const LOOK: Duration = Duration::from_secs(1);
/// Panes of other people whose output was sent to us before they were silenced; more than anybody has.
const MUTED: usize = 10_000;
/// How often a connection that breaks at once is made again.
const ATTEMPTS: u32 = 5;
/// A connection that held for so long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// Answers of one group of commands are short.
const ANSWERS: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct TmuxPane {
    clock: Clock,
    tmux: Tmux,
    panes: Panes,
    entry: PaneEntry,
    stage: Stage,
    tie: Tie,
    pump: Pump,
    flusher: Option<Flusher>,
    /// Nobody else's while we have it.
    claim: Option<Claim>,
    size: Size,
    output: Vec<u8>,
    told: VecDeque<BackendEvent>,
    input: Input,
    asked: VecDeque<Asked>,
    numbers: u64,
    typing: Typing,
    muted: HashSet<u32>,
    death: Death,
    /// Bytes that make the screen that the program has left.
    last: Vec<u8>,
    /// It is only left, at a stop.
    left: bool,
}

/// How the pane is reached.
#[derive(Debug)]
enum Stage {
    Connecting(AbortOnDropHandle<Result<Taken, Untaken>>),
    Live(Box<Control>),
    /// The recording is finished; then the last word is told.
    Closing(JoinHandle<Option<String>>, Option<BackendEvent>),
    Over,
}

/// What is known of the pane and its program, once there has been a connection.
#[derive(Debug, Default)]
struct Tie {
    number: u32,
    tty: Option<PathBuf>,
    /// Tells the program's end.
    process: Option<AsyncFd<OwnedFd>>,
    /// When the program was started: tells it from a later one of the same number.
    started: Option<u64>,
    since: Option<Instant>,
    attempts: u32,
}

/// A connection made again, or by a new server.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) joined: Joined,
    /// With what a new server begins.
    pub(super) fresh: Option<Fresh>,
}

/// What one who takes a pane over has of it.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) claim: Claim,
    pub(super) pump: Pump,
    pub(super) flusher: Option<Flusher>,
    pub(super) faults: Vec<String>,
}

/// Why there is none.
#[derive(Debug)]
pub(super) struct Untaken {
    /// In words.
    pub(super) why: String,
    /// The pane is not there any more: its entry goes.
    pub(super) gone: bool,
}

/// A group of commands whose answers are awaited.
#[derive(Debug)]
struct Asked {
    number: u64,
    what: What,
    answers: Vec<Result<Vec<u8>, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Input,
    Typing,
    /// Its size; somebody waits to hear of it.
    Size {
        asked: bool,
    },
    Death,
    /// The screen at its end.
    Last,
    Killed,
    Nothing,
}

/// What a pane is made from.
pub(super) struct Parts {
    pub(super) tmux: Tmux,
    pub(super) panes: Panes,
    pub(super) entry: PaneEntry,
}

impl TmuxPane {
    /// Over a connection that is there.
    pub(super) fn live(parts: Parts, joined: Joined, fresh: Fresh) -> TmuxPane {
        let mut pane = TmuxPane::new(parts, Stage::Over);
        pane.take(Taken { joined, fresh: Some(fresh) }, false);
        pane
    }

    /// Of a server that is gone.
    pub(super) fn adopted(
        parts: Parts,
        connecting: impl Future<Output = Result<Taken, Untaken>> + Send + 'static,
    ) -> TmuxPane {
        let task = AbortOnDropHandle::new(tokio::spawn(connecting));
        TmuxPane::new(parts, Stage::Connecting(task))
    }

    fn new(parts: Parts, stage: Stage) -> TmuxPane {
        let Parts { tmux, panes, entry } = parts;
        TmuxPane {
            clock: Clock::start(),
            tmux,
            panes,
            stage,
            tie: Tie::default(),
            pump: Pump::default(),
            flusher: None,
            claim: None,
            size: Size::default(),
            output: Vec::new(),
            told: VecDeque::new(),
            input: Input::new(&entry.pane),
            asked: VecDeque::new(),
            numbers: 0,
            typing: Typing::default(),
            muted: HashSet::new(),
            death: Death::default(),
            last: Vec::new(),
            left: false,
            entry,
        }
    }

    /// Goes on with a connection. What was missed before it is a gap, and the screen comes as output.
    fn take(&mut self, taken: Taken, missed: bool) {
        let Joined { control, facts, screen } = taken.joined;
        let now = self.clock.now();
        let first = taken.fresh.is_some();
        if let Some(fresh) = taken.fresh {
            (self.pump, self.flusher, self.claim) = (fresh.pump, fresh.flusher, Some(fresh.claim));
            self.told.extend(fresh.faults.into_iter().map(BackendEvent::Fault));
            if self.pump.offset() > 0 {
                self.told.push_back(BackendEvent::Skipped(self.pump.offset()));
            }
        }
        self.tie = Tie {
            number: facts.number,
            tty: facts.tty.clone(),
            process: facts.pid.and_then(tty::watched),
            started: facts.pid.and_then(|pid| start_ticks(pid.cast_unsigned())),
            since: Some(Instant::now()),
            attempts: self.tie.attempts,
        };
        if missed {
            self.pump.gap(now);
        }
        if first || facts.size != self.size {
            self.resized(facts.size);
        }
        if !screen.is_empty() {
            self.input.unwrap_pastes();
            self.pump.output(now, &screen);
            self.output = screen;
            self.told.push_back(BackendEvent::Output);
        }
        if first && missed {
            self.told.push_back(BackendEvent::CaughtUp);
        }
        self.stage = Stage::Live(Box::new(control));
        self.input.look_again();
        // Who asked before can ask again.
        self.told.push_back(BackendEvent::LeaseChanged);
        if self.tie.process.is_none() {
            self.ask_death();
        }
    }

    fn resized(&mut self, size: Size) {
        self.size = size;
        self.pump.resize(self.clock.now(), size);
        self.told.push_back(BackendEvent::Resized(size));
    }

    /// Gives tmux commands; `what` hears of their answers together, for how many there are is not always known.
    fn ask(&mut self, what: What, commands: &[Words]) {
        let Stage::Live(control) = &mut self.stage else { return };
        self.numbers += 1;
        for words in commands {
            control.send(words);
        }
        control.send(&["display-message", "-p", &mark(self.numbers)]);
        self.asked.push_back(Asked { number: self.numbers, what, answers: Vec::new() });
    }

    fn awaits(&self, what: What) -> bool {
        self.asked.iter().any(|asked| asked.what == what)
    }

    fn ask_size(&mut self, asked: bool) {
        let words = ["display-message", "-p", "-t", &self.entry.pane, "#{pane_width} #{pane_height}"];
        self.ask(What::Size { asked }, &[words_of(&words)]);
    }

    fn ask_death(&mut self) {
        if !self.awaits(What::Death) && !self.death.is_told() {
            self.ask(What::Death, &[exit_status::question(&self.entry.pane)]);
        }
    }

    fn said(&mut self, said: Said) {
        match said {
            Said::Output { pane, bytes } if pane == self.tie.number => self.output.extend(bytes),
            Said::Output { pane, .. } => self.mute(pane),
            Said::Answer { ours: true, text } => self.answered(text),
            Said::Answer { ours: false, .. } => {}
            Said::ModeChanged { pane } if pane == self.tie.number => {
                self.input.look_again();
                self.told.push_back(BackendEvent::LeaseChanged);
            }
            Said::ModeChanged { .. } => {}
            Said::Layout { visible } => match size_in(&visible, self.tie.number) {
                Some((cols, rows)) => {
                    let size = Size::new(cols, rows);
                    if size != self.size {
                        self.resized(size);
                    }
                    // Borders with a title take a row of what the layout says.
                    self.ask_size(false);
                }
                None => self.ask_death(),
            },
            Said::Moved => self.ask_death(),
            Said::Exit(why) => self.disconnected(&why),
        }
    }

    /// Others' output is not sent to us again. Their programs are not held up by that: `off` would do so where nobody else looks.
    fn mute(&mut self, pane: u32) {
        if self.muted.len() < MUTED && self.muted.insert(pane) {
            let words = ["refresh-client", "-A", &format!("%{pane}:pause")];
            self.ask(What::Nothing, &[words_of(&words)]);
        }
    }

    fn answered(&mut self, text: Result<Vec<u8>, String>) {
        let Some(front) = self.asked.front_mut() else { return };
        if !matches!(&text, Ok(text) if text.trim_ascii_end() == mark(front.number).as_bytes()) {
            if front.answers.len() < ANSWERS {
                front.answers.push(text);
            }
            return;
        }
        let Some(Asked { what, answers, .. }) = self.asked.pop_front() else { return };
        let texts = || {
            answers
                .iter()
                .map(|answer| answer.as_ref().map(|text| text_of(text)).map_err(String::clone))
                .collect::<Vec<_>>()
        };
        match what {
            What::Input => self.input_taken(&texts()),
            What::Typing => {
                self.typing.answered(self.clock.now(), &texts(), &self.entry.pane);
                self.told.push_back(BackendEvent::LeaseChanged);
            }
            What::Size { asked } => self.size_known(asked, &texts()),
            What::Death => self.death_known(&texts()),
            What::Last => self.last_words(&answers),
            What::Killed => self.closed(),
            What::Nothing => {}
        }
    }

    fn input_taken(&mut self, answers: &[Result<String, String>]) {
        let held = answers.iter().any(|answer| answer.as_deref() == Ok(HELD));
        if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
            self.told.push_back(BackendEvent::Fault(format!("tmux did not type: {error}")));
        }
        self.input.done(held);
    }

    fn size_known(&mut self, asked: bool, answers: &[Result<String, String>]) {
        let known = answers.iter().flatten().find_map(|text| {
            let (cols, rows) = text.split_once(' ')?;
            Some(Size::new(cols.parse().ok()?, rows.parse().ok()?))
        });
        if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
            self.told.push_back(BackendEvent::Fault(format!("tmux keeps the pane's size: {error}")));
        }
        match known {
            Some(size) if size != self.size => self.resized(size),
            // Whoever asked for it is told what it is.
            _ if asked => self.told.push_back(BackendEvent::Resized(self.size)),
            _ => {}
        }
    }

    fn death_known(&mut self, answers: &[Result<String, String>]) {
        match self.death.look(Instant::now(), answers, self.entry.pid) {
            exit_status::Verdict::Alive => {}
            exit_status::Verdict::Nudge => self.ask(What::Nothing, &[words_of(&["run-shell", "true"])]),
            exit_status::Verdict::Ended(exit) => self.ended(exit),
            exit_status::Verdict::Replaced => self.replaced(),
            exit_status::Verdict::Gone => self.gone(self.closed_by_somebody()),
        }
    }

    /// Somebody has started another program in the pane: it is theirs now.
    fn replaced(&mut self) {
        self.entry.ours = false;
        self.ended(ExitStatus::Unknown);
    }

    /// The program is gone; the pane of ours goes too.
    fn ended(&mut self, exit: ExitStatus) {
        self.death.told(exit);
        self.forget();
        if self.entry.ours && matches!(self.stage, Stage::Live(_)) {
            // tmux throws away what it has not sent when a program ends, and shows it all the same.
            self.ask(What::Last, &screen::questions(&self.entry.pane));
        } else {
            self.told.push_back(BackendEvent::Exited(exit));
            self.closed();
        }
    }

    /// Tells the end and closes the pane.
    fn last_words(&mut self, answers: &[Result<Vec<u8>, String>]) {
        if let [Ok(state), Ok(text), below] = answers
            && let Some(state) = State::read(&String::from_utf8_lossy(state))
        {
            self.last = state.repaint(text, below.as_deref().ok());
            self.told.push_back(BackendEvent::FinalScreen(state.text(text)));
        }
        let exit = self.death.exit().unwrap_or(ExitStatus::Unknown);
        self.told.push_back(BackendEvent::Exited(exit));
        self.ask(What::Killed, &[words_of(&["kill-pane", "-t", &self.entry.pane])]);
    }

    fn closed(&mut self) {
        self.finish(BackendEvent::Closed);
    }

    /// Nothing comes any more; the last word is told when the recording is whole.
    fn finish(&mut self, last: BackendEvent) {
        let (pump, entry, ended) = (std::mem::take(&mut self.pump), self.entry.clone(), self.clock.now());
        let (panes, exit) = (self.panes.clone(), self.death.exit().unwrap_or(ExitStatus::Unknown));
        let closing = tokio::task::spawn_blocking(move || close(pump, &panes, &entry, exit, ended));
        self.stage = Stage::Closing(closing, Some(last));
    }

    /// The pane is gone, whatever became of its program.
    fn gone(&mut self, why: String) {
        if self.death.is_told() {
            return self.closed();
        }
        // Its program lost its terminal, and may not care.
        self.signal(Signal::HUP);
        self.death.told(ExitStatus::Unknown);
        self.forget();
        self.finish(BackendEvent::Lost(why));
    }

    fn closed_by_somebody(&self) -> String {
        let how =
            if self.entry.ours { "somebody closed it" } else { "its program ended, or somebody closed it" };
        format!("pane {} is gone: {how}", self.entry.pane)
    }

    fn forget(&mut self) {
        self.panes.forget(&self.entry);
        self.claim = None;
    }

    /// The connection is over: the pane may not be.
    fn disconnected(&mut self, why: &str) {
        if self.death.is_told() {
            if self.entry.ours {
                // Nobody else closes it.
                let (tmux, entry) = (self.tmux.clone(), self.entry.clone());
                tokio::spawn(async move { kill(&tmux, &entry).await });
            }
            return self.closed();
        }
        let given_up = self.input.give_up();
        if given_up > 0 {
            let message =
                format!("{given_up} bytes of input may be lost: the connection to tmux broke: {why}");
            self.told.push_back(BackendEvent::Fault(message));
        }
        self.asked.clear();
        self.muted.clear();
        self.typing = Typing::default();
        if self.tie.since.is_some_and(|since| since.elapsed() > GOOD) {
            self.tie.attempts = 0;
        }
        self.tie.attempts += 1;
        let (tmux, entry, attempts) = (self.tmux.clone(), self.entry.clone(), self.tie.attempts);
        self.stage = Stage::Connecting(AbortOnDropHandle::new(tokio::spawn(async move {
            if attempts > ATTEMPTS {
                let why = "the connection to it breaks again and again".to_string();
                return Err(Untaken { why, gone: false });
            }
            Ok(Taken { joined: rejoin(&tmux, &entry).await?, fresh: None })
        })));
    }

    fn untaken(&mut self, untaken: &Untaken) {
        let first = self.tie.since.is_none();
        if first {
            self.told.push_back(BackendEvent::CaughtUp);
        }
        if untaken.gone && !first {
            return self.gone(untaken.why.clone());
        }
        self.death.told(ExitStatus::Unknown);
        if untaken.gone {
            self.forget();
        }
        self.finish(BackendEvent::Lost(untaken.why.clone()));
    }

    /// All output that is at hand, in one piece; what came with it and is something else is told after it.
    fn gather(&mut self) {
        while self.told.is_empty() && self.output.len() < READ_LIMIT {
            let Stage::Live(control) = &mut self.stage else { return };
            match control.at_hand() {
                Some(said @ (Said::Output { .. } | Said::Answer { .. })) => self.said(said),
                Some(other) => return control.put_back(other),
                None => return,
            }
        }
    }

    /// Gives tmux what waits to be typed.
    fn type_on(&mut self) {
        if matches!(self.stage, Stage::Live(_))
            && let Some(commands) = self.input.commands()
        {
            self.ask(What::Input, &commands);
        }
    }
}

/// A connection to a pane that is the same as before.
pub(super) async fn rejoin(tmux: &Tmux, entry: &PaneEntry) -> Result<Joined, Untaken> {
    let pane = &entry.pane;
    let gone = |error: &PaneError| matches!(error, PaneError::NoPane(_) | PaneError::NoServer(_));
    let untaken = |error: PaneError| {
        let why = match &error {
            PaneError::NoServer(_) => format!("pane {pane} is gone: its tmux server is"),
            PaneError::NoPane(_) => format!("pane {pane} is gone: somebody closed it"),
            error => format!("pane {pane} cannot be reached: {error}"),
        };
        Untaken { why, gone: gone(&error) }
    };
    let facts = Facts::of(tmux, pane).await.map_err(untaken)?;
    if let Some(what) = another(&facts, entry) {
        return Err(Untaken { why: format!("pane {pane} is gone: {what}"), gone: true });
    }
    join(tmux, facts).await.map_err(untaken)
}

/// Why a pane is not the one that it was.
fn another(facts: &Facts, entry: &PaneEntry) -> Option<&'static str> {
    if entry.server.is_some() && facts.server != entry.server {
        return Some("there is another tmux server now");
    }
    (entry.pid.is_some() && facts.pid != entry.pid).then_some("another program runs in it")
}

/// Closes a pane, unless its number belongs to another one by now.
async fn kill(tmux: &Tmux, entry: &PaneEntry) {
    // Who cannot be asked has no pane to close.
    if Facts::of(tmux, &entry.pane).await.is_ok_and(|facts| another(&facts, entry).is_none()) {
        let _ = tmux.kill(&entry.pane).await;
    }
}

fn text_of(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_string()
}

/// What tmux prints behind the answers of a group of commands.
fn mark(number: u64) -> String {
    format!("nerve-{number}")
}

impl Backend for TmuxPane {
    async fn next(&mut self) -> BackendEvent {
        loop {
            self.told.extend(self.pump.take_failures().into_iter().map(BackendEvent::Fault));
            if let Some(event) = self.told.pop_front() {
                return event;
            }
            self.output.clear();
            self.type_on();
            let again = self.death.again();
            match &mut self.stage {
                Stage::Connecting(connecting) => match connecting.await {
                    Ok(Ok(taken)) => self.take(taken, true),
                    Ok(Err(untaken)) => self.untaken(&untaken),
                    Err(error) => self.untaken(&Untaken { why: error.to_string(), gone: false }),
                },
                Stage::Live(control) => {
                    let on_disk = self.flusher.as_ref().filter(|flusher| !flusher.has_room());
                    let look = match again {
                        Some(at) => at,
                        None if self.tie.process.is_none() => Instant::now() + LOOK,
                        None => Instant::now() + crate::clock::FAR,
                    };
                    let watched = self.tie.process.as_ref().filter(|_| !self.death.has_begun());
                    tokio::select! {
                        said = control.next(), if on_disk.is_none() => match said {
                            Ok(said) => self.said(said),
                            Err(error) => self.disconnected(&error.to_string()),
                        },
                        () = room(on_disk), if on_disk.is_some() => {}
                        () = ended(watched), if watched.is_some() => {
                            self.death.begin(Instant::now());
                            self.ask_death();
                        }
                        () = tokio::time::sleep_until(look) => {
                            self.death.asked_again();
                            self.ask_death();
                        }
                    }
                    self.gather();
                    if !self.output.is_empty() {
                        self.pump.output(self.clock.now(), &self.output);
                        return BackendEvent::Output;
                    }
                }
                Stage::Closing(closing, last) => {
                    let failed = closing.await.unwrap_or_else(|error| Some(error.to_string()));
                    self.told.extend(failed.map(BackendEvent::Fault));
                    self.told.extend(last.take());
                    self.stage = Stage::Over;
                }
                Stage::Over => std::future::pending().await,
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        let taken = !matches!(self.stage, Stage::Over) && !self.death.is_told() && self.input.push(bytes);
        if taken {
            let hidden = self.hides_input();
            self.pump.input(now, bytes, origin, hidden);
        }
        taken
    }

    fn waiting(&self) -> usize {
        self.input.waiting()
    }

    fn resize(&mut self, _now: TsNs, size: Size) -> io::Result<()> {
        if !matches!(self.stage, Stage::Live(_)) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "there is no connection to tmux"));
        }
        let (cols, rows) = (size.cols.to_string(), size.rows.to_string());
        let to = format!("-t {} -x {cols} -y {rows}", self.entry.pane);
        let alone = "#{==:#{window_panes},1}";
        let (window, pane) = (format!("resize-window {to}"), format!("resize-pane {to}"));
        let size = ["display-message", "-p", "-t", &self.entry.pane, "#{pane_width} #{pane_height}"];
        let resize = ["if-shell", "-F", "-t", &self.entry.pane, alone, &window, &pane];
        let commands = [words_of(&resize), words_of(&size)];
        self.ask(What::Size { asked: true }, &commands);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.entry.pid.filter(|_| self.entry.ours) {
            // The number may be another's by now; a group's number is not given away while it has members.
            let now = start_ticks(pid.cast_unsigned());
            if now.is_none() || now == self.tie.started {
                tty::signal(pid, signal);
            }
        }
    }

    fn foreground(&self, closely: bool, kin: &[String]) -> Foreground {
        self.entry.pid.map_or(Foreground::Unknown, |pid| tty::foreground(pid, closely, kin))
    }

    fn hides_input(&self) -> bool {
        self.tie.tty.as_deref().is_some_and(tty::hides_input)
    }

    fn remember(&mut self, memory: &Memory) {
        self.entry.memory = memory.clone();
        if self.death.is_told() {
            return;
        }
        if let Err(error) = self.panes.store(&self.entry) {
            self.told.push_back(BackendEvent::Fault(format!("the pane's entry cannot be written: {error}")));
        }
    }

    fn drain_time(&self) -> Duration {
        DRAIN
    }

    fn pid(&self) -> Option<i32> {
        self.entry.pid
    }

    fn emit_final_screen(&mut self) {
        let now = self.clock.now();
        self.pump.gap(now);
        self.output = std::mem::take(&mut self.last);
        self.pump.output(now, &self.output);
        self.told.push_front(BackendEvent::Output);
    }

    fn release(&mut self) -> bool {
        true
    }

    fn lease(&mut self, now: TsNs) -> Lease {
        if !matches!(self.stage, Stage::Live(_)) {
            // A new connection tells.
            return Lease::Pending;
        }
        if let Some(lease) = self.typing.known(now) {
            return lease;
        }
        if !self.awaits(What::Typing) {
            let commands = input_lease::questions(&self.entry.pane);
            self.ask(What::Typing, &commands);
        }
        Lease::Pending
    }

    fn end(&mut self, signal: Signal) {
        if self.entry.ours {
            self.signal(signal);
            if signal == Signal::KILL && self.claim.is_some() && !matches!(self.stage, Stage::Over) {
                // Whatever hangs in it, it is closed.
                let (tmux, entry) = (self.tmux.clone(), self.entry.clone());
                tokio::spawn(async move { kill(&tmux, &entry).await });
            }
        } else if !std::mem::replace(&mut self.left, true) && !self.death.is_told() {
            self.death.told(ExitStatus::Unknown);
            self.forget();
            self.told.push_back(BackendEvent::Exited(ExitStatus::Unknown));
            self.closed();
        }
    }
}

impl Drop for TmuxPane {
    fn drop(&mut self) {
        let pump = std::mem::take(&mut self.pump);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Waits for the disk.
            runtime.spawn_blocking(|| drop(pump));
        }
    }
}

/// Writes the end of a recording; what failed.
fn close(mut pump: Pump, panes: &Panes, entry: &PaneEntry, exit: ExitStatus, ended: TsNs) -> Option<String> {
    pump.exit(ended, exit);
    drop(pump);
    panes.finish(entry, exit, ended).err().map(|error| format!("the metadata lacks the end: {error}"))
}

async fn room(on_disk: Option<&Flusher>) {
    match on_disk {
        Some(flusher) => flusher.room().await,
        None => std::future::pending().await,
    }
}

/// Waits for a process to end.
async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        // An error would come again and again: tmux is asked, as if it had ended.
        Some(process) => drop(process.readable().await),
        None => std::future::pending().await,
    }
}
