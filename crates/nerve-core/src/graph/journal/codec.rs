//! The lines of a journal as they are read. The values in them are of a type the reader chooses: kept, or only passed over.

use std::borrow::Cow;
use std::path::Path;

use nerve_term::event::TsNs;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::error::JournalError;
use super::scanner::Refusal;

/// A line that is not the first.
pub(super) enum Stored<'a, V> {
    Step(StepFact, StepLine<'a, V>),
    Resumed(ResumedLine<V>),
    Ended(EndedLine),
    /// A fact of a newer nerve.
    Unknown,
}

/// What happened to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepFact {
    Started,
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
    pub(super) at: u64,
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
    pub(super) at: u64,
    #[serde(borrow)]
    pub(super) step: Cow<'a, str>,
    #[serde(deserialize_with = "key")]
    pub(super) key: u64,
    #[serde(default = "none", deserialize_with = "present")]
    pub(super) value: Option<V>,
    #[serde(default)]
    pub(super) tokens: Option<u64>,
    #[serde(default)]
    pub(super) question: Option<String>,
    #[serde(default)]
    pub(super) choices: Vec<String>,
    #[serde(default)]
    pub(super) default: Option<String>,
    #[serde(default)]
    pub(super) deadline: Option<u64>,
    #[serde(default)]
    pub(super) choice: Option<String>,
    #[serde(default)]
    pub(super) by: Option<String>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "V: Deserialize<'de>"))]
pub(super) struct ResumedLine<V> {
    pub(super) at: u64,
    #[serde(default = "none", deserialize_with = "present")]
    pub(super) definition: Option<V>,
}

#[derive(Deserialize)]
pub(super) struct EndedLine {
    pub(super) at: u64,
    pub(super) status: String,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// A gate's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Path of the gate's step.
    pub step: String,
    /// The step's key.
    pub key: u64,
    /// When it was asked.
    pub at: TsNs,
    /// When the default counts as the answer; `None`: it waits for ever.
    pub deadline: Option<TsNs>,
    /// What is asked.
    pub text: String,
    /// The answers to choose from; none: any text.
    pub choices: Vec<String>,
    /// What counts as the answer after the deadline.
    pub default: Option<String>,
}

impl<V> StepLine<'_, V> {
    pub(super) fn into_question(self) -> Question {
        Question {
            step: self.step.into_owned(),
            key: self.key,
            at: TsNs(self.at),
            deadline: self.deadline.map(TsNs),
            text: self.question.unwrap_or_default(),
            choices: self.choices,
            default: self.default,
        }
    }
}

/// Reads the first line.
pub(super) fn first<'a, V, D>(line: &'a [u8], path: &Path) -> Result<RunLine<V, D>, Refusal>
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
        return Err(Refusal::Garbled("a journal begins with the fact \"run\"".to_string()));
    }
    // The version counts before the rest is looked at: another major may have no such fields.
    match kind.version.split('.').next().map(str::parse::<u32>) {
        Some(Ok(1)) => parse(line),
        _ => {
            let found = kind.version.into_owned();
            Err(Refusal::Fatal(JournalError::Version { path: path.into(), found }))
        }
    }
}

/// Reads a line that is not the first.
pub(super) fn next<'a, V: Deserialize<'a>>(line: &'a [u8]) -> Result<Stored<'a, V>, Refusal> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        fact: Cow<'a, str>,
    }
    let fact = match fact_in_front(line) {
        Some(fact) => fact,
        None => parse::<Kind<'_>>(line)?.fact,
    };
    let step = match fact.as_ref() {
        "started" => StepFact::Started,
        "finished" => StepFact::Finished,
        "failed" => StepFact::Failed,
        "skipped" => StepFact::Skipped,
        "asked" => StepFact::Asked,
        "answered" => StepFact::Answered,
        "resumed" => return parse(line).map(Stored::Resumed),
        "ended" => return parse(line).map(Stored::Ended),
        _ => return parse(line).map(|_: IgnoredAny| Stored::Unknown),
    };
    parse(line).map(|line| Stored::Step(step, line))
}

/// The fact of a line as our own writers write it, where it stands in front: the line need not be read twice.
fn fact_in_front(line: &[u8]) -> Option<Cow<'_, str>> {
    let rest = line.strip_prefix(b"{\"fact\":\"")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_lowercase())?;
    (rest[end] == b'"').then(|| String::from_utf8_lossy(&rest[..end]))
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(line).map_err(|error| Refusal::Garbled(error.to_string()))
}

/// A reader that does not care for values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PassedOver;

impl<'de> Deserialize<'de> for PassedOver {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PassedOver, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| PassedOver)
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
        .ok_or_else(|| D::Error::custom("a key is 16 hexadecimal digits"))
}

fn none<V>() -> Option<V> {
    None
}

/// A field that is there, even if it is null.
fn present<'de, V: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<V>, D::Error> {
    V::deserialize(deserializer).map(Some)
}
