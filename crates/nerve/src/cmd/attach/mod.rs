//! `nerve attach`: the viewer of a running program.

pub(crate) mod background;
mod branch_job;
pub(crate) mod mirror;
mod resolve;
mod snapshot_job;
pub(crate) mod switch_target;
pub(crate) mod target;

use anyhow::Result;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::{ExitReason, ViewerOptions};
use nerve_tui::mirror::TerminalMirror;
use nerve_tui::session::UserTerminal;
use nerve_tui::terminal;
use nerve_tui::view::layout::Layout;
use nerve_types::ExitStatus;

use self::mirror::open_mirror;
use self::switch_target::SwitchTarget;
use self::target::AttachTarget;
use crate::cli::attach::AttachArgs;
use crate::cmd::screen_support;
use crate::exit::{DONE, FAILED, signal_name};
use crate::out;
use crate::settings;

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
    switch_target::show(mirror, options, UserTerminal::take()?).await
}

/// Runs `nerve attach` and returns the exit code.
pub(crate) async fn attach(args: AttachArgs) -> Result<u8> {
    let settings = settings::for_viewer();
    let AttachArgs { target, server, session, .. } = &args;
    let attach_target =
        AttachTarget { target: target.clone(), server: server.clone(), session: session.clone() };
    let entry = resolve::find_host(&attach_target).await?;
    screen_support::require(
        "the viewer",
        "'nerve server node read NODE' prints the text of a node; 'nerve replay --fast' prints a recording",
    )?;
    let gutter = settings::gutter(&settings, args.gutter);
    let window = terminal::window().unwrap_or_default();
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
    let mirror = open_mirror(entry, &ServerPaths::from_env(), args.size.into(), Some(room))?;
    let outcome = run(mirror, options).await?;
    if let Some(switch_to) = outcome.switch_to {
        return (*switch_to).after_leaving(outcome.exit_reason, &attach_target.command()).run().await;
    }
    outcome.faults.iter().for_each(out::warning);
    if let Some(exit_message) = exit_message(outcome.exit_reason, &attach_target.command()) {
        out::note(exit_message);
    }
    Ok(exit_code(outcome.exit_reason))
}

/// Returns the message for leaving a program; `command` attaches to it again.
pub(crate) fn exit_message(reason: ExitReason, command: &str) -> Option<String> {
    Some(match reason {
        ExitReason::Detached => format!("detached; reattach with '{command}'"),
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

/// Returns the exit code of `nerve attach`.
pub(crate) fn exit_code(reason: ExitReason) -> u8 {
    match reason {
        ExitReason::Ended(ExitStatus::Unknown) | ExitReason::Closed(None) => FAILED,
        ExitReason::Detached | ExitReason::Ended(_) => DONE,
        ExitReason::Closed(Some(signal)) => 128 + signal,
    }
}
