//! The drawn screen.

use nerve_tui::view::draw::{Gutter, Layout};
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::tools::{Tool, ToolState};
use nerve_tui::view::viewer::{Mode, Source};
use nerve_types::TsNs;
use nerve_vt::terminal::Snapshot;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use crate::window::{Window, after, live, text};

fn tool(id: &str, command: &str, state: ToolState) -> Tool {
    Tool { id: id.into(), command: command.into(), state }
}

#[test]
fn frame_is_centred() {
    let mut window = after(70, 11);
    window.write("one\r\ntwo");
    window.snapshot(1, None);
    window.keys("esc j");
    assert_eq!(
        window.text(),
        [
            "",
            "             ┌─────────────────────────────────────────┐",
            "             │one                                      │",
            "             │two                                     ▶│",
            "             │                                         │",
            "             │                                         │",
            "             │                                         │",
            "             └─────────────────────────────────────────┘",
            "",
            "",
            "view  run.ahr   1:05 / 2:05 · 1 snapshot · line 2 of 2 · end · h help",
            "",
        ]
        .join("\n")
    );
}

#[test]
fn small_window_truncates() {
    let mut window = after(30, 6);
    window.gutter = Gutter::Left;
    window.hundred();
    window.keys("esc g");
    assert_eq!(
        window.text(),
        [" line 1", " line 2", " line 3", " line 4", " line 5", "view               1:05 · 5 %", "",]
            .join("\n")
    );
}

#[test]
fn live_program_has_no_frame() {
    let mut window = live(40, 6);
    window.gutter = Gutter::Left;
    window.write("$ one\r\n");
    window.snapshot(1, None);
    window.write("$ tw");
    assert_eq!(window.text(), " $ one\n▶$ tw\n\n\n\nlive  claude              ctrl+] ? help\n");
    assert_eq!(window.drawn().1.cursor, Some((5, 1)));
    window.write("\x1b[?25l");
    assert_eq!(window.drawn().1.cursor, None, "hidden by the program");
    window.write("\x1b[?25h");
    window.keys("shift+pageup");
    assert_eq!(window.drawn().1.cursor, None, "not while one looks at what was before");
}

#[test]
fn whole_screen_is_drawn() {
    let mut window = live(20, 6);
    window.hundred();
    window.write("\x1b[2J\x1b[Htop\x1b[5;1Hbottom");
    let drawn = window.text();
    let rows: Vec<&str> = drawn.lines().take(5).collect();
    assert_eq!(rows, ["top", "", "", "", "bottom"], "{drawn}");
}

#[test]
fn wide_window_marks_the_screen_edge() {
    let mut window = live(40, 4);
    window.terminal.resize(nerve_types::Size::new(20, 3));
    window.write("x");
    assert_eq!(window.text().lines().next(), Some("x                   │"));
}

#[test]
fn screen_edge_does_not_cover_wider_lines() {
    let mut window = live(40, 6);
    let wide = "0123456789".repeat(3);
    // Of a wide character its right half is beyond the edge.
    window.write(&format!("{wide}\r\n{}日\r\nx\r\n{}\x1b[7m    \x1b[0m\r\n", "a".repeat(19), " ".repeat(22)));
    window.write(&"\r\n".repeat(12));
    window.terminal.resize(nerve_types::Size::new(20, 5));
    window.keys("shift+pageup g");
    let text = window.text();
    let rows: Vec<&str> = text.lines().collect();
    let aside = format!("{}日", "a".repeat(19));
    assert_eq!(rows[..3], [&wide, &aside, "x                   │"], "{text}");
    assert!(!rows[3].contains('│') && rows[4].ends_with('│'), "{text}");
}

#[test]
fn low_window_has_no_frame() {
    let mut window = after(20, 5);
    window.hundred();
    let text = window.text();
    assert!(text.contains("─ enter sen") && text.contains("branch from"), "{text}");
    window.keys("esc g");
    assert_eq!(window.text().lines().take(4).collect::<Vec<_>>(), ["line 1", "line 2", "line 3", "line 4"]);
    // A tool keeps its box.
    window.viewer.set_tools(vec![tool("b", "make", ToolState::Running)]);
    window.keys("ctrl+] t");
    assert!(window.text().contains("┌─ tools ──────────┐"), "{}", window.text());
}

#[test]
fn entry_is_a_box_below_its_snapshot() {
    let mut window = live(60, 12);
    window.info.begin = Some(TsNs(0));
    window.write("one\r\ntwo\r\nthree");
    window.terminal.record_snapshot(Snapshot {
        id: 3,
        label: Some("tests pass".into()),
        at: TsNs(41_000_000_000),
        ..Snapshot::default()
    });
    window.write("\r\nfour");
    window.keys("ctrl+shift+up");
    window.types("Retry");
    let (buffer, drawn) = window.drawn();
    assert_eq!(
        text(&buffer),
        [
            "one",
            "two",
            "three                                                      ▶",
            "┌─ branch from snapshot 3 'tests pass', 0:41 ─────────────┐",
            "│Retry                                                    │",
            "└─ enter sends · ctrl+j new line · esc closes ────────────┘",
            "four",
            "",
            "",
            "",
            "",
            "task  claude     1 snapshot · line 8 of 11 · 72 % · f1 help",
            "",
        ]
        .join("\n")
    );
    assert_eq!(drawn.cursor, Some((6, 4)));
    let dim = |row: u16| buffer[(0, row)].modifier.contains(Modifier::DIM);
    assert!(!dim(0) && !dim(2) && dim(6));
}

#[test]
fn recording_shows_entry_at_end() {
    let mut window = after(60, 14);
    window.write("one\r\ntwo");
    let drawn = window.text();
    assert!(drawn.contains("branch from the end, 2:05"), "{drawn}");
    assert_eq!(*window.viewer.mode(), Mode::Entry);
    assert!(window.drawn().1.cursor.is_some());
}

#[test]
fn mark_moves_to_entry_when_line_is_hidden() {
    let mut window = live(40, 9);
    window.hundred();
    window.snapshot(1, None);
    window.write("\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx");
    window.keys("ctrl+shift+up");
    for _ in 0..20 {
        let (row, _) = window.viewer.viewport().entry().unwrap();
        let drawn = window.text();
        let mark = drawn.lines().position(|line| line.ends_with('▶'));
        match row {
            // Its line is in the window.
            1.. => assert_eq!(mark, Some(usize::try_from(row).unwrap() - 1), "{drawn}"),
            -2..=0 => assert_eq!(mark, Some(0), "{drawn}"),
            _ => assert_eq!(mark, None, "{drawn}"),
        }
        window.viewer.wheel(1);
    }
}

#[test]
fn tools_modal_covers_the_lines() {
    let mut window = live(60, 14);
    window.hundred();
    window.viewer.set_tools(vec![
        tool("a", "cargo test", ToolState::Ended(Some(101))),
        tool("b", "sudo make install", ToolState::Running),
    ]);
    window.keys("ctrl+shift+t");
    let drawn = window.text();
    assert!(drawn.contains("┌─ tools ─"), "{drawn}");
    assert!(drawn.contains("│running     b  sudo make install"), "{drawn}");
    assert!(drawn.contains("│failed 101  a  cargo test"), "{drawn}");
    assert!(drawn.contains("─ 1 running of 2 ─┘"), "{drawn}");
    assert!(drawn.starts_with("line 88\n") && drawn.contains("\ntools "), "{drawn}");
    window.keys("enter");
    window.tool_writes((20, 4), "[sudo] password: ");
    let (buffer, at) = window.drawn();
    let drawn = text(&buffer);
    assert!(drawn.contains("┌─ sudo make insta… ─┐"), "{drawn}");
    assert!(drawn.contains("│[sudo] password:    │"), "{drawn}");
    assert!(drawn.contains(" running ─┘"), "{drawn}");
    let (col, row) = at.cursor.unwrap();
    assert_eq!(buffer[(col - 2, row)].symbol(), ":", "behind the question: {drawn}");
}

#[test]
fn draws_into_any_window_size() {
    let sizes = (1..14).flat_map(|cols| (1..10).map(move |rows| (cols, rows)));
    for (size, gutter) in
        sizes.flat_map(|size| [Gutter::Left, Gutter::Right, Gutter::None].map(|gutter| (size, gutter)))
    {
        for source in [Source::Live, Source::Recording] {
            let mut window = Window::new(source, (40, 5), size);
            window.gutter = gutter;
            window.timeline = Some(Timeline::default());
            window.write("日本語 one\r\ntwo");
            window.snapshot(1, Some("日本語"));
            window.viewer.set_tools(vec![tool("a", "日本語 x", ToolState::Running)]);
            window.tool_writes((30, 6), "日本語 two");
            let keys = [
                "ctrl+shift+up",
                "日",
                "esc",
                "ctrl+]",
                "?",
                "q",
                "ctrl+shift+t",
                "enter",
                "x",
                "shift+pageup",
                "q",
            ];
            for key in keys {
                window.keys(key);
                let (_, drawn) = window.drawn();
                assert!(
                    drawn.cursor.is_none_or(|(col, row)| col < size.0 && row < size.1),
                    "{source:?} {size:?}"
                );
            }
        }
    }
}

#[test]
fn styles_and_wide_characters_are_drawn() {
    let mut window = after(60, 9);
    window.gutter = Gutter::None;
    window.write("\x1b[1;31mred\x1b[0m 日本 \x1b[48;2;1;2;3mrgb\x1b[0m \x1b[4ml\x1b[0;3mi\x1b[0;9ms\x1b[0;8mh\x1b[0;7mr\x1b[0;2md\x1b[0m e\u{301}\x1b[5;4:3mb");
    window.keys("esc j");
    let (buffer, _) = window.drawn();
    let lines = Layout::framed(Rect::new(0, 0, 60, 8), 40, 5, Gutter::None).lines;
    let cell = |col: u16| &buffer[(lines.x + col, lines.y)];
    assert_eq!((cell(0).symbol(), cell(0).fg, cell(0).modifier), ("r", Color::Indexed(1), Modifier::BOLD));
    assert_eq!((cell(4).symbol(), cell(5).symbol(), cell(6).symbol()), ("日", " ", "本"));
    assert_eq!(cell(9).bg, Color::Rgb(1, 2, 3));
    let looks: Vec<Modifier> = (13..19).map(|col| cell(col).modifier).collect();
    assert_eq!(
        looks,
        [
            Modifier::UNDERLINED,
            Modifier::ITALIC,
            Modifier::CROSSED_OUT,
            Modifier::HIDDEN,
            Modifier::REVERSED,
            Modifier::DIM
        ]
    );
    assert_eq!(cell(20).symbol(), "e\u{301}");
    assert_eq!(cell(21).modifier, Modifier::SLOW_BLINK | Modifier::UNDERLINED);
}

#[test]
fn wide_character_at_the_edge_is_blank() {
    let mut window = after(4, 2);
    window.gutter = Gutter::None;
    window.write("a日本");
    window.keys("esc j");
    assert_eq!(window.text().lines().next(), Some("a日"), "{}", window.text());
}

#[test]
fn matches_are_highlighted() {
    let mut window = after(60, 8);
    window.gutter = Gutter::None;
    window.write("an x, an x\r\nx \x1b[7mx\x1b[0m");
    window.keys("esc g");
    window.keys("/");
    window.types("x\n");
    let (buffer, _) = window.drawn();
    let lines = Layout::framed(Rect::new(0, 0, 60, 7), 40, 5, Gutter::None).lines;
    let cell = |col: u16, row: u16| &buffer[(lines.x + col, lines.y + row)];
    assert_eq!((cell(3, 0).fg, cell(3, 0).bg), (Color::Yellow, Color::Black));
    // Without colours, modifiers distinguish it from other matches and from its line.
    assert_eq!(
        (cell(3, 0).modifier, cell(9, 0).modifier),
        (Modifier::REVERSED | Modifier::BOLD, Modifier::REVERSED)
    );
    assert_eq!((cell(0, 1).modifier, cell(0, 0).modifier), (Modifier::REVERSED, Modifier::empty()));
    assert_eq!(cell(2, 1).modifier, Modifier::empty(), "swapped colours are swapped back");
    assert!(text(&buffer).contains("match 1 of 4"), "{}", text(&buffer));
}

#[test]
fn long_message_is_above_status_until_next_key() {
    let mut window = after(40, 10);
    window.hundred();
    window.keys("esc j g");
    let before = window.text();
    window.viewer.show_message(
        "node 'one' has it now; its conversation is a new one: which conversation it had is not known",
    );
    let text = window.text();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[6], "node 'one' has it now; its conversation");
    assert_eq!(rows[7], "is a new one: which conversation it had");
    assert_eq!(rows[8], "is not known");
    assert!(rows[9].starts_with("view  ") && rows[9].contains(" %"), "{text}");
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[..6], before.lines().collect::<Vec<_>>()[..6], "the lines stay where they are");
    window.keys("alt+u");
    assert!(!window.text().contains("node"), "{}", window.text());
    // What has room is in the row.
    window.viewer.show_message("node 'one' has it now");
    assert!(window.text().lines().last().unwrap().contains("node 'one' has it now"), "{}", window.text());
    // Where no row is above it, it is cut.
    window.size = (40, 1);
    window.viewer.show_message(&"word ".repeat(30));
    assert!(window.text().trim_end().ends_with("word…"), "{}", window.text());
}

#[test]
fn long_message_hides_cursor() {
    let mut window = live(40, 6);
    window.write("one\r\ntwo\r\nthree\r\nfour\r\nfive");
    assert_eq!(window.drawn().1.cursor, Some((4, 4)));
    window.viewer.show_message(&"word ".repeat(30));
    assert_eq!(window.drawn().1.cursor, None);
    window.write("\x1b[H");
    assert_eq!(window.drawn().1.cursor, Some((0, 0)));
}

#[test]
fn evidence_and_faults_use_remaining_width() {
    let mut window = live(80, 6);
    window.info.state = Some(("busy".into(), "screen: the spinner turns and says what is done".into()));
    let status = |window: &mut crate::window::Window| window.text().lines().last().unwrap().to_string();
    let status_line = status(&mut window);
    assert!(
        status_line.contains("(screen: the spinner turns and says") && status_line.contains("…) · "),
        "{status_line}"
    );
    window.info.state = None;
    window.info.fault =
        Some("the recording cannot be written: no space is left on the device /dev/sda1".into());
    let status_line = status(&mut window);
    assert!(status_line.contains("no space is left on the device /dev"), "{status_line}");
}

#[test]
fn dropped_lines_are_not_counted() {
    let mut window = after(80, 10);
    window.hundred();
    window.keys("esc j");
    assert!(window.text().contains("line 100 of 100 · end"), "{}", window.text());
    window.write("\x1b[3J");
    assert!(window.text().contains("line 100 of 96–100 · end"), "{}", window.text());
    window.keys("=");
    assert!(window.text().contains("lines 96–100 of 96–100, 100 %"), "{}", window.text());
}
