//! Converts results of steps to template values, limited to the parts that a template uses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minijinja::Value as TemplateValue;
use minijinja::value::{Enumerator, Object};
use serde_json::Value;

/// The parts of a value that are needed.
#[derive(Debug, Clone, Default)]
pub(super) enum Need {
    /// None.
    #[default]
    Nothing,
    /// Some fields.
    Fields(BTreeMap<String, Need>),
    /// The whole value.
    Whole,
}

impl Need {
    /// Returns what the variables with these paths need, by name.
    pub(super) fn from_paths<'a>(paths: impl IntoIterator<Item = &'a [String]>) -> Need {
        let mut need = Need::Fields(BTreeMap::new());
        paths.into_iter().for_each(|path| need.add(path));
        need
    }

    fn add(&mut self, path: &[String]) {
        let Some((name, rest)) = path.split_first() else {
            *self = Need::Whole;
            return;
        };
        if matches!(self, Need::Nothing) {
            *self = Need::Fields(BTreeMap::new());
        }
        if let Need::Fields(fields) = self {
            fields.entry(name.clone()).or_default().add(rest);
        }
    }
}

/// Converts the needed part of a value.
pub(super) fn part(value: &Value, need: &Need) -> TemplateValue {
    match (value, need) {
        (Value::Object(entries), Need::Fields(fields)) => TemplateValue::from_pairs(
            fields.iter().filter_map(|(name, need)| Some((name.as_str(), part(entries.get(name)?, need)))),
        ),
        _ => whole(value),
    }
}

/// Converts a whole value.
pub(super) fn whole(value: &Value) -> TemplateValue {
    match value {
        Value::Null => TemplateValue::from(()),
        Value::Bool(truth) => TemplateValue::from(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => TemplateValue::from(number),
            (None, Some(number)) => TemplateValue::from(number),
            (None, None) => TemplateValue::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => TemplateValue::from(text.as_str()),
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Object(entries) => {
            let fields = entries.iter().map(|(name, value)| (name.as_str(), whole(value)));
            match response_text(value) {
                Some(text) => TemplateValue::from_object(Response {
                    text: text.into(),
                    fields: fields.map(|(name, value)| (Arc::from(name), value)).collect(),
                }),
                None => TemplateValue::from_pairs(fields),
            }
        }
    }
}

/// Returns the text of a response of a terminal or bash node.
pub(super) fn response_text(value: &Value) -> Option<&str> {
    let entries = value.as_object()?;
    let text = entries.get("text")?.as_str()?;
    (entries.contains_key("raw") && entries.contains_key("sections")).then_some(text)
}

/// A response: a mapping that prints as its text.
pub(super) struct Response {
    text: Arc<str>,
    fields: BTreeMap<Arc<str>, TemplateValue>,
}

impl Response {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Object for Response {
    fn get_value(self: &Arc<Self>, key: &TemplateValue) -> Option<TemplateValue> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<TemplateValue> {
        self.fields.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields.keys().map(|name| TemplateValue::from(Arc::clone(name))).collect())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
