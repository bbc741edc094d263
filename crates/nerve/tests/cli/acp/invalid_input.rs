//! Bad clients, and agents that do not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_testkit::harness::memory_kib;
use serde_json::{Value, json};

use super::editor::Editor;
use crate::harness::{Home, NERVE};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const AUTH_REQUIRED: i64 = -32000;
const NOT_FOUND: i64 = -32002;

/// Sends a line and returns the code and the id of the error.
#[track_caller]
fn refuse(editor: &mut Editor, line: &str) -> (i64, Value) {
    editor.io.send_line(line);
    let message = editor.next(|message| message.get("error").is_some());
    (message["error"]["code"].as_i64().unwrap(), message["id"].clone())
}

#[test]
fn invalid_messages_get_errors_and_the_server_continues() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[], &[]);
    assert_eq!(refuse(&mut editor, "{nonsense"), (PARSE_ERROR, Value::Null));
    assert_eq!(refuse(&mut editor, "[]"), (INVALID_REQUEST, Value::Null));
    assert_eq!(refuse(&mut editor, r#"{"id":7,"method":"initialize"}"#), (INVALID_REQUEST, json!(7)));
    assert_eq!(editor.error("session/new", json!({}))["code"], INVALID_REQUEST, "before initialize");
    assert_eq!(editor.error("initialize", json!({ "protocolVersion": "x" }))["code"], INVALID_PARAMS);
    assert_eq!(editor.error("initialize", json!({}))["code"], INVALID_PARAMS);
    // The latest version of the server is offered, and the client decides.
    assert_eq!(editor.ok("initialize", json!({ "protocolVersion": 99 }))["protocolVersion"], 1);
    assert_eq!(editor.error("initialize", json!({ "protocolVersion": 1 }))["code"], INVALID_REQUEST);
    assert_eq!(editor.error("session/teleport", json!({}))["code"], METHOD_NOT_FOUND);
    editor.io.notify("session/teleport", json!({}));
    editor.io.notify("session/cancel", json!({ "sessionId": "unknown" }));
    // Responses to no request, valid or not, get no answer.
    editor.io.send_line(r#"{"jsonrpc":"2.0","id":12345,"result":{}}"#);
    editor.io.send_line(r#"{"jsonrpc":"2.0","id":12346}"#);
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let unknown =
        json!({ "sessionId": "unknown", "prompt": prompt, "cwd": home.hermetic.work(), "mcpServers": [] });
    for method in ["session/prompt", "session/load", "session/resume", "session/fork", "session/close"] {
        assert_eq!(editor.error(method, unknown.clone())["code"], NOT_FOUND, "{method}");
    }
    assert_eq!(editor.error("session/list", json!({ "cursor": "x" }))["code"], INVALID_PARAMS);
    let relative = json!({ "cwd": "work", "mcpServers": [] });
    assert_eq!(editor.error("session/new", relative)["code"], INVALID_PARAMS);
    let null = json!({ "cwd": home.hermetic.work(), "mcpServers": null });
    let session = editor.ok("session/new", null)["sessionId"].as_str().unwrap().to_string();
    assert_eq!(editor.turn(&session, "hello"), "end_turn");
    assert!(editor.log.iter().all(|message| message["id"] != 12345 && message["id"] != 12346));
    assert_eq!(editor.io.disconnect(), Some(0));
}

#[test]
fn prompts_that_cannot_be_sent_are_refused() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let session = editor.session(&home.hermetic.work());
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AA==" });
    for prompt in [json!([image]), json!([]), json!([{ "type": "text", "text": "  " }]), json!("text")] {
        let params = json!({ "sessionId": session, "prompt": prompt });
        assert_eq!(editor.error("session/prompt", params)["code"], INVALID_PARAMS, "{prompt}");
    }
    let running = editor.prompt(&session, "STALL 6000");
    let second = editor.prompt(&session, "me too");
    let refused = editor.answer(second);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["error_type"]),
        (&json!(INVALID_REQUEST), &json!("busy"))
    );
    editor.io.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(running), "cancelled");
    let elsewhere = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
    assert_eq!(editor.error("session/load", elsewhere)["code"], INVALID_PARAMS);
}

#[test]
fn huge_line_is_refused_without_being_kept() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let before = memory_kib(editor.io.pid(), "VmHWM");
    assert!(before > 0);
    let (code, id) = refuse(&mut editor, &"x".repeat(100 << 20));
    assert_eq!((code, id), (INVALID_REQUEST, Value::Null));
    let grown = memory_kib(editor.io.pid(), "VmHWM") - before;
    assert!(grown < 64 << 10, "{grown} KiB");
    assert!(editor.ok("session/list", json!({}))["sessions"].is_array());
}

#[test]
fn agents_that_do_not_start_are_reported() {
    let home = Home::new();
    let new = json!({ "cwd": home.hermetic.work(), "mcpServers": [] });
    let mut editor = Editor::with_agent(&home, &[], &["no-such-agent"]);
    editor.initialize();
    let error = editor.error("session/new", new.clone());
    let facts = (&error["code"], &error["data"]["error_type"]);
    assert_eq!(facts, (&json!(INTERNAL_ERROR), &json!("process_error")), "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
    let mut editor = Editor::ready(&home, &[], &["--exit-at-once", "3"]);
    let error = editor.error("session/new", new.clone());
    assert_eq!(
        (&error["code"], &error["data"]["error_type"]),
        (&json!(INTERNAL_ERROR), &json!("process_error"))
    );
    let mut editor = Editor::ready(&home, &[], &["--login"]);
    let error = editor.error("session/new", new.clone());
    assert_eq!(error["code"], AUTH_REQUIRED, "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
    let absent = json!({ "cwd": "/no/such/folder", "mcpServers": [] });
    let error = editor.error("session/new", absent);
    let facts = (&error["code"], &error["data"]["error_type"]);
    assert_eq!(facts, (&json!(INTERNAL_ERROR), &json!("process_error")), "{error}");
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], json!([]));
}

#[test]
fn mcp_servers_that_the_agent_cannot_use_are_reported() {
    let home = Home::new();
    let mut editor = Editor::ready(&home, &[], &[]);
    let servers = json!([{ "name": "files", "command": "/bin/files", "args": [], "env": [] }]);
    let made = editor.ok("session/new", json!({ "cwd": home.hermetic.work(), "mcpServers": servers }));
    assert_eq!(made["_meta"]["nerve"]["ignoredMcpServers"], json!(["files"]), "{made}");
    // The editor knows the session only after the response.
    assert_eq!(editor.updates(made["sessionId"].as_str().unwrap(), "notice"), [] as [Value; 0]);
    let notice = editor.next(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    assert_eq!(notice["params"]["sessionId"], made["sessionId"], "{notice}");
    assert_eq!(notice["params"]["update"]["severity"], "warning", "{notice}");
}

#[test]
fn secrets_of_mcp_servers_are_not_stored() {
    let home = Home::new();
    let claude = home.hermetic.work().join("claude");
    let started = home.hermetic.work().join("environment");
    // The scripted agent does not know --mcp-config.
    let script = format!("#!/bin/sh\nenv > '{}'\nexec '{NERVE}' mock-agent\n", started.display());
    fs::write(&claude, script).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let mut editor = Editor::with_agent(&home, &[], &[claude.to_str().unwrap()]);
    editor.initialize();
    let secret = json!([{ "name": "ADDRESS", "value": "s3cret-of-a-server" }]);
    let servers = json!([{ "name": "files", "command": "/bin/files", "args": [], "env": secret }]);
    let made = editor.ok("session/new", json!({ "cwd": home.hermetic.work(), "mcpServers": servers }));
    assert_eq!(made["_meta"], Value::Null, "{made}");
    let session = made["sessionId"].as_str().unwrap();
    assert_eq!(editor.turn(session, "hello"), "end_turn");
    assert!(fs::read_to_string(&started).unwrap().contains("s3cret-of-a-server"));
    fs::remove_file(&started).unwrap();
    assert_eq!(editor.io.disconnect(), Some(0));
    let files = files_below(home.hermetic.root());
    assert!(files.iter().any(|(_, content)| contains(content, session)), "the session is stored");
    let leaks: Vec<_> = files.iter().filter(|(_, content)| contains(content, "s3cret-of-a-server")).collect();
    assert!(leaks.is_empty(), "{:?}", leaks.iter().map(|(path, _)| path).collect::<Vec<_>>());
}

fn contains(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Returns the regular files below a folder with their contents.
fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_below(&entry.path()),
        Ok(kind) if kind.is_file() => vec![(entry.path(), fs::read(entry.path()).unwrap_or_default())],
        _ => Vec::new(),
    });
    files.collect()
}
