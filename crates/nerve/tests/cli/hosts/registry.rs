//! Hosts as `nerve host` and servers find them: which stop, which stay, and which belong to another server.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, chown};

use nerve_testkit::harness::{freeze, is_alive, signal};
use nerve_testkit::{skip, wait_until};
use nerve_types::Origin;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, pid_in};
use crate::recording::Recording;

fn entry_path(home: &Home, host: &Value) -> std::path::PathBuf {
    home.hermetic.nerve_home().join("hosts").join(format!("{}.json", host["host_id"].as_str().unwrap()))
}

#[test]
fn server_stop_ends_hosts_and_closes_recordings() {
    let home = Home::with_server();
    home.shell("a");
    home.create("b", "sleep 1000", &[]);
    let nodes = ["a", "b"];
    let (hosts, recordings) =
        (nodes.map(|node| home.host_of(node)), nodes.map(|node| home.recording_of(node)));
    home.ok(&["server", "stop"]);
    for host in &hosts {
        home.wait_for_end(host);
        assert!(wait_until(DEADLINE, || !is_alive(pid_in(&host["child"]))), "{host}");
    }
    for recording in &recordings {
        Recording::of(recording).assert_whole();
        let meta = nerve_record::meta::Meta::load(recording).unwrap().unwrap();
        assert!(meta.ended_at.is_some() && meta.exit.is_some(), "{meta:?}");
    }
    assert_eq!(home.hosts(), Vec::<Value>::new());
    assert_eq!(fs::read_dir(home.hermetic.nerve_home().join("run/hosts")).unwrap().count(), 0);
    home.ok(&["server", "start"]);
    // The nodes are still listed, as stopped.
    let list = home.nerve(&["server", "node", "list", "--json"]).json();
    let stopped = list["stopped"].as_array().unwrap().iter().map(|node| [&node["node_id"], &node["state"]]);
    assert_eq!(list["nodes"], json!([]));
    assert_eq!(json!(stopped.collect::<Vec<_>>()), json!([["a", "stopped"], ["b", "stopped"]]));
}

#[test]
fn snapshots_of_node_are_found_by_its_name() {
    let home = Home::with_server();
    home.shell("sh");
    home.ok(&["snapshot", "--session", "sh", "--label", "one", "--no-files"]);
    let labels = || {
        let list = home.nerve(&["snapshot", "list", "sh", "--json"]).json();
        list["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|snapshot| snapshot["label"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(), ["one"]);
    home.ok(&["server", "node", "stop", "sh"]);
    assert_eq!(labels()[0], "one", "the node's recording remains");
}

#[test]
fn kept_nodes_are_taken_back_by_the_next_start() {
    let home = Home::with_server();
    home.shell("sh");
    home.execute("sh", "X=kept");
    home.ok(&["server", "node", "create", "once", "--backend", "bash"]);
    let (pid, host) = (home.metadata("sh", "pid"), home.host_of("sh"));
    home.ok(&["server", "stop", "--keep-nodes"]);
    home.nerve(&["server", "status"]).assert_code(3);
    assert!(is_alive(pid_in(&host["pid"])));
    assert_eq!(home.hosts()[0]["alive"], true);
    // Another server does not adopt the host.
    home.ok(&["server", "start", "work"]);
    assert_eq!(home.nerve(&["server", "node", "list", "-s", "work", "--json"]).json()["nodes"], json!([]));
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "sh"]);
    let why = home.ok(&["server", "node", "why", "sh"]);
    assert!(!why.contains("not observed yet"), "{why}");
    assert_eq!(home.metadata("sh", "pid"), pid);
    assert_eq!(home.execute("sh", "echo $X"), "kept\n");
    home.ok(&["server", "stop", "--all"]);
    home.wait_for_end(&host);
    assert_eq!(home.hosts(), Vec::<Value>::new());
}

#[test]
fn host_commands_work_with_and_without_server() {
    let home = Home::with_server();
    home.shell("sh");
    home.shell("other");
    let host = home.host_of("sh");
    let id = host["host_id"].as_str().unwrap();
    home.ok(&["host", "write", id, "--escape", r"echo by-hand\r"]);
    assert!(wait_until(DEADLINE, || home.read("sh").lines().any(|line| line == "by-hand")));
    home.kill_server("default");
    home.ok(&["host", "write", id, "--escape", r"echo server-less-$((1+1))\r"]);
    let recording = |words: &str| {
        let path = host["recording_path"].as_str().unwrap().to_string();
        wait_until(DEADLINE, || Recording::of(path.as_ref()).text().contains(words))
    };
    assert!(recording("server-less-2\r\n"));
    let found = Recording::of(host["recording_path"].as_str().unwrap().as_ref());
    let injected: Vec<_> = found
        .inputs
        .iter()
        .filter(|typed| typed.origin == Some(Origin::Injected))
        .map(|typed| typed.bytes.as_slice())
        .collect();
    assert_eq!(injected, [b"echo by-hand\r".as_slice(), b"echo server-less-$((1+1))\r"]);
    let stopped = home.nerve(&["host", "stop", id, "--json"]).json();
    assert_eq!(stopped["stopped"], json!([id]));
    assert!(!is_alive(pid_in(&host["pid"])) && !is_alive(pid_in(&host["child"])));
    assert_eq!(home.hosts().len(), 1);
    home.nerve(&["host", "stop", id]).assert_stderr(3, &[id, "nerve host list"]);
    home.nerve(&["host", "write", "../../etc/passwd", "x"]).assert_code(3);
    home.ok(&["host", "stop", "--all"]);
    assert_eq!(home.hosts(), Vec::<Value>::new());
    home.nerve(&["host", "stop"]).assert_stderr(2, &["--all"]);
}

#[test]
fn host_stop_ends_its_node() {
    let home = Home::with_server();
    home.shell("sh");
    let host = home.host_of("sh");
    home.ok(&["host", "stop", host["host_id"].as_str().unwrap()]);
    home.wait_for_state("sh", "stopped");
    assert_eq!(home.metadata("sh", "exit"), "{\"signal\":1}");
    assert_eq!(home.metadata("sh", "faults"), "", "this is no accident");
}

#[test]
fn program_ignoring_hangup_is_stopped_with_its_host() {
    let home = Home::with_server();
    home.script("deaf", "trap '' HUP TERM\necho begun\nwhile :; do sleep 0.05; done\n", &[]);
    home.wait_for_text("deaf", "begun");
    let host = home.host_of("deaf");
    home.kill_server("default");
    home.ok(&["host", "stop", host["host_id"].as_str().unwrap()]);
    assert!(!is_alive(pid_in(&host["child"])));
}

#[test]
fn entry_with_reused_pid_is_never_signalled() {
    let home = Home::with_server();
    home.shell("sh");
    let host = home.host_of("sh");
    home.kill_server("default");
    let path = entry_path(&home, &host);
    let entry: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    home.ok(&["host", "stop", "--all"]);
    let mut stranger = home.hermetic.command("sleep").arg("1000").spawn().unwrap();
    let forge = |id: &str, pid: u32, start: u64| {
        let mut forged = entry.clone();
        forged["id"] = json!(id);
        forged["pid"] = json!(pid);
        forged["start"] = json!(start);
        let runtime = home.hermetic.nerve_home().join("run/hosts").join(id);
        fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        forged["runtime"] = json!(runtime);
        forged["label"]["node"] = json!(id);
        fs::write(path.with_file_name(format!("{id}.json")), forged.to_string()).unwrap();
    };
    let start = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse::<u64>().unwrap()
    };
    forge("aaaaaaaaaaa1", stranger.id(), start(stranger.id()) + 1);
    forge("aaaaaaaaaaa2", stranger.id(), 0);
    forge("aaaaaaaaaaa3", 4_194_303, 5);
    let states: Vec<Value> = home.hosts().into_iter().map(|host| host["alive"].clone()).collect();
    assert_eq!(states, [false, false, false]);
    home.nerve(&["host", "write", "aaaaaaaaaaa1", "x"]).assert_stderr(1, &["nerve host list"]);
    home.ok(&["host", "stop", "aaaaaaaaaaa1"]);
    // The next server lists the nodes of the remaining hosts as stopped.
    home.ok(&["server", "start"]);
    home.wait_for_state("aaaaaaaaaaa2", "stopped");
    home.wait_for_state("aaaaaaaaaaa3", "stopped");
    home.ok(&["server", "stop"]);
    home.ok(&["host", "stop", "--all"]);
    assert_eq!(home.hosts(), Vec::<Value>::new());
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn broken_entries_are_reported_and_harmless() {
    let home = Home::with_server();
    home.shell("sh");
    let host = home.host_of("sh");
    home.kill_server("default");
    let folder = entry_path(&home, &host).parent().unwrap().to_path_buf();
    fs::write(folder.join("bbbbbbbbbbb1.json"), "{").unwrap();
    fs::write(folder.join("bbbbbbbbbbb2.json"), "").unwrap();
    fs::copy(entry_path(&home, &host), folder.join("bbbbbbbbbbb3.json")).unwrap();
    fs::create_dir(folder.join("bbbbbbbbbbb4.json")).unwrap();
    fs::write(folder.join("bbbbbbbbbbb5.json"), vec![b' '; 3 << 20]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("bbbbbbbbbbb6.json")).unwrap();
    let list = home.start(&["host", "list", "--json"]).output().json();
    assert_eq!(list["hosts"].as_array().unwrap().len(), 1);
    let damaged: Vec<&str> =
        list["damaged"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(damaged.len(), 6, "{list:#}");
    assert!(damaged[0].ends_with("bbbbbbbbbbb1.json"), "{list:#}");
    home.nerve(&["host", "list"]).assert_stderr(0, &["bbbbbbbbbbb1.json", "bbbbbbbbbbb6.json"]);
    let doctor = home.nerve(&["doctor"]);
    doctor.assert_stderr(1, &["essential checks failed: host entries"]);
    assert!(doctor.stdout.contains("bbbbbbbbbbb6.json"), "{}", doctor.stdout);
    home.nerve(&["server", "start"]).assert_stderr(0, &["bbbbbbbbbbb1.json"]);
    assert_eq!(home.execute("sh", "echo fine"), "fine\n");
}

#[test]
fn doctor_repairs_files_of_running_hosts() {
    let home = Home::with_server();
    let names = ["entry", "sockets", "recording"];
    let hosts = names.map(|name| {
        home.shell(name);
        assert_eq!(home.execute(name, "echo before"), "before\n");
        home.host_of(name)
    });
    let recording = home.recording_of("recording");
    home.kill_server("default");
    fs::write(entry_path(&home, &hosts[0]), "{").unwrap();
    fs::remove_dir_all(
        home.hermetic.nerve_home().join("run/hosts").join(hosts[1]["host_id"].as_str().unwrap()),
    )
    .unwrap();
    fs::remove_file(&recording).unwrap();
    home.nerve(&["doctor"]).assert_stderr(1, &["essential checks failed: host entries, host files"]);

    let repaired = home.nerve(&["doctor", "--fix", "--json"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert_eq!(home.hosts().len(), names.len());
    home.ok(&["server", "start"]);
    for (name, host) in names.iter().zip(&hosts) {
        assert_eq!(home.execute(name, "echo after"), "after\n");
        assert_eq!(home.host_of(name)["child"], host["child"], "{name}");
    }
    home.ok(&["server", "stop"]);
    Recording::of(&recording).assert_whole();
    let screen = home.ok(&["replay", recording.to_str().unwrap(), "--fast"]);
    assert!(screen.contains("before") && screen.contains("after"), "{screen}");
}

#[test]
fn doctor_reports_hosts_that_cannot_be_repaired() {
    let home = Home::with_server();
    let folder = home.hermetic.nerve_home().join("hosts");
    fs::write(folder.join("bbbbbbbbbbb1.json"), "{").unwrap();
    home.nerve(&["doctor", "--fix"]).assert_stderr(1, &["bbbbbbbbbbb1.json"]);
    assert!(folder.join("bbbbbbbbbbb1.json").exists());
}

#[test]
fn entries_of_other_users_are_ignored() {
    if !rustix::process::geteuid().is_root() {
        return skip("entries_of_other_users_are_ignored", "only root can give files away");
    }
    let home = Home::with_server();
    home.shell("sh");
    let host = home.host_of("sh");
    home.kill_server("default");
    let path = entry_path(&home, &host);
    chown(&path, Some(12345), None).unwrap();
    assert_eq!(home.hosts(), Vec::<Value>::new());
    home.nerve(&["host", "stop", host["host_id"].as_str().unwrap()]).assert_code(3);
    home.ok(&["server", "start"]);
    assert_eq!(home.state("sh"), "stopped", "it is known, and not taken back");
    home.ok(&["server", "stop"]);
    assert!(is_alive(pid_in(&host["pid"])), "it is not ours to end");
    chown(&path, Some(rustix::process::getuid().as_raw()), None).unwrap();
    home.ok(&["host", "stop", "--all"]);
}

#[test]
fn foreign_socket_gets_no_input() {
    if !rustix::process::geteuid().is_root() {
        return skip("foreign_socket_gets_no_input", "only root can be another user");
    }
    let home = Home::with_server();
    home.shell("sh");
    let host = home.host_of("sh");
    let runtime = home.hermetic.nerve_home().join("run/hosts").join(host["host_id"].as_str().unwrap());
    // Folder permissions already keep other users out; with wrong permissions, the host still checks the peer's user
    // id.
    for folder in ["", "nerve", "nerve/run", "nerve/run/hosts"].map(|part| home.hermetic.root().join(part)) {
        open_to_all(&folder);
    }
    open_to_all(&runtime);
    open_to_all(&runtime.join("control"));
    // Perl is a part of every Debian, where another user can run it.
    let script = "use IO::Socket::UNIX; alarm 5; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $!; \
                  my $n = sysread($s, my $bytes, 100); print $n || 0";
    let control = runtime.join("control");
    let other = std::process::Command::new("setpriv")
        .args(["--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/perl", "-e", script])
        .arg(&control)
        .output();
    let Ok(other) = other else {
        return skip("foreign_socket_gets_no_input", "setpriv is not installed");
    };
    if !other.status.success() {
        return skip("foreign_socket_gets_no_input", &String::from_utf8_lossy(&other.stderr));
    }
    assert_eq!(String::from_utf8_lossy(&other.stdout).trim(), "0", "another user was greeted");
    assert_eq!(home.execute("sh", "echo fine"), "fine\n");
}

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn fifo_among_entries_blocks_nothing() {
    let home = Home::with_server();
    let folder = home.hermetic.nerve_home().join("hosts");
    home.ok(&["server", "stop"]);
    let pipe = folder.join("bbbbbbbbbbb7.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let list = home.start(&["host", "list", "--json"]);
    let server = home.start(&["server", "start"]);
    let done = [list, server].map(|command| std::panic::catch_unwind(|| command.output().code));
    // A blocked reader would never return.
    fs::remove_file(pipe).unwrap();
    assert_eq!(done.map(|code| code.ok()), [Some(0), Some(0)]);
}

#[test]
fn frozen_host_blocks_no_other_and_can_be_stopped() {
    let home = Home::with_server();
    home.shell("still");
    home.shell("sh");
    let host = home.host_of("still");
    home.kill_server("default");
    freeze(pid_in(&host["pid"]));
    home.ok(&["server", "start"]);
    assert_eq!(home.execute("sh", "echo fine"), "fine\n");
    assert_eq!(home.state("still"), "starting");
    let stop = home.start(&["server", "node", "stop", "still"]);
    assert_eq!(stop.output().code, 0);
    signal(pid_in(&host["pid"]), Signal::CONT);
    // A node that was stopped does not come back.
    let gone = wait_until(DEADLINE, || !is_alive(pid_in(&host["child"])));
    assert!(gone, "the program of a stopped node lives on");
    home.wait_for_end(&host);
}
