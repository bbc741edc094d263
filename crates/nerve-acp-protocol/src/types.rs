//! The types of the protocol (ACP, version 1). Unknown fields are ignored.
#![expect(missing_docs, reason = "the protocol's schema describes the fields")]

use std::borrow::Cow;
use std::path::PathBuf;

use nerve_types::token_usage::TokenUsage;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Parameters of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub protocol_version: u16,
    #[serde(default)]
    pub client_capabilities: Value,
}

/// The response to `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    pub protocol_version: u16,
    #[serde(default, deserialize_with = "null_as_default")]
    pub agent_capabilities: AgentCapabilities,
    #[serde(default)]
    pub agent_info: Option<Implementation>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub auth_methods: Vec<AuthMethod>,
}

/// Optional methods of an agent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AgentCapabilities {
    pub load_session: bool,
    #[serde(deserialize_with = "null_as_default")]
    pub session_capabilities: SessionCapabilities,
}

/// Optional methods for sessions. A method is supported if its value is an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SessionCapabilities {
    pub resume: Value,
    /// Unstable in the protocol.
    pub fork: Value,
}

/// Name and version of a program.
#[derive(Debug, Clone, Deserialize)]
pub struct Implementation {
    pub name: String,
    #[serde(default)]
    pub version: String,
}

/// A way to log in to an agent.
#[derive(Debug, Deserialize)]
pub struct AuthMethod {
    pub id: String,
    #[serde(default)]
    pub name: String,
}

/// Parameters of `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionParams {
    pub cwd: PathBuf,
    #[serde(default, deserialize_with = "null_as_default")]
    pub mcp_servers: Vec<McpServer>,
}

/// Parameters of `session/load`, `session/resume` and `session/fork`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenSessionParams {
    pub session_id: String,
    pub cwd: PathBuf,
    #[serde(default, deserialize_with = "null_as_default")]
    pub mcp_servers: Vec<McpServer>,
    /// Version 2, `session/resume`: where the earlier turns begin that are sent.
    #[serde(default)]
    pub replay_from: Option<ReplayFrom>,
}

/// A position in the earlier turns of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplayFrom {
    Start,
    /// A position that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Parameters of `session/list`.
#[derive(Debug, Deserialize)]
pub struct ListSessionsParams {
    pub cwd: Option<PathBuf>,
    pub cursor: Option<String>,
}

/// Parameters of `session/cancel` and `session/close`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams {
    pub session_id: String,
}

/// The response to `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionResponse {
    pub session_id: String,
}

/// Parameters of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    pub session_id: String,
    pub prompt: Vec<ContentBlock>,
}

/// A part of a prompt or of an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
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
    pub fn text(text: impl Into<String>) -> ContentBlock {
        ContentBlock::Text { text: text.into() }
    }
}

/// An MCP server that the client wants the agent to use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
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

impl McpServer {
    pub fn name(&self) -> &str {
        match self {
            McpServer::Remote { name, .. } | McpServer::Stdio { name, .. } => name,
        }
    }
}

/// An environment variable or an HTTP header.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct NameValue {
    pub name: String,
    pub value: String,
}

/// Parameters of `session/update`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateParams {
    pub session_id: String,
    pub update: SessionUpdate,
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub enum SessionUpdate {
    UserMessageChunk {
        content: ContentBlock,
    },
    AgentMessageChunk {
        content: ContentBlock,
        /// Id of the message, if the agent numbers its messages.
        #[serde(default, rename = "messageId", skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    AgentThoughtChunk {
        content: ContentBlock,
    },
    ToolCall(ToolCall),
    ToolCallUpdate(ToolCall),
    Plan {
        entries: Vec<PlanEntry>,
    },
    Notice {
        severity: Cow<'static, str>,
        title: String,
    },
    /// Only sent: a received one is [`SessionUpdate::Other`].
    #[serde(skip_deserializing)]
    UsageUpdate(ContextUsage),
    /// Another kind of update.
    #[serde(other)]
    Other,
}

impl SessionUpdate {
    pub fn message(text: impl Into<String>) -> SessionUpdate {
        SessionUpdate::AgentMessageChunk { content: ContentBlock::text(text), message_id: None }
    }

    pub fn thought(text: impl Into<String>) -> SessionUpdate {
        SessionUpdate::AgentThoughtChunk { content: ContentBlock::text(text) }
    }
}

/// The use of a session's context, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ContextUsage {
    pub used: u64,
    pub size: u64,
    /// Cost of the session so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// An amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub amount: f64,
    pub currency: &'static str,
}

/// A tool call, or a change of one: absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    /// Name of the tool. Unstable in the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub raw_input: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub raw_output: Value,
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// The output of a tool call, or its change of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
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
    /// Another kind, such as a terminal of the client.
    #[serde(other)]
    Other,
}

/// A file of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Location {
    /// Absolute.
    pub path: PathBuf,
}

/// A task of the agent's plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanEntry {
    pub content: String,
    pub priority: Cow<'static, str>,
    /// `pending`, `in_progress` or `completed`.
    pub status: Cow<'static, str>,
}

/// Parameters of `session/request_permission`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionParams {
    pub session_id: String,
    pub tool_call: ToolCall,
    pub options: Vec<PermissionOption>,
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    pub name: String,
    pub kind: PermissionKind,
}

/// The effect of a choice, as far as its label says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// The response to `session/request_permission`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PermissionResponse {
    pub outcome: PermissionOutcome,
}

/// The answer of the client's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PermissionOutcome {
    Cancelled,
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
}

/// The response to `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse {
    pub stop_reason: StopReason,
    /// Unstable in the protocol.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// The reason why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Usage {
    pub total_tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(deserialize_with = "null_as_default")]
    pub cached_read_tokens: u64,
    #[serde(deserialize_with = "null_as_default")]
    pub cached_write_tokens: u64,
}

impl From<TokenUsage> for Usage {
    fn from(tokens: TokenUsage) -> Usage {
        Usage {
            total_tokens: tokens.total(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_read_tokens: tokens.cache_read,
            cached_write_tokens: tokens.cache_write,
        }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> TokenUsage {
        TokenUsage {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cached_read_tokens,
            cache_write: usage.cached_write_tokens,
        }
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
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn use_of_the_context_is_sent_and_ignored() {
        let usage = |cost| SessionUpdate::UsageUpdate(ContextUsage { used: 10, size: 200, cost });
        let expected = json!({ "sessionUpdate": "usage_update", "used": 10, "size": 200 });
        assert_eq!(to_value(usage(None)).unwrap(), expected);
        assert_eq!(from_value::<SessionUpdate>(expected.clone()).unwrap(), SessionUpdate::Other);
        let mut expected = expected;
        expected["cost"] = json!({ "amount": 0.5, "currency": "USD" });
        assert_eq!(to_value(usage(Some(Cost { amount: 0.5, currency: "USD" }))).unwrap(), expected);
    }

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
