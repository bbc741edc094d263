//! The event loop of a viewer on a running program.

use std::fs;
use std::time::Duration;

use nerve_host::EXECUTION;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_vt::keys::{Input, Key};
use nerve_vt::terminal::{LineIndex, TerminalState};
use tokio::time::Instant;

use super::tool_list::empty_reason;
use super::{ExitReason, NOTHING_KEPT, ViewerOptions};
use crate::mirror::{MAX_CLIPBOARD, MirrorEvent, OscPassthrough, TerminalMirror};
use crate::terminal::{TerminalEvent, Tty, UserTerminal, pacing};
use crate::tool_view::{SendResult, ToolEvent, ToolView};
use crate::view::draw::StatusInfo;
use crate::view::layout::Layout;
use crate::view::viewer::{Effect, Mode, Source, Viewer};
use crate::viewer_session::{Request, ViewerSession};

/// Maximum number of faults reported at the end.
const MAX_FAULTS: usize = 20;
/// Delay until new output has certainly reached the recording.
const FLUSH_DELAY: Duration = Duration::from_millis(500);

/// A running program and its viewer.
pub struct LiveSession {
    /// The program's terminal.
    pub mirror: TerminalMirror,
    /// The viewer.
    pub session: ViewerSession,
    options: ViewerOptions,
    /// Program size last sent to the host.
    program_size: Option<Size>,
    /// Time to read the recording's size again.
    size_due: Option<Instant>,
    /// A bell to pass on with the next frame.
    bell_pending: bool,
    interrupted: bool,
    /// Exit status of a program whose output is still shown.
    ended: Option<ExitStatus>,
    faults: Vec<String>,
}

/// Events other than terminal input.
enum LiveEvent {
    Mirror(MirrorEvent),
    Tool(ToolEvent),
}

/// Returns the next event. The order is random, so that a busy source does not starve the other.
async fn next_event(mirror: &mut TerminalMirror, tools: &mut ToolView) -> LiveEvent {
    tokio::select! {
        event = mirror.next() => LiveEvent::Mirror(event),
        event = tools.next() => LiveEvent::Tool(event),
    }
}

impl LiveSession {
    /// Creates the viewer of a program.
    pub fn new(mirror: TerminalMirror, options: ViewerOptions) -> LiveSession {
        let mut viewer = Viewer::new(Source::Live, options.bindings.clone());
        if let Some(notice) = options.notice {
            viewer.show_message(notice);
        }
        // A tool's terminal cannot be branched from.
        let is_tool = is_tool(&mirror);
        let viewer = match mirror.entry().session_file() {
            _ if is_tool => viewer.without_entry(),
            Some(_) => viewer,
            None => viewer.without_branches(NOTHING_KEPT),
        };
        let mut viewer = if options.read_only { viewer.read_only() } else { viewer };
        viewer.explain_no_tools(empty_reason(mirror.entry(), mirror.reports_tools()));
        LiveSession {
            session: ViewerSession::new(viewer, options.gutter, options.has_colors),
            mirror,
            options,
            program_size: None,
            size_due: None,
            bell_pending: false,
            interrupted: false,
            ended: None,
            faults: Vec::new(),
        }
    }

    /// Sets the window title that is used until the program sets one: a tool's command.
    pub fn set_title(&self, tty: &mut Tty) {
        if is_tool(&self.mirror) {
            tty.title(&self.options.name);
        }
    }

    /// Runs until the caller has to do something. Cancel-safe.
    pub async fn next(&mut self, user_terminal: &mut UserTerminal) -> Request<ExitReason> {
        loop {
            if let Some(exit) = self.finished() {
                // The last frame is not drawn any more.
                self.pass_osc(&mut user_terminal.tty);
                return Request::Leave(ExitReason::Ended(exit));
            }
            let is_searching = self.session.is_searching;
            let ViewerSession { tools, pacing, .. } = &mut self.session;
            tokio::select! {
                biased;
                event = user_terminal.next_event(pacing) => match event {
                    TerminalEvent::DrawDue => self.draw(&mut user_terminal.tty),
                    TerminalEvent::Closed(signal) => return Request::Leave(ExitReason::Closed(signal)),
                    TerminalEvent::Input(input) => {
                        if let Some(request) = self.handle_input(input, &mut user_terminal.tty) {
                            return request;
                        }
                    }
                },
                () = pacing::until(self.size_due) => {
                    self.size_due = None;
                    self.session.request_draw();
                }
                event = next_event(&mut self.mirror, tools) => {
                    let was_running = !self.has_ended();
                    match event {
                        LiveEvent::Mirror(event) => self.handle_mirror_event(event, &mut user_terminal.tty),
                        LiveEvent::Tool(event) => self.session.handle_tool_event(event),
                    }
                    if was_running && self.has_ended() {
                        return Request::ShowNextRun;
                    }
                    // Yields even under a flood of output, so that the caller's jobs make progress.
                    tokio::task::yield_now().await;
                }
                () = async {}, if is_searching => {
                    self.session.advance_search(self.mirror.terminal());
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Returns true if the program has ended and its output is still shown.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns true if the user has interrupted the program.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Takes the problems to report once the terminal is restored.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Replaces the ended program by another run. `notice` is shown at first.
    pub fn show_next_run(
        &mut self,
        mirror: TerminalMirror,
        name: String,
        notice: Option<&'static str>,
        tty: &mut Tty,
    ) {
        let options = ViewerOptions { name, notice, ..self.options.clone() };
        let faults = self.take_faults();
        tty.title(&options.name);
        // The progress was that of the previous run.
        tty.progress(0, 0);
        *self = LiveSession { faults, ..LiveSession::new(mirror, options) };
    }

    /// Draws a frame and sends the available size to the host.
    fn draw(&mut self, tty: &mut Tty) {
        let status_info = self.status_info(tty);
        let window = self.session.draw(tty, self.mirror.terminal(), None, &status_info);
        self.pass_osc(tty);
        let program_size = Layout::program_size(window.cols, window.rows, self.options.gutter);
        if self.program_size.replace(program_size) != Some(program_size) {
            self.mirror.set_size(program_size);
        }
    }

    /// Passes on the program's clipboard texts, notifications and progress.
    fn pass_osc(&mut self, tty: &mut Tty) {
        if std::mem::take(&mut self.bell_pending) {
            tty.ring();
        }
        let OscPassthrough { clipboard, too_long, notifications, progress } = self.mirror.take_passthrough();
        notifications.iter().for_each(|notification| tty.notify(notification));
        progress.into_iter().for_each(|(state, value)| tty.progress(state, value));
        // A read-only viewer does not touch the clipboard.
        if !self.options.clipboard || self.options.read_only {
            return;
        }
        clipboard.iter().for_each(|text| tty.clipboard(text));
        if let Some(bytes) = too_long {
            let (bytes, most) = (bytes / 1000, MAX_CLIPBOARD / 4 * 3 / 1000);
            self.show_message(&format!(
                "the program has copied {bytes} kB, more than the clipboard limit of {most} kB"
            ));
        }
    }

    fn status_info(&self, tty: &Tty) -> StatusInfo {
        let (word, evidence) = self.mirror.state();
        let recording = self.mirror.entry().recording.as_ref();
        let recorded = recording.and_then(|path| fs::metadata(path).ok()).map(|meta| meta.len());
        let ended = self.ended.map(|_| "the program has ended".to_string());
        let catching_up = self.mirror.is_catching_up().then(|| "loading earlier output …".to_string());
        StatusInfo {
            name: self.options.name.clone(),
            fault: self.faults.last().cloned().or(ended).or(catching_up),
            state: Some((word.to_string(), evidence)),
            recorded,
            unrecorded: recording.is_none() && !is_tool(&self.mirror),
            begin: Some(TsNs(self.mirror.entry().started)),
            capabilities: tty.capabilities(),
            ..StatusInfo::default()
        }
    }

    /// Returns the exit status if the viewer should close. An open task entry keeps it open.
    fn finished(&self) -> Option<ExitStatus> {
        self.ended.filter(|_| match self.session.viewer.mode() {
            Mode::Live => true,
            Mode::Entry => false,
            _ => !self.options.stay,
        })
    }

    fn handle_mirror_event(&mut self, event: MirrorEvent, tty: &mut Tty) {
        self.session.request_draw();
        match event {
            MirrorEvent::Changed => self.size_due = Some(Instant::now() + FLUSH_DELAY),
            MirrorEvent::Title => tty.title(self.mirror.terminal().title()),
            MirrorEvent::Bell => self.bell_pending = true,
            MirrorEvent::Fault(fault) => {
                if self.faults.len() == MAX_FAULTS {
                    self.faults.remove(0);
                }
                self.faults.push(fault);
            }
            MirrorEvent::Ended(exit) => {
                self.ended = Some(exit);
                if self.options.stay {
                    self.session.viewer.program_ended();
                }
                self.session.viewer.show_message("the program has ended");
            }
        }
    }

    fn handle_input(&mut self, input: Input, tty: &mut Tty) -> Option<Request<ExitReason>> {
        let Some(effect) = self.session.input(input, self.mirror.terminal(), None) else {
            let may_be_lost = self.ended.is_none() && self.mirror.entry().recording.is_none();
            let is_typing = *self.session.viewer.mode() == Mode::Entry;
            return (may_be_lost && is_typing).then_some(Request::KeepOrigin);
        };
        match effect {
            Effect::Input(input) => self.send_to_program(&input),
            Effect::ToolInput(input) => self.send_to_tool(&input),
            Effect::Detach => return Some(Request::Leave(ExitReason::Detached)),
            Effect::Quit => return Some(Request::Leave(self.exit_reason())),
            Effect::EndProgram if self.options.read_only => self.show_message("attached read-only"),
            Effect::EndProgram => self.mirror.stop(),
            Effect::Branch(_) if self.options.read_only => {
                self.session.viewer.branch_failed("attached read-only: use 'nerve branch'");
            }
            Effect::TakeSnapshot if self.ended.is_some() => {
                self.show_message("no snapshot: the program has ended");
            }
            Effect::TakeSnapshot => return Some(Request::TakeSnapshot),
            other => return self.session.apply(other, tty),
        }
        None
    }

    /// Returns the reason for leaving now: the program has ended, or continues without a viewer.
    pub fn exit_reason(&self) -> ExitReason {
        self.ended.map_or(ExitReason::Detached, ExitReason::Ended)
    }

    /// Sends input to the program in the form that it expects.
    fn send_to_program(&mut self, input: &Input) {
        if input.bytes(self.mirror.terminal().modes()).is_empty() {
            return;
        }
        if self.options.read_only {
            if matches!(input, Input::Key(_) | Input::Paste(_)) {
                let notice = self.session.viewer.read_only_message();
                self.show_message(&notice);
            }
        } else if !self.mirror.send(input) {
            self.show_message("the program is not accepting input");
        } else if *input == Input::Key(Key::ctrl('c')) {
            self.interrupted = true;
        }
    }

    fn send_to_tool(&mut self, input: &Input) {
        if self.options.read_only {
            return self.show_message("attached read-only");
        }
        match self.session.tools.send(input) {
            SendResult::Sent => {}
            SendResult::ForAgent => {
                // The input is recorded as injected.
                if !self.mirror.send_as(input, Origin::Injected) {
                    self.show_message("the program is not accepting input");
                }
            }
            SendResult::Rejected(reason) => self.show_message(reason),
        }
    }

    fn show_message(&mut self, message: &str) {
        self.session.show_message(message);
    }

    /// Returns the last lines of the main screen.
    pub fn last_lines(&self) -> Vec<String> {
        last_lines(self.mirror.terminal(), self.options.has_colors)
    }

    /// Returns the program's terminal and the options.
    pub fn into_parts(self) -> (TerminalMirror, ViewerOptions) {
        (self.mirror, self.options)
    }
}

/// Returns true if the program is an agent's tool.
fn is_tool(mirror: &TerminalMirror) -> bool {
    mirror.entry().label.get(EXECUTION).is_some()
}

/// Returns the last lines of the main screen, without trailing empty ones.
fn last_lines(terminal: &TerminalState, has_colors: bool) -> Vec<String> {
    let end = terminal.line_count();
    let from = terminal.first_kept_line().0.max(end.saturating_sub(terminal.size().rows.into()));
    let is_blank =
        |line: &u64| terminal.line_text(LineIndex(*line)).is_none_or(|text| text.trim().is_empty());
    let filled = (from..end).rev().find(|line| !is_blank(line)).map_or(from, |last| last + 1);
    let line = |line| match has_colors {
        true => terminal.line_content(LineIndex(line)),
        false => terminal.line_text(LineIndex(line)),
    };
    (from..filled).map(|number| line(number).unwrap_or_default()).collect()
}
