//! Connections that fail: which step, and what helps.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::ssh_server::{Client, SshServer, write_program};
use crate::harness::Home;

impl Client<'_> {
    /// Returns the first step of a machine's check that failed, with its hint.
    fn failed_step(&self, name: &str) -> (String, String) {
        let done = self.nerve(&["machine", "doctor", name, "--json"]);
        done.assert_code(1);
        let checks = done.json()["machines"][0]["checks"].clone();
        let failed = checks.as_array().unwrap().iter().find(|check| check["ok"] == false).unwrap().clone();
        let text = |field: &str| failed[field].as_str().unwrap().to_string();
        (text("name"), text("hint"))
    }

    /// Asserts the kind of error in the list, the failed step of the check, and a fact in its hint.
    #[track_caller]
    fn assert_fails(&self, name: &str, kind: &str, step: &str, fact: &str) {
        let listed = self.listed(name);
        assert_eq!((&listed["reachable"], &listed["error_type"]), (&json!(false), &json!(kind)), "{listed}");
        let (failed, hint) = self.failed_step(name);
        assert_eq!(failed, step, "{name}: {hint}");
        assert!(hint.contains(fact), "{name}: {hint}");
    }
}

#[test]
fn sshd_failures_name_the_step() {
    let here = Home::new();
    let sshd = SshServer::start(&here);
    let nerve_home = here.hermetic.nerve_home();
    let client = Client { home: &here, ssh: sshd.program() };
    sshd.add_host("good", &nerve_home);
    sshd.add_host_with("wrong-key", &nerve_home, "other_key", "absent-user");
    client.add("good", "ssh://good");
    client.add("wrong-key", "ssh://wrong-key");
    client.ok(&["machine", "add", "missing", "ssh://good", "--program", "/nonexistent/nerve"]);
    client.assert_fails("good", "not_found_error", "server", "nerve server start");
    client.assert_fails("wrong-key", "authentication_error", "connection", "ssh-add");
    client.assert_fails("missing", "not_found_error", "nerve", "--program");
    here.ok(&["server", "start"]);
    let done = client.nerve(&["machine", "doctor", "good", "--json"]);
    assert_eq!((done.code, &done.json()["ok"]), (0, &json!(true)), "{done:?}");

    // The host has another key than the known one, which only a login notices.
    client.ok(&["machine", "disconnect", "good"]);
    sshd.trust_host_key("other_key.pub");
    client.assert_fails("good", "authentication_error", "connection", "key of the host");
}

#[test]
fn machine_without_sshd_is_unreachable() {
    let here = Home::new();
    let client = Client { home: &here, ssh: "ssh".into() };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    client.add("off", &format!("ssh://{closed}"));
    client.assert_fails("off", "network_error", "connection", "reachable");
    // Accepts connections and never replies, as a machine that went to sleep.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    client.add("asleep", &format!("ssh://{}", silent.local_addr().unwrap()));
    let listed = client.listed("asleep");
    assert_eq!(listed["reachable"], false, "{listed}");
    assert!(["timeout", "network_error"].map(Value::from).contains(&listed["error_type"]), "{listed}");
}

#[test]
fn reports_of_ssh_and_nerve_are_understood() {
    let here = Home::new();
    let script = |name: &str, text: &str| {
        let path = here.hermetic.root().join(name);
        write_program(&path, &format!("#!/bin/sh\n{text}\n"));
        path
    };
    let fails = |ssh: &Path, kind: &str, step: &str, fact: &str| {
        let client = Client { home: &here, ssh: ssh.to_path_buf() };
        client.assert_fails("laptop", kind, step, fact);
    };
    here.ok(&["machine", "add", "laptop", "ssh://me@laptop:2222"]);
    fails(Path::new("/nonexistent/ssh"), "process_error", "setup", "NERVE_SSH");
    let old = script("old", "echo \"error: unrecognized subcommand 'connect'\" >&2; exit 2");
    fails(&old, "process_error", "version", "install nerve");
    let unknown = script("unknown", "echo 'Host key verification failed.' >&2; exit 255");
    fails(&unknown, "authentication_error", "connection", "ssh -p 2222 me@laptop true");
    let noisy = script("noisy", "yes noise | head -c 1000000; exec sleep 600");
    fails(&noisy, "process_error", "connection", "nerve connect");
    let crashed = script("crashed", "kill -SEGV $$");
    fails(&crashed, "process_error", "connection", "nerve connect");
    let silent = script("silent", "exit 0");
    fails(&silent, "process_error", "connection", "nerve connect");

    let listed = |ssh: &Path| Client { home: &here, ssh: ssh.to_path_buf() }.listed("laptop");
    let stuck = listed(&script("stuck", "echo 'waiting for the jump host' >&2; exec sleep 600"));
    assert_eq!(stuck["error_type"], "timeout", "{stuck}");
    assert!(stuck["error"].as_str().unwrap().contains("waiting for the jump host"), "{stuck}");
    // Replies once; then the connection breaks.
    let reply = r#"{"type":"result","success":true,"data":{},"request_id":"'$id'"}"#;
    let logins = here.hermetic.root().join("logins");
    let text = format!(
        "case \"$*\" in *'nerve connect'*) echo login >>'{}' ;; esac; \
         read -r line; id=$(echo \"$line\" | sed 's/.*\"request_id\":\"\\([^\"]*\\).*/\\1/'); echo '{reply}'; \
         echo 'host not responding' >&2; exit 255",
        logins.display()
    );
    let broken = listed(&script("broken", &text));
    assert_eq!(broken["error_type"], "network_error", "{broken}");
    assert!(broken["error"].as_str().unwrap().contains("host not responding"), "{broken}");
    assert_eq!(fs::read_to_string(logins).unwrap().lines().count(), 1, "it connects once");
}
