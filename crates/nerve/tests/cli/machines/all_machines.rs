//! Search and the dashboard over all machines. One that does not respond is a row.

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::wait_until;
use nerve_types::Size;
use serde_json::{Value, json};

use super::ssh_server::{Client, SshServer};
use crate::harness::{DEADLINE, Home};
use crate::tty::Tty;

const SIZE: Size = Size { cols: 120, rows: 30 };

impl Client<'_> {
    /// Adds a machine on which nothing listens.
    fn add_unreachable(&self, name: &str) {
        self.add(name, "ssh://127.0.0.1:1");
    }

    fn run_line(&self, line: &str) -> CommandOutput {
        self.nerve(&line.strip_prefix("nerve ").unwrap().split(' ').collect::<Vec<_>>())
    }
}

#[test]
fn search_names_the_machine_of_each_hit() {
    let (here, laptop) = (Home::with_agent(), Home::with_agent());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.add_unreachable("off");
    here.ok(&["send", "m", "wordneedle on this machine"]);
    client.ok(&["send", "laptop/default/m", "wordneedle on the other one"]);
    let search = |args: &[&str]| {
        let args = [&["search", "wordneedle", "--in", "prompts", "--json"][..], args].concat();
        client.nerve(&args).json()
    };
    let all = search(&["--all-machines"]);
    let machines: Vec<&Value> =
        all["hits"].as_array().unwrap().iter().map(|hit| &hit["machine_name"]).collect();
    assert_eq!(machines, ["laptop", "local"], "{all}");
    let reachable: Vec<&Value> =
        all["machines"].as_array().unwrap().iter().map(|machine| &machine["reachable"]).collect();
    assert_eq!(reachable, [true, false], "{all}");
    // The command of a hit shows it on its machine.
    let shown = client.run_line(all["hits"][0]["open"].as_str().unwrap()).success();
    assert!(shown.contains("wordneedle on the other one"), "{shown}");
    let text = client.ok(&["search", "wordneedle", "--in", "prompts", "--all-machines"]);
    assert!(text.contains("laptop/default/m") && text.contains("local/default/m"), "{text}");

    let one = search(&["--node", "laptop/default/m"]);
    assert_eq!(
        (one["hits"].as_array().unwrap().len(), &one["hits"][0]["machine_name"]),
        (1, &json!("laptop"))
    );
    assert_eq!(search(&[])["hits"][0].get("machine_name"), None);
    client.nerve(&["search", "x", "--node", "laptop/default/m", "--all-machines"]).assert_code(2);
    client.nerve(&["search", "x", "--node", "absent/default/m"]).assert_stderr(3, &["absent", "laptop"]);
    assert_ne!(client.nerve(&["search", "x", "--node", "off/default/m"]).code, 0);
}

#[test]
fn usage_of_a_node_of_another_machine_comes_from_there() {
    let (here, laptop) = (Home::with_agent(), Home::with_agent());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    let log = laptop.hermetic.nerve_home().join("proxies/log/default/default/m.jsonl");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let reply = json!({ "type": "reply", "time": "2026-01-31T10:30:00Z", "node": "m", "model": "a",
        "tokens": { "input": 1, "output": 2, "cache_read": 3, "cache_write": 4 } });
    std::fs::write(log, format!("{reply}\n")).unwrap();
    let there = client.nerve(&["usage", "laptop/default/m", "--json"]).json();
    assert_eq!(
        (&there["rows"][0]["node_id"], &there["total"]["responses"]),
        (&json!("m"), &json!(1)),
        "{there}"
    );
    let shown = client.ok(&["usage", "laptop/default/m"]);
    assert!(shown.lines().nth(1).is_some_and(|row| row.starts_with("m ")), "{shown}");
    client.nerve(&["usage", "laptop/default/m", "m"]).assert_code(2);
}

#[test]
fn top_shows_the_nodes_of_all_machines() {
    let (here, laptop) = (Home::with_shell(), Home::with_agent());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.add_unreachable("off");
    let mut top = Tty::spawn(client.command(&["top", "--all-machines"]), SIZE);
    top.expect("2 nodes  2 ready");
    top.expect("laptop/default");
    top.expect("off  unreachable, no contact so far");
    // The only node of the other machine.
    top.send("/machine\r");
    top.send("pwordneedle\r");
    top.expect("sent to 'm'");
    top.send("q");
    assert_eq!(top.wait_for_exit(), Some(0));
    let is_there = || client.nerve(&["transcript", "laptop/default/m"]).stdout.contains("wordneedle");
    assert!(wait_until(DEADLINE, is_there));

    let mut one = Tty::spawn(client.command(&["top", "-s", "machine://laptop"]), SIZE);
    one.expect("1 node  1 ready");
    one.send("q");
    assert_eq!(one.wait_for_exit(), Some(0));
    client.nerve(&["top", "--all-machines", "-s", "default"]).assert_code(2);
}
