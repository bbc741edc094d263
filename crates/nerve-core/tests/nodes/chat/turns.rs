//! Turns that go well.

use std::time::{Duration, Instant};

use nerve_core::chat::Provider;
use nerve_core::command::{EventKind, Response, StateName};
use nerve_core::error::EngineError;
use nerve_core::node::Node;
use nerve_core::session::Session;
use nerve_testkit::mock_model::{Answer, Part, Reply, Script};
use serde_json::{Value, json};

use super::{Talk, alone, answers, chat, context};
use crate::harness::{at, ops};

#[tokio::test]
async fn a_turn_is_answered_by_each_provider() {
    for provider in Provider::ALL {
        let talk = Talk::new(provider, Script::default()).await;
        let response = talk.stage.ask("c", "hello").await;
        assert_eq!((response.text.as_str(), response.turn), ("You said: hello", 1));
        assert_eq!(
            (response.source, response.delivery, response.ended_by.as_str()),
            ("api", "started", "api: stop")
        );
        assert!(response.is_complete && response.is_ready);
        assert_eq!(response.sections.len(), 1);
        let tokens = response.tokens.unwrap();
        assert!(tokens.input > Some(0) && tokens.output > Some(0), "{tokens:?}");
        assert_eq!(tokens.total, Some(tokens.input.unwrap() + tokens.output.unwrap()));

        let value = response.into_value();
        let of = |name: &str| value["attributes"][name].clone();
        assert_eq!(
            (of("content"), of("model"), of("finish_reason")),
            (json!("You said: hello"), json!("test-model"), json!("stop"))
        );
        assert_eq!((of("retries"), of("api_calls"), of("tool_calls")), (json!(0), json!(1), json!([])));
        assert_eq!(of("usage")["total"], json!(tokens.total));
        assert_eq!((&value["success"], &value["output"]), (&json!(true), &json!("You said: hello")));

        let request = &talk.model.requests()[0];
        let path = if provider == Provider::Anthropic { "/v1/messages" } else { "/v1/chat/completions" };
        assert_eq!((request.path.as_str(), &request.body["model"]), (path, &json!("test-model")));
        let agent = request.headers.iter().find(|(name, _)| name == "user-agent").unwrap();
        assert!(agent.1.starts_with("nerve/"));
    }
}

#[tokio::test]
async fn each_turn_sends_what_was_said_before() {
    for provider in Provider::ALL {
        let talk =
            Talk::with(provider, Script::default(), |chat| chat.system = Some("Be brief.".into())).await;
        talk.stage.ask("c", "first").await;
        talk.stage.ask("c", "second\nline").await;
        assert_eq!(talk.stage.ask("c", "third").await.turn, 3);
        let body = talk.model.requests()[2].body.clone();
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
        let said: Vec<String> = messages.iter().map(text).collect();
        assert_eq!(
            said,
            [
                "user: first",
                "assistant: You said: first",
                "user: second\nline",
                "assistant: You said: second\nline",
                "user: third"
            ]
        );
        assert_eq!(talk.stage.buffer("c", Some(2)).await, "user: third\nassistant: You said: third");
        talk.stage.engine.clear_buffer(at("c").into(), Default::default()).await.unwrap();
        assert_eq!(talk.text().await, "");
        talk.stage.ask("c", "afresh").await;
        assert_eq!(
            talk.sent(3).as_array().unwrap().len(),
            if provider == Provider::Anthropic { 1 } else { 2 }
        );
    }
}

#[tokio::test]
async fn an_answer_is_heard_while_it_grows() {
    for provider in Provider::ALL {
        let pieces = ["one ", "two ", "three"].map(String::from).to_vec();
        let script = Script::default().rule("count", Answer::slow(Duration::from_millis(50), pieces));
        let mut talk = Talk::new(provider, script).await;
        let mut execute = talk.stage.execute("c", "count");
        execute.stream = true;
        let response = talk.stage.run(execute).await.unwrap();
        assert_eq!(response.text, "one two three");
        let mut told = Vec::new();
        let mut chunks = Vec::new();
        while let Ok(event) = talk.stage.events.try_recv() {
            match event.kind {
                EventKind::OutputChunk { chunk, turn, .. } => {
                    assert_eq!(turn, 1);
                    chunks.push(chunk);
                }
                EventKind::NodeBusy { .. } => told.push("busy"),
                EventKind::NodeReady { .. } => told.push("ready"),
                EventKind::OutputParsed { is_complete, sections, .. } => {
                    assert!(is_complete && sections == 1);
                    told.push("parsed");
                }
                _ => {}
            }
        }
        assert_eq!(chunks, ["one ", "two ", "three"]);
        assert_eq!(told, ["busy", "ready", "parsed"]);
        let entries = talk.stage.history("c").await;
        assert_eq!(ops(&entries), ["send_stream"]);
        assert!(entries[0].contains("one two three"), "{entries:?}");
    }
}

#[tokio::test]
async fn a_step_of_a_graph_hears_pieces_too() {
    let model = answers([Answer::slow(Duration::from_millis(10), vec!["a".into(), "b".into()])]).await;
    let node = alone(chat(Provider::Openai, &model));
    let (context, chunks) = context(&Session::new("s"), "q");
    let value = node.execute(&context).await.unwrap();
    assert_eq!((&value["text"], chunks.lock().unwrap().concat().as_str()), (&json!("ab"), "ab"));
    assert_eq!(context.usage().api_calls(), 1);
}

#[tokio::test]
async fn turns_are_logged() {
    let script = Script::default().rule("bad", Answer::error(400, "no such thing"));
    let talk = Talk::new(Provider::Anthropic, script).await;
    talk.stage.ask("c", "hello").await;
    talk.stage.send("c", "bad").await.unwrap_err();
    talk.stage.stop("c").await;
    let entries = talk.stage.history("c").await;
    assert_eq!(ops(&entries), ["send", "send", "read", "close"]);
    assert!(entries[0].contains("You said: hello") && entries[0].contains(r#""is_complete":true"#));
    assert!(entries[1].contains("no such thing") && entries[1].contains(r#""is_complete":false"#));
    assert!(entries[2].contains("user: hello"), "the conversation is there at the end: {}", entries[2]);
}

#[tokio::test]
async fn thoughts_are_told_and_not_sent_back() {
    let parts = vec![Part::Thinking("hm".into()), Part::Text(vec!["well".into()])];
    let script = Script::default().first([Answer::Reply(Reply { parts, ..Reply::default() })]);
    let talk = Talk::new(Provider::Anthropic, script).await;
    let response = talk.stage.ask("c", "q").await;
    let kinds: Vec<&str> = response.sections.iter().map(|section| section.kind.as_str()).collect();
    assert_eq!((kinds, response.text.as_str()), (vec!["thinking", "text"], "well"));
    talk.stage.ask("c", "q2").await;
    assert!(!talk.sent(1).to_string().contains("hm"));
}

#[tokio::test]
async fn a_first_failure_that_passes_is_nobodys_business() {
    for provider in Provider::ALL {
        let busy = || Answer::status(429, "retry-after", "0");
        let script = Script::default().first([busy(), Answer::status(529, "retry-after", "0.01"), busy()]);
        let talk = Talk::new(provider, script).await;
        let response = talk.stage.ask("c", "hello").await;
        assert_eq!(response.text, "You said: hello");
        assert_eq!(
            (response.attributes["retries"].as_str(), response.attributes["api_calls"].as_str()),
            ("3", "4")
        );
        assert_eq!(talk.info().await.metadata["api_calls"], "4");
    }
}

#[tokio::test]
async fn who_names_no_time_is_asked_again_after_a_second() {
    let talk = Talk::new(Provider::Openai, Script::default().first([Answer::error(503, "soon")])).await;
    let started = Instant::now();
    assert_eq!(talk.stage.ask("c", "hello").await.attributes["retries"], "1");
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_answer_that_is_cut_says_so() {
    let body = concat!(
        "data: {\"choices\": [{\"delta\": {\"content\": \"as much as\"}, \"finish_reason\": \"length\"}]}\n\n",
        "data: [DONE]\n\n"
    );
    let script = Script::default().first([Answer::stream(body, nerve_testkit::mock_model::Ending::Whole)]);
    let talk = Talk::new(Provider::Openai, script).await;
    let response = talk.stage.ask("c", "q").await;
    assert_eq!((response.text.as_str(), response.is_complete), ("as much as", false));
    assert_eq!(response.attributes["finish_reason"], "length");
}

#[tokio::test]
async fn one_turn_at_a_time() {
    let late = Answer::late(Duration::from_millis(200), "late");
    let talk = Talk::new(Provider::Anthropic, Script::default().first([late])).await;
    let engine = talk.stage.engine.clone();
    let first = talk.stage.execute("c", "first");
    let first = tokio::spawn(async move { engine.run_turn(first, Default::default()).await });
    talk.stage.wait("c", StateName::Busy).await.unwrap();
    let mut hasty = talk.stage.execute("c", "hasty");
    hasty.fail_if_busy = true;
    assert_eq!(talk.stage.run(hasty).await.unwrap_err().kind.as_str(), "busy");
    assert_eq!(talk.stage.ask("c", "second").await.turn, 2);
    within_turn(first).await;
    assert!(talk.text().await.starts_with("user: first\nassistant: late\nuser: second\n"));
}

async fn within_turn(turn: tokio::task::JoinHandle<Result<Response, EngineError>>) {
    super::within(turn).await.unwrap().unwrap();
}
