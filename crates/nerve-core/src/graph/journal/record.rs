//! What a journal says, and how it is written: a fact is one line of JSON.

use nerve_term::event::TsNs;
use serde::Serialize;
use serde_json::Value;

/// The version written into new journals. A newer minor may add facts and fields.
pub(super) const VERSION: &str = "1.0";

/// A longer fact is not written: whoever resumes the run would have to hold it whole.
pub(super) const MAX_FACT_BYTES: usize = 64 << 20;

/// The deepest nesting of a value. `serde_json` reads 128 levels, one of them is the line's own.
const MAX_DEPTH: usize = 120;

/// The first fact: which run this is, and all that is needed to run it again.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// When it began.
    pub at: TsNs,
    /// The run's id, as [`new_run_id`](super::new_run_id) makes it.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session whose nodes it uses; `None` is the default one.
    pub session: Option<String>,
    /// The graph file.
    pub definition: Value,
    /// What the run was given.
    pub input: Value,
    /// How it was asked to run.
    pub options: Value,
}

/// Something that happened in a run. Steps are named by their path: `outer/inner`, items of a list `each[3]`; `key` says what a step
/// was given (see [`key`](super::key)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fact<'a> {
    /// A step runs.
    Started { at: TsNs, step: &'a str, key: u64, node: &'a str, persistent: bool },
    /// A step has its result. `ms`: milliseconds it took; `tokens`: what it used, if that is known.
    Finished { at: TsNs, step: &'a str, key: u64, value: &'a Value, ms: u64, tokens: Option<u64> },
    /// A step failed for good: no attempt is left.
    Failed { at: TsNs, step: &'a str, key: u64, error: &'a str, error_type: &'a str },
    /// A step did not run, or its failure was passed over. With a `value`, that is its result from now on.
    Skipped { at: TsNs, step: &'a str, key: u64, value: Option<&'a Value>, reason: &'a str },
    /// A gate asks.
    Asked {
        at: TsNs,
        step: &'a str,
        key: u64,
        question: &'a str,
        choices: &'a [String],
        default: Option<&'a str>,
        deadline: Option<TsNs>,
    },
    /// Somebody, or the gate's default, answered.
    Answered { at: TsNs, step: &'a str, key: u64, choice: &'a str, by: &'a str },
    /// The run goes on after its server ended; with another definition if the graph was edited.
    Resumed { at: TsNs, definition: Option<&'a Value> },
    /// The run is over: `completed`, `failed` or `cancelled`.
    Ended { at: TsNs, status: &'a str, error: Option<&'a str> },
}

/// Why a fact was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwritten {
    TooLong,
    TooDeep,
    /// It has no JSON.
    NoJson,
}

impl Unwritten {
    pub(super) fn why(self) -> &'static str {
        match self {
            Unwritten::TooLong => "it is longer than 64 MiB",
            Unwritten::TooDeep => "it is nested deeper than 120 levels",
            Unwritten::NoJson => "it cannot be written as JSON",
        }
    }
}

impl Fact<'_> {
    /// Appends the fact's line to `buffer`; nothing of it on error. A result that cannot be read again is left out: its step is then
    /// neither running nor done, so it runs again.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), Unwritten> {
        let start = buffer.len();
        match self.write(buffer, start) {
            Ok(()) => Ok(()),
            Err(reason) => {
                buffer.truncate(start);
                match *self {
                    Fact::Finished { at, step, key, ms, tokens, .. } => {
                        step_line(buffer, "finished", at, step, key)?;
                        tail(buffer, ms, tokens)?;
                        text(buffer, "left_out", reason.why())?;
                        end(buffer, start)
                    }
                    Fact::Skipped { at, step, key, value: Some(_), .. } => {
                        step_line(buffer, "skipped", at, step, key)?;
                        text(buffer, "left_out", reason.why())?;
                        end(buffer, start)
                    }
                    _ => Err(reason),
                }
            }
        }
    }

    fn write(&self, buffer: &mut Vec<u8>, start: usize) -> Result<(), Unwritten> {
        match *self {
            Fact::Started { at, step, key, node, persistent } => {
                step_line(buffer, "started", at, step, key)?;
                text(buffer, "node", node)?;
                buffer.extend_from_slice(if persistent {
                    b",\"persistent\":true".as_slice()
                } else {
                    b",\"persistent\":false"
                });
            }
            Fact::Finished { at, step, key, value, ms, tokens } => {
                step_line(buffer, "finished", at, step, key)?;
                tail(buffer, ms, tokens)?;
                json(buffer, "value", value)?;
            }
            Fact::Failed { at, step, key, error, error_type } => {
                step_line(buffer, "failed", at, step, key)?;
                text(buffer, "error", error)?;
                text(buffer, "error_type", error_type)?;
            }
            Fact::Skipped { at, step, key, value, reason } => {
                step_line(buffer, "skipped", at, step, key)?;
                text(buffer, "reason", reason)?;
                if let Some(value) = value {
                    json(buffer, "value", value)?;
                }
            }
            Fact::Asked { at, step, key, question, choices, default, deadline } => {
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
            Fact::Answered { at, step, key, choice, by } => {
                step_line(buffer, "answered", at, step, key)?;
                text(buffer, "choice", choice)?;
                text(buffer, "by", by)?;
            }
            Fact::Resumed { at, definition } => {
                open(buffer, "resumed", at)?;
                if let Some(definition) = definition {
                    json(buffer, "definition", definition)?;
                }
            }
            Fact::Ended { at, status, error } => {
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

impl Head {
    /// Appends the first line of a journal to `buffer`. An error says which part cannot be kept.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), (&'static str, Unwritten)> {
        let start = buffer.len();
        let named = |what: &'static str| move |reason| (what, reason);
        let head = named("names");
        buffer.extend_from_slice(b"{\"fact\":\"run\"");
        text(buffer, "version", VERSION).map_err(head)?;
        field(buffer, "at", &self.at.0).map_err(head)?;
        text(buffer, "run", &self.run).map_err(head)?;
        text(buffer, "graph", &self.graph).map_err(head)?;
        field(buffer, "session", &self.session).map_err(head)?;
        json(buffer, "input", &self.input).map_err(named("input"))?;
        json(buffer, "options", &self.options).map_err(named("options"))?;
        json(buffer, "definition", &self.definition).map_err(named("definition"))?;
        end(buffer, start).map_err(named("definition"))
    }
}

// The fixed parts of a line are written as bytes and not through a serializer: a graph of a million small steps writes two million.

fn open(buffer: &mut Vec<u8>, fact: &str, at: TsNs) -> Result<(), Unwritten> {
    buffer.extend_from_slice(b"{\"fact\":\"");
    buffer.extend_from_slice(fact.as_bytes());
    buffer.extend_from_slice(b"\",\"at\":");
    put(buffer, &at.0)
}

fn step_line(buffer: &mut Vec<u8>, fact: &str, at: TsNs, step: &str, key: u64) -> Result<(), Unwritten> {
    open(buffer, fact, at)?;
    text(buffer, "step", step)?;
    buffer.extend_from_slice(b",\"key\":\"");
    buffer.extend_from_slice(&hex(key));
    buffer.push(b'"');
    Ok(())
}

fn tail(buffer: &mut Vec<u8>, ms: u64, tokens: Option<u64>) -> Result<(), Unwritten> {
    field(buffer, "ms", &ms)?;
    match tokens {
        Some(tokens) => field(buffer, "tokens", &tokens),
        None => Ok(()),
    }
}

fn end(buffer: &mut Vec<u8>, start: usize) -> Result<(), Unwritten> {
    buffer.extend_from_slice(b"}\n");
    if buffer.len() - start > MAX_FACT_BYTES {
        buffer.truncate(start);
        return Err(Unwritten::TooLong);
    }
    Ok(())
}

fn text(buffer: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Unwritten> {
    field(buffer, name, value)
}

fn json(buffer: &mut Vec<u8>, name: &str, value: &Value) -> Result<(), Unwritten> {
    if is_deeper(value, MAX_DEPTH) {
        return Err(Unwritten::TooDeep);
    }
    field(buffer, name, value)
}

fn field(buffer: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Unwritten> {
    buffer.extend_from_slice(b",\"");
    buffer.extend_from_slice(name.as_bytes());
    buffer.extend_from_slice(b"\":");
    put(buffer, value)
}

fn put(buffer: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Unwritten> {
    serde_json::to_writer(buffer, value).map_err(|_| Unwritten::NoJson)
}

/// Are there more than `levels` lists and objects in each other?
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
}

/// A key as 16 hexadecimal digits.
fn hex(key: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(key >> (60 - 4 * index)) as usize & 15];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::{Fact, Head, MAX_FACT_BYTES, Unwritten, hex};
    use nerve_term::event::TsNs;
    use serde_json::{Value, json};

    fn line(fact: Fact<'_>) -> String {
        let mut buffer = b"before".to_vec();
        fact.encode(&mut buffer).unwrap();
        String::from_utf8(buffer).unwrap().strip_prefix("before").unwrap().to_string()
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("deep"), |inner, _| json!([inner]))
    }

    #[test]
    fn facts_are_lines() {
        let at = TsNs(5);
        let cases = [
            (
                Fact::Started { at, step: "a/b[2]", key: 255, node: "me", persistent: true },
                r#"{"fact":"started","at":5,"step":"a/b[2]","key":"00000000000000ff","node":"me","persistent":true}"#,
            ),
            (
                Fact::Finished { at, step: "a", key: 1, value: &json!({"x": "\n"}), ms: 12, tokens: Some(3) },
                r#"{"fact":"finished","at":5,"step":"a","key":"0000000000000001","ms":12,"tokens":3,"value":{"x":"\n"}}"#,
            ),
            (
                Fact::Failed { at, step: "a", key: 1, error: "no \"x\"", error_type: "timeout" },
                r#"{"fact":"failed","at":5,"step":"a","key":"0000000000000001","error":"no \"x\"","error_type":"timeout"}"#,
            ),
            (
                Fact::Skipped { at, step: "a", key: 1, value: None, reason: "when" },
                r#"{"fact":"skipped","at":5,"step":"a","key":"0000000000000001","reason":"when"}"#,
            ),
            (
                Fact::Asked {
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
                Fact::Answered { at, step: "ok", key: 1, choice: "yes", by: "person" },
                r#"{"fact":"answered","at":5,"step":"ok","key":"0000000000000001","choice":"yes","by":"person"}"#,
            ),
            (Fact::Resumed { at, definition: None }, r#"{"fact":"resumed","at":5}"#),
            (
                Fact::Ended { at, status: "failed", error: Some("why") },
                r#"{"fact":"ended","at":5,"status":"failed","error":"why"}"#,
            ),
        ];
        for (fact, expected) in cases {
            assert_eq!(line(fact), format!("{expected}\n"));
        }
    }

    #[test]
    fn keys_have_all_their_digits() {
        for key in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(hex(key).as_slice(), format!("{key:016x}").as_bytes());
        }
    }

    #[test]
    fn a_result_that_could_not_be_read_again_is_left_out_and_said_so() {
        let (deep, long) = (nested(121), Value::String("x".repeat(MAX_FACT_BYTES)));
        let at = TsNs(5);
        let facts = [
            (Fact::Finished { at, step: "a", key: 1, value: &deep, ms: 1, tokens: None }, "120 levels"),
            (Fact::Finished { at, step: "a", key: 1, value: &long, ms: 1, tokens: None }, "64 MiB"),
            (Fact::Skipped { at, step: "a", key: 1, value: Some(&deep), reason: "on_error" }, "120 levels"),
        ];
        for (fact, reason) in facts {
            let written: Value = serde_json::from_str(&line(fact)).unwrap();
            assert!(written["left_out"].as_str().unwrap().contains(reason), "{written}");
            assert!(written.get("value").is_none());
        }
    }

    #[test]
    fn the_deepest_value_that_is_written_can_be_read() {
        let value = nested(120);
        let fact = Fact::Finished { at: TsNs(5), step: "a", key: 1, value: &value, ms: 1, tokens: None };
        let written: Value = serde_json::from_str(&line(fact)).unwrap();
        assert_eq!(written["value"], value);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let long = "x".repeat(MAX_FACT_BYTES);
        let mut buffer = b"before".to_vec();
        let fact = Fact::Ended { at: TsNs(5), status: "failed", error: Some(&long) };
        assert_eq!(fact.encode(&mut buffer), Err(Unwritten::TooLong));
        let definition = nested(500);
        let fact = Fact::Resumed { at: TsNs(5), definition: Some(&definition) };
        assert_eq!(fact.encode(&mut buffer), Err(Unwritten::TooDeep));
        assert_eq!(buffer, b"before");
    }

    #[test]
    fn a_head_says_which_part_is_too_deep() {
        let head = Head {
            at: TsNs(1),
            run: "r".into(),
            graph: "g".into(),
            session: None,
            definition: nested(121),
            input: Value::Null,
            options: Value::Null,
        };
        assert_eq!(head.encode(&mut Vec::new()), Err(("definition", Unwritten::TooDeep)));
    }
}
