//! Bytes to a request, or an error that says what is wrong and where. No input ends a connection.

use serde_json::{Map, Value};

use crate::framing::MAX_LINE_BYTES;
use crate::legacy;
use crate::message::{ErrorMessage, Message, RequestId, RequestMessage, ResultMessage};
use crate::name::RequestName;

use crate::reply::ErrorDetails;

/// The longest request id, in bytes: it is repeated in every answer.
pub const MAX_REQUEST_ID_BYTES: usize = 1024;

/// Something that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// What is wrong, and where.
    pub message: String,
    /// The request's, if that much could be read.
    pub request_id: Option<RequestId>,
}

impl DecodeError {
    /// Of a line that was passed over because of its length.
    pub fn too_long(bytes: u64) -> DecodeError {
        DecodeError::new(format!("line of {bytes} bytes refused: at most {MAX_LINE_BYTES} are read"))
    }

    fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into(), request_id: None }
    }

    /// The answer: a failed result to a request that could be told apart, else a bare error.
    pub fn reply(&self) -> Message {
        match &self.request_id {
            Some(_) => {
                let data = ErrorDetails::of(ErrorDetails::INVALID_REQUEST);
                Message::Result(ResultMessage::failed(self.request_id.clone(), self.message.clone(), &data))
            }
            None => Message::Error(ErrorMessage { error: self.message.clone(), request_id: None }),
        }
    }
}

/// Reads a request: one line of a socket, or the body of an HTTP request. `type` and `params` may be absent.
///
/// # Errors
/// [`DecodeError`] for bytes that are not UTF-8 or not JSON, nesting deeper than 127 levels (where serde_json stops), anything but an object, an unknown
/// command, and fields of the wrong type. What is inside `params` is checked by [`RequestMessage::read`].
pub fn decode_request(bytes: &[u8]) -> Result<RequestMessage, DecodeError> {
    let mut object = object(bytes)?;
    let request_id = request_id(object.get("request_id"))?;
    let with_id = |message: String| DecodeError { message, request_id: request_id.clone() };
    match object.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "command" => {}
        Some(other) => return Err(with_id(format!("type: expected \"command\", got {}", shown(other)))),
    }
    let (command, alias) = command(object.get("command_type")).map_err(with_id)?;
    let mut params = match object.shift_remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(other) => return Err(with_id(format!("params: expected an object, got {}", shown(&other)))),
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
        Ok(other) => Err(DecodeError::new(format!("expected a JSON object, got {}", shown(&other)))),
        Err(error) => Err(DecodeError::new(format!("not JSON: {}", in_words(&error)))),
    }
}

/// serde_json says `at line 1 column 17`; a request is one line, so the column is what helps.
fn in_words(error: &serde_json::Error) -> String {
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
                shown(other)
            ))),
        },
    }
}

fn command(value: Option<&Value>) -> Result<(RequestName, Option<crate::legacy::DeprecatedAlias>), String> {
    let name = match value {
        None | Some(Value::Null) => return Err("command_type is missing: it names the command".to_string()),
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("command_type: expected a string, got {}", shown(other))),
    };
    RequestName::parse(name).ok_or_else(|| {
        let shown = shown(&Value::String(name.clone()));
        match RequestName::suggest(name) {
            Some(near) => format!("command_type: unknown command {shown}, did you mean {near}?"),
            None => format!("command_type: unknown command {shown}"),
        }
    })
}

/// A value in an error: what it is, and itself where it is short.
fn shown(value: &Value) -> String {
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
