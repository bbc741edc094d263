//! The official SDK: its schema, and its client.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::skip;
use serde_json::{Value, json};

use super::STORED;
use super::editor::Editor;
use crate::harness::{DEADLINE, Home, NERVE};

/// Returns a file that `cargo xtask setup` installs, if it is there. `variable`: sets another folder than `default`.
fn installed(variable: Option<&str>, default: &str, file: &str) -> Option<PathBuf> {
    let folder = match variable.and_then(std::env::var_os) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(default),
    };
    let file = std::path::absolute(folder.join(file)).ok()?;
    file.exists().then_some(file)
}

#[test]
fn official_client_uses_an_agent() {
    let module = "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js";
    let Some(module) = installed(None, "browser", module) else {
        return skip("official_client_uses_an_agent", "the SDK is not installed (cargo xtask setup)");
    };
    let home = Home::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/acp/official_client.mjs");
    let mut command = home.hermetic.command("node");
    command.arg(script).arg(module).arg(home.hermetic.work()).args([NERVE, "acp", "--", NERVE, "mock-agent"]);
    let mut command = assert_cmd::Command::from_std(command);
    let done = CommandOutput::new(&command.timeout(3 * DEADLINE).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    let found = done.json();
    assert_eq!(found["protocolVersion"], 1, "{found}");
    assert_eq!(found["reasons"], json!(["end_turn", "end_turn", "cancelled"]), "{found}");
    assert_eq!((&found["permissions"], &found["listed"]), (&json!(1), &json!(true)), "{found}");
    assert_eq!((&found["unknown"], &found["code"]), (&json!(-32002), &json!(0)), "{found}");
    assert_eq!(found["kinds"], json!(["agent_message_chunk", "tool_call", "tool_call_update"]), "{found}");
    assert!(found["text"].as_str().unwrap().contains("END-OF-TOOL"), "{found}");
}

#[test]
fn all_messages_match_the_published_schema() {
    let test = "all_messages_match_the_published_schema";
    let schema = "node_modules/@agentclientprotocol/sdk/schema/v1";
    let schema = installed(None, "browser", schema);
    let python = installed(Some("NERVE_TEST_PYPI"), "pypi", "bin/python");
    let (Some(schema), Some(python)) = (schema, python) else {
        return skip(test, "the schema or jsonschema is not installed (cargo xtask setup)");
    };
    let home = Home::new();
    let work = home.hermetic.work();
    let mut editor = Editor::ready(&home, &[], &STORED);
    let servers = json!([{ "name": "files", "command": "/bin/files", "args": [], "env": [] }]);
    let made = editor.ok("session/new", json!({ "cwd": work, "mcpServers": servers }));
    let session = made["sessionId"].as_str().unwrap().to_string();
    for prompt in ["use a TOOL", "THINK first", "TOKENS please"] {
        assert_eq!(editor.turn(&session, prompt), "end_turn");
    }
    let prompt = editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    editor.choose(&asked, Some("1"));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "PERMIT again");
    editor.permission();
    home.ok(&["answer", &session, "1"]);
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let failed = editor.prompt(&session, "ERR 529");
    editor.answer(failed);
    editor.ok("session/load", json!({ "sessionId": session, "cwd": work, "mcpServers": [] }));
    editor.ok("session/list", json!({}));
    editor.error("session/teleport", json!({}));
    editor.ok("session/close", json!({ "sessionId": session }));
    let methods: serde_json::Map<String, Value> =
        editor.sent.iter().map(|(id, method)| (id.to_string(), json!(method))).collect();
    let lines: String = editor.log.iter().map(|message| format!("{message}\n")).collect();
    let lines = format!("{}\n{lines}", json!(methods));

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/acp/validate.py");
    let mut command = home.hermetic.command(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(schema).stderr(Stdio::piped());
    let mut command = assert_cmd::Command::from_std(command);
    let done = CommandOutput::new(&command.timeout(3 * DEADLINE).write_stdin(lines).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout.trim(), editor.log.len().to_string(), "{done:?}");
}
