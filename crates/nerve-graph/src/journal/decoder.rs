//! Decodes journal lines. The reader chooses the type of the values, for example to skip them.

use std::borrow::Cow;
use std::path::Path;

use nerve_api::reply::GateInfo;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::error::JournalError;
use super::scanner::LineError;

/// A line after the first.
#[expect(clippy::large_enum_variant, reason = "most lines are steps, and each one is applied at once")]
pub(super) enum JournalLine<'a, V> {
    Step(StepRecordKind, StepLine<'a, V>),
    Items(ItemsLine<'a>),
    Resumed(ResumedLine<V>),
    Paused(PausedLine),
    Ended(RunOutcome),
    /// A record of a newer version.
    Unknown,
}

/// Kinds of step records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum StepRecordKind {
    Started,
    Called,
    Finished,
    Failed,
    Skipped,
    Asked,
    Answered,
}

/// The first line.
#[derive(Deserialize)]
#[serde(bound(deserialize = "V: Deserialize<'de> + Default, D: Deserialize<'de>"))]
pub(super) struct RunLine<V, D = V> {
    pub(super) at: TsNs,
    pub(super) run: String,
    pub(super) graph: String,
    #[serde(default)]
    pub(super) session: Option<String>,
    pub(super) definition: D,
    #[serde(default)]
    pub(super) input: V,
    #[serde(default)]
    pub(super) options: V,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "V: Deserialize<'de>"))]
pub(super) struct StepLine<'a, V> {
    pub(super) at: TsNs,
    #[serde(borrow)]
    pub(super) step: Cow<'a, str>,
    #[serde(deserialize_with = "key")]
    pub(super) key: u64,
    #[serde(default = "none", deserialize_with = "present")]
    pub(super) value: Option<V>,
    /// Why the result is missing.
    #[serde(default)]
    pub(super) left_out: Option<String>,
    #[serde(default)]
    pub(super) tokens: Option<u64>,
    #[serde(default)]
    pub(super) calls: u64,
    #[serde(default)]
    pub(super) cost_usd: f64,
    #[serde(default)]
    pub(super) node: Option<String>,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) error_type: Option<String>,
    #[serde(default)]
    pub(super) question: Option<String>,
    #[serde(default)]
    pub(super) choices: Vec<String>,
    #[serde(default)]
    pub(super) default: Option<String>,
    #[serde(default)]
    pub(super) deadline: Option<TsNs>,
    #[serde(default)]
    pub(super) choice: Option<String>,
    #[serde(default)]
    pub(super) by: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ItemsLine<'a> {
    pub(super) at: TsNs,
    #[serde(borrow)]
    pub(super) step: Cow<'a, str>,
    pub(super) count: usize,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "V: Deserialize<'de>"))]
pub(super) struct ResumedLine<V> {
    pub(super) at: TsNs,
    #[serde(default = "none", deserialize_with = "present")]
    pub(super) definition: Option<V>,
}

#[derive(Deserialize)]
pub(super) struct PausedLine {
    pub(super) at: TsNs,
}

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RunOutcome {
    /// Time of the end.
    pub at: TsNs,
    /// `completed`, `failed` or `cancelled`.
    #[serde(rename = "state", alias = "status")]
    pub status: String,
    /// Error of a failed run.
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of the error; absent in journals of earlier versions.
    #[serde(default)]
    pub error_type: Option<String>,
    /// Hint of the error; in journals of earlier versions it is part of the error.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A question of a gate in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedQuestion {
    /// Time of the question.
    pub at: TsNs,
    /// Exact time at which the default becomes the answer; `None`: never.
    pub deadline: Option<TsNs>,
    /// The question.
    pub gate: GateInfo,
}

impl<V> StepLine<'_, V> {
    pub(super) fn into_question(self) -> RecordedQuestion {
        let gate = GateInfo {
            step_id: self.step.into_owned(),
            question: self.question.unwrap_or_default(),
            choices: self.choices,
            default: self.default,
            deadline_at: self.deadline.map(TsMs::from),
        };
        RecordedQuestion { at: self.at, deadline: self.deadline, gate }
    }
}

/// Decodes the first line.
pub(super) fn first<'a, V, D>(line: &'a [u8], path: &Path) -> Result<RunLine<V, D>, LineError>
where
    V: Deserialize<'a> + Default,
    D: Deserialize<'a>,
{
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        fact: Cow<'a, str>,
        #[serde(borrow)]
        version: Cow<'a, str>,
    }
    let kind: Kind<'_> = parse(line)?;
    if kind.fact != "run" {
        return Err(LineError::Malformed("a journal must begin with the record \"run\"".to_string()));
    }
    // Checked first: another major version may have other fields.
    match kind.version.split('.').next().map(str::parse::<u32>) {
        Some(Ok(1)) => parse(line),
        _ => {
            let found = kind.version.into_owned();
            Err(LineError::Fatal(JournalError::Version { path: path.into(), found }))
        }
    }
}

/// Decodes a line after the first.
pub(super) fn next<'a, V: Deserialize<'a>>(line: &'a [u8]) -> Result<JournalLine<'a, V>, LineError> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        fact: Cow<'a, str>,
    }
    let fact = match leading_kind(line) {
        Some(fact) => fact,
        None => parse::<Kind<'_>>(line)?.fact,
    };
    match fact.as_ref() {
        "items" => parse(line).map(JournalLine::Items),
        "resumed" => parse(line).map(JournalLine::Resumed),
        "paused" => parse(line).map(JournalLine::Paused),
        "ended" => parse(line).map(JournalLine::Ended),
        fact => match fact.parse() {
            Ok(step) => parse(line).map(|line| JournalLine::Step(step, line)),
            Err(_) => parse(line).map(|_: IgnoredAny| JournalLine::Unknown),
        },
    }
}

/// Returns the kind of a record if it is the first field, as our own writer puts it: this saves parsing the line twice.
fn leading_kind(line: &[u8]) -> Option<Cow<'_, str>> {
    let rest = line.strip_prefix(b"{\"fact\":\"")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_lowercase())?;
    (rest[end] == b'"').then(|| String::from_utf8_lossy(&rest[..end]))
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineError> {
    serde_json::from_slice(line).map_err(|error| LineError::Malformed(error.to_string()))
}

/// A value that is skipped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IgnoredValue;

impl<'de> Deserialize<'de> for IgnoredValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IgnoredValue, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| IgnoredValue)
    }
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    struct Digits<'a>(#[serde(borrow)] Cow<'a, str>);
    let Digits(digits) = Digits::deserialize(deserializer)?;
    let well_formed = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    well_formed
        .then(|| u64::from_str_radix(&digits, 16).ok())
        .flatten()
        .ok_or_else(|| D::Error::custom("a key must have 16 hexadecimal digits"))
}

fn none<V>() -> Option<V> {
    None
}

/// Deserializes a field that is present, even if it is null.
fn present<'de, V: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<V>, D::Error> {
    V::deserialize(deserializer).map(Some)
}
