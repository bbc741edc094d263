//! Error messages: the failure, its object, a hint, and the exit code of its kind.

use serde_json::Value;

use crate::harness::Home;

#[test]
fn missing_server_hints_how_to_start_one() {
    let home = Home::new();
    let start = "start it with 'nerve server start'";
    home.nerve(&["server", "node", "list"])
        .assert_stderr(3, &["error: server 'default' is not running", start]);
    home.nerve(&["server", "node", "execute", "a", "x"]).assert_stderr(3, &[start]);
    home.nerve(&["server", "status"]).assert_stderr(3, &["not running", start]);
    home.nerve(&["server", "stop"]).assert_stderr(3, &["not running"]);
    home.nerve(&["server", "session", "list", "-s", "work"]).assert_stderr(3, &["nerve server start work"]);
    assert_eq!(home.nerve(&["server", "stop", "--all"]).code, 0);
    assert_eq!(home.nerve(&["server", "list"]).stdout, "");
}

#[test]
fn json_flag_makes_errors_json() {
    let done = Home::new().nerve(&["server", "node", "list", "--json"]);
    assert_eq!((done.code, done.stdout.as_str()), (3, ""));
    let error: Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!(error["code"], 3);
    assert!(error["error"].as_str().unwrap().contains("'default'"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("'nerve server start'"), "{error}");
}

#[test]
fn bad_server_names_are_usage_errors() {
    let home = Home::new();
    for name in ["../x", "Capital", "-a", &"a".repeat(33), "a/b"] {
        let name = format!("--name={name}");
        home.nerve(&["server", "start", &name]).assert_stderr(2, &["server name"]);
        assert!(!home.hermetic.nerve_home().join("run").exists());
    }
}

#[test]
fn too_long_socket_path_is_reported() {
    let home = Home::new();
    let long = home.hermetic.root().join("x".repeat(100));
    let mut command = home.command(&["server", "start"]);
    let output = command.env("NERVE_HOME", &long).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("107") && error.contains("NERVE_HOME"), "{error}");
}

#[test]
fn no_colours_without_a_terminal() {
    let home = Home::with_shell();
    for args in [&["server", "node", "list"][..], &["server", "node", "why", "sh"], &["doctor"], &["nope"]] {
        let done = home.nerve(args);
        assert!(!done.stdout.contains('\x1b') && !done.stderr.contains('\x1b'), "{done:?}");
    }
}

#[test]
fn doctor_finds_essentials() {
    let home = Home::new();
    let report = home.nerve(&["doctor", "--json"]);
    assert_eq!(report.code, 0, "{report:?}");
    let report = report.json();
    assert_eq!(report["ok"], true);
    let names: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in
        ["pseudo-terminals", "runtime directory", "socket path", "NERVE_HOME", "claude", "bash", "servers"]
    {
        assert!(names.contains(&name), "{names:?} lacks {name}");
    }
}

#[test]
fn doctor_fails_if_an_essential_is_missing() {
    let home = Home::new();
    let run = home.hermetic.nerve_home().join("run");
    std::fs::write(&run, "not a directory").unwrap();
    home.nerve(&["doctor"]).assert_stderr(1, &["runtime directory"]);
}

#[test]
fn errors_of_json_commands_are_json() {
    let home = Home::new();
    for (args, code, kind) in [
        (&["ls", "--json"][..], 3, "not_found_error"),
        (&["host", "stop", "none", "--json"], 3, "not_found_error"),
        (&["recording", "inspect", "none", "-j"], 3, "not_found_error"),
        (&["ls", "--json", "--no-such-option"], 2, "invalid_request_error"),
        (&["answer", "--json"], 2, "invalid_request_error"),
    ] {
        let done = home.nerve(args);
        let error: serde_json::Value = serde_json::from_str(done.stderr.lines().last().unwrap()).unwrap();
        assert_eq!((done.code, &error["code"]), (code, &code.into()), "{args:?}: {error:#}");
        assert_eq!(error["error_type"], kind, "{args:?}: {error:#}");
        assert!(!error["error"].as_str().unwrap().starts_with("error"), "{error:#}");
    }
}
