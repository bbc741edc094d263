//! What goes on beside the terminal that is shown: tools that are followed, branches that are made, snapshots that are taken.

use std::path::Path;

use nerve_core::host::registry::Entry;
use nerve_term::keys::Input;
use nerve_term::terminal::TerminalState;
use nerve_view::viewer::{Submission, Viewer};

use super::branch_job::{Branching, Step};
use super::snapshot_job::{Taking, Told};
use super::target::Place;
use super::tool_list::listed_at;
use super::tool_streams::{Followers, News, Taker};

/// The agent's tools, the branches and the snapshots of one session.
pub(crate) struct Beside {
    followers: Followers,
    branching: Branching,
    taking: Taking,
}

/// What is not done yet when the viewer is left.
pub(crate) struct Unfinished {
    branching: Branching,
    taking: Taking,
}

impl Unfinished {
    /// Waits for it, until this process is told to end, and tells what has become of it.
    pub(crate) async fn finish(self) {
        self.taking.finish().await;
        self.branching.finish().await;
    }
}

/// Something has happened there.
pub(crate) enum Turn {
    Step(Step),
    News(News),
    Snapshot(Told),
}

impl Beside {
    /// Of the session with this recording.
    pub(crate) fn of(recording: Option<&Path>) -> Beside {
        Beside::with(recording, recording)
    }

    /// Of the session of this host.
    pub(crate) fn of_host(entry: &Entry) -> Beside {
        Beside::with(entry.session_file(), listed_at(entry).ok())
    }

    /// `file`: of the session that can be gone on from; `listed`: the one beside which its tools are listed.
    fn with(file: Option<&Path>, listed: Option<&Path>) -> Beside {
        Beside { followers: Followers::of(listed), branching: Branching::of(file), taking: Taking::default() }
    }

    /// What happens next. May be dropped and called again. Who has much to say lets the other speak: whose turn it is among those who could is
    /// a matter of chance.
    pub(crate) async fn turn(&mut self) -> Turn {
        tokio::select! {
            step = self.branching.next() => Turn::Step(step),
            news = self.followers.next() => Turn::News(news),
            taken = self.taking.next() => Turn::Snapshot(taken),
        }
    }

    /// Tells the viewer.
    pub(crate) fn apply(&mut self, turn: Turn, viewer: &mut Viewer) {
        match turn {
            Turn::Step(Step::Doing(words)) => viewer.show_message(&format!("branching: {words} …")),
            Turn::Step(Step::Made(made)) => {
                viewer.branch_created();
                let keys = viewer.keys_to_branch();
                viewer.show_message(&made.told(keys.as_deref()));
            }
            Turn::Step(Step::Refused(why)) => viewer.branch_failed(&why),
            Turn::News(News::Tools(changes)) => viewer.update_tools(changes),
            Turn::News(News::Changed) => {}
            Turn::News(News::Whole(by)) => viewer.renumber_tool(by),
            Turn::News(News::Fault(fault)) => viewer.show_message(&fault),
            Turn::News(News::Unlisted(fault)) => {
                viewer.show_message(&fault);
                viewer.explain_no_tools(fault);
            }
            Turn::Snapshot(Ok(told) | Err(told)) => viewer.show_message(&told),
        }
    }

    // ---- Branches ----

    /// Begins to make one.
    pub(crate) fn branch(&mut self, asked: Submission, viewer: &mut Viewer) {
        if let Err(why) = self.branching.begin(asked) {
            viewer.branch_failed(&why);
        }
    }

    /// A task is being written, at a session that is not recorded: what is known of it must not go with it.
    pub(crate) fn keep_origin(&mut self) {
        self.branching.keep();
    }

    /// The node of the one that was made last; or why there is none, in words.
    pub(crate) fn latest(&self) -> Result<Place, &'static str> {
        self.branching.latest()
    }

    // ---- Snapshots ----

    /// Begins to take one of what runs in that host.
    pub(crate) fn snapshot(&mut self, host: &Entry, viewer: &mut Viewer) {
        match self.taking.begin(host) {
            Ok(()) => viewer.show_message("taking a snapshot …"),
            Err(why) => viewer.show_message(&why),
        }
    }

    /// What is still being done, when the viewer is left.
    pub(crate) fn into_unfinished(self) -> Unfinished {
        Unfinished { branching: self.branching, taking: self.taking }
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
