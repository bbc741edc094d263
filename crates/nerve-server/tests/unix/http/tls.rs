//! HTTP over TLS: REST, SSE, the WebSocket, HTTP/2 by ALPN.

use std::process::Command;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use nerve_testkit::skip;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::client::HttpServer;
use super::http2::Http2;
use crate::harness::DEADLINE;
use crate::tls::{Authority, authority};

fn start_server(authority: &Authority) -> HttpServer {
    HttpServer::start_with(|config| config.tls = Some(authority.files.clone()))
}

/// Connects a client that trusts this CA and offers these protocols.
async fn connect(
    server: &HttpServer,
    authority: &Authority,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Reads until the server closes.
async fn read_to_end(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut all = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut all)).await;
    let _ = read.expect("connection was not closed");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn requests_and_events_over_tls() {
    let authority = authority();
    let server = start_server(&authority);
    for alpn in [&[][..], &[&b"http/1.1"[..]][..]] {
        let mut stream = connect(&server, &authority, alpn).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), alpn.first().copied());
        let body = json!({ "command_type": "PING", "params": { "x": "x".repeat(1 << 20) } }).to_string();
        let head = server.head("POST", "/api/command");
        let request = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let response = read_to_end(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.contains("\"pong\":true"), "{response}");
    }
    let mut events = BufReader::new(connect(&server, &authority, &[]).await.unwrap());
    let head = format!("{}\r\n", server.head("GET", "/events?types=NODE_CREATED"));
    events.write_all(head.as_bytes()).await.unwrap();
    let mut other = connect(&server, &authority, &[]).await.unwrap();
    let body = json!({ "node_id": "sh", "backend": "bash" }).to_string();
    let head = server.head("POST", "/nodes");
    let request = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    other.write_all(request.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut other).await.starts_with("HTTP/1.1 201"));
    let mut line = String::new();
    while !line.contains("NODE_CREATED") {
        line.clear();
        let read = tokio::time::timeout(DEADLINE, events.read_line(&mut line)).await;
        assert!(read.expect("no event came").unwrap() > 0, "the end");
    }
    server.stop().await;
}

#[tokio::test]
async fn http2_is_negotiated_by_alpn() {
    let authority = authority();
    let server = start_server(&authority);
    let stream = connect(&server, &authority, &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let host = format!("localhost:{}", server.address.port());
    let client = Http2::handshake(stream, &host, &server.token).await;
    let (status, pong) = client.request("POST", "/api/command", json!({ "command_type": "PING" })).await;
    assert_eq!((status, &pong["data"]["pong"]), (StatusCode::OK, &json!(true)));
    assert_eq!(client.request("GET", "/nodes/absent", Value::Null).await.0, StatusCode::NOT_FOUND);
    // A protocol that the server does not speak.
    assert!(connect(&server, &authority, &[b"spdy/3"]).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn curl_negotiates_http2_and_rejects_unknown_ca() {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2")) {
        return skip("curl_negotiates_http2_and_rejects_unknown_ca", "no curl with HTTP/2");
    }
    let authority = authority();
    let server = start_server(&authority);
    let ca = server.home().join("ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    let url = format!("https://localhost:{}/health", server.address.port());
    let curl = async |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-w", "\n%{http_version} %{http_code}"]).args(arguments).arg(&url);
        tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap()
    };
    let ca = ca.to_str().unwrap();
    for (arguments, end) in [
        (&["--http2", "--cacert", ca][..], "\n2 200"),
        (&["--http2", "-k"][..], "\n2 200"),
        (&["--http1.1", "--cacert", ca][..], "\n1.1 200"),
    ] {
        let output = curl(arguments).await;
        assert!(String::from_utf8_lossy(&output.stdout).ends_with(end), "{arguments:?}: {output:?}");
    }
    let output = curl(&["--http2"]).await;
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("certificate"),
        "{output:?}"
    );
    server.stop().await;
}

async fn open_websocket(server: &HttpServer, authority: &Authority) -> WebSocketStream<TlsStream<TcpStream>> {
    let stream = connect(server, authority, &[b"http/1.1"]).await.unwrap();
    let url = format!("wss://localhost:{}/api/events", server.address.port());
    let mut request = url.into_client_request().unwrap();
    let bearer = format!("Bearer {}", server.token);
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    tokio_tungstenite::client_async(request, stream).await.unwrap().0
}

#[tokio::test]
async fn websocket_works_over_tls() {
    let authority = authority();
    let server = start_server(&authority);
    let mut socket = open_websocket(&server, &authority).await;
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(1 << 20) } }).to_string();
    socket.send(Message::text(line)).await.unwrap();
    let response = tokio::time::timeout(DEADLINE, socket.next()).await.expect("no answer").unwrap().unwrap();
    assert!(response.to_text().unwrap().contains("\"pong\":true"), "{response}");
    server.stop().await;
}

#[tokio::test]
async fn client_that_still_sends_gets_413_over_tls() {
    let authority = authority();
    let server = start_server(&authority);
    let head = server.head("POST", "/api/command");
    for announced in [true, false] {
        let mut stream = connect(&server, &authority, &[b"http/1.1"]).await.unwrap();
        let (length, body) = match announced {
            true => (format!("Content-Length: {}", 20 << 20), vec![b' '; 20 << 20]),
            false => {
                ("Transfer-Encoding: chunked".into(), [b"1400000\r\n", &vec![b' '; 20 << 20][..]].concat())
            }
        };
        // All of it is sent before anything is read.
        stream.write_all(format!("{head}{length}\r\n\r\n").as_bytes()).await.unwrap();
        let sent = tokio::time::timeout(DEADLINE, stream.write_all(&body)).await;
        sent.expect("the server stopped reading").unwrap();
        let response = read_to_end(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 413 ") && response.contains("too_large"), "{response:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn client_that_still_sends_gets_1009_over_tls() {
    let authority = authority();
    let server = start_server(&authority);
    let mut socket = open_websocket(&server, &authority).await;
    let sent = socket.send(Message::text("x".repeat(20 << 20)));
    tokio::time::timeout(DEADLINE, sent).await.expect("the server stopped reading").unwrap();
    let end = loop {
        match tokio::time::timeout(DEADLINE, socket.next()).await.expect("no end") {
            Some(Ok(Message::Close(frame))) => break frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break None,
        }
    };
    assert_eq!(end, Some(CloseCode::Size));
    server.stop().await;
}

#[tokio::test]
async fn client_without_ca_sends_no_request() {
    let (known, other) = (authority(), authority());
    let server = start_server(&known);
    let error = connect(&server, &other, &[b"h2"]).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn plain_http_on_tls_port_gets_an_error() {
    let authority = authority();
    let server = start_server(&authority);
    let body = "x".repeat(30_000);
    let head = server.head("POST", "/api/command");
    let post = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    for request in [post.as_str(), "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let response = read_to_end(&mut stream).await;
        let (head, problem) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 ") && head.contains("application/problem+json"), "{response}");
        let problem: Value = serde_json::from_str(problem).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains("TLS"), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("https"), "{problem}");
    }
    // Anything else gets a TLS alert, and other clients are not affected.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"\x00\x01 neither\r\n\r\n").await.unwrap();
    assert!(!read_to_end(&mut stream).await.contains("HTTP"));
    assert!(connect(&server, &authority, &[b"h2"]).await.is_ok());
    server.stop().await;
}
