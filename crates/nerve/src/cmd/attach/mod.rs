//! A terminal that runs, in the viewer.

pub(crate) mod branching;
pub(crate) mod followers;
mod live;
mod look;
pub(crate) mod source;

use std::io::{self, IsTerminal};

use anyhow::Result;
use nerve_server::paths::Places;
use nerve_term::event::ExitStatus;
use nerve_view::bindings::Bindings;
use nerve_view::layout::{Gutter, Layout};

use self::source::Source;
use crate::cli::attach::AttachArgs;
use crate::exit::{DONE, FAILED, Failure, USAGE};
use crate::settings::Settings;
use crate::{out, tty};

/// How it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// What is shown, in a word or two: a node's name, a command.
    pub(crate) name: String,
    /// Where snapshots are marked.
    pub(crate) gutter: Gutter,
    /// Which key does what.
    pub(crate) bindings: Bindings,
    /// Nothing that is typed reaches the program.
    pub(crate) read_only: bool,
    /// In colours.
    pub(crate) coloured: bool,
    /// When the program has ended its lines are still looked at.
    pub(crate) stay: bool,
}

/// Why the viewer was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Somebody wanted to; the program goes on.
    Detached,
    /// The program has ended.
    Ended(ExitStatus),
    /// The window was closed, or this process was told to end; the program goes on. The exit code for that: 128 and the signal's number.
    Gone(u8),
}

/// What is kept of a viewer that was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) left: Left,
    /// What went wrong meanwhile, to be told now that the terminal can be written to again.
    pub(crate) faults: Vec<String>,
    /// The last lines the program has written, as a window shows them.
    pub(crate) last: Vec<String>,
}

/// Shows a program that runs until somebody leaves or it ends. Needs a terminal, and the main thread.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn run(source: Source, options: Options) -> Result<Outcome> {
    live::Live::new(source, options).run().await
}

/// `nerve attach`: gives back the exit code.
pub(crate) async fn attach(args: AttachArgs) -> Result<u8> {
    let settings = Settings::load()?;
    let entry = look::host(&args).await?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let failure = Failure::new(USAGE, "a program that runs can be shown in a terminal only");
        let hint = "'nerve server node read NODE' prints what a node shows; 'nerve replay' what was recorded";
        return Err(failure.hint(hint).into());
    }
    let places = Places::from_env();
    let gutter = settings.gutter(args.gutter);
    let window = tty::window().unwrap_or_default();
    let room = Layout::room(window.cols, window.rows, gutter);
    let name = match args.target.as_str() {
        id if entry.id.starts_with(id) || entry.session_id.starts_with(id) => {
            out::preview(&entry.asked().join(" "), 40)
        }
        node => node.to_string(),
    };
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let options = Options {
        name,
        gutter,
        bindings: settings.bindings(),
        read_only: args.read_only,
        coloured,
        stay: args.stay,
    };
    let source = Source::open(entry, &places.hosts(), Some(&places.profiles()), args.size, Some(room))?;
    let outcome = run(source, options).await?;
    outcome.faults.iter().for_each(out::warning);
    match outcome.left {
        Left::Detached => {
            out::note(format_args!("detached; come back with 'nerve attach {}'", args.target));
            Ok(DONE)
        }
        Left::Ended(exit) => {
            let how = match exit {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => format!("signal {signal}"),
                ExitStatus::Unknown => "nobody knows how".to_string(),
            };
            out::note(format_args!("the program has ended: {how}"));
            Ok(if exit == ExitStatus::Unknown { FAILED } else { DONE })
        }
        Left::Gone(code) => Ok(code),
    }
}
