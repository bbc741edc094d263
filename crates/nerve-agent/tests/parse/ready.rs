//! `is_ready` on every saved screen.
//!
//! The name of a screen is the intended state. Some were taken a moment late (`claude-classic/09` is after the tool ended,
//! `codex-inline/12b` after the approved command) or show a program that has exited (`29` of Codex, every `30`). A draft
//! in the composer does not make an agent busy. `01` is drawn before it accepts input, which no screen shows.

use nerve_agent::parse::ParserKind::{self, Claude, Codex, Gemini};

use crate::screens;

const READY: bool = true;
const NOT_READY: bool = false;

#[test]
fn saved_screens_are_ready_as_listed() {
    let mut wrong = Vec::new();
    for (agent, kind, expected) in TABLE {
        let screens = screens::all(agent);
        let listed: Vec<&str> = expected.iter().map(|(state, _)| *state).collect();
        let saved: Vec<&str> = screens.iter().map(|(state, _)| state.as_str()).collect();
        assert_eq!(listed, saved, "{agent}: the table lists every screen");
        for ((state, screen), (_, is_ready)) in screens.iter().zip(expected) {
            if nerve_agent::parse::parser(kind).is_ready(screen) != *is_ready {
                wrong.push(format!("{agent}/{state}: expected {is_ready}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The agent, its parser, and the expected result for each of its screens.
type Rows = (&'static str, ParserKind, &'static [(&'static str, bool)]);

const TABLE: [Rows; 7] = [
    (
        "claude-classic",
        Claude,
        &[
            ("01-startup-prompt-drawn", READY),
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("03b-just-submitted", NOT_READY),
            ("04-short-response", READY),
            ("05-busy-streaming", NOT_READY),
            ("05b-busy-streaming-later", NOT_READY),
            ("06-after-slow", READY),
            ("07-busy-waiting-first-byte", NOT_READY),
            ("08-long-response", READY),
            ("08b-huge-response", READY),
            ("08c-wide-response", READY),
            ("09-during-tool", READY),
            ("11-after-tool", READY),
            ("12-permission-bash", NOT_READY),
            ("13-after-permission-yes", READY),
            ("14-permission-write", NOT_READY),
            ("15-permission-denied-esc", READY),
            ("16-after-read", READY),
            ("17-after-esc-interrupt", READY),
            ("18-after-ctrlc-interrupt", READY),
            ("18a-after-esc-before-first-byte", READY),
            ("18b-after-ctrl-u", READY),
            ("19-paste3-bracketed-before-enter", READY),
            ("20-after-paste3", READY),
            ("21-paste30-bracketed-before-enter", READY),
            ("22-after-paste30", READY),
            ("23-paste3000chars-before-enter", READY),
            ("24-after-paste3000", READY),
            ("25-ctrl-j-newline", READY),
            ("26-esc-cr-newline", READY),
            ("27-backslash-enter", READY),
            ("27b-thinking", NOT_READY),
            ("27c-after-thinking", READY),
            ("28-api-error-retrying", NOT_READY),
            ("28b-api-error-cancelled", READY),
            ("28c-api-error-400", READY),
            ("29-one-ctrl-c-idle", READY),
            ("30-after-exit", NOT_READY),
        ],
    ),
    (
        "claude-fullscreen",
        Claude,
        &[
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("03b-just-submitted", NOT_READY),
            ("04-short-response", READY),
            ("05-busy-streaming", NOT_READY),
            ("06-after-slow", READY),
            ("07-busy-spinner", NOT_READY),
            ("08-long-response", READY),
            ("08b-huge-response", READY),
            ("08c-wide-response", READY),
            ("12-permission-bash", NOT_READY),
            ("13-after-permission-yes", READY),
            ("16-after-read", READY),
            ("17-after-esc-interrupt", READY),
            ("19-paste3-before-enter", READY),
            ("20-after-paste3", READY),
            ("25-slash-command", READY),
            ("30-after-exit", NOT_READY),
        ],
    ),
    ("claude-dialogs", Claude, &[("00-apikey-dialog", NOT_READY), ("00-trust-dialog", NOT_READY)]),
    (
        "codex-inline",
        Codex,
        &[
            ("01-startup-prompt-drawn", READY),
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("04-short-response", READY),
            ("05-busy-streaming", NOT_READY),
            ("05b-busy-streaming-later", NOT_READY),
            ("06-after-slow", READY),
            ("07-busy-waiting-first-byte", NOT_READY),
            ("08-long-response", READY),
            ("08b-huge-response", READY),
            ("09-during-tool", NOT_READY),
            ("11-after-tool", READY),
            ("12-permission-shell", NOT_READY),
            ("12b-just-approved", READY),
            ("13-after-permission-yes", READY),
            ("14-permission-second", NOT_READY),
            ("15-permission-denied-esc", READY),
            ("16-after-read", READY),
            ("17-after-esc-interrupt", READY),
            ("18-after-ctrlc-interrupt", READY),
            ("29-one-ctrl-c-idle", NOT_READY),
            ("30-after-exit", NOT_READY),
        ],
    ),
    (
        "codex-fullscreen",
        Codex,
        &[
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("04-short-response", READY),
            ("12-permission-shell", NOT_READY),
            ("13-after-permission-yes", READY),
            ("16-after-read", READY),
            ("17-after-esc-interrupt", READY),
            ("19-paste3-before-enter", READY),
        ],
    ),
    (
        "gemini",
        Gemini,
        &[
            ("01-startup-prompt-drawn", READY),
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("04-short-response", READY),
            ("05-busy-streaming", NOT_READY),
            ("05b-busy-streaming-later", NOT_READY),
            ("06-after-slow", READY),
            ("07-busy-waiting-first-byte", NOT_READY),
            ("08-long-response", READY),
            ("08b-huge-response", READY),
            ("08c-wide-response", READY),
            ("08d-loop-detected-dialog", NOT_READY),
            ("09-during-tool", NOT_READY),
            ("11-after-tool", READY),
            ("12-permission-shell", NOT_READY),
            ("12b-just-approved", READY),
            ("13-after-permission-yes", READY),
            ("14-permission-write", NOT_READY),
            ("15-permission-denied-esc", READY),
            ("16-after-read", READY),
            ("17-after-esc-interrupt", READY),
            ("18-after-ctrlc-interrupt", READY),
            ("18a-after-esc-before-first-byte", READY),
            ("19-paste3-bracketed-before-enter", READY),
            ("20-after-paste3", READY),
            ("21-paste30-before-enter", READY),
            ("22-after-paste30", READY),
            ("23-paste3000chars-before-enter", READY),
            ("24-after-paste3000", READY),
            ("25-ctrl-j-newline", READY),
            ("26-esc-cr-newline", READY),
            ("28-api-error", NOT_READY),
            ("28b-api-error-cancelled", READY),
            ("28c-api-error-400", READY),
            ("29-one-ctrl-c-idle", READY),
            ("30-after-exit", NOT_READY),
        ],
    ),
    (
        "gemini-colour",
        Gemini,
        &[
            ("02-startup-ready", READY),
            ("03-typed-not-submitted", READY),
            ("04-short-response", READY),
            ("05-busy-streaming", NOT_READY),
            ("08-long-response", READY),
            ("12-permission-shell", NOT_READY),
            ("19-paste3-before-enter", READY),
        ],
    ),
];

#[test]
fn quoted_markers_do_not_count() {
    // An idle screen whose answer quotes all busy markers, with the title of an idle agent.
    let (_, mut screen) = screens::all("claude-classic")
        .into_iter()
        .find(|(state, _)| state == "08c-wide-response")
        .expect("saved");
    assert!(nerve_agent::parse::parser(Claude).is_ready(&screen));
    screen.title = "◐ Claude Code".to_string();
    assert!(!nerve_agent::parse::parser(Claude).is_ready(&screen), "the title is busy");
}

#[test]
fn cursor_must_be_in_composer() {
    for (agent, kind) in [("claude-classic", Claude), ("codex-inline", Codex), ("gemini", Gemini)] {
        let (_, mut screen) =
            screens::all(agent).into_iter().find(|(state, _)| state == "04-short-response").expect("saved");
        assert!(nerve_agent::parse::parser(kind).is_ready(&screen), "{agent}");
        screen.cursor.row = 1;
        assert!(!nerve_agent::parse::parser(kind).is_ready(&screen), "{agent}");
    }
}
