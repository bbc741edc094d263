use nerve_types::{Size, TsNs};
use nerve_vt::screen::Row;
use nerve_vt::terminal::TerminalState;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::*;
use crate::view::bindings::Bindings;
use crate::view::document::Document;
use crate::view::draw::{Gutter, Layout, StatusInfo, draw};
use crate::view::regions::FrameContext;
use crate::view::viewer::{Source, Viewer};

const SIZE: Size = Size { cols: 24, rows: 4 };

/// Returns a frame of the program's output, as bytes for a terminal with one more column and row.
fn frame(program: &[u8], has_colors: bool) -> Vec<u8> {
    frames(&[program], has_colors)
}

/// Returns a frame after each piece of the program's output, each drawn over the one before.
fn frames(program: &[&[u8]], has_colors: bool) -> Vec<u8> {
    let mut terminal = TerminalState::new(SIZE);
    let area = Rect::new(0, 0, SIZE.cols + 1, SIZE.rows + 1);
    let (mut before, mut decorations, mut bytes) = (Buffer::empty(area), Decorations::default(), Vec::new());
    for piece in program {
        terminal.process_data(TsNs(0), piece);
        let next = drawn(&terminal, &mut decorations);
        write(before.diff_iter(&next), &decorations, has_colors, &mut bytes);
        before = next;
    }
    bytes
}

fn drawn(terminal: &TerminalState, decorations: &mut Decorations) -> Buffer {
    let area = Rect::new(0, 0, SIZE.cols + 1, SIZE.rows + 1);
    let mut buffer = Buffer::empty(area);
    let mut viewer = Viewer::new(Source::Live, Bindings::default());
    let document = Document::live(terminal);
    let layout = Layout::new(Source::Live, area, SIZE, Gutter::Right);
    let regions = layout.regions(&viewer, None, StatusInfo::default().capabilities);
    viewer.set_regions(&regions);
    viewer.update_document(&document);
    let frame = FrameContext::new(&document, regions);
    draw(&viewer, &frame, &StatusInfo::default(), &layout, &mut buffer, decorations);
    buffer
}

/// The rows that those bytes make, without the viewer's own column.
fn shown(frame: &[u8]) -> Vec<Row> {
    let mut terminal = TerminalState::new(Size::new(SIZE.cols + 1, SIZE.rows + 1));
    terminal.process_data(TsNs(0), frame);
    terminal.screen().rows.into_iter().take(SIZE.rows.into()).collect()
}

/// The bytes for one row of cells.
fn bytes(write: impl FnOnce(&mut Buffer)) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
    write(&mut buffer);
    let mut bytes = Vec::new();
    super::write(Buffer::empty(buffer.area).diff_iter(&buffer), &Decorations::default(), true, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn writes_only_changed_attributes() {
    let (red, bold) = (Style::new().fg(Color::Red), Modifier::BOLD);
    let written = bytes(|buffer| {
        buffer.set_string(0, 0, "ab", red);
        buffer.set_string(2, 0, "c", red.bg(Color::Rgb(1, 2, 3)));
        buffer.set_string(3, 0, "d", Style::new());
        buffer.set_string(6, 0, "e", red.add_modifier(bold));
    });
    assert_eq!(
        written,
        "\x1b[1;1H\x1b[38;5;1mab\x1b[48;2;1;2;3mc\x1b[39;49md\x1b[1;7H\x1b[0;1;38;5;1me\x1b[0m"
    );
    assert_eq!(bytes(|_| ()), "");
}

#[test]
fn cell_control_characters_are_replaced() {
    let cells = ["\x1b]0;x\x07", "\u{9b}31m", "a\x08", "b"].map(|symbol| {
        let mut cell = Cell::EMPTY;
        cell.set_symbol(symbol);
        cell
    });
    let mut bytes = Vec::new();
    super::write((0..).zip(&cells).map(|(x, cell)| (x, 0, cell)), &Decorations::default(), true, &mut bytes);
    assert_eq!(String::from_utf8(bytes).unwrap(), "\x1b[1;1H   b");
}

#[test]
fn writes_underline_forms_and_colours() {
    let forms = "\x1b[4ma\x1b[4:2mb\x1b[4:3;58;5;9mc\x1b[4:4;58;2;1;2;3md\x1b[0;1;4:5me\x1b[0mf\x1b[58;5;1mg";
    let written = String::from_utf8(frame(forms.as_bytes(), true)).unwrap();
    let wanted = "\x1b[1;1H\x1b[0;4ma\x1b[0;4m\x1b[4:2mb\x1b[0;4m\x1b[4:3m\x1b[58:5:9mc\x1b[0;4m\x1b[4:4m\x1b[58:2::1:2:3md\
                  \x1b[0;1;4m\x1b[4:5me\x1b[0mfg";
    assert!(written.starts_with(wanted), "{written:?}");
    let mut plain = TerminalState::new(SIZE);
    plain.process_data(TsNs(0), forms.trim_end_matches("\x1b[58;5;1mg").as_bytes());
    let row = &shown(&frame(forms.as_bytes(), true))[0];
    assert_eq!(row.decorations, plain.screen().rows[0].decorations);
    let grey = String::from_utf8(frame(forms.as_bytes(), false)).unwrap();
    assert!(grey.contains("\x1b[4:3m") && !grey.contains("\x1b[58"), "{grey:?}");
}

#[test]
fn writes_hyperlinks_around_cells() {
    let written = |program: &str| String::from_utf8(frame(program.as_bytes(), true)).unwrap();
    let link = "\x1b]8;id=7;https://example.org/a;b\x1b\\";
    let text = written(&format!("see {link}this \x1b[1mone\x1b[m\x1b]8;;\x1b\\."));
    assert!(text.contains(&format!("{link}this \x1b[0;1mone\x1b]8;;\x1b\\\x1b[0m.")), "{text:?}");
    // A link has the same id in every frame.
    let ids = |program: &str| -> Vec<String> {
        written(program)
            .split("\x1b]8;id=")
            .skip(1)
            .map(|id| id.split(';').next().unwrap().to_string())
            .collect()
    };
    let own = |uri: &str| format!("\x1b]8;;{uri}\x1b\\a\x1b]8;;\x1b\\ ");
    let made = ids(&[own("http:1"), own("http:2"), own("http:1")].concat());
    assert!(made.len() == 3 && made[0] == made[2] && made[0] != made[1], "{made:?}");
    let odd = ids("\x1b]8;id=a b;http:1\x1b\\a");
    assert!(odd[0].starts_with("nerve-") && odd[0] != made[0], "{odd:?}");
}

#[test]
fn link_targets_are_encoded_and_bounded() {
    assert_eq!(target("file:///tmp/ä b").as_deref(), Some("file:///tmp/%C3%A4 b"));
    assert_eq!(target("file:x\x1b\\y\x07").as_deref(), Some("file:x%1B\\y%07"));
    assert_eq!((target(""), target(&format!("http:{}", "ä".repeat(400)))), (None, None));
    let long = format!("\x1b]8;;http:{}\x1b\\text\x1b]8;;\x1b\\", "ä".repeat(400));
    let row = &shown(&frame(long.as_bytes(), true))[0];
    assert_eq!((row.text.as_str(), row.decorations.len()), ("text", 0));
}

#[test]
fn only_links_of_known_schemes_are_written() {
    for uri in ["http://a", "HTTPS://a", "mailto:a@b", "file:///a"] {
        assert_eq!(target(uri).as_deref(), Some(uri));
    }
    for uri in
        ["javascript:alert(1)", "ssh://a", "x-man-page://a", "vscode://a", "httpx:a", "no-scheme", ":a"]
    {
        assert_eq!(target(uri), None, "{uri}");
        let program = format!("\x1b]8;;{uri}\x1b\\text\x1b]8;;\x1b\\");
        let written = String::from_utf8(frame(program.as_bytes(), true)).unwrap();
        assert!(written.contains("text") && !written.contains(uri), "{written:?}");
    }
}

#[test]
fn drawing_over_a_link_removes_it() {
    let mut terminal = TerminalState::new(SIZE);
    let line = "\x1b]8;;http:1\x1b\\\x1b[4:3mxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
    terminal.process_data(TsNs(0), line.repeat(3).as_bytes());
    let area = Rect::new(0, 0, SIZE.cols + 1, SIZE.rows + 1);
    let (mut buffer, mut decorations) = (Buffer::empty(area), Decorations::default());
    let mut viewer = Viewer::new(Source::Live, Bindings::default());
    viewer.show_message("something that is longer than the row of the status has room for");
    let document = Document::live(&terminal);
    let layout = Layout::new(Source::Live, area, SIZE, Gutter::Right);
    let regions = layout.regions(&viewer, None, StatusInfo::default().capabilities);
    viewer.set_regions(&regions);
    viewer.update_document(&document);
    let frame = FrameContext::new(&document, regions);
    draw(&viewer, &frame, &StatusInfo::default(), &layout, &mut buffer, &mut decorations);
    let is_linked = |row: u16| decorations.of(buffer.cell((1, row)).unwrap()).is_some();
    let is_underlined = |row: u16| buffer.cell((1, row)).unwrap().modifier.contains(Modifier::UNDERLINED);
    assert_eq!(
        [0, 1, 2].map(|row| (is_linked(row), is_underlined(row)))[..2],
        [(true, true), (false, false)]
    );
}

/// The first row of the last frame, as the terminal shows it.
fn row(program: &[&str]) -> String {
    let pieces: Vec<&[u8]> = program.iter().map(|piece| piece.as_bytes()).collect();
    shown(&frames(&pieces, true))[0].text.clone()
}

#[test]
fn variation_selectors_overwrite_cleanly() {
    for symbol in ["❤\u{fe0f}", "⚠\u{fe0f}", "⌚\u{fe0e}", "日"] {
        let over = format!("\x1b[H{symbol}XYZWVU");
        assert_eq!(row(&["Abcdefgh", &over]), over.trim_start_matches("\x1b[H"));
        assert_eq!(row(&["Abcdefgh", &over, "\x1b[HAbcdefgh"]), "Abcdefgh");
        assert_eq!(row(&["Abcdefgh", &format!("\x1b[2G{symbol}")]), format!("A{symbol}defgh"));
    }
    // A cell that is one column wide for the terminal must clear the second column of the cell before.
    let area = Rect::new(0, 0, 8, 1);
    let (mut before, mut next, mut bytes) = (Buffer::empty(area), Buffer::empty(area), Vec::new());
    before.set_string(0, 0, "ab", Style::new());
    next.set_string(0, 0, "❤\u{fe0f}c", Style::new().bg(Color::Red));
    write(before.diff_iter(&next), &Decorations::default(), true, &mut bytes);
    let written = String::from_utf8(bytes).unwrap();
    assert_eq!(written, "\x1b[1;1H\x1b[48;5;1m  \x1b[1;1H❤\u{fe0f}\x1b[1;3Hc\x1b[0m");
}

#[test]
fn half_width_sound_marks_take_a_column() {
    assert_eq!(row(&["K:ｶﾞｷﾞｸﾞab"]), "K:ｶﾞｷﾞｸﾞab");
    assert_eq!(row(&["K:ｶﾞｷﾞｸﾞab", "\x1b[HK:abcdefgh"]), "K:abcdefgh");
    assert_eq!(row(&["abcdefgh", "\x1b[HﾊﾟX"]), "ﾊﾟXdefgh");
}

/// Generates pieces of escape sequences and text.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\x1b".to_vec()),
        Just(b"\x1b]8;id=a;".to_vec()),
        Just(b"\x1b]8;;http://x/".to_vec()),
        Just(b"\x1b\\".to_vec()),
        Just(b"\x07".to_vec()),
        Just(b"\x1b[4:3;58;5;9m".to_vec()),
        Just(b"\x1b[1;31;44m".to_vec()),
        Just(b"\x1b]52;c;aGk=\x07\x1b]9;done\x07".to_vec()),
        Just("日e\u{301}\u{9b}\u{9d}👩\u{200d}🚀".as_bytes().to_vec()),
        Just("⚠\u{fe0f}x⌚\u{fe0e}yｶﾞz".as_bytes().to_vec()),
        Just("⚠\u{fe0f}".as_bytes().to_vec()),
        Just(b"\x1b[H".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
        "[ -~]{0,12}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// A frame contains only this module's sequences and text, whatever a recording contains.
    #[test]
    fn arbitrary_output_is_safe(program in output()) {
        let written = String::from_utf8(frame(&program, true)).unwrap();
        let own = regex::Regex::new(
            r"\x1b\[\d+;\d+H|\x1b\[[\d;]+m|\x1b\[4:[2-5]m|\x1b\[58:[\d:]+m|\x1b\]8;;\x1b\\|\x1b\]8;id=[!-9<-~]+;[ -~]+\x1b\\",
        );
        let rest = own.unwrap().replace_all(&written, "");
        prop_assert!(!rest.chars().any(char::is_control), "{rest:?} in {written:?}");
        prop_assert!(written.matches("\x1b]8;id=").count() <= written.matches("\x1b]8;").count());
        let last = written.rfind("\x1b]8;");
        prop_assert!(last.is_none_or(|last| written[last..].starts_with("\x1b]8;;")), "no end: {written:?}");
        let mut terminal = TerminalState::new(Size::new(SIZE.cols + 1, SIZE.rows + 1));
        let changes = terminal.process_data(TsNs(0), written.as_bytes());
        prop_assert_eq!((changes.alerts, changes.replies), (vec![], vec![]));
    }

    /// The drawn frame equals the program's terminal.
    #[test]
    fn frame_reproduces_the_terminal(first in output(), second in output()) {
        let mut plain = TerminalState::new(SIZE);
        plain.process_data(TsNs(0), &first);
        plain.process_data(TsNs(0), &second);
        let drawn = shown(&frames(&[&first, &second], true));
        let forms = |row: &Row| -> Vec<_> {
            let line = |cell: nerve_vt::terminal::Cell<'_>| {
                let uri = cell.decoration.and_then(|d| row.link(d)).and_then(|link| target(&link.uri));
                let form = cell.decoration.filter(|_| cell.style.underline).map(|d| (d.underline, d.underline_color));
                (cell.col, cell.text.to_string(), form.filter(|form| *form != (Underline::Single, TermColor::Default)), uri)
            };
            row.cells().map(line).filter(|cell| cell.1 != " ").collect()
        };
        for (row, own) in drawn.iter().zip(&plain.screen().rows) {
            prop_assert_eq!(forms(row), forms(own));
        }
    }
}
