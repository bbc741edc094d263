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
pub(super) fn installed(variable: Option<&str>, default: &str, file: &str) -> Option<PathBuf> {
    let folder = match variable.and_then(std::env::var_os) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(default),
    };
    let file = std::path::absolute(folder.join(file)).ok()?;
    file.exists().then_some(file)
}

/// Runs a script that uses the SDK of a version of the protocol, and returns what it prints. `None`: the SDK is not installed.
fn run_client(test: &str, version: &str, script: &str) -> Option<Value> {
    let module = format!("node_modules/@agentclientprotocol/sdk/dist/v{version}/stable/acp.js");
    let Some(module) = installed(None, "browser", &module) else {
        skip(test, "the SDK is not installed (cargo xtask setup)");
        return None;
    };
    let home = Home::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/acp").join(script);
    let mut command = home.hermetic.command("node");
    command.arg(script).arg(module).arg(home.hermetic.work());
    command.args([NERVE, "acp", "--protocol", version, "--", NERVE, "mock-agent"]);
    let mut command = assert_cmd::Command::from_std(command);
    let done = CommandOutput::new(&command.timeout(3 * DEADLINE).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    Some(done.json())
}

#[test]
fn official_client_uses_an_agent() {
    let Some(found) = run_client("official_client_uses_an_agent", "1", "official_client.mjs") else { return };
    assert_eq!(found["protocolVersion"], 1, "{found}");
    assert_eq!(found["reasons"], json!(["end_turn", "end_turn", "cancelled"]), "{found}");
    assert_eq!((&found["permissions"], &found["listed"]), (&json!(1), &json!(true)), "{found}");
    assert_eq!((&found["unknown"], &found["code"]), (&json!(-32002), &json!(0)), "{found}");
    assert_eq!(found["kinds"], json!(["agent_message_chunk", "tool_call", "tool_call_update"]), "{found}");
    assert!(found["text"].as_str().unwrap().contains("END-OF-TOOL"), "{found}");
}

#[test]
fn official_client_of_version_2_uses_an_agent() {
    let test = "official_client_of_version_2_uses_an_agent";
    let Some(found) = run_client(test, "2", "official_client_v2.mjs") else { return };
    assert_eq!(found["protocolVersion"], 2, "{found}");
    assert_eq!(found["reasons"], json!(["end_turn", "end_turn", "error", "cancelled"]), "{found}");
    assert_eq!(
        (&found["waited"], &found["listed"], &found["echoed"]),
        (&json!(true), &json!(true), &json!(true))
    );
    assert_eq!((&found["unknown"], &found["code"]), (&json!(-32002), &json!(0)), "{found}");
    assert!(found["title"].as_str().is_some_and(|title| !title.is_empty()), "{found}");
    assert_eq!(found["resumed"], json!(["idle"]), "{found}");
    let kinds = ["agent_message_chunk", "state_update", "tool_call_update", "user_message"];
    assert_eq!(found["kinds"], json!(kinds), "{found}");
    assert!(found["text"].as_str().unwrap().contains("END-OF-TOOL"), "{found}");
}

/// Validates all messages that an editor has read with the published schema of a version of the protocol.
fn validate(home: &Home, editor: &Editor, schema: &Path, python: &Path) {
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

/// Returns the folder of the schemas of a version, and a Python with a validator, if both are installed.
fn validator(test: &str, version: &str) -> Option<(PathBuf, PathBuf)> {
    let schema =
        installed(None, "browser", &format!("node_modules/@agentclientprotocol/sdk/schema/v{version}"));
    let python = installed(Some("NERVE_TEST_PYPI"), "pypi", "bin/python");
    if schema.is_none() || python.is_none() {
        skip(test, "the schema or jsonschema is not installed (cargo xtask setup)");
    }
    schema.zip(python)
}

#[test]
fn all_messages_of_version_2_match_the_draft() {
    let Some((schema, python)) = validator("all_messages_of_version_2_match_the_draft", "2") else { return };
    let home = Home::new();
    let work = home.hermetic.work();
    let mut editor = Editor::start(&home, &["--protocol", "2"], &STORED);
    let info = json!({ "name": "test", "version": "1" });
    let agreed = editor.ok("initialize", json!({ "protocolVersion": 2, "info": info, "capabilities": {} }));
    assert_eq!(agreed["protocolVersion"], 2);
    let server = json!([{ "type": "stdio", "name": "files", "command": "/bin/files" }]);
    let made = editor.ok("session/new", json!({ "cwd": work, "mcpServers": server }));
    let session = made["sessionId"].as_str().unwrap().to_string();
    for (prompt, reason) in [
        ("use a TOOL", "end_turn"),
        ("THINK first", "end_turn"),
        ("TOKENS please", "end_turn"),
        ("ERR 529", "error"),
    ] {
        editor.prompt(&session, prompt);
        assert_eq!(editor.next_idle()["stopReason"], reason, "{prompt}");
    }
    editor.prompt(&session, "PERMIT please");
    let asked = editor.permission();
    editor.choose(&asked, Some("1"));
    assert_eq!(editor.next_idle()["stopReason"], "end_turn");
    let resume = json!({ "sessionId": session, "cwd": work, "replayFrom": { "type": "start" } });
    editor.ok("session/resume", resume);
    let replayed = editor.updates(&session, "user_message");
    assert!(replayed.len() > 5, "five prompts, and some of them again: {replayed:?}");
    let unknown = json!({ "sessionId": session, "cwd": work, "replayFrom": { "type": "end" } });
    assert_eq!(editor.error("session/resume", unknown)["code"], -32602);
    assert_eq!(editor.error("session/load", json!({ "sessionId": session, "cwd": work }))["code"], -32601);
    editor.ok("session/list", json!({}));
    editor.ok("session/close", json!({ "sessionId": session }));
    validate(&home, &editor, &schema, &python);
}

#[test]
fn all_messages_match_the_published_schema() {
    let Some((schema, python)) = validator("all_messages_match_the_published_schema", "1") else { return };
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
    validate(&home, &editor, &schema, &python);
}
