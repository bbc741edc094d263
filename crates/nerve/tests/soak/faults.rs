//! Faults that the test injects.

use std::fmt;
use std::time::Duration;

use nerve_testkit::harness::{is_alive, signal};
use nerve_testkit::{Random, wait_until};
use rustix::process::Signal;

use crate::clients::{Client, Outcome};
use crate::harness::{DEADLINE, Home};
use crate::nodes::Nodes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    KillServer,
    KillHost,
    KillClient,
    StopServer,
    StopHost,
    StopClient,
    /// The disk of the recordings has no room, until the end of the round.
    FullDisk,
}

impl Fault {
    /// Chooses the faults of a round, in random order: each kind of process is killed.
    pub(crate) fn choose(random: &mut Random) -> Vec<Fault> {
        let mut faults = vec![Fault::KillServer, Fault::KillHost, Fault::KillClient];
        for (rare, times) in
            [(Fault::StopServer, 3), (Fault::StopHost, 3), (Fault::StopClient, 4), (Fault::FullDisk, 6)]
        {
            if random.once_in(times) {
                faults.push(rare);
            }
        }
        for at in (1..faults.len()).rev() {
            let other = random.below(u64::try_from(at).unwrap() + 1);
            faults.swap(at, usize::try_from(other).unwrap());
        }
        faults
    }

    /// Injects a fault of a process; does nothing if there is no such process.
    pub(crate) fn inject(
        self,
        home: &Home,
        nodes: &mut Nodes<'_>,
        clients: &mut [Client],
        random: &mut Random,
        counts: &mut Counts,
    ) {
        let host = random.pick(nodes.running()).map(|node| node.host);
        let client = usize::try_from(random.below(u64::try_from(clients.len().max(1)).unwrap())).unwrap();
        match self {
            Fault::KillServer => {
                if let Some(pid) = server_pid(home) {
                    kill(pid);
                    counts.servers += 1;
                }
            }
            Fault::KillHost => {
                if let Some(pid) = host {
                    kill(pid);
                    nodes.host_was_killed(pid);
                    counts.hosts += 1;
                }
            }
            Fault::KillClient => {
                // Another client if the chosen one has ended.
                let killed =
                    clients[client..].iter_mut().any(Client::kill) || clients.iter_mut().any(Client::kill);
                counts.clients += u64::from(killed);
            }
            Fault::StopServer => counts.stops += u64::from(stop(server_pid(home), random)),
            Fault::StopHost => counts.stops += u64::from(stop(host, random)),
            Fault::StopClient => {
                counts.stops += u64::from(stop(clients.get_mut(client).and_then(Client::pid), random));
            }
            Fault::FullDisk => {}
        }
    }
}

/// Returns the server's process, if one runs.
fn server_pid(home: &Home) -> Option<u32> {
    let status = home.nerve(&["server", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
    let pid = status["pid"].as_u64().filter(|_| status["running"] == true)?;
    u32::try_from(pid).ok().filter(|pid| is_alive(*pid))
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
    assert!(wait_until(DEADLINE, || !is_alive(pid)), "process {pid} survives SIGKILL");
}

/// Stops a process for a random time below 400 ms, or until it is killed. Returns false if there is none.
fn stop(pid: Option<u32>, random: &mut Random) -> bool {
    let Some(pid) = pid.filter(|pid| is_alive(*pid)) else { return false };
    signal(pid, Signal::STOP);
    let is_gone = wait_until(Duration::from_micros(random.below(400_000)), || !is_alive(pid));
    if !is_gone {
        signal(pid, Signal::CONT);
    }
    true
}

/// Counts of injected faults and of clients' outcomes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    servers: u64,
    hosts: u64,
    clients: u64,
    stops: u64,
    pub(crate) full_disks: u64,
    delivered: u64,
    reported: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.delivered += 1,
            Outcome::Reported => self.reported += 1,
            Outcome::Killed | Outcome::Viewed => {}
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { servers, hosts, clients, stops, full_disks, delivered, reported } = self;
        write!(
            f,
            "killed {servers} servers, {hosts} hosts, {clients} clients; {stops} stopped for a moment, {full_disks} \
             full disks; {delivered} requests delivered, {reported} failures reported"
        )
    }
}
