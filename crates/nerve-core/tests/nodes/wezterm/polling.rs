//! How soon a change is seen, and what a pane at rest costs, on the stand-in for WezTerm: it takes as long for a call as the real one.

use std::time::{Duration, Instant};

use nerve_core::command::StateName;

use super::mux::Scene;

/// A finished turn is seen this long after its last byte at the latest. (250 ms are promised; a test machine has other work.)
const SEEN: Duration = Duration::from_millis(600);

#[tokio::test]
async fn the_end_of_a_turn_is_seen_soon() {
    let scene = Scene::new();
    scene.bash("sh").await;
    scene.mux.fault("slow 20");
    let stamp = scene.stage.folder.path().join("stamp");
    let mut late = Vec::new();
    for turn in 0..24 {
        // Long enough to be looked at as a turn that runs.
        let pause = 0.15 + f64::from(turn % 8) * 0.03;
        let command = format!("sleep {pause}; echo turn {turn}; date +%s%N > {}", stamp.display());
        let response = scene.stage.ask("sh", &command).await;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(response.text, format!("turn {turn}"));
        let ended: u64 = std::fs::read_to_string(&stamp).unwrap().trim().parse().unwrap();
        late.push(now.saturating_sub(Duration::from_nanos(ended)));
    }
    late.sort();
    eprintln!(
        "seen after: median {:?}, worst of {} {:?}",
        late[late.len() / 2],
        late.len(),
        late[late.len() - 1]
    );
    // One may fall into a pause of the machine.
    assert!(late[late.len() - 2] < SEEN, "{late:?}");
    scene.stage.stop("sh").await;
}

#[tokio::test]
async fn panes_at_rest_are_seldom_looked_at_and_share_their_lists() {
    let scene = Scene::new();
    for node in ["a", "b", "c", "d", "e"] {
        scene.bash(node).await;
        scene.stage.wait(node, StateName::Ready).await.unwrap();
    }
    let calls = || (scene.mux.calls("list"), scene.mux.calls("get-text"));
    // What follows the start is over when for a while nothing was asked.
    let mut before = calls();
    let mut since = Instant::now();
    let quiet = nerve_testkit::wait_until(Duration::from_secs(20), || {
        let now = calls();
        if now.1 != before.1 {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(1500)
    });
    assert!(quiet, "never at rest");
    let (lists, texts) = calls();
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs(9)).await;
    let seconds = begin.elapsed().as_secs_f64();
    let (lists, texts) = (calls().0 - lists, calls().1 - texts);
    eprintln!("5 panes at rest for {seconds:.1} s: {lists} lists, {texts} texts");
    // A list takes 20 ms and a text 24 ms of a core: under 1 % each.
    let cost = (lists as f64 * 0.020 + texts as f64 * 0.024) / seconds / 5.0;
    assert!(cost < 0.01, "{:.2} % of a core for a pane", cost * 100.0);
    // And what happens after a long rest is seen all the same.
    let asked = Instant::now();
    assert_eq!(scene.stage.ask("a", "echo awake").await.text, "awake");
    assert!(asked.elapsed() < Duration::from_secs(2));
}
