//! `nerve view`: a finished recording in the viewer. The end of the session at once; the lines before it as soon as they are read.

mod film;
mod reading;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_record::shelf::is_live;
use nerve_term::keys::{Input, Key};
use nerve_term::terminal::TerminalState;
use nerve_view::document::Document;
use nerve_view::draw::{Facts, Gutter, Layout, draw};
use nerve_view::places::{Places, Scene};
use nerve_view::viewer::{Asked, Kind, Viewer};
use tokio::time::Instant;

use self::film::Film;
use super::player::Left;
use super::{Losses, facts, find, unreadable, unwritten};
use crate::cli::recording::ViewArgs;
use crate::cmd::attach::branching::{Branching, Step};
use crate::cmd::attach::followers::{Followers, News, Taker};
use crate::exit::{Failure, INTERRUPTED, USAGE};
use crate::settings::Settings;
use crate::tty::pacing::{Pacing, until};
use crate::tty::signals::{Signalled, Signals};
use crate::tty::{Cursor, Tty, Typed};

/// Shows a recording until the user leaves.
pub(crate) fn view(args: &ViewArgs) -> Result<u8> {
    show(args, |viewer| viewer)
}

/// The same for what a tool did, from which nothing can go on.
pub(crate) fn view_tool(args: &ViewArgs) -> Result<u8> {
    show(args, Viewer::without_entry)
}

fn show(args: &ViewArgs, made: impl FnOnce(Viewer) -> Viewer) -> Result<u8> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let failure = Failure::new(USAGE, "the viewer needs a terminal to show the recording in");
        return Err(failure.hint("'nerve replay --fast' prints the lines").into());
    }
    let settings = Settings::load()?;
    let recording = find(&args.of)?;
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let name = recording.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let mut losses = Losses::of(&recording);
    let viewer = made(Viewer::new(Kind::After, settings.bindings()));
    let viewer = if is_live(&recording) { viewer.of_running() } else { viewer };
    let film = Film::open(&recording, &facts(&recording)).map_err(unreadable)?;
    let show = Show {
        followers: Followers::ended(&recording),
        branching: Branching::default(),
        recording,
        film,
        viewer,
        gutter: settings.gutter(args.gutter),
        coloured,
        name,
        pacing: Pacing::default(),
        places: Places::default(),
        works: false,
    };
    let (left, show) = runtime.block_on(async {
        let mut show = show;
        // The terminal is given back before anything is told.
        let left = show.run().await?;
        std::mem::take(&mut show.branching).finish().await;
        anyhow::Ok((left, show))
    })?;
    show.film.lost().iter().for_each(|lost| losses.note(lost));
    losses.tell();
    Ok(left.code())
}

/// The recording, and what is shown of it.
struct Show {
    recording: PathBuf,
    film: Film,
    viewer: Viewer,
    gutter: Gutter,
    coloured: bool,
    name: String,
    pacing: Pacing,
    places: Places,
    followers: Followers,
    branching: Branching,
    /// A search goes on.
    works: bool,
}

impl Show {
    async fn run(&mut self) -> Result<Left> {
        let mut signals = Signals::listen()?;
        // Given back when this returns or panics.
        let mut tty = Tty::enter().context("cannot use the terminal")?;
        self.pacing.change();
        loop {
            let now = Instant::now();
            let frame = self.pacing.due(now);
            let is_due = frame.is_some_and(|due| due <= now);
            if is_due && tty.is_free() {
                self.draw(&mut tty)?;
                continue;
            }
            let due = self.film.due();
            tokio::select! {
                biased;
                signalled = signals.next() => match signalled {
                    Signalled::End(number) => return Ok(Left::Signal(number)),
                    Signalled::Size => self.pacing.change(),
                },
                typed = tty.next(is_due) => match typed {
                    Typed::Input(input) => if let Some(left) = self.typed(input, &mut tty)? {
                        return Ok(left);
                    },
                    Typed::Changed => self.pacing.change(),
                    Typed::Free => {}
                    Typed::Gone => return Ok(Left::Quit),
                },
                whole = self.film.is_whole() => {
                    self.viewer.renumber(whole.map_err(unreadable)?);
                    self.pacing.change();
                }
                step = self.branching.next() => self.branched(step),
                news = self.followers.next() => self.followed(news),
                () = until(frame), if !is_due => {}
                () = async {}, if self.works => self.work(),
                () = until(due) => {
                    self.film.advance().map_err(unreadable)?;
                    self.pacing.change();
                }
            }
        }
    }

    /// Draws what there is to be seen.
    fn draw(&mut self, tty: &mut Tty) -> Result<()> {
        let Show { film, viewer, gutter, coloured, name, pacing, places, followers, works, .. } = self;
        followers.keep(viewer.shown_tool());
        let document = Document::of(film.terminal());
        let (time, speed, fault) = (film.time(), film.speed(), film.fault());
        let timeline = film.timeline();
        let facts = Facts {
            name: name.clone(),
            time,
            speed,
            fault,
            recorded: fs::metadata(&self.recording).ok().map(|meta| meta.len()),
            begin: Some(film.begin()),
            abilities: tty.abilities(),
            ..Facts::default()
        };
        let size = film.terminal().size();
        let shown = followers.terminal(film.terminal());
        let tool = shown.map(Document::live);
        tty.draw(*coloured, |buffer| {
            let layout = Layout::of(Kind::After, buffer.area, size, *gutter);
            *places = layout.places(viewer, shown.map(TerminalState::size), facts.abilities);
            viewer.arrange(places);
            viewer.sees(&document);
            *works = viewer.work(&document);
            if let Some(tool) = &tool {
                viewer.sees_tool(tool);
                *works |= viewer.work_tool(tool);
            }
            let (tool, timeline) = (tool.as_ref(), timeline.as_ref());
            let scene = Scene { tool, timeline, ..Scene::of(&document, *places) };
            let drawn = draw(viewer, &scene, &facts, &layout, buffer);
            drawn.cursor.map(|(col, row)| Cursor { col, row, style: 0 })
        })
        .map_err(unwritten)?;
        pacing.drew(Instant::now());
        Ok(())
    }

    fn typed(&mut self, input: Input, tty: &mut Tty) -> Result<Option<Left>> {
        self.pacing.change();
        let interrupts = input == Input::Key(Key::ctrl('c'));
        if input == Input::Key(Key::ctrl('z')) {
            tty.suspend().context("cannot use the terminal")?;
            return Ok(None);
        }
        let asked = {
            let timeline = self.film.timeline();
            let terminal = self.film.terminal();
            let document = Document::of(terminal);
            let tool = self.followers.terminal(terminal).map(Document::live);
            let (tool, timeline) = (tool.as_ref(), timeline.as_ref());
            self.viewer.input(input, &Scene { tool, timeline, ..Scene::of(&document, self.places) })
        };
        match asked {
            None => {}
            Some(Asked::Quit) if interrupts => return Ok(Some(Left::Signal(INTERRUPTED - 128))),
            Some(Asked::Quit) => return Ok(Some(Left::Quit)),
            Some(Asked::Play) => self.film.play_or_stop().map_err(unreadable)?,
            Some(Asked::Skip(seconds)) => self.film.skip(seconds).map_err(unreadable)?,
            Some(Asked::Seek(to)) => self.film.seek(to).map_err(unreadable)?,
            Some(Asked::Speed { faster }) => self.film.change_speed(faster).map_err(unreadable)?,
            Some(Asked::Tool(id)) => self.followers.show(id),
            Some(Asked::ToTool(input)) => match self.followers.send(&input) {
                Taker::Tool => {}
                Taker::Agent => self.viewer.tell("its agent has ended"),
                Taker::Nobody(why) => self.viewer.tell(why),
            },
            Some(Asked::Dismiss(id)) => {
                let left = self.followers.dismiss(id, self.viewer.tools().to_vec());
                self.viewer.set_tools(left);
            }
            Some(Asked::Branch(submission)) => {
                if let Err(why) = self.branching.begin(Some(&self.recording), submission) {
                    self.viewer.refused(&why);
                }
            }
            Some(Asked::Copy(text)) => {
                tty.copy(&text);
                self.viewer.tell("copied");
            }
            Some(Asked::Redraw) => tty.redraw(),
            // Of programs that run.
            Some(Asked::Detach | Asked::End | Asked::Input(_)) => {}
        }
        Ok(None)
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
        let terminal = self.film.terminal();
        self.works = self.viewer.work(&Document::of(terminal));
        if let Some(tool) = self.followers.terminal(terminal) {
            self.works |= self.viewer.work_tool(&Document::live(tool));
        }
        self.pacing.change();
    }
}
