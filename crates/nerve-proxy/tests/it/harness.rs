//! Clients and upstreams for the tests.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nerve_proxy::{Proxy, ProxyConfig, Upstream};
use nerve_testkit::within_deadline;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) fn config(upstream: &str) -> ProxyConfig {
    ProxyConfig::new(Upstream::parse(upstream).unwrap())
}

/// An HTTP client of a proxy.
pub(crate) struct TestClient {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the JSON of each event.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert!(self.headers["content-type"].to_str().unwrap().starts_with("text/event-stream"), "{self:?}");
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Joins the strings at `pointer` in all events.
    pub(crate) fn joined(&self, pointer: &str) -> String {
        self.events().iter().filter_map(|event| event.pointer(pointer)?.as_str().map(String::from)).collect()
    }

    /// Asserts an error in Anthropic's format.
    pub(crate) fn assert_error(&self, status: u16, kind: &str, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)), "{self:?}");
        assert!(body["error"]["message"].as_str().unwrap().contains(words), "{self:?} lacks {words:?}");
    }
}

impl TestClient {
    pub(crate) fn new(proxy: &Proxy) -> TestClient {
        TestClient::at(proxy.url())
    }

    pub(crate) fn at(base: String) -> TestClient {
        TestClient { client: Client::builder(TokioExecutor::new()).build_http(), base }
    }

    /// Creates a client with a single HTTP/2 connection (prior knowledge).
    pub(crate) fn http2(proxy: &Proxy) -> TestClient {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        TestClient { client, base: proxy.url() }
    }

    /// Sends a request; returns the head of the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Full::new(body.into())).unwrap();
        within_deadline("a reply", self.client.request(request)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        read_reply(
            self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await,
        )
        .await
        .unwrap()
    }

    pub(crate) async fn send_message(&self, text: &str, stream: bool) -> Reply {
        self.post("/v1/messages?beta=true", &message(text, stream)).await
    }
}

/// Reads a response to its end; fails if it breaks off.
pub(crate) async fn read_reply(reply: Response<Incoming>) -> Result<Reply, hyper::Error> {
    let (head, body) = reply.into_parts();
    let body = within_deadline("a body", body.collect()).await?.to_bytes();
    Ok(Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    })
}

/// Returns the next piece of a response.
pub(crate) async fn next_piece(reply: &mut Response<Incoming>) -> Option<Result<Bytes, hyper::Error>> {
    let frame = within_deadline("a piece", reply.body_mut().frame()).await?;
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

pub(crate) fn message(text: &str, stream: bool) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    json!({ "model": "claude-x", "max_tokens": 100, "stream": stream, "messages": [{ "role": "user", "content": content }] })
}

/// An upstream that sends raw bytes.
pub(crate) struct RawUpstream {
    listener: TcpListener,
}

impl RawUpstream {
    pub(crate) async fn listen() -> RawUpstream {
        RawUpstream { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// Returns the first byte of the next connection and closes it.
    pub(crate) async fn first_byte(&self) -> u8 {
        let (mut stream, _) = within_deadline("a connection", self.listener.accept()).await.unwrap();
        within_deadline("a byte", stream.read_u8()).await.unwrap()
    }

    /// Returns the next request with its body, and its connection.
    pub(crate) async fn request(&self) -> (String, TcpStream) {
        let (mut stream, _) = within_deadline("a connection", self.listener.accept()).await.unwrap();
        let mut text = Vec::new();
        loop {
            let read = within_deadline("a request", stream.read_buf(&mut text)).await.unwrap();
            assert!(read > 0, "incomplete request");
            let so_far = String::from_utf8_lossy(&text);
            let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return (so_far.into_owned(), stream);
            }
        }
    }

    /// Answers the next request with the beginning of a body, `hello`, and returns its connection.
    pub(crate) async fn begin_answer(&self) -> TcpStream {
        let (_, mut stream) = self.request().await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        stream
    }
}

/// Waits until the peer has closed the connection.
pub(crate) async fn wait_closed(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    within_deadline("the end of a connection", async { while let Ok(1..) = stream.read(&mut rest).await {} })
        .await;
}

pub(crate) async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Sends text and returns the response with its head; empty if the connection is closed instead.
pub(crate) async fn exchange(stream: &mut TcpStream, text: &str) -> String {
    let mut reply = Vec::new();
    within_deadline("an answer", async {
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        while let Ok(1..) = stream.read_buf(&mut reply).await {
            // Such bodies are short and arrive together with the head.
            if reply.windows(4).any(|end| end == b"\r\n\r\n") {
                return;
            }
        }
    })
    .await;
    String::from_utf8(reply).unwrap()
}

impl TestClient {
    /// Returns true if a request fails without a response.
    pub(crate) async fn client_error(&self) -> bool {
        let request =
            Request::post(format!("{}/v1/messages", self.base)).body(Full::new(Bytes::from("{}"))).unwrap();
        self.client.request(request).await.is_err()
    }

    /// Returns true if the proxy answers a greeting.
    pub(crate) async fn is_answered(&self) -> bool {
        let request = Request::get(format!("{}/api/hello", self.base)).body(Full::default()).unwrap();
        self.client.request(request).await.is_ok_and(|reply| reply.status() == 200)
    }
}
