//! The event loop of a viewer on a running program.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use nerve_host::EXECUTION;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_tui::view::draw::StatusInfo;
use nerve_tui::view::layout::Layout;
use nerve_tui::view::viewer::{Effect, Mode, Source, Viewer};
use nerve_vt::keys::{Input, Key};
use nerve_vt::terminal::{LineIndex, TerminalState};
use tokio::time::Instant;

use super::background::{self, Background};
use super::branch_job::NOTHING_KEPT;
use super::mirror::{MirrorEvent, TerminalMirror};
use super::osc_passthrough::{MAX_CLIPBOARD, OscPassthrough};
use super::target::AttachTarget;
use super::tool_list::empty_reason;
use super::tool_streams::SendResult;
use super::viewer_session::{TerminalEvent, UserTerminal, ViewerSession, next_terminal_event};
use super::{ExitReason, ViewerOptions};
use crate::cmd::show::follow::{self, NextRuns, Run};
use crate::exit::FAILED;
use crate::tty::{Tty, pacing};

/// Maximum number of faults reported at the end.
const MAX_FAULTS: usize = 20;
/// Delay until new output has certainly reached the recording.
const FLUSH_DELAY: Duration = Duration::from_millis(500);

/// The program and its viewer.
pub(super) struct Live {
    pub(super) mirror: TerminalMirror,
    session: ViewerSession,
    options: ViewerOptions,
    /// Program size last sent to the host.
    program_size: Option<Size>,
    /// Time to read the recording's size again.
    size_due: Option<Instant>,
    /// A bell to pass on with the next frame.
    bell_pending: bool,
    /// The user has interrupted the program.
    pub(super) interrupted: bool,
    /// Exit status of a program whose output is still shown.
    ended: Option<ExitStatus>,
    pub(super) faults: Vec<String>,
    /// Next target.
    pub(super) switch_to: Option<AttachTarget>,
    /// Runs to show after this one has ended.
    next_runs: Option<NextRuns>,
}

/// Events other than terminal input.
enum LiveEvent {
    Mirror(Result<MirrorEvent>),
    Background(background::BackgroundEvent),
}

/// Returns the next event. The order is random, so that a busy source does not starve the other.
async fn next_event(mirror: &mut TerminalMirror, background: &mut Background) -> LiveEvent {
    tokio::select! {
        event = mirror.next() => LiveEvent::Mirror(event),
        event = background.next() => LiveEvent::Background(event),
    }
}

impl Live {
    pub(super) fn new(mirror: TerminalMirror, options: ViewerOptions) -> Live {
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
        let background = Background::for_host(mirror.entry());
        viewer.explain_no_tools(empty_reason(mirror.entry(), mirror.reports_tools()));
        Live {
            session: ViewerSession::new(viewer, background, options.gutter, options.coloured),
            mirror,
            options,
            program_size: None,
            size_due: None,
            bell_pending: false,
            interrupted: false,
            ended: None,
            faults: Vec::new(),
            switch_to: None,
            next_runs: None,
        }
    }

    /// Shows the next run when this one has ended.
    pub(super) fn with_next_runs(self, next_runs: Option<NextRuns>) -> Live {
        Live { next_runs, ..self }
    }

    /// Runs until the user leaves or the program ends.
    pub(super) async fn run(&mut self, user_terminal: &mut UserTerminal) -> Result<ExitReason> {
        if is_tool(&self.mirror) {
            // Used until the program sets a title.
            user_terminal.tty.title(&self.options.name);
        }
        loop {
            if let Some(exit) = self.finished() {
                // The last frame is not drawn any more.
                self.pass_osc(&mut user_terminal.tty);
                return Ok(ExitReason::Ended(exit));
            }
            let is_searching = self.session.is_searching;
            let ViewerSession { background, pacing, .. } = &mut self.session;
            tokio::select! {
                biased;
                event = next_terminal_event(pacing, user_terminal) => match event {
                    TerminalEvent::DrawDue => self.draw(&mut user_terminal.tty),
                    TerminalEvent::Signal(number) => return Ok(ExitReason::Closed(128 + number)),
                    TerminalEvent::Closed => return Ok(ExitReason::Closed(FAILED)),
                    TerminalEvent::Input(input) => if let Some(left) = self.handle_input(input, &mut user_terminal.tty) {
                        return Ok(left);
                    },
                },
                () = pacing::until(self.size_due) => {
                    self.size_due = None;
                    self.session.request_draw();
                }
                event = next_event(&mut self.mirror, background) => {
                    match event {
                        LiveEvent::Mirror(event) => self.handle_mirror_event(event?, &mut user_terminal.tty),
                        LiveEvent::Background(event) => self.session.handle_background_event(event),
                    }
                    // Yields even under a flood of output, so that background jobs make progress.
                    tokio::task::yield_now().await;
                }
                run = follow::next(&mut self.next_runs), if self.ended.is_some() => self.show_next_run(run, &mut user_terminal.tty),
                () = async {}, if is_searching => self.session.advance_search(self.mirror.terminal()),
            }
        }
    }

    /// Replaces the ended run by the next one.
    fn show_next_run(&mut self, run: Result<Run>, tty: &mut Tty) {
        let Run { mirror, name, notice } = match run {
            Ok(run) => run,
            Err(error) => {
                self.next_runs = None;
                return self.show_message(&format!("{error:#}"));
            }
        };
        let options = ViewerOptions { name, notice, ..self.options.clone() };
        let (next_runs, faults) = (self.next_runs.take(), std::mem::take(&mut self.faults));
        tty.title(&options.name);
        // The progress was that of the previous run.
        tty.progress(0, 0);
        *self = Live { next_runs, faults, ..Live::new(mirror, options) };
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
        let catching_up = self.mirror.is_catching_up().then(|| "reading what was before …".to_string());
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

    fn handle_input(&mut self, input: Input, tty: &mut Tty) -> Option<ExitReason> {
        let effect = self.session.input(input, self.mirror.terminal(), None);
        let may_be_lost = self.ended.is_none() && self.mirror.entry().recording.is_none();
        if may_be_lost && *self.session.viewer.mode() == Mode::Entry {
            self.session.background.keep_origin();
        }
        match effect? {
            Effect::Input(input) => self.send_to_program(&input),
            Effect::ToolInput(input) => self.send_to_tool(&input),
            Effect::Detach => return Some(ExitReason::Detached),
            Effect::Quit => return Some(self.exit_reason()),
            Effect::EndProgram if self.options.read_only => self.show_message("attached read-only"),
            Effect::EndProgram => self.mirror.stop(),
            Effect::Branch(_) if self.options.read_only => {
                self.session.viewer.branch_failed("attached read-only: 'nerve branch' makes one");
            }
            Effect::TakeSnapshot => self.snapshot(),
            Effect::SwitchToBranch => match self.session.background.latest() {
                Ok(place) => {
                    self.switch_to = Some(place);
                    return Some(self.exit_reason());
                }
                Err(why) => self.show_message(why),
            },
            // Other effects are for recordings.
            other => drop(self.session.apply(other, tty)),
        }
        None
    }

    fn snapshot(&mut self) {
        match self.ended {
            Some(_) => self.show_message("no snapshot: the program has ended"),
            None => self.session.background.snapshot(self.mirror.entry(), &mut self.session.viewer),
        }
    }

    fn exit_reason(&self) -> ExitReason {
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
        match self.session.background.send(input) {
            SendResult::Sent => {}
            SendResult::ForAgent => {
                // The input is recorded as injected.
                if !self.mirror.send_as(input, Origin::Injected) {
                    self.show_message("the program is not accepting input");
                }
            }
            SendResult::Rejected(why) => self.show_message(why),
        }
    }

    fn show_message(&mut self, message: &str) {
        self.session.show_message(message);
    }

    /// Returns the last lines of the main screen.
    pub(super) fn last_lines(&self) -> Vec<String> {
        last_lines(self.mirror.terminal(), self.options.coloured)
    }

    pub(super) fn into_parts(self) -> (TerminalMirror, Background, ViewerOptions) {
        (self.mirror, self.session.background, self.options)
    }
}

/// Returns true if the program is an agent's tool.
fn is_tool(mirror: &TerminalMirror) -> bool {
    mirror.entry().label.get(EXECUTION).is_some()
}

/// Returns the last lines of the main screen, without trailing empty ones.
fn last_lines(terminal: &TerminalState, coloured: bool) -> Vec<String> {
    let end = terminal.line_count();
    let from = terminal.first_kept_line().0.max(end.saturating_sub(terminal.size().rows.into()));
    let is_blank =
        |line: &u64| terminal.line_text(LineIndex(*line)).is_none_or(|text| text.trim().is_empty());
    let filled = (from..end).rev().find(|line| !is_blank(line)).map_or(from, |last| last + 1);
    let line = |line| match coloured {
        true => terminal.line_content(LineIndex(line)),
        false => terminal.line_text(LineIndex(line)),
    };
    (from..filled).map(|number| line(number).unwrap_or_default()).collect()
}
