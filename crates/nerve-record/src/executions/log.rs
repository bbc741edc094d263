//! Writes the executions in an agent's activities to the list next to its recording.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::activity::{Activity, Status, TsMs};
use crate::executions::{self, ExecutionLine};
use crate::store::check_id;
use serde_json::Value;

/// Maximum number of characters of the arguments of a tool that is not a shell.
const MAX_ARGS_CHARS: usize = 200;

/// Writes the executions of one agent to the list. Clones write the same list.
#[derive(Debug, Clone)]
pub struct ExecutionLog {
    recording: PathBuf,
    /// Number of bytes that the terminal has output.
    offset: Arc<AtomicU64>,
    /// The list cannot be written, and that was logged.
    failed: Arc<AtomicBool>,
    /// The list is removed together with the host that it belongs to.
    is_ephemeral: bool,
}

impl ExecutionLog {
    /// Creates the log next to a recording.
    pub fn new(recording: PathBuf) -> ExecutionLog {
        ExecutionLog { recording, offset: Arc::default(), failed: Arc::default(), is_ephemeral: false }
    }

    /// Creates the log of a session that is not recorded. Write errors after the end of its host are ignored.
    pub fn ephemeral(stands_for: PathBuf) -> ExecutionLog {
        ExecutionLog { is_ephemeral: true, ..ExecutionLog::new(stands_for) }
    }

    /// Sets the number of bytes that the terminal has output, the position of executions that begin now.
    pub fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Returns the path of the list if it could not be written.
    pub fn failed_path(&self) -> Option<PathBuf> {
        self.failed.load(Ordering::Relaxed).then(|| executions::list_path(&self.recording))
    }

    /// Lists the begin or end of an execution; ignores other activities. Writes a file: call it on a blocking thread.
    pub fn record(&self, activity: &Activity) {
        let has_terminal =
            |id: &str| executions::recording_path(&self.recording, id).is_ok_and(|path| Path::exists(&path));
        let anchor = self.offset.load(Ordering::Relaxed);
        let Some(line) = to_line(activity, anchor, has_terminal) else { return };
        if let Err(error) = executions::append(&self.recording, line)
            && !(self.is_ephemeral && error.kind() == ErrorKind::NotFound)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            let list = executions::list_path(&self.recording);
            tracing::warn!(list = %list.display(), %error, "cannot write the list of executions");
        }
    }
}

/// Converts an activity to a line; `None` if it is no execution, or if its id cannot be part of a path. `has_terminal`: returns
/// true if the execution's output is recorded separately.
fn to_line(activity: &Activity, anchor: u64, has_terminal: impl Fn(&str) -> bool) -> Option<ExecutionLine> {
    let line = match activity {
        Activity::ToolStart { name, args, execution, at, .. } => ExecutionLine {
            id: execution.clone(),
            tool: Some(name.clone()),
            command: Some(command(name, args)),
            started_ns: Some(nanoseconds(*at)),
            status: Some(Status::Running.as_str().into()),
            anchor_byte: Some(anchor),
            ..ExecutionLine::default()
        },
        Activity::ToolOutput { name, output, execution, status, at } => {
            let over = *status != Status::Running;
            let output = Some(output.clone()).filter(|_| over && !has_terminal(execution));
            ExecutionLine {
                id: execution.clone(),
                tool: Some(name.clone()).filter(|name| !name.is_empty()),
                ended_ns: over.then(|| nanoseconds(*at)),
                status: Some(status.as_str().into()),
                output,
                ..ExecutionLine::default()
            }
        }
        _ => return None,
    };
    check_id(&line.id).is_ok().then_some(line)
}

fn nanoseconds(at: TsMs) -> u64 {
    at.0.saturating_mul(1_000_000)
}

/// Returns what was run: the command line of a shell, or the tool and its main argument.
fn command(tool: &str, args: &str) -> String {
    let arguments: Option<Value> = serde_json::from_str(args).ok();
    let text = |key: &str| arguments.as_ref()?.get(key)?.as_str();
    if let Some(command) = text("command") {
        return command.to_string();
    }
    let short = ["file_path", "path", "pattern", "url", "query", "description"].into_iter().find_map(text);
    let mut short: String = short.unwrap_or(args).chars().take(MAX_ARGS_CHARS + 1).collect();
    if short.chars().count() > MAX_ARGS_CHARS {
        short.pop();
        short.push('…');
    }
    if short.is_empty() { tool.to_string() } else { format!("{tool} {short}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(name: &str, args: &str, id: &str) -> Activity {
        let (name, args, execution) = (name.into(), args.into(), id.into());
        Activity::ToolStart { name, args, execution, status: Status::Running, at: TsMs(5) }
    }

    fn output(id: &str, status: Status) -> Activity {
        let (name, output, execution) = ("Bash".into(), "out".into(), id.into());
        Activity::ToolOutput { name, output, execution, status, at: TsMs(9) }
    }

    #[test]
    fn tool_is_listed_with_its_command_from_start_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = ExecutionLog::new(dir.path().join("s.ahr"));
        log.set_offset(42);
        log.record(&start("Bash", r#"{"command":"ls -l | wc","description":"d"}"#, "t1"));
        log.record(&start("Read", r#"{"file_path":"/a b"}"#, "t2"));
        log.record(&start("Odd", r#"{"x":1}"#, "../up"));
        log.set_offset(50);
        log.record(&output("t1", Status::Running));
        log.record(&output("t1", Status::Failed));
        log.record(&Activity::Thought { text: "x".into(), reasoning: None, at: TsMs(1) });
        let known = executions::read(&dir.path().join("s.ahr")).unwrap();
        assert_eq!(known.iter().count(), 2);
        let one = known.get("t1").unwrap();
        assert_eq!(one.command.as_deref(), Some("ls -l | wc"));
        assert_eq!((one.started_ns, one.ended_ns), (Some(5_000_000), Some(9_000_000)));
        assert_eq!((one.anchor_byte, one.status.as_deref()), (Some(42), Some("failed")));
        assert_eq!(one.output.as_deref(), Some("out"));
        assert_eq!(known.get("t2").unwrap().command.as_deref(), Some("Read /a b"));
    }

    #[test]
    fn errors_after_end_of_unrecorded_session_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("gone").join("session.ahr");
        let log = ExecutionLog::ephemeral(missing.clone());
        log.record(&start("Bash", "{}", "t1"));
        assert_eq!(log.failed_path(), None);
        let log = ExecutionLog::new(missing.clone());
        log.record(&start("Bash", "{}", "t1"));
        assert_eq!(log.failed_path(), Some(executions::list_path(&missing)));
    }

    #[test]
    fn execution_with_terminal_keeps_its_output_there() {
        let line = to_line(&output("t", Status::Completed), 0, |_| true).unwrap();
        assert_eq!((line.output, line.ended_ns), (None, Some(9_000_000)));
        let line = to_line(&output("t", Status::Running), 0, |_| false).unwrap();
        assert_eq!((line.output, line.ended_ns), (None, None));
    }

    #[test]
    fn unknown_arguments_are_shortened() {
        assert_eq!(
            command("T", &format!("{{\"x\":\"{}\"}}", "y".repeat(500))).chars().count(),
            MAX_ARGS_CHARS + 3
        );
        assert_eq!(command("T", ""), "T");
    }
}
