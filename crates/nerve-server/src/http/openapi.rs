//! The table of operations as OpenAPI 3.1.

use nerve_api::reply::{Pong, Stopped};
use nerve_api::request::Shutdown;
use nerve_api::{Event, EventMessage, EventType};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::agentapi::{AgentStatus, MessageAccepted, MessageList, MessageRequest};
use super::openai::{self, ChatCompletion, ChatCompletionChunk, ChatRequest, ErrorBody, Model, ModelList};
use super::operation::{BodyUse, Builtin, Handler, Operation};
use super::operations::OPERATIONS;
use super::query::{Kind, Query};

/// Returns the description of the HTTP interface as formatted JSON. It is the same for all servers of a version.
pub(crate) fn document() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let described = describe_operation(operation, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.to_ascii_lowercase()] = described;
    }
    // Clients in other languages generate the types of PING's reply, which has no route, and of any event from this document.
    generator.subschema_for::<Pong>();
    generator.subschema_for::<EventMessage>();
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".to_string(), problem_schema());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nerve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Drives, records and orchestrates terminal agents. `nerve token show` prints the token.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// Describes an operation: its parameters, body and responses.
fn describe_operation(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation_id(operation),
        "tags": [operation.tag()],
        "summary": operation.summary,
    });
    if operation.open {
        described["security"] = json!([]);
    }
    let mut parameters: Vec<Value> = operation.placeholders().map(path_parameter).collect();
    parameters.extend(operation.query().iter().map(query_parameter));
    if !parameters.is_empty() {
        described["parameters"] = Value::from(parameters);
    }
    let request_body = match &operation.handler {
        Handler::Request(mapped) => (mapped.body != BodyUse::None)
            .then(|| (body_schema(operation, (mapped.params)(generator)), mapped.body == BodyUse::Required)),
        Handler::Builtin(Builtin::RawCommand, _) => Some((
            json!({ "type": "object", "required": ["command_type"], "properties": {
            "type": { "const": "command" }, "command_type": { "type": "string" }, "params": { "type": "object" },
            "request_id": { "type": ["string", "integer", "null"] },
        } }),
            true,
        )),
        Handler::Builtin(Builtin::Shutdown, _) => Some((generator.subschema_for::<Shutdown>().into(), false)),
        Handler::Builtin(Builtin::AgentMessage, _) => {
            Some((generator.subschema_for::<MessageRequest>().into(), true))
        }
        Handler::Builtin(Builtin::ChatCompletion, _) => {
            Some((generator.subschema_for::<ChatRequest>().into(), true))
        }
        Handler::Builtin(..) => None,
    };
    if let Some((schema, required)) = request_body {
        let mut content = json!({ "schema": schema });
        if let Some(example) = operation.example() {
            content["example"] = operation.body_example(example.params);
        }
        described["requestBody"] =
            json!({ "required": required, "content": { "application/json": content } });
    }
    described["responses"] = describe_responses(operation, generator);
    described
}

/// Returns the schema of the parameters that are not in the path.
fn body_schema(operation: &Operation, schema: Schema) -> Value {
    let mut schema = Value::from(schema);
    for name in operation.placeholders() {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.shift_remove(name);
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|field| field != name);
        }
    }
    schema
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn query_parameter(query: &Query) -> Value {
    let schema = match query.kind {
        Kind::Text | Kind::List => json!({ "type": "string" }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Seconds => json!({ "type": "number", "minimum": 0 }),
    };
    json!({ "name": query.name, "in": "query", "description": query.about, "schema": schema })
}

/// The response of an operation that succeeds.
struct Success {
    status: &'static str,
    description: &'static str,
    /// Its content by media type; `null` without one.
    content: Value,
}

impl Success {
    /// Describes a response with status 200.
    fn ok(description: &'static str, content: Value) -> Success {
        Success { status: "200", description, content }
    }

    /// Describes the response of a handler.
    fn of(handler: &Handler, generator: &mut SchemaGenerator) -> Success {
        match handler {
            Handler::Request(mapped) => {
                let schema = Value::from((mapped.reply)(generator));
                let status = if mapped.creates { "201" } else { "200" };
                Success { status, description: "Done", content: json_content(schema) }
            }
            Handler::Builtin(builtin, _) => Success::of_builtin(*builtin, generator),
        }
    }

    fn of_builtin(builtin: Builtin, generator: &mut SchemaGenerator) -> Success {
        match builtin {
            Builtin::Socket | Builtin::Terminal => {
                Success { status: "101", description: "Switches to a WebSocket", content: Value::Null }
            }
            Builtin::Events => Success::ok("Events until the client disconnects", event_content(generator)),
            Builtin::Metrics => Success::ok("The metrics", json!({ "text/plain": {} })),
            Builtin::Page => Success::ok("The page", json!({ "text/html": {} })),
            Builtin::RawCommand => Success::ok(
                "The result message, also for a failed command",
                json_content(json!({ "type": "object" })),
            ),
            Builtin::Shutdown => Success::ok("The server is shutting down", content_of::<Stopped>(generator)),
            Builtin::AgentEvents => {
                Success::ok("Events in the format of agentapi", json!({ "text/event-stream": {} }))
            }
            Builtin::AgentStatus => Success::ok("The status", content_of::<AgentStatus>(generator)),
            Builtin::AgentMessages => Success::ok("The messages", content_of::<MessageList>(generator)),
            Builtin::AgentMessage => Success::ok("Done", content_of::<MessageAccepted>(generator)),
            Builtin::Health | Builtin::Document => {
                Success::ok("Done", json_content(json!({ "type": "object" })))
            }
            Builtin::Models => Success::ok("The models", content_of::<ModelList>(generator)),
            Builtin::Model => Success::ok("The model", content_of::<Model>(generator)),
            Builtin::ChatCompletion => {
                let mut content = content_of::<ChatCompletion>(generator);
                let chunk = generator.subschema_for::<ChatCompletionChunk>();
                content["text/event-stream"] = json!({ "schema": chunk });
                Success::ok("The answer, or its chunks with `stream`", content)
            }
        }
    }
}

fn json_content(schema: Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn content_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json_content(generator.subschema_for::<T>().into())
}

/// Returns the content of a stream of events, with examples.
fn event_content(generator: &mut SchemaGenerator) -> Value {
    let schema = generator.subschema_for::<Event>();
    let examples: Map<String, Value> = EventType::ALL
        .iter()
        .flat_map(|event| event.examples())
        .map(|(name, example)| (name.to_string(), json!({ "value": example })))
        .collect();
    json!({ "text/event-stream": { "schema": schema, "examples": examples } })
}

/// Describes the responses of an operation, by status.
fn describe_responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let Success { status, description, content } = Success::of(&operation.handler, generator);
    let mut success = json!({ "description": description });
    if !content.is_null() {
        success["content"] = content;
    }
    if let Some(example) = operation.example() {
        success["content"]["application/json"]["example"] = example.reply;
    }
    let problem = match openai::is_path(operation.path) {
        true => content_of::<ErrorBody>(generator),
        false => {
            json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } })
        }
    };
    let mut responses = json!({ status: success.clone() });
    if matches!(&operation.handler, Handler::Request(mapped) if mapped.may_be_later) {
        responses["202"] = success;
        responses["202"]["description"] =
            Value::from("The execution has started and continues asynchronously");
    }
    responses["default"] = json!({ "description": "An error", "content": problem });
    responses
}

fn problem_schema() -> Value {
    json!({
        "description": "An error (RFC 9457).",
        "type": "object",
        "required": ["type", "title", "status", "detail", "error_type", "request_id"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "error_type": { "type": "string" },
            "hint": { "description": "Hint on how to solve the problem.", "type": "string" },
            "request_id": { "type": "string" },
            "data": { "description": "Details: screen, choices, delivery or a run.", "type": "object" },
            "warnings": { "type": "array", "items": { "type": "string" } },
        },
    })
}

/// Returns an id such as `post_nodes_node_id_execute`.
fn operation_id(operation: &Operation) -> String {
    let words =
        operation.path.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(operation.method.to_ascii_lowercase().as_str()).chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn references_resolve_and_operation_ids_are_unique() {
        let text = document();
        let document: Value = serde_json::from_str(&text).unwrap();
        let mut ids = HashSet::new();
        for operation in OPERATIONS {
            let described = &document["paths"][operation.path][operation.method.to_ascii_lowercase()];
            assert!(ids.insert(described["operationId"].as_str().unwrap().to_string()), "{described}");
        }
        let mut references = text.split("\"$ref\": \"").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(references.clone().count() > 20);
        assert_eq!(references.find(|to| document.pointer(to.trim_start_matches('#')).is_none()), None);
    }

    #[test]
    fn every_event_has_fields_and_an_example() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let stream = &document["paths"]["/events"]["get"]["responses"]["200"]["content"]["text/event-stream"];
        assert_eq!(stream["schema"]["$ref"], "#/components/schemas/Event");
        let schema = &document["components"]["schemas"]["Event"];
        let events = schema["oneOf"].as_array().unwrap();
        assert_eq!(events.len(), EventType::ALL.len());
        for (event, schema) in EventType::ALL.iter().zip(events) {
            let example = &stream["examples"][event.as_str()]["value"];
            let fields = &schema["properties"];
            assert_eq!(fields["event_type"]["const"], event.as_str());
            if *event == EventType::NodeActivity {
                assert_eq!(fields["data"]["$ref"], "#/components/schemas/Activity");
                continue;
            }
            for name in example["data"].as_object().unwrap().keys() {
                assert!(fields["data"]["properties"][name]["description"].is_string(), "{event}: {name}");
            }
        }
    }

    #[test]
    fn body_omits_path_parameters() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let body = &document["paths"]["/nodes/{node_id}/execute"]["post"]["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        assert_eq!(schema["required"], json!(["text"]), "{schema}");
        assert!(schema["properties"]["node_id"].is_null() && !schema["properties"]["timeout"].is_null());
        let example = &body["content"]["application/json"]["example"];
        assert!(example["node_id"].is_null() && example["text"].is_string(), "{example}");
    }
}
