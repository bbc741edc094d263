//! Reports about ended requests and their turns.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Method;
use nerve_proxy::{
    Budget, CallObserver, CallOutcome, CallReport, CurrentTurn, Prices, ProxyConfig, create_anthropic_proxy,
    create_openai_proxy,
};
use nerve_testkit::mock_model::{MockModel, Script};

use crate::harness::{RawUpstream, TestClient, config, message, next_piece, read_reply, write};

type Reports = Arc<Mutex<Vec<CallReport>>>;

fn with_reports(config: ProxyConfig) -> (ProxyConfig, Reports, CurrentTurn) {
    let (reports, turn) = (Reports::default(), CurrentTurn::default());
    let sink = reports.clone();
    let on_call =
        Some(CallObserver::new(move |report: &CallReport| sink.lock().unwrap().push(report.clone())));
    let node = Some("me".to_string());
    (ProxyConfig { on_call, node, turn: turn.clone(), ..config }, reports, turn)
}

#[tokio::test]
async fn request_is_reported_once_before_its_response_ends() {
    let model = MockModel::start(Script::default()).await;
    let prices = Some(Prices::new(3.0, 15.0));
    let budget = Budget { max_requests: Some(2), ..Budget::default() };
    let (config, reports, turn) = with_reports(ProxyConfig { prices, budget, ..config(&model.url()) });
    let proxy = create_anthropic_proxy(config).await.unwrap();
    let client = TestClient::new(&proxy);
    turn.set(Some(7));
    let head = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let reply = client.send(Method::POST, "/v1/messages", &head, message("one", true).to_string()).await;
    assert_eq!(read_reply(reply).await.unwrap().status, 200);
    // The report exists as soon as the client has seen the whole response.
    let first = reports.lock().unwrap()[0].clone();
    assert_eq!((first.turn, first.node.as_deref(), first.provider), (Some(7), Some("me"), "anthropic"));
    assert_eq!(
        (first.status, first.outcome, first.spends, first.stream),
        (Some(200), CallOutcome::Whole, true, true)
    );
    assert_eq!(format!("http://{}", first.upstream), model.url());
    assert_eq!(first.traceparent.as_deref(), Some(head[0].1));
    assert!(first.model.is_some() && first.requested_model.is_some() && first.error.is_none());
    let usage = first.usage.unwrap();
    assert!(usage.input > 0 && usage.output > 0 && first.cost_usd.unwrap() > 0.0);
    assert!(first.first.unwrap() <= first.took && first.took < Duration::from_secs(60));
    assert_eq!(proxy.spent().usage, usage);

    turn.set(None);
    assert_eq!(client.send_message("two", false).await.status, 200);
    assert_eq!(client.send_message("three", false).await.status, 402);
    assert_eq!(client.post("/v1/messages/count_tokens", &message("x", false)).await.status, 200);
    proxy.shutdown().await;
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 4);
    assert!(reports[1..].iter().all(|report| report.turn.is_none()));
    let refused = &reports[2];
    assert_eq!((refused.status, refused.outcome, refused.usage), (Some(402), CallOutcome::Refused, None));
    assert!(refused.error.as_ref().unwrap().contains("budget"));
    assert!(!reports[3].spends, "count_tokens has a cost");
}

/// Clients stop reading after the last event; some upstreams keep the body open.
#[tokio::test]
async fn stream_is_reported_at_its_last_event() {
    let upstream = RawUpstream::listen().await;
    let (config, reports, _) = with_reports(config(&upstream.url()));
    let proxy = create_anthropic_proxy(config).await.unwrap();
    let client = TestClient::new(&proxy);
    let (mut reply, mut stream) = tokio::join!(
        client.send(Method::POST, "/v1/messages", &[], message("one", true).to_string()),
        async {
            let (_, mut stream) = upstream.request().await;
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
            )
            .await;
            write(&mut stream, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n").await;
            write(&mut stream, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n")
                .await;
            write(&mut stream, "data: {\"type\":\"message_stop\"}\n\n").await;
            stream
        }
    );
    let mut received = String::new();
    while !received.contains("message_stop") {
        let piece = next_piece(&mut reply).await.unwrap().unwrap();
        received.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let first_reports = reports.lock().unwrap().clone();
    assert_eq!(first_reports.iter().map(|report| report.outcome).collect::<Vec<_>>(), [CallOutcome::Whole]);
    let usage = first_reports[0].usage.unwrap();
    assert_eq!((usage.input, usage.output, proxy.spent().usage), (3, 9, usage));
    // Later data is forwarded but not counted.
    write(&mut stream, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n").await;
    drop(stream);
    assert!(read_reply(reply).await.unwrap().body.contains("50"));
    assert_eq!((reports.lock().unwrap().len(), proxy.spent().usage), (1, usage));
}

#[tokio::test]
async fn both_callbacks_are_called() {
    let model = MockModel::start(Script::default()).await;
    let (config, reports, _) = with_reports(config(&model.url()));
    let (other, other_reports, _) = with_reports(config.clone());
    let both = config.on_call.clone().unwrap().chain(other.on_call.unwrap());
    let proxy = create_openai_proxy(ProxyConfig { on_call: Some(both), ..config }).await.unwrap();
    assert_eq!(TestClient::new(&proxy).send_message("one", true).await.status, 200);
    assert_eq!((reports.lock().unwrap().len(), other_reports.lock().unwrap().len()), (1, 1));
    assert_eq!(reports.lock().unwrap()[0].provider, "openai");
}
