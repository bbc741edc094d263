//! The executions of a session for a viewer: what there is, as it changes, and the terminal of one.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_core::executions::follow::Follow;
use nerve_core::host::registry::{Entry, entries};
use nerve_record::executions::{ExecutionLine, Executions};
use nerve_record::playback::Playback;
use nerve_server::paths::Places;
use nerve_term::event::Size;
use nerve_term::terminal::TerminalState;
use nerve_view::tools::{Tool, ToolState};

use super::find::{At, host_of, in_session, is_written};
use crate::cmd::attach::source::{SizeRule, Source};
use crate::cmd::recording::{facts, size, unreadable};

/// The tools of a session, followed.
pub(crate) struct Tools {
    recording: PathBuf,
    follow: Follow,
    places: Places,
}

impl Tools {
    /// Of the session with this recording. Must be called on a runtime.
    ///
    /// # Errors
    /// The list of executions cannot be read or watched.
    pub(crate) fn of(recording: &Path) -> Result<Tools> {
        let follow = Follow::new(recording)?;
        Ok(Tools { recording: recording.into(), follow, places: Places::from_env() })
    }

    /// What there is now, oldest first.
    pub(crate) fn now(&self) -> Vec<Tool> {
        listed(self.follow.known(), &self.recording, &entries(&self.places.hosts()))
    }

    /// Waits until there is more to say, and says all. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The list cannot be followed any more.
    pub(crate) async fn changed(&mut self) -> Result<Vec<Tool>> {
        self.follow.changed().await?;
        Ok(self.now())
    }
}

/// The tools of a session that is looked at afterwards, oldest first.
///
/// # Errors
/// The list of executions cannot be read.
pub(crate) fn ended(recording: &Path) -> Result<Vec<Tool>> {
    let known = nerve_record::executions::read(recording)?;
    Ok(listed(&known, recording, &entries(&Places::from_env().hosts())))
}

fn listed(known: &Executions, recording: &Path, hosts: &[Entry]) -> Vec<Tool> {
    let goes_on = is_written(recording, hosts);
    known.iter().map(|line| tool(line, goes_on, hosts)).collect()
}

fn tool(line: &ExecutionLine, goes_on: bool, hosts: &[Entry]) -> Tool {
    let running =
        !line.has_ended() && if line.has_terminal() { host_of(line, hosts).is_some() } else { goes_on };
    let completed = line.status.as_deref() == Some("completed");
    let state = match running {
        true => ToolState::Running,
        false => ToolState::Ended(line.exit_code.or(completed.then_some(0))),
    };
    Tool { id: line.id.clone(), command: line.command.clone().unwrap_or_default(), state }
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
