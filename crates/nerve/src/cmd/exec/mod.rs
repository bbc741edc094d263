//! `nerve exec`: runs a command in its own terminal, recorded with the enclosing session.

pub(crate) mod session;
pub(crate) mod tool;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_host::clock::Clock;
use nerve_host::manager::QUALITY;
use nerve_host::process::Host;
use nerve_host::registry::entries;
use nerve_host::{EXECUTION, HostSpec, OF};
use nerve_record::activity::Status;
use nerve_record::executions::{self, ClaimError, ExecutionLine, NULL_INPUT, OTHER_INPUT};
use nerve_record::store::{MAX_ID_CHARS, Store, check_id};
use nerve_server::paths::ServerPaths;
use nerve_tui::stdio_relay::{self, ProgramEnd, Signals, SizeFrom, Streams};
use nerve_tui::terminal;
use nerve_types::{ExitStatus, Size};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::cmd::spawn_failure;
use crate::exit::{FAILED, Failure, USAGE, shell_code};
use crate::{exit, out};
use nerve_cli::exec::ExecArgs;

/// Terminal size without a window.
const DEFAULT_SIZE: Size = Size { cols: 120, rows: 40 };
/// Maximum length of a command in the host's label, in bytes; the list of executions has longer ones.
const MAX_LABEL_COMMAND: usize = 4096;
/// Variables that name a pager, which would wait for keys.
const PAGERS: [&str; 3] = ["PAGER", "GIT_PAGER", "MANPAGER"];

/// Runs the command and returns its exit code, or 128 plus the signal number.
///
/// # Errors
/// The command cannot be run; [`nerve_tui::stdio_relay::Interrupted`].
pub(crate) async fn run(args: ExecArgs) -> Result<u8> {
    // Signals are handled before there is anything to clean up.
    let signals = Signals::forwarded()?;
    let fallback = args.announced.is_some().then(|| args.command.clone());
    let clock = Clock::start();
    let Execution { id, session, mut host, stream, streams } = match start(args, clock).await {
        Ok(execution) => execution,
        Err(error) => {
            let Some(argv) = fallback else { return Err(error) };
            // An agent's command runs even if it cannot be recorded.
            out::warning(format_args!("this command is not recorded: {error:#}"));
            return Err(tool::replace(&argv));
        }
    };
    let outcome = stdio_relay::run(&mut host, stream, streams, signals, |fault| out::warning(fault)).await;
    host.forget();
    let ProgramEnd { exit, interrupted } =
        outcome.inspect_err(|_| list_end(session.as_deref(), &id, None, clock))?;
    let code = Some(shell_code(exit).into()).filter(|_| exit != ExitStatus::Unknown);
    list_end(session.as_deref(), &id, code, clock);
    Ok(exit::program_exit_code(exit, interrupted)?)
}

/// A running command.
struct Execution {
    id: String,
    /// Recording of the enclosing session.
    session: Option<PathBuf>,
    host: Host,
    stream: UnixStream,
    streams: Streams,
}

/// Starts the command in its host, and lists the execution in its session.
async fn start(args: ExecArgs, clock: Clock) -> Result<Execution> {
    let paths = ServerPaths::from_env();
    let (host_id, new_id) = HostSpec::new_ids();
    let id = args.id.clone().unwrap_or(new_id);
    check_execution_id(&id)?;
    let session = session::recording(args.session.as_deref(), &paths)?;
    let argv = command_argv(&args);
    let command = args.announced.clone().or(args.line.clone()).unwrap_or_else(|| shell_words::join(&argv));
    let hosting = paths.hosting(PathBuf::new())?;
    forget_dead_hosts(&hosting.registry);
    let recording = match &session {
        Some(session) => executions::recording_path(session, &id)?,
        None => Store::new(hosting.recordings.clone()).path_for(&id, clock.now())?,
    };
    if recording.exists() {
        return Err(duplicate_id(&id).into());
    }
    // Everything that can fail comes before the execution is listed, because a listed execution needs an end.
    let cwd = std::env::current_dir().context("cannot find the current directory")?;
    let terminals = Terminals::of_this_process();
    let stdin = (!terminals.stdin && !args.interactive).then(clone_stdin).transpose()?;
    let must_record = match &session {
        Some(session) => {
            let line = ExecutionLine {
                id: id.clone(),
                command: Some(command.clone()),
                host: Some(host_id.clone()),
                input: stdin.as_ref().map(|stdin| input_kind(stdin, args.reads_nothing).to_string()),
                started_ns: Some(clock.now().0),
                status: Some(Status::Running.as_str().into()),
                anchor_byte: session::output_offset(session, &paths).await,
                ..ExecutionLine::default()
            };
            list_start(session, line)?
        }
        None => true,
    };
    let size = terminal::window().filter(|_| terminals.stdout).unwrap_or(DEFAULT_SIZE);
    let spec = HostSpec {
        runtime: hosting.runtime.join(&host_id),
        id: host_id,
        session_id: id.clone(),
        argv: argv.clone(),
        cwd: Some(cwd),
        env: terminals.environment(),
        env_remove: Vec::new(),
        cols: args.cols.unwrap_or(size.cols),
        rows: args.rows.unwrap_or(size.rows),
        recording: Some(recording),
        must_record,
        quality: QUALITY,
        registry: hosting.registry,
        snapshots_at: None,
        label: host_label(&id, &command, session.as_deref()),
        end: None,
        viewed: false,
    };
    let is_fixed = args.cols.is_some() || args.rows.is_some();
    let streams = terminals.streams(is_fixed, Size::new(spec.cols, spec.rows));
    let started = Host::start_with_client(spec, stdin).await;
    let (host, stream) = started.map_err(|error| {
        let failure = spawn_failure::failure(&error, &argv, "give it with -c");
        list_end(session.as_deref(), &id, Some(failure.code.into()), clock);
        failure
    })?;
    if let Some(session) = &session {
        announce_host(session, &id, &host);
    }
    Ok(Execution { id, session, host, stream, streams })
}

/// The standard streams that are terminals.
#[derive(Clone, Copy)]
struct Terminals {
    stdin: bool,
    stdout: bool,
}

impl Terminals {
    fn of_this_process() -> Terminals {
        Terminals { stdin: std::io::stdin().is_terminal(), stdout: std::io::stdout().is_terminal() }
    }

    /// Returns the variables of the command. Without a terminal, nothing may wait for keys.
    fn environment(self) -> BTreeMap<String, String> {
        let pagers = PAGERS.iter().filter(|_| !self.stdout);
        pagers.map(|name| ((*name).to_string(), "cat".to_string())).collect()
    }

    /// Returns how the standard streams are connected to a program of this size. `is_fixed`: its size does not follow the window.
    fn streams(self, is_fixed: bool, size: Size) -> Streams {
        Streams {
            keys: self.stdin,
            stdout: true,
            size: if self.stdout && !is_fixed { SizeFrom::Window } else { SizeFrom::Start },
            plain_lines: !self.stdout,
            // Answers terminal queries if no terminal does.
            answers: (!self.stdout || !self.stdin).then_some(size),
        }
    }
}

/// Wakes the followers of the list of executions: the host can be found now.
fn announce_host(session: &Path, id: &str, host: &Host) {
    let (id, host) = (id.to_string(), Some(host.entry.id.clone()));
    // The end is listed in any case.
    let _ = executions::append(session, ExecutionLine { id, host, ..ExecutionLine::default() });
}

/// Lists the start of an execution. Returns false if it cannot be listed, which does not prevent the command.
///
/// # Errors
/// The session already has an execution with this id.
fn list_start(session: &Path, line: ExecutionLine) -> Result<bool> {
    match executions::claim(session, line) {
        Ok(()) => Ok(true),
        Err(ClaimError::Taken(id)) => Err(duplicate_id(&id).into()),
        Err(ClaimError::Io(error)) => {
            out::warning(format_args!("cannot list the execution: {error}"));
            Ok(false)
        }
    }
}

/// Returns the label of an execution's host.
fn host_label(id: &str, command: &str, session: Option<&Path>) -> Value {
    let mut label = json!({ "recorder": true, EXECUTION: id });
    if command.len() <= MAX_LABEL_COMMAND {
        label["command"] = json!(command);
    }
    if let Some(session) = session {
        label[OF] = json!(session);
    }
    label
}

/// Lists the end of an execution, if it has a session. `code`: its exit code, if known.
fn list_end(session: Option<&Path>, id: &str, code: Option<i32>, clock: Clock) {
    let Some(session) = session else { return };
    let status = if code == Some(0) { Status::Completed } else { Status::Failed };
    let line = ExecutionLine {
        id: id.to_string(),
        ended_ns: Some(clock.now().0),
        exit_code: code,
        status: Some(status.as_str().into()),
        ..ExecutionLine::default()
    };
    let result = executions::append(session, line);
    // The files of an unrecorded session are removed with it.
    let is_gone = || session.parent().is_none_or(|folder| !folder.is_dir());
    if let Err(error) = result.or_else(|error| if is_gone() { Ok(()) } else { Err(error) }) {
        out::warning(format_args!("cannot list the execution's end: {error}"));
    }
}

/// Returns the command to start; a line is run by a shell.
fn command_argv(args: &ExecArgs) -> Vec<String> {
    match &args.line {
        Some(line) => vec![shell(), "-c".to_string(), line.clone()],
        None => args.command.clone(),
    }
}

/// Returns the user's shell if it is a POSIX-like one.
pub(super) fn shell() -> String {
    let known = ["sh", "bash", "dash", "ksh", "zsh"];
    let is_known = |path: &String| {
        let name = Path::new(path).file_name().and_then(std::ffi::OsStr::to_str);
        name.is_some_and(|name| known.contains(&name)) && Path::new(path).is_file()
    };
    std::env::var("SHELL").ok().filter(is_known).unwrap_or_else(|| "/bin/sh".to_string())
}

/// Checks an execution id.
///
/// # Errors
/// The id is invalid.
pub(crate) fn check_execution_id(id: &str) -> Result<(), Failure> {
    check_id(id).map_err(|_| {
        let id = out::preview(id, MAX_ID_CHARS);
        let message =
            format!("invalid execution id {id:?}: use 1 to {MAX_ID_CHARS} of A-Z, a-z, 0-9, '_' and '-'");
        Failure::new(USAGE, message)
    })
}

/// Returns the kind of standard input; [`NULL_INPUT`] also if the command is known not to read it.
fn input_kind(input: &OwnedFd, reads_nothing: bool) -> &'static str {
    // `/dev/null` by device number, whatever its name.
    let device = |stat: rustix::fs::Stat| {
        let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
        is_device.then_some(stat.st_rdev)
    };
    let null = rustix::fs::stat("/dev/null").ok().and_then(device);
    let is_null = |stat| null.is_some() && device(stat) == null;
    match reads_nothing || rustix::fs::fstat(input).is_ok_and(is_null) {
        true => NULL_INPUT,
        false => OTHER_INPUT,
    }
}

/// Duplicates standard input for the program.
fn clone_stdin() -> Result<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned().context("cannot duplicate standard input")
}

/// Removes the entries of killed executions.
fn forget_dead_hosts(registry: &Path) {
    let dead =
        |entry: &nerve_host::registry::Entry| entry.label.get(EXECUTION).is_some() && !entry.is_alive();
    entries(registry).into_iter().filter(dead).for_each(|entry| entry.forget(registry));
}

/// Returns the error of an id that another execution has.
fn duplicate_id(id: &str) -> Failure {
    Failure::new(FAILED, format!("execution '{id}' already exists"))
        .hint("omit --id to get a new id, or show the execution: nerve tools --id")
}
