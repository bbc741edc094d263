//! The style of all replies and events, checked in the OpenAPI document.

use std::collections::BTreeSet;

use nerve_testkit::json_style::violates_style;
use serde_json::Value;

/// Properties that violate the style, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Activity.ts", "the same name as in the recordings' event files"),
    ("AgentMessage.id", "the format of agentapi"),
    ("AgentMessage.time", "the format of agentapi"),
    ("ChatCompletion.id", "the format of OpenAI's API"),
    ("ChatCompletionChunk.id", "the format of OpenAI's API"),
    ("ChatModel.id", "the format of OpenAI's API"),
    ("EventMessage.channel_id", "only in events under an older name"),
    ("EventMessage.timestamp", "only in events under an older name"),
];

/// Collects the violations of the style.
struct StyleCheck<'a> {
    document: &'a Value,
    visited: BTreeSet<&'a str>,
    found: BTreeSet<String>,
}

impl<'a> StyleCheck<'a> {
    /// Returns the name and the schema that a reference names.
    fn resolve(&self, schema: &'a Value) -> Option<(&'a str, &'a Value)> {
        let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
        Some((name, &self.document["components"]["schemas"][name]))
    }

    /// Returns the JSON types that a schema allows, without null.
    fn types(&self, schema: &'a Value) -> Vec<&'a str> {
        if let Some((_, resolved)) = self.resolve(schema) {
            return self.types(resolved);
        }
        let own = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        };
        let choices = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array());
        let choices = choices.flatten().flat_map(|choice| self.types(choice));
        own.into_iter().chain(choices).filter(|one| *one != "null").collect()
    }

    /// Checks a schema and all schemas in it. `owner` is the name of the schema that contains it.
    fn visit(&mut self, owner: &str, schema: &'a Value) {
        if let Some((name, resolved)) = self.resolve(schema) {
            if self.visited.insert(name) {
                self.visit(name, resolved);
            }
            return;
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.check(owner, name, property);
            self.visit(owner, property);
        }
        for key in ["items", "additionalProperties"] {
            self.visit_object(owner, &schema[key]);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            schema[key].as_array().into_iter().flatten().for_each(|choice| self.visit(owner, choice));
        }
    }

    fn visit_object(&mut self, owner: &str, schema: &'a Value) {
        if schema.is_object() {
            self.visit(owner, schema);
        }
    }

    fn check(&mut self, owner: &str, name: &str, property: &'a Value) {
        if violates_style(name, &self.types(property)) {
            self.found.insert(format!("{owner}.{name}"));
        }
    }
}

#[test]
fn replies_and_events_have_one_style() {
    let document: Value = serde_json::from_str(&nerve_server::openapi()).unwrap();
    let mut check = StyleCheck { document: &document, visited: BTreeSet::new(), found: BTreeSet::new() };
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    for (method, operation) in operations {
        let responses = operation["responses"].as_object().into_iter().flatten();
        for (status, response) in responses {
            for content in response["content"].as_object().into_iter().flat_map(|all| all.values()) {
                let place = format!("{method} {status} {}", operation["summary"]);
                assert!(!check.types(&content["schema"]).contains(&"array"), "{place}: a list at the top");
                check.visit(&place, &content["schema"]);
            }
        }
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = check.resolve(body).map_or(body, |(_, resolved)| resolved);
        assert!(body["properties"].get("id").is_none(), "{method} {}: an id of what?", operation["summary"]);
    }
    for event in ["Event", "EventMessage"] {
        check.visit(event, &document["components"]["schemas"][event]);
    }
    let known: BTreeSet<String> = EXCEPTIONS.iter().map(|(property, _)| (*property).to_string()).collect();
    let new: Vec<&String> = check.found.difference(&known).collect();
    assert!(new.is_empty(), "not in the style of the JSON (docs/wire.md): {new:?}");
    let gone: Vec<&String> = known.difference(&check.found).collect();
    assert!(gone.is_empty(), "in the style now: remove the exceptions {gone:?}");
}
