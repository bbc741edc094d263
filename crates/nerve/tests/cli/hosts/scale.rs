//! Twenty nodes: how long a new server needs for them, and what their hosts cost.

use std::fs;
use std::time::{Duration, Instant};

use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home, pid_in};

const NODES: usize = 20;

/// Clock ticks a process has used (proc_pid_stat(5), fields 14 and 15).
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn twenty_nodes_reconnect_fast_and_idle_for_free() {
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
    let begun = Instant::now();
    home.ok(&["server", "start"]);
    let listening = begun.elapsed();
    let ready = || {
        let list = home.nerve(&["server", "node", "list", "--json"]).json();
        let nodes = list["nodes_info"].as_array().unwrap().clone();
        nodes.iter().filter(|node| node["state"] == "ready").count() == NODES
    };
    assert!(wait_until(DEADLINE, ready), "not all came back");
    let back = begun.elapsed();
    let hosts: Vec<u32> = home.hosts().iter().map(|host| pid_in(&host["pid"])).collect();
    assert_eq!(hosts.len(), NODES);
    let used = || hosts.iter().copied().map(ticks).sum::<u64>();
    let (before, since) = (used(), Instant::now());
    assert!(wait_until(DEADLINE, || since.elapsed() > Duration::from_secs(5)));
    let idle = used() - before;
    let status = fs::read_to_string(format!("/proc/{}/status", hosts[0])).unwrap();
    let rss = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    eprintln!(
        "{NODES} nodes: listening after {listening:?}, all ready after {back:?}; a host: {rss}; idle: {idle} ticks in 5 s"
    );
    assert!(back < Duration::from_secs(15), "{back:?}");
    // A tick is 10 ms: two of a hundred of one core, for all of them.
    assert!(idle <= 10, "{idle} ticks in 5 s");
    assert_eq!(home.execute("sh-19", "echo fine"), "fine\n");
}
