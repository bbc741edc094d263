//! Streams of different servers: event data in, events out.

use serde_json::Value;

use super::*;

fn translate_all(chunks: &[&str]) -> Result<Vec<Value>, ApiError> {
    let mut stream = StreamTranslator::new(ResponsePlan::default());
    let mut out = String::new();
    for chunk in chunks {
        out.push_str(&stream.push(chunk)?);
    }
    out.push_str(&stream.finish()?);
    assert!(stream.has_ended());
    let events = out.split_terminator("\n\n").map(|text| {
        let (name, data) = text.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    Ok(events.collect())
}

/// Assembles the blocks like a client, and checks that they do not overlap.
fn blocks(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments = String::new();
    let mut is_open = false;
    for event in events {
        let at = event["index"].as_u64().map(|at| usize::try_from(at).unwrap());
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!is_open && at == Some(blocks.len()), "{event}");
                is_open = true;
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(is_open && at == Some(blocks.len() - 1), "{event}");
                let (delta, block) = (&event["delta"], blocks.last_mut().unwrap());
                for name in ["text", "thinking"] {
                    if let Some(piece) = delta[name].as_str() {
                        block[name] = format!("{}{piece}", block[name].as_str().unwrap()).into();
                    }
                }
                arguments.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" => {
                assert!(is_open && at == Some(blocks.len() - 1), "{event}");
                is_open = false;
                let arguments = std::mem::take(&mut arguments);
                if !arguments.is_empty() {
                    blocks.last_mut().unwrap()["input"] = serde_json::from_str(&arguments).unwrap();
                }
            }
            _ => assert!(!is_open, "{event}"),
        }
    }
    blocks
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn text_is_streamed() {
    let events = translate_all(&[
        r#"{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"content":"Hel"}}]}"#,
        r#"{"choices":[{"delta":{"content":"lo"}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#,
        "[DONE]",
    ])
    .unwrap();
    assert_eq!(
        types(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(
        (&events[0]["message"]["id"], &events[0]["message"]["model"]),
        (&json!("msg_chatcmpl-1"), &json!("gpt-x"))
    );
    assert_eq!(blocks(&events), [json!({ "type": "text", "text": "Hello" })]);
    assert_eq!(events[5]["delta"], json!({ "stop_reason": "end_turn", "stop_sequence": null }));
    assert_eq!(
        (&events[5]["usage"]["input_tokens"], &events[5]["usage"]["cache_read_input_tokens"]),
        (&json!(6), &json!(4))
    );
    assert_eq!(events[5]["usage"]["output_tokens"], 9);
}

#[test]
fn pieces_are_streamed_at_once() {
    let mut stream = StreamTranslator::new(ResponsePlan::default());
    let first = stream.push(r#"{"choices":[{"delta":{"content":"H"}}]}"#).unwrap();
    assert!(first.starts_with("event: message_start\n") && first.contains(r#""text":"H""#), "{first}");
    let call = stream.push(r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"n","arguments":"{\"a"}}]}}]}"#).unwrap();
    assert!(
        call.contains("content_block_stop") && call.contains("tool_use") && call.contains(r#"{\"a"#),
        "{call}"
    );
}

#[test]
fn tool_calls_of_all_servers() {
    let (a, b) = (
        json!({ "type": "tool_use", "id": "toolu_oai_a", "name": "f", "input": { "x": 1 } }),
        json!({ "type": "tool_use", "id": "toolu_oai_b", "name": "g", "input": { "y": 2 } }),
    );
    let text = json!({ "type": "text", "text": "words" });
    let cases: [(&str, &[&str], Vec<Value>); 8] = [
        (
            "one after the other, named in the first piece",
            &[
                r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x"}}]"#,
                r#"[{"index":0,"function":{"arguments":"\":1}"}}]"#,
                r#"[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"y"}}]"#,
                r#"[{"index":1,"function":{"arguments":"\":2}"}}]"#,
            ],
            vec![a.clone(), b.clone()],
        ),
        (
            "interleaved",
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]"#,
                r#"[{"index":1,"function":{"arguments":"\"y\":"}},{"index":0,"function":{"arguments":"{\"x\":"}}]"#,
                r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
                r#"[{"index":1,"function":{"arguments":"2}"}}]"#,
            ],
            vec![a.clone(), b.clone()],
        ),
        (
            "whole, without indexes",
            &[
                r#"[{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","function":{"name":"g","arguments":"{\"y\":2}"}}]"#,
            ],
            vec![a.clone(), b.clone()],
        ),
        (
            "in pieces, without indexes",
            &[
                r#"[{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]"#,
                r#"[{"function":{"arguments":"1}"}}]"#,
            ],
            vec![a.clone()],
        ),
        (
            "id and name with every piece",
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]"#,
            ],
            vec![a.clone()],
        ),
        (
            "the name later than the arguments",
            &[
                r#"[{"index":0,"id":"a","function":{"arguments":"{\"x\":"}}]"#,
                r#"[{"index":0,"function":{"name":"f","arguments":"1}"}}]"#,
            ],
            vec![a.clone()],
        ),
        (
            "arguments as an object",
            &[r#"[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]"#],
            vec![a.clone()],
        ),
        (
            "text between calls comes last",
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]"#,
                "words",
                r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
                r#"[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\":2}"}}]"#,
            ],
            vec![a.clone(), b.clone(), text],
        ),
    ];
    for (what, pieces, expected) in cases {
        let chunks: Vec<String> = pieces
            .iter()
            .map(|piece| match piece.starts_with('[') {
                true => {
                    format!(r#"{{"id":"1","choices":[{{"delta":{{"content":null,"tool_calls":{piece}}}}}]}}"#)
                }
                false => format!(r#"{{"choices":[{{"delta":{{"content":"{piece}"}}}}]}}"#),
            })
            .chain([
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_string(),
                "[DONE]".to_string(),
            ])
            .collect();
        let events = translate_all(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(blocks(&events), expected, "{what}");
        assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use", "{what}");
    }
}

#[test]
fn thinking_then_text_then_call() {
    let events = translate_all(&[
        r#"{"choices":[{"delta":{"reasoning_content":"h"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"m"}}]}"#,
        r#"{"choices":[{"delta":{"content":"so"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    ])
    .unwrap();
    assert_eq!(
        blocks(&events),
        [
            json!({ "type": "thinking", "thinking": "hm", "signature": "" }),
            json!({ "type": "text", "text": "so" }),
            json!({ "type": "tool_use", "id": "toolu_gen_msg_upstream_0", "name": "f", "input": {} }),
        ]
    );
}

#[test]
fn whole_answer_becomes_a_stream() {
    let events = translate_all(&[r#"{"id":"1","choices":[{"message":{"content":"hi"},"finish_reason":"length"}],"usage":{"completion_tokens":2}}"#]).unwrap();
    assert_eq!(blocks(&events), [json!({ "type": "text", "text": "hi" })]);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "max_tokens");
}

#[test]
fn incomplete_answer_is_an_error() {
    for chunks in [&[][..], &[r#"{"choices":[{"delta":{"content":"Hel"}}]}"#]] {
        assert_eq!(translate_all(chunks).unwrap_err().status, 502);
    }
    assert!(translate_all(&["{\"choices\""]).unwrap_err().message.contains("not JSON"));
    assert!(translate_all(&[r#"{"error":{"message":"sorry"}}"#]).unwrap_err().message.contains("sorry"));
    let nameless =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a"}]},"finish_reason":"tool_calls"}]}"#;
    assert!(translate_all(&[nameless]).unwrap_err().message.contains("without a name"));
    let many = format!(
        r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#,
        (0..300).map(|n| format!(r#"{{"index":{n}}}"#)).collect::<Vec<_>>().join(",")
    );
    assert!(translate_all(&[&many]).unwrap_err().message.contains("more than 256"));
}
