//! Agent activity as reported to observers: one type, sent as SSZ over the events pipe ([`crate::ssz::event`]) and as
//! JSON by the server.

use nerve_types::TsNs;
use serde_json::{Map, Value, json};
use strum::{FromRepr, IntoStaticStr};

/// A time in milliseconds since the Unix epoch, the precision of both wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TsMs(pub u64);

impl From<TsNs> for TsMs {
    fn from(at: TsNs) -> TsMs {
        TsMs(at.0 / 1_000_000)
    }
}

impl TsMs {
    /// Formats the time as ISO 8601 in UTC: `2024-01-01T12:00:00.000Z`. A time after the year 9999 is clamped.
    pub fn iso(self) -> String {
        let time = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
    }
}

/// The state of a task or a tool. The values are the wire numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromRepr, IntoStaticStr)]
#[expect(missing_docs, reason = "the names say it")]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
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
    /// Returns the JSON name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The severity of a log line. The values are the wire numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr)]
#[expect(missing_docs, reason = "the names say it")]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    /// Returns the JSON name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One action of an agent. `at` is the time of the action.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Activity {
    /// The task changed its state.
    Status {
        /// The new state.
        status: Status,
        /// Time.
        at: TsMs,
    },
    /// A log line.
    Log {
        /// Severity.
        level: Level,
        /// Text.
        message: String,
        /// Id of the tool execution it belongs to.
        execution: Option<String>,
        /// Time.
        at: TsMs,
    },
    /// An error.
    Error {
        /// Message.
        message: String,
        /// Time.
        at: TsMs,
    },
    /// A thought, or an announcement of the next step.
    Thought {
        /// Text.
        text: String,
        /// The reasoning, if the agent reports it separately.
        reasoning: Option<String>,
        /// Time.
        at: TsMs,
    },
    /// A tool started.
    ToolStart {
        /// Name of the tool.
        name: String,
        /// Arguments: JSON if the agent gives JSON, otherwise text.
        args: String,
        /// Execution id, shared with the tool's output.
        execution: String,
        /// Usually [`Status::Running`].
        status: Status,
        /// Time.
        at: TsMs,
    },
    /// A tool returned output.
    ToolOutput {
        /// Name of the tool.
        name: String,
        /// Output text.
        output: String,
        /// Execution id.
        execution: String,
        /// [`Status::Running`] for partial output, otherwise the final state.
        status: Status,
        /// Time.
        at: TsMs,
    },
    /// A file was changed.
    FileEdit {
        /// Path, as the agent names it.
        path: String,
        /// Lines added.
        added: u64,
        /// Lines removed.
        removed: u64,
        /// Description of the change.
        description: Option<String>,
        /// Time.
        at: TsMs,
    },
}

impl Activity {
    /// Returns the time of the action.
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

    /// Returns the value of `type` in JSON.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns the JSON of the event stream: `type`, `ts` and the fields of the variant. Absent values are omitted.
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

/// Parses arguments that are a JSON list or object; anything else stays text.
fn args_as_json(args: &str) -> Value {
    match serde_json::from_str(args) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => value,
        _ => args.into(),
    }
}
