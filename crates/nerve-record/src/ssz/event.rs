//! Messages of the events pipe: [`Activity`] as a union of containers. Times are in milliseconds.
//!
//! Later versions may add containers with new selectors, as was done for usage (7). A reader ignores
//! messages with an unknown selector ([`SszError::Selector`]): the length before each message says where the next begins.

use super::SszError;
use super::container::{Field, Value, byte, join, number, optional, selected, split};
use super::frame::{MAX_EVENT, encode_frame};
use crate::activity::{Activity, Level, Status, TsMs};

const STATUS: [Field; 2] = [Field::Byte, Field::Number];
const LOG: [Field; 4] = [Field::Byte, Field::Variable, Field::Variable, Field::Number];
const ERROR: [Field; 2] = [Field::Variable, Field::Number];
const THOUGHT: [Field; 3] = [Field::Variable, Field::Variable, Field::Number];
const TOOL: [Field; 5] = [Field::Variable, Field::Variable, Field::Variable, Field::Byte, Field::Number];
const FILE_EDIT: [Field; 5] = [Field::Variable, Field::Number, Field::Number, Field::Variable, Field::Number];
const USAGE: [Field; 6] =
    [Field::Number, Field::Number, Field::Number, Field::Number, Field::Variable, Field::Number];

/// Encodes the body, without its length.
pub fn encode(activity: &Activity) -> Vec<u8> {
    let at = Value::Number(activity.at().0);
    match activity {
        Activity::Status { status, .. } => join(0, [status_value(*status), at]),
        Activity::Log { level, message, execution, .. } => {
            join(1, [level_value(*level), text_value(message), optional_value(execution.as_deref()), at])
        }
        Activity::Error { message, .. } => join(2, [text_value(message), at]),
        Activity::Thought { text, reasoning, .. } => {
            join(3, [text_value(text), optional_value(reasoning.as_deref()), at])
        }
        Activity::ToolStart { name, args, execution, status, .. } => {
            join(4, [text_value(name), text_value(args), text_value(execution), status_value(*status), at])
        }
        Activity::ToolOutput { name, output, execution, status, .. } => {
            join(5, [text_value(name), text_value(output), text_value(execution), status_value(*status), at])
        }
        Activity::FileEdit { path, added, removed, description, .. } => join(
            6,
            [
                text_value(path),
                Value::Number(*added),
                Value::Number(*removed),
                optional_value(description.as_deref()),
                at,
            ],
        ),
        Activity::Usage { input, output, cache_read, cache_write, model, .. } => {
            let [input, output, cache_read, cache_write] =
                [input, output, cache_read, cache_write].map(|count| Value::Number(*count));
            join(7, [input, output, cache_read, cache_write, optional_value(model.as_deref()), at])
        }
    }
}

/// Encodes the whole frame.
///
/// # Errors
/// [`SszError::TooLong`] for a body over [`MAX_EVENT`] bytes.
pub fn frame(activity: &Activity) -> Result<Vec<u8>, SszError> {
    encode_frame(&encode(activity), MAX_EVENT)
}

/// Decodes a body.
///
/// # Errors
/// [`SszError`]: unknown selector, invalid length or offset, unknown number, invalid UTF-8.
pub fn decode(body: &[u8]) -> Result<Activity, SszError> {
    let (selector, rest) = selected(body)?;
    match selector {
        0 => {
            let [status, at] = split(rest, STATUS)?;
            Ok(Activity::Status { status: to_status(status)?, at: time(at)? })
        }
        1 => {
            let [level, message, execution, at] = split(rest, LOG)?;
            let execution = optional_text("execution id", execution)?;
            Ok(Activity::Log {
                level: to_level(level)?,
                message: text("message", message)?,
                execution,
                at: time(at)?,
            })
        }
        2 => {
            let [message, at] = split(rest, ERROR)?;
            Ok(Activity::Error { message: text("message", message)?, at: time(at)? })
        }
        3 => {
            let [thought, reasoning, at] = split(rest, THOUGHT)?;
            let reasoning = optional_text("reasoning", reasoning)?;
            Ok(Activity::Thought { text: text("thought", thought)?, reasoning, at: time(at)? })
        }
        4 => {
            let [name, args, execution, status, at] = split(rest, TOOL)?;
            let (name, args) = (text("tool's name", name)?, text("tool's arguments", args)?);
            let execution = text("execution id", execution)?;
            Ok(Activity::ToolStart { name, args, execution, status: to_status(status)?, at: time(at)? })
        }
        5 => {
            let [name, output, execution, status, at] = split(rest, TOOL)?;
            let (name, output) = (text("tool's name", name)?, text("tool's output", output)?);
            let execution = text("execution id", execution)?;
            Ok(Activity::ToolOutput { name, output, execution, status: to_status(status)?, at: time(at)? })
        }
        6 => {
            let [path, added, removed, description, at] = split(rest, FILE_EDIT)?;
            let (added, removed) = (number(added)?, number(removed)?);
            let description = optional_text("description", description)?;
            Ok(Activity::FileEdit { path: text("path", path)?, added, removed, description, at: time(at)? })
        }
        7 => {
            let [input, output, cache_read, cache_write, model, at] = split(rest, USAGE)?;
            let (input, output) = (number(input)?, number(output)?);
            let (cache_read, cache_write) = (number(cache_read)?, number(cache_write)?);
            let model = optional_text("model", model)?;
            Ok(Activity::Usage { input, output, cache_read, cache_write, model, at: time(at)? })
        }
        selector => Err(SszError::Selector { union: "an event", selector }),
    }
}

fn status_value(status: Status) -> Value<'static> {
    Value::Byte(status as u8)
}

fn level_value(level: Level) -> Value<'static> {
    Value::Byte(level as u8)
}

fn text_value(text: &str) -> Value<'_> {
    Value::Bytes(text.as_bytes())
}

fn optional_value(text: Option<&str>) -> Value<'_> {
    Value::Optional(text.map(str::as_bytes))
}

fn to_status(field: &[u8]) -> Result<Status, SszError> {
    let number = byte(field)?;
    Status::from_repr(number).ok_or(SszError::Number { field: "status", number })
}

fn to_level(field: &[u8]) -> Result<Level, SszError> {
    let number = byte(field)?;
    Level::from_repr(number).ok_or(SszError::Number { field: "log level", number })
}

fn time(field: &[u8]) -> Result<TsMs, SszError> {
    number(field).map(TsMs)
}

fn text(what: &'static str, field: &[u8]) -> Result<String, SszError> {
    String::from_utf8(field.to_vec()).map_err(|_| SszError::Text(what))
}

fn optional_text(what: &'static str, field: &[u8]) -> Result<Option<String>, SszError> {
    optional(field)?.map(|value| text(what, value)).transpose()
}
