//! The official clients of the API, from PyPI and npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::skip;
use serde_json::{Value, json};

use super::api::Api;
use crate::harness::{DEADLINE, NERVE};

/// Returns a file that `cargo xtask setup` installs, if it is there. `variable`: sets another folder than `default`.
fn installed(variable: &str, default: &str, file: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os(variable) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(default),
    };
    // Not resolved: by its place an interpreter knows its packages.
    let file = std::path::absolute(folder.join(file)).ok()?;
    file.exists().then_some(file)
}

/// Lets a client use the API, and checks what it found.
fn check_client(prepare: impl FnOnce(&Api) -> Command) {
    let api = Api::with_agent();
    api.configure(&format!("[new.helper]\ncommand = [\"{NERVE}\", \"mock-agent\"]\n"));
    let mut command = prepare(&api);
    command.env("OPENAI_BASE_URL", format!("http://{}/v1", api.endpoint.address));
    command.env("OPENAI_API_KEY", &api.endpoint.token);
    let output = assert_cmd::Command::from_std(command).timeout(3 * DEADLINE).output().unwrap();
    let done = CommandOutput::new(&output);
    assert_eq!(done.code, 0, "{done:?}");
    let found: Value = done.json();
    assert_eq!(found["models"], json!(["helper:new", "me"]), "{found}");
    assert_eq!(found["answers"], json!(["You said: one", "You said: two"]), "{found}");
    assert_eq!(found["reasons"], json!(["stop", "stop"]), "{found}");
    assert!(found["streamed"].as_str().unwrap().contains("END-OF-TOOL"), "{found}");
    assert!(found["fresh"].as_str().unwrap().contains("uno"), "{found}");
    let statuses = json!({ "tools": 400, "model": 404, "token": 401, "mismatch": 409, "dialog": 409 });
    assert_eq!(found["statuses"], statuses, "{found}");
    assert_eq!((&found["param"], &found["code"]), (&json!("tools"), &json!("model_not_found")), "{found}");
    assert_eq!(found["streamed_error"], "blocked", "{found}");
    // No client has repeated a prompt by itself.
    let prompts = ["one", "two", "TOOL please", "PERMIT please", "PERMIT again"];
    assert_eq!(api.prompts("me"), prompts, "{found}");
}

#[test]
fn official_python_client_uses_all_modes() {
    let Some(python) = installed("NERVE_TEST_PYPI", "pypi", "bin/python") else {
        return skip(
            "official_python_client_uses_all_modes",
            "the package openai of PyPI is not installed (cargo xtask setup)",
        );
    };
    check_client(|api| {
        let mut command = api.home.hermetic.command(python);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/openai/client.py")).arg(NERVE);
        command
    });
}

#[test]
fn official_npm_client_uses_all_modes() {
    let Some(module) = installed("NERVE_TEST_BROWSER", "browser", "node_modules/openai/index.mjs") else {
        return skip(
            "official_npm_client_uses_all_modes",
            "the package openai of npm is not installed (cargo xtask setup)",
        );
    };
    check_client(|api| {
        let mut command = api.home.hermetic.command("node");
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/openai/client.mjs"))
            .arg(module)
            .arg(NERVE);
        command
    });
}
