//! Programs that misbehave, and input to them.

use std::fs;
use std::time::Duration;

use nerve_testkit::harness::{freeze, is_alive, memory_kib, signal};
use nerve_testkit::{wait_for, wait_until};
use nerve_types::Origin;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, pid_in};
use crate::recording::{Recording, Typed};

#[test]
fn program_that_closed_its_terminal_lives_until_stopped() {
    let home = Home::with_server();
    home.script(
        "mute",
        "echo last words\nexec 0<&- 1>&- 2>&-\nuntil [ -e enough ]; do sleep 0.05; done\nexit 4\n",
        &[],
    );
    home.wait_for_text("mute", "last words");
    let host = home.host_of("mute");
    let child = pid_in(&host["child"]);
    let closed = || fs::read_link(format!("/proc/{child}/fd/1")).is_err();
    assert!(wait_until(DEADLINE, closed));
    home.nerve(&["server", "node", "write", "mute", "x"]);
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.wait_for_text("mute", "last words");
    assert!(is_alive(child));
    assert_ne!(home.state("mute"), "stopped", "it runs");
    fs::write(home.hermetic.work().join("enough"), "").unwrap();
    home.wait_for_state("mute", "stopped");
    assert_eq!(home.metadata("mute", "exit"), r#"{"code":4}"#);
    home.wait_for_end(&host);
    Recording::of(host["recording_path"].as_str().unwrap().as_ref()).assert_whole();
}

#[test]
fn program_that_closed_its_terminal_can_be_stopped() {
    let home = Home::with_server();
    home.script("mute", "echo last words\nexec 0<&- 1>&- 2>&-\nwhile :; do sleep 0.05; done\n", &[]);
    home.wait_for_text("mute", "last words");
    let host = home.host_of("mute");
    home.ok(&["server", "node", "stop", "mute"]);
    assert!(!is_alive(pid_in(&host["child"])));
    home.wait_for_end(&host);
    assert_eq!(home.hosts(), Vec::<Value>::new());
}

#[test]
fn grandchild_on_terminal_does_not_hold_the_node() {
    let home = Home::with_server();
    home.script("parent", "setsid sleep 1000 &\necho $! > grandchild\necho begun\nuntil [ -e go ]; do sleep 0.01; done\nexit 3\n", &[]);
    home.wait_for_text("parent", "begun");
    let host = home.host_of("parent");
    let pid = fs::read_to_string(home.hermetic.work().join("grandchild")).unwrap();
    fs::write(home.hermetic.work().join("go"), "").unwrap();
    home.wait_for_state("parent", "stopped");
    assert_eq!(home.metadata("parent", "exit"), r#"{"code":3}"#);
    home.wait_for_end(&host);
    assert_eq!(home.hosts(), Vec::<Value>::new());
    Recording::of(host["recording_path"].as_str().unwrap().as_ref()).assert_whole();
    signal(pid.trim().parse().unwrap(), Signal::KILL);
}

#[test]
fn late_grandchild_output_is_harmless() {
    let home = Home::with_server();
    home.script(
        "parent",
        "setsid bash -c 'trap \"\" HUP; while :; do echo noise || exit; done' &\nsleep 0.2\nexit 3\n",
        &[],
    );
    let host = home.host_of("parent");
    home.wait_for_state("parent", "stopped");
    assert_eq!(home.metadata("parent", "exit"), r#"{"code":3}"#);
    home.wait_for_end(&host);
    Recording::of(host["recording_path"].as_str().unwrap().as_ref()).assert_whole();
}

/// Prints this many megabytes without a newline; returns the peak memory of host and server in KiB.
fn one_line_of(megabytes: u64) -> (u64, u64) {
    let home = Home::with_server();
    let bytes = megabytes * 1_000_000;
    home.script("line", &format!("head -c {bytes} /dev/zero | tr '\\0' x\nexec sleep 1000\n"), &[]);
    let (host, server) = (pid_in(&home.host_of("line")["pid"]), home.pid("default"));
    let path = home.recording_of("line");
    // The terminal model has processed everything.
    let offset = || home.nerve(&["server", "node", "why", "line", "--json"]).json()["offset"].as_u64();
    let done = wait_until(Duration::from_secs(170), || offset() >= Some(bytes));
    assert!(done, "{:?} of {bytes} bytes", offset());
    assert_eq!(
        home.ok(&["server", "node", "read", "line", "-n", "2"]).lines().next(),
        Some("x".repeat(120).as_str())
    );
    let peaks = (memory_kib(host, "VmHWM"), memory_kib(server, "VmHWM"));
    let found = Recording::of(&path);
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    assert_eq!(found.output.len() as u64, bytes);
    assert!(found.output.iter().all(|byte| *byte == b'x'));
    assert_eq!(home.metadata("line", "faults"), "");
    eprintln!("{megabytes} MB in one line: host {} KiB, server {} KiB", peaks.0, peaks.1);
    peaks
}

#[test]
fn memory_of_flooding_nodes_is_returned() {
    let home = Home::with_server();
    let server = home.pid("default");
    let memory = || memory_kib(server, "VmRSS");
    let before = memory();
    let nodes = ["a", "b"];
    for node in nodes {
        // Each repetition fills several rows of the scrollback.
        home.script(node, "exec yes $(printf 'x\\033[600b')\n", &[]);
    }
    assert!(wait_until(DEADLINE, || memory() > before + (64 << 10)), "{} KiB", memory());
    for node in nodes {
        home.ok(&["server", "node", "stop", node]);
    }
    assert!(wait_until(DEADLINE, || memory() < before + (24 << 10)), "{before} KiB, now {} KiB", memory());
}

#[test]
fn turns_end_while_other_nodes_write_costly_output() {
    let home = Home::with_server();
    home.shell("quiet");
    let nodes = ["a", "b"];
    for node in nodes {
        // Each repetition fills the screen 13 times.
        home.script(node, "exec yes $(printf 'x\\033[65535b')\n", &[]);
    }
    for node in nodes {
        let last_lines = || home.ok(&["server", "node", "read", node, "--lines", "10"]);
        assert!(wait_until(DEADLINE, || last_lines().contains("xxxx")), "{node}");
    }
    for turn in 0..10 {
        assert_eq!(home.execute("quiet", &format!("echo {turn}")), format!("{turn}\n"));
    }
    for node in nodes {
        home.ok(&["server", "node", "stop", node]);
    }
}

#[test]
fn hundred_megabyte_line_costs_little_memory() {
    let (host, server) = one_line_of(100);
    assert!(host < 80 * 1024, "the host had {host} KiB");
    assert!(server < 512 * 1024, "the server had {server} KiB");
}

#[test]
#[ignore = "takes minutes: for the figures of a gigabyte, by hand"]
fn gigabyte_line_costs_little_memory() {
    let (host, server) = one_line_of(1000);
    assert!(host < 64 * 1024, "the host had {host} KiB");
    assert!(server < 1024 * 1024, "the server had {server} KiB");
}

#[test]
fn frozen_server_blocks_no_program_and_loses_nothing() {
    // 16 MB: four times as much as the host holds for a server.
    const LINES: u64 = 160;
    let home = Home::with_server();
    let script = "until [ -e go ]; do sleep 0.01; done\n\
        piece=$(printf '0\\r%.0s' {1..50000})\n\
        for i in {1..160}; do echo; echo \"line $i\"; printf %s \"$piece\"; done\n\
        echo all-written\n: > written\nexec bash --norc\n";
    home.script("flood", script, &["--env", "PS1=$ "]);
    let (server, path) = (home.pid("default"), home.recording_of("flood"));
    let work = home.hermetic.work();
    freeze(server);
    fs::write(work.join("go"), "").unwrap();
    // The server stays frozen until the program has written everything and the host has recorded it.
    let is_written = wait_until(DEADLINE, || work.join("written").exists());
    let is_recorded =
        is_written && wait_until(DEADLINE, || Recording::of(&path).text().contains("all-written"));
    signal(server, Signal::CONT);
    assert!(is_written, "a frozen server blocks the program");
    assert!(is_recorded, "a frozen server blocks the recording");
    home.wait_for_text("flood", "all-written");
    let found = Recording::of(&path);
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    crate::recording::assert_counts(
        &crate::recording::numbers(&found.text(), "line"),
        LINES,
        "the recording",
    );
    crate::recording::assert_counts(
        &crate::recording::numbers(&home.read("flood"), "line"),
        LINES,
        "the terminal",
    );
    assert_eq!(home.metadata("flood", "faults"), "");
    home.ok(&["server", "node", "wait", "flood"]);
    assert_eq!(home.execute("flood", "echo fine"), "fine\n");
}

#[test]
fn pasted_megabyte_arrives_and_is_recorded() {
    let home = Home::with_server();
    home.script("cat", "echo begun\ncat > out\necho got it\nexec sleep 1000\n", &[]);
    home.wait_for_text("cat", "begun");
    let text: String = (0..16_000).map(|line| format!("{line:063}\n")).collect();
    let written = home.nerve_with(&["server", "node", "write", "cat", "-"], &text);
    assert_eq!(written.code, 0, "{written:?}");
    home.ok(&["server", "node", "write", "cat", "--key", "C-d"]);
    home.wait_for_text("cat", "got it");
    assert!(
        fs::read_to_string(home.hermetic.work().join("out")).unwrap() == text,
        "what arrived is not what was sent"
    );
    let path = home.recording_of("cat");
    let typed = wait_for(DEADLINE, || {
        let typed: Vec<u8> = Recording::of(&path).inputs.into_iter().flat_map(|typed| typed.bytes).collect();
        (typed.len() > text.len()).then_some(typed)
    });
    let typed = typed.expect("the input is not in the recording");
    assert!(typed == [text.as_bytes(), &[4]].concat(), "what is recorded is not what was sent");
}

/// Starts a shell that has read a password and continued with other commands.
fn home_after_password() -> Home {
    let home = Home::with_server();
    home.shell("sh");
    let ask = "echo visible; read -s -p 'Password: ' secret; echo; echo got ${#secret}";
    home.ok(&["server", "node", "run", "sh", ask]);
    home.wait_for_text("sh", "Password: ");
    home.ok(&["server", "node", "write", "sh", "hunter2"]);
    home.ok(&["server", "node", "write", "sh", "--key", "enter"]);
    home.wait_for_text("sh", "got 7");
    assert_eq!(home.execute("sh", "echo seen $((1+1)) again"), "seen 2 again\n");
    home
}

#[test]
fn recording_has_only_the_length_of_a_password() {
    let home = home_after_password();
    let path = home.recording_of("sh");
    assert!(wait_until(DEADLINE, || Recording::of(&path).text().contains("seen 2 again\r\n")));
    let found = Recording::of(&path);
    let of = |bytes: &[u8], redacted| Typed { bytes: bytes.to_vec(), origin: Some(Origin::Api), redacted };
    assert!(found.inputs.contains(&of(b"*******", true)), "{:?}", found.inputs);
    let typed: Vec<u8> = found.inputs.iter().flat_map(|typed| typed.bytes.clone()).collect();
    let typed = String::from_utf8_lossy(&typed);
    assert!(typed.contains("echo visible") && typed.contains("echo seen $((1+1)) again"), "{typed:?}");
    assert!(!typed.contains("hunter2"), "{typed:?}");
    assert!(!found.text().contains("hunter2"));
    assert!(found.inputs.iter().filter(|typed| !typed.redacted).all(|typed| !typed.bytes.contains(&b'*')));
}

#[test]
fn password_is_in_no_file() {
    let home = home_after_password();
    home.ok(&["server", "stop"]);
    for file in files_under(&home.hermetic.nerve_home()) {
        let bytes = fs::read(&file).unwrap();
        let leaks = bytes.windows(7).any(|window| window == b"hunter2");
        assert!(!leaks, "the password is in {}", file.display());
    }
}

fn files_under(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(files_under(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}

#[test]
fn secret_env_values_reach_program_and_no_file() {
    let home = Home::with_server();
    home.create("sh", "bash --norc", &["--env", "PS1=$ ", "--env", "API_TOKEN=s3cr3t-value"]);
    home.ok(&["server", "node", "wait", "sh"]);
    assert_eq!(home.execute("sh", "echo ${#API_TOKEN}"), "12\n");
    for file in files_under(&home.hermetic.nerve_home()) {
        // A file that is being replaced may be gone.
        let Ok(bytes) = fs::read(&file) else { continue };
        assert!(!bytes.windows(12).any(|window| window == b"s3cr3t-value"), "it is in {}", file.display());
    }
    let host = home.host_of("sh");
    let command = fs::read(format!("/proc/{}/cmdline", host["pid"])).unwrap();
    assert!(!String::from_utf8_lossy(&command).contains("s3cr3t"));
    assert!(!json!(home.hosts()).to_string().contains("s3cr3t"));
}
