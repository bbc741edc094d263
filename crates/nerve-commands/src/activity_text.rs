//! An agent's activity as one line.

use nerve_types::activity::Activity;

/// Returns the line; `None` for activities that say nothing about the work.
pub fn format(activity: &Activity) -> Option<String> {
    let text = match activity {
        Activity::ToolStart { name, args, .. } => format!("{name} {}", argument(args)),
        Activity::FileEdit { path, added, removed, .. } => format!("{path} +{added} -{removed}"),
        Activity::Thought { text, .. } => text.clone(),
        Activity::Error { message, .. } => message.clone(),
        _ => return None,
    };
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_string)
}

/// Returns the first text among a tool's arguments: the command, the path, the query.
fn argument(args: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(args) else { return args.to_string() };
    let first = value.as_object().and_then(|fields| fields.values().find_map(|value| value.as_str()));
    first.map_or_else(|| value.as_str().unwrap_or_default().to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use nerve_types::activity::{Status, TsMs};

    use super::*;

    #[test]
    fn tool_is_shown_with_its_first_text() {
        let tool = |args: &str| Activity::ToolStart {
            name: "Bash".to_string(),
            args: args.to_string(),
            execution: "1".to_string(),
            status: Status::Running,
            at: TsMs(0),
        };
        assert_eq!(format(&tool(r#"{"timeout":5,"command":"make\ntest"}"#)).as_deref(), Some("Bash make"));
        assert_eq!(format(&tool("ls -l")).as_deref(), Some("Bash ls -l"));
        assert_eq!(format(&tool("{}")).as_deref(), Some("Bash"));
        assert_eq!(format(&Activity::Status { status: Status::Running, at: TsMs(0) }), None);
    }
}
