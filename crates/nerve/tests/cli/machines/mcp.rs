//! Nodes of other machines as tools of the Model Context Protocol.

use serde_json::{Value, json};

use super::ssh_server::SshServer;
use crate::harness::Home;
use crate::mcp::stdio_client::{Client as _, StdioClient};

#[test]
fn tools_use_the_nodes_of_all_machines() {
    let (here, laptop) = (Home::with_shell(), Home::with_shell());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.add("off", "ssh://127.0.0.1:1");
    let start = |args: &[&str]| {
        let mut mcp = StdioClient::spawn(client.command(&[&["mcp"][..], args].concat()));
        mcp.initialize();
        mcp
    };
    let mut mcp = start(&["--machines"]);
    let all = mcp.ok("nerve_list_nodes", json!({ "all_machines": true }));
    let nodes: Vec<&Value> = all["nodes"].as_array().unwrap().iter().map(|node| &node["node_id"]).collect();
    assert_eq!(nodes, ["sh", "laptop/default/sh"], "{all}");
    let reachable: Vec<&Value> =
        all["machines"].as_array().unwrap().iter().map(|machine| &machine["reachable"]).collect();
    assert_eq!(reachable, [true, false], "{all}");
    let answer = mcp.ok("nerve_execute", json!({ "node_id": "laptop/default/sh", "text": "echo by-mcp" }));
    assert_eq!(answer["text"], "by-mcp", "{answer}");
    assert!(laptop.read("sh").contains("by-mcp") && !here.read("sh").contains("by-mcp"));
    let absent = mcp.call("nerve_read", json!({ "node_id": "absent/default/sh" }));
    assert_eq!(absent["structuredContent"]["error_type"], "not_found_error", "{absent}");
    let off = mcp.call("nerve_read", json!({ "node_id": "off/default/sh" }));
    assert_eq!(off["structuredContent"]["error_type"], "not_running", "{off}");
    mcp.disconnect();

    // Other machines are offered only on request.
    let mut mcp = start(&[]);
    let refused = mcp.call("nerve_list_nodes", json!({ "all_machines": true }));
    assert_eq!(refused["structuredContent"]["error_type"], "invalid_arguments", "{refused}");
    assert_eq!(mcp.call("nerve_read", json!({ "node_id": "laptop/default/sh" }))["isError"], true);
    mcp.disconnect();
}
