//! Results of tools, as text and as an object.
//!
//! Some clients (Claude Code) show their model only the object of a success and only the text of a failure,
//! so both are complete.

use nerve_api::ErrorKind;
use nerve_api::reply::ErrorDetails;
use nerve_client::ClientError;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Maximum length of a text in a result, in bytes: models and clients cannot handle more.
pub(crate) const MAX_TEXT: usize = 64 * 1024;
/// Maximum length of a screen in an error, in bytes.
const MAX_SCREEN: usize = 8 * 1024;

/// The result of a successful call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Success {
    /// The text for a model.
    pub(crate) text: String,
    /// Same content as an object.
    pub(crate) data: Map<String, Value>,
    /// Warnings for the caller.
    pub(crate) warnings: Vec<String>,
    /// True if the tool succeeded but its command failed, for example with exit code 1.
    pub(crate) failed: bool,
}

impl Success {
    /// Creates a result from a text and a reply of the API, which is an object. Both are bounded: each field of the
    /// object takes at most about [`MAX_TEXT`].
    pub(crate) fn new(text: &str, reply: &impl Serialize) -> Success {
        Success { text: truncate(text, MAX_TEXT).0, data: bounded_object(reply), ..Success::default() }
    }

    /// Adds a field to the object.
    pub(crate) fn with(mut self, name: &str, field: impl Into<Value>) -> Success {
        self.data.insert(name.to_string(), field.into());
        self
    }

    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Success {
        self.warnings.extend(warnings);
        self
    }

    /// Converts to the protocol's type.
    pub(crate) fn result(self) -> CallToolResult {
        let Success { mut text, mut data, warnings, failed } = self;
        for warning in &warnings {
            text.push_str(&format!("\n[warning: {warning}]"));
        }
        if !warnings.is_empty() {
            data.insert("warnings".to_string(), json!(warnings));
        }
        result(text, data, failed)
    }
}

/// The result of a failed call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    message: String,
    /// The name of an [`ErrorKind`], or a type that only MCP has: `not_running`, `invalid_arguments` …
    pub(crate) error_type: &'static str,
    /// Details from the server. The field `error_type` above replaces the one in them.
    details: Box<ErrorDetails>,
}

impl Failure {
    /// Creates a failure of an [`ErrorKind`], or of a type that only MCP has.
    pub(crate) fn new(error_type: impl Into<&'static str>, message: impl Into<String>) -> Failure {
        Failure::with_details(error_type, message, ErrorDetails::default())
    }

    /// Creates a failure with the server's details.
    pub(crate) fn with_details(
        error_type: impl Into<&'static str>,
        message: impl Into<String>,
        details: ErrorDetails,
    ) -> Failure {
        Failure { message: message.into(), error_type: error_type.into(), details: Box::new(details) }
    }

    fn kind(&self) -> Option<ErrorKind> {
        self.error_type.parse().ok()
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.details.hint = Some(hint.into());
        self
    }

    /// Replaces the hint for a blocked node: an MCP client needs a tool, not a command.
    fn with_tool_hint(self) -> Failure {
        match self.kind() {
            Some(ErrorKind::Blocked) if !self.details.choices.is_empty() => self.hint(ANSWER_HINT),
            _ => self,
        }
    }

    /// Converts to the protocol's type, as a result that the model reads.
    pub(crate) fn result(self) -> CallToolResult {
        let Failure { message, error_type, mut details } = self.with_tool_hint();
        let screen = details.screen.take().filter(|screen| !screen.trim().is_empty());
        details.screen = screen.map(|screen| truncate(screen.trim_end(), MAX_SCREEN).0);
        let mut text = format!("Error: {message}");
        if let Some(screen) = &details.screen {
            text.push_str(&format!("\n\nThe terminal shows:\n{screen}\n"));
        }
        text.push_str(&format_choices(&details.choices));
        if let Some(hint) = &details.hint {
            text.push_str(&format!("\nHint: {hint}"));
        }
        let mut data = bounded_object(&details);
        data.insert("error".to_string(), json!(message));
        data.insert("error_type".to_string(), json!(error_type));
        result(text, data, true)
    }

    /// Converts to a protocol error, for requests that are not tool calls.
    pub(crate) fn into_error_data(self) -> ErrorData {
        let kind = self.kind();
        let Failure { message, error_type, details } = self;
        let data = json!({ "error_type": error_type, "hint": details.hint });
        let message = match details.hint {
            Some(hint) => format!("{message} ({hint})"),
            None => message,
        };
        match kind {
            Some(ErrorKind::NotFound) => ErrorData::resource_not_found(message, Some(data)),
            Some(ErrorKind::InvalidRequest) => ErrorData::invalid_params(message, Some(data)),
            None if error_type == "invalid_arguments" => ErrorData::invalid_params(message, Some(data)),
            _ => ErrorData::internal_error(message, Some(data)),
        }
    }
}

/// Hint for a node that is blocked by a dialog.
pub(crate) const ANSWER_HINT: &str =
    "choose with the tool nerve_answer: {\"node_id\": …, \"choice\": <number or part of a label>}";

/// Formats a list with a line for each item, or `none` if it is empty.
pub(crate) fn lines<T>(items: &[T], line: impl Fn(&T) -> String, none: &str) -> String {
    let lines: Vec<String> = items.iter().map(line).collect();
    if lines.is_empty() { none.to_string() } else { lines.join("\n") }
}

/// Formats the choices of a dialog as a numbered list.
pub(crate) fn format_choices(choices: &[String]) -> String {
    let lines = choices.iter().enumerate().map(|(at, choice)| format!("\n  {}. {choice}", at + 1));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nChoices:{lines}") }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let Some(error) = error.server() else {
            let hint = "check with nerve_list_nodes; 'nerve server start' restarts the server and resumes surviving nodes";
            let failure = Failure::new("connection_error", error.to_string());
            return if matches!(error, ClientError::Closed(_)) { failure.hint(hint) } else { failure };
        };
        Failure::with_details(error.details.error_type, error.message.as_str(), error.details.clone())
    }
}

fn result(text: String, data: Map<String, Value>, failed: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result = if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(Value::Object(data));
    result
}

/// Encodes a value that is an object, whose fields take at most about [`MAX_TEXT`] each.
fn bounded_object(value: &impl Serialize) -> Map<String, Value> {
    let mut data = object(value);
    data.values_mut().for_each(|field| *field = bound_value(field.take(), MAX_TEXT));
    data
}

/// Encodes a value that is an object.
pub(crate) fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        // Cannot happen: replies are structs of strings, numbers, lists and maps with string keys.
        _ => Map::new(),
    }
}

/// Returns the text, shortened to its beginning and end if it exceeds `max` bytes, and whether it was
/// shortened.
pub(crate) fn truncate(text: &str, max: usize) -> (String, bool) {
    if text.len() <= max {
        return (text.to_string(), false);
    }
    let head = text.ceil_char_boundary(max / 4);
    let tail = text.ceil_char_boundary(text.len() - (max - max / 4));
    let note = format!("\n[… {} bytes omitted …]\n", tail - head);
    (format!("{}{note}{}", &text[..head], &text[tail..]), true)
}

/// Shortens the texts in a value until it takes about `max` bytes. A value that is still too long is replaced
/// with a note.
fn bound_value(mut value: Value, max: usize) -> Value {
    if let Value::String(text) = &value {
        return truncate(text, max).0.into();
    }
    let bytes = |value: &Value| value.to_string().len();
    for max_text in [16 * 1024, 2 * 1024, 256] {
        if bytes(&value) <= max {
            return value;
        }
        truncate_texts(&mut value, max_text);
    }
    if bytes(&value) <= max { value } else { json!("[left out: too long]") }
}

fn truncate_texts(value: &mut Value, max: usize) {
    match value {
        Value::String(text) => {
            if let (short, true) = truncate(text, max) {
                *text = short;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| truncate_texts(value, max)),
        Value::Object(object) => object.values_mut().for_each(|value| truncate_texts(value, max)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_keeps_both_ends_and_whole_chars() {
        assert_eq!(truncate("short", 10), ("short".to_string(), false));
        let (short, truncated) = truncate(&"äöü".repeat(1000), 101);
        assert!(truncated && short.len() < 200, "{short}");
        assert!(short.starts_with("äöü") && short.ends_with("äöü"), "{short}");
    }

    #[test]
    fn value_is_bounded() {
        let value = json!({ "a": "x".repeat(100_000), "b": 1 });
        let short = bound_value(value, 40_000);
        assert!(short.to_string().len() <= 40_000);
        assert_eq!(short["b"], 1);
        assert_eq!(bound_value(json!(vec![1; 100_000]), 1000), json!("[left out: too long]"));
    }

    #[test]
    fn blocked_failure_lists_choices() {
        let details = ErrorDetails {
            choices: vec!["Yes".to_string(), "No".to_string()],
            screen: Some("Proceed?".to_string()),
            ..ErrorDetails::default()
        };
        let result = Failure::with_details(ErrorKind::Blocked, "node 'a' asks", details).result();
        assert_eq!(result.is_error, Some(true));
        let text = &result.content[0].as_text().unwrap().text;
        assert!(
            text.contains("Proceed?") && text.contains("  2. No") && text.contains("nerve_answer"),
            "{text}"
        );
        let data = result.structured_content.unwrap();
        assert_eq!(data["choices"], json!(["Yes", "No"]));
        assert_eq!(data["error_type"], "blocked");
    }
}
