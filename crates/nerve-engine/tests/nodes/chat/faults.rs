//! Failing turns: each reports its reason and leaves the conversation unchanged.

use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_graph::session::Session;
use nerve_node::Node;
use nerve_node::chat::Provider;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Raw, Script};
use nerve_testkit::within_deadline;

use super::{
    ChatHarness, KEY, SHORT_TIMEOUT, answers, chat, context, in_time, partial_stream, standalone_node,
};

/// Fails the second of three turns with the answers `bad`; returns its error and the number of requests. Checks that the third
/// turn contains the first but nothing of the second.
async fn fail_second_turn(
    provider: Provider,
    bad: Vec<Answer>,
    timeout: Option<Duration>,
) -> (EngineError, usize) {
    let script = Script::default().first([Answer::text("one")].into_iter().chain(bad));
    let harness = ChatHarness::with(provider, script, |chat| chat.retries = 1).await;
    harness.nodes.ask("c", "first").await;
    let before = harness.text().await;
    let mut execute = harness.nodes.execute("c", "second");
    execute.timeout = timeout.map(Into::into).or(execute.timeout);
    let error = in_time(harness.nodes.run(execute)).await.unwrap_err();
    assert_eq!(harness.text().await, before, "{error}");
    assert_eq!(harness.info().await.state, NodeState::Ready);
    let tries = harness.model.requests().len() - 1;
    assert_eq!(harness.nodes.ask("c", "third").await.text, "You said: third");
    let sent = harness.sent_messages(tries + 1).to_string();
    assert!(sent.contains("first") && !sent.contains("second"), "{sent}");
    assert!(error.message.starts_with("node 'c': "), "{error}");
    (error, tries)
}

#[tokio::test]
async fn api_errors_have_message_and_kind() {
    for provider in Provider::ALL {
        for (status, kind) in [
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Authentication),
            (403, ErrorKind::Permission),
            (404, ErrorKind::NotFound),
            (418, ErrorKind::Api),
        ] {
            let (error, tries) =
                fail_second_turn(provider, vec![Answer::error(status, "its own words")], None).await;
            assert_eq!(tries, 1, "{error}");
            assert_error(&error, kind, &[&status.to_string(), "its own words"]);
        }
    }
}

#[tokio::test]
async fn retries_are_limited() {
    for provider in Provider::ALL {
        let bad = vec![Answer::status(500, "retry-after", "0"); 2];
        let (error, tries) = fail_second_turn(provider, bad, None).await;
        assert_eq!(tries, 2);
        assert_error(&error, ErrorKind::Api, &["500", "2 tries"]);
    }
}

#[tokio::test]
async fn retry_after_beyond_turn_timeout_fails_at_once() {
    let bad = vec![Answer::status(429, "retry-after", "100")];
    let failed = fail_second_turn(Provider::Openai, bad, None);
    let (error, tries) = within_deadline("the turn fails", failed).await;
    assert_eq!(tries, 1);
    assert_error(&error, ErrorKind::RateLimit, &["100 seconds"]);
    let bad = vec![Answer::status(429, "retry-after", "99999")];
    let (error, _) = within_deadline("the turn fails", fail_second_turn(Provider::Openai, bad, None)).await;
    assert_error(&error, ErrorKind::RateLimit, &["99999 seconds"]);
}

#[tokio::test]
async fn hanging_api_times_out() {
    for provider in Provider::ALL {
        let silent = Answer::late(Duration::from_secs(600), "never");
        let partial = Answer::stream(partial_stream(provider), BodyEnd::Endless);
        for bad in [silent, partial] {
            let failed = fail_second_turn(provider, vec![bad], Some(SHORT_TIMEOUT));
            let (error, tries) = within_deadline("the turn times out", failed).await;
            assert_error(&error, ErrorKind::Timeout, &["127.0.0.1"]);
            assert_eq!(tries, 1);
        }
    }
}

#[tokio::test]
async fn broken_stream_is_retried_without_listener() {
    for provider in Provider::ALL {
        for ending in [BodyEnd::Whole, BodyEnd::Broken] {
            let bad = vec![Answer::stream(partial_stream(provider), ending); 2];
            let (error, tries) = fail_second_turn(provider, bad, None).await;
            assert_eq!((error.kind, tries), (ErrorKind::Network, 2), "the request was not retried: {error}");
        }
    }
}

#[tokio::test]
async fn broken_stream_is_not_retried_after_chunks() {
    for provider in Provider::ALL {
        let partial = Answer::stream(partial_stream(provider), BodyEnd::Broken);
        let model = answers([partial]).await;
        let node = standalone_node(chat(provider, &model));
        let (context, chunks) = context(&Session::new("s"), "q");
        let error = node.execute(&context.turn).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network);
        assert_eq!((model.requests().len(), chunks.lock().unwrap().concat().as_str()), (1, "Half an ans"));
        assert!(node.messages().is_empty());
    }
}

#[tokio::test]
async fn invalid_answer_is_rejected() {
    for provider in Provider::ALL {
        let json = |body: &str| {
            let headers = vec![("content-type".to_string(), "application/json".to_string())];
            Answer::Raw(Raw { status: 200, headers, body: body.into(), end: BodyEnd::Whole })
        };
        for bad in [
            Answer::stream("data: {\"type\": \n\n", BodyEnd::Whole),
            json("{\"half\": "),
            json("{\"hello\": \"world\"}"),
            json("[1, 2]"),
        ] {
            let (error, tries) = fail_second_turn(provider, vec![bad], None).await;
            assert_eq!((error.kind, tries), (ErrorKind::Api, 1), "{error}");
        }
    }
}

#[tokio::test]
async fn error_event_in_stream_fails_the_turn() {
    let stream = partial_stream(Provider::Anthropic)
        + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"sorry\"}}\n\n";
    let (error, _) =
        fail_second_turn(Provider::Anthropic, vec![Answer::stream(stream, BodyEnd::Whole)], None).await;
    assert_error(&error, ErrorKind::InvalidRequest, &["sorry"]);
}

#[tokio::test]
async fn answer_size_is_limited() {
    let comment = format!(": {}\n", "x".repeat(1 << 20)).repeat(17);
    let (error, tries) =
        fail_second_turn(Provider::Openai, vec![Answer::stream(comment, BodyEnd::Whole)], None).await;
    assert_eq!(tries, 1);
    assert_error(&error, ErrorKind::Api, &["16777216 bytes"]);
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let elsewhere = MockModel::start(Script::default()).await;
    for status in [301, 302, 307, 308] {
        let location = format!("{}/v1/messages?key=secret", elsewhere.url());
        let (error, tries) =
            fail_second_turn(Provider::Anthropic, vec![Answer::status(status, "location", &location)], None)
                .await;
        assert_eq!(tries, 1);
        assert!(
            error.message.contains("redirect to 127.0.0.1") && !error.to_string().contains("secret"),
            "{error}"
        );
        assert!(error.hint.is_some(), "{error}");
    }
    assert!(elsewhere.requests().is_empty(), "the redirect target received a request");
}

#[tokio::test]
async fn refused_connection_is_reported() {
    let model = MockModel::start(Script::default()).await;
    let spec = nerve_node::chat::ChatSettings { retries: 0, ..chat(Provider::Openai, &model) };
    model.shutdown().await.unwrap();
    let (context, _) = context(&Session::new("s"), "q");
    let error = standalone_node(spec).execute(&context.turn).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
    assert_eq!(context.turn.usage().api_calls(), 1);
}

#[tokio::test]
async fn interrupt_ends_turn_and_stop_ends_node() {
    let silent = || Answer::late(Duration::from_secs(600), "never");
    for provider in Provider::ALL {
        let harness = ChatHarness::new(provider, Script::default().first([silent(), silent()])).await;
        let start_turn = || {
            let (engine, execute) = (harness.nodes.engine.clone(), harness.nodes.execute("c", "q"));
            tokio::spawn(async move { engine.run_turn(execute, Default::default()).await })
        };
        let turn = start_turn();
        harness.nodes.wait("c", NodeState::Busy).await.unwrap();
        harness.nodes.engine.send_interrupt(node_ref("c").into(), Default::default()).await.unwrap();
        assert_eq!(in_time(turn).await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        harness.nodes.wait("c", NodeState::Ready).await.unwrap();
        let turn = start_turn();
        harness.nodes.wait("c", NodeState::Busy).await.unwrap();
        in_time(harness.nodes.stop("c")).await;
        assert_eq!(in_time(turn).await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        assert_eq!(harness.nodes.send("c", "q").await.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn detached_turn_completes() {
    let slow = Answer::late(Duration::from_millis(500), "late");
    let harness = ChatHarness::new(Provider::Openai, Script::default().first([slow])).await;
    let mut execute = harness.nodes.execute("c", "q");
    execute.timeout = Some(Duration::from_millis(100).into());
    execute.detach_on_timeout = true;
    let error = harness.nodes.run(execute).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    harness.nodes.wait("c", NodeState::Ready).await.unwrap();
    assert_eq!(harness.text().await, "user: q\nassistant: late");
}

#[tokio::test]
async fn empty_prompt_is_rejected() {
    let harness = ChatHarness::new(Provider::Openai, Script::default()).await;
    assert_eq!(harness.nodes.send("c", " \n").await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(harness.model.requests().is_empty());
}

#[tokio::test]
async fn api_key_appears_only_in_requests() {
    for provider in Provider::ALL {
        let echo = Answer::error(401, format!("invalid key {KEY}"));
        let mut harness = ChatHarness::new(provider, Script::default().first([echo])).await;
        let error = harness.nodes.send("c", "q").await.unwrap_err();
        assert!(error.message.ends_with("invalid key ***"), "{error}");
        harness.nodes.ask("c", "q").await;
        let info = format!("{:?}", harness.info().await);
        assert!(info.contains("test-model") && !info.contains(KEY), "{info}");
        let history = harness.nodes.history("c").await.join("\n");
        assert!(history.contains("***") && !history.contains(KEY), "{history}");
        while let Ok(event) = harness.nodes.events.try_recv() {
            assert!(!format!("{event:?}").contains(KEY));
        }
    }
}
