//! Viewers of running programs and recordings: background work, switching between programs, the list of tools.
//!
//! The commands `attach`, `record`, `view` and `show-sandbox-execution` use them.

mod attach_target;
mod background;
mod background_job;
mod branch_job;
mod execution_lookup;
mod host_lookup;
mod mirror;
mod next_runs;
mod program_switch;
mod run_viewer;
mod snapshot_job;
mod tools;

use anyhow::Result;
use nerve_tui::live_viewer::{ExitReason, ViewerOptions};
use nerve_tui::mirror::TerminalMirror;
use nerve_tui::terminal::UserTerminal;
use nerve_types::ExitStatus;
use nerve_types::os::signal_name;

pub(crate) use self::attach_target::AttachTarget;
pub(crate) use self::background::{Background, ViewerExit};
pub(crate) use self::execution_lookup::{FoundExecution, Location, find_execution};
pub(crate) use self::host_lookup::find_host;
pub(crate) use self::mirror::open_mirror;
pub(crate) use self::next_runs::{NextRuns, Run, next_run};
pub(crate) use self::program_switch::ProgramSwitch;
pub(crate) use self::run_viewer::show_runs;
pub(crate) use self::tools::{DEFAULT_SIZE, lines_of, open_tool_mirror};
use crate::exit::{DONE, FAILED};

/// Maximum characters of a tool's command that is shown as the name.
pub(crate) const MAX_TOOL_NAME: usize = 200;

/// The result of a viewer of a running program, for the command that opened it. [`ViewerExit`] is the end of its event loop.
pub(crate) struct ViewerOutcome {
    pub(crate) exit_reason: ExitReason,
    /// Problems to report once the terminal is restored.
    pub(crate) faults: Vec<String>,
    /// The program's last lines.
    pub(crate) last_lines: Vec<String>,
    /// The user has interrupted the program.
    pub(crate) interrupted: bool,
    /// The next target, shown in the same terminal.
    pub(crate) switch_to: Option<Box<ProgramSwitch>>,
}

/// Shows a running program until the user leaves or it ends. Needs a terminal, and the main thread.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn run(mirror: TerminalMirror, options: ViewerOptions) -> Result<ViewerOutcome> {
    program_switch::show(mirror, options, UserTerminal::take()?).await
}

/// Returns the message for leaving a program; `command` attaches to it again.
pub(crate) fn exit_message(reason: ExitReason, command: &str) -> Option<String> {
    Some(match reason {
        ExitReason::Detached => format!("detached; reattach with '{command}'"),
        ExitReason::Ended(exit) => {
            let status = match exit {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => signal_name(signal),
                ExitStatus::Unknown => "exit status unknown".to_string(),
            };
            format!("the program has ended: {status}")
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
