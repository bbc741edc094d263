//! `nerve show-sandbox-execution`: shows a tool's execution from another terminal.

mod agent_output;
pub(crate) mod follow;
mod lookup;
mod text_view;
pub(crate) mod tools;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Result;
use nerve_host::backend::{Backend, BackendEvent, HostedBackend};
use nerve_host::protocol::Window;
use nerve_host::registry::Entry;
use nerve_record::ahr::{Body, Part, Reader};
use nerve_server::paths::ServerPaths;
use nerve_tui::live::{ExitReason, ViewerOptions};
use nerve_tui::session::UserTerminal;
use nerve_tui::view::layout::Gutter;
use nerve_types::ExitStatus;

use self::follow::{NextRuns, Run};
use self::lookup::{FoundExecution, Location, find};
use super::attach;
use super::recording::{self, Losses, unreadable, unwritten};
use super::{full_screen, on_one_core};
use crate::cli::exec::ShowArgs;
use crate::cli::recording::{GutterArg, RecordingArg, ReplayArgs, Speed, ViewArgs};
use crate::exit::{DONE, FAILED, Failure};
use crate::out;
use crate::settings::Settings;

/// Length of a command used as name.
const NAME: usize = 200;

/// Shows the execution and returns the exit code.
pub(crate) fn run(args: &ShowArgs) -> Result<u8> {
    let paths = ServerPaths::from_env();
    let found = find(&args.id, args.session.as_deref(), &paths)?;
    warn_if_different(args.command.as_deref(), &found);
    let to_terminal = io::stdout().is_terminal();
    let FoundExecution { line, session, location } = found;
    let name = out::preview(line.command.as_deref().unwrap_or(&args.id), NAME);
    match location {
        Location::Host(entry) if full_screen::is_there() => on_one_core(live(*entry, &paths, name, args)),
        Location::Host(entry) => on_one_core(stream(*entry, &paths)),
        Location::Recording(recording) => {
            if session.is_some() && !line.has_ended() {
                out::warning("its end is not known: it was killed, and what it had written is shown");
            }
            match (to_terminal, args.follow) {
                (true, true) => view(&recording, &name, args),
                (true, false) => last(&recording),
                (false, _) => bytes(&recording),
            }
        }
        Location::Agent { running } => {
            let output = match (running, &session) {
                (true, Some(session)) => on_one_core(agent_output::wait(session, &line, &paths))?,
                _ => line.output,
            };
            match output {
                Some(output) if args.follow && full_screen::is_there() => {
                    text_view::shown(&output, &name, args)
                }
                Some(output) => out::text(&output).map(|()| DONE),
                None => {
                    let message = format!("nothing is known of what execution '{}' wrote", args.id);
                    Err(Failure::new(FAILED, message)
                        .hint("it was killed, or its agent tells nothing; the session's recording shows what the agent showed")
                        .into())
                }
            }
        }
    }
}

/// Warns if the command differs from the given one. The id decides.
fn warn_if_different(claimed: Option<&str>, found: &FoundExecution) {
    let bare = |text: &str| shell_line(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if let (Some(claimed), Some(ran)) = (claimed, &found.line.command)
        && bare(claimed) != bare(ran)
    {
        let (id, ran) = (&found.line.id, out::preview(ran, 200));
        out::warning(format_args!("execution '{id}' ran something else: {ran}"));
    }
}

/// Returns the line given to a shell, otherwise the command itself.
fn shell_line(command: &str) -> String {
    match shell_words::split(command).as_deref() {
        Ok([_, option, line]) if option == "-c" => line.clone(),
        _ => command.to_string(),
    }
}

/// Shows a running execution in the viewer; with `--follow`, until the user leaves.
async fn live(entry: Entry, paths: &ServerPaths, name: String, args: &ShowArgs) -> Result<u8> {
    // Ids are unique within a session.
    let next_runs =
        (args.follow && args.session.is_none()).then(|| NextRuns::of(&args.id, paths)).transpose()?;
    let mirror = tools::open_mirror(entry, paths)?;
    shown(Run { mirror, name, notice: None }, next_runs, args.follow, UserTerminal::take()?).await
}

/// Shows a run, and then the next ones; with `stay`, until the user leaves.
pub(crate) async fn shown(
    run: Run,
    next_runs: Option<NextRuns>,
    stay: bool,
    user_terminal: UserTerminal,
) -> Result<u8> {
    let settings = Settings::for_viewer();
    let options = ViewerOptions {
        name: run.name,
        gutter: Gutter::None,
        bindings: settings.bindings(),
        read_only: false,
        clipboard: settings.clipboard,
        coloured: coloured(),
        stay,
        notice: settings.load_error.or(run.notice),
    };
    let outcome = attach::switch_target::show_runs(run.mirror, options, next_runs, user_terminal).await?;
    outcome.faults.iter().for_each(out::warning);
    if outcome.exit_reason == ExitReason::Ended(ExitStatus::Unknown) {
        out::warning("exit status unknown: the tool was killed");
    }
    Ok(attach::code(outcome.exit_reason))
}

fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints the output of a running execution until its end.
async fn stream(entry: Entry, paths: &ServerPaths) -> Result<u8> {
    let mut host = HostedBackend::view(entry, paths.hosts(), Window::Keep);
    loop {
        match host.next().await {
            BackendEvent::Output => out::bytes(host.output())?,
            BackendEvent::Closed => return Ok(DONE),
            BackendEvent::Fault(message) => out::warning(message),
            BackendEvent::Lost(message) | BackendEvent::Gone(message) => {
                let failure = Failure::new(FAILED, format!("it was cut off: {message}"));
                return Err(failure.hint("show it once more: what it had written is recorded").into());
            }
            _ => {}
        }
    }
}

/// Prints the output of a recording.
fn bytes(recording: &Path) -> Result<u8> {
    let mut reader = Reader::open(recording).map_err(unreadable)?;
    let (mut losses, mut out) = (Losses::of(recording), io::stdout().lock());
    while let Some(part) = reader.next().map_err(unreadable)? {
        match part {
            Part::Block(block) => {
                for record in block.records() {
                    if let Body::Data { bytes, .. } = record.body {
                        out.write_all(bytes).map_err(unwritten)?;
                    }
                }
                block.damage().into_iter().for_each(|lost| losses.note(lost));
            }
            Part::Lost(lost) => losses.note(&lost),
        }
    }
    out.flush().map_err(unwritten)?;
    losses.report();
    Ok(DONE)
}

fn recording_arg(recording: &Path) -> RecordingArg {
    RecordingArg { recording: Some(recording.display().to_string()), session: None }
}

/// Shows a recording in the viewer.
fn view(recording: &Path, name: &str, args: &ShowArgs) -> Result<u8> {
    let next_runs = args.session.is_none().then_some(args.id.as_str());
    let args = ViewArgs { source: recording_arg(recording), gutter: Some(GutterArg::None), no_colors: false };
    recording::view_tool(&args, name, next_runs)
}

/// Prints all lines of a recording.
fn last(recording: &Path) -> Result<u8> {
    recording::replay(&ReplayArgs {
        source: recording_arg(recording),
        speed: Speed(1.0),
        idle_limit: None,
        from: None,
        fast: true,
        viewer: false,
        no_colors: false,
        print_meta: false,
        json: false,
    })
}
