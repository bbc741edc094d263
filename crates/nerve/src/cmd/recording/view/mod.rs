//! `nerve view`: a finished recording in the viewer. The end of the session at once; the lines before it as soon as they are read.

mod film;
mod reading;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_record::shelf::is_live;
use nerve_server::paths::Places;
use nerve_term::keys::{Input, Key};
use nerve_view::draw::{Facts, Gutter};
use nerve_view::timeline::Timeline;
use nerve_view::viewer::{Asked, Kind, Viewer};

use self::film::Film;
use super::player::EndReason;
use super::{Losses, check, facts, find, format, unreadable};
use crate::cli::recording::ViewArgs;
use crate::cmd::attach::Options;
use crate::cmd::attach::beside::Beside;
use crate::cmd::attach::followers::Taker;
use crate::cmd::attach::onward::Onward;
use crate::cmd::attach::place::Place;
use crate::cmd::attach::showing::{Heard, Recorded, Seat, Showing, heard};
use crate::cmd::show::again::{self, Again, Run};
use crate::cmd::{self, full_screen};
use crate::exit::INTERRUPTED;
use crate::settings::Settings;
use crate::tty::Tty;
use crate::tty::pacing::until;

/// Shows a recording until the user leaves.
pub(crate) fn view(args: &ViewArgs) -> Result<u8> {
    show(args, None, None)
}

/// The same for what a tool did, by its command: from there nothing can go on. What runs under the id `again` is shown in its place.
pub(crate) fn view_tool(args: &ViewArgs, command: &str, again: Option<&str>) -> Result<u8> {
    show(args, Some(command), again)
}

fn show(args: &ViewArgs, tool: Option<&str>, again: Option<&str>) -> Result<u8> {
    let recording = find(&args.source)?;
    check(&recording)?;
    full_screen::needed("the viewer", "'nerve replay --fast' prints the lines of a recording")?;
    let settings = Settings::of_viewer();
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let name = tool.map_or_else(|| format::display_name(&recording), str::to_string);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let mut losses = Losses::of(&recording);
    let viewer = Viewer::new(Kind::After, settings.bindings());
    let viewer = if tool.is_some() { viewer.without_entry() } else { viewer };
    let viewer = if is_live(&recording) { viewer.of_running() } else { viewer };
    let film = Film::open(&recording, &facts(&recording)).map_err(unreadable)?;
    let gutter: Gutter = settings.gutter(args.gutter);
    let options = Options {
        name: name.clone(),
        gutter,
        bindings: settings.bindings(),
        read_only: false,
        coloured,
        clipboard: settings.clipboard,
        stay: false,
        told: None,
    };
    let (code, film) = runtime.block_on(async {
        let beside = Beside::of(Some(&recording));
        let showing = Showing::new(viewer, beside, gutter, coloured);
        let again = again.map(|id| Again::of(id, &Places::from_env())).transpose()?;
        let mut show = Show { recording, film, name, showing, onward: None, again, run: None };
        let mut seat = Seat::take()?;
        tool.iter().for_each(|command| seat.tty.title(command));
        let left = show.run(&mut seat).await?;
        let Show { film, showing, onward, again, run, .. } = show;
        let unfinished = showing.beside.into_unfinished();
        if let Some(to) = onward {
            let code = Onward::from_recording(seat, to, options, unfinished).go().await?;
            return Ok((code, film));
        }
        if let Some(run) = run {
            return Ok((cmd::show::shown(run, again, true, seat).await?, film));
        }
        // The terminal is given back before anything is told.
        drop(seat);
        unfinished.finish().await;
        anyhow::Ok((left.code(), film))
    })?;
    film.lost().iter().for_each(|lost| losses.note(lost));
    losses.report();
    Ok(code)
}

/// The recording, and what is shown of it.
struct Show {
    recording: PathBuf,
    film: Film,
    name: String,
    showing: Showing,
    /// Where to go from here.
    onward: Option<Place>,
    /// What is shown as soon as it runs.
    again: Option<Again>,
    run: Option<Run>,
}

impl Show {
    async fn run(&mut self, seat: &mut Seat) -> Result<EndReason> {
        loop {
            let (due, works) = (self.film.due(), self.showing.works);
            let Showing { beside, pacing, .. } = &mut self.showing;
            tokio::select! {
                biased;
                heard = heard(pacing, seat) => match heard {
                    Heard::Due => self.draw(&mut seat.tty)?,
                    Heard::End(number) => return Ok(EndReason::Signal(number)),
                    Heard::Gone => return Ok(EndReason::Quit),
                    Heard::Input(input) => if let Some(left) = self.typed(input, &mut seat.tty)? {
                        return Ok(left);
                    },
                },
                whole = self.film.is_whole() => {
                    self.showing.viewer.renumber(whole.map_err(unreadable)?);
                    self.showing.changed();
                }
                turn = beside.turn() => {
                    self.showing.turned(turn);
                    // A tool that floods keeps nothing else from its turn.
                    tokio::task::yield_now().await;
                }
                run = again::next(&mut self.again) => match run {
                    Ok(run) => {
                        self.run = Some(run);
                        return Ok(EndReason::Quit);
                    }
                    Err(error) => {
                        self.again = None;
                        self.showing.tell(&format!("{error:#}"));
                    }
                },
                () = async {}, if works => self.showing.work(self.film.terminal()),
                () = until(due) => {
                    self.film.advance().map_err(unreadable)?;
                    self.showing.changed();
                }
            }
        }
    }

    /// Draws what there is to be seen.
    fn draw(&mut self, tty: &mut Tty) -> Result<()> {
        let film = &self.film;
        let facts = Facts {
            name: self.name.clone(),
            time: film.time(),
            speed: film.speed(),
            fault: film.fault(),
            recorded: fs::metadata(&self.recording).ok().map(|meta| meta.len()),
            begin: Some(film.begin()),
            abilities: tty.abilities(),
            ..Facts::default()
        };
        let timeline = film.timeline();
        let recorded = timeline.as_ref().map(|timeline| recorded(film, timeline));
        self.showing.draw(tty, film.terminal(), recorded, &facts);
        if let Some(Asked::Visit(snapshot)) = self.showing.viewer.asks() {
            self.visit(snapshot)?;
            self.showing.changed();
        }
        Ok(())
    }

    /// To the moment of a snapshot, or to the end.
    fn visit(&mut self, snapshot: Option<u64>) -> Result<()> {
        match snapshot {
            Some(id) => self.film.visit(id).map_err(unreadable)?,
            None => self.film.go_to_end(),
        }
        Ok(())
    }

    fn typed(&mut self, input: Input, tty: &mut Tty) -> Result<Option<EndReason>> {
        let interrupts = input == Input::Key(Key::ctrl('c'));
        if input == Input::Key(Key::ctrl('z')) {
            self.showing.changed();
            tty.suspend().context("cannot use the terminal")?;
            return Ok(None);
        }
        let timeline = self.film.timeline();
        let recorded = timeline.as_ref().map(|timeline| recorded(&self.film, timeline));
        let Some(asked) = self.showing.input(input, self.film.terminal(), recorded) else {
            return Ok(None);
        };
        match asked {
            Asked::Quit if interrupts => return Ok(Some(EndReason::Signal(INTERRUPTED - 128))),
            Asked::Quit => return Ok(Some(EndReason::Quit)),
            Asked::Visit(snapshot) => self.visit(snapshot)?,
            Asked::Play => self.film.play_or_stop().map_err(unreadable)?,
            Asked::Skip(seconds) => self.film.skip(seconds).map_err(unreadable)?,
            Asked::Seek(to) => self.film.seek(to).map_err(unreadable)?,
            Asked::Speed { faster } => self.film.change_speed(faster).map_err(unreadable)?,
            Asked::ToTool(input) => match self.showing.beside.send(&input) {
                Taker::Tool => {}
                Taker::Agent => self.showing.tell("its agent has ended"),
                Taker::Nobody(why) => self.showing.tell(why),
            },
            Asked::GoToBranch => match self.showing.beside.latest() {
                Ok(place) => {
                    self.onward = Some(place);
                    return Ok(Some(EndReason::Quit));
                }
                Err(why) => self.showing.tell(why),
            },
            // What is left is of programs that run.
            other => drop(self.showing.done(other, tty)),
        }
        Ok(None)
    }
}

fn recorded<'a>(film: &'a Film, timeline: &'a Timeline) -> Recorded<'a> {
    Recorded { timeline, end: film.end(), is_whole: film.is_read() }
}
