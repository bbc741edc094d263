//! Twenty nodes: a new server finds them, and their hosts cost nothing.

use std::time::{Duration, Instant};

use nerve_testkit::harness::{cpu_time, memory_kib};
use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home, pid_in};

const NODES: usize = 20;
/// Processor time that all idle hosts together may use in [`IDLE_PERIOD`]: a thousandth of a core for each.
const IDLE_LIMIT: Duration = Duration::from_millis(100);
const IDLE_PERIOD: Duration = Duration::from_secs(5);

#[test]
fn twenty_nodes_reconnect_and_idle_for_free() {
    let home = Home::with_server();
    let names: Vec<String> = (0..NODES).map(|at| format!("sh-{at}")).collect();
    for name in &names {
        home.create(name, "bash --norc", &["--env", "PS1=$ "]);
    }
    for name in &names {
        home.ok(&["server", "node", "wait", name]);
    }
    home.execute("sh-0", "seq 1 1000");
    home.kill_server("default");
    home.ok(&["server", "start"]);
    let ready = || {
        let list = home.nerve(&["server", "node", "list", "--json"]).json();
        let nodes = list["nodes_info"].as_array().unwrap().clone();
        nodes.iter().filter(|node| node["state"] == "ready").count() == NODES
    };
    assert!(wait_until(DEADLINE, ready), "not all came back");
    let hosts: Vec<u32> = home.hosts().iter().map(|host| pid_in(&host["pid"])).collect();
    assert_eq!(hosts.len(), NODES);
    let used = || hosts.iter().copied().map(cpu_time).sum::<Duration>();
    // After the work of the start, the hosts stay below the limit for a whole period.
    let (mut before, mut since) = (used(), Instant::now());
    let are_idle = || {
        let now = used();
        if now - before > IDLE_LIMIT {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > IDLE_PERIOD
    };
    assert!(
        wait_until(DEADLINE, are_idle),
        "idle hosts always use more than {IDLE_LIMIT:?} in {IDLE_PERIOD:?}"
    );
    eprintln!("{NODES} nodes: a host: {} KiB", memory_kib(hosts[0], "VmRSS"));
    assert_eq!(home.execute("sh-19", "echo fine"), "fine\n");
}
