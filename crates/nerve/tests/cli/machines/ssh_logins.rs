//! One login for all commands of a machine.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use nerve_testkit::harness::{KillOnDrop, freeze, is_alive, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::ssh_server::{Client, SshServer, write_program};
use crate::harness::{DEADLINE, Home};

const NODE: &str = "laptop/default/sh";

impl Client<'_> {
    /// Ends the shared connections. Returns whether there was one for each machine.
    fn disconnect(&self) -> Vec<Value> {
        let all = self.nerve(&["machine", "disconnect", "--json"]).json();
        all["machines"].as_array().unwrap().iter().map(|machine| machine["disconnected"].clone()).collect()
    }
}

#[test]
fn commands_share_one_login() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let (sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.ok(&["wait", NODE]);
    assert!(client.ok(&["send", NODE, "echo shared"]).contains("shared"));
    assert_eq!(client.listed("laptop")["reachable"], true);
    client.ok(&["machine", "doctor", "laptop"]);
    assert_eq!((sshd.logins(), sshd.masters().len()), (1, 1));
    let mode = fs::metadata(sshd.masters()[0].parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    assert_eq!([client.disconnect(), client.disconnect()], [[json!(true)], [json!(false)]]);
    let unshared = || {
        let mut command = client.command(&["wait", NODE]);
        command.env("NERVE_SSH_SHARE", "0");
        here.run(command).assert_code(0);
    };
    unshared();
    assert_eq!((sshd.logins(), sshd.masters().len()), (2, 0));
    client.ok(&["wait", NODE]);
    unshared();
    assert_eq!((sshd.logins(), sshd.masters().len()), (4, 1));
    // The connection of a machine that is forgotten ends.
    client.ok(&["machine", "remove", "laptop"]);
    assert!(wait_until(DEADLINE, || sshd.masters().is_empty()));
}

#[test]
fn later_commands_start_no_ssh() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let sshd = SshServer::start(&here);
    sshd.add_host("laptop", &laptop.hermetic.nerve_home());
    let client = Client { home: &here, ssh: here.hermetic.root().join("logging-ssh") };
    let (log, ssh) = (here.hermetic.root().join("calls"), sshd.program());
    let text = format!("#!/bin/sh\necho \"$1\" >> '{}'\nexec '{}' \"$@\"\n", log.display(), ssh.display());
    write_program(&client.ssh, &text);
    client.add("laptop", "ssh://laptop");
    client.ok(&["wait", NODE]);
    let calls = || fs::read_to_string(&log).unwrap().lines().count();
    let first = calls();
    assert_eq!(sshd.forwarded().len(), 1);
    client.ok(&["wait", NODE]);
    assert!(client.ok(&["send", NODE, "echo forwarded"]).contains("forwarded"));
    assert_eq!(client.listed("laptop")["reachable"], true);
    assert_eq!(calls(), first);
    // nerve connect says why there is no reply.
    laptop.ok(&["server", "stop", "--keep-nodes"]);
    client.nerve(&["wait", NODE]).assert_stderr(3, &["nerve server start"]);
    laptop.ok(&["server", "start"]);
    let stopped = calls();
    client.ok(&["wait", NODE]);
    assert_eq!(calls(), stopped);
    assert_eq!(client.disconnect(), [json!(true)]);
    assert_eq!((sshd.masters().len(), sshd.forwarded().len()), (0, 0));
}

#[test]
fn names_of_one_host_have_masters_of_their_own() {
    let (here, laptop, night) = (Home::new(), Home::with_shell(), Home::with_shell());
    let sshd = SshServer::start(&here);
    sshd.add_host("laptop", &laptop.hermetic.nerve_home());
    sshd.add_host("night", &night.hermetic.nerve_home());
    let client = Client { home: &here, ssh: sshd.program() };
    client.add("laptop", "ssh://laptop");
    client.add("night", "ssh://night");
    client.ok(&["stop", NODE]);
    client.ok(&["wait", "night/default/sh"]);
    assert_eq!((laptop.info("sh")["state"].clone(), sshd.masters().len()), (json!("stopped"), 2));
}

#[test]
fn control_path_of_the_user_decides() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let sshd = SshServer::start(&here);
    for (name, persist) in [("laptop", "60"), ("brief", "no")] {
        sshd.add_host(name, &laptop.hermetic.nerve_home());
        sshd.add_options(&format!(
            "  ControlMaster auto\n  ControlPath {{folder}}/{name}-own\n  ControlPersist {persist}\n"
        ));
    }
    let client = Client { home: &here, ssh: sshd.program() };
    client.add("laptop", "ssh://laptop");
    client.add("brief", "ssh://brief");
    client.ok(&["wait", NODE]);
    client.ok(&["wait", NODE]);
    assert_eq!((sshd.logins(), sshd.own_master("laptop-own").exists()), (1, true));
    // A master that would end with the command is not started.
    let events = KillOnDrop::spawn(client.command(&["events", "-s", "machine://brief"]));
    assert!(wait_until(DEADLINE, || sshd.logins() == 2));
    client.ok(&["wait", "brief/default/sh"]);
    assert_eq!((sshd.logins(), sshd.own_master("brief-own").exists()), (3, false));
    drop(events);
    assert_eq!(client.disconnect(), [json!(false), json!(false)]);
    assert!(sshd.own_master("laptop-own").exists() && sshd.masters().is_empty());
}

#[test]
fn master_that_does_not_respond_is_replaced() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let (sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.ok(&["wait", NODE]);
    // A killed one leaves its socket.
    let killed = sshd.master_process();
    signal(killed, Signal::KILL);
    assert!(wait_until(DEADLINE, || !is_alive(killed)));
    client.ok(&["wait", NODE]);
    assert_eq!((sshd.logins(), sshd.masters().len()), (2, 1));
    // One that is stopped, as over a connection that is dead since this machine slept.
    let stopped = sshd.master_process();
    freeze(stopped);
    client.ok(&["wait", NODE]);
    client.ok(&["wait", NODE]);
    assert_eq!((sshd.logins(), sshd.masters().len()), (3, 1));
    signal(stopped, Signal::KILL);
}

#[test]
fn session_beyond_the_limit_of_the_machine_logs_in() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let (sshd, client) =
        SshServer::add_laptop(&here, &laptop, "MaxSessions 2\nAllowStreamLocalForwarding no\n");
    client.ok(&["wait", NODE]);
    assert_eq!((sshd.logins(), sshd.forwarded().len()), (1, 0));
    // Both sessions over the connection are taken.
    let followers = [1, 2].map(|number| {
        let output = here.hermetic.root().join(format!("events-{number}"));
        let mut follower = client.command(&["events", "-s", "machine://laptop"]);
        follower.stdout(File::create(&output).unwrap());
        let follower = KillOnDrop(follower.spawn().unwrap());
        let follows = || {
            laptop.ok(&["send", "sh", "echo again"]);
            fs::metadata(&output).unwrap().len() > 0
        };
        assert!(wait_until(DEADLINE, follows));
        follower
    });
    assert_eq!(sshd.logins(), 1);
    client.ok(&["wait", NODE]);
    assert_eq!(sshd.logins(), 2);
    drop(followers);
}
