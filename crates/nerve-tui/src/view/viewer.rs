//! The viewer's state machine: input events and documents in, effects and frames out. It reads no clock and does no
//! I/O.

use unicode_width::UnicodeWidthStr;

use crate::view::bindings::Bindings;
pub use crate::view::effect::{Effect, Mode, PromptKind, PromptView, Source, Submission};
use crate::view::help::HelpSheet;
use crate::view::keys::{Button, Context, Input, Operation};
use crate::view::pager::Pager;
use crate::view::regions::FrameContext;
use crate::view::search::Pattern;
use crate::view::snapshot_view::SnapshotView;
use crate::view::subject::{Branches, RecordingState, Subject};
pub use crate::view::task_entry::{Target, TaskEntry};
use crate::view::tools::{Modal, ShownTool, Tool};
use crate::view::tools_panel::ToolsPanel;
use crate::view::viewport::Viewport;

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
    /// Esc leaves.
    Leave,
    /// Esc leaves, and any other key gets Alt.
    LeaveOrAlt,
}

/// Owner of the keys in the main window while the task entry is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    /// Keys go to the program.
    Program,
    /// Keys scroll the lines.
    Lines,
}

/// A held button and the owner of its press, who receives all events until the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PressedButton {
    pub(crate) button: Button,
    pub(crate) by: Owner,
}

/// Receiver of a button press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Program,
    Tool,
    Viewer,
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
    pub(crate) subject: Subject,
    pub(crate) branches: Branches,
    pub(crate) bindings: Bindings,
    pub(crate) pager: Pager,
    pub(crate) focus: Focus,
    pub(crate) entry: TaskEntry,
    pub(crate) snapshot_view: SnapshotView,
    pub(crate) help: HelpSheet,
    pub(crate) tools: ToolsPanel,
    pub(crate) pending: PendingKey,
    /// The mouse button that is held.
    pub(crate) held: Option<PressedButton>,
    pub(crate) message: Option<String>,
    mode: Mode,
}

impl Viewer {
    /// Creates a viewer without a document.
    pub fn new(source: Source, bindings: Bindings) -> Viewer {
        let (focus, mode, entry) = match source {
            Source::Live => (Focus::Program, Mode::Live, TaskEntry::default()),
            Source::Recording => (Focus::Lines, Mode::Scrolling, TaskEntry::opened_initially()),
        };
        Viewer {
            subject: Subject::new(source),
            branches: Branches::None,
            bindings,
            pager: Pager::default(),
            focus,
            entry,
            snapshot_view: SnapshotView::default(),
            help: HelpSheet::default(),
            tools: ToolsPanel::default(),
            pending: PendingKey::None,
            held: None,
            message: None,
            mode,
        }
    }

    /// Disables the task entry: the terminal is that of an agent's tool.
    #[must_use]
    pub fn without_entry(mut self) -> Viewer {
        self.branches = Branches::Forbidden("no branches from a tool's output");
        self.subject = self.subject.as_tool();
        self.entry.opens_initially = false;
        self
    }

    /// Leaves the task entry of a recording closed at the start, so that no key can submit a task by mistake.
    #[must_use]
    pub fn with_closed_entry(mut self) -> Viewer {
        self.entry.opens_initially = false;
        self
    }

    /// Disables branches, for this reason.
    #[must_use]
    pub fn without_branches(self, reason: &'static str) -> Viewer {
        Viewer { branches: Branches::Forbidden(reason), ..self }
    }

    /// Forbids input and branches.
    #[must_use]
    pub fn read_only(self) -> Viewer {
        let reason = "attached read-only: use 'nerve branch' to branch from a snapshot";
        Viewer { branches: self.branches.forbid(reason), subject: self.subject.read_only(), ..self }
    }

    /// Marks the recording as still being written: branches are possible at snapshots, but not at the end.
    #[must_use]
    pub fn still_recording(self) -> Viewer {
        Viewer { subject: Subject::Recording(RecordingState::Growing), ..self }
    }

    /// Handles an input event that refers to `frame`, and returns the effect to perform.
    pub fn input(&mut self, input: Input, frame: &FrameContext<'_>) -> Option<Effect> {
        let effect = match input {
            Input::Key(key) => self.handle_key(key, frame),
            Input::Paste(text) => self.handle_paste(text, frame),
            Input::Mouse(mouse) => self.handle_mouse(mouse, frame),
            Input::Focus(is_here) => {
                (self.source() == Source::Live).then_some(Effect::Input(Input::Focus(is_here)))
            }
        };
        self.tools.track_typing(effect.as_ref());
        self.update_mode();
        effect.or_else(|| self.take_effect())
    }

    /// Takes the effect that was requested while drawing. Call it after each frame.
    pub fn take_effect(&mut self) -> Option<Effect> {
        self.snapshot_view.take_seek()
    }

    /// Scrolls down by this many lines; up if negative.
    pub fn wheel(&mut self, lines: i64) {
        self.scroll_lines(lines);
        self.update_mode();
    }

    // ---- State to draw ----

    /// Returns what is shown: a running program or a recording.
    pub fn source(&self) -> Source {
        self.subject.source()
    }

    /// Returns the main window's viewport.
    pub fn viewport(&self) -> &Viewport {
        &self.pager.viewport
    }

    /// Returns the first visible column, 0-based.
    pub fn left(&self) -> u16 {
        self.pager.left()
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
        self.keys_to(Operation::SwitchToBranch)
    }

    /// Returns the keys of an operation in the current context, including the prefix if necessary.
    pub(crate) fn keys_to(&self, operation: Operation) -> Option<String> {
        let context = self.context();
        self.shortest_key(context, operation).or_else(|| {
            let prefix = self.shortest_key(context, Operation::Prefix)?;
            Some(format!("{prefix} {}", self.shortest_key(Context::Prefix, operation)?))
        })
    }

    /// Returns the shortest key name of an operation.
    pub(crate) fn shortest_key(&self, context: Context, operation: Operation) -> Option<String> {
        let names = self.bindings.keys_in(context, operation).into_iter();
        names.min_by_key(|name| (name.width(), name.chars().any(char::is_uppercase)))
    }

    /// Returns the message for input that is ignored in read-only mode.
    pub(crate) fn read_only_message(&self) -> String {
        let keys = self.keys_to(Operation::Detach).unwrap_or_default();
        format!("attached read-only: {keys} leaves")
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
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> + Clone {
        self.tools.list.iter()
    }

    /// Returns the tools modal if it is open.
    pub fn modal(&self) -> Option<&Modal> {
        self.tools.modal.as_ref()
    }

    /// Returns the id of the shown tool.
    pub fn shown_tool(&self) -> Option<&str> {
        Some(self.tools.shown()?.id())
    }

    // ---- Key context ----

    /// Returns the context that keys are looked up in.
    pub(crate) fn context(&self) -> Context {
        self.tools.context().unwrap_or(match self.focus {
            _ if self.entry.target.is_some() => Context::Entry,
            Focus::Program => Context::Live,
            Focus::Lines => Context::Scroll,
        })
    }

    /// Returns the focused window: the shown tool's, otherwise the main one.
    pub(crate) fn front_pager_mut(&mut self) -> &mut Pager {
        self.tools.shown_mut().map_or(&mut self.pager, |shown| &mut shown.pager)
    }

    fn front_pager(&self) -> &Pager {
        self.tools.shown().map_or(&self.pager, ShownTool::pager)
    }

    pub(crate) fn update_mode(&mut self) {
        self.mode = match (self.pending, self.help.row()) {
            (PendingKey::ConfirmEnd, _) => Mode::Confirm,
            (_, Some(row)) => Mode::Help(row),
            _ => match (&self.front_pager().prompt, self.context()) {
                (Some(prompt), _) => Mode::Prompt(prompt.shown()),
                (None, Context::List) => Mode::Tools,
                (None, Context::Modal) => Mode::Tool,
                (None, Context::Entry) => Mode::Entry,
                (None, Context::Live) => Mode::Live,
                (None, _) if self.modal().is_some() => Mode::ToolScrolling,
                (None, _) => Mode::Scrolling,
            },
        };
    }
}
