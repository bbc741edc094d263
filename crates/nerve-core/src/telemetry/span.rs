//! Spans with their attributes, events and status.

use std::borrow::Cow;

use nerve_types::TsNs;

use super::context::TraceContext;
use super::ids::SpanId;

/// Maximum number of attributes of a span or event (OpenTelemetry's limit). Further ones are dropped and counted.
const MAX_ATTRIBUTES: usize = 128;
/// Maximum number of events of a span.
const MAX_EVENTS: usize = 128;
/// Maximum length of a text in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;
/// Maximum length of prompts and answers in bytes.
const MAX_CONTENT: usize = 64 << 10;

/// A recorded operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Trace id and span id.
    pub context: TraceContext,
    /// Parent span.
    pub parent: Option<SpanId>,
    /// True if the parent belongs to another process.
    pub parent_is_remote: bool,
    /// Name of the kind of operation; low cardinality.
    pub name: Cow<'static, str>,
    /// Role in a remote call.
    pub kind: SpanKind,
    /// Start time.
    pub start: TsNs,
    /// End time.
    pub end: TsNs,
    /// Attributes of the operation.
    pub attributes: Attributes,
    /// Events during the operation, in chronological order.
    pub events: Vec<SpanEvent>,
    /// Number of dropped events.
    pub dropped_events: u32,
    /// Outcome of the operation.
    pub status: Status,
}

/// Role of a span in a remote call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A local operation.
    Internal,
    /// The caller's side.
    Client,
    /// The callee's side.
    Server,
}

/// Outcome of a span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Status {
    /// No error.
    #[default]
    Unset,
    /// An error, with its message.
    Error(String),
}

/// An event during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Time of the event.
    pub at: TsNs,
    /// Attributes of the event.
    pub attributes: Attributes,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(Cow<'static, str>),
    /// A list of strings.
    Texts(Vec<String>),
}

/// Named attributes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes {
    known: Vec<(&'static str, Attribute)>,
    dropped: u32,
}

impl Attributes {
    /// Sets an attribute, replacing a previous value.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        self.put(name, value.into().truncate(MAX_TEXT));
    }

    /// Sets an attribute if there is a value.
    pub fn set_some(&mut self, name: &'static str, value: Option<impl Into<Attribute>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets a prompt or answer, which may be longer than other attributes, wrapped by `form`. The text is truncated before
    /// wrapping, so that the result is well-formed.
    pub fn set_content(&mut self, name: &'static str, message: &str, form: impl Fn(&str) -> String) {
        let mut most = MAX_CONTENT;
        loop {
            let message = prefix(message, most);
            let content = form(message);
            if content.len() <= MAX_CONTENT || message.is_empty() {
                return self.put(name, content.into());
            }
            // Wrapping and escaping need a share of the space.
            most = (message.len() * MAX_CONTENT / content.len()).min(message.len() - 1);
        }
    }

    fn put(&mut self, name: &'static str, value: Attribute) {
        if let Some((_, old)) = self.known.iter_mut().find(|(known, _)| *known == name) {
            *old = value;
        } else if self.known.len() < MAX_ATTRIBUTES {
            self.known.push((name, value));
        } else {
            self.dropped += 1;
        }
    }

    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns all attributes in the order they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Attribute)> {
        self.known.iter().map(|(name, value)| (*name, value))
    }

    /// Returns the number of dropped attributes.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl Span {
    /// Adds an event.
    pub(super) fn add_event(&mut self, name: &'static str, at: TsNs, attributes: Attributes) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(SpanEvent { name, at, attributes });
        } else {
            self.dropped_events += 1;
        }
    }

    /// Sets the status to an error. `kind`: low-cardinality class of the error; `why`: message for people.
    pub fn fail(&mut self, kind: impl Into<Cow<'static, str>>, why: impl Into<String>) {
        self.attributes.set("error.type", Attribute::Text(kind.into()));
        let mut why = why.into();
        truncate(&mut why, MAX_TEXT);
        self.status = Status::Error(why);
    }
}

impl Attribute {
    fn truncate(mut self, most: usize) -> Attribute {
        match &mut self {
            Attribute::Text(Cow::Owned(text)) => truncate(text, most),
            Attribute::Texts(texts) => {
                texts.truncate(MAX_ATTRIBUTES);
                texts.iter_mut().for_each(|text| truncate(text, most));
            }
            _ => {}
        }
        self
    }
}

fn truncate(text: &mut String, most: usize) {
    text.truncate(prefix(text, most).len());
}

/// Returns the longest prefix of at most `most` bytes.
fn prefix(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    // A character has at most four bytes, so a boundary is near.
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Attribute {
        Attribute::Bool(value)
    }
}

impl From<f64> for Attribute {
    fn from(value: f64) -> Attribute {
        Attribute::Float(value)
    }
}

impl From<u64> for Attribute {
    fn from(value: u64) -> Attribute {
        Attribute::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Attribute {
    fn from(value: u32) -> Attribute {
        Attribute::Int(i64::from(value))
    }
}

impl From<i64> for Attribute {
    fn from(value: i64) -> Attribute {
        Attribute::Int(value)
    }
}

impl From<&'static str> for Attribute {
    fn from(value: &'static str) -> Attribute {
        Attribute::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Attribute {
    fn from(value: String) -> Attribute {
        Attribute::Text(Cow::Owned(value))
    }
}

impl From<Vec<String>> for Attribute {
    fn from(value: Vec<String>) -> Attribute {
        Attribute::Texts(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_content_is_well_formed() {
        for message in
            ["é".repeat(MAX_CONTENT), "\u{1b}".repeat(MAX_CONTENT), "x".repeat(MAX_CONTENT), "hi".into()]
        {
            let mut attributes = Attributes::default();
            attributes.set_content("c", &message, |message| {
                serde_json::json!([{ "content": message }]).to_string()
            });
            let Some(Attribute::Text(text)) = attributes.get("c") else { panic!() };
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let kept = value[0]["content"].as_str().unwrap();
            assert!(message.starts_with(kept) && text.len() <= MAX_CONTENT);
            assert!(kept == message || text.len() > MAX_CONTENT - 100, "{}", text.len());
        }
    }

    #[test]
    fn attributes_are_unique_and_bounded() {
        let mut attributes = Attributes::default();
        attributes.set("a", 1u64);
        attributes.set("a", "two");
        attributes.set_some("b", None::<String>);
        attributes.set("long", "é".repeat(MAX_TEXT));
        assert_eq!(attributes.get("a"), Some(&Attribute::Text("two".into())));
        assert_eq!(attributes.get("b"), None);
        let Some(Attribute::Text(long)) = attributes.get("long") else { panic!() };
        assert_eq!(long.len(), MAX_TEXT);
        let names: Vec<&'static str> =
            (0..200).map(|name| &*Box::leak(format!("n{name}").into_boxed_str())).collect();
        for name in names {
            attributes.set(name, true);
        }
        assert_eq!(
            (attributes.iter().count(), attributes.dropped()),
            (MAX_ATTRIBUTES, 2 + 200 - MAX_ATTRIBUTES as u32)
        );
    }
}
