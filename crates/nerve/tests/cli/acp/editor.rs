//! An editor: a client of `nerve acp`, which can also send invalid input.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Home, NERVE};
use crate::mcp::stdio_client::StdioClient;

/// A running `nerve acp` with the scripted agent.
pub(super) struct Editor {
    pub(super) io: StdioClient,
    /// All messages of the server that were read.
    pub(super) log: Vec<Value>,
    /// Messages that no call has consumed yet.
    pending: Vec<Value>,
    /// Ids and methods of the requests.
    pub(super) sent: Vec<(u64, String)>,
}

impl Editor {
    /// Starts `nerve acp` with options and the arguments of the scripted agent.
    pub(super) fn start(home: &Home, options: &[&str], agent: &[&str]) -> Editor {
        let agent = [&[NERVE, "mock-agent"], agent].concat();
        Editor::with_agent(home, options, &agent)
    }

    pub(super) fn with_agent(home: &Home, options: &[&str], agent: &[&str]) -> Editor {
        let mut command = home.command(&["acp"]);
        command.args(options).arg("--").args(agent);
        Editor { io: StdioClient::spawn(command), log: Vec::new(), pending: Vec::new(), sent: Vec::new() }
    }

    /// Starts it and initializes it.
    pub(super) fn ready(home: &Home, options: &[&str], agent: &[&str]) -> Editor {
        let mut editor = Editor::start(home, options, agent);
        editor.initialize();
        editor
    }

    #[track_caller]
    pub(super) fn initialize(&mut self) -> Value {
        let capabilities = json!({ "fs": { "readTextFile": true }, "session": { "notices": {} } });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        self.ok("initialize", params)
    }

    /// Sends a request and returns its response.
    #[track_caller]
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Sends a request and returns its id.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.io.send(method, params);
        self.sent.push((id, method.to_string()));
        id
    }

    /// Sends a request that must succeed and returns its result.
    #[track_caller]
    pub(super) fn ok(&mut self, method: &str, params: Value) -> Value {
        let response = self.request(method, params);
        assert!(response["result"].is_object(), "{method}: {response}");
        response["result"].clone()
    }

    /// Sends a request that must fail and returns its error.
    #[track_caller]
    pub(super) fn error(&mut self, method: &str, params: Value) -> Value {
        let response = self.request(method, params);
        assert!(response["error"].is_object(), "{method}: {response}");
        response["error"].clone()
    }

    /// Creates a session and returns its id.
    #[track_caller]
    pub(super) fn session(&mut self, cwd: &Path) -> String {
        let made = self.ok("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        made["sessionId"].as_str().unwrap().to_string()
    }

    /// Sends a prompt and returns the id of the request.
    pub(super) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.begin("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Runs a turn and returns its stop reason.
    #[track_caller]
    pub(super) fn turn(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        self.stop_reason(id)
    }

    #[track_caller]
    pub(super) fn stop_reason(&mut self, prompt: u64) -> String {
        let response = self.answer(prompt);
        response["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{response}")).to_string()
    }

    /// Returns the next update of version 2 that ends a turn.
    #[track_caller]
    pub(super) fn next_idle(&mut self) -> Value {
        let message = self.next(|message| {
            let update = &message["params"]["update"];
            update["sessionUpdate"] == "state_update" && update["state"] == "idle"
        });
        message["params"]["update"].clone()
    }

    #[track_caller]
    pub(super) fn answer(&mut self, id: u64) -> Value {
        self.next(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Returns the next permission request with a choice of both kinds. On a busy machine the dialog may be drawn slowly; then the request
    /// for its first choices is withdrawn.
    #[track_caller]
    pub(super) fn permission(&mut self) -> Value {
        self.next(|message| {
            let options = message["params"]["options"].as_array();
            let has = |kind: &str| options.is_some_and(|all| all.iter().any(|option| option["kind"] == kind));
            message["method"] == "session/request_permission" && has("allow_once") && has("reject_once")
        })
    }

    /// Answers a permission request with an option, or cancels it.
    pub(super) fn choose(&mut self, request: &Value, option: Option<&str>) {
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        let response = json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "outcome": outcome } });
        self.io.send_line(&response.to_string());
    }

    /// Answers a permission request with an error.
    pub(super) fn fail(&mut self, request: &Value) {
        let error = json!({ "code": -32603, "message": "no window" });
        let response = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        self.io.send_line(&response.to_string());
    }

    /// Returns the next message that matches; keeps the others.
    #[track_caller]
    pub(super) fn next(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        let mut checked = 0;
        loop {
            if let Some(at) = self.pending.iter().skip(checked).position(&predicate) {
                return self.pending.remove(checked + at);
            }
            checked = self.pending.len();
            let message = self.io.next(|_| true);
            self.log.push(message.clone());
            self.pending.push(message);
        }
    }

    /// Returns the updates of a kind so far.
    pub(super) fn updates(&self, session: &str, kind: &str) -> Vec<Value> {
        let updates = self.log.iter().map(|message| &message["params"]);
        let of_session = updates.filter(|params| params["sessionId"] == session);
        of_session
            .map(|params| params["update"].clone())
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    /// Returns the text of the agent so far.
    pub(super) fn text(&self, session: &str) -> String {
        let chunks = self.updates(session, "agent_message_chunk");
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }
}
