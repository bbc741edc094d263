//! Finds an execution and where to show it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_engine::recordings;
use nerve_host::registry::{Entry, entries};
use nerve_host::{EXECUTION, OF};
use nerve_record::executions::{self, ExecutionLine, Executions};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use crate::cmd::exec::{self, session};
use crate::exit::{Failure, NOT_FOUND};
use crate::out;

/// Maximum number of ids in an error.
const MAX_NAMED: usize = 5;

/// An execution, with its session and the place where it can be shown.
#[derive(Debug, Clone)]
pub(crate) struct FoundExecution {
    /// Entry in the list.
    pub(crate) line: ExecutionLine,
    /// File of its session; `None` outside a session.
    pub(crate) session: Option<PathBuf>,
    pub(crate) location: Location,
}

/// Place where an execution can be shown.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// A running terminal.
    Host(Box<Entry>),
    /// A recorded terminal.
    Recording(PathBuf),
    /// No own terminal. `running`: it has not ended, as far as known.
    Agent { running: bool },
}

impl FoundExecution {
    /// Locates a listed execution.
    fn new(line: ExecutionLine, session: PathBuf, hosts: &[Entry]) -> FoundExecution {
        let recording = executions::recording_path(&session, &line.id).ok().filter(|path| path.is_file());
        let location = match (host_of(&line, hosts), recording) {
            (Some(host), _) => Location::Host(Box::new(host.clone())),
            (None, Some(recording)) => Location::Recording(recording),
            (None, None) => Location::Agent {
                // An execution does not outlive its agent.
                running: !line.has_ended() && !line.has_terminal() && is_session_running(&session, hosts),
            },
        };
        FoundExecution { line, session: Some(session), location }
    }

    /// Creates an execution outside a session.
    fn standalone(id: &str, location: Location, command: Option<String>) -> FoundExecution {
        let line = ExecutionLine { id: id.to_string(), command, ..ExecutionLine::default() };
        FoundExecution { line, session: None, location }
    }
}

/// Returns the running host of an execution.
fn host_of<'a>(line: &ExecutionLine, hosts: &'a [Entry]) -> Option<&'a Entry> {
    hosts.iter().find(|host| Some(&host.id) == line.host.as_ref() && host.is_alive())
}

/// Returns true if the session's host is alive.
fn is_session_running(session: &Path, hosts: &[Entry]) -> bool {
    hosts.iter().any(|host| host.belongs_to(session) && host.is_alive())
}

/// Finds the execution in a session.
///
/// # Errors
/// The id is unknown, or the list cannot be read.
pub(super) fn find_in_session(id: &str, recording: &Path, hosts: &[Entry]) -> Result<FoundExecution> {
    match find_in_list(id, recording)? {
        Some(line) => Ok(FoundExecution::new(line, recording.to_path_buf(), hosts)),
        None => Err(not_found(id, Some((recording, &read_list(recording)?))).into()),
    }
}

/// Finds the execution in the named session, otherwise in the enclosing one, otherwise in the newest that knows the
/// id.
///
/// # Errors
/// The id is invalid, or there is no such session or execution.
pub(crate) fn find_execution(id: &str, named: Option<&str>, paths: &ServerPaths) -> Result<FoundExecution> {
    exec::check_execution_id(id)?;
    let hosts = entries(&paths.data.hosts);
    if let Some(recording) = session::recording(named, paths)? {
        let found = find_in_session(id, &recording, &hosts);
        if found.is_ok() || named.is_some() {
            return found;
        }
    }
    if let Some(found) = find_running(id, &hosts) {
        return Ok(found);
    }
    let unrecorded = recordings::unrecorded(&hosts).into_iter().filter_map(|entry| entry.unrecorded);
    let mut recordings = unrecorded.chain(Store::new(paths.data.recordings.clone()).all());
    let Some(found) = recordings.find_map(|recording| find_recorded(id, recording, &hosts)) else {
        return Err(not_found(id, None).into());
    };
    if recordings.any(|recording| find_recorded(id, recording, &hosts).is_some()) {
        out::warning(format_args!(
            "other sessions have an execution '{id}' too: showing the newest; select another with --recording"
        ));
    }
    Ok(found)
}

/// Returns the recording with this id, or the execution with this id in the recording's list.
fn find_recorded(id: &str, recording: PathBuf, hosts: &[Entry]) -> Option<FoundExecution> {
    if id_of(&recording) == Some(id) && recording.is_file() {
        let command = Meta::load(&recording).ok().flatten().map(|meta| shell_words::join(&meta.cmd));
        return Some(FoundExecution::standalone(id, Location::Recording(recording), command));
    }
    // An unreadable list is skipped.
    let line = find_in_list(id, &recording).ok().flatten()?;
    Some(FoundExecution::new(line, recording, hosts))
}

/// Finds a running execution, whose session may be recorded anywhere.
fn find_running(id: &str, hosts: &[Entry]) -> Option<FoundExecution> {
    let text = |host: &Entry, key: &str| host.label.get(key).and_then(Value::as_str).map(str::to_string);
    let matches = |host: &&Entry| text(host, EXECUTION).as_deref() == Some(id) && host.is_alive();
    let host = hosts.iter().rev().find(matches)?;
    let listed = text(host, OF).map(PathBuf::from).and_then(|session| {
        let line = find_in_list(id, &session).ok()??;
        Some(FoundExecution::new(line, session, hosts))
    });
    let standalone =
        || FoundExecution::standalone(id, Location::Host(Box::new(host.clone())), text(host, "command"));
    Some(listed.unwrap_or_else(standalone))
}

fn find_in_list(id: &str, recording: &Path) -> Result<Option<ExecutionLine>> {
    let path = executions::list_path(recording);
    executions::find(recording, id).with_context(|| format!("cannot read {}", path.display()))
}

fn read_list(recording: &Path) -> Result<Executions> {
    let path = executions::list_path(recording);
    executions::read(recording).with_context(|| format!("cannot read {}", path.display()))
}

fn not_found(id: &str, session: Option<(&Path, &Executions)>) -> Failure {
    let Some((recording, known)) = session else {
        return Failure::new(NOT_FOUND, format!("no execution '{id}' in any recording"))
            .hint("select the session with --recording ID, or --recording FILE for one elsewhere");
    };
    let message = match recording.is_file() {
        true => format!("the session {} has no execution '{id}'", recording.display()),
        false => format!("the session has no execution '{id}'"),
    };
    let ids: Vec<&str> = known.iter().rev().take(MAX_NAMED).map(|line| line.id.as_str()).collect();
    let hint = match ids[..] {
        [] => "the session has no executions".to_string(),
        _ => format!("latest executions: {}", ids.join(", ")),
    };
    Failure::new(NOT_FOUND, message).hint(hint)
}
