//! Checks after each round.

use std::fmt;
use std::fs;
use std::path::Path;

use nerve_record::ahr::{AhrError, Body, Part, Reader};
use nerve_testkit::harness::{is_alive, memory_kib};
use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home, pid_in};
use crate::nodes::Nodes;

/// Asserts that the server has each node whose host lives, with the same program.
pub(crate) fn assert_promises(home: &Home, nodes: &Nodes<'_>) {
    for node in nodes.running() {
        assert!(is_alive(node.host), "the host of {} has ended by itself", node.name);
        assert!(is_alive(node.pid), "the program of {} has ended", node.name);
        let is_known = || {
            let info = home.nerve(&["server", "node", "info", node.name, "--json"]);
            let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap_or_default();
            info["state"] != "stopped" && info["metadata"]["pid"].as_u64() == Some(u64::from(node.pid))
        };
        assert!(wait_until(DEADLINE, is_known), "{} is lost: {}", node.name, nodes.describe(node));
    }
}

/// Asserts that a recording can be read to its end. Output may be missing at the end, and where the disk was full: then
/// its offsets say so.
pub(crate) fn assert_recording_is_readable(path: &Path) {
    if path.as_os_str().is_empty() {
        return;
    }
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        // The disk was full when the recording began.
        Err(AhrError::Io { .. }) if !path.exists() => return,
        Err(error) => panic!("{}: {error}", path.display()),
    };
    let mut end = 0;
    while let Some(part) = reader.next().unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        match part {
            Part::Lost(lost) => assert!(lost.tail, "{}: {lost:?}", path.display()),
            Part::Block(block) => {
                assert!(block.damage().is_none(), "{}: {:?}", path.display(), block.damage());
                for record in block.records() {
                    if let Body::Data { off, bytes } = record.body {
                        assert!(off >= end, "{}: output is doubled at {off}", path.display());
                        end = off + u64::try_from(bytes.len()).unwrap();
                    }
                }
            }
        }
    }
}

/// Memory, descriptors and files over the rounds.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    samples: usize,
    descriptors: usize,
    memory: u64,
    files: usize,
    /// Files of the first rounds.
    first_files: usize,
}

/// Rounds until the counts have settled.
const SETTLED: usize = 20;
/// Descriptors that a host needs at most.
const MAX_DESCRIPTORS: usize = 64;
/// Memory of a host with an unoptimised program, in KiB.
const MAX_MEMORY: u64 = 96 << 10;
/// Files of a server's runtime folder that may come and go.
const SLACK_FILES: usize = 40;

impl Growth {
    /// Checks hosts, which live for many rounds, and the runtime folder.
    pub(crate) fn sample(&mut self, home: &Home, nodes: &Nodes<'_>) {
        self.samples += 1;
        for node in nodes.running() {
            let count = fs::read_dir(format!("/proc/{}/fd", node.host)).map_or(0, Iterator::count);
            let memory = memory_kib(node.host, "VmRSS");
            assert!(count <= MAX_DESCRIPTORS, "the host of {} has {count} descriptors", node.name);
            assert!(memory <= MAX_MEMORY, "the host of {} has {memory} KiB", node.name);
            self.descriptors = self.descriptors.max(count);
            self.memory = self.memory.max(memory);
        }
        self.files = fs::read_dir(home.hermetic.nerve_home().join("run")).map_or(0, Iterator::count);
        if self.samples == SETTLED {
            self.first_files = self.files;
        }
        let is_flat = self.samples <= SETTLED || self.files <= self.first_files + SLACK_FILES;
        assert!(is_flat, "{} files in the runtime folder, {} at the beginning", self.files, self.first_files);
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Growth { descriptors, memory, files, .. } = self;
        write!(
            f,
            "hosts had at most {descriptors} descriptors and {memory} KiB; {files} files in the runtime folder"
        )
    }
}

/// Asserts that no process with this home remains.
pub(crate) fn assert_no_process_remains(home: &Home) {
    let hosts = home.hosts();
    let living: Vec<_> =
        hosts.iter().filter(|host| host["pid"].is_number() && is_alive(pid_in(&host["pid"]))).collect();
    assert!(living.is_empty(), "hosts remain: {living:?}");
    let own = format!("NERVE_HOME={}\0", home.hermetic.nerve_home().display());
    let remaining = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut ours = all.filter(|process| {
            let environ = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&own)
        });
        ours.next().map(|process| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
    };
    assert!(wait_until(DEADLINE, || remaining().is_none()), "a process remains: {:?}", remaining());
}
