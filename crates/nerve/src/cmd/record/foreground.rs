//! `nerve record` in a terminal: a viewer in front of a recorder process.

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::{ExitReason, ViewerOptions};
use nerve_tui::mirror::SizeRule;
use nerve_tui::stdio_relay::Interrupted;
use nerve_tui::terminal;
use nerve_tui::view::draw::{Gutter, Layout};
use nerve_types::Size;

use super::recorder_daemon::{Recorder, StartResult};
use super::report_recording;
use crate::cmd::viewer;
use crate::exit::DONE;
use crate::settings;
use crate::{exit, out};
use nerve_cli::record::RecordArgs;

/// Maximum characters of the command that is shown as the name.
const MAX_NAME: usize = 40;

/// Runs until the program has ended or the user detaches.
///
/// # Errors
/// The program cannot be run or shown; [`Interrupted`].
pub(crate) async fn record_in_viewer(args: &RecordArgs) -> Result<u8> {
    // The program is not started in the background.
    terminal::job_control::wait_for_foreground();
    let settings = settings::for_viewer();
    let gutter = settings::gutter(&settings, args.gutter);
    let (size, rule) = terminal_size(args, gutter).await;
    // Signals are handled before there is anything to clean up.
    let stop = nerve_server::stop_signal();
    let recorder = match Recorder::start(size, args.events_pipe_fd).await? {
        StartResult::Started(recorder) => recorder,
        StartResult::Failed(code) => return Ok(code),
    };
    let name = out::preview(&args.command.join(" "), MAX_NAME);
    let options = ViewerOptions { stay: args.stay, ..settings::viewer_options(&settings, name, gutter) };
    let (paths, entry) = (ServerPaths::from_env(), recorder.entry.clone());
    // The host id is unique; a session id may equal a node's name.
    let (id, recording) = (entry.id.clone(), entry.recording.clone());
    let view = async {
        let mirror = viewer::open_mirror(entry, &paths, rule, Some(size))?;
        let mirror = mirror.for_owner();
        viewer::run(mirror, options).await
    };
    let outcome = match view.await {
        Ok(outcome) => outcome,
        Err(error) => {
            // Without a viewer the program would keep running unnoticed.
            recorder.stop();
            recorder.wait(stop).await?;
            return Err(error);
        }
    };
    if let Some(switch_to) = outcome.switch_to {
        let command = format!("nerve attach {id}");
        return (*switch_to).after_leaving(outcome.exit_reason, &command).run().await;
    }
    outcome.faults.iter().for_each(out::warning);
    match outcome.exit_reason {
        ExitReason::Detached => {
            out::line(format_args!("detached; reattach with 'nerve attach {id}'"))?;
            Ok(DONE)
        }
        ExitReason::Ended(exit) => {
            // Shows the last lines as if the program had run in this terminal.
            outcome.last_lines.iter().try_for_each(out::line)?;
            let code = recorder.wait(stop).await?;
            report_recording(args, recording.as_deref());
            exit::program_exit_code(exit, outcome.interrupted.then_some(Interrupted::Typed))?;
            Ok(code)
        }
        // As without a viewer, the program ends with its window.
        ExitReason::Closed(_) => {
            recorder.stop();
            recorder.wait(stop).await
        }
    }
}

/// Returns the program's terminal size: the requested one, or what the window has room for.
async fn terminal_size(args: &RecordArgs, gutter: Gutter) -> (Size, SizeRule) {
    let now = terminal::window().unwrap_or_default();
    let room = Layout::program_size(now.cols, now.rows, gutter);
    if args.cols.is_none() && args.rows.is_none() {
        return (room, SizeRule::Smallest);
    }
    let requested = Size::new(args.cols.unwrap_or(room.cols), args.rows.unwrap_or(room.rows));
    let window = Size::new(
        now.cols.saturating_sub(room.cols).saturating_add(requested.cols),
        now.rows.saturating_sub(room.rows).saturating_add(requested.rows),
    );
    if !terminal::window::request_size(window).await {
        out::warning(format_args!(
            "the window did not resize: it has {}x{}, the program's terminal {}x{}; the rest is cut off",
            now.cols, now.rows, requested.cols, requested.rows
        ));
    }
    (requested, SizeRule::Keep)
}
