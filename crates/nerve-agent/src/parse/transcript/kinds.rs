//! The kinds of lines and blocks in Claude Code's transcripts. A kind that is not listed is a change of the format.
//!
//! The lists are the union of those in published programs, versions 1.0.100 to 2.1.332: resumed sessions keep the lines
//! of older versions. Most kinds of lines are notes of the program to itself and not part of the conversation.

/// Kinds of lines, by the program's own names.
const LINES: &[&str] = &[
    "user",
    "assistant",
    "system",
    "attachment",
    "progress",
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-resumed",
    "api-request-shape",
    "artifact-autoreact-ledger",
    "artifact-comment-monitor",
    "atis-latch",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "continued-in",
    "cost-state",
    "custom-title",
    "data-flow-incomplete",
    "data-flow-records",
    "derived-from",
    "dev-mods",
    "ended-by-model",
    "file-history-delta",
    "file-history-snapshot",
    "fork-context-ref",
    "frame-link",
    "history-suppression",
    "host-row",
    "hybrid-organization",
    "isolation-latch",
    "last-prompt",
    "marble-origami-commit",
    "marble-origami-reset",
    "marble-origami-snapshot",
    "memory-mode",
    "mode",
    "observer-ref",
    "permission-mode",
    "pr-link",
    "queue-operation",
    "relocated",
    "repl-mode",
    "resume-head-vouch",
    "session-owner",
    "speculation-accept",
    "summary",
    "tag",
    "tools-used",
    "worktree-state",
];

/// Kinds of blocks in the content of a message.
const BLOCKS: &[&str] = &[
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "browser_state",
    "code_execution_tool_result",
    "compaction",
    "connector_text",
    "container_upload",
    "document",
    "fallback",
    "image",
    "mcp_tool_listing",
    "mcp_tool_result",
    "mcp_tool_use",
    "search_result",
    "server_tool_use",
    "text_editor_code_execution_tool_result",
    "tool_reference",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
];

/// Returns true if Claude Code is known to write lines of this kind.
pub(crate) fn is_known_line(kind: &str) -> bool {
    LINES.contains(&kind)
}

/// Returns true if messages are known to contain blocks of this kind.
pub(crate) fn is_known_block(kind: &str) -> bool {
    BLOCKS.contains(&kind)
}
