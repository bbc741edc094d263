//! `nerve doctor --agents` starts, inspects and ends agents; `nerve doctor --report` writes a report about nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nerve_testkit::harness::{CommandOutput, SmallDisk};
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
    assert!(agent["ok"] == true && agent["duration_ms"].as_u64().unwrap() > 0, "{agent:#}");
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
    assert_eq!(
        (done.code, &agent["state"], &agent["dialog"]),
        (0, &"blocked".into(), &"trust".into()),
        "{agent:#}"
    );
    assert!(is_gone(&home), "it was left behind");
}

#[test]
fn undrivable_agent_is_a_failure() {
    let home = Home::new();
    let bin = home.hermetic.root().join("bin");
    mock(&home, &bin, "--never-ready");
    let done = doctor(&home, &bin, &["--timeout", "2"]);
    done.assert_stderr(1, &["claude"]);
    let agent = only(&done);
    assert!(agent["ok"] == false && agent["state"] != "ready", "{agent:#}");
    assert!(is_gone(&home), "it was left behind");
    program(&bin, "claude", "exit 3");
    let done = doctor(&home, &bin, &[]);
    done.assert_stderr(1, &["claude"]);
    assert_eq!(only(&done)["state"], "stopped");
}

#[test]
fn doctor_without_agents_succeeds() {
    let home = Home::new();
    let done = doctor(&home, &home.hermetic.work(), &[]);
    assert_eq!((done.code, done.json()["agents"].as_array().unwrap().len()), (0, 0));
    home.nerve(&["doctor", "--timeout", "2"]).assert_stderr(2, &["--agents"]);
}

/// Runs `nerve doctor --report` in the work folder and returns its result and the text of the archive.
fn report(home: &Home, args: &[&str]) -> (CommandOutput, String) {
    let mut command = home.command(&[&["doctor", "--report"], args].concat());
    command.current_dir(home.hermetic.work()).env("MY_API_KEY", "hunter2hunter2");
    let done = home.run(command);
    let archive = fs::read(done.stdout.trim()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (done, archive.unwrap_or_default())
}

#[test]
fn report_masks_texts_and_removes_secrets() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "execute", "sh", "echo Sesame hunter2hunter2"]);
    let (done, archive) = report(&home, &["sh"]);
    done.assert_stderr(0, &["masked"]);
    for part in
        ["sh/node.json", "sh/screen.txt", "sh/recording.cast", "system.json", env!("CARGO_PKG_VERSION")]
    {
        assert!(archive.contains(part), "{part}: {archive}");
    }
    assert!(archive.contains("Xxxxxx") && !archive.contains("Sesame"), "{archive}");
    let (done, archive) = report(&home, &["sh", "--with-text"]);
    done.assert_stderr(0, &["prompts and answers"]);
    assert!(archive.contains("Sesame") && !archive.contains("hunter2"), "{archive}");
    assert!(!archive.contains(home.hermetic.home().to_str().unwrap()), "{archive}");
}

#[test]
fn report_describes_nodes_without_a_terminal() {
    let home = Home::with_shell();
    home.ok(&["server", "node", "create", "once", "--backend", "bash"]);
    for nodes in [&[][..], &["once"]] {
        let (done, archive) = report(&home, nodes);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(archive.contains("once/node.json"), "{archive}");
        assert_eq!(archive.contains("sh/node.json"), nodes.is_empty(), "{archive}");
    }
}

#[test]
fn report_fails_for_missing_nodes_and_folders() {
    let home = Home::with_shell();
    let (done, _) = report(&home, &["absent"]);
    done.assert_stderr(3, &["absent"]);
    let gone = home.hermetic.work().join("gone");
    fs::create_dir(&gone).unwrap();
    let mut shell = home.hermetic.command("sh");
    shell.args(["-c", &format!("rmdir ../gone && exec {NERVE} doctor --report")]).current_dir(&gone);
    let done = home.run(shell);
    assert!(done.code == 1 && done.stderr.contains("hint:"), "{done:?}");
}

#[test]
fn full_disk_fails_the_report_and_leaves_no_file() {
    let home = Home::new();
    let folder = home.hermetic.work().join("small");
    let Some(_disk) = SmallDisk::mount("full_disk_fails_the_report", &folder, "4k") else { return };
    fs::write(folder.join("filler"), [0; 4096]).unwrap();
    let mut command = home.command(&["doctor", "--report"]);
    command.current_dir(&folder);
    let done = home.run(command);
    done.assert_stderr(1, &["No space left", "hint:"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn report_without_a_server_describes_the_machine() {
    let home = Home::new();
    let (done, archive) = report(&home, &[]);
    done.assert_stderr(0, &["no nodes"]);
    assert!(archive.contains("system.json") && archive.contains("pseudo-terminals"), "{archive}");
}
