//! Anything at random: keys, pastes, the mouse, output, snapshots, sizes down to 1×1, tools, other moments, of programs and of recordings. In all
//! modes; each is drawn.

use std::collections::BTreeSet;

use nerve_tui::view::decorations::Decorations;
use nerve_tui::view::document::Document;
use nerve_tui::view::draw::{Gutter, Layout, StatusInfo, draw};
use nerve_tui::view::keys::{Button, Input, Key, Mouse, MouseAction, Wheel};
use nerve_tui::view::regions::FrameContext;
use nerve_tui::view::search::{Pattern, PatternOptions};
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::tools::{Tool, ToolState};
use nerve_tui::view::viewer::{Effect, Mode, Source, Target};
use nerve_tui::view::viewport::{Row, Viewport};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::viewport::check;
use crate::{Harness, key};

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
    "ctrl+right",
    "ctrl+f",
    "ctrl+k",
    "ctrl+n",
    "ctrl+r",
    "ctrl+x",
    "ctrl+p",
    "alt+F",
    "alt+U",
    "alt+m",
    "alt+}",
];
const CHARS: &str = "jkfbdugGwz/?&!@{(})nNFpi[]hqt=mM'%:,.+-JKaxyYB09éx日e\u{301}👩\u{200d}🚀";
/// Ways into modes that single keys seldom find together.
const WAYS: &[&str] = &[
    "ctrl+] [",
    "ctrl+] ?",
    "ctrl+] t",
    "ctrl+] s",
    "ctrl+] q",
    "ctrl+shift+t enter",
    "ctrl+shift+t enter shift+pageup",
    "ctrl+shift+t enter & a enter",
    "ctrl+shift+t enter shift+pageup & b enter",
    "esc g",
    "esc i",
    "esc [",
    "esc ]",
    "m a",
    "' a",
    "' '",
    "/ a enter",
    "/ ! b enter",
    "? ( enter",
    "/ @ d up",
    "& a enter",
    "& ! a enter",
    "& 日 | b enter",
    "& enter",
];

#[derive(Debug, Clone)]
enum Deed {
    Key(Key),
    Way(&'static str),
    Paste(String),
    Mouse(MouseAction, u16, u16),
    Write(String),
    Snapshot,
    Window(u16, u16),
    Terminal(u16, u16),
    Moment(u8),
    Gutter(Gutter),
    Tools(Vec<(u8, bool)>),
    ToolWrites(String),
    Submitted,
    Refused(usize),
    Focus(bool),
}

fn keys() -> impl Strategy<Value = Key> {
    let chars: Vec<char> = CHARS.chars().filter(|char| !char.is_control()).collect();
    prop_oneof![
        3 => prop::sample::select(KEYS).prop_map(key),
        2 => prop::sample::select(chars).prop_map(Key::char),
    ]
}

fn acts() -> impl Strategy<Value = MouseAction> {
    let wheel = |way| Just(MouseAction::Wheel(way));
    prop_oneof![
        4 => Just(MouseAction::Press(Button::Left)),
        1 => Just(MouseAction::Release(Button::Left)),
        1 => Just(MouseAction::Move(None)),
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
        2 => any::<u8>().prop_map(Deed::Moment),
        1 => prop::sample::select(vec![Gutter::Left, Gutter::Right, Gutter::None]).prop_map(Deed::Gutter),
        4 => prop::sample::select(WAYS).prop_map(Deed::Way),
        1 => prop::collection::vec((0..6u8, any::<bool>()), 0..5).prop_map(Deed::Tools),
        1 => output().prop_map(Deed::ToolWrites),
        1 => Just(Deed::Submitted),
        1 => (0..40usize).prop_map(Deed::Refused),
        1 => any::<bool>().prop_map(Deed::Focus),
    ]
}

fn tools(tools: &[(u8, bool)]) -> Vec<Tool> {
    let mut listed: Vec<Tool> = Vec::new();
    for (id, runs) in tools {
        let state = if *runs { ToolState::Running } else { ToolState::Ended(Some(1)) };
        let id = id.to_string();
        if listed.iter().all(|tool| tool.id != id) {
            listed.push(Tool { id, command: "make".into(), state });
        }
    }
    listed
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

/// A change of a terminal. An earlier moment is a prefix of the changes.
#[derive(Debug, Clone)]
enum Past {
    Wrote(String),
    Sized(Size),
    Took(u64),
}

/// A viewer in a window, drawn after each deed.
struct Room {
    harness: Harness,
    past: Vec<Past>,
    timeline: Option<Timeline>,
    gutter: Gutter,
    window: Rect,
    snapshots: u64,
    /// Another moment than the last one is shown.
    is_before: bool,
    /// PatternOptions often the moment of a snapshot was gone to.
    visits: usize,
}

impl Room {
    fn new(source: Source, cols: u16, rows: u16) -> Room {
        let mut harness = Harness::on(source, TerminalState::new(Size::new(cols, rows)), rows);
        harness.tool = Some(TerminalState::new(Size::new(cols, rows)));
        harness.write("");
        let past = vec![Past::Sized(Size::new(cols, rows))];
        let timeline = (source == Source::Recording).then(Timeline::default);
        let window = Rect::new(0, 0, cols, rows);
        Room {
            harness,
            past,
            timeline,
            gutter: Gutter::Right,
            window,
            snapshots: 0,
            is_before: false,
            visits: 0,
        }
    }

    fn happened(&mut self, past: Past) {
        if self.is_before {
            // What was recorded stays as it is.
            self.go_to(u8::MAX);
        }
        match &past {
            Past::Wrote(text) => self.harness.write(text),
            Past::Sized(size) => {
                self.harness.terminal.resize(*size);
                self.harness.write("");
            }
            Past::Took(id) => self.harness.snapshot(*id),
        }
        self.past.push(past);
    }

    /// Another moment of a recording, as one goes through it: less of what happened, or all of it.
    fn go_to(&mut self, share: u8) {
        self.go_behind(self.past.len() * usize::from(share).min(200) / 200);
    }

    /// The moment after so many of them.
    fn go_behind(&mut self, until: usize) {
        self.is_before = until < self.past.len();
        self.harness.end = self.is_before.then(|| self.terminal(self.past.len()));
        self.harness.terminal = self.terminal(until);
        self.harness.write("");
    }

    fn terminal(&self, until: usize) -> TerminalState {
        let mut terminal = TerminalState::new(Size::new(20, 5));
        for past in &self.past[..until] {
            match past {
                Past::Wrote(text) => drop(terminal.process_data(TsNs(0), text.as_bytes())),
                Past::Sized(size) => terminal.resize(*size),
                Past::Took(id) => {
                    let offset = terminal.offset();
                    terminal.record_snapshot(nerve_vt::terminal::Snapshot {
                        id: *id,
                        offset,
                        ..Default::default()
                    });
                }
            }
        }
        terminal
    }

    /// Shows requested snapshots, as the player of recordings does.
    fn asked(&mut self, asked: impl IntoIterator<Item = Effect>) {
        for asked in asked {
            let Effect::SeekSnapshot(snapshot) = asked else { continue };
            let Some(id) = snapshot else {
                self.go_behind(self.past.len());
                continue;
            };
            let all = self.terminal(self.past.len());
            let taken = all.snapshots_by_line().find(|(_, taken)| taken.id == id).unwrap();
            assert!(
                self.harness.viewer.source() == Source::Recording && taken.1.alternate,
                "{taken:?} has a line"
            );
            let at = self.past.iter().position(|past| matches!(past, Past::Took(other) if *other == id));
            self.go_behind(at.unwrap() + 1);
            self.visits += 1;
        }
    }

    fn does(&mut self, deed: Deed) {
        let harness = &mut self.harness;
        match deed {
            Deed::Key(key) => {
                let asked = harness.key(key);
                self.asked(asked);
            }
            Deed::Way(keys) => {
                let asked = harness.keys(keys);
                self.asked(asked);
            }
            Deed::Paste(text) => drop(harness.input(Input::Paste(text))),
            Deed::Mouse(action, col, row) => {
                let mouse = Mouse { action, col, row, ctrl: false, alt: false, shift: false };
                // A click on the timeline asks for a moment.
                match harness.input(Input::Mouse(mouse)) {
                    Some(Effect::Seek(_)) => self.go_to((col * 8).min(200) as u8),
                    asked => self.asked(asked),
                }
            }
            Deed::Focus(is_here) => drop(harness.input(Input::Focus(is_here))),
            Deed::Write(text) => self.happened(Past::Wrote(text)),
            Deed::Snapshot => {
                self.snapshots += 1;
                self.happened(Past::Took(self.snapshots));
            }
            Deed::Window(cols, rows) => self.window = Rect::new(0, 0, cols, rows),
            Deed::Terminal(cols, rows) => self.happened(Past::Sized(Size::new(cols, rows))),
            Deed::Moment(share) if harness.viewer.source() == Source::Recording => self.go_to(share),
            Deed::Moment(_) => {}
            Deed::Gutter(gutter) => self.gutter = gutter,
            Deed::Tools(list) => harness.viewer.set_tools(tools(&list)),
            Deed::ToolWrites(text) => {
                harness.tool.as_mut().unwrap().process_data(TsNs(0), text.as_bytes());
            }
            Deed::Submitted => {
                harness.viewer.branch_created();
                let asked = harness.viewer.take_effect();
                self.asked(asked);
            }
            Deed::Refused(words) => harness.viewer.branch_failed(&"no 日 longer ".repeat(words)),
        }
    }

    /// As the binary draws it.
    fn draw(&mut self) -> Result<(), TestCaseError> {
        let Room { harness, timeline, gutter, window, .. } = self;
        let source = harness.viewer.source();
        let (info, tool) = (StatusInfo::default(), harness.tool.as_ref().unwrap());
        let document = match source {
            Source::Live => Document::live(&harness.terminal),
            Source::Recording => Document::recorded(&harness.terminal),
        };
        let tool_document = Document::live(tool);
        let end = harness.end.as_ref().map(Document::recorded);
        let layout = Layout::new(source, *window, harness.terminal.size(), *gutter);
        harness.regions = layout.regions(&harness.viewer, Some(tool.size()), info.capabilities);
        harness.viewer.set_regions(&harness.regions);
        harness.viewer.update_document(&document);
        harness.viewer.update_tool_document(&tool_document);
        while harness.viewer.advance_search(&document) || harness.viewer.advance_tool_search(&tool_document) {
        }
        let frame = FrameContext {
            end: end.as_ref(),
            tool: Some(&tool_document),
            timeline: timeline.as_ref(),
            ..FrameContext::new(&document, harness.regions)
        };
        let mut buffer = Buffer::empty(*window);
        let mut decorations = Decorations::default();
        let drawn = draw(&harness.viewer, &frame, &info, &layout, &mut buffer, &mut decorations);
        let is_within = |(col, row): (u16, u16)| col < window.width && row < window.height;
        prop_assert!(drawn.cursor.is_none_or(is_within), "{:?} in {window:?}", drawn.cursor);
        Ok(())
    }
}

/// Lines that are shown alone are all those there are with the pattern.
fn check_filter(filter: Option<&str>, view: &Viewport, document: &Document<'_>) -> Result<(), TestCaseError> {
    prop_assert_eq!(filter.is_some(), view.is_filtered());
    let Some(text) = filter else { return Ok(()) };
    let (sign, text) = text.split_once('&').unwrap();
    let how = PatternOptions { literal: sign.contains("literal"), inverse: sign.contains("not") };
    let pattern = Pattern::with(text, how).unwrap();
    let is_in = |line: &u64| document.text(*line).is_some_and(|text| pattern.is_in(&text));
    let wanted: Vec<u64> = document.lines().filter(is_in).collect();
    let picked: Vec<u64> = view.numbers().collect();
    prop_assert_eq!(picked, wanted, "{:?}", pattern);
    Ok(())
}

fn check_viewer(harness: &Harness) -> Result<(), TestCaseError> {
    let viewer = &harness.viewer;
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
            let is_there = harness.document().line_of_snapshot(id);
            prop_assert!(is_there.is_none_or(|now| now == line), "{is_there:?}, not {line}");
        }
        Some(Target::End | Target::Moment { .. }) => {
            prop_assert_eq!(viewport.entry_line(), viewport.lines().last());
        }
        _ => {}
    }
    let shown = viewer.modal().and_then(|modal| modal.shown());
    let tool = harness.tool.as_ref().map(Document::live);
    match (shown.filter(|shown| shown.pager().filter().is_some()), &tool) {
        (Some(shown), Some(tool)) => check_filter(shown.pager().filter(), shown.pager().viewport(), tool)?,
        _ if shown.is_none() => check_filter(viewer.filter(), viewport, &harness.document())?,
        _ => {}
    }
    let is_pressed = |row: Row| matches!(row, Row::Line { dimmed: true, .. });
    prop_assert!(viewer.entry().is_some() || !viewport.rows().any(is_pressed), "dim for nothing");
    if let Some(row) = match viewer.mode() {
        Mode::Help(row) => Some(*row),
        _ => None,
    } {
        prop_assert!(row <= harness.regions.help, "the sheet from {row} of {}", harness.regions.help);
    }
    if let Some(modal) = viewer.modal() {
        prop_assert!(modal.row() < viewer.tools().len(), "{} of {}", modal.row(), viewer.tools().len());
    }
    if *viewer.mode() == Mode::Live {
        prop_assert!(viewer.filter().is_none(), "who types sees all of what the program shows");
        let cursor = harness.document().cursor().unwrap().line;
        prop_assert!(viewport.is_following(), "who types sees what the program shows");
        prop_assert!(viewport.row_of(cursor).is_some(), "its cursor in {cursor}: {:?}", viewport);
    }
    Ok(())
}

proptest! {
    // Each has up to 80 steps. PROPTEST_CASES has more of them.
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_actions_keep_window_contiguous(
        is_live in any::<bool>(),
        first in (1..30u16, 1..16u16),
        deeds in prop::collection::vec(deeds(), 1..80),
    ) {
        let source = if is_live { Source::Live } else { Source::Recording };
        let mut room = Room::new(source, first.0, first.1);
        for deed in deeds {
            room.draw()?;
            let before = room.harness.viewer.viewport().clone();
            let target = room.harness.viewer.entry().and_then(|entry| entry.target());
            let is_input = matches!(deed, Deed::Key(_) | Deed::Mouse(..));
            room.does(deed);
            let harness = &room.harness;
            let now = harness.viewer.entry().and_then(|entry| entry.target());
            if let Some(Target::Snapshot { line, .. }) = now
                && is_input
                && now != target
                && harness.viewer.viewport().lines() == before.lines()
                && !before.is_filtered()
                && before.lines().contains(&line)
            {
                check_move(&before, harness.viewer.viewport(), line)?;
            }
            room.draw()?;
            check_viewer(&room.harness)?;
        }
    }
}

/// The test above says something of all modes only if its deeds lead to all of them.
#[test]
fn random_actions_reach_all_modes() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for nth in 0..120 {
        let source = if nth % 2 == 0 { Source::Live } else { Source::Recording };
        let mut room = Room::new(source, 20, 10);
        for deed in prop::collection::vec(deeds(), 80).new_tree(&mut runner).unwrap().current() {
            room.does(deed);
            room.draw().unwrap();
            let viewer = &room.harness.viewer;
            let mode = format!("{:?}", viewer.mode());
            reached.insert(mode.split('(').next().unwrap_or_default().to_string());
            let tool = viewer.modal().and_then(|modal| modal.shown());
            if viewer.filter().is_some() {
                reached.insert(format!("filter {source:?} {}", tool.is_some()));
            }
            if room.is_before {
                reached.insert("another moment".to_string());
            }
            if room.visits > 0 {
                reached.insert("a snapshot's moment".to_string());
            }
        }
    }
    let all = [
        "Confirm",
        "Entry",
        "Help",
        "Live",
        "Prompt",
        "Scrolling",
        "Tool",
        "ToolScrolling",
        "Tools",
        "a snapshot's moment",
        "another moment",
        "filter Recording false",
        "filter Recording true",
        "filter Live false",
        "filter Live true",
    ];
    assert_eq!(reached, all.iter().map(ToString::to_string).collect());
}
