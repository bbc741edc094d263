//! A proxy of a node's own: what passes is its turns', it has no key to spend, and it ends with its node.

mod budgets;
pub(crate) mod harness;
mod rejection;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_core::proxy::{ProxyKind, ProxyPrices, ProxySpec, TurnUsage};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use self::harness::Scene;

#[tokio::test]
async fn what_passes_is_counted_for_its_turn_and_logged_with_it() {
    let scene = Scene::new().await;
    let prices = Some(ProxyPrices { input: 3.0, output: 15.0 });
    let info = scene
        .create(scene.spec("a", ProxySpec { prices, ..scene.proxy(ProxyKind::Anthropic) }))
        .await
        .unwrap();
    let url = &info.metadata["proxy_url"];
    assert!(url.starts_with("http://127.0.0.1:"), "{info:?}");
    assert_eq!(info.metadata["proxy"], "anthropic");
    assert_eq!(format!("http://{}", info.metadata["proxy_upstream"]), scene.model.url());
    let ask = scene.ask();
    let answer = scene.stage.ask("a", &format!("{ask} one; {ask} two")).await;
    assert!(
        answer.text.contains("You said: one") && answer.text.contains("You said: two"),
        "{}",
        answer.text
    );
    let usage = answer.usage.unwrap();
    assert_eq!(usage.requests, 2);
    assert!(usage.input > 0 && usage.output > 0, "{usage:?}");
    let cost = (usage.input as f64 * 3.0 + usage.output as f64 * 15.0) / 1e6;
    assert!((usage.cost_usd.unwrap() - cost).abs() < 1e-9, "{usage:?}");
    let quiet = scene.stage.ask("a", "echo nothing").await;
    assert_eq!(quiet.usage, Some(TurnUsage::default()));
    let value = answer.into_value();
    assert_eq!(value["usage"]["requests"], 2);
    // Outside of turns it counts for the node alone.
    scene
        .stage
        .engine
        .run_command(
            nerve_api::request::RunCommand {
                node_id: "a".into(),
                command: format!("{ask} three"),
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    scene.until("a", "proxy_requests", "3").await;
    scene.stage.shows("a", "You said: three").await;
    scene.stage.stop("a").await;
    let replies = scene.replies("a");
    let turns: Vec<_> = replies.iter().map(|line| (line["node"].clone(), line["turn"].clone())).collect();
    assert_eq!(turns, [(json!("a"), json!(1)), (json!("a"), json!(1)), (json!("a"), json!(null))]);
    let log = scene.at("proxies/log/test/default/a.jsonl");
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(log.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // Nobody listens any more.
    assert!(std::net::TcpStream::connect(url.trim_start_matches("http://")).is_err());
    assert_eq!(fs::read_dir(scene.at("proxies/run/test")).unwrap().count(), 0, "nothing is kept of it");
}

#[tokio::test]
async fn who_has_no_token_cannot_spend_its_key() {
    let scene = Scene::new().await;
    let mut spec = scene.spec("a", scene.proxy(ProxyKind::Openai));
    spec.history = true;
    scene.create(spec).await.unwrap();
    let ask = scene.ask();
    let stranger = scene.stage.ask("a", &format!("{ask} hi wrong-token")).await;
    assert!(stranger.text.contains("401") && stranger.text.contains("token"), "{}", stranger.text);
    assert_eq!(stranger.usage, Some(TurnUsage::default()), "nothing was asked of the model");
    assert!(scene.model.requests().is_empty());
    let answer = scene.stage.ask("a", &format!("{ask} hi")).await;
    assert!(answer.text.contains("You said: hi"), "{}", answer.text);
    let asked = scene.model.requests();
    assert_eq!(asked[0].path, "/v1/chat/completions");
    let token = scene.stage.ask("a", "echo ${#ANTHROPIC_AUTH_TOKEN}").await;
    assert_eq!(token.text, "64", "it has one");
    // It is in one file, which nobody else reads, and nowhere else.
    let kept = fs::read_dir(scene.at("proxies/run/test")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token =
        serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&kept).unwrap()).unwrap()["token"]
            .as_str()
            .unwrap()
            .to_string();
    assert_eq!(token.len(), 64);
    assert!(!asked.iter().any(|request| format!("{:?}", request.headers).contains(&token)));
    assert!(!format!("{:?}", scene.info("a").await).contains(&token));
    scene.stage.stop("a").await;
    for folder in ["history", "proxies"] {
        for path in files(&scene.at(folder)) {
            assert!(!fs::read_to_string(&path).unwrap_or_default().contains(&token), "{}", path.display());
        }
    }
}

/// The key is the proxy's: its agent does not get it with the server's environment.
#[tokio::test]
async fn the_agent_does_not_get_the_key() {
    // nextest runs each test in a process of its own; the key of this one is a variable that is there anyway.
    let Ok(home) = std::env::var("CARGO_MANIFEST_DIR") else { return };
    let scene = Scene::new().await;
    // The scripted model keeps no keys: an upstream that does.
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = ProxySpec {
        api_key_env: Some("CARGO_MANIFEST_DIR".to_string()),
        base_url: Some(format!("http://{}", upstream.local_addr().unwrap())),
        ..ProxySpec::new(ProxyKind::Anthropic)
    };
    scene.create(scene.spec("a", spec)).await.unwrap();
    let has = scene.stage.ask("a", "echo \"[$CARGO_MANIFEST_DIR]\"").await;
    assert_eq!(has.text, "[]");
    let command = format!("{} hi", scene.ask());
    let (answer, asked) = tokio::join!(scene.stage.ask("a", &command), answer_once(&upstream));
    assert!(answer.text.contains("it was heard"), "{}", answer.text);
    assert!(asked.to_lowercase().contains(&format!("x-api-key: {}\r\n", home.to_lowercase())), "{asked}");
    scene.stage.stop("a").await;
}

/// Answers one request, and gives what came of it.
async fn answer_once(upstream: &TcpListener) -> String {
    let (mut client, _) = upstream.accept().await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"}]}") {
        assert_ne!(client.read_buf(&mut asked).await.unwrap(), 0, "it ended early");
    }
    let reply = "HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\nit was heard";
    client.write_all(reply.as_bytes()).await.unwrap();
    String::from_utf8(asked).unwrap()
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}
