//! A client of MCP over HTTP that can also send invalid input; one connection per request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use nerve_testkit::harness::KillOnDrop;
use serde_json::{Value, json};

use super::stdio_client::Client;
use crate::harness::{DEADLINE, Home};

/// An HTTP endpoint and the process that serves it.
pub(crate) struct Endpoint {
    /// `IP:PORT`.
    pub(crate) address: String,
    pub(crate) token: String,
    /// `nerve mcp --http`; `None`: the server itself.
    pub(super) child: Option<KillOnDrop>,
}

impl Endpoint {
    /// Starts a server with HTTP and returns its endpoint.
    pub(crate) fn on_server(home: &Home) -> Endpoint {
        home.ok(&["server", "start", "--http", "127.0.0.1:0"]);
        let status = home.nerve(&["server", "status", "--json"]).json();
        Endpoint { address: status["http"].as_str().unwrap().to_string(), token: token(home), child: None }
    }

    /// Starts an endpoint with `nerve mcp --http`.
    pub(super) fn standalone(home: &Home, args: &[&str]) -> Endpoint {
        let mut command = home.command(&["mcp", "--http", "127.0.0.1:0", "--json"]);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let address = output["address"].as_str().unwrap().to_string();
        assert!(output["url"].as_str().unwrap().ends_with(&format!("{address}/mcp")), "{output}");
        Endpoint { address, token: token(home), child: Some(KillOnDrop(child)) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Waits for the end of the serving process and returns its exit code.
    pub(super) fn wait_for_exit(&mut self) -> Option<i32> {
        self.child.as_mut().unwrap().wait_for_exit().code()
    }

    /// Sends a request of MCP with only these headers and Host.
    pub(super) fn raw(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.request(method, "/mcp", headers, body)
    }

    /// Sends a request with only these headers and Host.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !headers.iter().any(|(name, _)| *name == "Content-Length") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        Reply::of(stream)
    }

    /// Sends a request with the token, the protocol's headers and `more`.
    pub(super) fn send(&self, method: &str, more: &[(&str, &str)], body: &str) -> Reply {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        headers.extend(more);
        self.raw(method, &headers, body)
    }
}

fn token(home: &Home) -> String {
    home.ok(&["token", "show"]).trim().to_string()
}

/// An answer, read as it comes.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

impl Reply {
    fn of(stream: TcpStream) -> Reply {
        let mut stream = BufReader::new(stream);
        let mut next = || {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line.trim_end().to_string()
        };
        let first = next();
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {first:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = next();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_string()));
        }
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Reply { status, headers, body: BufReader::new(Body { stream, chunked, left: 0, over: false }) }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// Returns the rest of the body.
    pub(crate) fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns the next message of a stream and its id; `None` at the end. Skips messages without content.
    pub(super) fn message(&mut self) -> Option<(String, Value)> {
        let (mut id, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(':') {
                Some(("id", value)) => id = value.trim().to_string(),
                Some(("data", value)) => data.push_str(value.trim_start()),
                _ if line.is_empty() && !data.is_empty() => {
                    let message =
                        serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}"));
                    return Some((id, message));
                }
                _ => {}
            }
        }
    }

    /// Returns the next message that satisfies `predicate`. Skips the messages before it.
    #[track_caller]
    pub(super) fn next(&mut self, predicate: impl Fn(&Value) -> bool) -> (String, Value) {
        loop {
            let (id, message) = self.message().expect("the stream ended");
            if predicate(&message) {
                return (id, message);
            }
        }
    }

    /// Returns the reply to the request.
    #[track_caller]
    pub(super) fn answer(&mut self) -> Value {
        self.next(|message| message.get("result").or(message.get("error")).is_some()).1
    }
}

/// The body of a response.
struct Body {
    stream: BufReader<TcpStream>,
    chunked: bool,
    left: usize,
    over: bool,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if !self.chunked {
            return self.stream.read(into);
        }
        if self.left == 0 && !self.over {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            self.over = self.left == 0;
        }
        if self.over {
            return Ok(0);
        }
        let most = into.len().min(self.left);
        let read = self.stream.read(&mut into[..most])?;
        self.left -= read;
        if self.left == 0 {
            self.stream.read_line(&mut String::new())?;
        }
        self.over |= read == 0;
        Ok(read)
    }
}

impl Client for HttpClient<'_> {
    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.begin(method, params).1.answer()
    }
}

/// A client with a session.
pub(super) struct HttpClient<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) session: String,
    last_id: u64,
}

pub(super) fn hello(id: u64) -> String {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params }).to_string()
}

impl<'a> HttpClient<'a> {
    pub(super) fn ready(endpoint: &'a Endpoint) -> HttpClient<'a> {
        let mut reply = endpoint.send("POST", &[], &hello(1));
        assert_eq!(reply.status, 200, "{:?}", reply.headers);
        let session = reply.header("mcp-session-id").unwrap().to_string();
        assert_eq!(reply.answer()["result"]["serverInfo"]["name"], "nerve");
        let mut web = HttpClient { endpoint, session, last_id: 1 };
        web.notify("notifications/initialized", json!({}));
        web
    }

    pub(super) fn post(&self, message: &Value) -> Reply {
        let more = [("Mcp-Session-Id", self.session.as_str()), ("MCP-Protocol-Version", "2025-06-18")];
        self.endpoint.send("POST", &more, &message.to_string())
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        let reply = self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        assert_eq!(reply.status, 202);
    }

    /// Sends a request. Returns its id and the reply, which is read as it arrives.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> (u64, Reply) {
        self.last_id += 1;
        let id = self.last_id;
        (id, self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })))
    }

    /// Reconnects: after the message `last`, or to listen for unrelated messages.
    pub(super) fn listen(&self, last: Option<&str>) -> Reply {
        let mut more = vec![("Mcp-Session-Id", self.session.as_str())];
        more.extend(last.map(|last| ("Last-Event-ID", last)));
        self.endpoint.send("GET", &more, "")
    }

    pub(super) fn end(&self) -> Reply {
        self.endpoint.send("DELETE", &[("Mcp-Session-Id", &self.session)], "")
    }
}
