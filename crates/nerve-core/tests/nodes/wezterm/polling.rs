//! Latency of change detection and cost of idle panes, with a fake WezTerm that takes as long for a call as the real one.

use std::time::{Duration, Instant};

use nerve_core::command::StateName;

use super::mux::WeztermHarness;

/// Maximum delay between the last byte of a turn and its end. The goal is 250 ms; the limit allows for a loaded machine.
const MAX_DELAY: Duration = Duration::from_millis(600);

#[tokio::test]
async fn end_of_turn_is_detected_quickly() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.mux.fault("slow 20");
    let stamp = harness.nodes.folder.path().join("stamp");
    let mut delays = Vec::new();
    for turn in 0..24 {
        // Long enough to be polled as a running turn.
        let pause = 0.15 + f64::from(turn % 8) * 0.03;
        let command = format!("sleep {pause}; echo turn {turn}; date +%s%N > {}", stamp.display());
        let response = harness.nodes.ask("sh", &command).await;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(response.text, format!("turn {turn}"));
        let ended: u64 = std::fs::read_to_string(&stamp).unwrap().trim().parse().unwrap();
        delays.push(now.saturating_sub(Duration::from_nanos(ended)));
    }
    delays.sort();
    eprintln!(
        "delay: median {:?}, worst of {} {:?}",
        delays[delays.len() / 2],
        delays.len(),
        delays[delays.len() - 1]
    );
    // Tolerates one outlier.
    assert!(delays[delays.len() - 2] < MAX_DELAY, "{delays:?}");
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn idle_panes_are_polled_rarely_and_share_lists() {
    let harness = WeztermHarness::new();
    for node in ["a", "b", "c", "d", "e"] {
        harness.bash(node).await;
        harness.nodes.wait(node, StateName::Ready).await.unwrap();
    }
    let calls = || (harness.mux.calls("list"), harness.mux.calls("get-text"));
    // The start is over when no text has been polled for a while.
    let mut before = calls();
    let mut last_change = Instant::now();
    let is_idle = nerve_testkit::wait_until(Duration::from_secs(20), || {
        let now = calls();
        if now.1 != before.1 {
            (before, last_change) = (now, Instant::now());
        }
        last_change.elapsed() > Duration::from_millis(1500)
    });
    assert!(is_idle, "the panes do not become idle");
    let (lists, texts) = calls();
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(9)).await;
    let seconds = started.elapsed().as_secs_f64();
    let (lists, texts) = (calls().0 - lists, calls().1 - texts);
    eprintln!("5 idle panes for {seconds:.1} s: {lists} lists, {texts} texts");
    // A list costs 20 ms and a text 24 ms of CPU time.
    let cost = (lists as f64 * 0.020 + texts as f64 * 0.024) / seconds / 5.0;
    assert!(cost < 0.01, "{:.2} % of a core for a pane", cost * 100.0);
    // An idle pane still responds quickly.
    let started = Instant::now();
    assert_eq!(harness.nodes.ask("a", "echo awake").await.text, "awake");
    assert!(started.elapsed() < Duration::from_secs(2));
}
