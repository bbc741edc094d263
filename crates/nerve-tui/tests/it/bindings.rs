//! Keys that are set, the same for a program that runs and for a recording.

use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::tools::{Tool, ToolState};
use nerve_tui::view::viewer::{Effect, Mode, Source, Viewer};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use crate::{COLS, Harness};

/// Operations with their configured and their default key.
const SET: [(&str, &str, &str); 11] = [
    ("prefix", "ctrl+g", "ctrl+]"),
    ("prefix-detach", "l", "d"),
    ("entry-up", "alt+up", "ctrl+shift+up"),
    ("entry-down", "alt+down", "ctrl+shift+down"),
    ("submit", "ctrl+s", "enter"),
    ("tools", "alt+t", "ctrl+shift+t"),
    ("list-up", "u", "k"),
    ("list-down", "n", "j"),
    ("list-open", "o", "enter"),
    ("list-close", "c", "q"),
    ("tool-scroll", "alt+pageup", "shift+pageup"),
];

const KINDS: [Source; 2] = [Source::Live, Source::Recording];

/// Ten lines with snapshots 3 and 6 on those lines, and two tools that run; the screen of the tool that is shown has text.
fn harness(source: Source) -> Harness {
    let rows = 8;
    let mut harness = Harness::on(source, TerminalState::new(Size::new(COLS, rows)), rows);
    let set: Vec<_> = SET.map(|(name, key, _)| (name.to_string(), vec![key.to_string()])).into();
    harness.viewer = Viewer::new(source, Bindings::with(&set).unwrap());
    harness.resize(rows);
    harness.numbered(10, &[3, 6]);
    let tool = |id: &str| Tool { id: id.into(), command: id.into(), state: ToolState::Running };
    harness.viewer.set_tools(vec![tool("a"), tool("b")]);
    let mut terminal = TerminalState::new(Size::new(COLS, 5));
    terminal.process_data(TsNs(0), b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7");
    harness.tool = Some(terminal);
    if source == Source::Recording {
        harness.keys("esc j");
    }
    harness
}

fn branch(asked: &[Effect]) -> (Option<u64>, String) {
    match asked {
        [Effect::Branch(submission)] => (submission.snapshot, submission.text.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn task_with_custom_keys() {
    for source in KINDS {
        let mut harness = harness(source);
        harness.keys("alt+up");
        assert_eq!(harness.viewer.mode(), &Mode::Entry, "{source:?}");
        // Of a recording it is at the end first.
        if source == Source::Recording {
            harness.keys("alt+up");
        }
        harness.keys("alt+up alt+down alt+up");
        harness.types("do it");
        assert_eq!(branch(&harness.keys("ctrl+s")), (Some(3), "do it".into()), "{source:?}");
    }
}

#[test]
fn tools_with_custom_keys() {
    for source in KINDS {
        let mut harness = harness(source);
        for open in ["alt+t", "ctrl+g t"] {
            harness.keys(open);
            assert_eq!(harness.viewer.mode(), &Mode::Tools, "{source:?} {open}");
            harness.keys("c");
            assert_ne!(harness.viewer.mode(), &Mode::Tools, "{source:?}");
        }
        assert_eq!(harness.keys("alt+t n u n o"), [Effect::ShowTool("a".into())], "{source:?}");
        assert_eq!(harness.viewer.mode(), &Mode::Tool, "{source:?}");
        harness.keys("alt+pageup");
        assert_eq!(harness.viewer.mode(), &Mode::ToolScrolling, "{source:?}");
    }
}

#[test]
fn custom_prefix_and_keys_after_it() {
    let left = |source| match source {
        Source::Live => Effect::Detach,
        Source::Recording => Effect::Quit,
    };
    for source in KINDS {
        assert_eq!(harness(source).keys("ctrl+g l"), [left(source)], "{source:?}");
    }
}

#[test]
fn replaced_default_keys_do_nothing() {
    for source in KINDS {
        let begun = |keys: &str| {
            let mut harness = harness(source);
            harness.keys(keys);
            harness
        };
        for (name, _, usual) in SET {
            let before = match name {
                "prefix" | "entry-up" | "tools" => "",
                "prefix-detach" => "ctrl+g",
                "entry-down" => "alt+up alt+up alt+up",
                "submit" => "alt+up x",
                "tool-scroll" => "alt+t o",
                _ => "alt+t n",
            };
            let mut harness = if before.is_empty() { harness(source) } else { begun(before) };
            let mode = harness.viewer.mode().clone();
            let asked = harness.keys(usual);
            assert_eq!(harness.viewer.mode(), &mode, "{source:?} {name}");
            let passed_on = |asked: &Effect| matches!(asked, Effect::Input(_) | Effect::ToolInput(_));
            assert!(asked.iter().all(passed_on), "{source:?} {name}: {asked:?}");
            assert!(!harness.viewer.is_prefix_pending(), "{source:?} {name}");
        }
    }
}
