//! Types of values for which JSON has no type.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::value::{DocumentKind, NodeState};

/// A command: a string, which is split like in a shell but not run by one, or a list of arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CommandLine {
    /// A string that is split into arguments.
    Text(String),
    /// A list of arguments.
    Argv(Vec<String>),
}

impl Default for CommandLine {
    /// No arguments: the default program.
    fn default() -> CommandLine {
        CommandLine::Argv(Vec::new())
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CommandLine, D::Error> {
        match deserializer.deserialize_any(TextOrList("a string or a list of strings"))? {
            OneOrMany::One(text) => Ok(CommandLine::Text(text)),
            OneOrMany::Many(argv) => Ok(CommandLine::Argv(argv)),
        }
    }
}

/// States to wait for, at least one. A single state need not be a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct States(pub Vec<NodeState>);

impl Default for States {
    /// Returns `ready`.
    fn default() -> States {
        States(vec![NodeState::Ready])
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<States, D::Error> {
        let states = known_values(deserializer, "a state or a list of states", "state", NodeState::names())?;
        if states.is_empty() { Err(de::Error::custom("name at least one state")) } else { Ok(States(states)) }
    }
}

/// Reads kinds of documents: one, or a list.
pub(super) fn document_kinds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<DocumentKind>, D::Error> {
    known_values(deserializer, "a kind or a list of kinds", "kind", DocumentKind::names())
}

/// Reads one value or a list of values of an open set, whose default stands for unknown values. `noun` is a word
/// for a value and `names` are the known ones; the error about an unknown value contains both.
fn known_values<'de, T: FromStr + Default + PartialEq, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    noun: &str,
    names: impl Iterator<Item = &'static str>,
) -> Result<Vec<T>, D::Error> {
    let texts = match deserializer.deserialize_any(TextOrList(expected))? {
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    };
    let parse = |name: &String| name.parse().ok().filter(|value| *value != T::default()).ok_or(name.clone());
    texts.iter().map(parse).collect::<Result<_, _>>().map_err(|name| {
        let known = names.collect::<Vec<_>>().join(", ");
        de::Error::custom(format!("unknown {noun} {name:?}: there are {known}"))
    })
}

enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

struct TextOrList(&'static str);

impl<'de> Visitor<'de> for TextOrList {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany::One(text.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            texts.push(text);
        }
        Ok(OneOrMany::Many(texts))
    }
}

/// Reads an object of settings, in which `null` means absent.
pub(super) fn without_nulls<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let mut fields = Map::<String, Value>::deserialize(deserializer)?;
    fields.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(fields)).map_err(de::Error::custom)
}

/// A duration in seconds, with an optional fraction, from 0 to [`Seconds::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Seconds(f64);

impl Seconds {
    /// Maximum duration: one year. A longer wait is a mistake.
    pub const MAX: f64 = 31_536_000.0;

    /// Creates a duration; `None` if it is out of range.
    pub fn new(seconds: f64) -> Option<Seconds> {
        (0.0..=Seconds::MAX).contains(&seconds).then_some(Seconds(seconds))
    }

    /// Converts the value to a [`Duration`].
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl From<Duration> for Seconds {
    /// Limits longer durations to [`Seconds::MAX`].
    fn from(duration: Duration) -> Seconds {
        Seconds(duration.as_secs_f64().min(Seconds::MAX))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "seconds from 0 to {}", Seconds::MAX)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Seconds, E> {
                Seconds::new(seconds).ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Seconds, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Seconds, E> {
                self.visit_f64(seconds as f64)
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A choice of a dialog: its position, from 1, or a part of its label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum NodeChoice {
    /// Position of the choice, from 1.
    Number(usize),
    /// A part of the choice's label.
    Label(String),
}

impl<'de> Deserialize<'de> for NodeChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeChoice, D::Error> {
        struct NumberOrLabel;
        impl Visitor<'_> for NumberOrLabel {
            type Value = NodeChoice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a choice: its number, from 1, or a part of its label")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<NodeChoice, E> {
                match usize::try_from(number) {
                    Ok(number) if number > 0 => Ok(NodeChoice::Number(number)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }
            fn visit_str<E: de::Error>(self, label: &str) -> Result<NodeChoice, E> {
                Ok(NodeChoice::Label(label.to_string()))
            }
        }
        deserializer.deserialize_any(NumberOrLabel)
    }
}
