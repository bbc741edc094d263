//! The executions of a session for a viewer: what there is, as it changes, and the terminal of one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_core::executions;
use nerve_core::executions::watch::Watch;
use nerve_core::host::registry::{Entry, entries};
use nerve_record::index::SPACING;
use nerve_record::playback::Playback;
use nerve_server::paths::Places;
use nerve_term::event::Size;
use nerve_term::terminal::TerminalState;
use nerve_view::tools::{InputReader, Tool, ToolState, ToolUpdate, ToolUpdates};

use super::lookup::{Location, in_session};
use crate::cmd::attach::mirror::TerminalMirror;
use crate::cmd::attach::size_rule::SizeRule;
use crate::cmd::recording::{facts, size, unreadable};

/// The terminal of what had none.
pub(super) const DEFAULT_SIZE: Size = Size { cols: 120, rows: 40 };
/// Bytes on the disk of a recording that takes a while to be read.
const LONG_RECORDING: u64 = 32 << 10;

/// The tools of a session, followed.
pub(crate) struct ToolFeed {
    watch: Watch,
    /// That no more can be listed, to be told.
    full: bool,
}

/// What is new of them.
pub(crate) enum ToolFeedEvent {
    /// These are other ones, or are in another state.
    Changed(ToolUpdates),
    /// No more can be listed.
    Full,
}

impl ToolFeed {
    /// Of the session with this recording, whether it goes on or not.
    pub(crate) fn of(recording: &Path) -> ToolFeed {
        ToolFeed { watch: Watch::start(recording, &Places::from_env().hosts()), full: false }
    }

    /// Waits for what is new. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The list cannot be followed; then there is nothing more to come.
    pub(crate) async fn changed(&mut self) -> Result<ToolFeedEvent> {
        if std::mem::take(&mut self.full) {
            return Ok(ToolFeedEvent::Full);
        }
        let executions::Changes { anew, first, told, full } = self.watch.changed().await?;
        self.full = full;
        Ok(ToolFeedEvent::Changed(ToolUpdates {
            reset: anew,
            first,
            updates: told.into_iter().map(to_viewer).collect(),
        }))
    }
}

/// The same in the viewer's words.
fn to_viewer(update: executions::Told) -> ToolUpdate {
    let executions::Told { number, id, command, state, reader } = update;
    let state = match state {
        executions::State::Running => ToolState::Running,
        executions::State::Ended(code) => ToolState::Ended(code),
    };
    let reader = match reader {
        executions::Reader::Itself => InputReader::Tool,
        executions::Reader::AsksOnly => InputReader::AsksOnly,
        executions::Reader::HasInput => InputReader::HasInput,
        executions::Reader::Agent => InputReader::Agent,
    };
    ToolUpdate { number, tool: Tool { id, command, state }, reader }
}

/// What a viewer shows of an execution.
pub(crate) enum OpenedTool {
    /// Its terminal, which runs; what is typed is recorded as injected.
    Live(Box<TerminalMirror>),
    /// Its terminal at its end, or what the agent was given; the recording, if that is long and only its end was read.
    Ended(Box<TerminalState>, Option<PathBuf>),
    /// It has no terminal of its own and goes on: keys are for the agent's terminal.
    Agent,
}

/// Opens an execution of a session.
///
/// # Errors
/// There is none of that id, or its recording cannot be read.
pub(crate) fn open(recording: &Path, id: &str) -> Result<OpenedTool> {
    let places = Places::from_env();
    let found = in_session(id, recording, &entries(&places.hosts()))?;
    Ok(match found.location {
        Location::Host(entry) => OpenedTool::Live(Box::new(open_mirror(*entry, &places)?)),
        Location::Recording(path) if is_long(&path) => {
            OpenedTool::Ended(Box::new(load_end(&path)?), Some(path))
        }
        Location::Recording(path) => OpenedTool::Ended(Box::new(load_full(&path, || true)?), None),
        Location::Agent { running: true } => OpenedTool::Agent,
        Location::Agent { running: false } => {
            let text = found.line.output.unwrap_or_default();
            OpenedTool::Ended(Box::new(terminal_of(&text)), None)
        }
    })
}

fn is_long(recording: &Path) -> bool {
    fs::metadata(recording).is_ok_and(|meta| meta.len() > LONG_RECORDING)
}

/// A recorded terminal as it was in the end, with the lines that were written shortly before.
fn load_end(recording: &Path) -> Result<TerminalState> {
    let play = Playback::open_near_end(recording, size(&facts(recording)), SPACING);
    play_to_end(play.map_err(unreadable)?, || true)
}

/// A recorded terminal in the end, with all its lines. It is given up when it is not `wanted` any more.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn load_full(recording: &Path, wanted: impl Fn() -> bool) -> Result<TerminalState> {
    play_to_end(Playback::open(recording, size(&facts(recording))).map_err(unreadable)?, wanted)
}

fn play_to_end(mut play: Playback, wanted: impl Fn() -> bool) -> Result<TerminalState> {
    play.play(|_| wanted(), |_| {}).map_err(unreadable)?;
    Ok(play.into_replay().terminal)
}

/// A live execution's terminal, in the size it has.
pub(super) fn open_mirror(entry: Entry, places: &Places) -> Result<TerminalMirror> {
    let profiles = places.profiles();
    Ok(TerminalMirror::open(entry, &places.hosts(), Some(&profiles), SizeRule::Keep, None)?
        .as_injected()
        .latest())
}

/// A text as a terminal that holds it.
fn terminal_of(text: &str) -> TerminalState {
    let mut terminal = TerminalState::new(DEFAULT_SIZE);
    terminal.process_data(nerve_term::event::TsNs(0), lines_of(text).as_bytes());
    terminal
}

/// A text as a terminal is given it. Its own sequences are none: an agent's output is text.
pub(super) fn lines_of(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    letters.collect::<String>().replace('\n', "\r\n")
}
