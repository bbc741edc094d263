//! Authentication and checks of Host and Origin over HTTP.

use std::time::{Duration, Instant};

use http::StatusCode;
use nerve_server::access::token::TokenFile;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{HttpResponse, HttpServer};
use super::http2::Http2;
use crate::harness::{DEADLINE, paths};

fn request(path: &str, headers: &[(&str, &str)]) -> String {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET {path} HTTP/1.1\r\n{}Connection: close\r\n\r\n", lines.concat())
}

#[tokio::test]
async fn nothing_is_answered_without_the_right_token() {
    let server = HttpServer::start();
    let host = server.address.to_string();
    let token = server.token.as_str();
    let truncated = format!("Bearer {}", &token[..token.len() - 1]);
    let longer = format!("Bearer {token}0");
    let basic = format!("Basic {token}");
    let mut requests = Vec::new();
    for given in ["", "Bearer", "Bearer ", &truncated, &longer, &basic, token] {
        requests.push(request("/nodes", &[("Host", &host), ("Authorization", given)]));
    }
    for path in ["/nodes", "/api/command", "/api/events", "/events", "/nowhere"] {
        requests.push(request(path, &[("Host", &host)]));
    }
    // Concurrently, since each answer is delayed more than the one before.
    for response in futures_util::future::join_all(requests.iter().map(|bytes| server.raw(bytes))).await {
        let detail = response.problem(401, "authentication_error");
        assert!(detail.contains("nerve token show"), "{detail}");
        assert!(!detail.contains(token));
        assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"));
    }
    let good = format!("Bearer {token}");
    let response = server.raw(request("/nodes", &[("Host", &host), ("Authorization", &good)])).await;
    assert_eq!(response.status, 200, "{response:?}");
    server.stop().await;
}

#[tokio::test]
async fn old_token_is_rejected_at_once() {
    let server = HttpServer::start();
    assert_eq!(server.get("/nodes").await.status, 200);
    rotate_token(&server);
    server.get("/nodes").await.problem(401, "authentication_error");
    server.stop().await;
}

#[tokio::test]
async fn token_change_closes_idle_connections() {
    let server = HttpServer::start();
    let mut idle = server.connect().await;
    let request = format!("{}\r\n", server.head("GET", "/nodes"));
    idle.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut idle).await.status, 200);
    let mut http2 = Http2::connect(&server).await;
    assert_eq!(http2.request("GET", "/nodes", Value::Null).await.0, StatusCode::OK);
    // It has used no token, so it may stay.
    let mut open = server.connect().await;
    let health = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    open.write_all(health.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut open).await.status, 200);
    let changed = Instant::now();
    rotate_token(&server);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(DEADLINE, idle.read_to_end(&mut rest)).await;
    assert!(closed.is_ok() && rest.is_empty(), "HTTP/1.1 is open: {rest:?}");
    let closed = tokio::time::timeout(DEADLINE, &mut http2.connection).await;
    assert!(closed.is_ok(), "HTTP/2 is open");
    // The idle timeout would have closed them later.
    assert!(changed.elapsed() < Duration::from_secs(30), "{:?}", changed.elapsed());
    open.write_all(health.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut open).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn request_that_runs_is_answered_despite_token_change() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let marker = server.home().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.02; done; echo late", marker.display());
    let body = json!({ "text": text }).to_string();
    let head = server.head("POST", "/nodes/sh/execute");
    let mut busy = server.connect().await;
    busy.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let mut idle = server.connect().await;
    idle.write_all(format!("{}\r\n", server.head("GET", "/nodes")).as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut idle).await.status, 200);
    rotate_token(&server);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(DEADLINE, idle.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the idle connection is open");
    std::fs::write(marker, "").unwrap();
    let response = HttpResponse::read(&mut busy).await;
    assert!(response.status == 200 && response.json().to_string().contains("late"), "{response:?}");
    let closed = tokio::time::timeout(DEADLINE, busy.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is open after its last response");
    server.stop().await;
}

fn rotate_token(server: &HttpServer) {
    TokenFile::new(paths(server.home()).token()).rotate().unwrap();
}

#[tokio::test]
async fn foreign_host_or_origin_is_rejected_despite_token() {
    let server = HttpServer::start_with(|config| config.http_names = vec!["nerve.example".to_string()]);
    let host = server.address.to_string();
    let port = server.address.port();
    let bearer = format!("Bearer {}", server.token);
    let localhost = format!("localhost:{port}");
    let configured_name = format!("nerve.example:{port}");
    let token = ("Authorization", bearer.as_str());
    for good in [host.as_str(), &localhost, "localhost", "[::1]:1", &configured_name] {
        let response = server.raw(request("/nodes", &[("Host", good), token])).await;
        assert_eq!(response.status, 200, "{good}: {response:?}");
    }
    for bad in ["evil.example", "localhost.evil.example", "10.0.0.1", "nerve.example.evil.example"] {
        for path in ["/nodes", "/health", "/docs", "/api/events", "/events"] {
            let response = server.raw(request(path, &[("Host", bad), token])).await;
            response.problem(403, "permission_error");
        }
    }
    let own = format!("http://{localhost}");
    let response = server.raw(request("/nodes", &[("Host", &localhost), token, ("Origin", &own)])).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("access-control-allow-origin"), None);
    for bad in ["http://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil.example"] {
        for path in ["/nodes", "/health", "/api/events", "/events"] {
            let response = server.raw(request(path, &[("Host", &localhost), token, ("Origin", bad)])).await;
            response.problem(403, "permission_error");
            assert_eq!(response.header("access-control-allow-origin"), None);
        }
    }
    let two = server.raw(request("/nodes", &[("Host", &host), ("Host", "localhost"), token])).await;
    assert_eq!(two.status, 400);
    let none = server.raw(request("/nodes", &[token])).await;
    assert_eq!(none.status, 400);
    // The request line takes precedence over Host.
    let line = format!(
        "GET http://evil.example/nodes HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(server.raw(line).await.status, 400);
    // A CORS preflight of another site is not allowed.
    let preflight = format!(
        "OPTIONS /nodes HTTP/1.1\r\nHost: {localhost}\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(server.raw(preflight).await.status, 403);
    server.stop().await;
}

#[tokio::test]
async fn health_and_docs_need_no_token_and_reveal_nothing() {
    let server = HttpServer::start();
    server.bash("secret-node").await;
    let host = server.address.to_string();
    let health = server.raw(request("/health", &[("Host", &host)])).await;
    assert_eq!(health.json(), json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }));
    let docs = server.raw(request("/docs", &[("Host", &host)])).await;
    let page = String::from_utf8(docs.body.clone()).unwrap();
    assert!(
        page.contains("/nodes/{node_id}/execute")
            && !page.contains("<script")
            && !page.contains("secret-node")
    );
    assert!(!page.contains("//"), "page loads external resources");
    assert!(docs.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let description = server.raw(request("/openapi.json", &[("Host", &host)])).await;
    assert_eq!(description.json()["openapi"], "3.1.0");
    let mut stream = server.connect().await;
    tokio::io::AsyncWriteExt::write_all(
        &mut stream,
        format!("HEAD /nodes HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
    )
    .await
    .unwrap();
    assert_eq!(super::client::read_head(&mut stream).await.0, 401);
    server.stop().await;
}

#[tokio::test]
async fn request_id_of_client_is_returned() {
    let server = HttpServer::start();
    let head = server.head("GET", "/nodes/absent");
    let response = server.raw(format!("{head}X-Request-Id: build-7\r\nConnection: close\r\n\r\n")).await;
    response.problem(404, "not_found_error");
    assert_eq!(response.header("x-request-id"), Some("build-7"));
    let own = server.get("/nodes").await;
    let other = server.get("/nodes").await;
    assert!(
        own.header("x-request-id").is_some() && own.header("x-request-id") != other.header("x-request-id")
    );
    assert_eq!(own.header("cache-control"), Some("no-store"));
    let token = server.get(&format!("/nodes?token={}", server.token)).await;
    let detail = token.problem(400, "invalid_request_error");
    assert!(detail.contains("Authorization") && !detail.contains(&server.token), "{detail}");
    let none: Value = server.get("/nodes").await.json();
    assert_eq!(none["nodes"], json!([]));
    server.stop().await;
}
