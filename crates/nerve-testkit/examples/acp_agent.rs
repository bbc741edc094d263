//! A stand-in for an agent that speaks the Agent Client Protocol, version 1, over its standard streams. The prompt decides what it does.
//!
//! Options: `--protocol N`, `--exit`, `--silent`, `--greet`, `--login`, `--no-load`, `--no-fork`.
#![expect(clippy::unwrap_used, reason = "a failed stand-in fails the test")]

use std::io::{BufRead, StdinLock, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

/// Size of the line that the prompt `HUGE` makes.
const HUGE: usize = 100 << 20;

struct Agent {
    input: StdinLock<'static>,
    options: Vec<String>,
    session: String,
    cwd: PathBuf,
    requests: u64,
    is_cancelled: bool,
}

fn main() {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| options.iter().any(|option| option == name);
    if has("--exit") {
        eprintln!("starting\nno licence");
        std::process::exit(3);
    }
    if has("--greet") {
        print("Welcome to the stand-in");
    }
    let mut agent = Agent {
        input: std::io::stdin().lock(),
        session: String::new(),
        cwd: PathBuf::new(),
        requests: 0,
        is_cancelled: false,
        options,
    };
    while let Some(message) = agent.next() {
        agent.on_message(&message);
    }
}

fn print(line: &str) {
    let mut output = std::io::stdout().lock();
    // The client may be gone.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn send(message: &Value) {
    print(&message.to_string());
}

fn respond(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn fail(id: &Value, code: i64, message: &str, data: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } }));
}

impl Agent {
    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(1..) => Some(serde_json::from_str(&line).unwrap()),
            _ => None,
        }
    }

    fn on_message(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str().unwrap_or_default() {
            "initialize" if self.has("--silent") => {}
            "initialize" => {
                let version = self.options.iter().position(|option| option == "--protocol");
                let version: u64 = version.map_or(1, |at| self.options[at + 1].parse().unwrap());
                let info = json!({ "name": "stand-in", "version": "0.1" });
                let fork = if self.has("--no-fork") { json!({}) } else { json!({ "fork": {} }) };
                respond(
                    id,
                    json!({
                        "protocolVersion": version, "agentInfo": info, "agentCapabilities": { "loadSession": !self.has("--no-load"), "sessionCapabilities": fork },
                        "authMethods": [{ "id": "x", "name": "stand-in login" }],
                    }),
                );
            }
            "session/new" if self.has("--login") => fail(id, -32000, "Authentication required", Value::Null),
            "session/new" => {
                self.cwd = params["cwd"].as_str().unwrap().into();
                self.session = format!("stand-in-{}", std::process::id());
                respond(id, json!({ "sessionId": self.session }));
                let commands =
                    json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
                self.update(commands);
            }
            "session/load" => self.load(id, params),
            "session/fork" => {
                self.cwd = params["cwd"].as_str().unwrap().into();
                self.session = params["sessionId"].as_str().unwrap().to_string();
                let source = self.memory();
                self.session = format!("stand-in-{}", std::process::id());
                std::fs::copy(source, self.memory()).unwrap();
                respond(id, json!({ "sessionId": self.session }));
            }
            "session/prompt" => self.prompt(id, params["prompt"][0]["text"].as_str().unwrap()),
            "session/cancel" => self.is_cancelled = true,
            _ => {}
        }
    }

    fn memory(&self) -> PathBuf {
        self.cwd.join(format!("{}.txt", self.session))
    }

    fn load(&mut self, id: &Value, params: &Value) {
        self.cwd = params["cwd"].as_str().unwrap().into();
        self.session = params["sessionId"].as_str().unwrap().to_string();
        match std::fs::read_to_string(self.memory()) {
            Ok(earlier) => {
                respond(id, Value::Null);
                // Like Gemini CLI, which does not wait until the earlier turns are sent.
                self.say(&earlier);
            }
            Err(error) => fail(id, -32603, "Internal error", json!({ "details": error.to_string() })),
        }
    }

    fn update(&self, update: Value) {
        let params = json!({ "sessionId": self.session, "update": update });
        send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn say(&self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
    }

    /// Sends a request and returns the response. Handles the messages before it.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.response(&id)
    }

    fn begin(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = json!(format!("request-{}", self.requests));
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn response(&mut self, id: &Value) -> Value {
        loop {
            let Some(message) = self.next() else { std::process::exit(0) };
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
            self.on_message(&message);
        }
    }

    fn permission(&self, call: &str) -> Value {
        json!({
            "sessionId": self.session,
            "toolCall": { "toolCallId": call, "title": format!("touch {call}"), "kind": "execute", "rawInput": { "command": format!("touch {call}") } },
            "options": [
                { "optionId": "once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "always", "name": "Always allow", "kind": "allow_always" },
                { "optionId": "no", "name": "Reject", "kind": "reject_once" },
            ],
        })
    }

    fn finish_call(&self, call: &str, outcome: &Value) {
        let is_allowed = outcome["optionId"].as_str().is_some_and(|option| option != "no");
        let status = if is_allowed { "completed" } else { "failed" };
        let content = json!([{ "type": "content", "content": { "type": "text", "text": "the output" } }]);
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": content }));
        self.say(&format!("{call}: {}\n", outcome["optionId"].as_str().unwrap_or("cancelled")));
    }

    fn await_cancel(&mut self) {
        while !self.is_cancelled {
            let Some(message) = self.next() else { std::process::exit(0) };
            self.on_message(&message);
        }
    }

    fn prompt(&mut self, id: &Value, text: &str) {
        self.is_cancelled = false;
        let earlier = std::fs::read_to_string(self.memory()).unwrap_or_default();
        std::fs::write(self.memory(), format!("{earlier}{text}\n")).unwrap();
        let mut stop = "end_turn";
        match text.split_whitespace().next().unwrap_or_default() {
            "RECALL" => self.say(&earlier),
            "WORK" => self.work(),
            "PERMIT" => {
                let response = self.request("session/request_permission", self.permission("a"));
                self.finish_call("a", &response["result"]["outcome"]);
            }
            "TWICE" => {
                let ids =
                    ["a", "b"].map(|call| self.begin("session/request_permission", self.permission(call)));
                for (call, id) in ["a", "b"].iter().zip(ids) {
                    let response = self.response(&id);
                    self.finish_call(call, &response["result"]["outcome"]);
                }
            }
            "WITHDRAW" => {
                let request = self.begin("session/request_permission", self.permission("a"));
                let params = json!({ "requestId": request });
                send(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }));
                self.say("withdrawn");
            }
            "SLOW" => {
                self.say("one ");
                self.await_cancel();
                self.say("two");
                stop = "cancelled";
            }
            "STUBBORN" => loop {
                self.await_cancel();
                self.is_cancelled = false;
            },
            "METHODS" => {
                for method in ["fs/read_text_file", "terminal/create", "nonsense"] {
                    let response = self.request(method, json!({ "sessionId": self.session }));
                    self.say(&format!("{} ", response["error"]["code"]));
                }
            }
            "FAIL" => {
                self.say("half");
                return fail(id, -32603, "Internal error", json!({ "details": "the model is overloaded" }));
            }
            "REFUSE" => stop = "refusal",
            "LIMIT" => stop = "max_tokens",
            "NOTHING" => return respond(id, json!({ "stopReason": "end_turn" })),
            "GARBAGE" => print("Segmentation fault (core dumped)"),
            "OBJECT" => print(r#"{"level": "info", "message": "a log line"}"#),
            "HUGE" => print(&"x".repeat(HUGE)),
            "DIE" => {
                self.say("half");
                eprintln!("out of memory");
                std::process::exit(9);
            }
            _ => {
                self.say("You said: ");
                self.say(text);
            }
        }
        if stop == "max_tokens" || stop == "refusal" {
            self.say("half");
        }
        let usage = json!({ "totalTokens": 30, "inputTokens": 10, "outputTokens": 20 });
        respond(id, json!({ "stopReason": stop, "usage": usage }));
    }

    fn work(&self) {
        let thought = json!({ "type": "text", "text": "I think." });
        self.update(json!({ "sessionUpdate": "agent_thought_chunk", "content": thought }));
        let entries = json!([{ "content": "first", "priority": "high", "status": "in_progress" }]);
        self.update(json!({ "sessionUpdate": "plan", "entries": entries }));
        self.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "title": "read x", "kind": "read", "status": "in_progress",
            "rawInput": { "path": "/x" },
        }));
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "rawOutput": "the file" }));
        self.say("done");
    }
}
