//! Agent activity as reported to observers: one type, sent as SSZ over the events pipe of a recording and as JSON by the server.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use strum::{EnumString, FromRepr, IntoStaticStr, VariantNames};

use crate::TsNs;

/// A time in milliseconds since the Unix epoch, the precision of both wire formats. In JSON it is an ISO 8601 text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct TsMs(pub u64);

impl From<TsNs> for TsMs {
    fn from(at: TsNs) -> TsMs {
        TsMs(at.0 / 1_000_000)
    }
}

impl From<SystemTime> for TsMs {
    /// Times before 1970 become 0.
    fn from(at: SystemTime) -> TsMs {
        let elapsed = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        TsMs(crate::millis(elapsed))
    }
}

impl From<TsMs> for String {
    fn from(at: TsMs) -> String {
        at.iso()
    }
}

impl TryFrom<String> for TsMs {
    type Error = jiff::Error;

    fn try_from(text: String) -> Result<TsMs, jiff::Error> {
        let time: jiff::Timestamp = text.parse()?;
        // Times before 1970 are clamped.
        Ok(TsMs(u64::try_from(time.as_millisecond()).unwrap_or_default()))
    }
}

impl TsMs {
    /// Returns seconds since the Unix epoch.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Formats the time as ISO 8601 in UTC: `2024-01-01T12:00:00.000Z`. A time after the year 9999 is clamped.
    pub fn iso(self) -> String {
        let time = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
    }
}

/// The state of a task or a tool. The values are the wire numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, FromRepr, IntoStaticStr, VariantNames)]
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

text_value!(closed Status: "status of an activity");

/// The severity of a log line. The values are the wire numbers.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumString,
    FromRepr,
    IntoStaticStr,
    VariantNames,
)]
#[expect(missing_docs, reason = "the names say it")]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

text_value!(closed Level: "severity");

/// One action of an agent. `at` is the time of the action.
///
/// ```
/// use nerve_types::activity::{Activity, Status, TsMs};
/// let running = Activity::Status { status: Status::Running, at: TsMs(1_704_110_400_000) };
/// let json = serde_json::json!({"type": "status", "status": "running", "ts": "2024-01-01T12:00:00.000Z"});
/// assert_eq!(serde_json::to_value(running).unwrap(), json);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Activity {
    /// The task changed its state.
    Status {
        /// The new state.
        status: Status,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// A log line.
    Log {
        /// Severity.
        level: Level,
        /// Text.
        message: String,
        /// Id of the tool execution it belongs to.
        #[serde(default, rename = "tool_execution_id", skip_serializing_if = "Option::is_none")]
        execution: Option<String>,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// An error.
    Error {
        /// Message.
        message: String,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// A thought, or an announcement of the next step.
    Thought {
        /// Text.
        #[serde(rename = "content")]
        text: String,
        /// The reasoning, if the agent reports it separately.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// A tool started.
    ToolStart {
        /// Name of the tool.
        name: String,
        /// Arguments: JSON if the agent gives JSON, otherwise text.
        #[serde(with = "args_json")]
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        args: String,
        /// Execution id, shared with the tool's output.
        #[serde(rename = "tool_execution_id")]
        execution: String,
        /// Usually [`Status::Running`].
        status: Status,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// A tool returned output.
    ToolOutput {
        /// Name of the tool.
        name: String,
        /// Output text.
        output: String,
        /// Execution id.
        #[serde(rename = "tool_execution_id")]
        execution: String,
        /// [`Status::Running`] for partial output, otherwise the final state.
        status: Status,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// A file was changed.
    FileEdit {
        /// Path, as the agent names it.
        path: String,
        /// Lines added.
        #[serde(rename = "lines_added")]
        added: u64,
        /// Lines removed.
        #[serde(rename = "lines_removed")]
        removed: u64,
        /// Description of the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Time.
        #[serde(rename = "ts")]
        at: TsMs,
    },
    /// The model's API reported the tokens of one response.
    Usage {
        /// Input tokens, without cached ones.
        input: u64,
        /// Output tokens.
        output: u64,
        /// Input tokens read from the cache.
        cache_read: u64,
        /// Input tokens written to the cache.
        cache_write: u64,
        /// Name of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Time.
        #[serde(rename = "ts")]
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
            | Activity::FileEdit { at, .. }
            | Activity::Usage { at, .. } => *at,
        }
    }

    /// Returns the value of `type` in JSON.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// Arguments that are a JSON list or object are that list or object in JSON. Anything else is a text.
mod args_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(args: &str, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str(args) {
            Ok(value @ (Value::Array(_) | Value::Object(_))) => value.serialize(serializer),
            _ => serializer.serialize_str(args),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            value => value.to_string(),
        })
    }
}
