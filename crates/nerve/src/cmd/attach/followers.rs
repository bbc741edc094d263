//! What the agent runs, in the viewer: the list as it changes, and the terminal of the one that is shown.

use std::collections::HashSet;
use std::future::pending;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::tools::Tool;
use tokio::task::JoinHandle;

use super::source::{Seen, Source};
use crate::cmd::show::tools::{self, Shown, Tools};

/// Something about them is new.
pub(crate) enum News {
    /// These are there now.
    List(Vec<Tool>),
    /// The one that is shown has changed.
    Changed,
    /// Something went wrong, in words.
    Fault(String),
}

/// The tools of one session.
#[derive(Default)]
pub(crate) struct Followers {
    recording: Option<PathBuf>,
    list: Option<Tools>,
    /// What was there first, to be told.
    first: Option<Vec<Tool>>,
    /// Not to be listed any more.
    dismissed: HashSet<String>,
    shown: Option<Follower>,
}

/// The one that is shown.
struct Follower {
    id: String,
    state: State,
}

enum State {
    Opening(JoinHandle<Result<Shown>>),
    Live(Box<Source>),
    Ended(Box<TerminalState>),
    /// Its terminal is the agent's.
    Agent,
    /// It cannot be shown.
    Nothing,
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
    /// Of a session that goes on. Must be called on a runtime.
    pub(crate) fn live(recording: Option<&Path>) -> Followers {
        let recording = recording.map(Path::to_path_buf);
        // A list that cannot be followed is told nowhere: what can be seen of the session does not depend on it.
        let list = recording.as_deref().and_then(|recording| Tools::of(recording).ok());
        let first = list.as_ref().map(Tools::now);
        Followers { recording, list, first, ..Followers::default() }
    }

    /// Of a session that is looked at afterwards.
    pub(crate) fn ended(recording: &Path) -> Followers {
        let first = tools::ended(recording).ok();
        Followers { recording: Some(recording.to_path_buf()), first, ..Followers::default() }
    }

    /// What is new, when it is. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> News {
        let Followers { list, first, dismissed, shown, .. } = self;
        if let Some(first) = first.take() {
            return News::List(first);
        }
        tokio::select! {
            changed = followed(list) => match changed {
                Ok(mut tools) => {
                    tools.retain(|tool| !dismissed.contains(&tool.id));
                    News::List(tools)
                }
                Err(error) => {
                    *list = None;
                    News::Fault(format!("what the agent runs cannot be followed: {error:#}"))
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

    /// It is not to be listed any more; what is listed now.
    pub(crate) fn dismiss(&mut self, id: String, mut listed: Vec<Tool>) -> Vec<Tool> {
        self.dismissed.insert(id);
        listed.retain(|tool| !self.dismissed.contains(&tool.id));
        listed
    }

    /// The terminal of the one that is shown; `agent` where that is its own.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        match &self.shown.as_ref()?.state {
            State::Live(source) => Some(source.terminal()),
            State::Ended(terminal) => Some(terminal),
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
            Some(State::Ended(_) | State::Nothing) | None => Taker::Nobody("it has ended"),
        }
    }
}

async fn followed(list: &mut Option<Tools>) -> Result<Vec<Tool>> {
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
                Ok(Ok(Shown::Ended(terminal))) => (State::Ended(terminal), News::Changed),
                Ok(Ok(Shown::Agent)) => (State::Agent, News::Changed),
                Ok(Err(error)) => (State::Nothing, News::Fault(format!("it cannot be shown: {error:#}"))),
                Err(_) => (State::Nothing, News::Fault("it cannot be shown: opening it failed".into())),
            };
            *state = next;
            news
        }
        State::Live(source) => match source.next().await {
            Ok(Seen::Fault(fault)) => News::Fault(fault),
            Ok(Seen::Changed | Seen::Title | Seen::Ended(_)) => News::Changed,
            Err(error) => News::Fault(format!("{error:#}")),
        },
        State::Ended(_) | State::Agent | State::Nothing => pending().await,
    }
}
