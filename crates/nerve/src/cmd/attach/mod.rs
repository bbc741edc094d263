//! A terminal that runs, in the viewer.

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
use nerve_server::paths::Places;
use nerve_term::event::ExitStatus;
use nerve_view::bindings::Bindings;
use nerve_view::layout::{Gutter, Layout};

use self::mirror::TerminalMirror;
use self::switch_target::SwitchTarget;
use self::target::AttachTarget;
use crate::cli::attach::AttachArgs;
use crate::cmd::full_screen;
use crate::exit::{DONE, FAILED, signal_name};
use crate::settings::Settings;
use crate::{out, tty};

/// How it is shown.
#[derive(Debug, Clone)]
pub(crate) struct ViewerOptions {
    /// What is shown, in a word or two: a node's name, a command.
    pub(crate) name: String,
    /// Where snapshots are marked.
    pub(crate) gutter: Gutter,
    /// Which key does what.
    pub(crate) bindings: Bindings,
    /// Nothing that is typed reaches the program.
    pub(crate) read_only: bool,
    /// In colours.
    pub(crate) coloured: bool,
    /// What the program copies goes to this terminal's clipboard.
    pub(crate) clipboard: bool,
    /// When the program has ended its lines are still looked at.
    pub(crate) stay: bool,
    /// What is to be known at first.
    pub(crate) notice: Option<&'static str>,
}

/// Why the viewer was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// Somebody wanted to; the program goes on.
    Detached,
    /// The program has ended.
    Ended(ExitStatus),
    /// The window was closed, or this process was told to end; the program goes on. The exit code for that: 128 and the signal's number.
    Closed(u8),
}

/// What is kept of a viewer that was left.
pub(crate) struct ViewerOutcome {
    pub(crate) exit_reason: ExitReason,
    /// What went wrong meanwhile, to be told now that the terminal can be written to again.
    pub(crate) faults: Vec<String>,
    /// The last lines the program has written, as a window shows them.
    pub(crate) last_lines: Vec<String>,
    /// Somebody in front of it has interrupted the program.
    pub(crate) interrupted: bool,
    /// It was left for another one, in the terminal that is still taken.
    pub(crate) switch_to: Option<Box<SwitchTarget>>,
}

/// Shows a program that runs until somebody leaves or it ends. Needs a terminal, and the main thread.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn run(mirror: TerminalMirror, options: ViewerOptions) -> Result<ViewerOutcome> {
    switch_target::show(mirror, options, viewer_session::UserTerminal::take()?).await
}

/// `nerve attach`: gives back the exit code.
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
    let places = Places::from_env();
    let gutter = settings.gutter(args.gutter);
    let window = tty::window().unwrap_or_default();
    let room = Layout::program_size(window.cols, window.rows, gutter);
    let name = match args.target.as_str() {
        id if entry.id.starts_with(id) || entry.session_id.starts_with(id) => {
            out::preview(&entry.asked().join(" "), 40)
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
    let mirror =
        TerminalMirror::open(entry, &places.hosts(), Some(&places.profiles()), args.size, Some(room))?;
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

/// What is told of how a program was left that `command` shows.
pub(crate) fn exit_message(reason: ExitReason, command: &str) -> Option<String> {
    Some(match reason {
        ExitReason::Detached => format!("detached; come back with '{command}'"),
        ExitReason::Ended(exit) => {
            let how = match exit {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => signal_name(signal),
                ExitStatus::Unknown => "nobody knows how".to_string(),
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
