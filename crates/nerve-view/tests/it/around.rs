//! What is drawn around the lines: the status, the timeline, the help sheet.

use std::time::Duration;

use nerve_view::draw::{Abilities, Facts};
use nerve_view::timeline::Timeline;
use nerve_view::tools::{Tool, ToolState};
use nerve_view::viewer::Kind;
use ratatui::style::Modifier;

use crate::scene::{Window, after, live, text};

#[test]
fn the_status_says_what_matters_at_any_width() {
    for cols in 1..=200 {
        let mut window = Window::new(Kind::Live, (40, 3), (cols, 4));
        window.facts = Facts {
            name: "claude".into(),
            state: Some(("busy".into(), "composer without a busy sign".into())),
            recorded: Some(1_234_567),
            ..Facts::default()
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
        has("claude", 37);
        has("1 snapshot", 61);
        has("1.2 MB", 61);
        has("(composer without a busy", 88);
        has("ctrl+] ? help", 104);
        // All of it where it has room, before the hint comes and beside it.
        let is_whole = (92..104).contains(&cols) || cols >= 108;
        assert_eq!(status.contains("a busy sign)"), is_whole, "{cols}: {status}");
        let reversed = (0..cols).all(|col| buffer[(col, 3)].modifier.contains(Modifier::REVERSED));
        assert!(reversed, "{cols}");
    }
}

#[test]
fn what_is_told_or_typed_comes_before_all_else() {
    for cols in 10..=120 {
        let mut window = after(cols, 6);
        window.hundred();
        window.keys("esc j");
        window.viewer.tell("nothing there");
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
fn after_the_prefix_its_keys_are_named() {
    let mut window = live(100, 4);
    window.write("x");
    window.keys("ctrl+]");
    let drawn = window.text();
    assert!(drawn.contains("d detach  [ scroll  i task  t tools  q end  ? help"), "{drawn}");
    window.keys("q");
    assert!(window.text().contains("end the program? y: end it"), "{}", window.text());
}

#[test]
fn the_help_sheet_has_all_keys_and_what_this_terminal_can_do() {
    for (kind, words) in [
        (
            Kind::Live,
            vec!["end the program's session", "a line down", "send what was typed", "While the program runs"],
        ),
        (
            Kind::After,
            vec!["a line down", "look for text", "the next snapshot", "twice as fast", "5 s back in time"],
        ),
    ] {
        let mut window = Window::new(kind, (80, 9), (80, 10));
        window.facts.abilities = Abilities { colours: "24 bit", ..Abilities::default() };
        window.hundred();
        window.keys(if kind == Kind::Live { "ctrl+] ?" } else { "f1" });
        let mut all = String::new();
        for _ in 0..120 {
            all += &window.text();
            window.keys("j");
        }
        for words in words.iter().chain(&["This terminal", "24 bit", "not here: ctrl+] t"]) {
            assert!(all.contains(words), "{kind:?}: {words}: {all}");
        }
        let last = window.text();
        assert!(last.contains("24 bit"), "the sheet ends with its last row: {last}");
    }
}

#[test]
fn a_wide_help_sheet_has_columns() {
    let mut window = Window::new(Kind::After, (190, 50), (200, 60));
    window.hundred();
    window.keys("f1");
    let drawn = window.text();
    assert!(drawn.contains("This terminal") && drawn.contains("Lines"), "all of it is seen: {drawn}");
}

#[test]
fn a_timeline_is_above_the_status_where_there_is_room() {
    let mut window = after(40, 8);
    window.timeline = Some(Timeline {
        at: Duration::from_secs(65),
        of: Duration::from_secs(125),
        snapshots: vec![Duration::from_secs(30)],
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
fn a_fault_is_told_in_words_or_not_at_all() {
    for cols in 10..=120 {
        let mut window = after(cols, 6);
        window.facts.fault = Some("the recording goes on without its end".into());
        window.hundred();
        let status = window.text().lines().nth(5).unwrap_or_default().to_string();
        assert_eq!(
            status.contains('!'),
            status.contains("! the recording goes on without"),
            "{cols}: {status}"
        );
        assert!(cols < 80 || status.contains("without its end"), "{cols}: {status}");
    }
}
