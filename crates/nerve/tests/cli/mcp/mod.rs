//! `nerve mcp`: its tools; resources, long turns and bad clients in modules of their own.

mod http;
pub(crate) mod http_client;
mod invalid_input;
mod long_turns;
mod official_client;
mod resources;
pub(crate) mod stdio_client;

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use self::stdio_client::{Client, StdioClient, text};
use crate::harness::{DEADLINE, Home, NERVE};

#[test]
fn node_is_created_used_and_stopped() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    assert_eq!(mcp.ok("nerve_list_nodes", json!({}))["nodes"], json!([]));
    let made = mcp.ok(
        "nerve_create_node",
        json!({"node_id": "sh", "command": ["bash", "--norc"], "env": {"PS1": "$ "}}),
    );
    assert_eq!(made["state"], "ready", "{made}");
    let result = mcp.call("nerve_execute", json!({"node_id": "sh", "text": "echo $((6 * 7))"}));
    assert_eq!(result["structuredContent"]["text"], "42", "{result}");
    assert_eq!(text(&result), "42");
    let nodes = mcp.ok("nerve_list_nodes", json!({}));
    assert_eq!((&nodes["nodes"][0]["node_id"], &nodes["nodes"][0]["state"]), (&json!("sh"), &json!("ready")));
    let read = mcp.ok("nerve_read", json!({"node_id": "sh", "screen": true}));
    assert!(read["text"].as_str().unwrap().contains("42") && read["state"] == "ready", "{read}");
    mcp.ok("nerve_write", json!({"node_id": "sh", "data": "echo typed-$((1+1))\r"}));
    assert!(wait_until(DEADLINE, || home.read("sh").contains("typed-2")), "{}", home.read("sh"));
    let history = mcp.ok("nerve_history", json!({"node_id": "sh", "inputs_only": true}));
    assert_eq!((&history["total"], &history["node_id"]), (&json!(2), &json!("sh")), "{history}");
    assert!(history.get("channel_id").is_none(), "{history}");
    let found =
        mcp.call("nerve_search", json!({"pattern": "echo $((6", "kinds": ["prompt"], "node_id": "sh"}));
    assert_eq!(found["structuredContent"]["hits"][0]["text"], "echo $((6 * 7))", "{found}");
    assert!(
        text(&found).contains("prompt: node 'sh'") && text(&found).contains("echo $((6 * 7))"),
        "{found}"
    );
    assert_eq!(mcp.ok("nerve_stop_node", json!({"node_id": "sh"}))["stopped"], true);
    assert_eq!(mcp.ok("nerve_list_nodes", json!({}))["nodes"], json!([]));
    assert_eq!(mcp.disconnect(), Some(0));
    assert_eq!(mcp.stderr(), "", "nothing went wrong");
}

#[test]
fn failure_is_a_tool_result_with_a_hint() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    let lost = mcp.call("nerve_execute", json!({"node_id": "lost", "text": "hi"}));
    assert_eq!(lost["isError"], true, "{lost}");
    assert_eq!(lost["structuredContent"]["error_type"], "not_found_error", "{lost}");
    mcp.ok("nerve_create_node", json!({"node_id": "one-shot", "backend": "bash"}));
    let failed = mcp.call("nerve_execute", json!({"node_id": "one-shot", "text": "echo some; exit 3"}));
    assert_eq!(
        (&failed["isError"], &failed["structuredContent"]["exit_code"]),
        (&json!(true), &json!(3)),
        "{failed}"
    );
    assert!(text(&failed).starts_with("some"), "{failed}");
}

#[test]
fn blocked_agent_is_reported_with_choices_and_answered() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    mcp.ok("nerve_create_node", json!({"node_id": "me", "command": [NERVE, "mock-agent"]}));
    let blocked = mcp.call("nerve_execute", json!({"node_id": "me", "text": "PERMIT please"}));
    assert_eq!(blocked["isError"], true, "{blocked}");
    assert_eq!(blocked["structuredContent"]["error_type"], "blocked", "{blocked}");
    assert!(!blocked["structuredContent"]["choices"].as_array().unwrap().is_empty(), "{blocked}");
    assert!(text(&blocked).contains("nerve_answer"), "{blocked}");
    let wrong = mcp.call("nerve_answer", json!({"node_id": "me"}));
    assert_eq!(wrong["structuredContent"]["error_type"], "invalid_arguments", "{wrong}");
    let answered = mcp.ok("nerve_answer", json!({"node_id": "me", "choice": 1}));
    assert_eq!(answered["is_complete"], true, "{answered}");
}

#[test]
fn tools_find_a_server_started_later() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &[]);
    let result = mcp.call("nerve_list_nodes", json!({}));
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("nerve server start"), "{result}");
    // Recordings do not need a server; there are none.
    assert_eq!(mcp.request("resources/list", json!({}))["result"]["resources"], json!([]));
    let screen = mcp.request("resources/read", json!({"uri": "nerve://nodes/sh/screen"}));
    assert!(screen["error"]["message"].as_str().unwrap().contains("nerve server start"), "{screen}");
    home.ok(&["server", "start"]);
    assert_eq!(mcp.ok("nerve_list_nodes", json!({}))["nodes"], json!([]));
    home.ok(&["server", "stop"]);
    assert_eq!(mcp.call("nerve_list_nodes", json!({}))["isError"], true);
}

#[test]
fn legacy_tools_need_a_flag_and_name_replacements() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    let unknown = mcp.request("tools/call", json!({"name": "nerve_list_channels", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown tool"), "{unknown}");
    let mut mcp = StdioClient::ready(&home, &["--legacy-tools"]);
    let listed = mcp.request("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 23, "{listed}");
    let warned = |result: &Value, instead: &str| {
        assert_ne!(result["isError"], true, "{result}");
        assert!(result["structuredContent"]["warnings"][0].as_str().unwrap().ends_with(instead), "{result}");
        assert!(text(result).contains("deprecated"), "{result}");
    };
    warned(
        &mcp.call("nerve_create_channel", json!({"name": "sh", "command": "bash --norc"})),
        "nerve_create_node",
    );
    let old = json!({"channel_name": "sh", "text": "echo hello", "parser": "none"});
    for arguments in [old, json!({"channel_id": "sh", "input": "echo hello"})] {
        let sent = mcp.call("nerve_send", arguments);
        warned(&sent, "nerve_execute");
        assert!(sent["structuredContent"]["text"].as_str().unwrap().contains("hello"), "{sent}");
    }
    warned(&mcp.call("nerve_list_channels", json!({})), "nerve_list_nodes");
    warned(&mcp.call("nerve_close_channel", json!({"channel_name": "sh"})), "nerve_stop_node");
}

#[test]
fn graph_run_returns_results_even_if_it_fails() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &["--in-process"]);
    let graph = |second: &str| {
        json!({"graph": {"graph": "two", "nodes": {"sh": {"type": "bash"}}, "steps": [
            {"id": "one", "node": "sh", "input": "echo {{ input }}"},
            {"id": "two", "node": "sh", "input": second, "depends_on": ["one"]},
        ]}, "input": "tea"})
    };
    let done = mcp.ok("nerve_run_graph", graph("echo got {{ steps.one }}"));
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(done["results"]["two"]["text"], "got tea", "{done}");
    let failed = mcp.call("nerve_run_graph", graph("exit 1"));
    assert_eq!(failed["isError"], true, "{failed}");
    assert_eq!(failed["structuredContent"]["results"]["one"]["text"], "tea", "{failed}");
    let neither = mcp.call("nerve_run_graph", json!({}));
    assert_eq!(neither["structuredContent"]["error_type"], "invalid_arguments", "{neither}");
}

#[test]
fn snapshot_tools_take_list_and_restore() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    let folder = home.hermetic.work().canonicalize().unwrap().join("project");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "old").unwrap();
    mcp.ok("nerve_create_node", json!({"node_id": "sh", "command": "bash --norc", "cwd": folder}));
    let taken = mcp.ok("nerve_take_snapshot", json!({"node_id": "sh", "label": "first"}));
    assert_eq!((&taken["snapshot_id"], &taken["files"]["source"]), (&json!(1), &json!(folder)), "{taken}");
    std::fs::write(folder.join("file"), "new").unwrap();
    let listed = mcp.ok("nerve_list_snapshots", json!({"node_id": "sh"}));
    assert_eq!(listed["snapshots"][0]["label"], "first", "{listed}");
    let to = home.hermetic.work().join("restored");
    mcp.ok("nerve_restore_snapshot", json!({"snapshot_id": 1, "node_id": "sh", "to": to}));
    assert_eq!(std::fs::read_to_string(to.join("file")).unwrap(), "old");
    let branch = mcp.call("nerve_create_branch", json!({"source_id": "sh", "at": "1", "instruction": "x"}));
    assert!(text(&branch).contains("is not a known agent"), "{branch}");
    assert_eq!(mcp.ok("nerve_list_branches", json!({}))["branches"], json!([]));
    let recordings = mcp.ok("nerve_list_recordings", json!({"last": 1}))["recordings"].clone();
    assert_eq!(
        (recordings.as_array().unwrap().len(), &recordings[0]["live"]),
        (1, &json!(true)),
        "{recordings}"
    );
}

#[test]
fn tools_have_descriptions_and_hints() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &[]);
    let tools = mcp.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let named =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    for name in [
        "create_node",
        "execute",
        "list_nodes",
        "stop_node",
        "read",
        "write",
        "interrupt",
        "answer",
        "fork",
        "list_snapshots",
        "take_snapshot",
        "restore_snapshot",
        "create_branch",
        "list_branches",
        "list_recordings",
        "run_graph",
        "history",
        "search",
        "usage",
    ] {
        let tool = named(&format!("nerve_{name}"));
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    }
    assert_eq!(named("nerve_read")["annotations"]["readOnlyHint"], true);
    assert_eq!(named("nerve_stop_node")["annotations"]["destructiveHint"], true);
    assert_eq!(tools.len(), 19);
}

#[test]
fn long_answer_is_truncated_in_the_middle() {
    let home = Home::new();
    let mut mcp = StdioClient::ready(&home, &["--in-process"]);
    mcp.ok("nerve_create_node", json!({"node_id": "sh", "backend": "bash"}));
    let result = mcp
        .call("nerve_execute", json!({"node_id": "sh", "text": "for i in {1..30000}; do echo row-$i; done"}));
    let output = text(&result);
    assert!(output.starts_with("row-1\n") && output.contains("row-30000\n"), "{} bytes", output.len());
    assert!(output.len() < 70_000 && output.contains("bytes omitted"), "{} bytes", output.len());
    assert!(result["structuredContent"]["truncated"].is_string());
    let graph = json!({"graph": "long", "nodes": {"sh": {"type": "bash"}}, "steps": [
        {"id": "a", "node": "sh", "input": "for i in {1..30000}; do echo row-$i; done"},
    ]});
    let run = mcp.call("nerve_run_graph", json!({"graph": graph, "trace": true}));
    assert!(run.to_string().len() < 300_000, "{} bytes", run.to_string().len());
}
