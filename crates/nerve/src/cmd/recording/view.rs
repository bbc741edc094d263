//! `nerve view`: shows a finished recording. The end is shown at once, earlier lines when they are loaded.

use anyhow::{Context, Result};
use nerve_engine::recordings;
use nerve_record::library::is_live;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::ViewerOptions;
use nerve_tui::recording::{EndReason, RecordingSession, RecordingView};
use nerve_tui::terminal::UserTerminal;
use nerve_tui::view::layout::Gutter;
use nerve_tui::view::viewer::{Source, Viewer};

use super::{Losses, cache, code, find, format, load_meta, read_failure, tui_failure};
use crate::cmd::screen_support;
use crate::cmd::viewer::{Background, NextRuns, ProgramSwitch, Run, ViewerExit, next_run, show_runs};
use crate::settings;
use nerve_cli::recording::ViewArgs;

/// Reason why a copy of a recording of another machine has no branches.
const COPY: &str = "no branches from a copy: nerve branch MACHINE/SESSION/NODE INSTRUCTION";

/// Shows a recording until the user leaves.
pub(crate) fn view(args: &ViewArgs) -> Result<u8> {
    show(args, None, None)
}

/// Shows the recording of a tool, without branches. `next_runs`: the execution id whose next run replaces the recording.
pub(crate) fn view_tool(args: &ViewArgs, command: &str, next_runs: Option<&str>) -> Result<u8> {
    show(args, Some(command), next_runs)
}

fn show(args: &ViewArgs, tool: Option<&str>, next_runs: Option<&str>) -> Result<u8> {
    let recording = find(&args.source)?;
    recordings::check(&recording)?;
    screen_support::require("the viewer", "'nerve replay --fast' prints the lines of a recording")?;
    let settings = settings::for_viewer();
    let has_colors = settings::has_colors(args.no_colors);
    let name = tool.map_or_else(|| format::display_name(&recording), str::to_string);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let mut losses = Losses::new(&recording);
    let viewer = Viewer::new(Source::Recording, settings.bindings());
    let viewer = match tool {
        Some(_) => viewer.without_entry(),
        // A branch needs the files of its machine.
        None if cache().has(&recording) => viewer.with_closed_entry().without_branches(COPY),
        None if args.task || settings.task => viewer,
        None => viewer.with_closed_entry(),
    };
    let viewer = if is_live(&recording) { viewer.still_recording() } else { viewer };
    let mut view =
        RecordingView::open(&recording, load_meta(&recording).initial_size()).map_err(read_failure)?;
    args.at.map_or(Ok(()), |time| view.seek(time)).map_err(read_failure)?;
    let gutter: Gutter = settings::gutter(&settings, args.gutter);
    let options = ViewerOptions { has_colors, ..settings::viewer_options(&settings, name.clone(), gutter) };
    let (code, view) = runtime.block_on(async {
        let mut background = Background::for_recording(&recording);
        let mut session = RecordingSession::new(recording, view, name, viewer, gutter, has_colors);
        let mut next_runs = next_runs.map(|id| NextRuns::new(id, &ServerPaths::from_env())).transpose()?;
        let mut user_terminal = UserTerminal::take()?;
        tool.iter().for_each(|command| user_terminal.tty.title(command));
        let end = run(&mut session, &mut background, &mut next_runs, &mut user_terminal).await?;
        let (view, unfinished) = (session.into_view(), background.into_unfinished());
        let code = match end {
            End::ViewerExit(ViewerExit::Left(reason)) => {
                // Restores the terminal before anything is printed.
                drop(user_terminal);
                unfinished.finish().await;
                code(reason)
            }
            End::ViewerExit(ViewerExit::SwitchTo(target)) => {
                ProgramSwitch::from_recording(user_terminal, target, options, unfinished).run().await?
            }
            End::NextRun(run) => show_runs(*run, next_runs, true, user_terminal).await?,
        };
        anyhow::Ok((code, view))
    })?;
    view.lost().iter().for_each(|lost| losses.add(lost));
    losses.add_contradictions(view.contradictions());
    Ok(losses.report().max(code))
}

/// End of a recording's viewer.
enum End {
    ViewerExit(ViewerExit<EndReason>),
    /// The tool was started again.
    NextRun(Box<Run>),
}

/// Runs the viewer until the user leaves or the next run starts.
async fn run(
    session: &mut RecordingSession,
    background: &mut Background,
    next_runs: &mut Option<NextRuns>,
    user_terminal: &mut UserTerminal,
) -> Result<End> {
    loop {
        tokio::select! {
            request = session.next(user_terminal) => {
                let request = request.map_err(tui_failure)?;
                if let Some(exit) = background.perform(request, &mut session.session, None) {
                    return Ok(End::ViewerExit(exit));
                }
            }
            event = background.next() => {
                background.apply(event, session.session.viewer_mut());
                // Yields under a flood of events.
                tokio::task::yield_now().await;
            }
            run = next_run(next_runs) => match run {
                Ok(run) => return Ok(End::NextRun(Box::new(run))),
                Err(error) => {
                    *next_runs = None;
                    session.session.viewer_mut().show_message(&format!("{error:#}"));
                }
            },
        }
    }
}
