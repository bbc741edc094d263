//! `graph list --runs`, `status`, `cancel` and `answer`: commands on runs.

use anyhow::Result;
use jiff::tz::TimeZone;
use nerve_api::reply::{GateInfo, RunInfo, RunList, RunStep, RunsCancelled};
use nerve_api::value::{RunStatus, StepState};
use nerve_client::ClientError;
use nerve_commands::clock::{local_time, now_seconds};
use nerve_commands::event_line::format_question;
use nerve_commands::run_display::{
    Progress, RunFollower, format_clock, format_duration, group_digits, resolve_choice,
};
use nerve_types::activity::TsMs;

use super::{CommonOptions, Target};
use crate::exit::{FAILED, Failure, INTERRUPTED, USAGE};
use crate::out;
use nerve_cli::graph::{AnswerArgs, StatusArgs};

/// Lists runs, newest first.
pub(super) async fn list(common: &CommonOptions) -> Result<()> {
    let target = common.connect().await?;
    let mut runs = target.client.runs().await?;
    if let Some(session) = target.session() {
        runs.retain(|run| run.session_id == session);
    }
    if target.json {
        return out::json(&RunList { runs, next: None });
    }
    if runs.is_empty() {
        out::note(format_args!("no runs; run a graph with '{}'", target.command("run FILE")));
    }
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    table(&["run", "graph", "state", "steps", "began", "took", "tokens"], &rows)
}

/// Prints a table without its empty columns.
fn table(header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let (header, rows) = out::select_columns(header, rows, None, &[]);
    out::table(&header, &rows)
}

fn row(run: &RunInfo) -> Vec<String> {
    vec![
        run.run_id.clone(),
        run.graph_id.clone(),
        run.status.to_string(),
        steps(run),
        local_time(run.started_at.seconds()),
        elapsed(run, run.started_at, run.ended_at),
        tokens(run.tokens_used),
    ]
}

/// Formats the time from the start of a run or a step to its end, until now if the run is active.
fn elapsed(run: &RunInfo, started: TsMs, ended: Option<TsMs>) -> String {
    let end = ended.map(TsMs::seconds).or_else(|| run.status.is_active().then(now_seconds));
    end.map(|end| format_duration(end - started.seconds())).unwrap_or_default()
}

fn tokens(count: u64) -> String {
    if count == 0 { String::new() } else { group_digits(count) }
}

/// Formats the number of completed steps, with the total if known.
fn steps(run: &RunInfo) -> String {
    match run.total_steps {
        0 => run.done_steps.to_string(),
        total => format!("{}/{total}", run.done_steps),
    }
}

/// Shows a run, once or until it ends.
pub(super) async fn status(common: &CommonOptions, args: &StatusArgs) -> Result<()> {
    let target = common.connect().await?;
    let final_info = if args.watch { watch(&target, &args.run).await? } else { None };
    let info = match final_info {
        Some(info) => info,
        None => target.client.run_status(&args.run, None).await?,
    };
    if target.json {
        out::json(&info)?;
    } else {
        print(&target, &info)?;
    }
    if args.watch { exit_status(&info) } else { Ok(()) }
}

/// Follows a run to its end. Returns `None` if it had ended already.
async fn watch(target: &Target, run: &str) -> Result<Option<RunInfo>> {
    let mut follower =
        RunFollower::new(&target.client, &target.server, Progress::new(run, "", &[]), false).await?;
    if !follower.catch_up().await?.status.is_active() {
        return Ok(None);
    }
    follower.follow_to_end().await.map_err(|error| match error.downcast_ref() {
        Some(ClientError::Closed(_)) => {
            super::outcome::interrupted(target, run, "closed the connection").into()
        }
        _ => error,
    })?;
    Ok(Some(target.client.run_status(run, None).await?))
}

/// Returns the exit status of a followed run.
fn exit_status(info: &RunInfo) -> Result<()> {
    let code = match info.status {
        RunStatus::Completed => return Ok(()),
        RunStatus::Cancelled => INTERRUPTED,
        _ => FAILED,
    };
    let reason = info.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let failure = Failure::new(code, format!("run '{}' {}{reason}", info.run_id, info.status));
    let error_type = info.error_type.unwrap_or(failure.error_type);
    Err(Failure { error_type, hint: info.hint.clone(), ..failure }.into())
}

fn print(target: &Target, info: &RunInfo) -> Result<()> {
    out::fields(&[
        ("run", info.run_id.clone()),
        ("graph", info.graph_id.clone()),
        ("session", info.session_id.clone()),
        ("state", info.status.to_string()),
        ("steps", format!("{} done", steps(info))),
        ("began", local_time(info.started_at.seconds())),
        ("took", elapsed(info, info.started_at, info.ended_at)),
        ("tokens", tokens(info.tokens_used)),
        ("error", info.error.clone().unwrap_or_default()),
        ("hint", info.hint.clone().unwrap_or_default()),
        ("journal", info.journal.clone().unwrap_or_default()),
        ("fault", info.faults.join("; ")),
    ])?;
    if !info.steps.is_empty() {
        out::line("")?;
    }
    let row = |step: &RunStep| {
        let error = step.error.as_deref().map(|error| out::preview(error, 80)).unwrap_or_default();
        let is_waiting = info.gates.iter().any(|gate| gate.step_id == step.step_id);
        let state = if is_waiting { StepState::Waiting } else { step.state };
        vec![
            step.step_id.clone(),
            state.to_string(),
            step.node_id.clone(),
            elapsed(info, step.started_at, step.ended_at),
            tokens(step.tokens_used),
            error,
        ]
    };
    let rows: Vec<Vec<String>> = info.steps.iter().map(row).collect();
    table(&["step", "state", "node", "took", "tokens", "error"], &rows)?;
    let is_top_level = |step: &&RunStep| !step.step_id.contains(['/', '[', '#']) && step.ended_at.is_some();
    let hidden = info.done_steps.saturating_sub(info.steps.iter().filter(is_top_level).count());
    if hidden > 0 && !rows.is_empty() {
        out::note(format_args!("{hidden} more completed steps are only in the journal"));
    }
    print_gates(target, info)?;
    if info.status == RunStatus::Interrupted {
        let resume = target.command(&format!("resume {}", info.run_id));
        out::note(format_args!("the server ended during the run; continue with '{resume}'"));
    }
    Ok(())
}

fn print_gates(target: &Target, info: &RunInfo) -> Result<()> {
    for gate in &info.gates {
        out::line(format_args!(
            "\n{}{}{:#} asks: {}",
            out::WAITING,
            gate.step_id,
            out::WAITING,
            format_question(gate)
        ))?;
        let until = gate.deadline_at.map(|at| format_clock(at.seconds(), &TimeZone::system()));
        match (until, &gate.default) {
            (Some(until), Some(default)) => out::line(format_args!("  default at {until}: {default}"))?,
            (Some(until), None) => out::line(format_args!("  fails at {until}"))?,
            (None, _) => {}
        }
        if info.status.is_active() {
            let step = shell_words::quote(&gate.step_id);
            let answer = target.command(&format!("answer {} --step {step} CHOICE", info.run_id));
            out::note(format_args!("answer with '{answer}'"));
        }
    }
    Ok(())
}

/// Cancels a run, or all runs of a graph.
pub(super) async fn cancel(common: &CommonOptions, id: &str) -> Result<()> {
    let target = common.connect().await?;
    let runs = target.client.cancel_run(id).await?;
    if target.json {
        return out::json(&RunsCancelled { cancelled: !runs.is_empty(), runs });
    }
    for run in runs {
        out::line(format_args!("cancelling run '{run}'"))?;
    }
    Ok(())
}

/// Answers a gate.
pub(super) async fn answer(common: &CommonOptions, args: &AnswerArgs) -> Result<()> {
    let target = common.connect().await?;
    let waiting = target.client.run_status(&args.run, Some(0)).await?.gates;
    if args.step.is_none() && waiting.len() > 1 {
        let steps: Vec<&str> = waiting.iter().map(|gate| gate.step_id.as_str()).collect();
        let message = format!("{} gates wait: {}", steps.len(), steps.join(", "));
        return Err(Failure::new(USAGE, message).hint("select one with --step").into());
    }
    let is_selected = |gate: &&GateInfo| args.step.as_ref().is_none_or(|step| *step == gate.step_id);
    // The server rejects a missing or ambiguous gate.
    let choice = match waiting.iter().find(is_selected) {
        Some(gate) => resolve_choice(&args.choice, &gate.choices),
        None => args.choice.clone(),
    };
    let run = target.client.answer_gate(&args.run, args.step.as_deref(), &choice).await?;
    if target.json {
        return out::json(&run);
    }
    out::line(format_args!("run '{}' continues with: {}", run.run_id, out::preview(&choice, 200)))
}
