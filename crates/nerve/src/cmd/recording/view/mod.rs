//! `nerve view`: shows a finished recording. The end is shown at once, earlier lines when they are loaded.

mod loader;
mod recording_view;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_record::library::is_live;
use nerve_server::paths::ServerPaths;
use nerve_tui::view::draw::{Gutter, StatusInfo};
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::viewer::{Effect, Source, Viewer};
use nerve_vt::keys::{Input, Key};

use self::recording_view::RecordingView;
use super::terminal_replay::EndReason;
use super::{Losses, check, find, format, load_meta, unreadable};
use crate::cli::recording::ViewArgs;
use crate::cmd::attach::ViewerOptions;
use crate::cmd::attach::background::Background;
use crate::cmd::attach::switch_target::SwitchTarget;
use crate::cmd::attach::target::AttachTarget;
use crate::cmd::attach::tool_streams::SendResult;
use crate::cmd::attach::viewer_session::{
    RecordingContext, TerminalEvent, UserTerminal, ViewerSession, next_terminal_event,
};
use crate::cmd::show::follow::{self, NextRuns, Run};
use crate::cmd::{self, full_screen};
use crate::exit::INTERRUPTED;
use crate::settings::Settings;
use crate::tty::Tty;
use crate::tty::pacing::until;

/// Shows a recording until the user leaves.
pub(crate) fn view(args: &ViewArgs) -> Result<u8> {
    show(args, None, None)
}

/// Shows the recording of a tool, without branches. The next run of the id `next_runs` replaces it.
pub(crate) fn view_tool(args: &ViewArgs, command: &str, next_runs: Option<&str>) -> Result<u8> {
    show(args, Some(command), next_runs)
}

fn show(args: &ViewArgs, tool: Option<&str>, next_runs: Option<&str>) -> Result<u8> {
    let recording = find(&args.source)?;
    check(&recording)?;
    full_screen::needed("the viewer", "'nerve replay --fast' prints the lines of a recording")?;
    let settings = Settings::for_viewer();
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let name = tool.map_or_else(|| format::display_name(&recording), str::to_string);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let mut losses = Losses::of(&recording);
    let viewer = Viewer::new(Source::Recording, settings.bindings());
    let viewer = if tool.is_some() { viewer.without_entry() } else { viewer };
    let viewer = if is_live(&recording) { viewer.still_recording() } else { viewer };
    let view = RecordingView::open(&recording, &load_meta(&recording)).map_err(unreadable)?;
    let gutter: Gutter = settings.gutter(args.gutter);
    let options = ViewerOptions {
        name: name.clone(),
        gutter,
        bindings: settings.bindings(),
        read_only: false,
        coloured,
        clipboard: settings.clipboard,
        stay: false,
        notice: None,
    };
    let (code, view) = runtime.block_on(async {
        let background = Background::for_recording(Some(&recording));
        let session = ViewerSession::new(viewer, background, gutter, coloured);
        let next_runs = next_runs.map(|id| NextRuns::of(id, &ServerPaths::from_env())).transpose()?;
        let mut show =
            RecordingSession { recording, view, name, session, switch_to: None, next_runs, run: None };
        let mut user_terminal = UserTerminal::take()?;
        tool.iter().for_each(|command| user_terminal.tty.title(command));
        let left = show.run(&mut user_terminal).await?;
        let RecordingSession { view, session, switch_to, next_runs, run, .. } = show;
        let unfinished = session.background.into_unfinished();
        if let Some(to) = switch_to {
            let code = SwitchTarget::from_recording(user_terminal, to, options, unfinished).run().await?;
            return Ok((code, view));
        }
        if let Some(run) = run {
            return Ok((cmd::show::shown(run, next_runs, true, user_terminal).await?, view));
        }
        // Restores the terminal before anything is printed.
        drop(user_terminal);
        unfinished.finish().await;
        anyhow::Ok((left.code(), view))
    })?;
    view.lost().iter().for_each(|lost| losses.note(lost));
    losses.report();
    Ok(code)
}

/// The recording and its viewer.
struct RecordingSession {
    recording: PathBuf,
    view: RecordingView,
    name: String,
    session: ViewerSession,
    /// Next target.
    switch_to: Option<AttachTarget>,
    /// Run to show as soon as it starts.
    next_runs: Option<NextRuns>,
    run: Option<Run>,
}

impl RecordingSession {
    async fn run(&mut self, user_terminal: &mut UserTerminal) -> Result<EndReason> {
        loop {
            let (due, is_searching) = (self.view.due(), self.session.is_searching);
            let ViewerSession { background, pacing, .. } = &mut self.session;
            tokio::select! {
                biased;
                event = next_terminal_event(pacing, user_terminal) => match event {
                    TerminalEvent::DrawDue => self.draw(&mut user_terminal.tty)?,
                    TerminalEvent::Signal(number) => return Ok(EndReason::Signal(number)),
                    TerminalEvent::Closed => return Ok(EndReason::Quit),
                    TerminalEvent::Input(input) => if let Some(left) = self.handle_input(input, &mut user_terminal.tty)? {
                        return Ok(left);
                    },
                },
                moved = self.view.loaded() => {
                    self.session.viewer.renumber(moved.map_err(unreadable)?);
                    self.session.request_draw();
                }
                event = background.next() => {
                    self.session.handle_background_event(event);
                    // Yields under a flood of output.
                    tokio::task::yield_now().await;
                }
                run = follow::next(&mut self.next_runs) => match run {
                    Ok(run) => {
                        self.run = Some(run);
                        return Ok(EndReason::Quit);
                    }
                    Err(error) => {
                        self.next_runs = None;
                        self.session.show_message(&format!("{error:#}"));
                    }
                },
                () = async {}, if is_searching => self.session.advance_search(self.view.terminal()),
                () = until(due.map(Into::into)) => {
                    self.view.advance().map_err(unreadable)?;
                    self.session.request_draw();
                }
            }
        }
    }

    /// Draws a frame.
    fn draw(&mut self, tty: &mut Tty) -> Result<()> {
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
    fn seek_snapshot(&mut self, snapshot: Option<u64>) -> Result<()> {
        match snapshot {
            Some(id) => self.view.seek_snapshot(id).map_err(unreadable)?,
            None => self.view.go_to_end(),
        }
        Ok(())
    }

    fn handle_input(&mut self, input: Input, tty: &mut Tty) -> Result<Option<EndReason>> {
        let interrupts = input == Input::Key(Key::ctrl('c'));
        if input == Input::Key(Key::ctrl('z')) {
            self.session.request_draw();
            tty.suspend().context("cannot use the terminal")?;
            return Ok(None);
        }
        let timeline = self.view.timeline();
        let recorded = timeline.as_ref().map(|timeline| recorded(&self.view, timeline));
        let Some(effect) = self.session.input(input, self.view.terminal(), recorded) else {
            return Ok(None);
        };
        match effect {
            Effect::Quit if interrupts => return Ok(Some(EndReason::Signal(INTERRUPTED - 128))),
            Effect::Quit => return Ok(Some(EndReason::Quit)),
            Effect::SeekSnapshot(snapshot) => self.seek_snapshot(snapshot)?,
            Effect::TogglePlay => self.view.toggle_play().map_err(unreadable)?,
            Effect::Skip(seconds) => self.view.skip(seconds).map_err(unreadable)?,
            Effect::Seek(to) => self.view.seek(to).map_err(unreadable)?,
            Effect::Speed { faster } => self.view.change_speed(faster).map_err(unreadable)?,
            Effect::ToolInput(input) => match self.session.background.send(&input) {
                SendResult::Sent => {}
                SendResult::ForAgent => self.session.show_message("its agent has ended"),
                SendResult::Rejected(why) => self.session.show_message(why),
            },
            Effect::SwitchToBranch => match self.session.background.latest() {
                Ok(place) => {
                    self.switch_to = Some(place);
                    return Ok(Some(EndReason::Quit));
                }
                Err(why) => self.session.show_message(why),
            },
            // Other effects are for running programs.
            other => drop(self.session.apply(other, tty)),
        }
        Ok(None)
    }
}

fn recorded<'a>(view: &'a RecordingView, timeline: &'a Timeline) -> RecordingContext<'a> {
    RecordingContext { timeline, end: view.end(), is_loaded: view.is_loaded() }
}
