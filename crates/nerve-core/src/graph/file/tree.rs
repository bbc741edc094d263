//! A file as a tree of values, each with its place in the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Spanned};

use super::problem::Position;

/// Deeper files are refused: nothing in a graph needs it, and reading goes as deep as the file.
const MAX_DEPTH: usize = 32;
/// Larger files are refused, in bytes.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Values in a file, aliases spelled out.
const MAX_NODES: usize = 1_000_000;

/// A value and where it is.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

/// Where a value is in the text; all zero where there is no text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    line: u32,
    column: u32,
    /// Bytes of the text.
    start: u32,
    bytes: u32,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(Key, Tree)>),
}

/// The name of a value in a mapping.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) place: Place,
    pub(super) name: String,
}

/// A text that is no YAML or JSON.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) position: Option<Position>,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl Place {
    pub(super) fn position(self) -> Option<Position> {
        (self.line > 0).then_some(Position { line: self.line, column: self.column })
    }

    /// The text of the value as it was written; `None` where that is not known.
    pub(super) fn slice(self, text: &str) -> Option<(usize, &str)> {
        let start = self.start as usize;
        (self.bytes > 0).then_some(())?;
        Some((start, text.get(start..start.checked_add(self.bytes as usize)?)?))
    }

    fn of(location: Location) -> Place {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Place {
            line: number(location.line()),
            column: number(location.column()),
            start: location.span().byte_offset().map_or(0, number),
            bytes: location.span().byte_len().map_or(0, number),
        }
    }
}

impl Tree {
    /// Reads YAML. Text that looks like a number with leading zeros or underscores stays a text, as do `yes` and `no`.
    pub(super) fn yaml(text: &str) -> Result<Tree, Unreadable> {
        check_size(text)?;
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: MAX_DEPTH,
                flow_nesting_limit: MAX_DEPTH,
                max_nodes: MAX_NODES,
                max_events: MAX_NODES * 3,
                max_documents: 2,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_NODES },
            duplicate_keys: DuplicateKeyPolicy::Error,
            strict_booleans: true,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
            reject_unsupported_tags: true,
            with_snippet: false,
        };
        match serde_saphyr::from_str_with_options::<Spanned<Kind>>(text, options) {
            Ok(root) => Ok(root.into()),
            Err(error) => Err(unreadable(&error, text)),
        }
    }

    /// Reads JSON. What is JSON is read as the YAML it also is, so that both know their places in the same way.
    pub(super) fn json(text: &str) -> Result<Tree, Unreadable> {
        check_size(text)?;
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or(&said);
            return Err(Unreadable {
                position: Some(Position {
                    line: number(error.line()).max(1),
                    column: number(error.column()).max(1),
                }),
                message: format!("this is not JSON: {said}"),
                hint: None,
            });
        }
        Tree::yaml(text).or_else(|unreadable| match serde_json::from_str::<Value>(text) {
            // Corners in which JSON is no YAML (a key of more than a thousand characters, say): without places then.
            Ok(value) if value_depth(&value) <= MAX_DEPTH && !unreadable.message.contains("twice") => {
                Ok(Tree::from(&value))
            }
            _ => Err(unreadable),
        })
    }

    /// The value under `name` in a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&Tree> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value without its places.
    pub(super) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Tree::to_value).collect()),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.name.clone(), value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// What it is, in words: `the text "x"`, `a list`.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_string(),
            Kind::Bool(truth) => format!("`{truth}`"),
            Kind::Number(number) => format!("the number {number}"),
            Kind::Text(text) => format!("the text {}", quoted(text)),
            Kind::List(_) => "a list".to_string(),
            Kind::Map(_) => "a mapping".to_string(),
        }
    }
}

/// A text in quotes, shortened: messages quote what files say, and a file may say a megabyte.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Tree {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(truth) => Kind::Bool(*truth),
            Value::Number(number) => Kind::Number(number.clone()),
            Value::String(text) => Kind::Text(text.clone()),
            Value::Array(items) => Kind::List(items.iter().map(Tree::from).collect()),
            Value::Object(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|(name, value)| {
                        (Key { place: Place::default(), name: name.clone() }, Tree::from(value))
                    })
                    .collect(),
            ),
        };
        Tree { place: Place::default(), kind }
    }
}

impl From<Spanned<Kind>> for Tree {
    fn from(spanned: Spanned<Kind>) -> Tree {
        Tree { place: Place::of(spanned.referenced), kind: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        Kind::deserialize(deserializer)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Kind, E> {
        Ok(Kind::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Kind, E> {
        Ok(Kind::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Kind, E> {
        // Infinite ones and those that are none are refused by the reader's options.
        Ok(Number::from_f64(number).map_or(Kind::Null, Kind::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Kind, E> {
        Ok(Kind::Text(text.to_string()))
    }

    fn visit_string<E>(self, text: String) -> Result<Kind, E> {
        Ok(Kind::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Kind>>()? {
            list.push(item.into());
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Kind, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Kind>>()? {
            map.push((Key { place: Place::of(key.referenced), name: key.value }, value.into()));
        }
        Ok(Kind::Map(map))
    }
}

fn check_size(text: &str) -> Result<(), Unreadable> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(Unreadable {
        position: None,
        message: format!(
            "the file has more than {MAX_BYTES} bytes, which are read at most: give data to a graph as its input"
        ),
        hint: None,
    })
}

fn value_depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(value_depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(value_depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn unreadable(error: &Error, text: &str) -> Unreadable {
    let location = error.location().map(Place::of);
    let mut hint = None;
    let mut error = error.without_snippet();
    while let Error::AliasError { error: inner, .. } = error {
        error = inner.without_snippet();
    }
    let message = match error {
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("{} is given twice in this mapping: keep one", quoted(key)),
            None => "a key is given twice in this mapping: keep one".to_string(),
        },
        Error::MultipleDocuments { .. } => {
            "a second document begins here: a file holds one graph".to_string()
        }
        Error::UnknownAnchor { .. } => "there is no anchor of this name before it".to_string(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "this anchor contains itself".to_string(),
        Error::NonFiniteFloat { value, .. } => format!("{value} is not a number a graph can hold"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "the file is too deep or too large here: at most {MAX_DEPTH} levels and {MAX_NODES} values are read"
        ),
        Error::Unexpected { .. } | Error::NullIntoString { .. } => {
            hint = braces_hint(text, location);
            "a key must be a text".to_string()
        }
        other => {
            let said = other.to_string();
            let said = said.split(" at line ").next().unwrap_or(&said);
            if said.contains("recursion limit") {
                format!("the file is too deep here: at most {MAX_DEPTH} levels are read")
            } else {
                hint = braces_hint(text, location);
                format!("this is not YAML: {said}")
            }
        }
    };
    Unreadable { position: location.and_then(Place::position), message, hint }
}

/// `input: {{ x }}` without quotes is a mapping with a mapping as its key: the commonest slip of all.
fn braces_hint(text: &str, location: Option<Place>) -> Option<&'static str> {
    let line = text.lines().nth(location?.line.checked_sub(1)? as usize)?;
    (line.contains("{{") || line.contains("{%")).then_some("put a text with {{ … }} in quotes")
}
