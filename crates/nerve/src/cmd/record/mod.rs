//! `nerve record`: a host in this process that relays to the terminal, or in a recorder process behind a viewer.

mod foreground;
mod recorder_daemon;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_host::clock::Clock;
use nerve_host::process::Host;
use nerve_host::registry::entries;
use nerve_host::{EndSnapshot, HostSpec};
use nerve_node::activity::pipe::EventsPipe;
use nerve_node::command::{EngineEvent, EventKind, StateName};
use nerve_node::executions::trace;
use nerve_node::observer::Observer;
use nerve_record::activity::{Activity, Level, TsMs};
use nerve_record::ahr::Reader;
use nerve_record::export::{ReportFormat, report};
use nerve_record::replay::TerminalReplay;
use nerve_record::store::{Store, check_id};
use nerve_server::paths::ServerPaths;
use nerve_tui::terminal;
use nerve_types::Size;
use rustix::fs::{Access, access};
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

pub(crate) use self::foreground::viewed;
use crate::cli::record::{Ipc, RecordArgs};
use crate::cmd::stdio_relay::{self, ProgramEnd, Signals, SizeFrom, Streams};
use crate::cmd::{full_screen, spawn_failure};
use crate::exit::{FAILED, Failure, USAGE};
use crate::{exit, out};

/// Time limit for the last event after the program's end.
const LAST_EVENT: Duration = Duration::from_secs(2);

/// Returns true if a viewer is shown ([`viewed()`]); otherwise [`record`] is used.
pub(crate) fn is_viewed(args: &RecordArgs) -> bool {
    full_screen::is_there() && !is_headless(args) && !args.plain
}

/// Returns true without a terminal.
fn is_headless(args: &RecordArgs) -> bool {
    args.headless || args.behind.is_some()
}

/// Returns the size for the program's terminal. If a size is given, asks the window to resize; prints a warning if it
/// does not.
async fn wanted_size(cols: Option<u16>, rows: Option<u16>) -> Size {
    let now = terminal::window().unwrap_or_default();
    let wanted = Size::new(cols.unwrap_or(now.cols), rows.unwrap_or(now.rows));
    if !terminal::window::request_size(wanted).await {
        let Size { cols, rows } = wanted;
        out::warning(format_args!(
            "this window stays at {}x{}; the program's terminal is {cols}x{rows} and may look torn here",
            now.cols, now.rows
        ));
    }
    wanted
}

/// Runs the program and returns its exit code, or 128 plus the signal number.
///
/// # Errors
/// The program cannot be run or recorded; [`crate::exit::Interrupted`].
pub(crate) async fn record(args: RecordArgs) -> Result<u8> {
    let headless = is_headless(&args);
    let starter = args.behind.map(|behind| write_end("--behind", behind.fd)).transpose()?;
    let pipe = args.events_pipe_fd.map(|fd| write_end("--events-pipe-fd", fd)).transpose()?;
    let size = match args.behind {
        Some(behind) => behind.size,
        None => wanted_size(args.cols, args.rows).await,
    };
    args.out_branch_points.as_deref().map_or(Ok(()), can_be_written)?;
    let paths = ServerPaths::from_env();
    // Branch points are read from a recording; without --out-file a temporary one is used.
    let scratch = match (&args.out_file, &args.out_branch_points) {
        (None, Some(_)) => Some(tempfile::Builder::new().prefix("nerve-record-").tempdir()?),
        _ => None,
    };
    let mut spec = spec(&args, &paths, scratch.as_ref().map(tempfile::TempDir::path))?;
    (spec.cols, spec.rows) = (size.cols, size.rows);
    // Signals are handled before there is anything to clean up.
    let signals = Signals::stop_requests();
    // Answer terminal queries if no terminal does.
    let unseen = headless || !std::io::stdout().is_terminal();
    let relay = crate::current_exe::path().ok();
    // The watch also records tools and the conversation, which branches need.
    let wanted = unseen || pipe.is_some() || args.trace_tools;
    let watch = Observer::prepare(&mut spec, Some(&paths.profiles()), relay.as_deref(), unseen)
        .filter(|watch| wanted || watch.knows_conversations());
    let untraced = match &watch {
        Some(watch) => watch.untraced(),
        None => Some("that is for Claude Code, and no profile knows this program".to_string()),
    };
    if let Some(why) = untraced.filter(|_| args.trace_tools) {
        out::warning(format_args!("no tools are traced: {why}"));
    }
    let recording = spec.recording.clone();
    let started = Host::start(spec).await;
    let mut host = started.map_err(|error| spawn_failure::failure(&error, &args.command, "sh -c '…'"))?;
    // Connects first, so that no byte is missed.
    let stream = host.connect().await.context("cannot connect to the program's terminal")?;
    let watching = watch.map(|watch| watch.start(&host));
    let telling =
        watching.as_ref().zip(pipe).map(|(watching, pipe)| tokio::spawn(tell(watching.events(), pipe)));
    if let Some(starter) = starter {
        recorder_daemon::tell(&host.entry, starter);
    }
    let fixed = (args.cols.is_some() || args.rows.is_some()).then_some(size);
    let follows = if headless { SizeFrom::Start } else { SizeFrom::Window };
    let streams = Streams {
        keys: !headless,
        stdout: !headless,
        // A viewer in front reports faults itself.
        reports_faults: args.behind.is_none(),
        size: fixed.map_or(follows, SizeFrom::Fixed),
        plain_lines: false,
        answers: None,
    };
    let ended = stdio_relay::run(&mut host, stream, streams, signals).await;
    if let Some(watching) = watching {
        // The last event is the program's end, which readers of the pipe wait for.
        let _ = watching.node().wait(&[StateName::Stopped], Some(LAST_EVENT)).await;
        if let Some(list) = watching.node().failed_execution_log() {
            let list = list.display();
            out::warning(format_args!("not all that was run is listed: {list} cannot be written"));
        }
    }
    if let Some(telling) = telling {
        // It ends with the node.
        let _ = telling.await;
    }
    host.forget();
    let ProgramEnd { exit, interrupted } = ended?;
    if let (Some(path), Some(recording)) = (&args.out_branch_points, &recording) {
        branch_points(recording, path)?;
    }
    Ok(exit::program_exit_code(exit, interrupted)?)
}

fn spec(args: &RecordArgs, paths: &ServerPaths, scratch: Option<&Path>) -> Result<HostSpec> {
    let (id, new_session) = HostSpec::new_ids();
    let session_id = args.session_id.clone().unwrap_or(new_session);
    check_id(&session_id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let hosting = paths.hosting(PathBuf::new())?;
    // Removes the entries of killed recorders.
    let left = entries(&hosting.registry)
        .into_iter()
        .filter(|entry| entry.label.get("recorder") == label().get("recorder") && !entry.is_alive());
    left.for_each(|entry| entry.forget(&hosting.registry));
    let recording = match &args.out_file {
        Some(Some(path)) => Some(std::path::absolute(path).context("cannot find the current directory")?),
        Some(None) => Some(Store::new(hosting.recordings).path_for(&session_id, Clock::start().now())?),
        None => scratch.map(|folder| folder.join("session.ahr")),
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
        end: Some(EndSnapshot { files: args.out_file.is_some().then(|| paths.snapshots()) }),
        viewed: args.behind.is_some(),
    })
}

/// Returns the variable that enables tool tracing.
pub(crate) fn trace_tools(wanted: bool) -> Option<(String, String)> {
    wanted.then(|| (trace::VARIABLE.to_string(), "1".to_string()))
}

/// Returns the label of recorder hosts, which no server adopts.
fn label() -> serde_json::Value {
    json!({ "recorder": true })
}

/// Reopens the write end of an inherited pipe, so that it is closed with this process.
fn write_end(option: &str, fd: u32) -> Result<File> {
    let path = format!("/proc/self/fd/{fd}");
    let open = std::fs::OpenOptions::new().write(true).open(&path);
    let bad = |error: std::io::Error| {
        Failure::new(USAGE, format!("{option} {fd} is no descriptor to write to: {error}"))
            .hint("give the number of a pipe's write end that this program inherits")
    };
    Ok(open.map_err(bad)?)
}

/// Forwards events to the pipe until either ends.
async fn tell(mut events: broadcast::Receiver<EngineEvent>, pipe: File) {
    let pipe = match EventsPipe::new(pipe) {
        Ok(pipe) => pipe,
        Err(error) => return out::warning(format_args!("no events are sent: {error}")),
    };
    loop {
        let sent = match events.recv().await {
            Ok(EngineEvent { kind: EventKind::Activity(activity), .. }) => pipe.send(&activity),
            Ok(_) => Ok(()),
            Err(RecvError::Lagged(lost)) => pipe.send(&Activity::Log {
                level: Level::Warn,
                message: format!("{lost} events are missing here: they came too fast"),
                execution: None,
                at: TsMs::from(Clock::start().now()),
            }),
            Err(RecvError::Closed) => return,
        };
        if let Err(error) = sent {
            return out::warning(error);
        }
    }
}

/// Checks early that the file can be written at the end.
fn can_be_written(path: &Path) -> Result<(), Failure> {
    let path = if path.is_absolute() { path.to_path_buf() } else { Path::new(".").join(path) };
    let target = match path.exists() {
        true => path.as_path(),
        false => path.parent().unwrap_or(Path::new("/")),
    };
    let why = match access(target, Access::WRITE_OK) {
        Ok(()) if path.is_dir() => "it is a directory".to_string(),
        Ok(()) => return Ok(()),
        Err(error) => std::io::Error::from(error).to_string(),
    };
    let message = format!("cannot write {}: {why}", path.display());
    Err(Failure::new(FAILED, message)
        .hint("name a file in a directory that can be written; nothing was started"))
}

fn branch_points(recording: &Path, to: &Path) -> Result<()> {
    let mut reader = Reader::open(recording)?;
    let replay = TerminalReplay::read_all(&mut reader, |lost| out::warning(lost))?;
    let cannot = || format!("cannot write {}", to.display());
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(to);
    let mut file = std::io::BufWriter::new(file.with_context(cannot)?);
    report(ReportFormat::Json, &replay.terminal, &mut file).with_context(cannot)?;
    file.flush().with_context(cannot)
}
