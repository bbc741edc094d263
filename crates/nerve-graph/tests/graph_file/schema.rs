//! The JSON Schema agrees with the decoder.

use nerve_graph::file::{GraphFile, json_schema};
use serde_json::{Value, json};

/// Validates against the subset of JSON Schema that the schema uses; other keywords are errors, so that nothing stays unchecked.
fn fits(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
    let Some(words) = schema.as_object() else { return Ok(()) };
    for (word, says) in words {
        let ok = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" => true,
            "$ref" => {
                let name = says.as_str().unwrap();
                let target = match name.strip_prefix("#/$defs/") {
                    Some(name) => &root["$defs"][name],
                    None => root,
                };
                assert!(!target.is_null(), "{name}");
                fits(target, root, value)?;
                true
            }
            "type" => match says {
                Value::String(one) => is(one, value),
                many => many.as_array().unwrap().iter().any(|one| is(one.as_str().unwrap(), value)),
            },
            "const" => says == value,
            "enum" => says.as_array().unwrap().contains(value),
            "anyOf" => says.as_array().unwrap().iter().any(|one| fits(one, root, value).is_ok()),
            "oneOf" => {
                says.as_array().unwrap().iter().filter(|one| fits(one, root, value).is_ok()).count() == 1
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= says.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= says.as_f64().unwrap()),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| fits(says, root, item))?;
                true
            }
            "required" => value.as_object().is_none_or(|value| {
                says.as_array().unwrap().iter().all(|name| value.contains_key(name.as_str().unwrap()))
            }),
            "properties" => {
                for (name, item) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = says.get(name) {
                        fits(schema, root, item).map_err(|error| format!("{name}: {error}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties");
                for (name, item) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.get(name).is_some()) {
                        continue;
                    }
                    if says == &Value::Bool(false) {
                        return Err(format!("{name} is not known"));
                    }
                    fits(says, root, item).map_err(|error| format!("{name}: {error}"))?;
                }
                true
            }
            other => panic!("the test does not know {other}"),
        };
        if !ok {
            return Err(format!("{word} {says} does not fit {value}"));
        }
    }
    Ok(())
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}

/// A file with everything the documentation mentions.
fn documented() -> Value {
    json!({
        "graph": "review",
        "description": "text",
        "inputs": {"task": {"description": "", "default": "x"}, "files": {}, "more": null},
        "max_parallel": 2,
        "on_failure": "finish",
        "on_restart": "resume",
        "budget": {"max_tokens": 1, "max_time_ms": 1500, "max_steps": 3, "max_api_calls": 4, "max_cost_usd": 0.5, "at_limit": "ask"},
        "nodes": {
            "coder": {
                "type": "claude", "command": "claude --model x", "cwd": ".", "env": {"A": "b", "PORT": 80}, "profile": "claude",
                "parser": "claude", "cols": 100, "rows": 30, "history": true, "record": true, "ready_timeout": 60,
                "response_timeout": 1800, "keep": false
            },
            "shell": {"type": "pty", "command": ["bash", "-l"]},
            "seen": {"type": "tmux", "command": "bash", "tmux_session": "work", "socket": "mine"},
            "there": {"type": "claude-tmux", "pane": "%3"},
            "window": {"type": "wezterm", "pane": 7, "socket": "/tmp/sock"},
            "agent": {"type": "claude-wezterm", "cols": 100},
            "model": {
                "type": "chat", "provider": "openai", "model": "small", "base_url": "https://host/v1", "api_key_env": "KEY",
                "system": "You are terse.", "max_tokens": 100, "temperature": 0.5, "tools": ["check", "shell"], "tool_choice": "check",
                "parallel_tool_calls": false, "max_tool_rounds": 3, "retries": 0, "env": {"KEY": "x"}, "history": false,
                "response_timeout": 60, "keep": true
            },
            "check": {"type": "bash", "cwd": ".", "env": {}, "timeout": 30},
            "words": {"type": "template", "template": "Hello {{ input }}"},
            "sub": {"type": "graph", "graph": {"graph": "inner", "steps": []}}
        },
        "steps": [
            {"id": "plan", "node": "words", "input": {"any": ["{{ input.task }}", 1]}},
            {
                "id": "ask", "node": "coder", "input": "Write {{ input.task }}", "depends_on": ["plan"], "parser": "claude",
                "error_policy": {
                    "on_error": "fallback", "retry_count": 2, "retry_delay_ms": 100, "retry_backoff": 1.5, "timeout_ms": 1000,
                    "fallback_value": {}, "fallback_node": "check"
                },
                "budget": {"max_steps": 1}, "when": "steps.plan.text != ''",
                "until": {"condition": "'DONE' in result.text", "max_rounds": 5}, "on_dialog": "wait",
                "on_resume": "rerun", "on": "build-1", "on_host_lost": "retry"
            },
            {"id": "known", "value": {"any": [1]}, "on": {"labels": ["gpu"]}},
            {"id": "each", "node": "check", "foreach": "input.files", "parallel": 4, "input": "ls {{ item | sh }}", "depends_on": "ask"},
            {
                "id": "approve", "depends_on": ["ask"], "when": true,
                "gate": {"question": "Ship {{ steps.ask.text }}?", "choices": ["yes", "no", 3], "default": "no", "timeout_seconds": 3600}
            }
        ]
    })
}

#[test]
fn documented_file_fits_the_schema() {
    let schema = json_schema();
    let file = documented();
    fits(&schema, &schema, &file).unwrap();
    let read = GraphFile::from_value(file).unwrap();
    // The serialized form fits, too.
    fits(&schema, &schema, &serde_json::to_value(&read).unwrap()).unwrap();
}

#[test]
fn invalid_files_do_not_fit() {
    let schema = json_schema();
    for (pointer, wrong) in [
        ("/steps/1/parser", json!("gpt")),
        ("/steps/1/depends_on/0", json!(1)),
        ("/steps/1/until", json!({"condition": "x"})),
        ("/steps/1/on", json!({"machine": "x"})),
        ("/steps/1/on_host_lost", json!("stop")),
        ("/steps/3/parallel", json!(0)),
        ("/steps/4/gate", json!({})),
        ("/nodes/check/type", json!("screen")),
        ("/nodes/model/provider", json!("acme")),
        ("/nodes/model/tools", json!(7)),
        ("/nodes/model/temperature", json!("warm")),
        ("/nodes/model", json!({"type": "chat"})),
        ("/nodes/seen/tmux_session", json!(7)),
        ("/nodes/check", json!({"type": "bash", "rows": 1})),
        ("/nodes/sub/graph/steps", json!({})),
        ("/budget/max_steps", json!(-1)),
        ("/on_failure", json!("halt")),
        ("/inputs/task", json!({"nope": 1})),
        ("/steps/1", json!({"id": "x", "nod": "y"})),
        ("/graph", json!(7)),
    ] {
        let mut file = documented();
        *file.pointer_mut(pointer).unwrap() = wrong;
        assert!(fits(&schema, &schema, &file).is_err(), "{pointer}");
        assert!(GraphFile::from_value(file).is_err(), "{pointer}");
    }
}

#[test]
fn every_field_is_described() {
    fn look(schema: &Value, at: &str) {
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let description = field
                .get("description")
                .and_then(Value::as_str)
                .or(field.get("const").and_then(Value::as_str));
            assert!(
                description.is_some_and(|description| !description.contains('\n')),
                "{at}.{name}: {field}"
            );
        }
    }
    let schema = json_schema();
    look(&schema, "graph");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        look(definition, name);
        for (place, one) in
            definition.get("oneOf").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            look(one, &format!("{name}[{place}]"));
        }
    }
}
