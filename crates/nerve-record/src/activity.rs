//! What an agent does, as it is told to who watches it: one type, sent as SSZ over the events pipe ([`crate::ssz::event`]) and as
//! JSON by the server (seed agent-record §9).

use nerve_term::event::TsNs;
use serde_json::{Map, Value, json};

/// Milliseconds since the Unix epoch: the precision of both wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TsMs(pub u64);

impl From<TsNs> for TsMs {
    fn from(at: TsNs) -> TsMs {
        TsMs(at.0 / 1_000_000)
    }
}

impl TsMs {
    /// ISO 8601 in UTC with milliseconds: `2024-01-01T12:00:00.000Z`. A time after the year 9999 is shown as its end.
    pub fn iso(self) -> String {
        let time = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
    }
}

/// How far a task or a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Status {
    Queued,
    Provisioning,
    Running,
    Pausing,
    Paused,
    Resuming,
    Stopping,
    Stopped,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// In the order of their numbers on the wire, 0 to 10.
    pub const ALL: [Status; 11] = [
        Status::Queued,
        Status::Provisioning,
        Status::Running,
        Status::Pausing,
        Status::Paused,
        Status::Resuming,
        Status::Stopping,
        Status::Stopped,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Provisioning => "provisioning",
            Status::Running => "running",
            Status::Pausing => "pausing",
            Status::Paused => "paused",
            Status::Resuming => "resuming",
            Status::Stopping => "stopping",
            Status::Stopped => "stopped",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    /// In the order of their numbers on the wire, 0 to 3.
    pub const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// One thing an agent did. `at` is when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// The task is somewhere else in its life.
    Status {
        /// Where.
        status: Status,
        /// When.
        at: TsMs,
    },
    /// Something to be told.
    Log {
        /// How much it matters.
        level: Level,
        /// The text.
        message: String,
        /// The run of a tool it belongs to.
        execution: Option<String>,
        /// When.
        at: TsMs,
    },
    /// Something went wrong.
    Error {
        /// What.
        message: String,
        /// When.
        at: TsMs,
    },
    /// The agent thought, or says what it is about to do.
    Thought {
        /// What.
        text: String,
        /// Why, where the agent tells it apart.
        reasoning: Option<String>,
        /// When.
        at: TsMs,
    },
    /// A tool was started.
    ToolStart {
        /// The tool.
        name: String,
        /// Its arguments: JSON where the agent gives JSON, else a text.
        args: String,
        /// The run's name; its output has the same.
        execution: String,
        /// Usually [`Status::Running`].
        status: Status,
        /// When.
        at: TsMs,
    },
    /// A tool gave something back.
    ToolOutput {
        /// The tool.
        name: String,
        /// What it gave back.
        output: String,
        /// The run's name.
        execution: String,
        /// [`Status::Running`] for a part of the output, else how it ended.
        status: Status,
        /// When.
        at: TsMs,
    },
    /// A file was changed.
    FileEdit {
        /// The file, as the agent names it.
        path: String,
        /// Lines added.
        added: u64,
        /// Lines removed.
        removed: u64,
        /// What was done.
        description: Option<String>,
        /// When.
        at: TsMs,
    },
}

impl Activity {
    /// When it happened.
    pub fn at(&self) -> TsMs {
        match self {
            Activity::Status { at, .. }
            | Activity::Log { at, .. }
            | Activity::Error { at, .. }
            | Activity::Thought { at, .. }
            | Activity::ToolStart { at, .. }
            | Activity::ToolOutput { at, .. }
            | Activity::FileEdit { at, .. } => *at,
        }
    }

    /// The word that is `type` in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Activity::Status { .. } => "status",
            Activity::Log { .. } => "log",
            Activity::Error { .. } => "error",
            Activity::Thought { .. } => "thought",
            Activity::ToolStart { .. } => "tool_start",
            Activity::ToolOutput { .. } => "tool_output",
            Activity::FileEdit { .. } => "file_edit",
        }
    }

    /// The JSON of the event stream: `type`, `ts` and what the type has (seed agent-record §9). What is not there is left out.
    ///
    /// ```
    /// use nerve_record::activity::{Activity, Status, TsMs};
    /// let running = Activity::Status { status: Status::Running, at: TsMs(1_704_110_400_000) };
    /// let json = serde_json::json!({"type": "status", "status": "running", "ts": "2024-01-01T12:00:00.000Z"});
    /// assert_eq!(running.to_json(), json);
    /// ```
    pub fn to_json(&self) -> Value {
        let mut fields = match self {
            Activity::Status { status, .. } => json!({ "status": status.as_str() }),
            Activity::Log { level, message, execution, .. } => {
                json!({ "level": level.as_str(), "message": message, "tool_execution_id": execution })
            }
            Activity::Error { message, .. } => json!({ "message": message }),
            Activity::Thought { text, reasoning, .. } => json!({ "content": text, "reasoning": reasoning }),
            Activity::ToolStart { name, args, execution, status, .. } => json!({
                "name": name, "args": args_as_json(args), "tool_execution_id": execution, "status": status.as_str(),
            }),
            Activity::ToolOutput { name, output, execution, status, .. } => json!({
                "name": name, "output": output, "tool_execution_id": execution, "status": status.as_str(),
            }),
            Activity::FileEdit { path, added, removed, description, .. } => json!({
                "path": path, "lines_added": added, "lines_removed": removed, "description": description,
            }),
        };
        if let Some(fields) = fields.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
            name_and_date(fields, self);
        }
        fields
    }
}

fn name_and_date(fields: &mut Map<String, Value>, activity: &Activity) {
    fields.insert("type".into(), activity.kind().into());
    fields.insert("ts".into(), activity.at().iso().into());
}

/// Arguments that are a JSON list or object stay one; all else is a text.
fn args_as_json(args: &str) -> Value {
    match serde_json::from_str(args) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => value,
        _ => args.into(),
    }
}
