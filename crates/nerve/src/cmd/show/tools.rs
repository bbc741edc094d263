//! The executions of a session for a viewer: what there is, as it changes, and the terminal of one.

use std::path::Path;

use anyhow::Result;
use nerve_core::executions;
use nerve_core::executions::watch::Watch;
use nerve_core::host::registry::{Entry, entries};
use nerve_record::playback::Playback;
use nerve_server::paths::Places;
use nerve_term::event::Size;
use nerve_term::terminal::TerminalState;
use nerve_view::tools::{Changes, Reader, Told, Tool, ToolState};

use super::find::{At, in_session};
use crate::cmd::attach::size::SizeRule;
use crate::cmd::attach::source::Source;
use crate::cmd::recording::{facts, size, unreadable};

/// The tools of a session, followed.
pub(crate) struct Tools {
    watch: Watch,
    /// That no more can be listed, to be told.
    full: bool,
}

/// What is new of them.
pub(crate) enum News {
    /// These are other ones, or are in another state.
    Changed(Changes),
    /// No more can be listed.
    Full,
}

impl Tools {
    /// Of the session with this recording, whether it goes on or not.
    pub(crate) fn of(recording: &Path) -> Tools {
        Tools { watch: Watch::start(recording, &Places::from_env().hosts()), full: false }
    }

    /// Waits for what is new. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The list cannot be followed; then there is nothing more to come.
    pub(crate) async fn changed(&mut self) -> Result<News> {
        if std::mem::take(&mut self.full) {
            return Ok(News::Full);
        }
        let executions::Changes { anew, first, told, full } = self.watch.changed().await?;
        self.full = full;
        Ok(News::Changed(Changes { anew, first, told: told.into_iter().map(of_viewer).collect() }))
    }
}

/// The same in the viewer's words.
fn of_viewer(told: executions::Told) -> Told {
    let executions::Told { number, id, command, state, reader } = told;
    let state = match state {
        executions::State::Running => ToolState::Running,
        executions::State::Ended(code) => ToolState::Ended(code),
    };
    let reader = match reader {
        executions::Reader::Itself => Reader::Tool,
        executions::Reader::AsksOnly => Reader::AsksOnly,
        executions::Reader::HasInput => Reader::HasInput,
        executions::Reader::Agent => Reader::Agent,
    };
    Told { number, tool: Tool { id, command, state }, reader }
}

/// What a viewer shows of an execution.
pub(crate) enum Shown {
    /// Its terminal, which runs; what is typed is recorded as injected.
    Live(Box<Source>),
    /// Its terminal at its end, or what the agent was given.
    Ended(Box<TerminalState>),
    /// It has no terminal of its own and goes on: keys are for the agent's terminal.
    Agent,
}

/// Opens an execution of a session.
///
/// # Errors
/// There is none of that id, or its recording cannot be read.
pub(crate) fn open(recording: &Path, id: &str) -> Result<Shown> {
    let places = Places::from_env();
    let found = in_session(id, recording, &entries(&places.hosts()))?;
    Ok(match found.at {
        At::Host(entry) => Shown::Live(Box::new(source(*entry, &places)?)),
        At::Recording(path) => {
            let mut play = Playback::open(&path, size(&facts(&path))).map_err(unreadable)?;
            play.play(|_| true, |_| {}).map_err(unreadable)?;
            Shown::Ended(Box::new(play.into_fold().terminal))
        }
        At::Agent { running: true } => Shown::Agent,
        At::Agent { running: false } => {
            let text = found.line.output.unwrap_or_default();
            Shown::Ended(Box::new(terminal_of(&text)))
        }
    })
}

/// A live execution's terminal, in the size it has.
pub(super) fn source(entry: Entry, places: &Places) -> Result<Source> {
    let profiles = places.profiles();
    Ok(Source::open(entry, &places.hosts(), Some(&profiles), SizeRule::Keep, None)?.injecting())
}

/// A text as a terminal that holds it. Its own sequences are none: an agent's output is text.
fn terminal_of(text: &str) -> TerminalState {
    let mut terminal = TerminalState::new(Size::new(120, 40));
    let letters = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    let lines: String = letters.collect::<String>().replace('\n', "\r\n");
    terminal.process_data(nerve_term::event::TsNs(0), lines.as_bytes());
    terminal
}
