//! Screens that do not fit the profile.

use crate::harness::Harness;

/// A screen of an agent whose composer looks different.
const UNKNOWN: &str = "\x1b[H\x1b[2JWelcome back\r\n\r\n>> type here";

#[test]
fn screen_without_known_composer_is_reported_after_silence() {
    for mut harness in [Harness::new("claude"), Harness::ready_claude()] {
        harness.feed(UNKNOWN);
        harness.advance(9_999);
        assert_eq!(harness.driver.mismatch(), None);
        harness.advance(1);
        assert!(harness.driver.mismatch().is_some_and(|text| text.contains("'claude'")));
        harness.composer("", "", "? for shortcuts");
        assert_eq!(harness.driver.mismatch(), None);
    }
}

#[test]
fn output_and_empty_screens_are_no_mismatch() {
    let mut harness = Harness::new("claude");
    harness.feed("\x1b[H\x1b[2J");
    harness.advance(60_000);
    assert_eq!(harness.driver.mismatch(), None, "nothing is drawn");
    for _ in 0..5 {
        harness.feed(UNKNOWN);
        harness.advance(9_000);
    }
    assert_eq!(harness.driver.mismatch(), None, "it still draws");
}

#[test]
fn dialogs_work_and_plain_programs_are_no_mismatch() {
    let mut harness = Harness::new("gemini");
    harness.feed("\x1b]0;✋  Action Required (work)\x07What now?");
    harness.advance(60_000);
    assert_eq!(harness.driver.mismatch(), None);
    harness.feed("\x1b]0;✦  Working… (work)\x07");
    harness.advance(60_000);
    assert_eq!(harness.driver.mismatch(), None);
    let mut harness = Harness::new("shell");
    harness.feed("compiling");
    harness.advance(60_000);
    assert_eq!(harness.driver.mismatch(), None);
}
