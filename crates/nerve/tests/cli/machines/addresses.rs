//! Commands that take a long address.

use serde_json::json;

use super::ssh_server::{Client, SshServer};
use crate::harness::Home;

#[test]
fn every_command_about_a_node_takes_the_long_address() {
    let (here, work) = (Home::new(), Home::with_shell());
    let sshd = SshServer::start(&here);
    sshd.add_host("work", &work.hermetic.nerve_home());
    let client = Client { home: &here, ssh: sshd.program() };
    client.add("work", "ssh://work");
    client.ok(&["new", "work/default/extra", "-c", "bash --norc", "--cwd", "/"]);
    assert_eq!(work.info("extra")["node_id"], "extra");
    client.nerve(&["new", "work/extra"]).assert_stderr(2, &["work/default/extra"]);
    client.ok(&["wait", "work/default/extra"]);
    for words in [
        &["node", "info"][..],
        &["node", "why"],
        &["node", "read"],
        &["node", "resize", "--cols", "90", "--rows", "20"],
        &["budget"],
        &["logs"],
        &["stop"],
        &["start"],
        &["stop"],
        &["rm"],
    ] {
        client.ok(&[words, &["work/default/extra"]].concat());
    }
    client.nerve(&["node", "info", "work/default/extra"]).assert_code(3);

    let node = "work/default/sh";
    let id = client.ok(&["send", node, "echo in-background", "--no-wait"]);
    client.ok(&["result", id.trim(), "--wait", "-s", "machine://work"]);
    let results = client.nerve(&["result", "--list", "--node", node, "--json"]).json();
    assert_eq!(results["results"][0]["node_id"], "sh", "{results}");
    client.nerve(&["events", "--node", "absent/default/sh"]).assert_stderr(3, &["absent"]);

    client.ok(&["snapshot", "--recording", node, "--label", "before", "--no-files"]);
    let snapshots = client.nerve(&["snapshot", "list", node, "--json"]).json();
    assert_eq!(snapshots["snapshots"][0]["label"], json!("before"), "{snapshots}");
    let transcript = |name: &str| client.nerve(&["transcript", name]);
    assert!(transcript(node).success().contains("in-background"));
    assert!(transcript("work/default/sh@1").success().contains("in-background"));
    transcript("work/default/sh@9").assert_code(3);
}
