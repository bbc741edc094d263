//! Mixed work while servers, hosts and clients are killed and stopped at random moments, and the disk fills up.
//!
//! Each round starts clients, injects faults while they work, and then checks what nerve promises: no node is lost whose
//! host lives, each recording is readable, each reply is delivered or its failure reported, and neither memory nor
//! descriptors nor processes accumulate.
//!
//! `NERVE_SOAK_SECONDS` says how long (40), `NERVE_SOAK_SEED` repeats the choices of an earlier run. `cargo xtask soak`
//! sets both.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

#[path = "../cli/harness.rs"]
#[expect(dead_code, reason = "only a part of what the tests of the commands need")]
mod harness;
#[path = "../cli/tty.rs"]
#[expect(dead_code, reason = "only a part of what the tests of the commands need")]
mod tty;

mod checks;
mod clients;
mod faults;
mod nodes;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nerve_testkit::harness::SmallDisk;
use nerve_testkit::{Random, wait_until};

use checks::{Growth, assert_promises, assert_recording_is_readable};
use clients::Client;
use faults::{Counts, Fault};
use harness::{DEADLINE, Home};
use nodes::Nodes;

/// Size of the disk with the recordings.
const DISK: &str = "16m";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn faults_lose_nothing() {
    let seed = number("NERVE_SOAK_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    let time = Duration::from_secs(number("NERVE_SOAK_SECONDS").unwrap_or(40));
    eprintln!("soak for {time:?}; NERVE_SOAK_SEED={seed}");
    let home = Home::new();
    let disk = SmallDisk::mount("faults_lose_nothing", &home.hermetic.nerve_home().join("recordings"), DISK);
    let mut soak = Soak::start(&home, disk, Random(seed));
    let (begun, mut rounds) = (Instant::now(), 0);
    while begun.elapsed() < time {
        rounds += 1;
        soak.round();
        if rounds % 20 == 0 {
            eprintln!("{rounds} rounds, {:?}: {}", begun.elapsed(), soak.counts);
        }
    }
    soak.finish();
    eprintln!("{rounds} rounds, {:?}: {}; {}", begun.elapsed(), soak.counts, soak.growth);
    drop(soak);
}

struct Soak<'a> {
    home: &'a Home,
    /// The disk of the recordings; none without the permission to mount.
    disk: Option<SmallDisk>,
    random: Random,
    nodes: Nodes<'a>,
    counts: Counts,
    growth: Growth,
    /// Number of the next prompt.
    next: u64,
}

impl<'a> Soak<'a> {
    fn start(home: &'a Home, disk: Option<SmallDisk>, random: Random) -> Soak<'a> {
        home.ok(&["server", "start"]);
        let mut nodes = Nodes::new(home);
        nodes.create_missing();
        clients::write_graph(home);
        Soak { home, disk, random, nodes, counts: Counts::default(), growth: Growth::default(), next: 0 }
    }

    /// Waits until the commands have ended, at most for a random time below `limit` milliseconds: faults come at any moment of
    /// their work.
    fn wait_for_work(&mut self, clients: &mut [Client], limit: u64) {
        let limit = Duration::from_micros(self.random.below(1000 * limit));
        // Both outcomes are moments for a fault.
        let _ = wait_until(limit, || !clients.iter_mut().any(Client::is_working));
    }

    /// Starts clients, injects faults while they work, and checks the promises.
    fn round(&mut self) {
        let mut clients = self.start_clients();
        let mut is_full = false;
        for fault in Fault::choose(&mut self.random) {
            self.wait_for_work(&mut clients, 150);
            match fault {
                Fault::FullDisk => is_full = self.fill_disk(),
                other => {
                    other.inject(self.home, &mut self.nodes, &mut clients, &mut self.random, &mut self.counts)
                }
            }
        }
        if is_full {
            self.wait_for_work(&mut clients, 300);
            fs::remove_file(self.filler()).unwrap();
        }
        self.start_server();
        for client in clients {
            self.counts.add(client.outcome());
        }
        assert_promises(self.home, &self.nodes);
        for recording in self.nodes.take_ended_recordings() {
            assert_recording_is_readable(&recording);
            // The disk is small.
            let _ = fs::remove_file(recording);
        }
        self.nodes.create_missing();
        self.growth.sample(self.home, &self.nodes);
    }

    fn start_clients(&mut self) -> Vec<Client> {
        let mut clients = Vec::new();
        for _ in 0..2 + self.random.below(3) {
            self.next += 1;
            clients.push(Client::start(self.home, &self.nodes, &mut self.random, self.next));
        }
        clients
    }

    /// Returns the file that fills the disk.
    fn filler(&self) -> PathBuf {
        self.home.hermetic.nerve_home().join("recordings/filler")
    }

    /// Fills the disk. Returns false without one.
    fn fill_disk(&mut self) -> bool {
        if self.disk.is_none() {
            return false;
        }
        let mut filler = File::create(self.filler()).unwrap();
        let piece = vec![0; 4096];
        // Until the disk is full.
        while filler.write_all(&piece).is_ok() {}
        self.counts.full_disks += 1;
        true
    }

    /// Starts a server unless one runs.
    fn start_server(&self) {
        let is_running = || {
            self.home.nerve(&["server", "start"]).code == 0
                || self.home.nerve(&["server", "status"]).code == 0
        };
        assert!(wait_until(DEADLINE, is_running), "no server starts");
    }

    /// Checks that each node still works and that nothing of the test keeps running.
    fn finish(&mut self) {
        self.nodes.assert_all_answer();
        self.nodes.stop_all();
        self.home.ok(&["server", "stop"]);
        checks::assert_no_process_remains(self.home);
    }
}
