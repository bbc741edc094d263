//! Decodes a request from bytes. An error says what is invalid and where; no input closes the connection.

use serde_json::Value;
use serde_json::error::Category;

use crate::legacy_names;
use crate::message::{DecodeError, RequestId};
use crate::name::RequestName;
use crate::params::{Param, Params};

/// Maximum length of a request id in bytes. Each reply repeats the id.
pub const MAX_REQUEST_ID_BYTES: usize = 1024;

/// A request from a client, whose parameters are not read yet.
#[derive(Debug, Clone)]
pub struct RawRequest<'a> {
    /// The requested command.
    pub command: RequestName,
    /// Parameters under their current names. [`crate::request::read`] reads them into the type of the request.
    pub params: Params<'a>,
    /// Id that the reply repeats. Without one, the client cannot match the reply to its request.
    pub request_id: Option<RequestId>,
    /// Warnings for older names in the request; they become the reply's `warnings`.
    pub warnings: Vec<String>,
}

/// Decodes a request: a line of the protocol, or the body of an HTTP request. `type` and `params` are optional.
///
/// # Errors
/// [`DecodeError`] for bytes that are not UTF-8 or not JSON, nesting deeper than 127 levels (the limit of serde_json), anything but an
/// object, an unknown command, and fields of the wrong type. The content of `params` is validated by [`crate::request::read`].
pub fn decode_request(bytes: &[u8]) -> Result<RawRequest<'_>, DecodeError> {
    let object = object(bytes)?;
    let value = |name: &str| object.get(name).cloned().map(Param::into_value);
    let request_id = request_id(value("request_id").as_ref())?;
    let with_id = |message: String| DecodeError { message, request_id: request_id.clone() };
    match value("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "command" => {}
        Some(other) => return Err(with_id(format!("type: expected \"command\", got {}", quoted(&other)))),
    }
    let (command, alias) = command(value("command_type").as_ref()).map_err(with_id)?;
    let mut params = match object.get("params").filter(|params| !params.is_null()) {
        None => Params::default(),
        Some(params) => params.fields().ok_or_else(|| {
            let other = params.clone().into_value();
            with_id(format!("params: expected an object, got {}", quoted(&other)))
        })?,
    };
    let mut warnings: Vec<String> = alias.map(|alias| alias.to_string()).into_iter().collect();
    warnings.extend(legacy_names::modernise(command, &mut params));
    Ok(RawRequest { command, params, request_id, warnings })
}

fn object(bytes: &[u8]) -> Result<Params<'_>, DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| DecodeError::new(format!("not UTF-8: bad byte at {}", error.valid_up_to())))?;
    Params::parse(bytes).map_err(|error| match error.classify() {
        Category::Data => {
            let other = serde_json::from_str(text).unwrap_or_default();
            DecodeError::new(format!("expected a JSON object, got {}", quoted(&other)))
        }
        _ => DecodeError::new(format!("not JSON: {}", describe(&error))),
    })
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

fn command(
    value: Option<&Value>,
) -> Result<(RequestName, Option<crate::legacy_names::DeprecatedAlias>), String> {
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
