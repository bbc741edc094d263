//! Tool calls and plans, from the activities and sections of an agent.

use std::path::Path;

use nerve_types::activity::Status;
use nerve_types::text::shorten;
use serde_json::Value;

use crate::types::{ContentBlock, Location, PlanEntry, ToolCall, ToolContent, ToolStatus};

/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 120;
/// Arguments that name a file.
const PATHS: [&str; 4] = ["file_path", "notebook_path", "path", "absolute_path"];

/// Creates a tool call that has started. `args`: JSON if the agent gives JSON, otherwise text. `cwd`: base of relative paths.
pub(crate) fn build_call(id: &str, name: &str, args: &str, cwd: &Path) -> ToolCall {
    let raw_input = match serde_json::from_str(args) {
        Ok(value @ Value::Object(_)) => value,
        _ if args.is_empty() => Value::Null,
        _ => Value::from(args),
    };
    let path = PATHS.iter().find_map(|key| raw_input.get(key)?.as_str()).map(|path| cwd.join(path));
    let content = path.as_deref().and_then(|path| build_diff(&raw_input, path)).into_iter().collect();
    ToolCall {
        tool_call_id: id.to_string(),
        title: Some(format_title(name, &raw_input)),
        kind: Some(classify_tool(name).into()),
        status: Some(ToolStatus::InProgress),
        content,
        locations: path.map(|path| Location { path }).into_iter().collect(),
        raw_input,
        ..ToolCall::default()
    }
}

/// Creates an update of a tool call with a text, which may be empty. `before`: content of the call that stays, because the content of an
/// update replaces the former one.
pub(crate) fn build_update(
    id: &str,
    before: &[ToolContent],
    text: &str,
    status: Option<ToolStatus>,
) -> ToolCall {
    let text = Some(text).filter(|text| !text.is_empty());
    let added = text.map(|text| ToolContent::Content { content: ContentBlock::text(text) });
    ToolCall {
        tool_call_id: id.to_string(),
        status,
        content: before.iter().cloned().chain(added).collect(),
        ..ToolCall::default()
    }
}

/// Converts the state of an activity.
pub(crate) fn convert_status(status: Status) -> ToolStatus {
    match status {
        Status::Completed | Status::Stopped => ToolStatus::Completed,
        Status::Failed | Status::Cancelled => ToolStatus::Failed,
        Status::Queued | Status::Provisioning => ToolStatus::Pending,
        Status::Running | Status::Pausing | Status::Paused | Status::Resuming | Status::Stopping => {
            ToolStatus::InProgress
        }
    }
}

/// Converts the `status` of a section.
pub(crate) fn convert_section_status(status: &str) -> ToolStatus {
    if matches!(status, "error" | "rejected") { ToolStatus::Failed } else { ToolStatus::Completed }
}

/// Returns the plan of a call of the agent's tool for plans: `TodoWrite` of Claude Code, `update_plan` of Codex.
pub(crate) fn read_plan(name: &str, args: &str) -> Option<Vec<PlanEntry>> {
    let (list, text) = match name {
        "TodoWrite" => ("todos", "content"),
        "update_plan" => ("plan", "step"),
        _ => return None,
    };
    let args: Value = serde_json::from_str(args).ok()?;
    let entry = |entry: &Value| {
        let status = match entry["status"].as_str()? {
            "completed" => "completed",
            "in_progress" => "in_progress",
            _ => "pending",
        };
        let priority = match entry["priority"].as_str() {
            Some("high") => "high",
            Some("low") => "low",
            _ => "medium",
        };
        let content = entry[text].as_str()?.to_string();
        Some(PlanEntry { content, priority: priority.into(), status: status.into() })
    };
    args[list].as_array()?.iter().map(entry).collect()
}

/// Returns the kind of a tool with this name; the names are those of the known agents.
fn classify_tool(name: &str) -> &'static str {
    match name.to_ascii_lowercase().as_str() {
        "read" | "read_file" | "notebookread" | "view" => "read",
        "edit" | "multiedit" | "write" | "update" | "notebookedit" | "apply_patch" | "write_file"
        | "replace" | "patch" => "edit",
        "bash" | "shell" | "exec_command" | "local_shell" | "run_shell_command" | "bashoutput" => "execute",
        "grep" | "glob" | "ls" | "list" | "search" | "search_file_content" | "list_directory" => "search",
        "webfetch" | "websearch" | "web_fetch" | "google_web_search" | "web_search" | "fetch" => "fetch",
        "task" | "todowrite" | "update_plan" => "think",
        _ => "other",
    }
}

/// Returns a title of one line: the tool with its command, file, pattern or text arguments. JSON that was cut off is left out.
fn format_title(name: &str, args: &Value) -> String {
    let keys = [
        "command",
        "cmd",
        "file_path",
        "notebook_path",
        "path",
        "absolute_path",
        "pattern",
        "url",
        "query",
        "description",
    ];
    let subject = match args {
        Value::String(text) => Some(text.clone()).filter(|text| !text.starts_with('{')),
        args => keys.iter().find_map(|key| match args.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
            _ => None,
        }),
    };
    let line = match subject {
        Some(subject) => format!("{name}: {}", subject.lines().next().unwrap_or_default()),
        None => name.to_string(),
    };
    shorten(&line, MAX_TITLE)
}

/// Returns the change of a file that Claude Code's tools for files make. The old text of a file that is written as a whole is not known.
fn build_diff(args: &Value, path: &Path) -> Option<ToolContent> {
    let text = |key: &str| args.get(key)?.as_str().map(str::to_string);
    let path = path.to_path_buf();
    match (text("old_string"), text("new_string"), text("content")) {
        (Some(old), Some(new_text), _) => Some(ToolContent::Diff { path, old_text: Some(old), new_text }),
        (None, None, Some(new_text)) => Some(ToolContent::Diff { path, old_text: None, new_text }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn edit_has_diff_and_absolute_location() {
        let args = json!({ "file_path": "src/a.rs", "old_string": "1", "new_string": "2" });
        let call = build_call("t1", "Edit", &args.to_string(), Path::new("/shop"));
        let expected = json!({
            "toolCallId": "t1", "title": "Edit: src/a.rs", "kind": "edit", "status": "in_progress",
            "content": [{ "type": "diff", "path": "/shop/src/a.rs", "oldText": "1", "newText": "2" }],
            "locations": [{ "path": "/shop/src/a.rs" }], "rawInput": args,
        });
        assert_eq!(to_value(call).unwrap(), expected);
    }

    #[test]
    fn command_is_the_title_of_a_shell_call() {
        let call = build_call("t", "Bash", r#"{"command":"ls\npwd"}"#, Path::new("/"));
        assert_eq!((call.title.as_deref(), call.kind.as_deref()), (Some("Bash: ls"), Some("execute")));
        let call = build_call("t", "shell", r#"{"command":["ls","-l"]}"#, Path::new("/"));
        assert_eq!(call.title.as_deref(), Some("shell: ls -l"));
        let call = build_call("t", "mcp__x", &"é".repeat(300), Path::new("/"));
        assert_eq!(call.title.unwrap().chars().count(), MAX_TITLE + 1);
        let call =
            build_call("t", "Write", "{\"content\":\"aaa\n[9 more bytes are not shown]", Path::new("/"));
        assert_eq!(call.title.as_deref(), Some("Write"));
    }

    #[test]
    fn plans_of_both_agents_are_read() {
        let claude = r#"{"todos":[{"content":"a","status":"in_progress","activeForm":"doing a"},{"content":"b","status":"new"}]}"#;
        let entries = read_plan("TodoWrite", claude).unwrap();
        let found: Vec<_> = entries.iter().map(|entry| (entry.content.as_str(), &*entry.status)).collect();
        assert_eq!(found, [("a", "in_progress"), ("b", "pending")]);
        let codex = r#"{"plan":[{"step":"a","status":"completed"}]}"#;
        assert_eq!(read_plan("update_plan", codex).unwrap()[0].status, "completed");
        assert_eq!(read_plan("update_plan", "nonsense"), None);
        assert_eq!(read_plan("Bash", claude), None);
    }
}
