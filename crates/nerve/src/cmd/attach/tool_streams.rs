//! What the agent runs, in the viewer: the list as it changes, and the terminal of the one that is shown.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use nerve_core::host::registry::real;
use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::tools::ToolUpdates;
use tokio::task::JoinHandle;

use super::mirror::{Seen, TerminalMirror};
use crate::cmd::show::tools::{self, Shown, Tools};

/// Something about them is new.
pub(crate) enum News {
    /// These are other ones, or in another state.
    Tools(ToolUpdates),
    /// The one that is shown has changed.
    Changed,
    /// All lines of the one that is shown are there: those that were have numbers that are larger by so many.
    Whole(i64),
    /// Something went wrong, in words.
    Fault(String),
    /// There is nothing more to come of the list, and why.
    Unlisted(String),
}

/// The tools of one session.
#[derive(Default)]
pub(crate) struct Followers {
    recording: Option<PathBuf>,
    list: Option<Tools>,
    shown: Option<Follower>,
}

/// The one that is shown.
struct Follower {
    id: String,
    state: State,
}

enum State {
    Opening(JoinHandle<Result<Shown>>),
    Live(Box<TerminalMirror>),
    Ended(Box<TerminalState>, Option<Rest>),
    /// Its terminal is the agent's.
    Agent,
    /// It cannot be shown.
    Nothing,
}

/// All of a terminal's recording is read, whose end is shown already. Dropped, it is given up.
struct Rest {
    reading: JoinHandle<Result<TerminalState>>,
    /// Whoever reads looks whether it is still there.
    _wanted: Arc<()>,
}

impl Rest {
    fn of(recording: PathBuf) -> Rest {
        let wanted = Arc::new(());
        let still = Arc::downgrade(&wanted);
        let read = move || tools::whole(&recording, || still.strong_count() > 0);
        Rest { reading: tokio::task::spawn_blocking(read), _wanted: wanted }
    }
}

/// For whom something is that is typed into the one that is shown.
pub(crate) enum Taker {
    /// It was taken.
    Tool,
    /// The agent, whose terminal the tool has.
    Agent,
    /// Nobody takes it, and why.
    Nobody(&'static str),
}

impl Followers {
    /// Of the session with this recording. The list is read beside whoever asks for it.
    pub(crate) fn of(recording: Option<&Path>) -> Followers {
        let recording = recording.map(real);
        let list = recording.as_deref().map(Tools::of);
        Followers { recording, list, ..Followers::default() }
    }

    /// What is new, when it is. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> News {
        let Followers { list, shown, .. } = self;
        tokio::select! {
            changed = followed(list) => match changed {
                Ok(tools::News::Changed(changes)) => News::Tools(changes),
                Ok(tools::News::Full) => {
                    News::Fault("the list of what the agent runs is full: what it runs now is not listed".into())
                }
                Err(error) => {
                    *list = None;
                    News::Unlisted(format!("what the agent runs cannot be followed: {error:#}"))
                }
            },
            news = seen(shown) => news,
        }
    }

    /// Shows another one.
    pub(crate) fn show(&mut self, id: String) {
        let Some(recording) = self.recording.clone() else { return };
        let wanted = id.clone();
        let opening = tokio::task::spawn_blocking(move || tools::open(&recording, &wanted));
        self.shown = Some(Follower { id, state: State::Opening(opening) });
    }

    /// Only this one goes on to be shown, if any.
    pub(crate) fn keep(&mut self, id: Option<&str>) {
        if self.shown.as_ref().is_some_and(|shown| Some(shown.id.as_str()) != id) {
            self.shown = None;
        }
    }

    /// The terminal of the one that is shown; `agent` where that is its own.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        match &self.shown.as_ref()?.state {
            State::Live(source) => Some(source.terminal()),
            State::Ended(terminal, _) => Some(terminal),
            State::Agent => Some(agent),
            State::Opening(_) | State::Nothing => None,
        }
    }

    /// Types into the one that is shown.
    pub(crate) fn send(&mut self, input: &Input) -> Taker {
        match self.shown.as_mut().map(|shown| &mut shown.state) {
            Some(State::Live(source)) => match source.send(input) {
                true => Taker::Tool,
                false => Taker::Nobody("the tool takes nothing at the moment"),
            },
            Some(State::Agent) => Taker::Agent,
            Some(State::Opening(_)) => Taker::Nobody("it is being opened"),
            Some(State::Ended(..) | State::Nothing) | None => Taker::Nobody("it has ended"),
        }
    }
}

async fn followed(list: &mut Option<Tools>) -> Result<tools::News> {
    match list {
        Some(list) => list.changed().await,
        None => pending().await,
    }
}

async fn seen(shown: &mut Option<Follower>) -> News {
    let Some(Follower { state, .. }) = shown else { return pending().await };
    match state {
        State::Opening(opening) => {
            let opened = opening.await;
            let (next, news) = match opened {
                Ok(Ok(Shown::Live(source))) => (State::Live(source), News::Changed),
                Ok(Ok(Shown::Ended(terminal, rest))) => {
                    (State::Ended(terminal, rest.map(Rest::of)), News::Changed)
                }
                Ok(Ok(Shown::Agent)) => (State::Agent, News::Changed),
                Ok(Err(error)) => (State::Nothing, News::Fault(format!("it cannot be shown: {error:#}"))),
                Err(_) => (State::Nothing, News::Fault("it cannot be shown: opening it failed".into())),
            };
            *state = next;
            news
        }
        State::Live(source) => {
            let news = match source.next().await {
                Ok(Seen::Fault(fault)) => News::Fault(fault),
                Ok(Seen::Changed | Seen::Title | Seen::Bell | Seen::Ended(_)) => News::Changed,
                Err(error) => News::Fault(format!("{error:#}")),
            };
            if let Some(recording) = source.missed().map(Path::to_path_buf)
                && let State::Live(source) = std::mem::replace(state, State::Nothing)
            {
                *state = State::Ended(Box::new(source.into_terminal()), Some(Rest::of(recording)));
            }
            news
        }
        State::Ended(terminal, rest) => {
            let Some(Rest { reading, .. }) = rest else { return pending().await };
            let read = reading.await;
            *rest = None;
            match read {
                Ok(Ok(whole)) => {
                    let (before, after) = (terminal.line_count(), whole.line_count());
                    **terminal = whole;
                    News::Whole(after.cast_signed() - before.cast_signed())
                }
                Ok(Err(error)) => News::Fault(format!("only its end is shown: {error:#}")),
                Err(_) => News::Fault("only its end is shown: reading the rest failed".into()),
            }
        }
        State::Agent | State::Nothing => pending().await,
    }
}
