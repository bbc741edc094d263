//! `nerve record`: a host in this process that relays to the terminal, or in a recorder process behind a viewer.

mod foreground;
mod observation;
mod recorder_daemon;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_commands::node_command::trace_tools;
use nerve_host::clock::Clock;
use nerve_host::process::Host;
use nerve_host::registry::entries;
use nerve_host::{EndSnapshot, HostSpec};
use nerve_record::ahr::Reader;
use nerve_record::export::{ReportFormat, report};
use nerve_record::library::RecordingInfo;
use nerve_record::replay::TerminalReplay;
use nerve_record::store::{Store, check_id};
use nerve_server::paths::ServerPaths;
use nerve_tui::stdio_relay::{self, ProgramEnd, Signals, SizeFrom, Streams};
use nerve_tui::terminal;
use nerve_types::Size;
use rustix::fs::{Access, access};
use serde_json::json;

pub(crate) use self::foreground::record_in_viewer;
use self::observation::{Observation, prepare_observer};
use crate::cmd::recording::format;
use crate::cmd::{screen_support, spawn_failure};
use crate::exit::{FAILED, Failure, USAGE};
use crate::{exit, out};
use nerve_cli::record::{Ipc, RecordArgs, RecordingTarget};

/// Returns true if the command shows a viewer ([`record_in_viewer`]); otherwise [`record`] is used.
pub(crate) fn shows_viewer(args: &RecordArgs) -> bool {
    screen_support::is_available() && !is_headless(args) && !args.plain
}

/// Returns true if the command does not use its terminal.
fn is_headless(args: &RecordArgs) -> bool {
    args.headless || args.daemon.is_some()
}

/// Returns the size for the program's terminal. Requests a given size from the window, and warns if it is refused.
async fn request_size(cols: Option<u16>, rows: Option<u16>) -> Size {
    let now = terminal::window().unwrap_or_default();
    let requested = Size::new(cols.unwrap_or(now.cols), rows.unwrap_or(now.rows));
    if !terminal::window::request_size(requested).await {
        let Size { cols, rows } = requested;
        out::warning(format_args!(
            "the window did not resize: it has {}x{}, the program's terminal {cols}x{rows}; lines may wrap wrongly",
            now.cols, now.rows
        ));
    }
    requested
}

/// Runs the program and returns its exit code, or 128 plus the signal number.
///
/// # Errors
/// The program cannot be run or recorded; [`nerve_tui::stdio_relay::Interrupted`].
pub(crate) async fn record(args: RecordArgs) -> Result<u8> {
    let headless = is_headless(&args);
    let start_pipe = args.daemon.map(|daemon| write_end("--daemon", daemon.fd)).transpose()?;
    let events_pipe = args.events_pipe_fd.map(|fd| write_end("--events-pipe-fd", fd)).transpose()?;
    let size = match args.daemon {
        Some(daemon) => daemon.size,
        None => request_size(args.cols, args.rows).await,
    };
    args.out_branch_points.as_deref().map_or(Ok(()), check_writable)?;
    let paths = ServerPaths::from_env();
    // Branch points are read from a recording; if none is kept, a temporary one is used.
    let scratch = match (args.target(), &args.out_branch_points) {
        (RecordingTarget::None, Some(_)) => Some(tempfile::Builder::new().prefix("nerve-record-").tempdir()?),
        _ => None,
    };
    let mut spec = spec(&args, &paths, scratch.as_ref().map(tempfile::TempDir::path))?;
    (spec.cols, spec.rows) = (size.cols, size.rows);
    // Signals are handled before there is anything to clean up.
    let signals = Signals::stop_on(nerve_server::stop_signal());
    // Answers terminal queries if no terminal does.
    let answers_queries = headless || !std::io::stdout().is_terminal();
    let observer = prepare_observer(&args, &mut spec, &paths, answers_queries);
    let recording = spec.recording.clone();
    let started = Host::start(spec).await;
    let mut host = started.map_err(|error| spawn_failure::failure(&error, &args.command, "sh -c '…'"))?;
    // Both connect before either acknowledges the program's exit: the host ends with the first acknowledgement.
    let connect_failed = "cannot connect to the program's terminal";
    let stream = host.connect().await.context(connect_failed)?;
    let observation = match observer {
        Some(observer) => {
            Some(Observation::start(observer, &host, events_pipe).await.context(connect_failed)?)
        }
        None => None,
    };
    if let Some(start_pipe) = start_pipe {
        recorder_daemon::report_start(&host.entry, start_pipe);
    }
    let streams = streams(&args, size);
    // A viewer in front reports faults itself.
    let report_fault = |fault: &str| {
        if args.daemon.is_none() {
            out::warning(fault);
        }
    };
    let outcome = stdio_relay::run(&mut host, stream, streams, signals, report_fault).await;
    if let Some(observation) = observation {
        observation.finish().await;
    }
    host.forget();
    let ProgramEnd { exit, interrupted } = outcome?;
    if args.daemon.is_none() {
        report_recording(&args, recording.as_deref());
    }
    if let (Some(path), Some(recording)) = (&args.out_branch_points, &recording) {
        write_branch_points(recording, path)?;
    }
    Ok(exit::program_exit_code(exit, interrupted)?)
}

/// Prints the length of the recording and the command that opens it, if standard error is a terminal.
fn report_recording(args: &RecordArgs, recording: Option<&Path>) {
    let is_shown = args.target() != RecordingTarget::None && std::io::stderr().is_terminal();
    let Some(info) = recording.filter(|_| is_shown).and_then(|path| RecordingInfo::read(path).ok()) else {
        return;
    };
    let name = match args.target() {
        RecordingTarget::File(_) => info.path.display().to_string(),
        _ => info.id,
    };
    let length = format::duration(info.duration.unwrap_or_default());
    out::note(format_args!("recorded {length}: nerve view {}", shell_words::quote(&name)));
}

/// Returns the standard streams that the program uses. `size` applies if the arguments set a size.
fn streams(args: &RecordArgs, size: Size) -> Streams {
    let headless = is_headless(args);
    let is_fixed = args.cols.is_some() || args.rows.is_some();
    Streams {
        keys: !headless,
        stdout: !headless,
        size: match (is_fixed, headless) {
            (true, _) => SizeFrom::Fixed(size),
            (false, true) => SizeFrom::Start,
            (false, false) => SizeFrom::Window,
        },
        plain_lines: false,
        answers: None,
    }
}

fn spec(args: &RecordArgs, paths: &ServerPaths, scratch: Option<&Path>) -> Result<HostSpec> {
    let (id, new_session) = HostSpec::new_ids();
    let session_id = args.session_id.clone().unwrap_or(new_session);
    check_id(&session_id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let hosting = paths.hosting(PathBuf::new())?;
    // Removes the entries of killed recorders.
    let dead = entries(&hosting.registry)
        .into_iter()
        .filter(|entry| entry.label.get("recorder") == label().get("recorder") && !entry.is_alive());
    dead.for_each(|entry| entry.forget(&hosting.registry));
    let recording = match args.target() {
        RecordingTarget::File(path) if path.as_os_str() == "-" => {
            let failure =
                Failure::new(USAGE, "cannot record to standard output: a recording is a file with an index");
            return Err(failure.hint("name a file; ./- is a file named -").into());
        }
        RecordingTarget::File(path) => {
            Some(std::path::absolute(path).context("cannot find the current directory")?)
        }
        RecordingTarget::Library => {
            Some(Store::new(hosting.recordings).path_for(&session_id, Clock::start().now())?)
        }
        RecordingTarget::None => scratch.map(|folder| folder.join("session.ahr")),
    };
    Ok(HostSpec {
        runtime: hosting.runtime.join(&id),
        id,
        session_id,
        argv: args.command.clone(),
        cwd: Some(std::env::current_dir().context("cannot find the current directory")?),
        env: trace_tools(args.trace_tools).into_iter().collect(),
        env_remove: Vec::new(),
        cols: 0,
        rows: 0,
        recording,
        must_record: true,
        quality: args.brotli_q,
        registry: hosting.registry,
        snapshots_at: match args.ipc {
            Ipc::Unix => None,
            Ipc::Tcp(addr) => Some(addr),
        },
        label: label(),
        end: Some(EndSnapshot {
            files: (args.target() != RecordingTarget::None).then(|| paths.data.snapshots.clone()),
        }),
        viewed: args.daemon.is_some(),
    })
}

/// Returns the label of recorder hosts, which no server adopts.
fn label() -> serde_json::Value {
    json!({ "recorder": true })
}

/// Reopens the write end of an inherited pipe, so that it is closed with this process.
fn write_end(option: &str, fd: u32) -> Result<File> {
    let path = format!("/dev/fd/{fd}");
    let open = std::fs::OpenOptions::new().write(true).open(&path);
    let bad = |error: std::io::Error| {
        Failure::new(USAGE, format!("{option} {fd} is not a writable descriptor: {error}"))
            .hint("give the number of a pipe's write end that this program inherits")
    };
    Ok(open.map_err(bad)?)
}

/// Checks early that the file can be written at the end.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let path = if path.is_absolute() { path.to_path_buf() } else { Path::new(".").join(path) };
    let target = match path.exists() {
        true => path.as_path(),
        false => path.parent().unwrap_or(Path::new("/")),
    };
    let reason = match access(target, Access::WRITE_OK) {
        Ok(()) if path.is_dir() => "it is a directory".to_string(),
        Ok(()) => return Ok(()),
        Err(error) => std::io::Error::from(error).to_string(),
    };
    let message = format!("cannot write {}: {reason}", path.display());
    Err(Failure::new(FAILED, message).hint("choose a file in a writable directory; nothing was started"))
}

fn write_branch_points(recording: &Path, to: &Path) -> Result<()> {
    let mut reader = Reader::open(recording)?;
    let replay = TerminalReplay::read_all(&mut reader, |lost| out::warning(lost))?;
    reader.contradictions().for_each(out::warning);
    let context = || format!("cannot write {}", to.display());
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(to);
    let mut file = std::io::BufWriter::new(file.with_context(context)?);
    report(ReportFormat::Json, &replay.terminal, &mut file).with_context(context)?;
    file.flush().with_context(context)
}
