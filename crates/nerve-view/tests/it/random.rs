//! Anything at random: keys, pastes, the mouse, output, snapshots, sizes down to 1×1, tools, of programs and of recordings.

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_view::keys::{Button, Input, Key, Mouse, MouseAct, Wheel};
use nerve_view::places::Places;
use nerve_view::tools::{Tool, ToolState};
use nerve_view::viewer::{Kind, Mode, Target};
use nerve_view::viewport::Viewport;
use proptest::prelude::*;
use ratatui::layout::Rect;

use crate::viewport::check;
use crate::{Stage, key};

/// Keys that mean something somewhere, those of the task entry more often.
const KEYS: &[&str] = &[
    "ctrl+shift+up",
    "ctrl+shift+up",
    "ctrl+shift+down",
    "up",
    "down",
    "esc",
    "enter",
    "ctrl+]",
    "ctrl+shift+t",
    "shift+pageup",
    "pageup",
    "pagedown",
    "ctrl+home",
    "ctrl+end",
    "alt+enter",
    "backspace",
    "left",
    "right",
    "home",
    "end",
    "tab",
    "ctrl+c",
    "ctrl+u",
    "ctrl+w",
    "ctrl+z",
    "ctrl+y",
    "f1",
    "space",
    "alt+v",
    "alt+u",
    "delete",
    "shift+left",
];
const CHARS: &str = "jkfbdugGwz/?nNFpi[]hqt=m'%:xyY09éx日e\u{301}👩\u{200d}🚀";

#[derive(Debug, Clone)]
enum Deed {
    Key(Key),
    Paste(String),
    Mouse(MouseAct, u16, u16),
    Write(String),
    Snapshot,
    Window(u16, u16),
    Terminal(u16, u16),
    Tools(Vec<(u8, bool)>),
    ToolWrites(String),
    Submitted,
    Refused,
    Focus(bool),
}

fn keys() -> impl Strategy<Value = Key> {
    let chars: Vec<char> = CHARS.chars().filter(|char| !char.is_control()).collect();
    prop_oneof![
        3 => prop::sample::select(KEYS).prop_map(key),
        2 => prop::sample::select(chars).prop_map(Key::char),
    ]
}

fn acts() -> impl Strategy<Value = MouseAct> {
    let wheel = |way| Just(MouseAct::Wheel(way));
    prop_oneof![
        4 => Just(MouseAct::Press(Button::Left)),
        1 => Just(MouseAct::Release(Button::Left)),
        1 => Just(MouseAct::Move(None)),
        2 => wheel(Wheel::Up),
        2 => wheel(Wheel::Down),
        1 => wheel(Wheel::Right),
    ]
}

fn output() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec("[a-e日]{0,12}", 1..12).prop_map(|lines| lines.join("\r\n")),
        1 => Just("\x1b[?1049h".to_string()),
        1 => Just("\x1b[?1049l".to_string()),
        1 => Just("\x1b[H\x1b[2J".to_string()),
        1 => Just("\x1b[3J".to_string()),
        1 => Just("\x1b[3A".to_string()),
        1 => Just("\x1b[?1002h\x1b[?1006h".to_string()),
        1 => Just("\x1b[?1002l".to_string()),
        1 => Just("\x1b[?2026h".to_string()),
        1 => Just("\x1b[?2026l".to_string()),
    ]
}

fn deeds() -> impl Strategy<Value = Deed> {
    let sizes = || (1..30u16, 1..16u16);
    prop_oneof![
        12 => keys().prop_map(Deed::Key),
        1 => "[a-c日\t\r\n\u{7}]{0,60}".prop_map(Deed::Paste),
        3 => (acts(), 0..32u16, 0..20u16).prop_map(|(act, col, row)| Deed::Mouse(act, col, row)),
        5 => output().prop_map(Deed::Write),
        3 => Just(Deed::Snapshot),
        2 => sizes().prop_map(|(cols, rows)| Deed::Window(cols, rows)),
        1 => Just(Deed::Window(1, 1)),
        1 => sizes().prop_map(|(cols, rows)| Deed::Terminal(cols, rows)),
        1 => prop::collection::vec((0..6u8, any::<bool>()), 0..5).prop_map(Deed::Tools),
        1 => output().prop_map(Deed::ToolWrites),
        1 => Just(Deed::Submitted),
        1 => Just(Deed::Refused),
        1 => any::<bool>().prop_map(Deed::Focus),
    ]
}

fn places(cols: u16, rows: u16) -> Places {
    let lines = Rect::new(0, 0, cols, rows);
    let list = Rect::new(0, 0, cols, rows.saturating_sub(1));
    let gutter = Rect::new(cols, 0, 1, rows);
    let timeline = Rect::new(0, rows, cols, 1);
    Places { lines, gutter, timeline, status: Rect::default(), list, tool: list, help: 7 }
}

fn tools(tools: &[(u8, bool)]) -> Vec<Tool> {
    let mut told: Vec<Tool> = Vec::new();
    for (id, runs) in tools {
        let state = if *runs { ToolState::Running } else { ToolState::Ended(Some(1)) };
        let id = id.to_string();
        if told.iter().all(|tool| tool.id != id) {
            told.push(Tool { id, command: "make".into(), state });
        }
    }
    told
}

/// The task entry has moved to the line of a snapshot: it stays in its row if it was in sight and there is room, else it is in the middle; both
/// as far as there are lines above and below.
fn check_move(before: &Viewport, after: &Viewport, line: u64) -> Result<(), TestCaseError> {
    let (row, height) = after.entry().unwrap();
    let rows = after.height();
    let lines = after.lines();
    let last_top = (lines.end + u64::from(height)).saturating_sub(rows.into()).max(lines.start);
    let can_be = |top: Option<u64>| top.is_some_and(|top| (lines.start..=last_top).contains(&top));
    match before.row_of(line) {
        Some(was) if was + 1 + height <= rows => {
            let stays = can_be(line.checked_sub(was.into()));
            prop_assert!(!stays || after.row_of(line) == Some(was), "{line} was in row {was}: {after:?}");
        }
        _ => {
            let in_middle = can_be((line + 1).checked_sub(u64::from((rows - height) / 2)));
            let below = i64::from(rows) - i64::from(height) - row;
            let is_balanced = (0..=1).contains(&(below - row));
            prop_assert!(!in_middle || is_balanced, "{row} above, {below} below: {after:?}");
        }
    }
    Ok(())
}

fn check_viewer(stage: &Stage) -> Result<(), TestCaseError> {
    let viewer = &stage.viewer;
    check(viewer.viewport())?;
    if let Some(shown) = viewer.modal().and_then(|modal| modal.shown()) {
        check(shown.pager().viewport())?;
    }
    let viewport = viewer.viewport();
    prop_assert_eq!(viewer.entry().is_some(), viewport.entry().is_some());
    let target = viewer.entry().and_then(|entry| entry.target());
    match target {
        // Attached to its line, as long as that is there.
        Some(Target::Snapshot { id, line }) if viewport.lines().contains(&line) => {
            prop_assert_eq!(viewport.entry_line(), Some(line));
            prop_assert_eq!(stage.document().line_of_snapshot(id), Some(line));
        }
        Some(Target::End) => prop_assert_eq!(viewport.entry_line(), viewport.lines().last()),
        _ => {}
    }
    if *viewer.mode() == Mode::Live {
        let (cursor, ..) = stage.document().cursor().unwrap();
        prop_assert!(viewport.follows(), "who types sees what the program shows");
        prop_assert!(viewport.row_of(cursor).is_some(), "its cursor in {cursor}: {:?}", viewport);
    }
    Ok(())
}

proptest! {
    // Each has up to 80 steps. PROPTEST_CASES has more of them.
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_what_is_shown_is_one_piece_as_high_as_the_window(
        is_live in any::<bool>(),
        first in (1..30u16, 1..16u16),
        deeds in prop::collection::vec(deeds(), 1..80),
    ) {
        let kind = if is_live { Kind::Live } else { Kind::After };
        let mut stage = Stage::on(kind, TerminalState::new(Size::new(first.0, first.1)), first.1);
        stage.tool = Some(TerminalState::new(Size::new(first.0, first.1)));
        stage.write("");
        let mut id = 0;
        for deed in deeds {
            let before = stage.viewer.viewport().clone();
            let target = stage.viewer.entry().and_then(|entry| entry.target());
            let is_input = matches!(deed, Deed::Key(_) | Deed::Mouse(..));
            match deed {
                Deed::Key(key) => {
                    stage.key(key);
                }
                Deed::Paste(text) => {
                    stage.input(Input::Paste(text));
                }
                Deed::Mouse(what, col, row) => {
                    stage.input(Input::Mouse(Mouse { what, col, row, ctrl: false, alt: false, shift: false }));
                }
                Deed::Focus(is_here) => {
                    stage.input(Input::Focus(is_here));
                }
                Deed::Write(text) => stage.write(&text),
                Deed::Snapshot => {
                    id += 1;
                    stage.snapshot(id);
                }
                Deed::Window(cols, rows) => {
                    stage.places = places(cols, rows);
                    stage.viewer.arrange(&stage.places);
                }
                Deed::Terminal(cols, rows) => {
                    stage.terminal.resize(Size::new(cols, rows));
                    stage.write("");
                }
                Deed::Tools(told) => stage.viewer.set_tools(tools(&told)),
                Deed::ToolWrites(text) => {
                    stage.tool.as_mut().unwrap().process_data(TsNs(0), text.as_bytes());
                }
                Deed::Submitted => stage.viewer.submitted(),
                Deed::Refused => stage.viewer.refused("no"),
            }
            check_viewer(&stage)?;
            let now = stage.viewer.entry().and_then(|entry| entry.target());
            if let Some(Target::Snapshot { line, .. }) = now
                && is_input
                && now != target
                && stage.viewer.viewport().lines() == before.lines()
                && before.lines().contains(&line)
            {
                check_move(&before, stage.viewer.viewport(), line)?;
            }
        }
    }
}
