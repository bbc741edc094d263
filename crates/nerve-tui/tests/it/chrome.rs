//! The parts drawn around the lines: the status, the timeline, the help sheet.

use std::time::Duration;

use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::draw::{Capabilities, StatusInfo};
use nerve_tui::view::timeline::{SnapshotMark, Timeline};
use nerve_tui::view::tools::{Tool, ToolState};
use nerve_tui::view::viewer::{Source, Viewer};
use ratatui::style::Modifier;

use crate::window::{Window, after, live, text};

#[test]
fn status_keeps_priorities_at_any_width() {
    for cols in 1..=200 {
        let mut window = Window::new(Source::Live, (40, 3), (cols, 4));
        window.info = StatusInfo {
            name: "claude".into(),
            state: Some(("busy".into(), "composer without a busy sign".into())),
            recorded: Some(1_234_567),
            ..StatusInfo::default()
        };
        window.write("x");
        window.snapshot(1, None);
        let tool = |id: &str, state| Tool { id: id.into(), command: "make".into(), state };
        window.viewer.set_tools(vec![tool("t1", ToolState::Running), tool("t2", ToolState::Ended(None))]);
        let (buffer, _) = window.drawn();
        let status = text(&buffer).lines().nth(3).unwrap_or_default().to_string();
        assert!(status.chars().count() <= usize::from(cols), "{cols}: {status}");
        let has =
            |words: &str, from: u16| assert_eq!(status.contains(words), cols >= from, "{cols}: {status}");
        has("live", 4);
        has("busy", 11);
        has("▸ 1", 17);
        has("▸ 1 running: t1", 29);
        has("ctrl+] ? help", 45);
        has("claude", 53);
        has("1 snapshot", 77);
        has("1.2 MB", 77);
        has("(composer withou", 96);
        has("a busy sign)", 108);
        let reversed = (0..cols).all(|col| buffer[(col, 3)].modifier.contains(Modifier::REVERSED));
        assert!(reversed, "{cols}");
    }
}

#[test]
fn unrecorded_session_and_disabled_branches() {
    let mut window = live(60, 6);
    window.info.unrecorded = true;
    window.write("x");
    window.snapshot(1, None);
    assert!(window.text().contains("not recorded · 1 snapshot"), "{}", window.text());
    window.keys("ctrl+shift+up");
    assert!(window.text().contains("branch from snapshot 1"), "{}", window.text());
    let mut window = live(60, 6);
    window.viewer = Viewer::new(Source::Live, Bindings::default()).without_branches("nothing is kept of it");
    window.write("x");
    window.snapshot(1, None);
    window.keys("ctrl+shift+up");
    let drawn = window.text();
    assert!(drawn.contains("nothing is kept of it") && !drawn.contains("branch from"), "{drawn}");
}

/// The status of a recording that is gone through, in a window of so many columns.
fn status(cols: u16, name: &str) -> String {
    let mut window = after(cols, 24);
    window.info.name = name.into();
    window.info.recorded = Some(123_456);
    window.timeline = Some(Timeline::default());
    window.hundred();
    (1..=12).for_each(|id| window.snapshot(id, None));
    window.keys("esc 1 1 g");
    window.text().lines().last().unwrap_or_default().to_string()
}

#[test]
fn help_hint_has_priority() {
    let id = "0195e3a1-77aa…";
    assert_eq!(
        status(80, id),
        "view  0195e3a1-77aa…     123 kB · 12 snapshots · line 15 of 100 · 15 % · h help"
    );
    // A long name is cut.
    let long = status(80, "what-the-agent-did-on-the-second-of-may.ahr");
    assert!(
        long.starts_with("view  what-the-ag")
            && long.ends_with("12 snapshots · line 15 of 100 · 15 % · h help"),
        "{long}"
    );
    for cols in 30..120 {
        let status = status(cols, id);
        assert_eq!(status.contains("h help"), cols >= 37, "{cols}: {status}");
        assert_eq!(status.contains("0195e3a1"), cols >= 51, "{cols}: {status}");
    }
    let mut window = live(80, 10);
    window.info = StatusInfo {
        name: "bash".into(),
        state: Some(("ready".into(), "screen: prompt 'bash-5.2#'".into())),
        recorded: Some(12_345),
        ..StatusInfo::default()
    };
    window.write("$ ");
    let status = |window: &mut Window| window.text().lines().last().unwrap_or_default().to_string();
    let before = status(&mut window);
    assert!(before.contains("ready (screen: prompt 'bash") && before.ends_with("ctrl+] ? help"), "{before}");
    window.snapshot(1, None);
    let after = status(&mut window);
    assert!(
        after.contains("ready (screen: prompt") && after.ends_with("1 snapshot · ctrl+] ? help"),
        "{after}"
    );
}

#[test]
fn one_match_is_singular() {
    let mut window = after(80, 10);
    window.write("one\r\ntwo");
    window.keys("esc / ctrl+k t w o enter");
    assert!(window.text().contains(" 1 match · "), "{}", window.text());
}

#[test]
fn messages_and_prompts_have_priority() {
    for cols in 10..=120 {
        let mut window = after(cols, 6);
        window.hundred();
        window.keys("esc j");
        window.viewer.show_message("nothing there");
        let text = window.text();
        let rows: Vec<&str> = text.lines().collect();
        match cols < 13 {
            true => assert_eq!(rows[3..5], ["nothing", "there"], "{cols}: {text}"),
            false => assert!(rows[5].contains("nothing there"), "{cols}: {text}"),
        }
        window.keys("/");
        window.types("abc");
        assert!(window.text().lines().nth(5).unwrap().starts_with("/abc▏"), "{cols}");
    }
}

#[test]
fn prefix_lists_its_keys() {
    let mut window = live(100, 4);
    window.write("x");
    window.keys("ctrl+]");
    let drawn = window.text();
    assert!(drawn.contains("d detach  [ scroll  i task  s snapshot  t tools  q end  ? help"), "{drawn}");
    // Where there is less room what leads somewhere is named.
    window.size = (60, 4);
    let drawn = window.text();
    assert!(drawn.contains("d detach  [ scroll  i task  t tools  q end  ? help"), "{drawn}");
    window.keys("q");
    assert!(window.text().contains("end the program? y: end it"), "{}", window.text());
}

#[test]
fn help_has_all_keys_and_capabilities() {
    for (source, words) in [
        (Source::Live, vec!["end the session", "a line down", "send what was typed", "Running program"]),
        (Source::Recording, vec!["a line down", "search", "twice as fast", "5 s back in time", "●  ▶  ◆"]),
    ] {
        let mut window = Window::new(source, (80, 9), (80, 10));
        window.info.capabilities = Capabilities { colours: "24 bit", ..Capabilities::default() };
        window.hundred();
        window.keys(if source == Source::Live { "ctrl+] ?" } else { "f1" });
        let mut all = String::new();
        for _ in 0..120 {
            all += &window.text();
            window.keys("j");
        }
        for words in words.iter().chain(&["This terminal", "24 bit", "not here: ctrl+] t"]) {
            assert!(all.contains(words), "{source:?}: {words}: {all}");
        }
        let last = window.text();
        assert!(last.contains("24 bit"), "the sheet ends with its last row: {last}");
    }
}

#[test]
fn wide_help_has_columns() {
    let mut window = Window::new(Source::Recording, (190, 50), (200, 60));
    window.hundred();
    window.keys("f1");
    let drawn = window.text();
    assert!(drawn.contains("This terminal") && drawn.contains("Lines"), "all of it is seen: {drawn}");
}

#[test]
fn timeline_is_above_status_if_it_fits() {
    let mut window = after(40, 8);
    window.timeline = Some(Timeline {
        at: Duration::from_secs(65),
        duration: Duration::from_secs(125),
        snapshots: vec![SnapshotMark { at: Duration::from_secs(30), id: 1 }],
        idle: vec![Duration::from_secs(70)..Duration::from_secs(90)],
    });
    window.hundred();
    window.keys("esc");
    let drawn = window.text();
    assert_eq!(drawn.lines().nth(6), Some("1:05 ━━━━━━━▶━━━━━━━●─┈┈┈┈───────── 2:05"), "{drawn}");
    window.size = (40, 7);
    assert!(!window.text().contains('━'));
}

#[test]
fn fault_is_shown_readably_or_not_at_all() {
    for cols in 10..=120 {
        let mut window = after(cols, 6);
        window.info.fault = Some("the recording continues without its end".into());
        window.hundred();
        let status = window.text().lines().nth(5).unwrap_or_default().to_string();
        assert_eq!(
            status.contains('!'),
            status.contains("! the recording continues without"),
            "{cols}: {status}"
        );
        assert!(cols < 80 || status.contains("without its end"), "{cols}: {status}");
    }
}
