//! The viewer's state machine: input events and documents in, effects and frames out. It reads no clock and does no
//! I/O.

use crate::bindings::Bindings;
pub use crate::effect::{Effect, Mode, PromptKind, PromptView, Source, Submission};
use crate::keys::{Context, Input, Operation};
use crate::mouse::PressedButton;
use crate::pager::Pager;
use crate::regions::FrameContext;
use crate::search::Pattern;
pub use crate::search::session::LINES_PER_STEP;
pub use crate::task_entry::{Target, TaskEntry};
use crate::tools::{Listed, Modal, Tool, Tools};
use crate::viewport::Viewport;

/// Use of the next key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PendingKey {
    /// The usual meaning.
    #[default]
    None,
    /// The key after the prefix.
    Prefix,
    /// The command after a colon.
    Colon,
    /// The answer to the confirmation for ending the program.
    ConfirmEnd,
}

/// The viewer's part of the status line; compared to see whether a redraw is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine {
    mode: Mode,
    is_prefix_pending: bool,
    message: Option<String>,
}

/// The viewer of a running program or a recording.
#[derive(Debug, Clone)]
pub struct Viewer {
    pub(crate) source: Source,
    pub(crate) bindings: Bindings,
    pub(crate) pager: Pager,
    /// Keys go to the program unless something else has the focus.
    pub(crate) is_live: bool,
    pub(crate) entry: TaskEntry,
    /// The snapshot whose screen is shown, in a recording.
    pub(crate) shown_snapshot: Option<u64>,
    /// The last snapshot navigated to, and the top line since then.
    pub(crate) last_stop: Option<(u64, u64)>,
    /// Effect to be taken by the caller after drawing.
    pub(crate) pending_effect: Option<Effect>,
    /// Reason why no branch can be created here.
    pub(crate) no_entry_reason: Option<&'static str>,
    /// The terminal is that of an agent's tool.
    pub(crate) is_tool: bool,
    /// Input never reaches the program.
    pub(crate) read_only: bool,
    /// The recording is still being written.
    pub(crate) runs: bool,
    /// A branch was created from this viewer.
    pub(crate) has_branch: bool,
    /// The task entry was opened initially.
    pub(crate) has_begun: bool,
    /// First visible row of the help sheet, while it is open.
    pub(crate) help: Option<u16>,
    /// Last row of the sheet that can be at the top.
    pub(crate) max_help_row: u16,
    pub(crate) tools: Tools,
    pub(crate) modal: Option<Modal>,
    pub(crate) pending: PendingKey,
    /// Esc was pressed once; a second one leaves.
    pub(crate) is_leaving: bool,
    /// Esc was pressed in scroll mode and gives the next key Alt.
    pub(crate) is_escaped: bool,
    /// The mouse button that is held.
    pub(crate) held: Option<PressedButton>,
    pub(crate) message: Option<String>,
    mode: Mode,
}

impl Viewer {
    /// Creates a viewer without a document.
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

    /// Disables the task entry: the terminal is that of an agent's tool.
    #[must_use]
    pub fn without_entry(self) -> Viewer {
        let why = "no branches from a tool's output";
        Viewer { no_entry_reason: Some(why), is_tool: true, has_begun: true, ..self }
    }

    /// Disables branches, for this reason.
    #[must_use]
    pub fn without_branches(self, why: &'static str) -> Viewer {
        Viewer { no_entry_reason: Some(why), ..self }
    }

    /// Forbids input and branches.
    #[must_use]
    pub fn read_only(self) -> Viewer {
        let why = "attached read-only: use 'nerve branch' to branch from a snapshot";
        Viewer { no_entry_reason: self.no_entry_reason.or(Some(why)), read_only: true, ..self }
    }

    /// Marks the recording as still being written: branches are possible at snapshots, but not at the end.
    #[must_use]
    pub fn still_recording(self) -> Viewer {
        Viewer { runs: true, ..self }
    }

    /// Handles an input event that refers to `frame`, and returns the effect to perform.
    pub fn input(&mut self, input: Input, frame: &FrameContext<'_>) -> Option<Effect> {
        let effect = match input {
            Input::Key(key) => self.handle_key(key, frame),
            Input::Paste(text) => self.handle_paste(text, frame),
            Input::Mouse(mouse) => self.handle_mouse(mouse, frame),
            Input::Focus(is_here) => {
                (self.source == Source::Live).then_some(Effect::Input(Input::Focus(is_here)))
            }
        };
        self.track_tool_typing(effect.as_ref());
        self.update_mode();
        effect.or_else(|| self.take_effect())
    }

    /// Takes the effect that was requested while drawing. Call it after each frame.
    pub fn take_effect(&mut self) -> Option<Effect> {
        self.pending_effect.take()
    }

    /// Scrolls down by this many lines; up if negative.
    pub fn wheel(&mut self, lines: i64) {
        self.scroll_lines(lines);
        self.update_mode();
    }

    // ---- State to draw ----

    /// Returns what is shown: a running program or a recording.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the main window's viewport.
    pub fn viewport(&self) -> &Viewport {
        &self.pager.viewport
    }

    /// Returns the first visible column, 0-based.
    pub fn left(&self) -> u16 {
        self.pager.left
    }

    /// Returns the current mode.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Returns true after the prefix was typed.
    pub fn is_prefix_pending(&self) -> bool {
        self.pending == PendingKey::Prefix
    }

    /// Returns the viewer's part of the status line. If it differs from the drawn one, redraw.
    pub fn status_line(&self) -> StatusLine {
        StatusLine {
            mode: self.mode.clone(),
            is_prefix_pending: self.is_prefix_pending(),
            message: self.message().map(str::to_string),
        }
    }

    /// Returns the key bindings.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Returns the keys that switch to the branch made last; `None` if they are unbound.
    pub fn keys_to_branch(&self) -> Option<String> {
        crate::status::keys_to(self, Operation::SwitchToBranch)
    }

    /// Returns the message for input that is ignored in read-only mode.
    pub fn read_only_message(&self) -> String {
        let keys = crate::status::keys_to(self, Operation::Detach).unwrap_or_default();
        format!("attached read-only: {keys} leaves")
    }

    /// Returns why no snapshot can be taken.
    pub(crate) fn no_snapshot_reason(&self) -> Option<&'static str> {
        match self.source {
            Source::Recording if self.runs => {
                Some("recordings take no snapshots: use 'nerve attach' for the running session")
            }
            Source::Recording => Some("no snapshot: the session has ended"),
            Source::Live if self.is_tool => Some("a tool takes no snapshots: its agent does"),
            Source::Live if self.read_only => {
                Some("attached read-only: 'nerve snapshot --session' takes one from elsewhere")
            }
            Source::Live => None,
        }
    }

    /// Returns the message to show until the next key.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref().or(self.front_pager().message.as_deref())
    }

    /// Returns the count typed before a key.
    pub fn number(&self) -> Option<u64> {
        self.front_pager().number
    }

    /// Returns the pattern highlighted in the focused window.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.front_pager().pattern()
    }

    /// Returns the filter of the focused window, as typed.
    pub fn filter(&self) -> Option<&str> {
        self.front_pager().filter()
    }

    /// Returns the line of the current match.
    pub fn found(&self) -> Option<u64> {
        self.front_pager().found()
    }

    /// Returns the 1-based position of the current match, if known, and the number of matches, if counted.
    pub fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        self.front_pager().matches()
    }

    /// Returns the task entry if it is open. The viewport knows its rows.
    pub fn entry(&self) -> Option<&TaskEntry> {
        self.entry.target.is_some().then_some(&self.entry)
    }

    /// Returns the tools in list order.
    pub fn tools(&self) -> Listed<'_> {
        self.tools.listed()
    }

    /// Returns the tools modal if it is open.
    pub fn modal(&self) -> Option<&Modal> {
        self.modal.as_ref()
    }

    /// Returns the id of the shown tool.
    pub fn shown_tool(&self) -> Option<&str> {
        Some(self.modal.as_ref()?.shown.as_ref()?.id.as_str())
    }

    // ---- Key context ----

    /// Returns the context that keys are looked up in.
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

    /// Returns the focused window: the shown tool's, otherwise the main one.
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
