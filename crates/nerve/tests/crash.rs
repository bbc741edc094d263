//! `kill -9` of a host at a random moment, again and again: its recording is readable and lacks at most the last moment.
//! The benchmark `kills` measures how long that moment is.
//!
//! `NERVE_CRASH_ROUNDS` says how often (60; 12 where `CI` is set), `NERVE_CRASH_SEED` repeats the moments of an earlier run.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

#[path = "cli/harness.rs"]
#[expect(dead_code, reason = "only a part of what the tests of the commands need")]
mod harness;
#[path = "cli/recording.rs"]
#[expect(dead_code, reason = "only a part of what the tests of the commands need")]
mod recording;

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nerve_testkit::harness::{is_alive, signal};
use nerve_testkit::{Random, wait_until};
use rustix::process::Signal;

use harness::{DEADLINE, Home, pid_in};
use recording::{Recording, assert_counts, numbers};

/// Maximum time a block waits for its timer.
const ROTATE: Duration = Duration::from_millis(250);
/// Allowance for a busy machine: scheduling and unread kernel buffers.
const SLACK: Duration = Duration::from_millis(250);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Lines `at NUMBER MICROSECONDS`, one every few milliseconds, or as fast as a shell can.
const PACED: &str = "i=0; while :; do i=$((i+1)); echo \"at $i ${EPOCHREALTIME/./}\"; sleep 0.004; done\n";
const FAST: &str = "i=0; while :; do i=$((i+1)); echo \"at $i ${EPOCHREALTIME/./}\"; done\n";

/// Returns the time from the last recorded line to the kill.
fn loss(recording: &Recording, killed: Duration) -> Duration {
    assert!(recording.lost.iter().all(|lost| lost.tail), "a hole: {:?}", recording.lost);
    let text = recording.text();
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    let mut last = None;
    for (line, expected) in whole.lines().zip(1_u64..) {
        let (count, at) = line.trim_end().strip_prefix("at ").and_then(|line| line.split_once(' ')).unwrap();
        assert_eq!(count.parse(), Ok(expected), "a line is missing");
        last = Some(Duration::from_micros(at.parse().unwrap()));
    }
    last.map_or(Duration::MAX, |last| killed.saturating_sub(last))
}

fn rounds(home: &Home, script: &str, rounds: u64, random: &mut Random) -> Vec<Duration> {
    let path = home.hermetic.work().join("clock.sh");
    fs::write(&path, script).unwrap();
    let command = format!("bash {}", path.display());
    let mut losses = Vec::new();
    for _ in 0..rounds {
        home.ok(&["server", "node", "create", "clock", "-c", &command, "--no-history"]);
        let host = pid_in(&home.host_of("clock")["pid"]);
        let file = home.recording_of("clock");
        // So that there is a first block, and then at any moment of the timer.
        assert!(wait_until(DEADLINE, || !Recording::of(&file).output.is_empty()));
        let (begun, moment) = (Instant::now(), Duration::from_micros(random.below(600_000)));
        std::thread::sleep(moment.saturating_sub(begun.elapsed()));
        let killed = now();
        signal(host, Signal::KILL);
        assert!(wait_until(DEADLINE, || !is_alive(host)));
        losses.push(loss(&Recording::of(&file), killed));
        assert!(wait_until(DEADLINE, || home.info("clock")["state"] == "stopped"));
    }
    losses.sort();
    losses
}

fn all_rounds() -> u64 {
    number("NERVE_CRASH_ROUNDS").unwrap_or(if std::env::var_os("CI").is_some() { 12 } else { 60 })
}

fn seed() -> u64 {
    number("NERVE_CRASH_SEED").unwrap_or_else(|| u64::try_from(now().as_nanos() & 0xFFFF_FFFF).unwrap())
}

fn check(what: &str, script: &str) {
    let seed = seed();
    let home = Home::new();
    home.ok(&["server", "start"]);
    let losses = rounds(&home, script, (all_rounds() / 2).max(1), &mut Random(seed));
    let (median, most) = (losses[losses.len() / 2], losses[losses.len() - 1]);
    eprintln!(
        "{what}: {} rounds, lost {median:?} at the median, {most:?} at most; NERVE_CRASH_SEED={seed}",
        losses.len()
    );
    // A busy machine may keep the host of some rounds from running. A recorder without its timer loses more in most of them.
    assert!(
        median <= ROTATE + SLACK,
        "{median:?} of output are lost; all: {losses:?}; NERVE_CRASH_SEED={seed}"
    );
}

#[test]
fn paced_program_loses_at_most_the_last_moment() {
    check("paced", PACED);
}

#[test]
fn fast_program_loses_at_most_the_last_moment() {
    check("fast", FAST);
}

#[test]
fn repeated_server_crashes_lose_no_byte() {
    let home = Home::new();
    let (seed, rounds) = (seed(), all_rounds() / 4);
    let mut random = Random(seed);
    home.ok(&["server", "start"]);
    let script = "i=0; until [ -e enough ]; do i=$((i+1)); echo \"line $i\"; sleep 0.001; done; echo \"end $i\"; exec sleep 1000\n";
    let path = home.hermetic.work().join("count.sh");
    fs::write(&path, script).unwrap();
    home.ok(&[
        "server",
        "node",
        "create",
        "count",
        "-c",
        &format!("bash {}", path.display()),
        "--cols",
        "40",
    ]);
    let file = home.recording_of("count");
    for _ in 0..rounds.max(1) {
        // The server is killed at a random moment.
        std::thread::sleep(Duration::from_micros(random.below(200_000)));
        home.kill_server("default");
        home.ok(&["server", "start"]);
    }
    fs::write(home.hermetic.work().join("enough"), "").unwrap();
    let end =
        nerve_testkit::wait_for(DEADLINE, || numbers(&Recording::of(&file).text(), "end").first().copied());
    let end = end.unwrap_or_else(|| panic!("it does not end; NERVE_CRASH_SEED={seed}"));
    let found = Recording::of(&file);
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    let what = format!("NERVE_CRASH_SEED={seed}");
    assert_counts(&numbers(&found.text(), "line"), end, &what);
    assert!(wait_until(DEADLINE, || home.read("count").contains(&format!("end {end}"))), "{what}");
    assert_counts(&numbers(&home.read("count"), "line"), end, &what);
    assert_eq!(home.metadata("count", "faults"), "", "{what}");
}
