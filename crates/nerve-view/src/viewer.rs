//! The viewer's state: keys, clicks and a changed document in, what is to be shown out. It does nothing to the terminal it shows and reads no clock.

use crate::bindings::Bindings;
pub use crate::effect::{Effect, Mode, PromptKind, PromptView, Source, Submission};
use crate::keys::{Context, Input, Operation};
use crate::mouse::Held;
use crate::pager::Pager;
use crate::regions::FrameContext;
use crate::search::Pattern;
pub use crate::search::session::LINES_PER_STEP;
pub use crate::task_entry::{Target, TaskEntry};
use crate::tools::{Listed, Modal, Tool, Tools};
use crate::viewport::Viewport;

/// What the next key is for, whatever it usually means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PendingKey {
    /// Nothing.
    #[default]
    None,
    /// It comes after the prefix.
    Prefix,
    /// `q` comes after a colon.
    Colon,
    /// It says whether the program is to be ended.
    ConfirmEnd,
}

/// What the status tells of a viewer at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine {
    mode: Mode,
    is_prefix_pending: bool,
    message: Option<String>,
}

/// The viewer.
#[derive(Debug, Clone)]
pub struct Viewer {
    pub(crate) source: Source,
    pub(crate) bindings: Bindings,
    pub(crate) pager: Pager,
    /// Keys are the program's, as long as nothing else has them.
    pub(crate) is_live: bool,
    pub(crate) entry: TaskEntry,
    /// The snapshot whose moment is shown, of a recording.
    pub(crate) shown_snapshot: Option<u64>,
    /// The snapshot whose line was gone to, and the line at the window's top since then.
    pub(crate) last_stop: Option<(u64, u64)>,
    /// Something it asks of others.
    pub(crate) pending_effect: Option<Effect>,
    /// Why nothing can go on from what is looked at, where nothing can.
    pub(crate) no_entry_reason: Option<&'static str>,
    /// It is what an agent's tool runs in.
    pub(crate) is_tool: bool,
    /// Nothing that is done here reaches the program.
    pub(crate) read_only: bool,
    /// A recording is still being written.
    pub(crate) runs: bool,
    /// A branch was made here.
    pub(crate) has_branch: bool,
    /// The task entry of a recording was shown already.
    pub(crate) has_begun: bool,
    /// The help sheet is shown, from this row of it on.
    pub(crate) help: Option<u16>,
    /// The furthest row it can begin at.
    pub(crate) max_help_row: u16,
    pub(crate) tools: Tools,
    pub(crate) modal: Option<Modal>,
    pub(crate) pending: PendingKey,
    /// Esc was pressed once: once more leaves.
    pub(crate) is_leaving: bool,
    /// Esc was pressed while looking through lines: with it the next key has Alt.
    pub(crate) is_escaped: bool,
    /// A button of the mouse is held, and whose it is.
    pub(crate) held: Option<Held>,
    pub(crate) message: Option<String>,
    mode: Mode,
}

impl Viewer {
    /// On nothing yet.
    pub fn new(source: Source, bindings: Bindings) -> Viewer {
        let is_live = source == Source::Live;
        Viewer {
            source,
            bindings,
            pager: Pager::new(source),
            is_live,
            entry: TaskEntry::default(),
            shown_snapshot: None,
            last_stop: None,
            pending_effect: None,
            no_entry_reason: None,
            is_tool: false,
            read_only: false,
            runs: false,
            has_branch: false,
            has_begun: false,
            help: None,
            max_help_row: u16::MAX,
            tools: Tools::default(),
            modal: None,
            pending: PendingKey::None,
            is_leaving: false,
            is_escaped: false,
            held: None,
            message: None,
            mode: if is_live { Mode::Live } else { Mode::Scrolling },
        }
    }

    /// On a tool of an agent, from which nothing can go on: there is no task entry.
    #[must_use]
    pub fn without_entry(self) -> Viewer {
        let why = "nothing can go on from here: this is what a tool did";
        Viewer { no_entry_reason: Some(why), is_tool: true, has_begun: true, ..self }
    }

    /// On a program from which nothing can go on, and why.
    #[must_use]
    pub fn without_branches(self, why: &'static str) -> Viewer {
        Viewer { no_entry_reason: Some(why), ..self }
    }

    /// On a program that is only looked at: it is not ended from here, and nothing is told to its agent.
    #[must_use]
    pub fn read_only(self) -> Viewer {
        let why = "attached for reading only: 'nerve branch' tells the agent something at a snapshot";
        Viewer { no_entry_reason: self.no_entry_reason.or(Some(why)), read_only: true, ..self }
    }

    /// On a recording that is still being written: it can be gone on from its snapshots, and not from its end.
    #[must_use]
    pub fn still_recording(self) -> Viewer {
        Viewer { runs: true, ..self }
    }

    /// Takes what somebody does, who has that scene before him.
    pub fn input(&mut self, input: Input, frame: &FrameContext<'_>) -> Option<Effect> {
        let asked = match input {
            Input::Key(key) => self.handle_key(key, frame),
            Input::Paste(text) => self.handle_paste(text, frame),
            Input::Mouse(mouse) => self.handle_mouse(mouse, frame),
            Input::Focus(is_here) => {
                (self.source == Source::Live).then_some(Effect::Input(Input::Focus(is_here)))
            }
        };
        self.track_tool_typing(asked.as_ref());
        self.update_mode();
        asked.or_else(|| self.take_effect())
    }

    /// What it asks of others though nobody does anything; each is told once. To be looked for when it has been drawn.
    pub fn take_effect(&mut self) -> Option<Effect> {
        self.pending_effect.take()
    }

    /// Turns the wheel: so many lines down; up, if negative.
    pub fn wheel(&mut self, lines: i64) {
        self.scroll_lines(lines);
        self.update_mode();
    }

    // ---- What is to be shown ----

    /// What is looked at.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Which lines are in the window.
    pub fn viewport(&self) -> &Viewport {
        &self.pager.viewport
    }

    /// The column at the window's left, 0-based.
    pub fn left(&self) -> u16 {
        self.pager.left
    }

    /// What keys mean at the moment.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The prefix was typed, and the next key is for the viewer.
    pub fn is_prefix_pending(&self) -> bool {
        self.pending == PendingKey::Prefix
    }

    /// What the status tells of the viewer: who has drawn another has to draw anew.
    pub fn status_line(&self) -> StatusLine {
        StatusLine {
            mode: self.mode.clone(),
            is_prefix_pending: self.is_prefix_pending(),
            message: self.message().map(str::to_string),
        }
    }

    /// Which key does what.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// The keys for the branch that was made last, as they are typed here; `None` if it has none.
    pub fn keys_to_branch(&self) -> Option<String> {
        crate::status::keys_to(self, Operation::SwitchToBranch)
    }

    /// What is told who does something that only a program's own people can, with the keys that lead away.
    pub fn read_only_message(&self) -> String {
        let keys = crate::status::keys_to(self, Operation::Detach).unwrap_or_default();
        format!("attached for reading only: {keys} leaves")
    }

    /// Why no snapshot can be taken from here, where none can.
    pub(crate) fn no_snapshot_reason(&self) -> Option<&'static str> {
        match self.source {
            Source::Recording if self.runs => {
                Some("a recording takes no snapshots: 'nerve attach' shows what runs, and takes them")
            }
            Source::Recording => Some("the session has ended: it takes no snapshots any more"),
            Source::Live if self.is_tool => Some("a tool takes no snapshots: its agent does"),
            Source::Live if self.read_only => {
                Some("attached for reading only: 'nerve snapshot --session' takes one from elsewhere")
            }
            Source::Live => None,
        }
    }

    /// Something to be told, until the next key.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref().or(self.front_pager().message.as_deref())
    }

    /// A number that was typed before a key.
    pub fn number(&self) -> Option<u64> {
        self.front_pager().number
    }

    /// What is looked for, in the tool that is shown if one is.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.front_pager().pattern()
    }

    /// Which lines alone are shown, as it was typed.
    pub fn filter(&self) -> Option<&str> {
        self.front_pager().filter()
    }

    /// The line of the match that was gone to.
    pub fn found(&self) -> Option<u64> {
        self.front_pager().found()
    }

    /// The place of the match among all, 1-based if it is known already, and how many there are if all are counted.
    pub fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        self.front_pager().matches()
    }

    /// The task entry; where it is in the window, its rows in [`Viewer::viewport`] say.
    pub fn entry(&self) -> Option<&TaskEntry> {
        self.entry.target.is_some().then_some(&self.entry)
    }

    /// The tools, as they are listed.
    pub fn tools(&self) -> Listed<'_> {
        self.tools.listed()
    }

    /// The tools' modal.
    pub fn modal(&self) -> Option<&Modal> {
        self.modal.as_ref()
    }

    /// The id of the tool that is shown.
    pub fn shown_tool(&self) -> Option<&str> {
        Some(self.modal.as_ref()?.shown.as_ref()?.id.as_str())
    }

    // ---- What keys mean ----

    /// Where a key is pressed.
    pub(crate) fn context(&self) -> Context {
        match &self.modal {
            Some(Modal { shown: Some(shown), .. }) => {
                let runs = self.tools.get(&shown.id).is_some_and(Tool::is_running);
                if runs && !shown.scrolls { Context::Modal } else { Context::Scroll }
            }
            Some(Modal { shown: None, .. }) => Context::List,
            None if self.entry.target.is_some() => Context::Entry,
            None if self.is_live => Context::Live,
            None => Context::Scroll,
        }
    }

    /// The window that keys go through: a tool's, if one is shown.
    pub(crate) fn front_pager_mut(&mut self) -> &mut Pager {
        match &mut self.modal {
            Some(Modal { shown: Some(shown), .. }) => &mut shown.pager,
            _ => &mut self.pager,
        }
    }

    fn front_pager(&self) -> &Pager {
        match &self.modal {
            Some(Modal { shown: Some(shown), .. }) => &shown.pager,
            _ => &self.pager,
        }
    }

    pub(crate) fn update_mode(&mut self) {
        self.mode = match (self.pending, self.help) {
            (PendingKey::ConfirmEnd, _) => Mode::Confirm,
            (_, Some(row)) => Mode::Help(row),
            _ => match (&self.front_pager().prompt, self.context()) {
                (Some(prompt), _) => Mode::Prompt(prompt.shown()),
                (None, Context::List) => Mode::Tools,
                (None, Context::Modal) => Mode::Tool,
                (None, Context::Entry) => Mode::Entry,
                (None, Context::Live) => Mode::Live,
                (None, _) if self.modal.is_some() => Mode::ToolScrolling,
                (None, _) => Mode::Scrolling,
            },
        };
    }
}
