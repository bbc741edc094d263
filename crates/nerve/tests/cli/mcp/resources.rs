//! Screens and recordings as resources.

use nerve_testkit::wait_until;
use serde_json::{Value, json};

use super::stdio_client::{Client, StdioClient};
use crate::harness::{DEADLINE, Home};

#[test]
fn screens_and_recordings_are_resources() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut mcp = StdioClient::ready(&home, &[]);
    mcp.ok("nerve_create_node", json!({"node_id": "sh", "command": "bash --norc", "env": {"PS1": "$ "}}));
    let changed = |message: &Value| message["method"] == "notifications/resources/list_changed";
    mcp.next(changed);
    mcp.ok("nerve_execute", json!({"node_id": "sh", "text": "for i in {1..700}; do echo row-$i; done"}));
    let listed = mcp.request("resources/list", json!({}))["result"]["resources"].clone();
    let uris: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris[0], "nerve://nodes/sh/screen", "{listed}");
    assert!(uris[1].starts_with("nerve://recordings/"), "{listed}");
    let read = |mcp: &mut StdioClient, uri: &str| {
        let read = mcp.request("resources/read", json!({"uri": uri}));
        read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{uri}: {read}")).to_string()
    };
    assert!(read(&mut mcp, uris[0]).contains("row-700"));
    // The recording contains the output a moment later.
    let whole = format!("{}?lines=5000", uris[1]);
    assert!(
        wait_until(DEADLINE, || read(&mut mcp, &whole).contains("row-700\n")),
        "{}",
        read(&mut mcp, &whole)
    );
    let first = read(&mut mcp, uris[1]);
    assert!(first.contains("row-1\n") && !first.contains("row-700\n"), "{first}");
    let next = first.rsplit_once("next: ").unwrap().1.trim().trim_end_matches(']').to_string();
    let second = read(&mut mcp, &next);
    assert!(second.contains("row-700\n") && !second.contains("next:"), "{next}: {second}");
    let templates = mcp.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 2, "{templates}");
    mcp.ok("nerve_stop_node", json!({"node_id": "sh"}));
    mcp.next(changed);
    assert!(mcp.request("resources/read", json!({"uri": "nerve://nodes/sh/screen"}))["error"].is_object());
    assert!(read(&mut mcp, uris[1]).contains("row-1\n"), "a recording stays");
}

#[test]
fn resources_are_paginated() {
    let home = Home::new();
    let folder = home.hermetic.nerve_home().join("recordings/2026/01");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..250 {
        std::fs::write(folder.join(format!("r{number}.ahr")), "").unwrap();
    }
    let mut mcp = StdioClient::ready(&home, &[]);
    let (mut cursor, mut seen, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = mcp
            .request("resources/list", cursor.map_or(json!({}), |cursor: Value| json!({"cursor": cursor})));
        let page = &page["result"];
        seen.extend(page["resources"].as_array().unwrap().iter().map(|one| one["uri"].to_string()));
        pages += 1;
        match page.get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), pages), (250, 3));
}

#[test]
fn recordings_of_tcp_server_are_no_resources() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "127.0.0.1:0"]);
    let status = home.nerve(&["server", "status", "--json"]).json();
    let url = format!("tcp://{}", status["tcp"].as_str().unwrap());
    let mut mcp = StdioClient::ready(&home, &["--server", &url]);
    mcp.ok("nerve_create_node", json!({"node_id": "sh", "command": "bash --norc", "env": {"PS1": "$ "}}));
    assert_eq!(mcp.ok("nerve_execute", json!({"node_id": "sh", "text": "echo $((6 * 7))"}))["text"], "42");
    let listed = mcp.request("resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let bad = home.nerve(&["mcp", "--server", "../x"]);
    assert_ne!(bad.code, 0, "{bad:?}");
    assert_eq!(bad.stdout, "");
}
