//! Proxies of nodes: they attribute requests to turns, hide the API key and end with their node.

mod budgets;
pub(crate) mod harness;
mod rejection;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_api::reply::ModelUsage;
use nerve_node::proxy::{Provider, ProxyPrices, ProxySettings};
use nerve_testkit::harness::SmallDisk;
use nerve_testkit::wait_until_async;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use self::harness::ProxyHarness;
use crate::harness::LIMIT;

#[tokio::test]
async fn requests_are_counted_and_logged_with_their_turn() {
    let harness = ProxyHarness::new().await;
    let prices = Some(ProxyPrices { input: 3.0, output: 15.0 });
    let info = harness
        .create(harness.spec("a", ProxySettings { prices, ..harness.proxy(Provider::Anthropic) }))
        .await
        .unwrap();
    let url = info.metadata.text("proxy_url");
    assert!(url.starts_with("http://127.0.0.1:"), "{info:?}");
    assert_eq!(info.metadata.text("proxy"), "anthropic");
    assert_eq!(format!("http://{}", info.metadata.text("proxy_upstream")), harness.model.url());
    let script = harness.script();
    let answer = harness.nodes.ask("a", &format!("{script} one; {script} two")).await;
    assert!(
        answer.text.contains("You said: one") && answer.text.contains("You said: two"),
        "{}",
        answer.text
    );
    let usage = answer.usage.unwrap();
    assert_eq!(usage.requests, 2);
    let tokens = usage.tokens;
    assert!(tokens.input > 0 && tokens.output > 0, "{usage:?}");
    let cost = (tokens.input as f64 * 3.0 + tokens.output as f64 * 15.0) / 1e6;
    assert!((usage.cost_usd.unwrap() - cost).abs() < 1e-9, "{usage:?}");
    let without_requests = harness.nodes.ask("a", "echo nothing").await;
    assert_eq!(without_requests.usage, Some(ModelUsage::default()));
    let value = answer.into_value();
    assert_eq!(value["usage"]["requests"], 2);
    // Requests outside of turns count only for the node.
    harness
        .nodes
        .engine
        .run_command(
            nerve_api::request::RunCommand {
                node_id: "a".into(),
                command: format!("{script} three"),
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    harness.wait_for_metadata("a", "proxy_requests", "3").await;
    harness.nodes.wait_for_output("a", "You said: three").await;
    harness.nodes.stop("a").await;
    let replies = harness.logged_replies("a");
    let turns: Vec<_> = replies.iter().map(|line| (line["node"].clone(), line["turn"].clone())).collect();
    assert_eq!(turns, [(json!("a"), json!(1)), (json!("a"), json!(1)), (json!("a"), json!(null))]);
    let log = harness.path("proxies/log/test/default/a.jsonl");
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(log.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // The proxy has stopped listening.
    assert!(std::net::TcpStream::connect(url.trim_start_matches("http://")).is_err());
    assert_eq!(fs::read_dir(harness.path("proxies/run/test")).unwrap().count(), 0, "files are left behind");
}

#[tokio::test]
async fn requests_without_token_are_rejected() {
    let harness = ProxyHarness::new().await;
    let mut spec = harness.spec("a", harness.proxy(Provider::Openai));
    spec.history = true;
    harness.create(spec).await.unwrap();
    let script = harness.script();
    let rejected = harness.nodes.ask("a", &format!("{script} hi wrong-token")).await;
    assert!(rejected.text.contains("401") && rejected.text.contains("token"), "{}", rejected.text);
    assert_eq!(rejected.usage, Some(ModelUsage::default()), "the request was counted");
    assert!(harness.model.requests().is_empty());
    let answer = harness.nodes.ask("a", &format!("{script} hi")).await;
    assert!(answer.text.contains("You said: hi"), "{}", answer.text);
    let requests = harness.model.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    let token = harness.nodes.ask("a", "echo ${#ANTHROPIC_AUTH_TOKEN}").await;
    assert_eq!(token.text, "64", "the agent has no token");
    // The token is stored in one private file and nowhere else.
    let token_file = fs::read_dir(harness.path("proxies/run/test")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(token_file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&token_file).unwrap()).unwrap()
        ["token"]
        .as_str()
        .unwrap()
        .to_string();
    assert_eq!(token.len(), 64);
    assert!(!requests.iter().any(|request| format!("{:?}", request.headers).contains(&token)));
    assert!(!format!("{:?}", harness.info("a").await).contains(&token));
    harness.nodes.stop("a").await;
    for folder in ["history", "proxies"] {
        for path in files(&harness.path(folder)) {
            assert!(!fs::read_to_string(&path).unwrap_or_default().contains(&token), "{}", path.display());
        }
    }
}

/// The key in the server's environment is for the proxy, not for its agent.
#[tokio::test]
async fn api_key_is_hidden_from_the_agent() {
    // Uses a variable that cargo sets as the API key.
    let Ok(home) = std::env::var("CARGO_MANIFEST_DIR") else { return };
    let harness = ProxyHarness::new().await;
    // The scripted model does not record keys, so the test has its own upstream.
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = ProxySettings {
        api_key_env: Some("CARGO_MANIFEST_DIR".to_string()),
        base_url: Some(format!("http://{}", upstream.local_addr().unwrap())),
        ..ProxySettings::new(Provider::Anthropic)
    };
    harness.create(harness.spec("a", spec)).await.unwrap();
    let variable = harness.nodes.ask("a", "echo \"[$CARGO_MANIFEST_DIR]\"").await;
    assert_eq!(variable.text, "[]");
    let command = format!("{} hi", harness.script());
    let (answer, request) = tokio::join!(harness.nodes.ask("a", &command), answer_one_request(&upstream));
    assert!(answer.text.contains("it was heard"), "{}", answer.text);
    assert!(request.to_lowercase().contains(&format!("x-api-key: {}\r\n", home.to_lowercase())), "{request}");
    harness.nodes.stop("a").await;
}

/// Answers one request and returns it.
async fn answer_one_request(upstream: &TcpListener) -> String {
    let (mut client, _) = upstream.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"}]}") {
        assert_ne!(client.read_buf(&mut request).await.unwrap(), 0, "truncated request");
    }
    let reply = "HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\nit was heard";
    client.write_all(reply.as_bytes()).await.unwrap();
    String::from_utf8(request).unwrap()
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

#[tokio::test]
async fn interrupted_log_is_a_fault_of_the_node() {
    let harness = ProxyHarness::new().await;
    let folder = harness.path("proxies");
    let test = "interrupted_log_is_a_fault_of_the_node";
    let Some(_disk) = SmallDisk::mount(test, &folder, "64k") else { return };
    harness.create(harness.spec("a", harness.proxy(Provider::Anthropic))).await.unwrap();
    let request = format!("{} again", harness.script());
    harness.nodes.ask("a", &request).await;
    assert_eq!(harness.metadata("a", "faults").await, None);
    assert!(fs::write(folder.join("filler"), vec![1; 1 << 20]).is_err());
    let has_fault = async |words: &str| {
        harness.nodes.ask("a", &request).await;
        harness.metadata("a", "faults").await.is_some_and(|faults| faults.contains(words))
    };
    assert!(wait_until_async(LIMIT, async || has_fault("log of its proxy is interrupted").await).await);
    fs::remove_file(folder.join("filler")).unwrap();
    assert!(wait_until_async(LIMIT, async || has_fault("log of its proxy continues").await).await);
    harness.nodes.stop("a").await;
}
