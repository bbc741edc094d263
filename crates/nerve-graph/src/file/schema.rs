//! The JSON Schema of graph files, for editors.

use serde_json::{Value, json};

use super::types::GraphFile;

/// Returns the JSON Schema (2020-12) of graph files, generated from their types. It contains the canonical names of fields with
/// aliases.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(GraphFile).to_value();
    unwrap_lines(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_string(), json!("nerve graph file"));
    }
    schema
}

/// Removes line breaks from descriptions.
fn unwrap_lines(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(unwrap_lines),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => *text = text.replace('\n', " "),
                    other => unwrap_lines(other),
                }
            }
        }
        _ => {}
    }
}
