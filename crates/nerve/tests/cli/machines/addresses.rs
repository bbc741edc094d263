//! Commands that take a long address.

use serde_json::json;

use super::ssh_server::SshServer;
use crate::harness::Home;

#[test]
fn every_command_about_a_node_takes_the_long_address() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    client.ok(&["new", "laptop/default/extra", "-c", "bash --norc", "--cwd", "/"]);
    assert_eq!(laptop.info("extra")["node_id"], "extra");
    client.nerve(&["new", "laptop/extra"]).assert_stderr(2, &["laptop/default/extra"]);
    client.ok(&["wait", "laptop/default/extra"]);
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
        client.ok(&[words, &["laptop/default/extra"]].concat());
    }
    client.nerve(&["node", "info", "laptop/default/extra"]).assert_code(3);

    let node = "laptop/default/sh";
    let id = client.ok(&["send", node, "echo in-background", "--no-wait"]);
    client.ok(&["result", id.trim(), "--wait", "-s", "machine://laptop"]);
    let results = client.nerve(&["result", "--list", "--node", node, "--json"]).json();
    assert_eq!(results["results"][0]["node_id"], "sh", "{results}");
    client.nerve(&["events", "--node", "absent/default/sh"]).assert_stderr(3, &["absent"]);

    client.ok(&["snapshot", "--recording", node, "--label", "before", "--no-files"]);
    let snapshots = client.nerve(&["snapshot", "list", node, "--json"]).json();
    assert_eq!(snapshots["snapshots"][0]["label"], json!("before"), "{snapshots}");
    let transcript = |name: &str| client.nerve(&["transcript", name]);
    assert!(transcript(node).success().contains("in-background"));
    assert!(transcript("laptop/default/sh@1").success().contains("in-background"));
    transcript("laptop/default/sh@9").assert_code(3);
}
