//! Full-screen agent sessions, shown and branched at a snapshot.

use nerve_testkit::wait_until;

use super::Fixture;
use crate::harness::DEADLINE;
use crate::tmux_viewer::open_window;

#[test]
fn full_screen_session_is_shown_and_branched_at_snapshot() {
    let fixture = Fixture::with_agent_args("--full-screen", |_, _| {});
    for turn in ["one", "two", "three"] {
        fixture.say(turn);
        fixture.snapshot(&["--label", turn]);
    }
    fixture.say("four");
    fixture.end_node("me");
    let view = ["view", "--task", fixture.recording.to_str().unwrap()];
    let test = "full_screen_session_is_shown_and_branched_at_snapshot";
    let Some(window) = open_window(test, &fixture.home, (130, 50), &view) else { return };
    let shows = |last: &str, next: &str| {
        let is_shown = || {
            let text = window.screen();
            text.contains(&format!("You said: {last}")) && !text.contains(&format!("You said: {next}"))
        };
        assert!(wait_until(DEADLINE, is_shown), "not {last} without {next} in\n{}", window.screen());
    };
    window.expect("branch from the end");
    window.expect("You said: four");
    // Move between snapshots with the task entry open.
    window.press(&["C-S-Up"]);
    window.expect("branch from snapshot 3 (3 of 4) 'three'");
    shows("three", "four");
    window.press(&["Up"]);
    window.expect("branch from snapshot 2 (2 of 4) 'two'");
    shows("two", "three");
    window.press(&["Down", "Down"]);
    window.expect("branch from the end");
    window.expect("You said: four");
    // Move between snapshots with the task entry closed.
    window.press(&["Escape"]);
    window.expect("press Esc again to leave");
    window.type_text("3[");
    window.expect("snapshot 1 of 4 'one'");
    shows("one", "two");
    window.type_text("]");
    window.expect("snapshot 2 of 4 'two'");
    shows("two", "three");
    assert!(window.screen().contains('◆'), "at its mark on the timeline: {}", window.screen());
    // A task entered here branches from this snapshot.
    window.type_text("i");
    window.expect("branch from snapshot 2 (2 of 4) 'two'");
    shows("two", "three");
    window.type_text("RECALL");
    window.press(&["Enter"]);
    window.expect("branched to node");
    window.expect("You said: four");
    let knows = || fixture.home.read("me-branch").contains("You said: one | two");
    assert!(wait_until(DEADLINE, knows), "{}", fixture.home.read("me-branch"));
    assert!(!fixture.home.read("me-branch").contains("three"), "{}", fixture.home.read("me-branch"));
    window.press(&["q"]);
    window.wait_for_end();
}
