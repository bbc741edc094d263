//! The JSON Schema of graph files, for editors.

use serde_json::{Value, json};

use super::types::GraphFile;

/// The schema of a graph file (JSON Schema 2020-12), from the types that read it. It knows the short spelling of fields that have two.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(GraphFile).to_value();
    unwrap_lines(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_string(), json!("nerve graph file"));
    }
    schema
}

/// Docstrings are wrapped for the code; an editor wraps them for itself.
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
