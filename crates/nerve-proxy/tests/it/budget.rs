//! Limits of requests, tokens and cost.

use hyper::Method;
use nerve_proxy::{Budget, Prices, ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{MockModel, Script};

use crate::harness::{TestClient, config, message, read_reply};

#[tokio::test]
async fn exhausted_budget_is_refused_without_retry() {
    let model = MockModel::start(Script::default()).await;
    let budget = Budget { max_requests: Some(2), ..Budget::default() };
    let anthropic = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    let openai = create_openai_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    for proxy in [anthropic, openai] {
        let client = TestClient::new(&proxy);
        let before = model.requests().len();
        assert_eq!(
            (client.send_message("one", true).await.status, client.send_message("two", false).await.status),
            (200, 200)
        );
        let refused = client.send_message("three", true).await;
        refused.assert_error(402, "billing_error", "2 requests");
        assert_eq!(refused.headers["x-should-retry"], "false");
        assert_eq!(model.requests().len(), before + 2, "request reached the upstream");
        // Free requests are still accepted.
        assert_eq!(client.post("/v1/messages/count_tokens", &message("x", false)).await.status, 200);
        assert_eq!(read_reply(client.send(Method::HEAD, "/", &[], "").await).await.unwrap().status, 200);
        assert_eq!((proxy.spent().requests, proxy.spent().refused), (2, 1));
    }
}

#[tokio::test]
async fn budget_applies_to_every_path_spelling() {
    let model = MockModel::start(Script::default()).await;
    let budget = Budget { max_requests: Some(0), ..Budget::default() };
    let proxy = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    let (client, body) = (TestClient::new(&proxy), message("hello", false));
    for path in [
        "/api/../v1/messages",
        "/api/%2e%2E/v1/messages",
        "/api/..%2fv1/messages",
        "/api/..%5Cv1%5Cmessages",
        "/api//v1/messages",
        "/api/./v1/messages",
        "/v1/messages/count_tokens/..",
        "/v1/messages/",
    ] {
        client.post(path, &body).await.assert_error(400, "invalid_request_error", "ambiguous");
    }
    for path in ["/v1/%6dessages", "/v1/messages/batches", "/api/v1/messages", "/api/hello"] {
        client.post(path, &body).await.assert_error(402, "billing_error", "0 requests");
    }
    assert!(model.requests().is_empty());
    // Free paths are forwarded; this upstream does not know them.
    assert_eq!(client.post("/api/event_logging/batch?x=//", &body).await.status, 404);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn tokens_and_cost_of_streams_and_whole_answers() {
    let model = MockModel::start(Script::default()).await;
    for stream in [true, false] {
        let budget = Budget { max_tokens: Some(15), ..Budget::default() };
        let proxy = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
        let client = TestClient::new(&proxy);
        assert_eq!(client.send_message("hello", stream).await.status, 200);
        let used = proxy.spent().usage;
        assert!(used.input >= 10 && used.output >= 3, "{used:?}");
        client.send_message("hello", stream).await.assert_error(402, "billing_error", "of 15 tokens");
    }
    let budget = Budget { max_cost_usd: Some(0.000_01), ..Budget::default() };
    let prices = Some(Prices::new(3.0, 15.0));
    let proxy = create_openai_proxy(ProxyConfig { budget, prices, ..config(&model.url()) }).await.unwrap();
    let client = TestClient::new(&proxy);
    assert_eq!(client.send_message("hello", true).await.status, 200);
    assert!(proxy.spent().cost_usd > 0.000_01);
    client.send_message("hello", true).await.assert_error(402, "billing_error", "of $0.0000");
}
