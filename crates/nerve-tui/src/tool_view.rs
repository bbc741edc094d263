//! The terminal of the shown tool: running, finished, or the agent's.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_record::ahr::AhrError;
use nerve_record::index::SPACING;
use nerve_record::meta::Meta;
use nerve_record::playback::Playback;
use nerve_types::Size;
use nerve_vt::keys::Input;
use nerve_vt::terminal::TerminalState;
use tokio::task::JoinHandle;

use crate::mirror::{MirrorEvent, TerminalMirror};

/// A tool that was opened.
pub enum OpenedTool {
    /// A running terminal; typed input is recorded as injected.
    Live(Box<TerminalMirror>),
    /// A finished terminal; the recording, if only its end was read so far.
    Ended(Box<TerminalState>, Option<PathBuf>),
    /// The tool has no terminal of its own; keys go to the agent's.
    Agent,
}

/// A change to the shown tool.
pub(crate) enum ToolEvent {
    /// The shown terminal has changed.
    Changed,
    /// All lines of the shown terminal are loaded; the line numbers have grown by this much.
    Loaded(i64),
    /// A problem to report.
    Fault(String),
}

/// The shown tool, if any.
#[derive(Default)]
pub(crate) struct ToolView {
    shown: Option<ToolStream>,
}

/// Loads the end of a recorded terminal.
///
/// # Errors
/// The recording cannot be read.
pub fn load_end(recording: &Path) -> Result<TerminalState, AhrError> {
    play_to_end(Playback::open_near_end(recording, initial_size(recording), SPACING)?, || true)
}

/// Loads a recorded terminal with all its lines, unless it is no longer `wanted`.
///
/// # Errors
/// The recording cannot be read.
pub fn load_full(recording: &Path, wanted: impl Fn() -> bool) -> Result<TerminalState, AhrError> {
    play_to_end(Playback::open(recording, initial_size(recording))?, wanted)
}

/// Returns the initial terminal size of a recording; the default if its metadata cannot be read.
fn initial_size(recording: &Path) -> Size {
    Meta::load(recording).ok().flatten().unwrap_or_default().initial_size()
}

fn play_to_end(mut play: Playback, wanted: impl Fn() -> bool) -> Result<TerminalState, AhrError> {
    play.play(|_| wanted(), |_| {})?;
    Ok(play.into_replay().terminal)
}

/// The shown tool.
struct ToolStream {
    id: String,
    state: State,
}

enum State {
    Opening(JoinHandle<Result<OpenedTool, String>>),
    Live(Box<TerminalMirror>),
    Ended(Box<TerminalState>, Option<FullLoad>),
    /// The tool shares the agent's terminal.
    Agent,
    /// The tool cannot be shown.
    Failed,
}

/// Loads a whole recording while its end is shown. Dropping it cancels the load.
struct FullLoad {
    reading: JoinHandle<Result<TerminalState, AhrError>>,
    /// The loader stops when this is dropped.
    _wanted: Arc<()>,
}

impl FullLoad {
    fn start(recording: PathBuf) -> FullLoad {
        let wanted = Arc::new(());
        let weak = Arc::downgrade(&wanted);
        let load = move || load_full(&recording, || weak.strong_count() > 0);
        FullLoad { reading: tokio::task::spawn_blocking(load), _wanted: wanted }
    }
}

/// Result of sending input to the shown tool.
pub(crate) enum SendResult {
    /// The tool has accepted it.
    Sent,
    /// The agent's terminal should get it.
    ForAgent,
    /// Nothing accepts the input, for this reason.
    Rejected(&'static str),
}

impl ToolView {
    /// Returns the next change; pending without a shown tool. Cancel-safe.
    pub(crate) async fn next(&mut self) -> ToolEvent {
        let Some(ToolStream { state, .. }) = &mut self.shown else { return pending().await };
        state.next().await
    }

    /// Shows a tool that is being opened. An error is the reason why it cannot be shown.
    pub(crate) fn show(&mut self, id: String, opening: JoinHandle<Result<OpenedTool, String>>) {
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

impl State {
    /// Returns the next change. Cancel-safe.
    async fn next(&mut self) -> ToolEvent {
        match self {
            State::Opening(opening) => {
                let opened = opening.await;
                let (next, event) = match opened {
                    Ok(Ok(OpenedTool::Live(mirror))) => (State::Live(mirror), ToolEvent::Changed),
                    Ok(Ok(OpenedTool::Ended(terminal, full_load))) => {
                        (State::Ended(terminal, full_load.map(FullLoad::start)), ToolEvent::Changed)
                    }
                    Ok(Ok(OpenedTool::Agent)) => (State::Agent, ToolEvent::Changed),
                    Ok(Err(error)) => {
                        (State::Failed, ToolEvent::Fault(format!("cannot show the tool: {error}")))
                    }
                    Err(_) => {
                        (State::Failed, ToolEvent::Fault("cannot show the tool: opening it failed".into()))
                    }
                };
                *self = next;
                event
            }
            State::Live(mirror) => {
                let event = match mirror.next().await {
                    MirrorEvent::Fault(fault) => ToolEvent::Fault(fault),
                    MirrorEvent::Changed | MirrorEvent::Title | MirrorEvent::Bell | MirrorEvent::Ended(_) => {
                        ToolEvent::Changed
                    }
                };
                if let Some(recording) = mirror.incomplete_recording().map(Path::to_path_buf)
                    && let State::Live(mirror) = std::mem::replace(self, State::Failed)
                {
                    *self = State::Ended(Box::new(mirror.into_terminal()), Some(FullLoad::start(recording)));
                }
                event
            }
            State::Ended(terminal, full_load) => {
                let Some(FullLoad { reading, .. }) = full_load else { return pending().await };
                let result = reading.await;
                *full_load = None;
                match result {
                    Ok(Ok(full)) => {
                        let (before, after) = (terminal.line_count(), full.line_count());
                        **terminal = full;
                        ToolEvent::Loaded(after.cast_signed() - before.cast_signed())
                    }
                    Ok(Err(error)) => ToolEvent::Fault(format!("showing only the end: {error}")),
                    Err(_) => ToolEvent::Fault("showing only the end: reading the rest failed".into()),
                }
            }
            State::Agent | State::Failed => pending().await,
        }
    }
}
