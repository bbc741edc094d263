//! `nerve attach`: the viewer of a running program.

mod agent_monitor;
pub(crate) mod background;
mod branch_job;
mod live;
pub(crate) mod mirror;
mod osc_passthrough;
mod resolve;
pub(crate) mod size_rule;
mod snapshot_job;
pub(crate) mod switch_target;
pub(crate) mod target;
mod tool_list;
pub(crate) mod tool_streams;
pub(crate) mod viewer_session;

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_types::ExitStatus;
use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::layout::{Gutter, Layout};

use self::mirror::TerminalMirror;
use self::switch_target::SwitchTarget;
use self::target::AttachTarget;
use crate::cli::attach::AttachArgs;
use crate::cmd::full_screen;
use crate::exit::{DONE, FAILED, signal_name};
use crate::settings::Settings;
use crate::{out, tty};

/// Options of a viewer.
#[derive(Debug, Clone)]
pub(crate) struct ViewerOptions {
    /// Display name: a node's name or a command.
    pub(crate) name: String,
    /// Place of snapshot marks.
    pub(crate) gutter: Gutter,
    /// Key bindings.
    pub(crate) bindings: Bindings,
    /// Input never reaches the program.
    pub(crate) read_only: bool,
    /// Draw in colours.
    pub(crate) coloured: bool,
    /// Pass on the program's clipboard texts.
    pub(crate) clipboard: bool,
    /// Stay open after the program has ended.
    pub(crate) stay: bool,
    /// Message shown at first.
    pub(crate) notice: Option<&'static str>,
}

/// Reason for leaving the viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The user detached; the program is still running.
    Detached,
    /// The program has ended.
    Ended(ExitStatus),
    /// The window was closed or this process was signalled; the program is still running. The exit code is 128 plus
    /// the signal number.
    Closed(u8),
}

/// The result of a viewer.
pub(crate) struct ViewerOutcome {
    pub(crate) exit_reason: ExitReason,
    /// Problems to report once the terminal is restored.
    pub(crate) faults: Vec<String>,
    /// The program's last lines.
    pub(crate) last_lines: Vec<String>,
    /// The user has interrupted the program.
    pub(crate) interrupted: bool,
    /// The next target, shown in the same terminal.
    pub(crate) switch_to: Option<Box<SwitchTarget>>,
}

/// Shows a running program until the user leaves or it ends. Needs a terminal, and the main thread.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn run(mirror: TerminalMirror, options: ViewerOptions) -> Result<ViewerOutcome> {
    switch_target::show(mirror, options, viewer_session::UserTerminal::take()?).await
}

/// Runs `nerve attach` and returns the exit code.
pub(crate) async fn attach(args: AttachArgs) -> Result<u8> {
    let settings = Settings::for_viewer();
    let AttachArgs { target, server, session, .. } = &args;
    let attach_target =
        AttachTarget { target: target.clone(), server: server.clone(), session: session.clone() };
    let entry = resolve::find_host(&attach_target).await?;
    full_screen::needed(
        "a window in front of a program that runs",
        "'nerve server node read NODE' prints what a node shows; 'nerve replay --fast' what was recorded",
    )?;
    let paths = ServerPaths::from_env();
    let gutter = settings.gutter(args.gutter);
    let window = tty::window().unwrap_or_default();
    let room = Layout::program_size(window.cols, window.rows, gutter);
    let name = match args.target.as_str() {
        id if entry.id.starts_with(id) || entry.session_id.starts_with(id) => {
            out::preview(&entry.requested_argv().join(" "), 40)
        }
        node => node.to_string(),
    };
    let coloured = !args.no_colors && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let options = ViewerOptions {
        name,
        gutter,
        bindings: settings.bindings(),
        read_only: args.read_only,
        coloured,
        clipboard: settings.clipboard,
        stay: args.stay,
        notice: settings.load_error,
    };
    let mirror = TerminalMirror::open(entry, &paths.hosts(), Some(&paths.profiles()), args.size, Some(room))?;
    let outcome = run(mirror, options).await?;
    if let Some(switch_to) = outcome.switch_to {
        return (*switch_to).after_leaving(outcome.exit_reason, &attach_target.command()).run().await;
    }
    outcome.faults.iter().for_each(out::warning);
    if let Some(exit_message) = exit_message(outcome.exit_reason, &attach_target.command()) {
        out::note(exit_message);
    }
    Ok(code(outcome.exit_reason))
}

/// Returns the message for leaving a program; `command` attaches to it again.
pub(crate) fn exit_message(reason: ExitReason, command: &str) -> Option<String> {
    Some(match reason {
        ExitReason::Detached => format!("detached; come back with '{command}'"),
        ExitReason::Ended(exit) => {
            let how = match exit {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => signal_name(signal),
                ExitStatus::Unknown => "exit status unknown".to_string(),
            };
            format!("the program has ended: {how}")
        }
        ExitReason::Closed(_) => return None,
    })
}

fn code(reason: ExitReason) -> u8 {
    match reason {
        ExitReason::Ended(ExitStatus::Unknown) => FAILED,
        ExitReason::Detached | ExitReason::Ended(_) => DONE,
        ExitReason::Closed(code) => code,
    }
}
