//! The viewer in front of a program that runs: its output and this window's keys, in one line.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use nerve_core::host::EXECUTION;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::keys::{Input, Key};
use nerve_term::terminal::{LineIndex, TerminalState};
use nerve_view::draw::StatusInfo;
use nerve_view::layout::Layout;
use nerve_view::viewer::{Effect, Mode, Source, Viewer};
use tokio::time::Instant;

use super::background::{self, Beside};
use super::branch_job::NOTHING_KEPT;
use super::mirror::{Seen, TerminalMirror};
use super::osc_passthrough::{CLIPBOARD, Said};
use super::target::Place;
use super::tool_list::why_empty;
use super::tool_streams::Taker;
use super::viewer_session::{Heard, Seat, Showing, heard};
use super::{Left, Options};
use crate::cmd::show::follow::{self, Again, Run};
use crate::exit::FAILED;
use crate::tty::{Tty, pacing};

/// Faults that are told in the end.
const FAULTS: usize = 20;
/// When what was written last is in its file for sure; it is on its way for a part of that.
const ON_DISK: Duration = Duration::from_millis(500);

/// The program, and what is shown of it.
pub(super) struct Live {
    pub(super) source: TerminalMirror,
    showing: Showing,
    options: Options,
    /// The size that the program can have in the window, as it was told last.
    room: Option<Size>,
    /// When the recording's size is to be shown again.
    size_due: Option<Instant>,
    /// The program has rung: that is passed on with the next frame.
    rings: bool,
    /// Somebody has interrupted the program.
    pub(super) interrupted: bool,
    /// How the program has ended, while somebody still looks.
    ended: Option<ExitStatus>,
    pub(super) faults: Vec<String>,
    /// Where to go from here.
    pub(super) onward: Option<Place>,
    /// What is shown when it has ended and runs once more.
    again: Option<Again>,
}

/// What has happened elsewhere.
enum Turn {
    Seen(Result<Seen>),
    Beside(background::Turn),
}

/// Who has much to say lets the others speak: whose turn it is among those who could is a matter of chance.
async fn turn(source: &mut TerminalMirror, beside: &mut Beside) -> Turn {
    tokio::select! {
        seen = source.next() => Turn::Seen(seen),
        turn = beside.turn() => Turn::Beside(turn),
    }
}

impl Live {
    pub(super) fn new(source: TerminalMirror, options: Options) -> Live {
        let mut viewer = Viewer::new(Source::Live, options.bindings.clone());
        if let Some(told) = options.told {
            viewer.show_message(told);
        }
        // Nothing goes on from a tool's terminal.
        let is_tool = is_tool(&source);
        let viewer = match source.entry().session_file() {
            _ if is_tool => viewer.without_entry(),
            Some(_) => viewer,
            None => viewer.without_branches(NOTHING_KEPT),
        };
        let mut viewer = if options.read_only { viewer.read_only() } else { viewer };
        let beside = Beside::of_host(source.entry());
        viewer.explain_no_tools(why_empty(source.entry(), source.tells_tools()));
        Live {
            showing: Showing::new(viewer, beside, options.gutter, options.coloured),
            source,
            options,
            room: None,
            size_due: None,
            rings: false,
            interrupted: false,
            ended: None,
            faults: Vec::new(),
            onward: None,
            again: None,
        }
    }

    /// When it has ended, the next run is shown.
    pub(super) fn with(self, again: Option<Again>) -> Live {
        Live { again, ..self }
    }

    /// Until somebody leaves, or the program has ended.
    pub(super) async fn run(&mut self, seat: &mut Seat) -> Result<Left> {
        if is_tool(&self.source) {
            // Until it names its window itself.
            seat.tty.title(&self.options.name);
        }
        loop {
            if let Some(exit) = self.over() {
                // Its last frame is not drawn any more.
                self.pass_said(&mut seat.tty);
                return Ok(Left::Ended(exit));
            }
            let works = self.showing.works;
            let Showing { beside, pacing, .. } = &mut self.showing;
            tokio::select! {
                biased;
                heard = heard(pacing, seat) => match heard {
                    Heard::Due => self.draw(&mut seat.tty),
                    Heard::End(number) => return Ok(Left::Gone(128 + number)),
                    Heard::Gone => return Ok(Left::Gone(FAILED)),
                    Heard::Input(input) => if let Some(left) = self.typed(input, &mut seat.tty) {
                        return Ok(left);
                    },
                },
                () = pacing::until(self.size_due) => {
                    self.size_due = None;
                    self.showing.changed();
                }
                turn = turn(&mut self.source, beside) => {
                    match turn {
                        Turn::Seen(seen) => self.seen(seen?, &mut seat.tty),
                        Turn::Beside(turn) => self.showing.turned(turn),
                    }
                    // Who is flooded never waits: what is opened, made or taken beside this has its turn too.
                    tokio::task::yield_now().await;
                }
                run = follow::next(&mut self.again), if self.ended.is_some() => self.runs_again(run, &mut seat.tty),
                () = async {}, if works => self.showing.work(self.source.terminal()),
            }
        }
    }

    /// The next run in place of the one that has ended.
    fn runs_again(&mut self, run: Result<Run>, tty: &mut Tty) {
        let Run { source, name, told } = match run {
            Ok(run) => run,
            Err(error) => {
                self.again = None;
                return self.tell(&format!("{error:#}"));
            }
        };
        let options = Options { name, told, ..self.options.clone() };
        let (again, faults) = (self.again.take(), std::mem::take(&mut self.faults));
        tty.title(&options.name);
        // That was the run before.
        tty.progress(0, 0);
        *self = Live { again, faults, ..Live::new(source, options) };
    }

    /// Draws what there is to be seen, and tells the host what room there is for it.
    fn draw(&mut self, tty: &mut Tty) {
        let facts = self.facts(tty);
        let window = self.showing.draw(tty, self.source.terminal(), None, &facts);
        self.pass_said(tty);
        let room = Layout::program_size(window.cols, window.rows, self.options.gutter);
        if self.room.replace(room) != Some(room) {
            self.source.view(room);
        }
    }

    /// Tells the terminal what the program says to it.
    fn pass_said(&mut self, tty: &mut Tty) {
        if std::mem::take(&mut self.rings) {
            tty.ring();
        }
        let Said { clipboard, too_long, notifications, progress } = self.source.take_said();
        notifications.iter().for_each(|notification| tty.notify(notification));
        progress.into_iter().for_each(|(state, value)| tty.progress(state, value));
        // Who only looks does not have the clipboard of somebody who types.
        if !self.options.clipboard || self.options.read_only {
            return;
        }
        clipboard.iter().for_each(|text| tty.clipboard(text));
        if let Some(bytes) = too_long {
            let (bytes, most) = (bytes / 1000, CLIPBOARD / 4 * 3 / 1000);
            self.tell(&format!(
                "the program has copied {bytes} kB, which is not passed on: more than {most} kB"
            ));
        }
    }

    fn facts(&self, tty: &Tty) -> StatusInfo {
        let (word, evidence) = self.source.state();
        let recording = self.source.entry().recording.as_ref();
        let recorded = recording.and_then(|path| fs::metadata(path).ok()).map(|meta| meta.len());
        let ended = self.ended.map(|_| "the program has ended".to_string());
        let catching_up = self.source.is_catching_up().then(|| "reading what was before …".to_string());
        StatusInfo {
            name: self.options.name.clone(),
            fault: self.faults.last().cloned().or(ended).or(catching_up),
            state: Some((word.to_string(), evidence)),
            recorded,
            unrecorded: recording.is_none() && !is_tool(&self.source),
            begin: Some(TsNs(self.source.entry().started)),
            capabilities: tty.capabilities(),
            ..StatusInfo::default()
        }
    }

    /// The program has ended, and nobody wants to look on: a task that is being written is not taken away.
    fn over(&self) -> Option<ExitStatus> {
        self.ended.filter(|_| match self.showing.viewer.mode() {
            Mode::Live => true,
            Mode::Entry => false,
            _ => !self.options.stay,
        })
    }

    fn seen(&mut self, seen: Seen, tty: &mut Tty) {
        self.showing.changed();
        match seen {
            Seen::Changed => self.size_due = Some(Instant::now() + ON_DISK),
            Seen::Title => tty.title(self.source.terminal().title()),
            Seen::Bell => self.rings = true,
            Seen::Fault(fault) => {
                if self.faults.len() == FAULTS {
                    self.faults.remove(0);
                }
                self.faults.push(fault);
            }
            Seen::Ended(exit) => {
                self.ended = Some(exit);
                if self.options.stay {
                    self.showing.viewer.program_ended();
                }
                self.showing.viewer.show_message("the program has ended");
            }
        }
    }

    fn typed(&mut self, input: Input, tty: &mut Tty) -> Option<Left> {
        let asked = self.showing.input(input, self.source.terminal(), None);
        let may_be_lost = self.ended.is_none() && self.source.entry().recording.is_none();
        if may_be_lost && *self.showing.viewer.mode() == Mode::Entry {
            self.showing.beside.keep_origin();
        }
        match asked? {
            Effect::Input(input) => self.pass_on(&input),
            Effect::ToolInput(input) => self.pass_on_to_tool(&input),
            Effect::Detach => return Some(Left::Detached),
            Effect::Quit => return Some(self.left()),
            Effect::EndProgram if self.options.read_only => self.tell("attached for reading only"),
            Effect::EndProgram => self.source.stop(),
            Effect::Branch(_) if self.options.read_only => {
                self.showing.viewer.branch_failed("attached for reading only: 'nerve branch' makes one");
            }
            Effect::TakeSnapshot => self.snapshot(),
            Effect::SwitchToBranch => match self.showing.beside.latest() {
                Ok(place) => {
                    self.onward = Some(place);
                    return Some(self.left());
                }
                Err(why) => self.tell(why),
            },
            // A program that runs has no other time.
            other => drop(self.showing.done(other, tty)),
        }
        None
    }

    fn snapshot(&mut self) {
        match self.ended {
            Some(_) => self.tell("the program has ended: it takes no snapshots any more"),
            None => self.showing.beside.snapshot(self.source.entry(), &mut self.showing.viewer),
        }
    }

    fn left(&self) -> Left {
        self.ended.map_or(Left::Detached, Left::Ended)
    }

    /// Gives the program what somebody did, as it wants that.
    fn pass_on(&mut self, input: &Input) {
        if input.bytes(self.source.terminal().modes()).is_empty() {
            return;
        }
        if self.options.read_only {
            if matches!(input, Input::Key(_) | Input::Paste(_)) {
                let told = self.showing.viewer.read_only_message();
                self.tell(&told);
            }
        } else if !self.source.send(input) {
            self.tell("the program takes nothing at the moment");
        } else if *input == Input::Key(Key::ctrl('c')) {
            self.interrupted = true;
        }
    }

    fn pass_on_to_tool(&mut self, input: &Input) {
        if self.options.read_only {
            return self.tell("attached for reading only");
        }
        match self.showing.beside.send(input) {
            Taker::Tool => {}
            Taker::Agent => {
                // It goes the way of what other programs tell the agent, and is recorded so.
                if !self.source.send_as(input, Origin::Injected) {
                    self.tell("the program takes nothing at the moment");
                }
            }
            Taker::Nobody(why) => self.tell(why),
        }
    }

    fn tell(&mut self, message: &str) {
        self.showing.tell(message);
    }

    /// The last lines the program has written, as a window shows them.
    pub(super) fn last_lines(&self) -> Vec<String> {
        last_lines(self.source.terminal(), self.options.coloured)
    }

    pub(super) fn into_parts(self) -> (TerminalMirror, Beside, Options) {
        (self.source, self.showing.beside, self.options)
    }
}

/// It is what an agent's tool runs in.
fn is_tool(source: &TerminalMirror) -> bool {
    source.entry().label.get(EXECUTION).is_some()
}

/// The lines of a terminal's main screen, without the empty ones at its end.
fn last_lines(terminal: &TerminalState, coloured: bool) -> Vec<String> {
    let end = terminal.line_count();
    let from = terminal.first_kept_line().0.max(end.saturating_sub(terminal.size().rows.into()));
    let is_blank =
        |line: &u64| terminal.line_text(LineIndex(*line)).is_none_or(|text| text.trim().is_empty());
    let filled = (from..end).rev().find(|line| !is_blank(line)).map_or(from, |last| last + 1);
    let line = |line| match coloured {
        true => terminal.line_content(LineIndex(line)),
        false => terminal.line_text(LineIndex(line)),
    };
    (from..filled).map(|number| line(number).unwrap_or_default()).collect()
}
