//! Entries of the hosts' registry.

use nerve_types::os::start_time;
use serde_json::{Value, json};

/// Returns the registry entry of a host whose process is `pid`, without child, recording and label. The host counts as running while that
/// process exists.
pub fn host_entry(id: &str, session: &str, pid: u32) -> Value {
    json!({
        "id": id, "session_id": session, "pid": pid, "start": start_time(pid), "child": 0, "child_start": 0,
        "argv": ["x"], "cwd": null, "cols": 80, "rows": 24, "runtime": format!("/run/{id}"),
        "recording": null, "started": 0, "exit": null, "label": null,
    })
}
