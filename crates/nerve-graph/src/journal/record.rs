//! Journal records and their encoding: one line of JSON each.

use nerve_types::TsNs;
use serde::Serialize;
use serde_json::Value;

/// Version written into new journals. A newer minor version may add records and fields.
pub(super) const VERSION: &str = "1.0";

/// Maximum size of a record in bytes. Resuming a run holds each record in memory.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;

/// Maximum nesting of a value. `serde_json` reads 128 levels, one of which is the line's object.
const MAX_DEPTH: usize = 120;

/// The first record: identifies the run and holds everything needed to run it again.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Start of the run.
    pub at: TsNs,
    /// The run's id, as [`new_run_id`](super::new_run_id) makes it.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session whose nodes the run uses; `None` for the default session.
    pub session: Option<String>,
    /// The graph file.
    pub definition: Value,
    /// Input of the run.
    pub input: Value,
    /// Options of the run.
    pub options: Value,
}

/// An event of a run. Steps are named by their path, for example `outer/inner` or `each[3]`; `key` identifies the step's definition
/// and input (see [`key`](super::key)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum JournalRecord<'a> {
    /// A step started.
    Started { at: TsNs, step: &'a str, key: u64, node: &'a str, persistent: bool },
    /// A step has a result. `ms`: duration in milliseconds; `tokens`: tokens used, if known.
    Finished { at: TsNs, step: &'a str, key: u64, value: &'a Value, ms: u64, tokens: Option<u64> },
    /// A step failed; no attempt is left.
    Failed { at: TsNs, step: &'a str, key: u64, error: &'a str, error_type: &'a str },
    /// A step did not run, or its failure was ignored. A `value`, if present, is its result.
    Skipped { at: TsNs, step: &'a str, key: u64, value: Option<&'a Value>, reason: &'a str },
    /// A gate asks its question.
    Asked {
        at: TsNs,
        step: &'a str,
        key: u64,
        question: &'a str,
        choices: &'a [String],
        default: Option<&'a str>,
        deadline: Option<TsNs>,
    },
    /// A person, or the gate's default, answered.
    Answered { at: TsNs, step: &'a str, key: u64, choice: &'a str, by: &'a str },
    /// The run continues after its server ended, with a new definition if the graph was edited.
    Resumed { at: TsNs, definition: Option<&'a Value> },
    /// The server shut down in order. A run without this record, and without an end, may have crashed its server.
    Paused { at: TsNs },
    /// The run ended: `completed`, `failed` or `cancelled`.
    Ended { at: TsNs, status: &'a str, error: Option<&'a str> },
}

/// Error of encoding a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncodeError {
    TooLong,
    TooDeep,
    /// Not representable as JSON.
    NoJson,
}

impl EncodeError {
    pub(super) fn message(self) -> &'static str {
        match self {
            EncodeError::TooLong => "it is longer than 64 MiB",
            EncodeError::TooDeep => "it is nested deeper than 120 levels",
            EncodeError::NoJson => "it cannot be written as JSON",
        }
    }
}

impl JournalRecord<'_> {
    /// Appends the record's line to `buffer`, or nothing on error. A result that could not be read back is left out; its step then
    /// counts as neither running nor done, and runs again.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = buffer.len();
        match self.write(buffer, start) {
            Ok(()) => Ok(()),
            Err(reason) => {
                buffer.truncate(start);
                match *self {
                    JournalRecord::Finished { at, step, key, ms, tokens, .. } => {
                        step_line(buffer, "finished", at, step, key)?;
                        tail(buffer, ms, tokens)?;
                        text(buffer, "left_out", reason.message())?;
                        end(buffer, start)
                    }
                    JournalRecord::Skipped { at, step, key, value: Some(_), .. } => {
                        step_line(buffer, "skipped", at, step, key)?;
                        text(buffer, "left_out", reason.message())?;
                        end(buffer, start)
                    }
                    _ => Err(reason),
                }
            }
        }
    }

    fn write(&self, buffer: &mut Vec<u8>, start: usize) -> Result<(), EncodeError> {
        match *self {
            JournalRecord::Started { at, step, key, node, persistent } => {
                step_line(buffer, "started", at, step, key)?;
                text(buffer, "node", node)?;
                buffer.extend_from_slice(if persistent {
                    b",\"persistent\":true".as_slice()
                } else {
                    b",\"persistent\":false"
                });
            }
            JournalRecord::Finished { at, step, key, value, ms, tokens } => {
                step_line(buffer, "finished", at, step, key)?;
                tail(buffer, ms, tokens)?;
                json(buffer, "value", value)?;
            }
            JournalRecord::Failed { at, step, key, error, error_type } => {
                step_line(buffer, "failed", at, step, key)?;
                text(buffer, "error", error)?;
                text(buffer, "error_type", error_type)?;
            }
            JournalRecord::Skipped { at, step, key, value, reason } => {
                step_line(buffer, "skipped", at, step, key)?;
                text(buffer, "reason", reason)?;
                if let Some(value) = value {
                    json(buffer, "value", value)?;
                }
            }
            JournalRecord::Asked { at, step, key, question, choices, default, deadline } => {
                step_line(buffer, "asked", at, step, key)?;
                text(buffer, "question", question)?;
                field(buffer, "choices", choices)?;
                if let Some(default) = default {
                    text(buffer, "default", default)?;
                }
                if let Some(deadline) = deadline {
                    field(buffer, "deadline", &deadline.0)?;
                }
            }
            JournalRecord::Answered { at, step, key, choice, by } => {
                step_line(buffer, "answered", at, step, key)?;
                text(buffer, "choice", choice)?;
                text(buffer, "by", by)?;
            }
            JournalRecord::Resumed { at, definition } => {
                open(buffer, "resumed", at)?;
                if let Some(definition) = definition {
                    json(buffer, "definition", definition)?;
                }
            }
            JournalRecord::Paused { at } => open(buffer, "paused", at)?,
            JournalRecord::Ended { at, status, error } => {
                open(buffer, "ended", at)?;
                text(buffer, "status", status)?;
                if let Some(error) = error {
                    text(buffer, "error", error)?;
                }
            }
        }
        end(buffer, start)
    }
}

impl Header {
    /// Appends the first line of a journal to `buffer`. An error names the part that cannot be stored.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), (&'static str, EncodeError)> {
        let start = buffer.len();
        let with_part = |what: &'static str| move |reason| (what, reason);
        let head = with_part("names");
        buffer.extend_from_slice(b"{\"fact\":\"run\"");
        text(buffer, "version", VERSION).map_err(head)?;
        field(buffer, "at", &self.at.0).map_err(head)?;
        text(buffer, "run", &self.run).map_err(head)?;
        text(buffer, "graph", &self.graph).map_err(head)?;
        field(buffer, "session", &self.session).map_err(head)?;
        json(buffer, "input", &self.input).map_err(with_part("input"))?;
        json(buffer, "options", &self.options).map_err(with_part("options"))?;
        json(buffer, "definition", &self.definition).map_err(with_part("definition"))?;
        end(buffer, start).map_err(with_part("definition"))
    }
}

// The fixed parts of a line bypass the serializer for speed: a graph of a million small steps writes two million lines.

fn open(buffer: &mut Vec<u8>, record: &str, at: TsNs) -> Result<(), EncodeError> {
    buffer.extend_from_slice(b"{\"fact\":\"");
    buffer.extend_from_slice(record.as_bytes());
    buffer.extend_from_slice(b"\",\"at\":");
    put(buffer, &at.0)
}

fn step_line(buffer: &mut Vec<u8>, record: &str, at: TsNs, step: &str, key: u64) -> Result<(), EncodeError> {
    open(buffer, record, at)?;
    text(buffer, "step", step)?;
    buffer.extend_from_slice(b",\"key\":\"");
    buffer.extend_from_slice(&hex(key));
    buffer.push(b'"');
    Ok(())
}

fn tail(buffer: &mut Vec<u8>, ms: u64, tokens: Option<u64>) -> Result<(), EncodeError> {
    field(buffer, "ms", &ms)?;
    match tokens {
        Some(tokens) => field(buffer, "tokens", &tokens),
        None => Ok(()),
    }
}

fn end(buffer: &mut Vec<u8>, start: usize) -> Result<(), EncodeError> {
    buffer.extend_from_slice(b"}\n");
    if buffer.len() - start > MAX_RECORD_BYTES {
        buffer.truncate(start);
        return Err(EncodeError::TooLong);
    }
    Ok(())
}

fn text(buffer: &mut Vec<u8>, name: &str, value: &str) -> Result<(), EncodeError> {
    field(buffer, name, value)
}

fn json(buffer: &mut Vec<u8>, name: &str, value: &Value) -> Result<(), EncodeError> {
    if is_nested_deeper(value, MAX_DEPTH) {
        return Err(EncodeError::TooDeep);
    }
    field(buffer, name, value)
}

fn field(buffer: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), EncodeError> {
    buffer.extend_from_slice(b",\"");
    buffer.extend_from_slice(name.as_bytes());
    buffer.extend_from_slice(b"\":");
    put(buffer, value)
}

fn put(buffer: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), EncodeError> {
    serde_json::to_writer(buffer, value).map_err(|_| EncodeError::NoJson)
}

/// Returns true if lists and objects are nested deeper than `levels`.
fn is_nested_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_nested_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_nested_deeper(field, below)),
        _ => false,
    }
}

/// Formats a key as 16 hexadecimal digits.
fn hex(key: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(key >> (60 - 4 * index)) as usize & 15];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::{EncodeError, Header, JournalRecord, MAX_RECORD_BYTES, hex};
    use nerve_types::TsNs;
    use serde_json::{Value, json};

    fn line(record: JournalRecord<'_>) -> String {
        let mut buffer = b"before".to_vec();
        record.encode(&mut buffer).unwrap();
        String::from_utf8(buffer).unwrap().strip_prefix("before").unwrap().to_string()
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("deep"), |inner, _| json!([inner]))
    }

    #[test]
    fn records_are_json_lines() {
        let at = TsNs(5);
        let cases = [
            (
                JournalRecord::Started { at, step: "a/b[2]", key: 255, node: "me", persistent: true },
                r#"{"fact":"started","at":5,"step":"a/b[2]","key":"00000000000000ff","node":"me","persistent":true}"#,
            ),
            (
                JournalRecord::Finished {
                    at,
                    step: "a",
                    key: 1,
                    value: &json!({"x": "\n"}),
                    ms: 12,
                    tokens: Some(3),
                },
                r#"{"fact":"finished","at":5,"step":"a","key":"0000000000000001","ms":12,"tokens":3,"value":{"x":"\n"}}"#,
            ),
            (
                JournalRecord::Failed { at, step: "a", key: 1, error: "no \"x\"", error_type: "timeout" },
                r#"{"fact":"failed","at":5,"step":"a","key":"0000000000000001","error":"no \"x\"","error_type":"timeout"}"#,
            ),
            (
                JournalRecord::Skipped { at, step: "a", key: 1, value: None, reason: "when" },
                r#"{"fact":"skipped","at":5,"step":"a","key":"0000000000000001","reason":"when"}"#,
            ),
            (
                JournalRecord::Asked {
                    at,
                    step: "ok",
                    key: 1,
                    question: "Ship?",
                    choices: &["yes".to_string(), "no".to_string()],
                    default: Some("no"),
                    deadline: Some(TsNs(9)),
                },
                r#"{"fact":"asked","at":5,"step":"ok","key":"0000000000000001","question":"Ship?","choices":["yes","no"],"default":"no","deadline":9}"#,
            ),
            (
                JournalRecord::Answered { at, step: "ok", key: 1, choice: "yes", by: "person" },
                r#"{"fact":"answered","at":5,"step":"ok","key":"0000000000000001","choice":"yes","by":"person"}"#,
            ),
            (JournalRecord::Resumed { at, definition: None }, r#"{"fact":"resumed","at":5}"#),
            (JournalRecord::Paused { at }, r#"{"fact":"paused","at":5}"#),
            (
                JournalRecord::Ended { at, status: "failed", error: Some("why") },
                r#"{"fact":"ended","at":5,"status":"failed","error":"why"}"#,
            ),
        ];
        for (record, expected) in cases {
            assert_eq!(line(record), format!("{expected}\n"));
        }
    }

    #[test]
    fn hex_key_has_16_digits() {
        for key in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(hex(key).as_slice(), format!("{key:016x}").as_bytes());
        }
    }

    #[test]
    fn unreadable_result_is_left_out_with_reason() {
        let (deep, long) = (nested(121), Value::String("x".repeat(MAX_RECORD_BYTES)));
        let at = TsNs(5);
        let records = [
            (
                JournalRecord::Finished { at, step: "a", key: 1, value: &deep, ms: 1, tokens: None },
                "120 levels",
            ),
            (JournalRecord::Finished { at, step: "a", key: 1, value: &long, ms: 1, tokens: None }, "64 MiB"),
            (
                JournalRecord::Skipped { at, step: "a", key: 1, value: Some(&deep), reason: "on_error" },
                "120 levels",
            ),
        ];
        for (record, reason) in records {
            let written: Value = serde_json::from_str(&line(record)).unwrap();
            assert!(written["left_out"].as_str().unwrap().contains(reason), "{written}");
            assert!(written.get("value").is_none());
        }
    }

    #[test]
    fn deepest_allowed_value_can_be_read_back() {
        let value = nested(120);
        let record =
            JournalRecord::Finished { at: TsNs(5), step: "a", key: 1, value: &value, ms: 1, tokens: None };
        let written: Value = serde_json::from_str(&line(record)).unwrap();
        assert_eq!(written["value"], value);
    }

    #[test]
    fn rejected_record_leaves_buffer_unchanged() {
        let long = "x".repeat(MAX_RECORD_BYTES);
        let mut buffer = b"before".to_vec();
        let record = JournalRecord::Ended { at: TsNs(5), status: "failed", error: Some(&long) };
        assert_eq!(record.encode(&mut buffer), Err(EncodeError::TooLong));
        let definition = nested(500);
        let record = JournalRecord::Resumed { at: TsNs(5), definition: Some(&definition) };
        assert_eq!(record.encode(&mut buffer), Err(EncodeError::TooDeep));
        assert_eq!(buffer, b"before");
    }

    #[test]
    fn header_error_names_the_part_that_is_too_deep() {
        let head = Header {
            at: TsNs(1),
            run: "r".into(),
            graph: "g".into(),
            session: None,
            definition: nested(121),
            input: Value::Null,
            options: Value::Null,
        };
        assert_eq!(head.encode(&mut Vec::new()), Err(("definition", EncodeError::TooDeep)));
    }
}
