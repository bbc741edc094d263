//! The types of the protocol (ACP, version 1). Unknown fields are ignored.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Parameters of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeParams {
    pub(crate) protocol_version: u16,
    #[serde(default)]
    pub(crate) client_capabilities: Value,
}

/// Parameters of `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSessionParams {
    pub(crate) cwd: PathBuf,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// Parameters of `session/load`, `session/resume` and `session/fork`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenSessionParams {
    pub(crate) session_id: String,
    pub(crate) cwd: PathBuf,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// Parameters of `session/list`.
#[derive(Debug, Deserialize)]
pub(crate) struct ListSessionsParams {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) cursor: Option<String>,
}

/// Parameters of `session/cancel` and `session/close`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionParams {
    pub(crate) session_id: String,
}

/// Parameters of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptParams {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<ContentBlock>,
}

/// A part of a prompt or of an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ContentBlock {
    Text {
        text: String,
    },
    ResourceLink {
        name: String,
        uri: String,
    },
    /// An image, audio, or the content of a resource.
    #[serde(other)]
    Unsupported,
}

impl ContentBlock {
    pub(crate) fn text(text: impl Into<String>) -> ContentBlock {
        ContentBlock::Text { text: text.into() }
    }
}

/// An MCP server that the client wants the agent to use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum McpServer {
    /// `http` or `sse`.
    Remote {
        #[serde(rename = "type")]
        transport: String,
        name: String,
        url: String,
        #[serde(default, deserialize_with = "null_as_default")]
        headers: Vec<NameValue>,
    },
    Stdio {
        name: String,
        command: String,
        #[serde(default, deserialize_with = "null_as_default")]
        args: Vec<String>,
        #[serde(default, deserialize_with = "null_as_default")]
        env: Vec<NameValue>,
    },
}

/// An environment variable or an HTTP header.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct NameValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum SessionUpdate {
    UserMessageChunk { content: ContentBlock },
    AgentMessageChunk { content: ContentBlock },
    AgentThoughtChunk { content: ContentBlock },
    ToolCall(ToolCall),
    ToolCallUpdate(ToolCall),
    Plan { entries: Vec<PlanEntry> },
    Notice { severity: &'static str, title: String },
}

impl SessionUpdate {
    pub(crate) fn message(text: impl Into<String>) -> SessionUpdate {
        SessionUpdate::AgentMessageChunk { content: ContentBlock::text(text) }
    }

    pub(crate) fn thought(text: impl Into<String>) -> SessionUpdate {
        SessionUpdate::AgentThoughtChunk { content: ContentBlock::text(text) }
    }
}

/// A tool call, or a change of one: absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall {
    pub(crate) tool_call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) content: Vec<ToolContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<Location>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) raw_input: Value,
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// The output of a tool call, or its change of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToolContent {
    Content {
        content: ContentBlock,
    },
    #[serde(rename_all = "camelCase")]
    Diff {
        path: PathBuf,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
}

/// A file of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Location {
    /// Absolute.
    pub(crate) path: PathBuf,
}

/// A task of the agent's plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) priority: &'static str,
    /// `pending`, `in_progress` or `completed`.
    pub(crate) status: &'static str,
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) name: String,
    pub(crate) kind: PermissionKind,
}

/// The effect of a choice, as far as its label says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PermissionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// The response to `session/request_permission`.
#[derive(Debug, Deserialize)]
pub(crate) struct PermissionResponse {
    pub(crate) outcome: PermissionOutcome,
}

/// The answer of the client's user.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum PermissionOutcome {
    Cancelled,
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
}

/// The reason why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    EndTurn,
    MaxTokens,
    Refusal,
    Cancelled,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) total_tokens: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cached_read_tokens: u64,
    pub(crate) cached_write_tokens: u64,
}

impl Usage {
    /// Adds tokens: input, output, read from the cache, and written to it.
    pub(crate) fn add(&mut self, [input, output, read, written]: [u64; 4]) {
        self.input_tokens += input;
        self.output_tokens += output;
        self.cached_read_tokens += read;
        self.cached_write_tokens += written;
        self.total_tokens += input + output + read + written;
    }
}

/// Deserializes a field in which the protocol allows `null` for the default.
fn null_as_default<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn null_lists_are_empty() {
        let params: NewSessionParams = from_value(json!({ "cwd": "/", "mcpServers": null })).unwrap();
        assert_eq!(params.mcp_servers, []);
        let server = json!({ "name": "files", "command": "/bin/files", "args": null, "env": null });
        let params = json!({ "sessionId": "s", "cwd": "/", "mcpServers": [server] });
        let params: OpenSessionParams = from_value(params).unwrap();
        let expected = McpServer::Stdio {
            name: "files".to_string(),
            command: "/bin/files".to_string(),
            args: Vec::new(),
            env: Vec::new(),
        };
        assert_eq!(params.mcp_servers, [expected]);
    }
}
