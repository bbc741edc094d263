//! Machines: their list, their nodes over ssh, and what fails when one of them does.

mod addresses;
mod all_machines;
mod failures;
mod mcp;
mod recordings;
mod ssh_logins;
mod ssh_server;
mod web;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nerve_testkit::harness::{KillOnDrop, is_alive};
use nerve_testkit::wait_until;
use serde_json::{Value, json};

use self::ssh_server::{Client, SshServer, write_local_ssh, write_program};
use crate::harness::{DEADLINE, Home};

#[test]
fn nodes_of_another_machine_are_used_over_ssh() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let sshd = SshServer::start(&here);
    sshd.add_host("laptop-host", &laptop.hermetic.nerve_home());
    let client = Client { home: &here, ssh: sshd.program() };
    client.add("laptop", "ssh://laptop-host");

    let machine = client.listed("laptop");
    assert_eq!((&machine["reachable"], &machine["error"]), (&json!(true), &Value::Null), "{machine}");
    let list = client.nerve(&["ls", "--all-machines", "--json"]).json();
    let node = &list["nodes_info"][0];
    assert_eq!((&node["machine_name"], &node["node_id"]), (&json!("laptop"), &json!("sh")), "{list}");

    let address = "laptop/default/sh";
    client.ok(&["wait", address]);
    assert!(client.ok(&["send", address, "echo over-ssh"]).contains("over-ssh"));
    assert!(client.ok(&["node", "read", address]).contains("over-ssh"));
    let streamed = client.ok(&["send", address, "echo a-stream", "--stream"]);
    assert!(streamed.contains("a-stream"), "{streamed}");
    client.ok(&["node", "write", address, "--escape", "echo typed\\r"]);
    let typed = || client.ok(&["node", "read", address]).contains("\ntyped");
    assert!(wait_until(DEADLINE, typed));
    assert!(client.ok(&["logs", address, "--inputs-only"]).contains("over-ssh"));
    assert!(client.ok(&["transcript", address]).contains("over-ssh"));
    let sessions = client.nerve(&["session", "list", "--json", "-s", "machine://laptop"]).json();
    assert_eq!(sessions["sessions"][0]["nodes"], json!(["sh"]));
    // A machine that is not in the list: its login shell does not find the program under test.
    let unlisted = client.nerve(&["node", "info", "sh", "-s", "ssh://laptop-host"]);
    unlisted.assert_stderr(3, &["laptop-host", "--program"]);
    // A server of the environment does not decide about a long address.
    let with_server = |server: &str, node: &str| {
        let mut command = client.command(&["send", node, "echo by-environment"]);
        command.env("NERVE_SERVER", server);
        client.home.run(command)
    };
    with_server("machine://laptop", "local/default/sh").assert_code(3);
    with_server("staging", address).assert_code(0);
    client.nerve(&["rm", "local/default/sh", "-s", "machine://laptop"]).assert_code(2);
    client.ok(&["stop", address]);
    assert_eq!(laptop.info("sh")["state"], "stopped");
}

#[test]
fn machine_that_does_not_reply_is_a_row_with_its_age() {
    let (here, laptop, night) = (Home::with_shell(), Home::with_shell(), Home::new());
    let homes = here.hermetic.root().join("homes");
    fs::create_dir(&homes).unwrap();
    for (name, home) in [("laptop", &laptop), ("night", &night)] {
        std::os::unix::fs::symlink(home.hermetic.nerve_home(), homes.join(name)).unwrap();
    }
    let client = Client { home: &here, ssh: here.hermetic.root().join("ssh") };
    // A login shell that greets.
    write_local_ssh(&client.ssh, &homes, "echo 'Welcome to '$2; echo '{}'");
    client.add("laptop", "ssh://laptop");
    client.add("night", "ssh://night");
    assert_eq!(client.listed("laptop")["reachable"], true);
    let down = client.listed("night");
    let expected = (&json!(false), &json!("not_found_error"), &Value::Null);
    assert_eq!((&down["reachable"], &down["error_type"], &down["last_contact_at"]), expected);

    let table = client.ok(&["ls", "--all-machines"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert!(row("night").contains("unreachable") && row("laptop").contains("sh"), "{table}");
    assert!(row("local").contains("sh"), "{table}");

    laptop.ok(&["server", "stop"]);
    let down = client.listed("laptop");
    assert!(down["last_contact_at"].is_string() && down["reachable"] == false, "{down}");
    let listed = client.nerve(&["machine", "list", "--json"]).json();
    let reachable: Vec<&Value> =
        listed["machines"].as_array().unwrap().iter().map(|machine| &machine["reachable"]).collect();
    assert_eq!(reachable, [false, false]);
    client.nerve(&["send", "laptop/default/sh", "x"]).assert_stderr(3, &["laptop", "nerve server start"]);
}

#[test]
fn list_is_private_and_rejects_bad_entries() {
    let home = Home::new();
    let add = |name: &str, address: &str| home.nerve(&["machine", "add", name, address]).code;
    assert_eq!(add("laptop", "ssh://me@laptop"), 0);
    let file = home.hermetic.nerve_home().join("machines.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let wrong = [
        ("Work", "ssh://h"),
        ("local", "ssh://h"),
        ("a", "ssh://-oProxyCommand=touch"),
        ("a", "ssh://-l@h"),
        ("a", "laptop"),
        ("a", "tcp://h:1"),
        ("a", "tls://h:1"),
    ];
    for (name, address) in wrong {
        assert_eq!(add(name, address), 2, "{name} {address}");
    }
    home.nerve(&["machine", "add", "laptop", "ssh://other"]).assert_stderr(1, &["laptop", "machine remove"]);
    home.nerve(&["send", "laptp/default/me", "x"]).assert_stderr(3, &["laptp", "laptop"]);
    home.nerve(&["machine", "remove", "absent"]).assert_stderr(3, &["absent", "laptop"]);
    home.nerve(&["ls", "-s", "ssh://-oProxyCommand=x"]).assert_code(2);

    fs::write(&file, "{\"machines\":").unwrap();
    home.nerve(&["ls", "--all-machines"]).assert_stderr(1, &["machines.json"]);
    assert_eq!(add("other", "ssh://h"), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"machines\":");
    // The nodes of this machine do not depend on the list.
    home.ok(&["server", "start"]);
    home.ok(&["ls", "--all"]);
    let listed = home.nerve(&["ls", "--all-machines", "--json"]);
    listed.assert_stderr(1, &["machines.json"]);
    assert_eq!((&listed.json()["nodes_info"], &listed.json()["machines"]), (&json!([]), &json!([])));
}

#[test]
fn commands_of_one_machine_refuse_long_addresses() {
    let home = Home::new();
    home.nerve(&["share", "laptop/default/me"]).assert_stderr(2, &["laptop/default/me"]);
}

#[test]
fn connect_carries_the_wire_protocol() {
    let home = Home::new();
    home.nerve(&["connect"]).assert_stderr(3, &["nerve server start"]);
    home.ok(&["server", "start"]);
    let ping = "{\"command_type\":\"PING\",\"request_id\":\"7\"}\n";
    let reply: Value = home.nerve_with(&["connect"], ping).json();
    assert_eq!((&reply["request_id"], &reply["data"]["pong"]), (&json!("7"), &json!(true)));
}

#[test]
fn connect_ends_when_its_reader_is_gone() {
    let home = Home::with_shell();
    home.ok(&["wait", "sh"]);
    let mut command = home.command(&["connect"]);
    let mut connect = KillOnDrop(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut input = connect.0.stdin.take().unwrap();
    // A reply that takes as long as the command in the shell.
    input.write_all(b"{\"command_type\":\"PING\"}\n").unwrap();
    let execute =
        json!({ "command_type": "EXECUTE_INPUT", "params": { "node_id": "sh", "text": "sleep 600" } });
    input.write_all(format!("{execute}\n").as_bytes()).unwrap();
    let mut output = BufReader::new(connect.0.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    let pid = connect.0.id();
    assert!(
        wait_until(DEADLINE, || connect.0.try_wait().unwrap().is_some()),
        "{pid} is alive: {}",
        is_alive(pid)
    );
    drop(input);
}

#[test]
fn ssh_ends_with_its_command() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let sshd = SshServer::start(&here);
    sshd.add_host("laptop", &laptop.hermetic.nerve_home());
    let client = Client { home: &here, ssh: here.hermetic.root().join("logging-ssh") };
    let pids = here.hermetic.root().join("pids");
    let (log, ssh) = (pids.display(), sshd.program());
    let text = format!("#!/bin/sh\necho $$ >> '{log}'\nexec '{}' \"$@\"\n", ssh.display());
    write_program(&client.ssh, &text);
    client.add("laptop", "ssh://laptop");
    // Over a shared login, ssh is needed only once.
    let unshared = |args: &[&str]| {
        let mut command = client.command(args);
        command.env("NERVE_SSH_SHARE", "0");
        command
    };
    here.run(unshared(&["wait", "laptop/default/sh"])).assert_code(0);
    let mut events = unshared(&["events", "-s", "machine://laptop"]);
    events.stdout(Stdio::piped());
    let events = KillOnDrop::spawn(events);
    let started = || fs::read_to_string(&pids).is_ok_and(|pids| pids.lines().count() == 2);
    assert!(wait_until(DEADLINE, started));
    // SIGKILL: only the closed pipes can end ssh.
    drop(events);
    let all = fs::read_to_string(&pids).unwrap();
    let has_ended = || all.lines().all(|pid| !is_alive(pid.parse().unwrap()));
    assert!(wait_until(DEADLINE, has_ended), "{all}");
}

#[test]
fn attach_runs_on_the_machine() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let homes = here.hermetic.root().join("homes");
    fs::create_dir(&homes).unwrap();
    std::os::unix::fs::symlink(laptop.hermetic.nerve_home(), homes.join("laptop")).unwrap();
    let client = Client { home: &here, ssh: here.hermetic.root().join("ssh") };
    write_local_ssh(&client.ssh, &homes, "");
    client.add("laptop", "ssh://laptop");
    let (there, direct) =
        (client.nerve(&["attach", "laptop/default/sh"]), laptop.nerve(&["attach", "default/sh"]));
    assert_eq!((there.code, there.stderr), (direct.code, direct.stderr));
    let absent = client.nerve(&["attach", "laptop/default/absent", "--read-only"]);
    assert_eq!(absent.code, 3, "{absent:?}");
    write_program(&client.ssh, "#!/bin/sh\nexit 255\n");
    let failed = client.nerve(&["attach", "laptop/default/sh"]);
    failed.assert_stderr(255, &["nerve machine doctor laptop"]);
}

#[test]
fn server_with_tls_is_a_machine() {
    let (here, build) = (Home::new(), Home::with_shell());
    build.ok(&["server", "stop"]);
    let (cert, key) = build.write_certificate();
    build.ok(&["server", "start", "--tcp", "0", "--tls-cert", &cert, "--tls-key", &key]);
    let status = build.nerve(&["server", "status", "--json"]).json();
    let port = status["tcp"].as_str().unwrap().rsplit_once(':').unwrap().1.to_string();
    let token = here.write_private("build.token", &build.ok(&["token", "show"]));
    let address = format!("tls://localhost:{port}");
    let client = Client { home: &here, ssh: "/nonexistent/ssh".into() };
    client.ok(&["machine", "add", "build", &address, "--token-file", &token, "--ca", &cert]);
    client.ok(&["start", "build/default/sh"]);
    assert!(client.ok(&["send", "build/default/sh", "echo over-tls"]).contains("over-tls"));
    let listed = client.listed("build");
    assert_eq!((&listed["reachable"], &listed["server_name"]), (&json!(true), &Value::Null), "{listed}");
    client.ok(&["machine", "doctor", "build"]);
    // Without --ca, the certificate is unknown.
    client.ok(&["machine", "add", "public", &address, "--token-file", &token]);
    let untrusted = client.listed("public");
    assert_eq!(untrusted["error_type"], "authentication_error", "{untrusted}");
    assert!(untrusted["hint"].as_str().unwrap().contains("--ca"), "{untrusted}");
    client.nerve(&["attach", "build/default/sh"]).assert_stderr(2, &["build", "nerve node read"]);

    let list = fs::read_to_string(here.hermetic.nerve_home().join("machines.json")).unwrap();
    assert!(!list.contains(fs::read_to_string(&token).unwrap().trim()), "{list}");
    fs::write(&token, "wrong-token-of-the-server-0123456789abcdef\n").unwrap();
    assert_eq!(client.listed("build")["error_type"], "authentication_error");
}
