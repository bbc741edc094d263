//! Limits.

use hyper::Method;
use nerve_proxy::{Budget, Prices, ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::Script;

use crate::harness::{Front, config, message, model, whole};

#[tokio::test]
async fn what_is_used_up_is_refused_and_not_worth_trying_again() {
    let model = model(Script::default()).await;
    let budget = Budget { max_requests: Some(2), ..Budget::default() };
    let anthropic = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    let openai = create_openai_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    for proxy in [anthropic, openai] {
        let front = Front::of(&proxy);
        let before = model.requests().len();
        assert_eq!((front.ask("one", true).await.status, front.ask("two", false).await.status), (200, 200));
        let refused = front.ask("three", true).await;
        refused.says(402, "billing_error", "2 requests");
        assert_eq!(refused.headers["x-should-retry"], "false");
        assert_eq!(model.requests().len(), before + 2, "the upstream is not asked");
        // What costs nothing goes on.
        assert_eq!(front.post("/v1/messages/count_tokens", &message("x", false)).await.status, 200);
        assert_eq!(whole(front.send(Method::HEAD, "/", &[], "").await).await.unwrap().status, 200);
        assert_eq!((proxy.spent().requests, proxy.spent().refused), (2, 1));
    }
}

#[tokio::test]
async fn a_budget_holds_however_a_path_is_written() {
    let model = model(Script::default()).await;
    let budget = Budget { max_requests: Some(0), ..Budget::default() };
    let proxy = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
    let (front, body) = (Front::of(&proxy), message("hello", false));
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
        front.post(path, &body).await.says(400, "invalid_request_error", "more than one way");
    }
    for path in ["/v1/%6dessages", "/v1/messages/batches", "/api/v1/messages", "/api/hello"] {
        front.post(path, &body).await.says(402, "billing_error", "0 requests");
    }
    assert!(model.requests().is_empty());
    // What is known to cost nothing goes on; this upstream does not know it.
    assert_eq!(front.post("/api/event_logging/batch?x=//", &body).await.status, 404);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn tokens_and_cost_are_counted_off_streams_and_whole_answers() {
    let model = model(Script::default()).await;
    for stream in [true, false] {
        let budget = Budget { max_tokens: Some(15), ..Budget::default() };
        let proxy = create_anthropic_proxy(ProxyConfig { budget, ..config(&model.url()) }).await.unwrap();
        let front = Front::of(&proxy);
        assert_eq!(front.ask("hello", stream).await.status, 200);
        let used = proxy.spent().usage;
        assert!(used.input >= 10 && used.output >= 3, "{used:?}");
        front.ask("hello", stream).await.says(402, "billing_error", "of 15 tokens");
    }
    let budget = Budget { max_cost_usd: Some(0.000_01), ..Budget::default() };
    let prices = Some(Prices::new(3.0, 15.0));
    let proxy = create_openai_proxy(ProxyConfig { budget, prices, ..config(&model.url()) }).await.unwrap();
    let front = Front::of(&proxy);
    assert_eq!(front.ask("hello", true).await.status, 200);
    assert!(proxy.spent().cost_usd > 0.000_01);
    front.ask("hello", true).await.says(402, "billing_error", "of $0.0000");
}
