//! The event loop of a viewer on a recording.

use std::fs;
use std::path::PathBuf;

use nerve_vt::keys::{Input, Key};

use super::recording_view::RecordingView;
use super::{EndReason, SIGINT};
use crate::TuiError;
use crate::terminal::pacing::until;
use crate::terminal::{TerminalEvent, Tty, UserTerminal};
use crate::tool_view::SendResult;
use crate::view::draw::{Gutter, StatusInfo};
use crate::view::timeline::Timeline;
use crate::view::viewer::{Effect, Viewer};
use crate::viewer_session::{RecordingContext, Request, ViewerSession};

/// A recording and its viewer.
pub struct RecordingSession {
    /// The viewer.
    pub session: ViewerSession,
    recording: PathBuf,
    view: RecordingView,
    name: String,
}

impl RecordingSession {
    /// Creates the session of the recording at a path, which `view` has opened. `name` is shown in the status line.
    pub fn new(
        recording: PathBuf,
        view: RecordingView,
        name: String,
        viewer: Viewer,
        gutter: Gutter,
        has_colors: bool,
    ) -> RecordingSession {
        RecordingSession { session: ViewerSession::new(viewer, gutter, has_colors), recording, view, name }
    }

    /// Returns the recording.
    pub fn into_view(self) -> RecordingView {
        self.view
    }

    /// Runs until the caller has to do something. Cancel-safe.
    ///
    /// # Errors
    /// The recording cannot be read, or the terminal cannot be taken back.
    pub async fn next(&mut self, user_terminal: &mut UserTerminal) -> Result<Request<EndReason>, TuiError> {
        loop {
            let (due, is_searching) = (self.view.due(), self.session.is_searching);
            let ViewerSession { tools, pacing, .. } = &mut self.session;
            tokio::select! {
                biased;
                event = user_terminal.next_event(pacing) => match event {
                    TerminalEvent::DrawDue => self.draw(&mut user_terminal.tty)?,
                    TerminalEvent::Closed(signal) => {
                        return Ok(Request::Leave(signal.map_or(EndReason::Quit, EndReason::Signal)));
                    }
                    TerminalEvent::Input(input) => {
                        if let Some(request) = self.handle_input(input, &mut user_terminal.tty)? {
                            return Ok(request);
                        }
                    }
                },
                moved = self.view.loaded() => self.session.viewer_mut().renumber(moved?),
                event = tools.next() => {
                    self.session.handle_tool_event(event);
                    // Every busy source yields, so that the caller's jobs make progress.
                    tokio::task::yield_now().await;
                }
                () = async {}, if is_searching => {
                    self.session.advance_search(self.view.terminal());
                    tokio::task::yield_now().await;
                }
                () = until(due.map(Into::into)) => {
                    self.view.advance()?;
                    self.session.request_draw();
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Draws a frame.
    fn draw(&mut self, tty: &mut Tty) -> Result<(), TuiError> {
        let view = &self.view;
        let status_info = StatusInfo {
            name: self.name.clone(),
            time: view.time(),
            speed: view.speed(),
            fault: view.fault(),
            recorded: fs::metadata(&self.recording).ok().map(|meta| meta.len()),
            begin: Some(view.begin()),
            capabilities: tty.capabilities(),
            ..StatusInfo::default()
        };
        let timeline = view.timeline();
        let recorded = timeline.as_ref().map(|timeline| recorded(view, timeline));
        self.session.draw(tty, view.terminal(), recorded, &status_info);
        if let Some(Effect::SeekSnapshot(snapshot)) = self.session.viewer.take_effect() {
            self.seek_snapshot(snapshot)?;
            self.session.request_draw();
        }
        Ok(())
    }

    /// Seeks to a snapshot, or to the end.
    fn seek_snapshot(&mut self, snapshot: Option<u64>) -> Result<(), TuiError> {
        match snapshot {
            Some(id) => self.view.seek_snapshot(id)?,
            None => self.view.go_to_end(),
        }
        Ok(())
    }

    fn handle_input(&mut self, input: Input, tty: &mut Tty) -> Result<Option<Request<EndReason>>, TuiError> {
        let interrupts = input == Input::Key(Key::ctrl('c'));
        if input == Input::Key(Key::ctrl('z')) {
            self.session.request_draw();
            tty.suspend().map_err(TuiError::Terminal)?;
            return Ok(None);
        }
        let timeline = self.view.timeline();
        let recorded = timeline.as_ref().map(|timeline| recorded(&self.view, timeline));
        let Some(effect) = self.session.input(input, self.view.terminal(), recorded) else {
            return Ok(None);
        };
        match effect {
            Effect::Quit if interrupts => return Ok(Some(Request::Leave(EndReason::Signal(SIGINT)))),
            Effect::Quit => return Ok(Some(Request::Leave(EndReason::Quit))),
            Effect::SeekSnapshot(snapshot) => self.seek_snapshot(snapshot)?,
            Effect::TogglePlay => self.view.toggle_play()?,
            Effect::Skip(seconds) => self.view.skip(seconds)?,
            Effect::Seek(to) => self.view.seek(to)?,
            Effect::Speed { faster } => self.view.change_speed(faster)?,
            Effect::ToolInput(input) => match self.session.tools.send(&input) {
                SendResult::Sent => {}
                SendResult::ForAgent => self.session.show_message("its agent has ended"),
                SendResult::Rejected(reason) => self.session.show_message(reason),
            },
            other => return Ok(self.session.apply(other, tty)),
        }
        Ok(None)
    }
}

fn recorded<'a>(view: &'a RecordingView, timeline: &'a Timeline) -> RecordingContext<'a> {
    RecordingContext { timeline, end: view.end(), is_loaded: view.is_loaded() }
}
