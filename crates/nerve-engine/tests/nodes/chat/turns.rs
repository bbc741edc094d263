//! Successful turns.

use std::time::{Duration, Instant};

use nerve_api::event::EventKind;
use nerve_api::value::NodeState;
use nerve_graph::session::Session;
use nerve_node::Node;
use nerve_node::chat::Provider;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_testkit::harness::node_ref;
use nerve_testkit::mock_model::{Answer, Part, Reply, Script};
use serde_json::{Value, json};

use super::{ChatHarness, answers, chat, context, standalone_node};
use crate::harness::ops;

#[tokio::test]
async fn each_provider_answers_a_turn() {
    for provider in Provider::ALL {
        let harness = ChatHarness::new(provider, Script::default()).await;
        let response = harness.nodes.ask("c", "hello").await;
        assert_eq!((response.text.as_str(), response.turn), ("You said: hello", 1));
        assert_eq!(
            (response.source.as_str(), response.delivery.as_str(), response.ended_by.as_str()),
            ("api", "started", "api: stop")
        );
        assert!(response.is_complete && response.is_ready);
        assert_eq!(response.sections.len(), 1);
        let tokens = response.tokens.unwrap();
        assert!(tokens.input > Some(0) && tokens.output > Some(0), "{tokens:?}");
        assert_eq!(tokens.total, Some(tokens.input.unwrap() + tokens.output.unwrap()));

        let value = response.into_value();
        let attribute = |name: &str| value["attributes"][name].clone();
        assert_eq!(
            (attribute("content"), attribute("model"), attribute("finish_reason")),
            (json!("You said: hello"), json!("test-model"), json!("stop"))
        );
        assert_eq!(
            (attribute("retries"), attribute("api_calls"), attribute("tool_calls")),
            (json!(0), json!(1), json!([]))
        );
        assert_eq!(attribute("usage")["total"], json!(tokens.total));
        assert_eq!((&value["success"], &value["text"]), (&json!(true), &json!("You said: hello")));

        let request = &harness.model.requests()[0];
        let path = if provider == Provider::Anthropic { "/v1/messages" } else { "/v1/chat/completions" };
        assert_eq!((request.path.as_str(), &request.body["model"]), (path, &json!("test-model")));
        let agent = request.headers.iter().find(|(name, _)| name == "user-agent").unwrap();
        assert!(agent.1.starts_with("nerve/"));
    }
}

#[tokio::test]
async fn each_turn_sends_the_conversation() {
    for provider in Provider::ALL {
        let harness =
            ChatHarness::with(provider, Script::default(), |chat| chat.system = Some("Be brief.".into()))
                .await;
        harness.nodes.ask("c", "first").await;
        harness.nodes.ask("c", "second\nline").await;
        assert_eq!(harness.nodes.ask("c", "third").await.turn, 3);
        let body = harness.model.requests()[2].body.clone();
        let mut messages: Vec<Value> = body["messages"].as_array().unwrap().clone();
        match provider {
            Provider::Anthropic => assert_eq!(body["system"], "Be brief."),
            Provider::Openai => {
                assert_eq!(messages.remove(0), json!({ "role": "system", "content": "Be brief." }))
            }
        }
        let text = |message: &Value| {
            let content = &message["content"];
            let text = content.as_str().or(content[0]["text"].as_str()).unwrap();
            format!("{}: {text}", message["role"].as_str().unwrap())
        };
        let conversation: Vec<String> = messages.iter().map(text).collect();
        assert_eq!(
            conversation,
            [
                "user: first",
                "assistant: You said: first",
                "user: second\nline",
                "assistant: You said: second\nline",
                "user: third"
            ]
        );
        assert_eq!(harness.nodes.buffer("c", Some(2)).await, "user: third\nassistant: You said: third");
        harness.nodes.engine.clear_buffer(node_ref("c").into(), Default::default()).await.unwrap();
        assert_eq!(harness.text().await, "");
        harness.nodes.ask("c", "afresh").await;
        assert_eq!(
            harness.sent_messages(3).as_array().unwrap().len(),
            if provider == Provider::Anthropic { 1 } else { 2 }
        );
    }
}

#[tokio::test]
async fn answer_is_streamed() {
    for provider in Provider::ALL {
        let pieces = ["one ", "two ", "three"].map(String::from).to_vec();
        let script = Script::default().rule("count", Answer::slow(Duration::from_millis(50), pieces));
        let mut harness = ChatHarness::new(provider, script).await;
        let mut execute = harness.nodes.execute("c", "count");
        execute.stream = true;
        let response = harness.nodes.run(execute).await.unwrap();
        assert_eq!(response.text, "one two three");
        let mut events = Vec::new();
        let mut chunks = Vec::new();
        while let Ok(event) = harness.nodes.events.try_recv() {
            match event.kind {
                EventKind::OutputChunk { chunk, turn, .. } => {
                    assert_eq!(turn, 1);
                    chunks.push(chunk);
                }
                EventKind::NodeBusy { .. } => events.push("busy"),
                EventKind::NodeReady { .. } => events.push("ready"),
                EventKind::OutputParsed { is_complete, sections, .. } => {
                    assert!(is_complete && sections == 1);
                    events.push("parsed");
                }
                _ => {}
            }
        }
        assert_eq!(chunks, ["one ", "two ", "three"]);
        assert_eq!(events, ["busy", "ready", "parsed"]);
        let entries = harness.nodes.history("c").await;
        assert_eq!(ops(&entries), ["send_stream"]);
        assert!(entries[0].contains("one two three"), "{entries:?}");
    }
}

#[tokio::test]
async fn graph_step_receives_chunks() {
    let model = answers([Answer::slow(Duration::from_millis(10), vec!["a".into(), "b".into()])]).await;
    let node = standalone_node(chat(Provider::Openai, &model));
    let (context, chunks) = context(&Session::new("s"), "q");
    let value = node.execute(&context.turn).await.unwrap();
    assert_eq!((&value["text"], chunks.lock().unwrap().concat().as_str()), (&json!("ab"), "ab"));
    assert_eq!(context.turn.usage().api_calls(), 1);
}

#[tokio::test]
async fn turns_are_logged() {
    let script = Script::default().rule("bad", Answer::error(400, "no such thing"));
    let harness = ChatHarness::new(Provider::Anthropic, script).await;
    harness.nodes.ask("c", "hello").await;
    harness.nodes.send("c", "bad").await.unwrap_err();
    harness.nodes.stop("c").await;
    let entries = harness.nodes.history("c").await;
    assert_eq!(ops(&entries), ["send", "send", "read", "close"]);
    assert!(entries[0].contains("You said: hello") && entries[0].contains(r#""is_complete":true"#));
    assert!(entries[1].contains("no such thing") && entries[1].contains(r#""is_complete":false"#));
    assert!(entries[2].contains("user: hello"), "the conversation is not logged at the end: {}", entries[2]);
}

#[tokio::test]
async fn thinking_is_reported_but_not_sent_back() {
    let parts = vec![Part::Thinking("hm".into()), Part::Text(vec!["well".into()])];
    let script = Script::default().first([Answer::Reply(Reply { parts, ..Reply::default() })]);
    let harness = ChatHarness::new(Provider::Anthropic, script).await;
    let response = harness.nodes.ask("c", "q").await;
    let kinds: Vec<&str> = response.sections.iter().map(|section| section.kind.as_str()).collect();
    assert_eq!((kinds, response.text.as_str()), (vec!["thinking", "text"], "well"));
    harness.nodes.ask("c", "q2").await;
    assert!(!harness.sent_messages(1).to_string().contains("hm"));
}

#[tokio::test]
async fn transient_errors_are_retried() {
    for provider in Provider::ALL {
        let busy = || Answer::status(429, "retry-after", "0");
        let script = Script::default().first([busy(), Answer::status(529, "retry-after", "0.01"), busy()]);
        let harness = ChatHarness::new(provider, script).await;
        let response = harness.nodes.ask("c", "hello").await;
        assert_eq!(response.text, "You said: hello");
        assert_eq!(
            (response.attributes["retries"].as_i64(), response.attributes["api_calls"].as_i64()),
            (Some(3), Some(4))
        );
        assert_eq!(harness.info().await.metadata.display("api_calls"), "4");
    }
}

#[tokio::test]
async fn retry_waits_a_second_by_default() {
    let harness =
        ChatHarness::new(Provider::Openai, Script::default().first([Answer::error(503, "soon")])).await;
    let started = Instant::now();
    assert_eq!(harness.nodes.ask("c", "hello").await.attributes["retries"], 1);
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn truncated_answer_is_incomplete() {
    let body = concat!(
        "data: {\"choices\": [{\"delta\": {\"content\": \"as much as\"}, \"finish_reason\": \"length\"}]}\n\n",
        "data: [DONE]\n\n"
    );
    let script = Script::default().first([Answer::stream(body, nerve_testkit::mock_model::BodyEnd::Whole)]);
    let harness = ChatHarness::new(Provider::Openai, script).await;
    let response = harness.nodes.ask("c", "q").await;
    assert_eq!((response.text.as_str(), response.is_complete), ("as much as", false));
    assert_eq!(response.attributes["finish_reason"], "length");
    assert_eq!(response.failure().map(|failure| failure.kind), Some(ErrorKind::Incomplete));
}

#[tokio::test]
async fn turns_are_queued() {
    let slow = Answer::late(Duration::from_millis(200), "late");
    let harness = ChatHarness::new(Provider::Anthropic, Script::default().first([slow])).await;
    let engine = harness.nodes.engine.clone();
    let first = harness.nodes.execute("c", "first");
    let first = tokio::spawn(async move { engine.run_turn(first, Default::default()).await });
    harness.nodes.wait("c", NodeState::Busy).await.unwrap();
    let mut immediate = harness.nodes.execute("c", "hasty");
    immediate.fail_if_busy = true;
    assert_eq!(harness.nodes.run(immediate).await.unwrap_err().kind.as_str(), "busy");
    assert_eq!(harness.nodes.ask("c", "second").await.turn, 2);
    finish_turn(first).await;
    assert!(harness.text().await.starts_with("user: first\nassistant: late\nuser: second\n"));
}

async fn finish_turn(turn: tokio::task::JoinHandle<Result<Response, EngineError>>) {
    super::in_time(turn).await.unwrap().unwrap();
}
