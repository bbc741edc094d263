//! Simulates clusters under crashes, pauses, partitions, lost, repeated and reordered messages, stopped clocks and copied state
//! folders. Each seed is one interleaving.
//!
//! A failure names its seed. To see its history: `NERVE_SIMULATION_SEED=SEED cargo test -p nerve-cluster history -- --nocapture`.
//! A later seed that found a defect becomes a test of its own.
//! To run many seeds: `NERVE_SIMULATION_COUNT=1000000 cargo test -p nerve-cluster --release random -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod checker;
mod cluster;
mod lease_ages;
#[expect(unreachable_pub, reason = "a module of the test kit, which depends on half of the workspace")]
#[path = "../../../nerve-testkit/src/random.rs"]
mod random;
mod store;

use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;

use checker::Counts;
use cluster::Cluster;
use store::Sabotage;

/// Simulates seeds on all processors. Returns the sum of the counts.
fn simulate(seeds: Range<u64>) -> Counts {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let workers: Vec<_> = (0..threads)
        .map(|number| {
            let seeds = seeds.clone();
            thread::spawn(move || {
                let mut counts = Counts::default();
                for seed in seeds.filter(|seed| seed % threads == number) {
                    counts += simulate_one(seed);
                }
                counts
            })
        })
        .collect();
    workers.into_iter().fold(Counts::default(), |mut sum, worker| {
        sum += worker.join().unwrap();
        sum
    })
}

fn simulate_one(seed: u64) -> Counts {
    let mut cluster = Cluster::new(seed, None, false);
    let violation = cluster.run();
    assert_eq!(violation, None, "seed {seed}");
    cluster.checker.counts
}

/// Simulates a store with a defect until each expected kind of violation was found.
#[track_caller]
fn assert_found(sabotage: Sabotage, expected: &[&str]) {
    let mut missing: BTreeSet<&str> = expected.iter().copied().collect();
    for seed in 0..3_000 {
        if let Some(violation) = Cluster::new(seed, Some(sabotage), false).run() {
            let violation = format!("{violation:?}");
            missing.retain(|kind| !violation.starts_with(kind));
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("not found: {missing:?}");
}

#[test]
fn invariants_hold_in_random_interleavings() {
    let count = std::env::var("NERVE_SIMULATION_COUNT").map_or(3_000, |count| count.parse().unwrap());
    let counts = simulate(0..count);
    eprintln!("{counts:?}");
    assert!(counts.all_occurred(), "an event of interest did not occur: {counts:?}");
}

#[test]
fn equal_seeds_have_equal_histories() {
    let history = |seed| {
        let mut cluster = Cluster::new(seed, None, false);
        assert_eq!(cluster.run(), None, "seed {seed}");
        (cluster.journals(), cluster.checker.counts)
    };
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
}

#[test]
fn append_without_comparison_is_found() {
    assert_found(Sabotage::IgnoreExpected, &["AttemptTypedTwice", "TypedWithoutRecord", "ReplicaDiffers"]);
}

#[test]
fn acknowledged_but_lost_start_is_found() {
    assert_found(Sabotage::LoseStarted, &["TypedWithoutRecord"]);
}

#[test]
fn forged_epoch_is_found() {
    assert_found(Sabotage::ForgeEpoch, &["StaleRecordCounted"]);
}

#[test]
fn history_of_one_seed() {
    let seed = std::env::var("NERVE_SIMULATION_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut cluster = Cluster::new(seed.unwrap_or(0), None, seed.is_some());
    let violation = cluster.run();
    let states: Vec<_> = cluster.checker.runs.values().map(|check| &check.state).collect();
    assert_eq!(violation, None, "{states:#?}");
}
