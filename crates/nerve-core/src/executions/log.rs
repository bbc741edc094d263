//! What an agent's activities say of executions, as lines of the list beside its recording.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nerve_record::activity::{Activity, Status, TsMs};
use nerve_record::executions::{self, ExecutionLine};
use nerve_record::store::check_id;
use serde_json::Value;

/// The most characters of the arguments of a tool that is no shell.
const ARGS: usize = 200;

/// Lists what one agent runs. Clones write the same list.
#[derive(Debug, Clone)]
pub(crate) struct Noter {
    recording: PathBuf,
    /// Output bytes so far.
    reached: Arc<AtomicU64>,
    /// The list cannot be written, and that was said.
    failed: Arc<AtomicBool>,
    /// The list goes with the host that it was made for.
    is_passing: bool,
}

impl Noter {
    pub(crate) fn new(recording: PathBuf) -> Noter {
        Noter { recording, reached: Arc::default(), failed: Arc::default(), is_passing: false }
    }

    /// Of a session that is not recorded: when its host is gone, nobody misses the last lines.
    pub(crate) fn passing(stands_for: PathBuf) -> Noter {
        Noter { is_passing: true, ..Noter::new(stands_for) }
    }

    /// The terminal has written so much: what begins now begins here.
    pub(crate) fn reached(&self, offset: u64) {
        self.reached.store(offset, Ordering::Relaxed);
    }

    /// The list, if it could not be written.
    pub(crate) fn unwritten(&self) -> Option<PathBuf> {
        self.failed.load(Ordering::Relaxed).then(|| executions::path_of(&self.recording))
    }

    /// Lists it if it is the begin or the end of an execution. Writes a file: not for a task.
    pub(crate) fn note(&self, activity: &Activity) {
        let has_terminal =
            |id: &str| executions::recording_of(&self.recording, id).is_ok_and(|path| Path::exists(&path));
        let anchor = self.reached.load(Ordering::Relaxed);
        let Some(line) = line_of(activity, anchor, has_terminal) else { return };
        if let Err(error) = executions::append(&self.recording, line)
            && !(self.is_passing && error.kind() == ErrorKind::NotFound)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            let list = executions::path_of(&self.recording);
            tracing::warn!(list = %list.display(), %error, "executions are not listed");
        }
    }
}

/// The line of an activity; `None` for what is no execution, or whose id cannot be part of a path. `has_terminal`: the output of this
/// one is recorded elsewhere.
fn line_of(activity: &Activity, anchor: u64, has_terminal: impl Fn(&str) -> bool) -> Option<ExecutionLine> {
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

/// What was run: the command line of a shell, else the tool and what it was given.
fn command(tool: &str, args: &str) -> String {
    let given: Option<Value> = serde_json::from_str(args).ok();
    let text = |key: &str| given.as_ref()?.get(key)?.as_str();
    if let Some(command) = text("command") {
        return command.to_string();
    }
    let short = ["file_path", "path", "pattern", "url", "query", "description"].into_iter().find_map(text);
    let mut short: String = short.unwrap_or(args).chars().take(ARGS + 1).collect();
    if short.chars().count() > ARGS {
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
    fn a_tool_is_listed_with_its_command_from_begin_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let noter = Noter::new(dir.path().join("s.ahr"));
        noter.reached(42);
        noter.note(&start("Bash", r#"{"command":"ls -l | wc","description":"d"}"#, "t1"));
        noter.note(&start("Read", r#"{"file_path":"/a b"}"#, "t2"));
        noter.note(&start("Odd", r#"{"x":1}"#, "../up"));
        noter.reached(50);
        noter.note(&output("t1", Status::Running));
        noter.note(&output("t1", Status::Failed));
        noter.note(&Activity::Thought { text: "x".into(), reasoning: None, at: TsMs(1) });
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
    fn what_is_said_after_the_end_of_an_unrecorded_session_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone").join("session.ahr");
        let noter = Noter::passing(gone.clone());
        noter.note(&start("Bash", "{}", "t1"));
        assert_eq!(noter.unwritten(), None);
        let noter = Noter::new(gone.clone());
        noter.note(&start("Bash", "{}", "t1"));
        assert_eq!(noter.unwritten(), Some(executions::path_of(&gone)));
    }

    #[test]
    fn what_has_a_terminal_of_its_own_keeps_its_output_there() {
        let line = line_of(&output("t", Status::Completed), 0, |_| true).unwrap();
        assert_eq!((line.output, line.ended_ns), (None, Some(9_000_000)));
        let line = line_of(&output("t", Status::Running), 0, |_| false).unwrap();
        assert_eq!((line.output, line.ended_ns), (None, None));
    }

    #[test]
    fn arguments_without_a_known_name_are_shown_shortly() {
        assert_eq!(command("T", &format!("{{\"x\":\"{}\"}}", "y".repeat(500))).chars().count(), ARGS + 3);
        assert_eq!(command("T", ""), "T");
    }
}
