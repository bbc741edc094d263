//! Updates in version 2 of the protocol, a draft: messages have ids, and every report of a tool call is an update.

use serde_json::{Value, json};

use crate::rpc_error::RpcError;
use crate::types::{ContentBlock, SessionUpdate, StopReason, ToolCall, ToolContent};

/// The agent has one plan for each session.
const PLAN: &str = "plan";

/// Encodes the updates of one turn, or of earlier turns, with the ids of their messages.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Beginning of the ids of its messages.
    prefix: String,
    /// Number of messages so far.
    messages: u64,
    /// The next part of the answer belongs to the last message.
    is_open: bool,
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionState {
    Running,
    /// A dialog waits for an answer.
    RequiresAction,
    /// Nothing runs. `None`: no turn has ended.
    Idle(Option<StopReason>),
    Failed(RpcError),
}

impl Encoder {
    /// Creates the encoder of updates whose messages have ids with a new beginning.
    pub(crate) fn new() -> Encoder {
        Encoder { prefix: new_id(), messages: 0, is_open: false }
    }

    pub(crate) fn encode(&mut self, update: &SessionUpdate) -> Value {
        let was_open = std::mem::replace(&mut self.is_open, false);
        match update {
            SessionUpdate::UserMessageChunk { content } => {
                encode_prompt(&self.next_id(), std::slice::from_ref(content))
            }
            SessionUpdate::AgentMessageChunk { content, .. } => {
                let id = if was_open { self.id() } else { self.next_id() };
                self.is_open = true;
                json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content })
            }
            // A thought is complete.
            SessionUpdate::AgentThoughtChunk { content } => {
                json!({ "sessionUpdate": "agent_thought_chunk", "messageId": self.next_id(), "content": content })
            }
            SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) => {
                let mut update = encode_call(call);
                update["sessionUpdate"] = "tool_call_update".into();
                update
            }
            SessionUpdate::Plan { entries } => {
                let plan = json!({ "type": "items", "planId": PLAN, "entries": entries });
                json!({ "sessionUpdate": "plan_update", "plan": plan })
            }
            SessionUpdate::UsageUpdate(_) => {
                self.is_open = was_open;
                json!(update)
            }
            SessionUpdate::Notice { .. } | SessionUpdate::Other => json!(update),
        }
    }

    fn next_id(&mut self) -> String {
        self.messages += 1;
        self.id()
    }

    fn id(&self) -> String {
        format!("{}-{}", self.prefix, self.messages)
    }
}

/// Returns an id that no other message has.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Encodes a prompt that the agent has accepted.
pub(crate) fn encode_prompt(id: &str, content: &[ContentBlock]) -> Value {
    json!({ "sessionUpdate": "user_message", "messageId": id, "content": content })
}

/// Encodes a tool call. The text of a change is a block of Markdown: a patch needs the numbers of the lines, which are not known.
pub(crate) fn encode_call(call: &ToolCall) -> Value {
    let mut update = json!(call);
    if !call.content.is_empty() {
        update["content"] = call.content.iter().flat_map(encode_content).collect();
    }
    update
}

fn encode_content(content: &ToolContent) -> Vec<Value> {
    let ToolContent::Diff { path, old_text, new_text } = content else { return vec![json!(content)] };
    let lines =
        |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    let (old, new) = (lines('-', old_text.as_deref().unwrap_or_default()), lines('+', new_text));
    // The fence is longer than any in the text.
    let fence = "`".repeat(3.max(longest_run(&old).max(longest_run(&new)) + 1));
    let text = ContentBlock::text(format!("{fence}diff\n{old}{new}{fence}"));
    vec![
        json!({ "type": "diff", "changes": [{ "operation": "modify", "path": path }] }),
        json!({ "type": "content", "content": text }),
    ]
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Encodes the state of a session.
pub(crate) fn encode_state(state: &SessionState) -> Value {
    let mut update = match state {
        SessionState::Running => json!({ "state": "running" }),
        SessionState::RequiresAction => json!({ "state": "requires_action" }),
        SessionState::Idle(None) => json!({ "state": "idle" }),
        SessionState::Idle(Some(reason)) => json!({ "state": "idle", "stopReason": reason }),
        SessionState::Failed(error) => json!({ "state": "idle", "stopReason": "error", "error": error }),
    };
    update["sessionUpdate"] = "state_update".into();
    update
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_answer_share_an_id_until_something_else_follows() {
        let mut encoder = Encoder::new();
        let mut id = |update: SessionUpdate| encoder.encode(&update)["messageId"].clone();
        let first = id(SessionUpdate::message("one"));
        assert_eq!(id(SessionUpdate::message(" two")), first);
        let thought = id(SessionUpdate::thought("hm"));
        assert_ne!(thought, first);
        assert_ne!(id(SessionUpdate::thought("well")), thought);
        let second = id(SessionUpdate::message("three"));
        assert!(second.is_string() && second != first);
        assert_eq!(id(SessionUpdate::ToolCall(ToolCall::default())), Value::Null);
        assert_ne!(id(SessionUpdate::message("four")), second);
    }

    #[test]
    fn change_of_a_file_names_the_path_and_shows_the_text() {
        let diff = ToolContent::Diff {
            path: "/shop/a.md".into(),
            old_text: Some("1\n".to_string()),
            new_text: "```\n2".to_string(),
        };
        let call = ToolCall { tool_call_id: "t".to_string(), content: vec![diff], ..ToolCall::default() };
        let text = "````diff\n-1\n+```\n+2\n````";
        let expected = json!({
            "toolCallId": "t",
            "content": [
                { "type": "diff", "changes": [{ "operation": "modify", "path": "/shop/a.md" }] },
                { "type": "content", "content": { "type": "text", "text": text } },
            ],
        });
        assert_eq!(encode_call(&call), expected);
    }

    #[test]
    fn failed_turn_is_idle_with_its_error() {
        let state = encode_state(&SessionState::Failed(RpcError::new(-32603, "no")));
        let expected = json!({
            "sessionUpdate": "state_update", "state": "idle", "stopReason": "error",
            "error": { "code": -32603, "message": "no" },
        });
        assert_eq!(state, expected);
    }
}
