//! The viewer in front of a program that runs: its output and this window's keys, in one line.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_core::host::EXECUTION;
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::keys::Input;
use nerve_term::terminal::{LineIndex, TerminalState};
use nerve_view::document::Document;
use nerve_view::draw::{Facts, draw};
use nerve_view::layout::Layout;
use nerve_view::places::{Places, Scene};
use nerve_view::viewer::{Asked, Kind, Mode, Viewer};
use tokio::time::Instant;

use super::branching::{Branching, Step};
use super::followers::{Followers, News, Taker};
use super::source::{Seen, Source};
use super::{Left, Options, Outcome};
use crate::exit::FAILED;
use crate::tty::pacing::{self, Pacing};
use crate::tty::signals::{Signalled, Signals};
use crate::tty::{Cursor, Tty, Typed};

/// Faults that are told in the end.
const FAULTS: usize = 20;
/// When what was written last is in its file for sure; it is on its way for a part of that.
const ON_DISK: Duration = Duration::from_millis(500);

/// The program, and what is shown of it.
pub(super) struct Live {
    source: Source,
    viewer: Viewer,
    options: Options,
    pacing: Pacing,
    places: Places,
    followers: Followers,
    branching: Branching,
    /// A search goes on.
    works: bool,
    /// The size that the program can have in the window, as it was told last.
    room: Option<Size>,
    /// When the recording's size is to be shown again.
    size_due: Option<Instant>,
    /// How the program has ended, while somebody still looks.
    ended: Option<ExitStatus>,
    faults: Vec<String>,
}

/// What has happened elsewhere.
enum Turn {
    Seen(Result<Seen>),
    Step(Step),
    News(News),
}

/// Who has much to say lets the others speak: whose turn it is among those who could is a matter of chance.
async fn turn(source: &mut Source, branching: &mut Branching, followers: &mut Followers) -> Turn {
    tokio::select! {
        seen = source.next() => Turn::Seen(seen),
        step = branching.next() => Turn::Step(step),
        news = followers.next() => Turn::News(news),
    }
}

impl Live {
    pub(super) fn new(source: Source, options: Options) -> Live {
        let viewer = Viewer::new(Kind::Live, options.bindings.clone());
        // Nothing goes on from a tool's terminal.
        let is_tool = source.entry().label.get(EXECUTION).is_some();
        Live {
            followers: Followers::live(source.entry().recording.as_deref()),
            branching: Branching::default(),
            source,
            viewer: if is_tool { viewer.without_entry() } else { viewer },
            options,
            pacing: Pacing::default(),
            places: Places::default(),
            works: false,
            room: None,
            size_due: None,
            ended: None,
            faults: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) -> Result<Outcome> {
        let mut signals = Signals::listen()?;
        // Given back when this returns or panics.
        let mut tty = Tty::enter().context("cannot use the terminal")?;
        self.pacing.change();
        let left = loop {
            if let Some(exit) = self.over() {
                break Left::Ended(exit);
            }
            let now = Instant::now();
            let frame = self.pacing.due(now);
            let is_due = frame.is_some_and(|due| due <= now);
            if is_due && tty.is_free() {
                self.draw(&mut tty)?;
                continue;
            }
            let left = tokio::select! {
                biased;
                signalled = signals.next() => match signalled {
                    Signalled::End(number) => Some(Left::Gone(128 + number)),
                    Signalled::Size => {
                        self.pacing.change();
                        None
                    }
                },
                typed = tty.next(is_due) => match typed {
                    Typed::Input(input) => self.typed(input, &mut tty)?,
                    Typed::Gone => Some(Left::Gone(FAILED)),
                    Typed::Changed => {
                        self.pacing.change();
                        None
                    }
                    Typed::Free => None,
                },
                () = pacing::until(self.size_due) => {
                    self.size_due = None;
                    self.pacing.change();
                    None
                }
                turn = turn(&mut self.source, &mut self.branching, &mut self.followers) => {
                    match turn {
                        Turn::Seen(seen) => self.seen(seen?, &mut tty),
                        Turn::Step(step) => self.branched(step),
                        Turn::News(news) => self.followed(news),
                    }
                    None
                }
                () = pacing::until(frame), if !is_due => None,
                () = async {}, if self.works => {
                    self.work();
                    None
                }
            };
            if let Some(left) = left {
                break left;
            }
        };
        drop(tty);
        self.source.flush().await;
        self.branching.finish().await;
        let last = last_lines(self.source.terminal(), self.options.coloured);
        Ok(Outcome { left, faults: self.faults, last })
    }

    /// Draws what there is to be seen, and tells the host what room there is for it.
    fn draw(&mut self, tty: &mut Tty) -> Result<()> {
        let facts = self.facts(tty);
        let Live { source, viewer, options, pacing, places, followers, works, room, .. } = self;
        followers.keep(viewer.shown_tool());
        let terminal = source.terminal();
        let document = Document::live(terminal);
        let shown = followers.terminal(terminal);
        let tool = shown.map(Document::live);
        let mut window = Size::default();
        tty.draw(options.coloured, |buffer| {
            window = Size::new(buffer.area.width, buffer.area.height);
            let layout = Layout::of(Kind::Live, buffer.area, terminal.size(), options.gutter);
            *places = layout.places(viewer, shown.map(TerminalState::size), facts.abilities);
            viewer.arrange(places);
            viewer.sees(&document);
            *works = viewer.work(&document);
            if let Some(tool) = &tool {
                viewer.sees_tool(tool);
                *works |= viewer.work_tool(tool);
            }
            let scene = Scene { tool: tool.as_ref(), ..Scene::of(&document, *places) };
            let drawn = draw(viewer, &scene, &facts, &layout, buffer);
            let style = match viewer.mode() {
                Mode::Live => terminal.cursor_style(),
                Mode::Tool => shown.map_or(0, TerminalState::cursor_style),
                _ => 0,
            };
            drawn.cursor.map(|(col, row)| Cursor { col, row, style })
        })
        .context("cannot draw")?;
        pacing.drew(Instant::now());
        let has_room = Layout::room(window.cols, window.rows, options.gutter);
        if room.replace(has_room) != Some(has_room) {
            source.view(has_room);
        }
        Ok(())
    }

    fn facts(&self, tty: &Tty) -> Facts {
        let (word, evidence) = self.source.state();
        let recording = self.source.entry().recording.as_ref();
        let recorded = recording.and_then(|path| fs::metadata(path).ok()).map(|meta| meta.len());
        let ended = self.ended.map(|_| "the program has ended".to_string());
        let catching_up = self.source.is_catching_up().then(|| "reading what was before …".to_string());
        Facts {
            name: self.options.name.clone(),
            fault: self.faults.last().cloned().or(ended).or(catching_up),
            state: Some((word.to_string(), evidence)),
            recorded,
            begin: Some(TsNs(self.source.entry().started)),
            abilities: tty.abilities(),
            ..Facts::default()
        }
    }

    /// The program has ended, and nobody wants to look on: a task that is being written is not taken away.
    fn over(&self) -> Option<ExitStatus> {
        self.ended.filter(|_| match self.viewer.mode() {
            Mode::Live => true,
            Mode::Entry => false,
            _ => !self.options.stay,
        })
    }

    fn seen(&mut self, seen: Seen, tty: &mut Tty) {
        self.pacing.change();
        match seen {
            Seen::Changed => self.size_due = Some(Instant::now() + ON_DISK),
            Seen::Title => tty.title(self.source.terminal().title()),
            Seen::Fault(fault) => {
                if self.faults.len() == FAULTS {
                    self.faults.remove(0);
                }
                self.faults.push(fault);
            }
            Seen::Ended(exit) => {
                self.ended = Some(exit);
                if self.options.stay {
                    self.viewer.look_on();
                }
                self.viewer.tell("the program has ended");
            }
        }
    }

    fn typed(&mut self, input: Input, tty: &mut Tty) -> Result<Option<Left>> {
        let before = self.viewer.told();
        let terminal = self.source.terminal();
        let document = Document::live(terminal);
        let tool = self.followers.terminal(terminal).map(Document::live);
        let scene = Scene { tool: tool.as_ref(), ..Scene::of(&document, self.places) };
        let asked = self.viewer.input(input, &scene);
        // What is passed on changes nothing here but what was told: its echo is to be drawn at once.
        if !matches!(asked, Some(Asked::Input(_))) || self.viewer.told() != before {
            self.pacing.change();
        }
        match asked {
            None => {}
            Some(Asked::Input(input)) => self.pass_on(&input),
            Some(Asked::Detach) => return Ok(Some(Left::Detached)),
            Some(Asked::Quit) => return Ok(Some(self.ended.map_or(Left::Detached, Left::Ended))),
            Some(Asked::End) if self.options.read_only => self.viewer.tell("attached for reading only"),
            Some(Asked::End) => self.source.stop(),
            Some(Asked::Copy(text)) => {
                tty.copy(&text);
                self.viewer.tell("copied");
            }
            Some(Asked::Redraw) => tty.redraw(),
            Some(Asked::Tool(id)) => self.followers.show(id),
            Some(Asked::ToTool(input)) => self.pass_on_to_tool(&input),
            Some(Asked::Dismiss(id)) => {
                let left = self.followers.dismiss(id, self.viewer.tools().to_vec());
                self.viewer.set_tools(left);
            }
            Some(Asked::Branch(_)) if self.options.read_only => {
                self.viewer.refused("attached for reading only: 'nerve branch' makes one");
            }
            Some(Asked::Branch(submission)) => {
                let recording = self.source.entry().recording.as_deref();
                if let Err(why) = self.branching.begin(recording, submission) {
                    self.viewer.refused(&why);
                }
            }
            // A program that runs has no other time.
            Some(Asked::Seek(_) | Asked::Play | Asked::Skip(_) | Asked::Speed { .. }) => {}
        }
        Ok(None)
    }

    /// Gives the program what somebody did, as it wants that.
    fn pass_on(&mut self, input: &Input) {
        if input.bytes(self.source.terminal().modes()).is_empty() {
            return;
        }
        if self.options.read_only {
            if matches!(input, Input::Key(_) | Input::Paste(_)) {
                self.tell("attached for reading only: ctrl+] d leaves");
            }
        } else if !self.source.send(input) {
            self.tell("the program takes nothing at the moment");
        }
    }

    fn pass_on_to_tool(&mut self, input: &Input) {
        if self.options.read_only {
            return self.tell("attached for reading only");
        }
        match self.followers.send(input) {
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

    fn branched(&mut self, step: Step) {
        self.pacing.change();
        match step {
            Step::Doing(words) => self.viewer.tell(&format!("branching: {words} …")),
            Step::Made { message, .. } => {
                self.viewer.submitted();
                self.viewer.tell(&message);
            }
            Step::Refused(why) => self.viewer.refused(&why),
        }
    }

    fn followed(&mut self, news: News) {
        self.pacing.change();
        match news {
            News::List(tools) => self.viewer.set_tools(tools),
            News::Changed => {}
            News::Fault(fault) => self.viewer.tell(&fault),
        }
    }

    /// Goes on with a search, a piece of it.
    fn work(&mut self) {
        let terminal = self.source.terminal();
        self.works = self.viewer.work(&Document::live(terminal));
        if let Some(tool) = self.followers.terminal(terminal) {
            self.works |= self.viewer.work_tool(&Document::live(tool));
        }
        self.pacing.change();
    }

    fn tell(&mut self, message: &str) {
        self.viewer.tell(message);
        self.pacing.change();
    }
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
