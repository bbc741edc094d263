//! The viewer of a tool's runs: the one shown, then the next ones.

use anyhow::Result;
use nerve_tui::live_viewer::{ExitReason, ViewerOptions};
use nerve_tui::terminal::UserTerminal;
use nerve_tui::view::layout::Gutter;
use nerve_types::ExitStatus;

use super::next_runs::{NextRuns, Run};
use super::{exit_code, program_switch};
use crate::out;
use crate::settings;

/// Shows a run, and then the next ones; with `stay`, until the user leaves.
pub(crate) async fn show_runs(
    run: Run,
    next_runs: Option<NextRuns>,
    stay: bool,
    user_terminal: UserTerminal,
) -> Result<u8> {
    let settings = settings::for_viewer();
    let options = ViewerOptions {
        stay,
        notice: settings.load_error.or(run.notice),
        ..settings::viewer_options(&settings, run.name, Gutter::None)
    };
    let outcome = program_switch::show_runs(run.mirror, options, next_runs, user_terminal).await?;
    outcome.faults.iter().for_each(out::warning);
    if outcome.exit_reason == ExitReason::Ended(ExitStatus::Unknown) {
        out::warning("exit status unknown: the tool was killed");
    }
    Ok(exit_code(outcome.exit_reason))
}
