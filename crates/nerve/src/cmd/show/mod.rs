//! `nerve tools`: shows a tool's execution from another terminal.

mod agent_output;
mod text_view;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Result;
use nerve_host::backend::{Backend, BackendEvent, HostedBackend};
use nerve_host::protocol::Window;
use nerve_host::registry::Entry;
use nerve_record::ahr::{Body, Part, Reader};
use nerve_server::paths::ServerPaths;
use nerve_tui::terminal::UserTerminal;
use nerve_types::text::one_line;

use super::recording::{self, Losses, read_failure, write_failure};
use super::{run_single_threaded, screen_support};
use crate::cmd::viewer::{
    FoundExecution, Location, MAX_TOOL_NAME, NextRuns, Run, find_execution, open_tool_mirror, show_runs,
};
use crate::exit::{DONE, FAILED, Failure};
use crate::out;
use nerve_cli::exec::ShowArgs;
use nerve_cli::recording::{GutterArg, RecordingSelector, ReplayArgs, Speed, ViewArgs};

/// Shows the execution and returns the exit code.
pub(crate) fn run(args: &ShowArgs) -> Result<u8> {
    let paths = ServerPaths::from_env();
    let execution = find_execution(&args.id, args.session.as_deref(), &paths)?;
    warn_if_different(args.command.as_deref(), &execution);
    let to_terminal = io::stdout().is_terminal();
    let FoundExecution { line, session, location } = execution;
    let name = out::preview(line.command.as_deref().unwrap_or(&args.id), MAX_TOOL_NAME);
    match location {
        Location::Host(entry) if screen_support::is_available() => {
            run_single_threaded(show_live(*entry, &paths, name, args))
        }
        Location::Host(entry) => run_single_threaded(print_live(*entry, &paths)),
        Location::Recording(recording) => {
            if session.is_some() && !line.has_ended() {
                out::warning("the execution was killed: showing its output until then");
            }
            match (to_terminal, args.follow) {
                (true, true) => view_recording(&recording, &name, args),
                (true, false) => print_lines(&recording),
                (false, _) => print_bytes(&recording),
            }
        }
        Location::Agent { running } => {
            let output = match (running, &session) {
                (true, Some(session)) => run_single_threaded(agent_output::wait(session, &line, &paths))?,
                _ => line.output,
            };
            match output {
                Some(output) if args.follow && screen_support::is_available() => {
                    text_view::show(&output, &name, args)
                }
                Some(output) => out::text(&output).map(|()| DONE),
                None => {
                    let message = format!("execution '{}' has no known output", args.id);
                    Err(Failure::new(FAILED, message)
                        .hint("it was killed, or its agent does not report output; view the session's recording instead")
                        .into())
                }
            }
        }
    }
}

/// Warns if the execution ran another command than the expected one. The id decides which execution is shown.
fn warn_if_different(expected: Option<&str>, execution: &FoundExecution) {
    let bare = |text: &str| one_line(&shell_line(text));
    if let (Some(expected), Some(actual)) = (expected, &execution.line.command)
        && bare(expected) != bare(actual)
    {
        let (id, actual) = (&execution.line.id, out::preview(actual, 200));
        out::warning(format_args!("the command differs: execution '{id}' ran {actual}"));
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
async fn show_live(entry: Entry, paths: &ServerPaths, name: String, args: &ShowArgs) -> Result<u8> {
    // Ids are unique within a session.
    let next_runs =
        (args.follow && args.session.is_none()).then(|| NextRuns::new(&args.id, paths)).transpose()?;
    let mirror = open_tool_mirror(entry, paths)?;
    show_runs(Run { mirror, name, notice: None }, next_runs, args.follow, UserTerminal::take()?).await
}

/// Prints the output of a running execution until its end.
async fn print_live(entry: Entry, paths: &ServerPaths) -> Result<u8> {
    let mut host = HostedBackend::view(entry, paths.data.hosts.clone(), Window::Keep);
    loop {
        match host.next().await {
            BackendEvent::Output => out::bytes(host.output())?,
            BackendEvent::Closed => return Ok(DONE),
            BackendEvent::Fault(message) => out::warning(message),
            BackendEvent::Lost(message) | BackendEvent::Gone(message) => {
                let failure = Failure::new(FAILED, format!("the output was cut off: {message}"));
                return Err(failure.hint("run the command again: it shows the recorded output").into());
            }
            _ => {}
        }
    }
}

/// Prints the output of a recording.
fn print_bytes(recording: &Path) -> Result<u8> {
    let mut reader = Reader::open(recording).map_err(read_failure)?;
    let (mut losses, mut out) = (Losses::new(recording), io::stdout().lock());
    while let Some(part) = reader.next().map_err(read_failure)? {
        match part {
            Part::Block(block) => {
                for record in block.records() {
                    if let Body::Data { bytes, .. } = record.body {
                        out.write_all(bytes).map_err(write_failure)?;
                    }
                }
                block.damage().into_iter().for_each(|lost| losses.add(lost));
            }
            Part::Lost(lost) => losses.add(&lost),
        }
    }
    out.flush().map_err(write_failure)?;
    losses.add_contradictions(reader.contradictions());
    Ok(losses.report())
}

fn recording_arg(recording: &Path) -> RecordingSelector {
    RecordingSelector { recording: Some(recording.display().to_string()), session: None }
}

/// Shows a recording in the viewer.
fn view_recording(recording: &Path, name: &str, args: &ShowArgs) -> Result<u8> {
    let next_runs = args.session.is_none().then_some(args.id.as_str());
    let args = ViewArgs {
        source: recording_arg(recording),
        gutter: Some(GutterArg::None),
        at: None,
        task: false,
        no_colors: false,
    };
    recording::view_tool(&args, name, next_runs)
}

/// Prints all lines of a recording.
fn print_lines(recording: &Path) -> Result<u8> {
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
        format: None,
    })
}
