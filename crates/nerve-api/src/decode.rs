//! Decodes a request from bytes. An error says what is invalid and where; no input closes the connection.

use serde_json::{Map, Value};

use crate::framing::MAX_LINE_BYTES;
use crate::message::{ErrorMessage, Message, RequestId, RequestMessage, ResultMessage};
use crate::name::RequestName;
use crate::reply::ErrorDetails;
use crate::{ErrorKind, legacy};

/// Maximum length of a request id in bytes. Each reply repeats the id.
pub const MAX_REQUEST_ID_BYTES: usize = 1024;

/// An input that is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// Description of the error and its place.
    pub message: String,
    /// Id of the request, if it could be read.
    pub request_id: Option<RequestId>,
}

impl DecodeError {
    /// Creates the error for a line that was skipped because it is too long.
    pub fn too_long(bytes: u64) -> DecodeError {
        DecodeError::new(format!("line of {bytes} bytes refused: at most {MAX_LINE_BYTES} are read"))
    }

    fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into(), request_id: None }
    }

    /// Returns the reply: a failed result if the request id is known, otherwise an error message.
    pub fn reply(&self) -> Message {
        match &self.request_id {
            Some(_) => {
                let data = ErrorDetails::of(ErrorKind::InvalidRequest);
                Message::Result(ResultMessage::failed(self.request_id.clone(), self.message.clone(), &data))
            }
            None => Message::Error(ErrorMessage { error: self.message.clone(), request_id: None }),
        }
    }
}

/// Decodes a request: a line of the protocol, or the body of an HTTP request. `type` and `params` are optional.
///
/// # Errors
/// [`DecodeError`] for bytes that are not UTF-8 or not JSON, nesting deeper than 127 levels (the limit of serde_json), anything but an
/// object, an unknown command, and fields of the wrong type. The content of `params` is validated by [`RequestMessage::read`].
pub fn decode_request(bytes: &[u8]) -> Result<RequestMessage, DecodeError> {
    let mut object = object(bytes)?;
    let request_id = request_id(object.get("request_id"))?;
    let with_id = |message: String| DecodeError { message, request_id: request_id.clone() };
    match object.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "command" => {}
        Some(other) => return Err(with_id(format!("type: expected \"command\", got {}", quoted(other)))),
    }
    let (command, alias) = command(object.get("command_type")).map_err(with_id)?;
    let mut params = match object.shift_remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(other) => return Err(with_id(format!("params: expected an object, got {}", quoted(&other)))),
    };
    let mut warnings: Vec<String> = alias.map(|alias| alias.to_string()).into_iter().collect();
    warnings.extend(legacy::modernise(command, &mut params));
    Ok(RequestMessage { command, params, request_id, warnings })
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| DecodeError::new(format!("not UTF-8: bad byte at {}", error.valid_up_to())))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(DecodeError::new(format!("expected a JSON object, got {}", quoted(&other)))),
        Err(error) => Err(DecodeError::new(format!("not JSON: {}", describe(&error)))),
    }
}

/// Formats an error of serde_json. A request is a single line, so the column alone locates the error.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let what = if what == "recursion limit exceeded" { "nested deeper than 127 levels" } else { what };
    match error.line() {
        0 | 1 => format!("{what} at byte {}", error.column()),
        line => format!("{what} at line {line}, byte {}", error.column()),
    }
}

fn request_id(value: Option<&Value>) -> Result<Option<RequestId>, DecodeError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > MAX_REQUEST_ID_BYTES => Err(DecodeError::new(format!(
            "request_id: {} bytes long, at most {MAX_REQUEST_ID_BYTES} are allowed",
            text.len()
        ))),
        Some(Value::String(text)) => Ok(Some(RequestId::Text(text.clone()))),
        Some(other) => match other.as_i64() {
            Some(number) => Ok(Some(RequestId::Number(number))),
            None => Err(DecodeError::new(format!(
                "request_id: expected a string or a whole number, got {}",
                quoted(other)
            ))),
        },
    }
}

fn command(value: Option<&Value>) -> Result<(RequestName, Option<crate::legacy::DeprecatedAlias>), String> {
    let name = match value {
        None | Some(Value::Null) => return Err("command_type is missing: it names the command".to_string()),
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("command_type: expected a string, got {}", quoted(other))),
    };
    RequestName::parse(name).ok_or_else(|| {
        let quoted = quoted(&Value::String(name.clone()));
        match RequestName::suggest(name) {
            Some(near) => format!("command_type: unknown command {quoted}, did you mean {near}?"),
            None => format!("command_type: unknown command {quoted}"),
        }
    })
}

/// Formats a value for an error message: its type, or the value itself if it is short.
fn quoted(value: &Value) -> String {
    const SHOWN_CHARS: usize = 60;
    match value {
        Value::Null => "null".to_string(),
        Value::Array(_) => "a list".to_string(),
        Value::Object(_) => "an object".to_string(),
        Value::String(text) if text.chars().nth(SHOWN_CHARS).is_some() => {
            format!("{:?}…", text.chars().take(SHOWN_CHARS).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
