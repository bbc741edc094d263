//! A parsed file as a tree of values with their positions in the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Spanned};

use super::problem::Position;

/// Maximum nesting depth. Decoding recurses as deep as the file.
const MAX_DEPTH: usize = 32;
/// Maximum file size, in bytes.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Maximum number of values in a file, with aliases expanded.
const MAX_NODES: usize = 1_000_000;

/// A value and its position.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) span: Span,
    pub(super) kind: Kind,
}

/// Span of a value in the text; all zero without a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    line: u32,
    column: u32,
    /// Byte offset in the text.
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

/// A key of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) span: Span,
    pub(super) name: String,
}

/// A text that is not valid YAML or JSON.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) position: Option<Position>,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl Span {
    pub(super) fn position(self) -> Option<Position> {
        (self.line > 0).then_some(Position { line: self.line, column: self.column })
    }

    /// Returns the source text of the value and its offset, if known.
    pub(super) fn slice(self, text: &str) -> Option<(usize, &str)> {
        let start = self.start as usize;
        (self.bytes > 0).then_some(())?;
        Some((start, text.get(start..start.checked_add(self.bytes as usize)?)?))
    }

    fn from_location(location: Location) -> Span {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Span {
            line: number(location.line()),
            column: number(location.column()),
            start: location.span().byte_offset().map_or(0, number),
            bytes: location.span().byte_len().map_or(0, number),
        }
    }
}

impl Tree {
    /// Parses YAML. `yes`, `no`, and numbers with leading zeros or underscores are texts.
    pub(super) fn yaml(text: &str) -> Result<Tree, SyntaxError> {
        check_size(text)?;
        parse_yaml(text).map_err(|error| syntax_error(&error, text))
    }

    /// Parses JSON. Valid JSON is parsed as YAML, which preserves positions.
    pub(super) fn json(text: &str) -> Result<Tree, SyntaxError> {
        check_size(text)?;
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or(&message);
            return Err(SyntaxError {
                position: Some(Position {
                    line: number(error.line()).max(1),
                    column: number(error.column()).max(1),
                }),
                message: format!("invalid JSON: {message}"),
                hint: None,
            });
        }
        parse_yaml(text).or_else(|error| {
            let has_duplicate_key = matches!(cause(&error), Error::DuplicateMappingKey { .. });
            match serde_json::from_str::<Value>(text) {
                // JSON that is not valid YAML, for example with keys of over a thousand characters: parsed without positions.
                Ok(value) if value_depth(&value) <= MAX_DEPTH && !has_duplicate_key => Ok(Tree::from(&value)),
                _ => Err(syntax_error(&error, text)),
            }
        })
    }

    /// Returns the value of a key in a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&Tree> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the value without positions.
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

    /// Describes the value for messages: `the text "x"`, `a list`.
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

/// Quotes a text and truncates it: values in files can be huge.
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
                        (Key { span: Span::default(), name: name.clone() }, Tree::from(value))
                    })
                    .collect(),
            ),
        };
        Tree { span: Span::default(), kind }
    }
}

impl From<Spanned<Kind>> for Tree {
    fn from(spanned: Spanned<Kind>) -> Tree {
        Tree { span: Span::from_location(spanned.referenced), kind: spanned.value }
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
        // Non-finite numbers are rejected by the parser options.
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
            map.push((Key { span: Span::from_location(key.referenced), name: key.value }, value.into()));
        }
        Ok(Kind::Map(map))
    }
}

/// Parses YAML within the limits.
fn parse_yaml(text: &str) -> Result<Tree, Error> {
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
    serde_saphyr::from_str_with_options::<Spanned<Kind>>(text, options).map(Tree::from)
}

fn check_size(text: &str) -> Result<(), SyntaxError> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(SyntaxError {
        position: None,
        message: format!("the file exceeds {MAX_BYTES} bytes: pass large data as the graph's input"),
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

/// Returns the error itself, without the aliases that lead to it.
fn cause(error: &Error) -> &Error {
    let mut error = error.without_snippet();
    while let Error::AliasError { error: inner, .. } = error {
        error = inner.without_snippet();
    }
    error
}

fn syntax_error(error: &Error, text: &str) -> SyntaxError {
    let location = error.location().map(Span::from_location);
    let mut hint = None;
    let message = match cause(error) {
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("duplicate key {} in this mapping: keep one", quoted(key)),
            None => "duplicate key in this mapping: keep one".to_string(),
        },
        Error::MultipleDocuments { .. } => {
            "a second document begins here: a file holds one graph".to_string()
        }
        Error::UnknownAnchor { .. } => "unknown anchor".to_string(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "this anchor contains itself".to_string(),
        Error::NonFiniteFloat { value, .. } => format!("{value} is not a finite number"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "the file is too deep or too large here: the limits are {MAX_DEPTH} levels and {MAX_NODES} values"
        ),
        Error::Unexpected { .. } | Error::NullIntoString { .. } => {
            hint = braces_hint(text, location);
            "a key must be a text".to_string()
        }
        other => {
            let message = other.to_string();
            let message = message.split(" at line ").next().unwrap_or(&message);
            if message.contains("recursion limit") {
                format!("the file is too deep here: the limit is {MAX_DEPTH} levels")
            } else {
                hint = braces_hint(text, location);
                format!("invalid YAML: {message}")
            }
        }
    };
    SyntaxError { position: location.and_then(Span::position), message, hint }
}

/// Returns a hint for the most common mistake: `input: {{ x }}` without quotes is a mapping with a mapping as its key.
fn braces_hint(text: &str, location: Option<Span>) -> Option<&'static str> {
    let line = text.lines().nth(location?.line.checked_sub(1)? as usize)?;
    (line.contains("{{") || line.contains("{%")).then_some("put texts with {{ … }} in quotes")
}
