//! Follows the list of tools and the terminal of the shown one.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use nerve_host::registry::canonical_path;
use nerve_tui::view::tools::ToolUpdates;
use nerve_vt::keys::Input;
use nerve_vt::terminal::TerminalState;
use tokio::task::JoinHandle;

use super::mirror::{MirrorEvent, TerminalMirror};
use crate::cmd::show::tools::{self, OpenedTool, ToolFeed};

/// A change to the tools.
pub(crate) enum ToolEvent {
    /// The list has changed.
    Tools(ToolUpdates),
    /// The shown terminal has changed.
    Changed,
    /// All lines of the shown terminal are loaded; the line numbers have grown by this much.
    Loaded(i64),
    /// A problem to report.
    Fault(String),
    /// The list cannot be followed any more, for this reason.
    ListFailed(String),
}

/// The tools of one session.
#[derive(Default)]
pub(crate) struct ToolStreams {
    recording: Option<PathBuf>,
    list: Option<ToolFeed>,
    shown: Option<ToolStream>,
}

/// The shown tool.
struct ToolStream {
    id: String,
    state: State,
}

enum State {
    Opening(JoinHandle<Result<OpenedTool>>),
    Live(Box<TerminalMirror>),
    Ended(Box<TerminalState>, Option<FullLoad>),
    /// The tool shares the agent's terminal.
    Agent,
    /// The tool cannot be shown.
    Failed,
}

/// Loads a whole recording while its end is shown. Dropping it cancels the load.
struct FullLoad {
    reading: JoinHandle<Result<TerminalState>>,
    /// The loader stops when this is dropped.
    _wanted: Arc<()>,
}

impl FullLoad {
    fn start(recording: PathBuf) -> FullLoad {
        let wanted = Arc::new(());
        let still = Arc::downgrade(&wanted);
        let read = move || tools::load_full(&recording, || still.strong_count() > 0);
        FullLoad { reading: tokio::task::spawn_blocking(read), _wanted: wanted }
    }
}

/// Result of sending input to the shown tool.
pub(crate) enum SendResult {
    /// The tool has accepted it.
    Sent,
    /// The agent's terminal should get it.
    ForAgent,
    /// Nothing accepts it, for this reason.
    Rejected(&'static str),
}

impl ToolStreams {
    /// Follows the session with this recording. The list is read in the background.
    pub(crate) fn new(recording: Option<&Path>) -> ToolStreams {
        let recording = recording.map(canonical_path);
        let list = recording.as_deref().map(ToolFeed::of);
        ToolStreams { recording, list, ..ToolStreams::default() }
    }

    /// Returns the next change. Cancel-safe.
    pub(crate) async fn next(&mut self) -> ToolEvent {
        let ToolStreams { list, shown, .. } = self;
        tokio::select! {
            changed = next_list_event(list) => match changed {
                Ok(tools::ToolFeedEvent::Changed(changes)) => ToolEvent::Tools(changes),
                Ok(tools::ToolFeedEvent::Full) => {
                    ToolEvent::Fault("the tool list is full: new tools are not listed".into())
                }
                Err(error) => {
                    *list = None;
                    ToolEvent::ListFailed(format!("cannot follow the tool list: {error:#}"))
                }
            },
            event = next_stream_event(shown) => event,
        }
    }

    /// Opens a tool.
    pub(crate) fn show(&mut self, id: String) {
        let Some(recording) = self.recording.clone() else { return };
        let wanted = id.clone();
        let opening = tokio::task::spawn_blocking(move || tools::open(&recording, &wanted));
        self.shown = Some(ToolStream { id, state: State::Opening(opening) });
    }

    /// Closes the shown tool unless it has this id.
    pub(crate) fn retain(&mut self, id: Option<&str>) {
        if self.shown.as_ref().is_some_and(|shown| Some(shown.id.as_str()) != id) {
            self.shown = None;
        }
    }

    /// Returns the shown tool's terminal; `agent` if it shares the agent's.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        match &self.shown.as_ref()?.state {
            State::Live(mirror) => Some(mirror.terminal()),
            State::Ended(terminal, _) => Some(terminal),
            State::Agent => Some(agent),
            State::Opening(_) | State::Failed => None,
        }
    }

    /// Sends input to the shown tool.
    pub(crate) fn send(&mut self, input: &Input) -> SendResult {
        match self.shown.as_mut().map(|shown| &mut shown.state) {
            Some(State::Live(mirror)) => match mirror.send(input) {
                true => SendResult::Sent,
                false => SendResult::Rejected("the tool is not accepting input"),
            },
            Some(State::Agent) => SendResult::ForAgent,
            Some(State::Opening(_)) => SendResult::Rejected("it is being opened"),
            Some(State::Ended(..) | State::Failed) | None => SendResult::Rejected("it has ended"),
        }
    }
}

async fn next_list_event(list: &mut Option<ToolFeed>) -> Result<tools::ToolFeedEvent> {
    match list {
        Some(list) => list.changed().await,
        None => pending().await,
    }
}

async fn next_stream_event(shown: &mut Option<ToolStream>) -> ToolEvent {
    let Some(ToolStream { state, .. }) = shown else { return pending().await };
    match state {
        State::Opening(opening) => {
            let opened = opening.await;
            let (next, event) = match opened {
                Ok(Ok(OpenedTool::Live(mirror))) => (State::Live(mirror), ToolEvent::Changed),
                Ok(Ok(OpenedTool::Ended(terminal, full_load))) => {
                    (State::Ended(terminal, full_load.map(FullLoad::start)), ToolEvent::Changed)
                }
                Ok(Ok(OpenedTool::Agent)) => (State::Agent, ToolEvent::Changed),
                Ok(Err(error)) => {
                    (State::Failed, ToolEvent::Fault(format!("cannot show the tool: {error:#}")))
                }
                Err(_) => (State::Failed, ToolEvent::Fault("cannot show the tool: opening it failed".into())),
            };
            *state = next;
            event
        }
        State::Live(mirror) => {
            let event = match mirror.next().await {
                Ok(MirrorEvent::Fault(fault)) => ToolEvent::Fault(fault),
                Ok(MirrorEvent::Changed | MirrorEvent::Title | MirrorEvent::Bell | MirrorEvent::Ended(_)) => {
                    ToolEvent::Changed
                }
                Err(error) => ToolEvent::Fault(format!("{error:#}")),
            };
            if let Some(recording) = mirror.incomplete_recording().map(Path::to_path_buf)
                && let State::Live(mirror) = std::mem::replace(state, State::Failed)
            {
                *state = State::Ended(Box::new(mirror.into_terminal()), Some(FullLoad::start(recording)));
            }
            event
        }
        State::Ended(terminal, full_load) => {
            let Some(FullLoad { reading, .. }) = full_load else { return pending().await };
            let read = reading.await;
            *full_load = None;
            match read {
                Ok(Ok(whole)) => {
                    let (before, after) = (terminal.line_count(), whole.line_count());
                    **terminal = whole;
                    ToolEvent::Loaded(after.cast_signed() - before.cast_signed())
                }
                Ok(Err(error)) => ToolEvent::Fault(format!("showing only the end: {error:#}")),
                Err(_) => ToolEvent::Fault("showing only the end: reading the rest failed".into()),
            }
        }
        State::Agent | State::Failed => pending().await,
    }
}
