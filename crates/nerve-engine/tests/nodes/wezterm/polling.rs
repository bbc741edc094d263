//! Change detection and cost of idle panes, with a fake WezTerm that takes as long for a call as the real one.

use std::time::{Duration, Instant};

use nerve_api::value::NodeState;
use nerve_testkit::eventually;

use super::mux::WeztermHarness;

#[tokio::test]
async fn each_end_of_turn_is_detected() {
    let harness = WeztermHarness::new();
    harness.bash("sh").await;
    harness.mux.fault("slow 20");
    for turn in 0..24 {
        // Long enough to be polled as a running turn.
        let pause = 0.15 + f64::from(turn % 8) * 0.03;
        let response = harness.nodes.ask("sh", &format!("sleep {pause}; echo turn {turn}")).await;
        assert_eq!(response.text, format!("turn {turn}"));
    }
    harness.nodes.stop("sh").await;
}

#[tokio::test]
async fn idle_panes_are_polled_rarely_and_share_lists() {
    let harness = WeztermHarness::new();
    for node in ["a", "b", "c", "d", "e"] {
        harness.bash(node).await;
        harness.nodes.wait(node, NodeState::Ready).await.unwrap();
    }
    let calls = || (harness.mux.calls("list"), harness.mux.calls("get-text"));
    // The start is over when no text has been polled for a while.
    let mut before = calls();
    let mut last_change = Instant::now();
    let is_idle = async || {
        let now = calls();
        if now.1 != before.1 {
            (before, last_change) = (now, Instant::now());
        }
        last_change.elapsed() > Duration::from_millis(1500)
    };
    eventually("the panes are idle", is_idle).await;
    let (lists, texts) = calls();
    let started = Instant::now();
    // A text for each pane.
    eventually("the panes are polled again", async || calls().1 >= texts + 5).await;
    let seconds = started.elapsed().as_secs_f64();
    let (lists, texts) = (calls().0 - lists, calls().1 - texts);
    eprintln!("5 idle panes for {seconds:.1} s: {lists} lists, {texts} texts");
    // A list costs 20 ms and a text 24 ms of CPU time.
    let cost = (lists as f64 * 0.020 + texts as f64 * 0.024) / seconds / 5.0;
    assert!(cost < 0.01, "{:.2} % of a core for a pane", cost * 100.0);
    // An idle pane still responds.
    assert_eq!(harness.nodes.ask("a", "echo awake").await.text, "awake");
}
