//! A client of `nerve mcp` over stdio that can also send invalid input.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use nerve_testkit::harness::KillOnDrop;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home};

/// Operations common to all MCP test clients.
pub(crate) trait Client {
    /// Sends a request and returns its reply.
    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value;

    /// Calls a tool and returns its result.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must succeed and returns its structured content.
    #[track_caller]
    fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }
}

impl Client for StdioClient {
    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }
}

/// A running `nerve mcp`, killed on drop.
pub(crate) struct StdioClient {
    child: KillOnDrop,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages received but not consumed yet.
    pending: Vec<Value>,
    last_id: u64,
}

impl StdioClient {
    /// Starts the program without initializing it.
    pub(crate) fn start(home: &Home, args: &[&str]) -> StdioClient {
        let mut command = home.command(&["mcp"]);
        command.args(args);
        StdioClient::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> StdioClient {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        StdioClient { child: KillOnDrop(child), stdin, lines, pending: Vec::new(), last_id: 0 }
    }

    /// Starts the program and initializes it.
    pub(crate) fn ready(home: &Home, args: &[&str]) -> StdioClient {
        let mut mcp = StdioClient::start(home, args);
        let hello = mcp.initialize();
        assert_eq!(hello["result"]["serverInfo"]["name"], "nerve", "{hello}");
        mcp
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let hello = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        hello
    }

    /// Sends a line.
    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send_line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    /// Returns the next message that matches; keeps the others.
    #[track_caller]
    pub(crate) fn next(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        let mut checked = 0;
        loop {
            if let Some(at) = self.pending.iter().skip(checked).position(&predicate) {
                return self.pending.remove(checked + at);
            }
            checked = self.pending.len();
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let log = self.stderr();
                panic!("it does not come; there is {:?}; {log}", self.pending);
            };
            let message: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("no JSON on stdout: {error}: {line:?}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            self.pending.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.next(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Returns true if an unconsumed message matches.
    pub(crate) fn has_pending(&self, predicate: impl Fn(&Value) -> bool) -> bool {
        self.pending.iter().any(predicate)
    }

    /// Closes stdin and returns the exit code.
    #[track_caller]
    pub(crate) fn disconnect(&mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.wait_for_exit()
    }

    /// Waits for the end and returns the exit code.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> Option<i32> {
        self.child.wait_for_exit().code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Ends the server and returns its log.
    pub(crate) fn stderr(&mut self) -> String {
        let _ = self.child.0.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.0.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }
}

/// Returns the text of a tool's result.
#[track_caller]
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}
