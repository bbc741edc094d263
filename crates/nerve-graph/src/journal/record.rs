//! Journal records and their encoding: one line of JSON each.

use nerve_node::error::EngineError;
use nerve_types::TsNs;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Version written into new journals. A newer minor version may add records and fields.
pub(super) const VERSION: &str = "1.0";

/// Maximum size of a record in bytes. Resuming a run holds each record in memory.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;

/// Maximum nesting of a value. `serde_json` reads 128 levels, one of which is the line's object.
const MAX_DEPTH: usize = 120;

/// The first record: identifies the run and holds everything needed to run it again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Header {
    /// Start of the run.
    pub at: TsNs,
    /// The run's id, as [`new_run_id`](super::new_run_id) makes it.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session whose nodes the run uses; `None` for the default session.
    pub session: Option<String>,
    /// Input of the run.
    pub input: Value,
    /// Options of the run.
    pub options: Value,
    /// The graph file.
    pub definition: Value,
}

/// An event of a run. `at`: its time. `step`: the step's path, for example `outer/inner` or `each[3]`. `key` identifies the step's
/// definition and input (see [`key`](super::key)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "fact", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the fields repeat, and are described here and at their variants")]
pub enum JournalRecord<'a> {
    /// A step started.
    Started {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        node: &'a str,
        persistent: bool,
    },
    /// A step has a result. `ms`: duration in milliseconds; `tokens`: tokens used, if known.
    Finished {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        value: &'a Value,
    },
    /// A step made calls to a model's API that its result does not report. Precedes the result.
    Called {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        calls: u64,
        cost_usd: f64,
    },
    /// A step failed; no attempt is left.
    Failed {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        error: &'a str,
        error_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'a str>,
    },
    /// A step did not run, or its failure was ignored. A `value`, if present, is its result.
    Skipped {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a Value>,
    },
    /// A gate asks its question.
    Asked {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        question: &'a str,
        choices: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        default: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<TsNs>,
    },
    /// A person, or the gate's default, answered.
    Answered {
        at: TsNs,
        step: &'a str,
        #[serde(serialize_with = "hex")]
        key: u64,
        choice: &'a str,
        by: &'a str,
    },
    /// A step with `foreach` begins with this number of items. Each item has records of its own.
    Items { at: TsNs, step: &'a str, count: usize },
    /// The run continues after its server ended, with a new definition if the graph was edited.
    Resumed {
        at: TsNs,
        #[serde(skip_serializing_if = "Option::is_none")]
        definition: Option<&'a Value>,
    },
    /// The server shut down in order. A run without this record, and without an end, may have crashed its server.
    Paused { at: TsNs },
    /// The run ended: `completed`, `failed` or `cancelled`.
    Ended {
        at: TsNs,
        #[serde(rename = "state")]
        status: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'a str>,
    },
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

/// A record without its result, which could not be read back.
#[derive(Serialize)]
struct RecordWithoutResult<'a> {
    fact: &'static str,
    at: TsNs,
    step: &'a str,
    #[serde(serialize_with = "hex")]
    key: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// Why the result is missing.
    left_out: &'static str,
}

impl<'a> JournalRecord<'a> {
    /// Creates the record of a failed step.
    pub(crate) fn failed(at: TsNs, step: &'a str, key: u64, error: &'a EngineError) -> JournalRecord<'a> {
        let (error_type, hint) = (error.kind.as_str(), error.hint.as_deref());
        JournalRecord::Failed { at, step, key, error: &error.message, error_type, hint }
    }

    /// Creates the record of the end of a run.
    pub fn ended(at: TsNs, status: &'a str, error: Option<&'a EngineError>) -> JournalRecord<'a> {
        JournalRecord::Ended {
            at,
            status,
            error: error.map(|error| error.message.as_str()),
            error_type: error.map(|error| error.kind.as_str()),
            hint: error.and_then(|error| error.hint.as_deref()),
        }
    }

    /// Appends the record's line to `buffer`, or nothing on error. A result that could not be read back is left out; its step then
    /// counts as neither running nor done, and runs again.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let is_too_deep = self.value().is_some_and(|value| is_nested_deeper(value, MAX_DEPTH));
        let written = if is_too_deep { Err(EncodeError::TooDeep) } else { write_line(buffer, self) };
        let Err(reason) = written else { return Ok(()) };
        let left_out = reason.message();
        let line = match *self {
            JournalRecord::Finished { at, step, key, ms, tokens, .. } => {
                RecordWithoutResult { fact: "finished", at, step, key, ms: Some(ms), tokens, left_out }
            }
            JournalRecord::Skipped { at, step, key, value: Some(_), .. } => {
                RecordWithoutResult { fact: "skipped", at, step, key, ms: None, tokens: None, left_out }
            }
            _ => return Err(reason),
        };
        write_line(buffer, &line)
    }

    fn value(&self) -> Option<&Value> {
        match *self {
            JournalRecord::Finished { value, .. } => Some(value),
            JournalRecord::Skipped { value, .. } => value,
            JournalRecord::Resumed { definition, .. } => definition,
            _ => None,
        }
    }
}

impl Header {
    /// Appends the first line of a journal to `buffer`. An error names the part that cannot be stored.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), (&'static str, EncodeError)> {
        #[derive(Serialize)]
        struct Line<'a> {
            fact: &'static str,
            version: &'static str,
            #[serde(flatten)]
            header: &'a Header,
        }
        let parts = [("input", &self.input), ("options", &self.options), ("definition", &self.definition)];
        match parts.into_iter().find(|(_, value)| is_nested_deeper(value, MAX_DEPTH)) {
            Some((part, _)) => Err((part, EncodeError::TooDeep)),
            None => write_line(buffer, &Line { fact: "run", version: VERSION, header: self })
                .map_err(|reason| ("definition", reason)),
        }
    }
}

/// Appends a line, or nothing on error.
fn write_line(buffer: &mut Vec<u8>, record: &impl Serialize) -> Result<(), EncodeError> {
    let start = buffer.len();
    let written = serde_json::to_writer(&mut *buffer, record);
    buffer.push(b'\n');
    let error = match written {
        Err(_) => EncodeError::NoJson,
        Ok(()) if buffer.len() - start > MAX_RECORD_BYTES => EncodeError::TooLong,
        Ok(()) => return Ok(()),
    };
    buffer.truncate(start);
    Err(error)
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

/// Serializes a key as 16 hexadecimal digits.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn hex<S: Serializer>(key: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    // Without the formatting machinery: each record has a key.
    let digit = |place: usize| b"0123456789abcdef"[(key >> (60 - 4 * place)) as usize & 0xf];
    let digits: [u8; 16] = std::array::from_fn(digit);
    serializer.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{EncodeError, Header, JournalRecord, MAX_RECORD_BYTES};
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
                JournalRecord::Started {
                    at,
                    step: "a/b[2]",
                    key: 0x0123_4567_89ab_cdef,
                    node: "me",
                    persistent: true,
                },
                r#"{"fact":"started","at":5,"step":"a/b[2]","key":"0123456789abcdef","node":"me","persistent":true}"#,
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
                JournalRecord::Failed {
                    at,
                    step: "a",
                    key: 1,
                    error: "no \"x\"",
                    error_type: "timeout",
                    hint: Some("more time"),
                },
                r#"{"fact":"failed","at":5,"step":"a","key":"0000000000000001","error":"no \"x\"","error_type":"timeout","hint":"more time"}"#,
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
                JournalRecord::Ended {
                    at,
                    status: "failed",
                    error: Some("why"),
                    error_type: Some("timeout"),
                    hint: None,
                },
                r#"{"fact":"ended","at":5,"state":"failed","error":"why","error_type":"timeout"}"#,
            ),
        ];
        for (record, expected) in cases {
            assert_eq!(line(record), format!("{expected}\n"));
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
        let record = JournalRecord::Ended {
            at: TsNs(5),
            status: "failed",
            error: Some(&long),
            error_type: None,
            hint: None,
        };
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
