//! Sessions of agents that have all of the screen: looked at, and branched, as they were at a snapshot.

use nerve_testkit::wait_until;

use super::Stage;
use crate::harness::DEADLINE;
use crate::tmux_viewer::Window;

#[test]
fn full_screen_session_is_shown_and_branched_at_snapshot() {
    let stage = Stage::of_agent("--full-screen", |_, _| {});
    for turn in ["one", "two", "three"] {
        stage.say(turn);
        stage.snapshot(&["--label", turn]);
    }
    stage.say("four");
    stage.end("me");
    let view = ["view", stage.recording.to_str().unwrap()];
    let test = "full_screen_session_is_shown_and_branched_at_snapshot";
    let Some(window) = Window::open(test, &stage.home, (130, 50), &view) else { return };
    let shows = |last: &str, next: &str| {
        let is_shown = || {
            let text = window.text();
            text.contains(&format!("You said: {last}")) && !text.contains(&format!("You said: {next}"))
        };
        assert!(wait_until(DEADLINE, is_shown), "not {last} without {next} in\n{}", window.text());
    };
    window.sees("branch from the end");
    window.sees("You said: four");
    // From one to the next with the task entry.
    window.presses(&["C-S-Up"]);
    window.sees("branch from snapshot 3 (3 of 4) 'three'");
    shows("three", "four");
    window.presses(&["Up"]);
    window.sees("branch from snapshot 2 (2 of 4) 'two'");
    shows("two", "three");
    window.presses(&["Down", "Down"]);
    window.sees("branch from the end");
    window.sees("You said: four");
    // Without it.
    window.presses(&["Escape"]);
    window.sees("Esc once more to leave");
    window.types("3[");
    window.sees("snapshot 1 of 4 'one'");
    shows("one", "two");
    window.types("]");
    window.sees("snapshot 2 of 4 'two'");
    shows("two", "three");
    assert!(window.text().contains('◆'), "at its mark on the timeline: {}", window.text());
    // What is told there becomes a branch of it.
    window.types("i");
    window.sees("branch from snapshot 2 (2 of 4) 'two'");
    shows("two", "three");
    window.types("RECALL");
    window.presses(&["Enter"]);
    window.sees("has it now");
    window.sees("You said: four");
    let knows = || stage.home.read("me-branch").contains("You said: one | two");
    assert!(wait_until(DEADLINE, knows), "{}", stage.home.read("me-branch"));
    assert!(!stage.home.read("me-branch").contains("three"), "{}", stage.home.read("me-branch"));
    window.presses(&["q"]);
    window.is_left();
}
