//! `nerve proxy` before `nerve mock-model`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, signal};

/// A program of ours that prints where it listens.
struct ProxyProcess {
    child: Child,
    address: String,
    out: BufReader<ChildStdout>,
    err: ChildStderr,
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ProxyProcess {
    fn start(home: &Home, args: &[&str], env: &[(&str, &str)]) -> ProxyProcess {
        let mut command = home.command(args);
        command.envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let err = child.stderr.take().unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let from = line.find("http://").unwrap_or_else(|| panic!("{line:?}")) + "http://".len();
        let address =
            line[from..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
        ProxyProcess { child, address, out, err }
    }

    /// Ctrl+C; the exit code, and what it still said on both streams.
    fn interrupt(mut self) -> (i32, String, String) {
        signal(self.child.id(), Signal::INT);
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code().unwrap(), out, err)
    }
}

/// Asks over HTTP/1.0, so that the answer ends with the connection. Status and body.
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
    let model = ProxyProcess::start(&home, &["mock-model"], &[]);
    let (upstream, log) = (format!("http://{}", model.address), home.hermetic.work().join("log.jsonl"));
    for behind in ["anthropic", "openai"] {
        let args =
            ["proxy", behind, "--upstream", &upstream, "--log", log.to_str().unwrap(), "--max-requests", "1"];
        let proxy = ProxyProcess::start(&home, &args, &[]);
        let (status, body) = ask(&proxy.address, "hello");
        assert!(status == 200 && body.contains("You said: hello"), "{status}: {body}");
        let (status, body) = ask(&proxy.address, "hello again");
        assert!(status == 402 && body.contains("billing_error"), "{status}: {body}");
        let (code, _, err) = proxy.interrupt();
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("1 requests, 1 refused") && err.contains("tokens in"), "{err}");
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    let kinds: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["request", "reply", "request", "reply", "request", "reply", "request", "reply"]);
}

#[test]
fn output_is_json_and_keys_come_from_environment() {
    let home = Home::new();
    let model = ProxyProcess::start(&home, &["mock-model"], &[]);
    let upstream = format!("http://{}", model.address);
    let args = [
        "proxy",
        "openai",
        "--upstream",
        &upstream,
        "--model",
        "gpt-x",
        "--api-key-env",
        "MY_KEY",
        "--price",
        "3,15",
        "--json",
    ];
    let proxy = ProxyProcess::start(&home, &args, &[("MY_KEY", "sk-hunter2")]);
    let (status, body) = ask(&proxy.address, "hello");
    assert!(status == 200 && body.contains("\"gpt-x\""), "{status}: {body}");
    let (code, out, err) = proxy.interrupt();
    let spent: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &spent["requests"]), (0, &Value::from(1)), "{err}");
    assert!(spent["tokens"]["output"].as_u64() > Some(0) && spent["cost_usd"].as_f64() > Some(0.0), "{out}");
    assert!(!format!("{out}{err}").contains("hunter2"));
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
    home.nerve(&["proxy", "anthropic", "--price", "3"]).assert_stderr(2, &["such as 3,15"]);
    home.nerve(&["proxy", "anthropic", "--upstream-ca", "/nonexistent/ca"])
        .assert_stderr(1, &["/nonexistent/ca", "cannot be read"]);
    let empty = home.hermetic.work().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    home.nerve(&["proxy", "openai", "--upstream-ca", empty.to_str().unwrap()])
        .assert_stderr(1, &["empty.pem", "no certificate"]);
    home.nerve(&["proxy", "anthropic", "--log", "/nonexistent/x"]).assert_stderr(1, &["/nonexistent/x"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    home.nerve(&["proxy", "anthropic", "--listen", &address]).assert_stderr(1, &["cannot listen", &address]);
}
