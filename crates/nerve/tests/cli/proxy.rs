//! `nerve proxy` before `nerve mock-model`.

use std::io::{Read, Write};
use std::net::TcpStream;

use nerve_testkit::harness::Listener;
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

/// Sends a prompt over HTTP/1.0, so that the reply ends with the connection. Returns status and body.
fn ask(address: &str, prompt: &str) -> (u16, String) {
    let body = format!(
        r#"{{"model":"claude-x","max_tokens":9,"stream":false,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    write!(stream, "POST /v1/messages HTTP/1.0\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

#[test]
fn proxy_forwards_counts_logs_and_limits() {
    let home = Home::new();
    let model = Listener::start(home.command(&["mock-model"]));
    let (upstream, log) = (model.url(), home.hermetic.work().join("log.jsonl"));
    for behind in ["anthropic", "openai"] {
        let args =
            ["proxy", behind, "--upstream", upstream, "--log", log.to_str().unwrap(), "--max-requests", "1"];
        let proxy = Listener::start(home.command(&args));
        let (status, body) = ask(proxy.address(), "hello");
        assert!(status == 200 && body.contains("You said: hello"), "{status}: {body}");
        let (status, body) = ask(proxy.address(), "hello again");
        assert!(status == 402 && body.contains("billing_error"), "{status}: {body}");
        proxy.interrupt().assert_stderr(0, &["1 requests, 1 refused", "tokens in"]);
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    let kinds: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["request", "reply", "request", "reply", "request", "reply", "request", "reply"]);
}

#[test]
fn output_is_json_and_keys_come_from_environment() {
    let home = Home::new();
    let model = Listener::start(home.command(&["mock-model"]));
    let args = [
        "proxy",
        "openai",
        "--upstream",
        model.url(),
        "--model",
        "gpt-x",
        "--api-key-env",
        "MY_KEY",
        "--price",
        "3,15",
        "--json",
    ];
    let mut command = home.command(&args);
    command.env("MY_KEY", "sk-hunter2");
    let proxy = Listener::start(command);
    let (status, body) = ask(proxy.address(), "hello");
    assert!(status == 200 && body.contains("\"gpt-x\""), "{status}: {body}");
    let done = proxy.interrupt();
    let spent = done.json();
    assert_eq!((done.code, &spent["requests"]), (0, &Value::from(1)), "{done:?}");
    assert!(
        spent["tokens"]["output"].as_u64() > Some(0) && spent["cost_usd"].as_f64() > Some(0.0),
        "{spent}"
    );
    assert!(!format!("{done:?}").contains("hunter2"));
}

#[test]
fn invalid_options_explain_what_to_do() {
    let home = Home::new();
    home.nerve(&["proxy", "anthropic", "--listen", "0.0.0.0:0"])
        .assert_stderr(2, &["0.0.0.0:0", "127.0.0.1:PORT"]);
    home.nerve(&["proxy", "openai", "--upstream", "here"]).assert_stderr(2, &["'here'", "http"]);
    home.nerve(&["proxy", "anthropic", "--upstream", "http://far.example"])
        .assert_stderr(2, &["unencrypted", "https"]);
    home.nerve(&["proxy", "openai", "--api-key-env", "NO_SUCH"]).assert_stderr(2, &["'NO_SUCH'", "export"]);
    home.nerve(&["proxy", "anthropic", "--max-cost", "1"]).assert_stderr(2, &["--price"]);
    home.nerve(&["proxy", "anthropic", "--price", "3"]).assert_code(2);
    home.nerve(&["proxy", "anthropic", "--upstream-ca", "/nonexistent/ca"])
        .assert_stderr(1, &["/nonexistent/ca"]);
    let empty = home.hermetic.work().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    home.nerve(&["proxy", "openai", "--upstream-ca", empty.to_str().unwrap()])
        .assert_stderr(1, &["empty.pem"]);
    home.nerve(&["proxy", "anthropic", "--log", "/nonexistent/x"]).assert_stderr(1, &["/nonexistent/x"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    home.nerve(&["proxy", "anthropic", "--listen", &address]).assert_stderr(1, &[&address]);
}
