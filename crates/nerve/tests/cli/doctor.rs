//! `nerve doctor --agents`: starts, inspects and ends agents.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::wait_until;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, NERVE};

/// Installs a script in the folder that is the whole PATH. It may write its pid to a file next to it.
fn program(bin: &Path, name: &str, script: &str) {
    fs::create_dir_all(bin).unwrap();
    let file = bin.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Installs the built-in agent under the name of a real one.
fn mock(home: &Home, bin: &Path, flags: &str) {
    let pid = home.hermetic.root().join("pid");
    program(bin, "claude", &format!("echo $$ > {}\nexec {NERVE} mock-agent {flags} \"$@\"", pid.display()));
}

fn doctor(home: &Home, path: &Path, args: &[&str]) -> CommandOutput {
    let mut command = home.command(&[&["doctor", "--agents", "--json"], args].concat());
    command.env("PATH", path);
    home.run(command)
}

fn is_gone(home: &Home) -> bool {
    let pid = fs::read_to_string(home.hermetic.root().join("pid")).unwrap();
    wait_until(DEADLINE, || !fs::exists(format!("/proc/{}", pid.trim())).unwrap())
}

fn only(done: &CommandOutput) -> Value {
    let report = done.json();
    let agents = report["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 1, "{report:#}");
    agents[0].clone()
}

#[test]
fn found_agent_is_driven_to_ready_and_ended() {
    let home = Home::new();
    let bin = home.hermetic.root().join("bin");
    mock(&home, &bin, "");
    let done = doctor(&home, &bin, &[]);
    done.assert_stderr(0, &["your own HOME", "answering no dialog"]);
    let agent = only(&done);
    assert_eq!(
        (&agent["name"], &agent["state"], &agent["profile"]),
        (&"claude".into(), &"ready".into(), &"claude".into())
    );
    assert!(agent["ok"] == true && agent["seconds"].as_f64().unwrap() > 0.0, "{agent:#}");
    assert!(is_gone(&home), "it was left behind");
    let mut command = home.command(&["doctor", "--agents"]);
    command.env("PATH", &bin);
    let shown = home.run(command).stdout;
    assert!(shown.contains("claude") && shown.contains("ready"), "{shown}");
}

#[test]
fn startup_dialog_is_reported_and_not_answered() {
    let home = Home::new();
    let bin = home.hermetic.root().join("bin");
    mock(&home, &bin, "--onboarding");
    let done = doctor(&home, &bin, &[]);
    let agent = only(&done);
    assert_eq!((done.code, &agent["state"]), (0, &"blocked (trust)".into()), "{agent:#}");
    assert!(is_gone(&home), "it was left behind");
}

#[test]
fn undrivable_agent_is_a_failure() {
    let home = Home::new();
    let bin = home.hermetic.root().join("bin");
    mock(&home, &bin, "--never-ready");
    let done = doctor(&home, &bin, &["--timeout", "2"]);
    done.assert_stderr(1, &["could not be driven: claude"]);
    let agent = only(&done);
    assert!(agent["ok"] == false && agent["state"] != "ready", "{agent:#}");
    assert!(is_gone(&home), "it was left behind");
    program(&bin, "claude", "exit 3");
    let done = doctor(&home, &bin, &[]);
    done.assert_stderr(1, &["could not be driven: claude"]);
    assert_eq!(only(&done)["state"], "stopped");
}

#[test]
fn doctor_without_agents_succeeds() {
    let home = Home::new();
    let done = doctor(&home, &home.hermetic.work(), &[]);
    assert_eq!((done.code, done.json()["agents"].as_array().unwrap().len()), (0, 0));
    home.nerve(&["doctor", "--timeout", "2"]).assert_stderr(2, &["--agents"]);
}
