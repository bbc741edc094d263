//! The style of the JSON that nerve prints and sends: rules for the properties of objects, and their check in a document.

use std::collections::BTreeSet;

use serde_json::Value;

/// Names of ids without `_id`, and of times without `_at`.
const OTHER_NAMES: &[&str] = &[
    "channel_id",
    "deadline",
    "graph",
    "id",
    "node",
    "pane",
    "recording",
    "run",
    "seconds",
    "server",
    "session",
    "snapshot",
    "time",
    "timestamp",
    "ts",
];
/// Form of a time: RFC 3339 in UTC with milliseconds. A zero stands for any digit.
const TIME: &str = "0000-00-00T00:00:00.000Z";

/// Returns true if a property violates the style. `types`: the JSON types of its value, without `null`.
pub fn violates_style(name: &str, types: &[&str]) -> bool {
    let is_scalar = types.iter().any(|json_type| ["string", "integer", "number"].contains(json_type));
    match name {
        _ if name.ends_with("_ns") => true,
        _ if name.ends_with("_at") => types.iter().any(|json_type| *json_type != "string"),
        _ if name.ends_with("_ms") => types.iter().any(|json_type| *json_type != "integer"),
        _ => is_scalar && OTHER_NAMES.contains(&name),
    }
}

/// Returns the paths of the properties of a document that violate the style, such as `nodes[].id`.
pub fn style_violations(document: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    if !document.is_object() {
        paths.insert("(not an object)".to_string());
    }
    visit("", document, &mut paths);
    paths
}

fn visit(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
    if let Value::Array(items) = value {
        return items.iter().for_each(|item| visit(&format!("{path}[]"), item, paths));
    }
    for (name, property) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let has_wrong_value = match property {
            Value::String(text) if name.ends_with("_at") => !is_time(text),
            Value::String(_) if name == "error" => !value["error_type"].is_string(),
            _ => false,
        };
        if has_wrong_value || violates_style(name, &type_of(property)) {
            paths.insert(path.clone());
        }
        visit(&path, property, paths);
    }
}

fn type_of(value: &Value) -> Vec<&'static str> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(_) => vec!["boolean"],
        Value::Number(number) if number.is_f64() => vec!["number"],
        Value::Number(_) => vec!["integer"],
        Value::String(_) => vec!["string"],
        Value::Array(_) => vec!["array"],
        Value::Object(_) => vec!["object"],
    }
}

fn is_time(text: &str) -> bool {
    let matches = |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    text.len() == TIME.len() && text.bytes().zip(TIME.bytes()).all(matches)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn violations_are_found_at_any_depth() {
        let document = json!({
            "node_id": "a", "taken_at": "2026-01-02T03:04:05.678Z", "ended_at": null, "wait_ms": 5, "node": { "id": 1 },
            "runs": [
                { "at_ns": 1, "started_at": "2026-01-02T03:04:05Z", "took_ms": 0.5, "session": "x" },
                { "error": "no" },
                { "error": "no", "error_type": "timeout" },
            ],
        });
        let paths = [
            "node.id",
            "runs[].at_ns",
            "runs[].error",
            "runs[].session",
            "runs[].started_at",
            "runs[].took_ms",
        ];
        assert_eq!(style_violations(&document), BTreeSet::from(paths.map(str::to_string)));
        assert_eq!(style_violations(&json!([])).len(), 1);
    }
}
