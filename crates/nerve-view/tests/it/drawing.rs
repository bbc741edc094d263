//! What is drawn.

use std::time::Duration;

use nerve_view::document::Document;
use nerve_view::draw::{Facts, Gutter, Layout, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use crate::Stage;

fn facts() -> Facts {
    let time = Some((Duration::from_secs(65), Duration::from_secs(125)));
    Facts { name: "run.ahr".into(), time, ..Facts::default() }
}

fn drawn(stage: &mut Stage, cols: u16, rows: u16, gutter: Gutter) -> Buffer {
    let mut backend = Terminal::new(TestBackend::new(cols, rows)).unwrap();
    let document = Document::of(&stage.terminal);
    let size = stage.terminal.size();
    let viewer = &mut stage.viewer;
    let frame = backend.draw(|frame| {
        let layout = Layout::framed(frame.area(), size.cols, size.rows, gutter);
        viewer.resize(layout.lines.width, layout.lines.height);
        viewer.sees(&document);
        draw(viewer, &document, &facts(), &layout, frame.buffer_mut());
    });
    frame.unwrap().buffer.clone()
}

fn text(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(buffer.area.width.into());
    let row = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    rows.map(|cells| format!("{}\n", row(cells).trim_end())).collect()
}

#[test]
fn a_frame_of_the_recorded_size_in_the_middle() {
    let mut stage = Stage::new(&["one", "two"], 1);
    stage.snapshot(1);
    assert_eq!(
        text(&drawn(&mut stage, 60, 12, Gutter::Right)),
        [
            "",
            "",
            "        ┌─────────────────────────────────────────┐",
            "        │one                                      │",
            "        │two                                     ▶│",
            "        │                                         │",
            "        │                                         │",
            "        │                                         │",
            "        └─────────────────────────────────────────┘",
            "",
            "",
            "run.ahr        1:05 / 2:05 · 1 snapshot · line 2 of 2 · end",
            "",
        ]
        .join("\n")
    );
}

#[test]
fn a_smaller_window_shows_what_it_can_of_a_hundred_lines() {
    let mut stage = Stage::hundred(1);
    stage.keys("g");
    assert_eq!(
        text(&drawn(&mut stage, 30, 6, Gutter::Left)),
        [
            "┌────────────────────────────┐",
            "│ line 1                     │",
            "│ line 2                     │",
            "│ line 3                     │",
            "└────────────────────────────┘",
            "run.ahr",
            "",
        ]
        .join("\n")
    );
}

#[test]
fn any_window_can_be_drawn_into() {
    for cols in 1..12 {
        for rows in 1..7 {
            for gutter in [Gutter::Left, Gutter::Right, Gutter::None] {
                let mut stage = Stage::new(&["日本語 one", "two"], 1);
                let layout = Layout::framed(Rect::new(0, 0, cols, rows), 40, 5, gutter);
                let inside = |rect: Rect| rect.right() <= cols && rect.bottom() <= rows;
                assert!(inside(layout.lines) && inside(layout.gutter) && inside(layout.status));
                assert!(layout.lines.width > 0 && (layout.lines.height > 0 || rows == 1));
                for keys in ["h", "g", "/", "x"] {
                    stage.keys(keys);
                    drawn(&mut stage, cols, rows, gutter);
                }
            }
        }
    }
}

#[test]
fn colours_looks_and_wide_characters_are_as_recorded() {
    let mut stage = Stage::new(&["\x1b[1;31mred\x1b[0m 日本 \x1b[48;2;1;2;3mrgb\x1b[0m \x1b[4mline"], 1);
    let buffer = drawn(&mut stage, 60, 9, Gutter::None);
    let layout = Layout::framed(Rect::new(0, 0, 60, 9), 40, 5, Gutter::None);
    let cell = |col: u16| &buffer[(layout.lines.x + col, layout.lines.y)];
    assert_eq!((cell(0).symbol(), cell(0).fg, cell(0).modifier), ("r", Color::Indexed(1), Modifier::BOLD));
    assert_eq!((cell(4).symbol(), cell(5).symbol(), cell(6).symbol()), ("日", " ", "本"));
    assert_eq!(cell(9).bg, Color::Rgb(1, 2, 3));
    assert_eq!(cell(13).modifier, Modifier::UNDERLINED);
}

#[test]
fn a_wide_character_at_the_edge_is_a_blank() {
    let mut stage = Stage::new(&["a日本"], 1);
    let buffer = drawn(&mut stage, 4, 2, Gutter::None);
    assert_eq!(text(&buffer).lines().next(), Some("a日"), "{}", text(&buffer));
}

#[test]
fn matches_are_lit_and_the_one_found_more() {
    let mut stage = Stage::new(&["an x, an x", "x"], 3);
    stage.keys("g");
    stage.types("/x\n");
    let buffer = drawn(&mut stage, 60, 9, Gutter::None);
    let layout = Layout::framed(Rect::new(0, 0, 60, 9), 40, 5, Gutter::None);
    let cell = |col: u16, row: u16| &buffer[(layout.lines.x + col, layout.lines.y + row)];
    assert_eq!((cell(3, 0).bg, cell(9, 0).modifier), (Color::Yellow, Modifier::REVERSED));
    assert_eq!((cell(0, 1).modifier, cell(0, 0).modifier), (Modifier::REVERSED, Modifier::empty()));
    assert!(text(&buffer).contains("match 1 of 3"), "{}", text(&buffer));
}

#[test]
fn the_help_sheet_has_every_operation() {
    let mut stage = Stage::hundred(5);
    stage.keys("h");
    let mut all = String::new();
    for _ in 0..30 {
        all += &text(&drawn(&mut stage, 80, 8, Gutter::None));
        stage.keys("j");
    }
    for words in ["a line down", "look for text", "the next snapshot", "twice as fast", "leave; Esc twice"] {
        assert!(all.contains(words), "{words}: {all}");
    }
}
