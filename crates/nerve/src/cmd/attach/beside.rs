//! What goes on beside the terminal that is shown: tools that are followed, branches that are made.

use std::path::{Path, PathBuf};

use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::viewer::{Submission, Viewer};

use super::branching::{Branching, Step};
use super::followers::{Followers, News, Taker};
use super::place::Place;

/// The agent's tools and the branches of one session.
pub(crate) struct Beside {
    recording: Option<PathBuf>,
    followers: Followers,
    branching: Branching,
}

/// Something has happened there.
pub(crate) enum Turn {
    Step(Step),
    News(News),
}

impl Beside {
    /// Of the session with this recording.
    pub(crate) fn of(recording: Option<&Path>) -> Beside {
        let followers = Followers::of(recording);
        Beside { recording: recording.map(Path::to_path_buf), followers, branching: Branching::default() }
    }

    /// What happens next. May be dropped and called again. Who has much to say lets the other speak: whose turn it is among those who could is
    /// a matter of chance.
    pub(crate) async fn turn(&mut self) -> Turn {
        tokio::select! {
            step = self.branching.next() => Turn::Step(step),
            news = self.followers.next() => Turn::News(news),
        }
    }

    /// Tells the viewer.
    pub(crate) fn apply(&mut self, turn: Turn, viewer: &mut Viewer) {
        match turn {
            Turn::Step(Step::Doing(words)) => viewer.tell(&format!("branching: {words} …")),
            Turn::Step(Step::Made(made)) => {
                viewer.submitted();
                let keys = viewer.keys_to_branch();
                viewer.tell(&made.told(keys.as_deref()));
            }
            Turn::Step(Step::Refused(why)) => viewer.refused(&why),
            Turn::News(News::Tools(changes)) => viewer.change_tools(changes),
            Turn::News(News::Changed) => {}
            Turn::News(News::Fault(fault)) => viewer.tell(&fault),
        }
    }

    // ---- Branches ----

    /// Begins to make one.
    pub(crate) fn branch(&mut self, asked: Submission, viewer: &mut Viewer) {
        if let Err(why) = self.branching.begin(self.recording.as_deref(), asked) {
            viewer.refused(&why);
        }
    }

    /// The node of the one that was made last; or why there is none, in words.
    pub(crate) fn latest(&self) -> Result<Place, &'static str> {
        self.branching.latest()
    }

    /// The branches, when the viewer is left.
    pub(crate) fn into_branching(self) -> Branching {
        self.branching
    }

    // ---- Tools ----

    /// Shows another one.
    pub(crate) fn show(&mut self, id: String) {
        self.followers.show(id);
    }

    /// Only the one that the viewer shows goes on to be followed.
    pub(crate) fn keep(&mut self, viewer: &Viewer) {
        self.followers.keep(viewer.shown_tool());
    }

    /// The terminal of the one that is shown; `agent` where that is its own.
    pub(crate) fn terminal<'a>(&'a self, agent: &'a TerminalState) -> Option<&'a TerminalState> {
        self.followers.terminal(agent)
    }

    /// Types into the one that is shown.
    pub(crate) fn send(&mut self, input: &Input) -> Taker {
        self.followers.send(input)
    }
}
