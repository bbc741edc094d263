//! `nerve view`: a finished recording in the viewer. The end of the session at once; the lines before it as soon as they are read.

mod film;
mod tty;

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use nerve_view::bindings::Bindings;
use nerve_view::document::Document;
use nerve_view::draw::{Facts, Gutter, Layout, draw};
use nerve_view::viewer::{Asked, Viewer};
use ratatui::style::Color;
use tokio::time::{Instant, sleep_until};

use self::film::Film;
use self::tty::{Tty, Typed};
use super::player::{Left, Signals, Told};
use super::{Losses, facts, find, unreadable, unwritten};
use crate::cli::recording::{GutterArg, ViewArgs};
use crate::exit::{Failure, INTERRUPTED, USAGE};

/// Shows a recording until the user leaves.
pub(crate) fn view(args: &ViewArgs) -> Result<u8> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let failure = Failure::new(USAGE, "the viewer needs a terminal to show the recording in");
        return Err(failure.hint("'nerve replay --fast' prints the lines").into());
    }
    let recording = find(&args.of)?;
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let name = recording.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let mut losses = Losses::of(&recording);
    let film = Film::open(&recording, &facts(&recording)).map_err(unreadable)?;
    let show =
        Show { film, viewer: Viewer::new(Bindings::default()), gutter: gutter(args.gutter), coloured, name };
    let (left, film) = runtime.block_on(show.run())?;
    film.lost().iter().for_each(|lost| losses.note(lost));
    losses.tell();
    Ok(left.code())
}

fn gutter(arg: GutterArg) -> Gutter {
    match arg {
        GutterArg::Left => Gutter::Left,
        GutterArg::Right => Gutter::Right,
        GutterArg::None => Gutter::None,
    }
}

/// The recording, and what is shown of it.
struct Show {
    film: Film,
    viewer: Viewer,
    gutter: Gutter,
    coloured: bool,
    name: String,
}

impl Show {
    async fn run(mut self) -> Result<(Left, Film)> {
        let mut signals = Signals::listen()?;
        // Given back when this returns or panics.
        let mut tty = Tty::enter().context("cannot use the terminal")?;
        loop {
            let works = self.draw(&mut tty)?;
            let due = self.film.due();
            tokio::select! {
                biased;
                told = signals.told() => match told {
                    Told::Left(left) => return Ok((left, self.film)),
                    Told::Size | Told::Keys(_) => {}
                },
                typed = tty.typed() => if let Some(left) = self.typed(typed)? {
                    return Ok((left, self.film));
                },
                whole = self.film.is_whole() => whole.map_err(unreadable)?,
                () = async {}, if works => {}
                () = wait(due) => self.film.advance().map_err(unreadable)?,
            }
        }
    }

    /// Draws what there is to be seen; true while a search goes on.
    fn draw(&mut self, tty: &mut Tty) -> Result<bool> {
        let Show { film, viewer, gutter, coloured, name } = self;
        let document = Document::of(film.terminal());
        let facts = Facts { name: name.clone(), time: film.time(), speed: film.speed(), fault: film.fault() };
        let size = film.terminal().size();
        let mut works = false;
        let drawn = tty.screen.draw(|frame| {
            let layout = Layout::framed(frame.area(), size.cols, size.rows, *gutter);
            viewer.resize(layout.lines.width, layout.lines.height);
            viewer.sees(&document);
            works = viewer.work(&document);
            draw(viewer, &document, &facts, &layout, frame.buffer_mut());
            if !*coloured {
                for cell in &mut frame.buffer_mut().content {
                    (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
                }
            }
        });
        drawn.map(|_| works).map_err(unwritten)
    }

    fn typed(&mut self, typed: Typed) -> Result<Option<Left>> {
        let asked = match typed {
            Typed::Key(key) => self.viewer.key(key, &Document::of(self.film.terminal())),
            Typed::Wheel(lines) => {
                self.viewer.wheel(lines);
                None
            }
            Typed::Interrupt => return Ok(Some(Left::Signal(INTERRUPTED - 128))),
            Typed::Gone => return Ok(Some(Left::Quit)),
            Typed::Nothing => None,
        };
        match asked {
            None => {}
            Some(Asked::Quit) => return Ok(Some(Left::Quit)),
            Some(Asked::Play) => self.film.play_or_stop().map_err(unreadable)?,
            Some(Asked::Skip(seconds)) => self.film.skip(seconds).map_err(unreadable)?,
            // Of programs that run, and of what is not there yet.
            Some(
                Asked::Detach
                | Asked::End
                | Asked::Input(_)
                | Asked::ToTool(_)
                | Asked::Tool(_)
                | Asked::Dismiss(_)
                | Asked::Copy(_)
                | Asked::Branch(_)
                | Asked::Seek(_),
            ) => {}
            Some(Asked::Speed { faster }) => self.film.change_speed(faster).map_err(unreadable)?,
        }
        Ok(None)
    }
}

/// Until it is time; for ever if nothing is due.
async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
