//! A server with its scripted agents as models, and requests as a client of OpenAI's API sends them.

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use crate::forks::mock_claude;
use crate::harness::{DEADLINE, Home};
use crate::mcp::http_client::{Endpoint, Reply};

/// A server with HTTP.
pub(super) struct Api {
    pub(super) home: Home,
    pub(super) endpoint: Endpoint,
}

/// A message of a conversation.
pub(super) fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// A conversation: prompts and answers in turn, beginning with a prompt.
pub(super) fn conversation(texts: &[&str]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    roles.zip(texts).map(|(role, text)| message(role, text)).collect()
}

impl Api {
    pub(super) fn new() -> Api {
        let home = Home::new();
        let endpoint = Endpoint::on_server(&home);
        Api { home, endpoint }
    }

    /// Starts a server with the scripted agent as node `me`, which stores its conversation in Claude Code's format.
    pub(super) fn with_agent() -> Api {
        let api = Api::new();
        let claude = mock_claude(&api.home);
        api.home.ok(&["server", "node", "create", "me", "-c", &claude]);
        api.home.ok(&["server", "node", "wait", "me"]);
        api
    }

    /// Writes the settings.
    pub(super) fn configure(&self, settings: &str) {
        std::fs::write(self.home.hermetic.nerve_home().join("openai.toml"), settings).unwrap();
    }

    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        let bearer = format!("Bearer {}", self.endpoint.token);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.endpoint.request(method, path, &headers, &body)
    }

    /// Sends a conversation; `more` has further parameters.
    pub(super) fn begin(&self, model: &str, messages: Value, more: Value) -> Reply {
        let mut body = json!({ "model": model, "messages": messages });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.send("POST", "/v1/chat/completions", &body)
    }

    /// Sends a conversation and returns the answer, which must be complete.
    #[track_caller]
    pub(super) fn answer(&self, model: &str, messages: Value) -> String {
        let reply = self.begin(model, messages, Value::Null);
        let status = reply.status;
        let text = reply.text();
        assert_eq!(status, 200, "{text}");
        let completion: Value = serde_json::from_str(&text).unwrap();
        let choice = &completion["choices"][0];
        assert_eq!(
            (&completion["object"], &choice["finish_reason"]),
            (&json!("chat.completion"), &json!("stop"))
        );
        assert_eq!((&completion["model"], &choice["message"]["role"]), (&json!(model), &json!("assistant")));
        choice["message"]["content"].as_str().unwrap().to_string()
    }

    /// Sends a conversation and returns the error.
    #[track_caller]
    pub(super) fn error(&self, model: &str, messages: Value, status: u16) -> Value {
        error(self.begin(model, messages, Value::Null), status)
    }

    /// Sends a conversation and returns the data of all events of the streamed answer.
    #[track_caller]
    pub(super) fn stream(&self, model: &str, messages: Value, more: Value) -> Vec<String> {
        let mut more = more;
        more["stream"] = json!(true);
        let reply = self.begin(model, messages, more);
        let (status, kind) = (reply.status, reply.header("content-type").map(str::to_string));
        let text = reply.text();
        assert_eq!((status, kind.as_deref()), (200, Some("text/event-stream")), "{text}");
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_string).collect()
    }

    /// Waits until no temporary node is left.
    pub(super) fn wait_for_removal(&self) {
        let names = || self.home.ok(&["server", "node", "list", "--all"]);
        assert!(wait_until(DEADLINE, || !names().contains("v1-")), "{}", names());
    }

    /// Waits until the node has this state.
    pub(super) fn wait_for_state(&self, node: &str, state: &str) {
        let is_there = || self.home.info(node)["state"] == state;
        assert!(wait_until(DEADLINE, is_there), "{}", self.home.info(node));
    }

    /// Returns the prompts of a node's transcript, without those that are guessed from its screen.
    pub(super) fn prompts(&self, node: &str) -> Vec<String> {
        let transcript = self.home.nerve(&["transcript", node, "--json"]).json();
        let turns = transcript["turns"].as_array().unwrap().iter().filter(|turn| turn["source"] != "screen");
        turns.map(|turn| turn["prompt"].as_str().unwrap().to_string()).collect()
    }
}

/// Returns the `error` of a response with this status.
#[track_caller]
pub(super) fn error(reply: Reply, status: u16) -> Value {
    let found = reply.status;
    let retry = reply.header("x-should-retry").map(str::to_string);
    let text = reply.text();
    assert_eq!(found, status, "{text}");
    let mut body: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    // Only a busy node may get the same prompt again without a decision.
    assert_eq!(retry.as_deref() == Some("true"), body["error"]["code"] == "busy", "{text}");
    body["error"].take()
}

/// Returns the text of a streamed answer.
pub(super) fn streamed_text(events: &[String]) -> String {
    let chunks = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_string)).collect()
}
