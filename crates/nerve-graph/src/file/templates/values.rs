//! Converts results of steps to template values, limited to the parts that a template uses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minijinja::Value as TemplateValue;
use minijinja::value::{Enumerator, Object};
use serde_json::{Map, Value};

/// The name of a response's text in the first version of graph files.
const OUTPUT: &str = "output";
/// The text of a response on the terminal, if it differs.
const RAW: &str = "raw";

/// The parts of a value that a template uses.
#[derive(Debug, Clone, Default)]
pub(super) enum Projection {
    /// No part.
    #[default]
    Nothing,
    /// Some fields, each with its own parts.
    Fields(BTreeMap<String, Projection>),
    /// The whole value.
    Whole,
}

impl Projection {
    /// Returns the parts of the variables with these paths, by name.
    pub(super) fn from_paths<'a>(paths: impl IntoIterator<Item = &'a [String]>) -> Projection {
        let mut projection = Projection::Fields(BTreeMap::new());
        paths.into_iter().for_each(|path| projection.add(path));
        projection
    }

    fn add(&mut self, path: &[String]) {
        let Some((name, rest)) = path.split_first() else {
            *self = Projection::Whole;
            return;
        };
        if matches!(self, Projection::Nothing) {
            *self = Projection::Fields(BTreeMap::new());
        }
        if let Projection::Fields(fields) = self {
            fields.entry(name.clone()).or_default().add(rest);
        }
    }
}

/// Converts the projected parts of a value.
pub(super) fn project(value: &Value, projection: &Projection) -> TemplateValue {
    match (value, projection) {
        (Value::Object(entries), Projection::Fields(fields)) => TemplateValue::from_pairs(
            fields
                .iter()
                .filter_map(|(name, parts)| Some((name.as_str(), project(field(entries, name)?, parts)))),
        ),
        _ => whole(value),
    }
}

/// Returns a field of an object. `output` of a response is its text, as in the first version of graph files; so is an absent `raw`.
fn field<'a>(entries: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let is_text = || is_text_name(name) && is_response(entries);
    entries.get(name).or_else(|| entries.get("text").filter(|_| is_text()))
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
    is_response(entries).then_some(text)
}

fn is_response(entries: &Map<String, Value>) -> bool {
    entries.contains_key("sections") && (entries.contains_key("is_complete") || entries.contains_key(RAW))
}

/// Returns true for the fields of a response that are its text if they are absent.
fn is_text_name(name: &str) -> bool {
    name == OUTPUT || name == RAW
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
        let text = || is_text_name(key).then(|| TemplateValue::from(Arc::clone(&self.text)));
        self.fields.get(key).cloned().or_else(text)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields.keys().map(|name| TemplateValue::from(Arc::clone(name))).collect())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_of_response_is_its_text() {
        let response = json!({ "raw": "$ hi", "text": "hi", "sections": [] });
        let own = json!({ "raw": "$ hi", "text": "hi", "sections": [], "output": "mine" });
        let same = json!({ "text": "hi", "sections": [], "is_complete": true });
        assert_eq!(whole(&same).get_attr(RAW).unwrap().as_str(), Some("hi"));
        let path = [OUTPUT.to_string()];
        for (value, expected) in [(response, "hi"), (own, "mine")] {
            let part = project(&value, &Projection::from_paths([&path[..]]));
            for found in [part, whole(&value)] {
                assert_eq!(found.get_attr(OUTPUT).unwrap().as_str(), Some(expected));
            }
        }
    }
}
