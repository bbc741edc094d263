//! Turns that go wrong: each says why, and leaves the conversation as it was.

use std::time::{Duration, Instant};

use nerve_core::chat::Provider;
use nerve_core::command::StateName;
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::node::Node;
use nerve_core::session::Session;
use nerve_testkit::mock_model::{Answer, Ending, Raw, Script};

use super::{KEY, SHORT, Talk, alone, answers, begin_of_a_stream, chat, context, within};
use crate::harness::at;

/// One good turn, then this answer to the second; the third goes well again, with the first in it and nothing of the second.
async fn second(provider: Provider, bad: Vec<Answer>, timeout: Option<Duration>) -> (EngineError, usize) {
    let script = Script::default().first([Answer::text("one")].into_iter().chain(bad));
    let talk = Talk::with(provider, script, |chat| chat.retries = 1).await;
    talk.stage.ask("c", "first").await;
    let before = talk.text().await;
    let mut execute = talk.stage.execute("c", "second");
    execute.timeout = timeout.map(Into::into).or(execute.timeout);
    let error = within(talk.stage.run(execute)).await.unwrap_err();
    assert_eq!(talk.text().await, before, "{error}");
    assert_eq!(talk.info().await.state, StateName::Ready);
    let tries = talk.model.requests().len() - 1;
    assert_eq!(talk.stage.ask("c", "third").await.text, "You said: third");
    let sent = talk.sent(tries + 1).to_string();
    assert!(sent.contains("first") && !sent.contains("second"), "{sent}");
    assert!(error.message.starts_with("node 'c': "), "{error}");
    (error, tries)
}

#[tokio::test]
async fn errors_of_the_api_have_its_words_and_their_kind() {
    for provider in Provider::ALL {
        for (status, kind) in [
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Authentication),
            (403, ErrorKind::Permission),
            (404, ErrorKind::NotFound),
            (418, ErrorKind::Api),
        ] {
            let (error, tries) = second(provider, vec![Answer::error(status, "its own words")], None).await;
            assert_eq!((error.kind, tries), (kind, 1), "{error}");
            assert!(error.message.ends_with(&format!("HTTP status {status}: its own words")), "{error}");
        }
    }
}

#[tokio::test]
async fn retries_are_used_up() {
    for provider in Provider::ALL {
        let bad = vec![Answer::status(500, "retry-after", "0"); 2];
        let (error, tries) = second(provider, bad, None).await;
        assert_eq!((error.kind, tries), (ErrorKind::Api, 2));
        assert!(error.message.ends_with("answered with HTTP status 500, after 2 tries"), "{error}");
    }
}

#[tokio::test]
async fn nobody_waits_for_longer_than_the_turn_may_take() {
    let started = Instant::now();
    let (error, tries) =
        second(Provider::Openai, vec![Answer::status(429, "retry-after", "100")], None).await;
    assert_eq!((error.kind, tries), (ErrorKind::RateLimit, 1));
    assert!(error.to_string().contains("retry after 100 seconds"), "{error}");
    let (error, _) = second(Provider::Openai, vec![Answer::status(429, "retry-after", "99999")], None).await;
    assert!(error.to_string().contains("retry after 99999 seconds"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn an_upstream_that_hangs_is_left() {
    for provider in Provider::ALL {
        let silent = Answer::late(Duration::from_secs(600), "never");
        let half = Answer::stream(begin_of_a_stream(provider), Ending::Endless);
        for bad in [silent, half] {
            let started = Instant::now();
            let (error, tries) = second(provider, vec![bad], Some(SHORT)).await;
            assert_eq!((error.kind, tries), (ErrorKind::Timeout, 1), "{error}");
            assert!(error.message.contains("127.0.0.1") && error.message.contains("timed out"), "{error}");
            assert!(started.elapsed() < Duration::from_secs(15));
        }
    }
}

#[tokio::test]
async fn half_an_answer_is_none() {
    for provider in Provider::ALL {
        for ending in [Ending::Whole, Ending::Broken] {
            let bad = vec![Answer::stream(begin_of_a_stream(provider), ending); 2];
            let (error, tries) = second(provider, bad, None).await;
            assert_eq!(
                (error.kind, tries),
                (ErrorKind::Network, 2),
                "nobody heard it: it is asked again: {error}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_heard_is_not_said_twice() {
    for provider in Provider::ALL {
        let half = Answer::stream(begin_of_a_stream(provider), Ending::Broken);
        let model = answers([half]).await;
        let node = alone(chat(provider, &model));
        let (context, chunks) = context(&Session::new("s"), "q");
        let error = node.execute(&context).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network);
        assert_eq!((model.requests().len(), chunks.lock().unwrap().concat().as_str()), (1, "Half an ans"));
        assert!(node.messages().is_empty());
    }
}

#[tokio::test]
async fn what_is_no_answer_is_not_taken_for_one() {
    for provider in Provider::ALL {
        let json = |body: &str| {
            let headers = vec![("content-type".to_string(), "application/json".to_string())];
            Answer::Raw(Raw { status: 200, headers, body: body.into(), ending: Ending::Whole })
        };
        for bad in [
            Answer::stream("data: {\"type\": \n\n", Ending::Whole),
            json("{\"half\": "),
            json("{\"hello\": \"world\"}"),
            json("[1, 2]"),
        ] {
            let (error, tries) = second(provider, vec![bad], None).await;
            assert_eq!((error.kind, tries), (ErrorKind::Api, 1));
            assert!(error.message.contains("sent an invalid answer"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_is_one() {
    let said = begin_of_a_stream(Provider::Anthropic)
        + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"sorry\"}}\n\n";
    let (error, _) = second(Provider::Anthropic, vec![Answer::stream(said, Ending::Whole)], None).await;
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("aborted its answer: sorry"), "{error}");
}

#[tokio::test]
async fn an_answer_has_a_limit() {
    let comment = format!(": {}\n", "x".repeat(1 << 20)).repeat(17);
    let (error, tries) = second(Provider::Openai, vec![Answer::stream(comment, Ending::Whole)], None).await;
    assert_eq!((error.kind, tries), (ErrorKind::Api, 1));
    assert!(error.message.contains("more than 16777216 bytes"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = super::model(Script::default()).await;
    for status in [301, 302, 307, 308] {
        let to = format!("{}/v1/messages?key=secret", elsewhere.url());
        let (error, tries) =
            second(Provider::Anthropic, vec![Answer::status(status, "location", &to)], None).await;
        assert_eq!(tries, 1);
        assert!(
            error.message.contains("redirect to 127.0.0.1") && !error.to_string().contains("secret"),
            "{error}"
        );
        assert!(error.hint.unwrap().contains("redirects are not followed"));
    }
    assert!(elsewhere.requests().is_empty(), "the key went elsewhere");
}

#[tokio::test]
async fn nobody_there_is_said() {
    let model = super::model(Script::default()).await;
    let spec = nerve_core::chat::ChatSpec { retries: 0, ..chat(Provider::Openai, &model) };
    model.shutdown().await.unwrap();
    let (context, _) = context(&Session::new("s"), "q");
    let error = alone(spec).execute(&context).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert!(error.message.contains("cannot be reached") && error.message.contains("refused"), "{error}");
    assert_eq!(context.usage().api_calls(), 1);
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_a_stop_the_node() {
    let silent = || Answer::late(Duration::from_secs(600), "never");
    for provider in Provider::ALL {
        let talk = Talk::new(provider, Script::default().first([silent(), silent()])).await;
        let begin = || {
            let (engine, execute) = (talk.stage.engine.clone(), talk.stage.execute("c", "q"));
            tokio::spawn(async move { engine.run_turn(execute, Default::default()).await })
        };
        let turn = begin();
        talk.stage.wait("c", StateName::Busy).await.unwrap();
        talk.stage.engine.send_interrupt(at("c").into(), Default::default()).await.unwrap();
        assert_eq!(within(turn).await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        talk.stage.wait("c", StateName::Ready).await.unwrap();
        let turn = begin();
        talk.stage.wait("c", StateName::Busy).await.unwrap();
        within(talk.stage.stop("c")).await;
        assert_eq!(within(turn).await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        assert_eq!(talk.stage.send("c", "q").await.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_turn_that_is_left_goes_on() {
    let late = Answer::late(Duration::from_millis(500), "late");
    let talk = Talk::new(Provider::Openai, Script::default().first([late])).await;
    let mut execute = talk.stage.execute("c", "q");
    execute.timeout = Some(Duration::from_millis(100).into());
    execute.detach_on_timeout = true;
    let error = talk.stage.run(execute).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    talk.stage.wait("c", StateName::Ready).await.unwrap();
    assert_eq!(talk.text().await, "user: q\nassistant: late");
}

#[tokio::test]
async fn an_empty_prompt_asks_nothing() {
    let talk = Talk::new(Provider::Openai, Script::default()).await;
    assert_eq!(talk.stage.send("c", " \n").await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(talk.model.requests().is_empty());
}

#[tokio::test]
async fn the_key_is_nowhere_but_in_the_request() {
    for provider in Provider::ALL {
        let echo = Answer::error(401, format!("invalid key {KEY}"));
        let mut talk = Talk::new(provider, Script::default().first([echo])).await;
        let error = talk.stage.send("c", "q").await.unwrap_err();
        assert!(error.message.ends_with("invalid key ***"), "{error}");
        talk.stage.ask("c", "q").await;
        let info = format!("{:?}", talk.info().await);
        assert!(info.contains("test-model") && !info.contains(KEY), "{info}");
        let history = talk.stage.history("c").await.join("\n");
        assert!(history.contains("***") && !history.contains(KEY), "{history}");
        while let Ok(event) = talk.stage.events.try_recv() {
            assert!(!format!("{event:?}").contains(KEY));
        }
    }
}
