//! A viewer in the user's terminal: drawing, input, and the shown tool. Used for running programs and recordings.

use nerve_types::Size;
use nerve_vt::keys::Input;
use nerve_vt::terminal::TerminalState;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::terminal::pacing::FramePacer;
use crate::terminal::{Cursor, Tty};
use crate::tool_view::{OpenedTool, ToolEvent, ToolView};
use crate::view::document::Document;
use crate::view::draw::{Gutter, Layout, StatusInfo, draw};
use crate::view::regions::{FrameContext, Regions};
use crate::view::timeline::Timeline;
use crate::view::viewer::{Effect, Mode, Source, Submission, Viewer};

/// A request that the caller of a session performs. `Reason` is the reason for leaving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<Reason> {
    /// Leave the viewer.
    Leave(Reason),
    /// The program has ended: from now on another run may replace it.
    ShowNextRun,
    /// Create a branch.
    Branch(Submission),
    /// Save the state from which an unrecorded session can be branched: a task is being typed, and the session may end.
    KeepOrigin,
    /// Take a snapshot of the running program.
    TakeSnapshot,
    /// Leave, and show the branch made last.
    SwitchToBranch,
    /// Open the tool with this id ([`ViewerSession::show_tool`]).
    ShowTool(String),
}

/// Properties of a recording that are not in the shown terminal.
#[derive(Clone, Copy)]
pub(crate) struct RecordingContext<'a> {
    pub(crate) timeline: &'a Timeline,
    /// The recording's end, while another moment is shown.
    pub(crate) end: Option<&'a TerminalState>,
    /// The whole recording was read.
    pub(crate) is_loaded: bool,
}

/// A viewer with the shown tool and its frame pacing.
pub struct ViewerSession {
    pub(crate) viewer: Viewer,
    pub(crate) tools: ToolView,
    gutter: Gutter,
    has_colors: bool,
    pub(crate) pacing: FramePacer,
    regions: Regions,
    /// [`ViewerSession::advance_search`] should be called when idle.
    pub(crate) is_searching: bool,
}

impl ViewerSession {
    /// Creates a session.
    pub(crate) fn new(viewer: Viewer, gutter: Gutter, has_colors: bool) -> ViewerSession {
        let mut pacing = FramePacer::default();
        pacing.request();
        ViewerSession {
            viewer,
            tools: ToolView::default(),
            gutter,
            has_colors,
            pacing,
            regions: Regions::default(),
            is_searching: false,
        }
    }

    /// Returns the viewer, and requests a new frame.
    pub fn viewer_mut(&mut self) -> &mut Viewer {
        self.request_draw();
        &mut self.viewer
    }

    /// Requests a new frame.
    pub(crate) fn request_draw(&mut self) {
        self.pacing.request();
    }

    /// Shows a message until the next key.
    pub fn show_message(&mut self, message: &str) {
        self.viewer.show_message(message);
        self.request_draw();
    }

    /// Draws a frame and returns the window size.
    pub(crate) fn draw(
        &mut self,
        tty: &mut Tty,
        terminal: &TerminalState,
        recorded: Option<RecordingContext<'_>>,
        status_info: &StatusInfo,
    ) -> Size {
        let ViewerSession { viewer, tools, gutter, has_colors, regions, is_searching, .. } = self;
        tools.retain(viewer.shown_tool());
        let source = viewer.source();
        let documents = FrameDocuments::new(source, terminal, tools, recorded);
        let shown = tools.terminal(terminal);
        let mut window = Size::default();
        tty.draw(*has_colors, |buffer, decorations| {
            window = Size::new(buffer.area.width, buffer.area.height);
            let layout = Layout::new(source, buffer.area, terminal.size(), *gutter);
            *regions = layout.regions(viewer, shown.map(TerminalState::size), status_info.capabilities);
            viewer.set_regions(regions);
            viewer.update_document(&documents.main);
            *is_searching = viewer.advance_search(&documents.main);
            if let Some(tool) = &documents.tool {
                viewer.update_tool_document(tool);
                *is_searching |= viewer.advance_tool_search(tool);
            }
            let frame = documents.context(*regions);
            let drawn = draw(viewer, &frame, status_info, &layout, buffer, decorations);
            let style = match viewer.mode() {
                Mode::Live => terminal.cursor_style(),
                Mode::Tool => shown.map_or(0, TerminalState::cursor_style),
                _ => 0,
            };
            drawn.cursor.map(|(col, row)| Cursor { col, row, style })
        });
        self.pacing.record(Instant::now());
        window
    }

    /// Handles input and returns the effect to perform.
    pub(crate) fn input(
        &mut self,
        input: Input,
        terminal: &TerminalState,
        recorded: Option<RecordingContext<'_>>,
    ) -> Option<Effect> {
        let previous_status = self.viewer.status_line();
        let documents = FrameDocuments::new(self.viewer.source(), terminal, &self.tools, recorded);
        let effect = self.viewer.input(input, &documents.context(self.regions));
        // Input for the program changes nothing here unless the status line changes. Its echo should be drawn at
        // once.
        if !matches!(effect, Some(Effect::Input(_))) || self.viewer.status_line() != previous_status {
            self.pacing.request();
        }
        effect
    }

    /// Performs the effects that are common to programs and recordings. Returns what the caller has to do.
    pub(crate) fn apply<Reason>(&mut self, effect: Effect, tty: &mut Tty) -> Option<Request<Reason>> {
        match effect {
            Effect::Copy(text) => {
                tty.copy(&text);
                self.viewer.show_message("copied");
            }
            Effect::Redraw => tty.redraw(),
            Effect::ShowTool(id) => return Some(Request::ShowTool(id)),
            Effect::Branch(submission) => return Some(Request::Branch(submission)),
            Effect::SwitchToBranch => return Some(Request::SwitchToBranch),
            // The viewer has removed a dismissed tool already. Other effects are for the other kind of session.
            _ => {}
        }
        None
    }

    /// Shows a tool that is being opened. An error is the reason why it cannot be shown.
    pub fn show_tool(&mut self, id: String, opening: JoinHandle<Result<OpenedTool, String>>) {
        self.tools.show(id, opening);
        self.request_draw();
    }

    /// Handles a change to the shown tool.
    pub(crate) fn handle_tool_event(&mut self, event: ToolEvent) {
        match event {
            ToolEvent::Changed => {}
            ToolEvent::Loaded(by) => self.viewer.renumber_tool(by),
            ToolEvent::Fault(fault) => self.viewer.show_message(&fault),
        }
        self.request_draw();
    }

    /// Advances the search by one step.
    pub(crate) fn advance_search(&mut self, terminal: &TerminalState) {
        let documents = FrameDocuments::new(self.viewer.source(), terminal, &self.tools, None);
        self.is_searching = self.viewer.advance_search(&documents.main);
        if let Some(tool) = &documents.tool {
            self.is_searching |= self.viewer.advance_tool_search(tool);
        }
        self.request_draw();
    }
}

/// The documents of a frame, which [`FrameContext`] borrows.
struct FrameDocuments<'a> {
    main: Document<'a>,
    end: Option<Document<'a>>,
    tool: Option<Document<'a>>,
    timeline: Option<&'a Timeline>,
}

impl<'a> FrameDocuments<'a> {
    fn new(
        source: Source,
        terminal: &'a TerminalState,
        tools: &'a ToolView,
        recorded: Option<RecordingContext<'a>>,
    ) -> FrameDocuments<'a> {
        let main = match source {
            Source::Live => Document::live(terminal),
            Source::Recording => Document::recorded(terminal),
        };
        let end = recorded.and_then(|recorded| recorded.end).map(Document::recorded);
        // Only the recording's end is incomplete while the recording is being read.
        let (main, end) = match end {
            _ if recorded.is_none_or(|recorded| recorded.is_loaded) => (main, end),
            Some(end) => (main, Some(end.loading_earlier())),
            None => (main.loading_earlier(), None),
        };
        let tool = tools.terminal(terminal).map(Document::live);
        FrameDocuments { main, end, tool, timeline: recorded.map(|recorded| recorded.timeline) }
    }

    fn context(&self, regions: Regions) -> FrameContext<'_> {
        let FrameDocuments { main, end, tool, timeline } = self;
        FrameContext { document: main, end: end.as_ref(), tool: tool.as_ref(), timeline: *timeline, regions }
    }
}
