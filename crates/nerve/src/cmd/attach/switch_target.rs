//! From one program to another in the same terminal: to a branch that was made. What there is to be told waits until the terminal is given back.

use anyhow::Result;
use nerve_server::paths::Places;
use nerve_view::layout::Layout;

use super::background::Unfinished;
use super::live::Live;
use super::mirror::TerminalMirror;
use super::size_rule::SizeRule;
use super::target::Place;
use super::viewer_session::Seat;
use super::{Left, Options, Outcome, code, resolve, words};
use crate::cmd::show::follow::Again;
use crate::{out, tty};

/// On the way to another program.
pub(crate) struct Onward {
    seat: Seat,
    to: Place,
    options: Options,
    told: Told,
}

/// What is told in the end.
#[derive(Default)]
struct Told {
    faults: Vec<String>,
    notes: Vec<String>,
    unfinished: Vec<Unfinished>,
}

impl Told {
    async fn tell(self) {
        self.faults.iter().for_each(out::warning);
        self.notes.iter().for_each(out::note);
        for unfinished in self.unfinished {
            unfinished.finish().await;
        }
    }
}

/// Shows a program until somebody leaves it or it ends. The terminal is given back, unless it goes on to another one.
pub(super) async fn shown(source: TerminalMirror, options: Options, seat: Seat) -> Result<Outcome> {
    shown_again(source, options, None, seat).await
}

/// The same; when it has ended, what runs `again` is shown in its place.
pub(crate) async fn shown_again(
    source: TerminalMirror,
    options: Options,
    again: Option<Again>,
    mut seat: Seat,
) -> Result<Outcome> {
    let mut live = Live::new(source, options).with(again);
    let left = live.run(&mut seat).await?;
    let (last, faults) = (live.last_lines(), std::mem::take(&mut live.faults));
    let interrupted = live.interrupted;
    let to = live.onward.take();
    let (mut source, beside, options) = live.into_parts();
    let unfinished = beside.into_unfinished();
    let Some(to) = to else {
        drop(seat);
        source.flush().await;
        unfinished.finish().await;
        return Ok(Outcome { left, faults, last, interrupted, onward: None });
    };
    source.flush().await;
    let mut onward = Onward::new(seat, to, options);
    onward.told.faults = faults;
    onward.told.unfinished.push(unfinished);
    Ok(Outcome { left, faults: Vec::new(), last, interrupted, onward: Some(Box::new(onward)) })
}

impl Onward {
    fn new(seat: Seat, to: Place, options: Options) -> Onward {
        Onward { seat, to, options, told: Told::default() }
    }

    /// From a recording, which is no program that could be left.
    pub(crate) fn from_recording(seat: Seat, to: Place, options: Options, unfinished: Unfinished) -> Onward {
        let mut onward = Onward::new(seat, to, options);
        onward.told.unfinished.push(unfinished);
        onward
    }

    /// With what is to be told of the program before, which `command` shows.
    #[must_use]
    pub(crate) fn having_left(mut self, left: Left, command: &str) -> Onward {
        self.told.notes.extend(words(left, command));
        self
    }

    /// Shows it, and where somebody goes from there; gives back the exit code of `nerve attach`.
    ///
    /// # Errors
    /// It is not there any more, or the terminal is gone.
    pub(crate) async fn go(self) -> Result<u8> {
        let Onward { mut seat, mut to, mut options, mut told } = self;
        loop {
            // Name and progress are the program's before.
            seat.tty.title("");
            seat.tty.progress(0, 0);
            options = Options { name: to.target.clone(), read_only: false, told: None, ..options };
            let source = opened(&to, &options).await;
            let shown = match source {
                Ok(source) => shown(source, options.clone(), seat).await,
                Err(error) => {
                    drop(seat);
                    Err(error)
                }
            };
            let outcome = match shown {
                Ok(outcome) => outcome,
                Err(error) => {
                    told.tell().await;
                    return Err(error);
                }
            };
            let onward = outcome.onward.map(|onward| *onward);
            told.faults.extend(outcome.faults);
            told.notes.extend(words(outcome.left, &to.command()));
            let Some(onward) = onward else {
                told.tell().await;
                return Ok(code(outcome.left));
            };
            told.faults.extend(onward.told.faults);
            told.unfinished.extend(onward.told.unfinished);
            (seat, to, options) = (onward.seat, onward.to, onward.options);
        }
    }
}

async fn opened(place: &Place, options: &Options) -> Result<TerminalMirror> {
    let entry = resolve::host(place).await?;
    let window = tty::window().unwrap_or_default();
    let room = Layout::program_size(window.cols, window.rows, options.gutter);
    let places = Places::from_env();
    TerminalMirror::open(entry, &places.hosts(), Some(&places.profiles()), SizeRule::default(), Some(room))
}
