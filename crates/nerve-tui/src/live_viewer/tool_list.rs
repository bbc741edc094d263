//! Finds the tool list of a session, or explains why it is empty.

use std::path::Path;

use nerve_host::OF;
use nerve_host::registry::Entry;
use rustix::fs::{Access, access};

/// Returns the session file that the tool list belongs to, or why there is none.
pub fn tool_list_path(entry: &Entry) -> Result<&Path, &'static str> {
    if entry.label.get(OF).is_some() {
        return Err("this is the terminal of a tool: the viewer of its agent lists what runs");
    }
    let old = "no tool list: the session is not recorded, and was started by an older nerve";
    entry.session_file().ok_or(old)
}

/// Explains an empty list. `reports_tools`: the agent reports its tools as they run.
pub(super) fn empty_reason(entry: &Entry, reports_tools: bool) -> String {
    let session = match tool_list_path(entry) {
        Ok(session) => session,
        Err(reason) => return reason.to_string(),
    };
    let folder = session.parent().unwrap_or(Path::new("/"));
    if let Err(error) = access(folder, Access::WRITE_OK) {
        let error = std::io::Error::from(error);
        return format!("no tool list: {}: {error}", folder.display());
    }
    match (reports_tools, entry.label.get("node")) {
        (true, _) => "no tools yet".to_string(),
        (false, Some(_)) => {
            "no tools yet: tools are listed when a turn ends, 'nerve exec' commands at once".to_string()
        }
        (false, None) => "this agent does not report its tools; 'nerve exec' commands are listed".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn host(recording: Option<&Path>, label: Value) -> Entry {
        serde_json::from_value(json!({
            "id": "aa11", "session_id": "s", "pid": 1, "start": 1, "child": 0, "child_start": 0, "argv": ["x"],
            "cwd": null, "cols": 80, "rows": 24, "runtime": "/run/aa11", "recording": recording,
            "started": 0, "exit": null, "label": label,
        }))
        .unwrap()
    }

    #[test]
    fn empty_lists_are_explained() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("s.ahr");
        let words = |entry: &Entry, reports_tools| empty_reason(entry, reports_tools);
        let recorded = host(Some(&recording), Value::Null);
        assert_eq!(tool_list_path(&recorded), Ok(recording.as_path()));
        assert!(words(&recorded, true).contains("no tools yet"));
        assert!(words(&recorded, false).contains("nerve exec"));
        assert!(words(&host(Some(&recording), json!({ "node": "me" })), false).contains("when a turn ends"));
        let tool = host(Some(&recording), json!({ "of": "/r.ahr" }));
        assert!(tool_list_path(&tool).is_err() && words(&tool, true).contains("terminal of a tool"));
        assert!(words(&host(None, Value::Null), true).contains("older nerve"));
        let unrecorded = Entry { unrecorded: Some(recording.clone()), ..host(None, Value::Null) };
        assert_eq!(tool_list_path(&unrecorded), Ok(recording.as_path()));
        let nowhere = host(Some(&dir.path().join("gone").join("s.ahr")), Value::Null);
        assert!(words(&nowhere, true).contains("no tool list"), "{}", words(&nowhere, true));
    }
}
