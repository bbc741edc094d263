//! The web console: logins with one-time codes, sessions and their roles, and the files of the page.

use std::fs;

use nerve_server::access::token::TokenFile;
use nerve_server::web::{Role, SharedNode, WebLogins};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::client::{HttpResponse, HttpServer, read_head};
use crate::harness::{DEADLINE, paths};

/// A browser: it keeps the cookie, and sends what browsers send.
pub(super) struct Browser<'a> {
    server: &'a HttpServer,
    pub(super) cookie: String,
}

impl<'a> Browser<'a> {
    fn new(server: &'a HttpServer) -> Browser<'a> {
        Browser { server, cookie: String::new() }
    }

    /// Logs in with a new code.
    pub(super) async fn logged_in(server: &'a HttpServer, role: Role) -> Browser<'a> {
        let mut browser = Browser::new(server);
        let code = logins(server).create_code(role).unwrap().code;
        let response = browser.log_in(&code).await;
        assert_eq!((response.status, &response.json()["role"]), (200, &json!(role)), "{response:?}");
        browser
    }

    /// Opens the link of a new share of a node.
    pub(super) async fn visitor(server: &'a HttpServer, node: &str) -> Browser<'a> {
        let node = SharedNode { session_id: "default".to_string(), node_id: node.to_string() };
        let shared = logins(server).create_share(node, DEADLINE).unwrap();
        let mut visitor = Browser::new(server);
        let response = visitor.send("POST", "/web/login", json!({ "share": shared.secret })).await;
        visitor.cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
        visitor
    }

    async fn log_in(&mut self, code: &str) -> HttpResponse {
        let response = self.send("POST", "/web/login", json!({ "code": code })).await;
        if let Some(cookie) = response.header("set-cookie") {
            self.cookie = cookie.split(';').next().unwrap().to_string();
        }
        response
    }

    /// Sends a request of the server's own page.
    pub(super) async fn send(&self, method: &str, path: &str, body: Value) -> HttpResponse {
        let origin = format!("Origin: http://{}\r\nContent-Type: application/json\r\n", self.server.address);
        self.send_with(method, path, &origin, body).await
    }

    pub(super) async fn get(&self, path: &str) -> HttpResponse {
        self.send_with("GET", path, "", Value::Null).await
    }

    async fn send_with(&self, method: &str, path: &str, headers: &str, body: Value) -> HttpResponse {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = self.head(method, path, headers);
        self.server
            .raw(format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()))
            .await
    }

    pub(super) fn head(&self, method: &str, path: &str, headers: &str) -> String {
        let cookie =
            if self.cookie.is_empty() { String::new() } else { format!("Cookie: {}\r\n", self.cookie) };
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{cookie}{headers}", self.server.address)
    }

    /// Returns the role that the server finds for the cookie.
    async fn role(&self) -> Value {
        self.get("/web/session").await.json()["role"].clone()
    }
}

pub(super) fn logins(server: &HttpServer) -> WebLogins {
    WebLogins::new(&paths(server.home()), "test").unwrap()
}

#[tokio::test]
async fn code_logs_in_once() {
    let server = HttpServer::start();
    let mut browser = Browser::new(&server);
    browser.get("/nodes").await.problem(401, "authentication_error");
    assert_eq!(browser.role().await, Value::Null);
    let code = logins(&server).create_code(Role::Full).unwrap().code;
    let response = browser.log_in(&code).await;
    let cookie = response.header("set-cookie").unwrap();
    let (name, secret) = browser.cookie.split_once('=').unwrap();
    assert_eq!((name, secret.len()), ("nerve-session-test", 64));
    for attribute in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.split("; ").any(|found| found == attribute), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(browser.get("/nodes").await.json()["nodes"], json!([]));
    assert_eq!(browser.role().await, "full");

    let detail = Browser::new(&server).log_in(&code).await.problem(401, "authentication_error");
    assert!(detail.contains("already used") && detail.contains("nerve web"), "{detail}");
    let detail = Browser::new(&server).log_in(&"0".repeat(32)).await.problem(401, "authentication_error");
    assert!(detail.contains("wrong"), "{detail}");
    server.stop().await;
}

#[tokio::test]
async fn cookie_is_secure_behind_a_proxy_with_tls() {
    let server = HttpServer::start_with(|config| config.http_names = vec!["host.example".to_string()]);
    let mut browser = Browser::new(&server);
    let body = json!({ "code": logins(&server).create_code(Role::Full).unwrap().code }).to_string();
    let head = "POST /web/login HTTP/1.1\r\nHost: host.example\r\nOrigin: https://host.example\r\nContent-Type: application/json";
    let length = body.len();
    let response =
        server.raw(format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")).await;
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-nerve-session-test=") && cookie.ends_with("; Secure"), "{cookie}");
    browser.cookie = cookie.split(';').next().unwrap().to_string();
    assert_eq!(browser.role().await, "full");
    let response = browser.send("POST", "/web/logout", json!({})).await;
    let removed = response.header("set-cookie").unwrap();
    assert!(
        removed.starts_with("__Host-nerve-session-test=; ") && removed.contains("Max-Age=0"),
        "{removed}"
    );
    server.stop().await;
}

#[tokio::test]
async fn expired_code_is_refused() {
    let server = HttpServer::start();
    let code = logins(&server).create_code(Role::Full).unwrap().code;
    let folder = paths(server.home()).web().join("test/codes");
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    record["expires_at"] = json!("2020-01-01T00:00:00.000Z");
    fs::write(&file, record.to_string()).unwrap();
    let mut browser = Browser::new(&server);
    let detail = browser.log_in(&code).await.problem(401, "authentication_error");
    assert!(detail.contains("expired"), "{detail}");
    assert_eq!(browser.cookie, "");
    server.stop().await;
}

#[tokio::test]
async fn push_subscription_lives_as_long_as_its_session() {
    let server = HttpServer::start();
    let stored = || {
        let folder = paths(server.home()).web().join("test/sessions");
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|found| found == "push")).count()
    };
    let keys = json!({ "p256dh": format!("B{}", "A".repeat(86)), "auth": "A".repeat(22) });
    let subscription = json!({ "endpoint": "https://push.invalid/1", "keys": keys });
    Browser::new(&server)
        .send("POST", "/web/push", subscription.clone())
        .await
        .problem(401, "authentication_error");
    let browser = Browser::logged_in(&server, Role::View).await;
    assert!(browser.get("/web/session").await.json()["push_key"].is_string());
    for invalid in [json!({}), json!({ "endpoint": "http://127.0.0.1:1/", "keys": keys })] {
        browser.send("POST", "/web/push", invalid).await.problem(400, "invalid_request_error");
    }
    assert_eq!(stored(), 0);
    for _ in 0..2 {
        assert_eq!(browser.send("POST", "/web/push", subscription.clone()).await.status, 204);
        assert_eq!(stored(), 1);
    }
    assert_eq!(browser.send("DELETE", "/web/push", Value::Null).await.status, 204);
    assert_eq!(stored(), 0);
    browser.send("POST", "/web/push", subscription).await;
    browser.send("POST", "/web/logout", json!({})).await;
    assert_eq!(stored(), 0);
    server.stop().await;
}

#[tokio::test]
async fn share_shows_one_node_until_it_is_revoked() {
    let server = HttpServer::start();
    for node in ["me", "other"] {
        server.bash(node).await;
    }
    let node = SharedNode { session_id: "default".to_string(), node_id: "me".to_string() };
    let shared = logins(&server).create_share(node, DEADLINE).unwrap();
    let mut visitor = Browser::new(&server);
    let response = visitor.send("POST", "/web/login", json!({ "share": shared.secret })).await;
    visitor.cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
    let node = json!({ "session_id": "default", "node_id": "me" });
    assert_eq!(response.json(), json!({ "role": "view", "share": node }));
    assert_eq!(visitor.get("/web/session").await.json()["share"], node);
    for path in ["/nodes/me?session=default", "/nodes/me/transcript?session=default"] {
        assert_eq!(visitor.get(path).await.status, 200, "{path}");
    }
    for path in [
        "/nodes",
        "/nodes/me",
        "/nodes/other?session=default",
        "/nodes/me?session=other",
        "/nodes/me?session=default&session=other",
        "/nodes/m%65?session=default",
        "/nodes/me/history?session=default",
        "/nodes/me/../other?session=default",
        "/events?session=default",
        "/events?session=default&node=other",
        "/recordings",
        "/api/events",
        "/mcp",
    ] {
        visitor.get(path).await.problem(403, "permission_error");
    }
    visitor
        .send("POST", "/nodes/me/execute?session=default", json!({}))
        .await
        .problem(403, "permission_error");
    visitor.send("POST", "/web/push", json!({})).await.problem(403, "permission_error");
    for path in
        ["/nodes/me?session=default&session_id=other", "/events?session=default&node=me&node_id=other"]
    {
        assert!(visitor.get(path).await.status >= 400, "{path}");
    }

    // A login is not replaced by a link that permits less.
    let owner = Browser::logged_in(&server, Role::Full).await;
    let kept = owner.send("POST", "/web/login", json!({ "share": shared.secret })).await;
    assert_eq!((kept.json()["role"].as_str(), kept.header("set-cookie")), (Some("full"), None));

    logins(&server).revoke_share(&shared.share.share_id).unwrap();
    visitor.get("/nodes/me?session=default").await.problem(401, "authentication_error");
    let again = Browser::new(&server).send("POST", "/web/login", json!({ "share": shared.secret })).await;
    again.problem(401, "authentication_error");
    assert_eq!(owner.role().await, "full");
    server.stop().await;
}

#[tokio::test]
async fn login_needs_json_from_own_page() {
    let server = HttpServer::start();
    let browser = Browser::new(&server);
    let body = json!({ "code": logins(&server).create_code(Role::Full).unwrap().code });
    let form = "Content-Type: text/plain\r\n";
    browser.send_with("POST", "/web/login", form, body.clone()).await.problem(400, "invalid_request_error");
    let foreign = "Origin: http://evil.example\r\nContent-Type: application/json\r\n";
    browser.send_with("POST", "/web/login", foreign, body.clone()).await.problem(403, "permission_error");
    browser.send("POST", "/web/login", json!({ "cod": 1 })).await.problem(400, "invalid_request_error");
    // None of them has used the code.
    assert_eq!(browser.send("POST", "/web/login", body).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn login_accepts_only_a_small_body() {
    let server = HttpServer::start();
    let browser = Browser::new(&server);
    let announced = format!(
        "Origin: http://{}\r\nContent-Type: application/json\r\nContent-Length: 1025\r\n\r\n",
        server.address
    );
    // The answer does not wait for the body.
    let response = server.raw(browser.head("POST", "/web/login", &announced)).await;
    response.problem(413, "too_large");
    server.stop().await;
}

#[tokio::test]
async fn requests_of_other_pages_are_refused_despite_cookie() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::Full).await;
    let create = json!({ "node_id": "a", "backend": "bash" });
    let own = format!("Origin: http://{}\r\n", server.address);
    let json_kind = "Content-Type: application/json\r\n";
    let refused = [
        ("POST", "/nodes", json_kind.to_string()),
        ("POST", "/nodes", format!("Origin: http://127.0.0.1:1\r\n{json_kind}")),
        ("POST", "/nodes", format!("Origin: null\r\n{json_kind}")),
        ("POST", "/nodes", format!("{own}Content-Type: text/plain\r\n")),
        ("POST", "/nodes", own.clone()),
        ("POST", "/nodes", format!("{own}{json_kind}Sec-Fetch-Site: same-site\r\n")),
        ("POST", "/api/shutdown", json_kind.to_string()),
        ("GET", "/nodes", "Sec-Fetch-Site: cross-site\r\n".to_string()),
        ("GET", "/events", "Origin: http://localhost:1\r\n".to_string()),
        ("DELETE", "/nodes/a", String::new()),
    ];
    for (method, path, headers) in refused {
        let body = if method == "POST" { create.clone() } else { Value::Null };
        browser.send_with(method, path, &headers, body).await.problem(403, "permission_error");
    }
    let upgrade =
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for origin in ["", "Origin: http://localhost:1\r\n"] {
        let head = browser.head("GET", "/api/events", &format!("{upgrade}{origin}"));
        let response = server.raw(format!("{head}Connection: Upgrade\r\n\r\n")).await;
        response.problem(403, "permission_error");
    }
    assert_eq!(browser.get("/nodes").await.json()["nodes"], json!([]));
    assert_eq!(browser.send("POST", "/nodes", create).await.status, 201);
    server.stop().await;
}

#[tokio::test]
async fn roles_limit_requests_of_all_kinds() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let execute = json!({ "text": "touch never" });
    let line =
        json!({ "command_type": "EXECUTE_INPUT", "params": { "node_id": "sh", "text": "touch never" } });
    for role in [Role::View, Role::Answer] {
        let browser = Browser::logged_in(&server, role).await;
        assert_eq!(browser.get("/nodes/sh").await.json()["node_id"], "sh");
        assert_eq!(browser.get("/nodes/sh/history").await.status, 200);
        let waited = browser.send("POST", "/nodes/sh/wait", json!({ "until": ["ready"] })).await;
        assert_ne!(waited.status, 403, "{waited:?}");
        let refused = browser.send("POST", "/nodes/sh/execute", execute.clone()).await;
        let detail = refused.problem(403, "permission_error");
        assert!(detail.contains("EXECUTE_INPUT") && detail.contains("--role full"), "{detail}");
        browser.send("DELETE", "/nodes/sh", Value::Null).await.problem(403, "permission_error");
        browser.send("POST", "/api/shutdown", json!({})).await.problem(403, "permission_error");
        let sent = browser.send("POST", "/api/command", line.clone()).await.json();
        assert_eq!(sent["data"]["error_type"], "permission_error", "{sent}");
        let message = json!({ "content": "touch never", "type": "user" });
        let compat = browser.send("POST", "/compat/agentapi/sh/message", message).await;
        assert_eq!(compat.status, 403, "{compat:?}");
        let answer = browser.send("POST", "/nodes/sh/answer", json!({ "choice": 1 })).await;
        assert_eq!(answer.status == 403, role == Role::View, "{answer:?}");
    }
    let browser = Browser::logged_in(&server, Role::Full).await;
    let done = browser.send("POST", "/nodes/sh/execute", json!({ "text": "echo hello" })).await;
    assert_eq!(done.json()["response"]["text"], "hello");
    server.stop().await;
}

#[tokio::test]
async fn websocket_has_role_of_session() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;

    let server = HttpServer::start();
    server.bash("sh").await;
    let browser = Browser::logged_in(&server, Role::View).await;
    let mut request = format!("ws://{}/api/events", server.address).into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("Origin", format!("http://{}", server.address).parse().unwrap());
    headers.insert("Cookie", browser.cookie.parse().unwrap());
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let mut ask = async |command: &str| {
        let line = json!({ "command_type": command, "params": { "node_id": "sh" } }).to_string();
        socket.send(line.into()).await.unwrap();
        let answer = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap();
        serde_json::from_str::<Value>(answer.to_text().unwrap()).unwrap()
    };
    assert_eq!(ask("GET_NODE").await["data"]["node_id"], "sh");
    assert_eq!(ask("STOP_NODE").await["data"]["error_type"], "permission_error");
    server.stop().await;
}

/// Opens an event stream and returns a future that completes with its rest when the server ends it.
async fn events_until_end(browser: &Browser<'_>) -> impl Future<Output = String> + use<> {
    let mut stream = browser.server.connect().await;
    let head = browser.head("GET", "/events", "\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (status, head) = read_head(&mut stream).await;
    assert_eq!(status, 200, "{head}");
    async move {
        let mut rest = String::new();
        let end = async { while stream.read_line(&mut rest).await.is_ok_and(|bytes| bytes > 0) {} };
        tokio::time::timeout(DEADLINE, end).await.expect("the stream did not end");
        rest
    }
}

#[tokio::test]
async fn revoked_session_ends_with_its_streams() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::Full).await;
    let other = Browser::logged_in(&server, Role::View).await;
    let rest = events_until_end(&browser).await;
    let sessions = logins(&server).sessions();
    assert_eq!(sessions.len(), 2);
    let full = sessions.iter().find(|session| session.role == Role::Full).unwrap();
    logins(&server).revoke(&full.web_session_id).unwrap();
    assert!(rest.await.contains("the web session has ended"));
    browser.get("/nodes").await.problem(401, "authentication_error");
    assert_eq!((browser.role().await, other.role().await), (Value::Null, json!("view")));
    server.stop().await;
}

#[tokio::test]
async fn logout_ends_session_and_removes_cookie() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::View).await;
    let rest = events_until_end(&browser).await;
    let response = browser.send("POST", "/web/logout", json!({})).await;
    assert_eq!(response.status, 204, "{response:?}");
    assert!(response.header("set-cookie").unwrap().starts_with("nerve-session-test=; Path=/; Max-Age=0"));
    rest.await;
    assert_eq!(browser.role().await, Value::Null);
    assert_eq!(logins(&server).sessions(), []);
    server.stop().await;
}

#[tokio::test]
async fn new_token_ends_sessions() {
    let server = HttpServer::start();
    let browser = Browser::logged_in(&server, Role::Full).await;
    let rest = events_until_end(&browser).await;
    TokenFile::new(paths(server.home()).token()).rotate().unwrap();
    rest.await;
    browser.get("/nodes").await.problem(401, "authentication_error");
    assert_eq!(logins(&server).sessions(), []);
    server.stop().await;
}

#[tokio::test]
async fn session_cookie_opens_no_service_of_other_crates() {
    let server = HttpServer::start_with(|config| {
        let echo = |_| |_| async { http::Response::new(http_body_util::Full::from("done")) };
        config.mounts.push(nerve_server::Mount::new("/service", echo));
    });
    let browser = Browser::logged_in(&server, Role::Full).await;
    browser.send("POST", "/service", json!({})).await.problem(403, "permission_error");
    assert_eq!(server.get("/service").await.body, b"done");
    server.stop().await;
}

#[tokio::test]
async fn page_is_served_to_everyone_with_strict_headers() {
    let server = HttpServer::start();
    server.bash("secret-node").await;
    let browser = Browser::new(&server);
    let html = "Accept: text/html,application/xhtml+xml\r\n";
    let root = browser.send_with("GET", "/", html, Value::Null).await;
    assert_eq!((root.status, root.header("location")), (303, Some("/web/")));
    browser.get("/").await.problem(401, "authentication_error");
    assert_eq!(browser.get("/web").await.header("location"), Some("/web/"));

    let index = browser.get("/web/").await;
    let page = String::from_utf8(index.body.clone()).unwrap();
    assert_eq!(index.header("cache-control"), Some("no-store"));
    assert!(!page.contains("secret-node") && !page.contains("{{"), "{page}");
    let policy = index.header("content-security-policy").unwrap();
    for directive in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"]
    {
        assert!(policy.split("; ").any(|found| found == directive), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(index.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(index.header("referrer-policy"), Some("no-referrer"));

    let script = page.split('"').find(|part| part.ends_with("/main.js")).unwrap();
    let asset = browser.get(script).await;
    assert_eq!((asset.status, asset.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert!(asset.header("cache-control").unwrap().contains("immutable"), "{asset:?}");
    let library = script.replace("main.js", "vendor/xterm.mjs");
    let plain = browser.get(&library).await;
    let packed = browser.send_with("GET", &library, "Accept-Encoding: gzip, br\r\n", Value::Null).await;
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("br")));
    assert!(packed.body.len() * 3 < plain.body.len() && packed.header("vary") == Some("accept-encoding"));
    let stale = browser.get("/web/0000000000000000/main.js").await;
    assert_eq!((stale.status, stale.header("cache-control")), (404, Some("no-store")));
    for path in ["/web/../token", "/web/x/..%2f..%2ftoken"] {
        assert_ne!(browser.get(path).await.status, 200, "{path}");
    }
    server.stop().await;
}
