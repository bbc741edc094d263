//! The viewer of a tool's runs: the one shown, then the next ones.

use anyhow::Result;
use nerve_tui::live_viewer::{ExitReason, ViewerOptions};
use nerve_tui::session::UserTerminal;
use nerve_tui::view::layout::Gutter;
use nerve_types::ExitStatus;

use super::next_runs::{NextRuns, Run};
use super::{exit_code, switch_target};
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
        name: run.name,
        gutter: Gutter::None,
        bindings: settings.bindings(),
        read_only: false,
        clipboard: settings.clipboard,
        coloured: is_coloured(),
        stay,
        notice: settings.load_error.or(run.notice),
    };
    let outcome = switch_target::show_runs(run.mirror, options, next_runs, user_terminal).await?;
    outcome.faults.iter().for_each(out::warning);
    if outcome.exit_reason == ExitReason::Ended(ExitStatus::Unknown) {
        out::warning("exit status unknown: the tool was killed");
    }
    Ok(exit_code(outcome.exit_reason))
}

fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
