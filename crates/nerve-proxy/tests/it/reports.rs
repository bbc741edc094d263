//! What is told of each request that has ended, and in which turn it began.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Method;
use nerve_proxy::{
    Budget, CallOutcome, CallReport, CurrentTurn, OnCall, Prices, ProxyConfig, create_anthropic_proxy,
    create_openai_proxy,
};
use nerve_testkit::mock_model::Script;

use crate::harness::{Front, Raw, config, message, model, piece, say, whole};

type Reports = Arc<Mutex<Vec<CallReport>>>;

fn hearing(config: ProxyConfig) -> (ProxyConfig, Reports, CurrentTurn) {
    let (reports, turn) = (Reports::default(), CurrentTurn::default());
    let heard = reports.clone();
    let on_call = Some(OnCall::new(move |report: &CallReport| heard.lock().unwrap().push(report.clone())));
    let node = Some("me".to_string());
    (ProxyConfig { on_call, node, turn: turn.clone(), ..config }, reports, turn)
}

#[tokio::test]
async fn each_request_is_told_once_with_its_turn_and_before_its_client_sees_the_end() {
    let model = model(Script::default()).await;
    let prices = Some(Prices::new(3.0, 15.0));
    let budget = Budget { max_requests: Some(2), ..Budget::default() };
    let (config, reports, turn) = hearing(ProxyConfig { prices, budget, ..config(&model.url()) });
    let proxy = create_anthropic_proxy(config).await.unwrap();
    let front = Front::of(&proxy);
    turn.set(Some(7));
    let head = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let reply = front.send(Method::POST, "/v1/messages", &head, message("one", true).to_string()).await;
    assert_eq!(whole(reply).await.unwrap().status, 200);
    // No waiting: it is there when the client has seen all.
    let first = reports.lock().unwrap()[0].clone();
    assert_eq!((first.turn, first.node.as_deref(), first.provider), (Some(7), Some("me"), "anthropic"));
    assert_eq!(
        (first.status, first.outcome, first.spends, first.stream),
        (Some(200), CallOutcome::Whole, true, true)
    );
    assert_eq!(format!("http://{}", first.upstream), model.url());
    assert_eq!(first.traceparent.as_deref(), Some(head[0].1));
    assert!(first.model.is_some() && first.asked_model.is_some() && first.error.is_none());
    let usage = first.usage.unwrap();
    assert!(usage.input > 0 && usage.output > 0 && first.cost_usd.unwrap() > 0.0);
    assert!(first.first.unwrap() <= first.took && first.took < Duration::from_secs(60));
    assert_eq!(proxy.spent().usage, usage);

    turn.set(None);
    assert_eq!(front.ask("two", false).await.status, 200);
    assert_eq!(front.ask("three", false).await.status, 402);
    assert_eq!(front.post("/v1/messages/count_tokens", &message("x", false)).await.status, 200);
    proxy.shutdown().await;
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 4);
    assert!(reports[1..].iter().all(|report| report.turn.is_none()));
    let refused = &reports[2];
    assert_eq!((refused.status, refused.outcome, refused.usage), (Some(402), CallOutcome::Refused, None));
    assert!(refused.error.as_ref().unwrap().contains("budget"));
    assert!(!reports[3].spends, "counting costs nothing");
}

/// Clients are through with the last event; some upstreams keep the body open.
#[tokio::test]
async fn a_stream_is_told_with_its_last_event_even_if_its_body_goes_on() {
    let upstream = Raw::listen().await;
    let (config, reports, _) = hearing(config(&upstream.url()));
    let proxy = create_anthropic_proxy(config).await.unwrap();
    let front = Front::of(&proxy);
    let (mut reply, mut stream) = tokio::join!(
        front.send(Method::POST, "/v1/messages", &[], message("one", true).to_string()),
        async {
            let (_, mut stream) = upstream.request().await;
            say(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
            )
            .await;
            say(&mut stream, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n").await;
            say(&mut stream, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n").await;
            say(&mut stream, "data: {\"type\":\"message_stop\"}\n\n").await;
            stream
        }
    );
    let mut seen = String::new();
    while !seen.contains("message_stop") {
        let piece = piece(&mut reply).await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let told = reports.lock().unwrap().clone();
    assert_eq!(told.iter().map(|report| report.outcome).collect::<Vec<_>>(), [CallOutcome::Whole]);
    let usage = told[0].usage.unwrap();
    assert_eq!((usage.input, usage.output, proxy.spent().usage), (3, 9, usage));
    // What comes after is passed on, and counts nothing.
    say(&mut stream, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n").await;
    drop(stream);
    assert!(whole(reply).await.unwrap().body.contains("50"));
    assert_eq!((reports.lock().unwrap().len(), proxy.spent().usage), (1, usage));
}

#[tokio::test]
async fn both_who_want_to_know_are_told() {
    let model = model(Script::default()).await;
    let (config, reports, _) = hearing(config(&model.url()));
    let (other, also, _) = hearing(config.clone());
    let both = config.on_call.clone().unwrap().and(other.on_call.unwrap());
    let proxy = create_openai_proxy(ProxyConfig { on_call: Some(both), ..config }).await.unwrap();
    assert_eq!(Front::of(&proxy).ask("one", true).await.status, 200);
    assert_eq!((reports.lock().unwrap().len(), also.lock().unwrap().len()), (1, 1));
    assert_eq!(reports.lock().unwrap()[0].provider, "openai");
}
