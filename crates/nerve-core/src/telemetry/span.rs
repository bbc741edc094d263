//! What is told of a span that has ended.

use std::borrow::Cow;

use nerve_term::event::TsNs;

use super::context::TraceContext;
use super::ids::SpanId;

/// Attributes of a span, and of one of its events (OpenTelemetry's own limit). More are left out, and counted.
const MAX_ATTRIBUTES: usize = 128;
/// Events of a span.
const MAX_EVENTS: usize = 128;
/// Bytes of a text in a span; longer ones are cut.
const MAX_TEXT: usize = 4096;
/// Bytes of a text that is what somebody said.
const MAX_CONTENT: usize = 64 << 10;

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace and its own id.
    pub context: TraceContext,
    /// What it happened in.
    pub parent: Option<SpanId>,
    /// The parent is of another process.
    pub parent_is_remote: bool,
    /// What kind of operation, with its name: few different ones.
    pub name: Cow<'static, str>,
    /// On which side of a call it is.
    pub kind: SpanKind,
    /// When it began.
    pub start: TsNs,
    /// When it ended.
    pub end: TsNs,
    /// What is known of it.
    pub attributes: Attributes,
    /// What happened in it, in the order of time.
    pub events: Vec<SpanEvent>,
    /// Events that were left out.
    pub dropped_events: u32,
    /// How it ended.
    pub status: Status,
}

/// On which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// On neither: it is an operation in itself.
    Internal,
    /// It asks somebody else.
    Client,
    /// It answers somebody else.
    Server,
}

/// How a span ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Status {
    /// Nothing is known against it.
    #[default]
    Unset,
    /// It failed; this is why.
    Error(String),
}

/// Something that happened in a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// What.
    pub name: &'static str,
    /// When.
    pub at: TsNs,
    /// What is known of it.
    pub attributes: Attributes,
}

/// A fact.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(Cow<'static, str>),
    /// Texts.
    Texts(Vec<String>),
}

/// Facts by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes {
    known: Vec<(&'static str, Attribute)>,
    dropped: u32,
}

impl Attributes {
    /// Says something; what was said before under that name is forgotten.
    pub fn set(&mut self, name: &'static str, fact: impl Into<Attribute>) {
        self.put(name, fact.into().cut(MAX_TEXT));
    }

    /// The same, if there is something to say.
    pub fn set_some(&mut self, name: &'static str, fact: Option<impl Into<Attribute>>) {
        if let Some(fact) = fact {
            self.set(name, fact);
        }
    }

    /// Says what somebody said, put into a form: it can be longer than other facts. What is too long is cut before it is put there, so
    /// that the form stays whole.
    pub fn set_content(&mut self, name: &'static str, said: &str, form: impl Fn(&str) -> String) {
        let mut most = MAX_CONTENT;
        loop {
            let said = start_of(said, most);
            let content = form(said);
            if content.len() <= MAX_CONTENT || said.is_empty() {
                return self.put(name, content.into());
            }
            // The form's own words, and what it writes in longer ones, take their part of the room.
            most = (said.len() * MAX_CONTENT / content.len()).min(said.len() - 1);
        }
    }

    fn put(&mut self, name: &'static str, fact: Attribute) {
        if let Some((_, said)) = self.known.iter_mut().find(|(known, _)| *known == name) {
            *said = fact;
        } else if self.known.len() < MAX_ATTRIBUTES {
            self.known.push((name, fact));
        } else {
            self.dropped += 1;
        }
    }

    /// What was said under a name.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact)
    }

    /// All of them, in the order in which they were said.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Attribute)> {
        self.known.iter().map(|(name, fact)| (*name, fact))
    }

    /// How many were left out.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl Span {
    /// Says that something happened.
    pub(super) fn happened(&mut self, name: &'static str, at: TsNs, attributes: Attributes) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(SpanEvent { name, at, attributes });
        } else {
            self.dropped_events += 1;
        }
    }

    /// Says that it failed. `kind` is one of few, `why` for people.
    pub fn fail(&mut self, kind: impl Into<Cow<'static, str>>, why: impl Into<String>) {
        self.attributes.set("error.type", Attribute::Text(kind.into()));
        let mut why = why.into();
        cut(&mut why, MAX_TEXT);
        self.status = Status::Error(why);
    }
}

impl Attribute {
    fn cut(mut self, most: usize) -> Attribute {
        match &mut self {
            Attribute::Text(Cow::Owned(text)) => cut(text, most),
            Attribute::Texts(texts) => {
                texts.truncate(MAX_ATTRIBUTES);
                texts.iter_mut().for_each(|text| cut(text, most));
            }
            _ => {}
        }
        self
    }
}

fn cut(text: &mut String, most: usize) {
    text.truncate(start_of(text, most).len());
}

/// As much of it as has that many bytes.
fn start_of(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    // A character has four bytes at most, so there is a boundary near.
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

impl From<bool> for Attribute {
    fn from(fact: bool) -> Attribute {
        Attribute::Bool(fact)
    }
}

impl From<f64> for Attribute {
    fn from(fact: f64) -> Attribute {
        Attribute::Float(fact)
    }
}

impl From<u64> for Attribute {
    fn from(fact: u64) -> Attribute {
        Attribute::Int(i64::try_from(fact).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Attribute {
    fn from(fact: u32) -> Attribute {
        Attribute::Int(i64::from(fact))
    }
}

impl From<i64> for Attribute {
    fn from(fact: i64) -> Attribute {
        Attribute::Int(fact)
    }
}

impl From<&'static str> for Attribute {
    fn from(fact: &'static str) -> Attribute {
        Attribute::Text(Cow::Borrowed(fact))
    }
}

impl From<String> for Attribute {
    fn from(fact: String) -> Attribute {
        Attribute::Text(Cow::Owned(fact))
    }
}

impl From<Vec<String>> for Attribute {
    fn from(fact: Vec<String>) -> Attribute {
        Attribute::Texts(fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_of_a_long_answer_leaves_its_form_whole() {
        for said in
            ["é".repeat(MAX_CONTENT), "\u{1b}".repeat(MAX_CONTENT), "x".repeat(MAX_CONTENT), "hi".into()]
        {
            let mut facts = Attributes::default();
            facts.set_content("c", &said, |said| serde_json::json!([{ "content": said }]).to_string());
            let Some(Attribute::Text(text)) = facts.get("c") else { panic!() };
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let kept = value[0]["content"].as_str().unwrap();
            assert!(said.starts_with(kept) && text.len() <= MAX_CONTENT);
            assert!(kept == said || text.len() > MAX_CONTENT - 100, "{}", text.len());
        }
    }

    #[test]
    fn facts_are_said_once_and_bounded() {
        let mut facts = Attributes::default();
        facts.set("a", 1u64);
        facts.set("a", "two");
        facts.set_some("b", None::<String>);
        facts.set("long", "é".repeat(MAX_TEXT));
        assert_eq!(facts.get("a"), Some(&Attribute::Text("two".into())));
        assert_eq!(facts.get("b"), None);
        let Some(Attribute::Text(long)) = facts.get("long") else { panic!() };
        assert_eq!(long.len(), MAX_TEXT);
        let names: Vec<&'static str> =
            (0..200).map(|name| &*Box::leak(format!("n{name}").into_boxed_str())).collect();
        for name in names {
            facts.set(name, true);
        }
        assert_eq!(
            (facts.iter().count(), facts.dropped()),
            (MAX_ATTRIBUTES, 2 + 200 - MAX_ATTRIBUTES as u32)
        );
    }
}
