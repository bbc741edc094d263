//! The official client of the protocol, from PyPI.

use std::path::{Path, PathBuf};

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::skip;
use serde_json::json;

use super::http_client::Endpoint;
use crate::harness::{DEADLINE, Home, NERVE};

/// The interpreter with the packages of `xtask/pypi/requirements.txt`, if they are installed.
fn python() -> Option<PathBuf> {
    let folder = match std::env::var_os("NERVE_TEST_PYPI") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pypi"),
    };
    // Not resolved: by its place it knows its packages.
    let python = std::path::absolute(folder.join("bin/python")).ok()?;
    python.exists().then_some(python)
}

/// Runs the client with both protocol versions. `target`: the program, or a URL that needs `token`.
fn run_client(home: &Home, python: &Path, target: &str, token: Option<&str>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mcp/official_client.py");
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let mut command = home.hermetic.command(python);
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(&script).args([mode, target]);
        command.envs(token.map(|token| ("NERVE_TOKEN", token)));
        let output = assert_cmd::Command::from_std(command).timeout(3 * DEADLINE).output().unwrap();
        let done = CommandOutput::new(&output);
        assert_eq!(done.code, 0, "{mode}: {}\n{}", done.stdout, done.stderr);
        assert!(done.stdout.contains(protocol), "{done:?}");
        assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], json!([]), "{mode}");
    }
}

#[test]
fn official_client_works_with_both_protocol_versions() {
    let Some(python) = python() else {
        return skip(
            "official_client_works_with_both_protocol_versions",
            "the package mcp of PyPI is not installed (cargo xtask setup)",
        );
    };
    let home = Home::new();
    home.ok(&["server", "start"]);
    run_client(&home, &python, NERVE, None);
}

#[test]
fn two_official_clients_work_over_http() {
    let Some(python) = python() else {
        return skip(
            "two_official_clients_work_over_http",
            "the package mcp of PyPI is not installed (cargo xtask setup)",
        );
    };
    let home = Home::new();
    let server = Endpoint::on_server(&home);
    let own = Endpoint::standalone(&home, &[]);
    for endpoint in [server, own] {
        run_client(&home, &python, &endpoint.url(), Some(&endpoint.token));
    }
}
