//! The tools' modal: the list, the tool that is shown, its keys.

use std::time::Instant;

use nerve_tui::view::keys::{Button, Input, Mouse, MouseAction};
use nerve_tui::view::tools::{InputReader, Tool, ToolState, ToolUpdate, ToolUpdates};
use nerve_tui::view::viewer::{Effect, Mode};
use nerve_tui::view::viewport::Row;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use crate::window::live;
use crate::{COLS, Harness, key};

fn tool(id: &str, state: ToolState) -> Tool {
    Tool { id: id.into(), command: format!("run {id}"), state }
}

/// Tools `a` to `d`, of which `b` runs and `c` does.
fn tools() -> Vec<Tool> {
    let ended = ToolState::Ended(Some(0));
    let running = ToolState::Running;
    vec![tool("a", ended), tool("b", running), tool("c", running), tool("d", ended)]
}

fn harness() -> Harness {
    let mut harness = Harness::live(&["$"], 5);
    harness.viewer.set_tools(tools());
    harness
}

/// Opens the tool selected with `keys`, which has written twenty lines.
fn opened(keys: &str) -> Harness {
    let mut harness = harness();
    harness.keys(keys);
    let mut terminal = TerminalState::new(Size::new(COLS, 5));
    let lines: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
    terminal.process_data(TsNs(0), lines.join("\r\n").as_bytes());
    harness.tool = Some(terminal);
    harness.keys("ctrl+] esc enter");
    harness
}

fn shown(harness: &Harness) -> Vec<u64> {
    let rows = harness.viewer.modal().unwrap().shown().unwrap().pager().viewport().rows();
    let numbers = rows.filter_map(|row| match row {
        Row::Line { number, .. } => Some(number + 1),
        _ => None,
    });
    numbers.collect()
}

fn ids(harness: &Harness) -> Vec<&str> {
    harness.viewer.tools().map(|tool| tool.id.as_str()).collect()
}

#[test]
fn running_tools_are_first_then_newest() {
    assert_eq!(ids(&harness()), ["c", "b", "d", "a"]);
}

#[test]
fn list_opens_and_closes() {
    let mut harness = harness();
    for (open, close) in [
        ("ctrl+shift+t", "ctrl+shift+t"),
        ("ctrl+] t", "esc"),
        ("ctrl+shift+t", "q"),
        ("ctrl+] t", "ctrl+] t"),
    ] {
        assert_eq!(harness.keys(open), []);
        assert_eq!(harness.viewer.mode(), &Mode::Tools, "{open}");
        assert_eq!(harness.keys(close), []);
        assert_eq!(harness.viewer.mode(), &Mode::Live, "{close}");
    }
    harness.viewer.set_tools(Vec::new());
    harness.keys("ctrl+shift+t");
    assert_eq!(harness.message(), "the agent is running no tools");
    assert!(harness.viewer.modal().is_none());
}

#[test]
fn selection_survives_list_changes() {
    let mut harness = harness();
    harness.keys("ctrl+shift+t down down down down up");
    assert_eq!(harness.viewer.modal().unwrap().row(), 2);
    let mut more = tools();
    more.push(tool("e", ToolState::Running));
    harness.viewer.set_tools(more);
    assert_eq!((ids(&harness), harness.viewer.modal().unwrap().row()), (vec!["e", "c", "b", "d", "a"], 3));
    assert_eq!(harness.keys("enter"), [Effect::ShowTool("d".into())]);
    assert_eq!(harness.viewer.shown_tool(), Some("d"));
}

#[test]
fn keys_go_to_the_shown_tool() {
    let mut harness = opened("ctrl+shift+t enter");
    assert_eq!((harness.viewer.shown_tool(), harness.viewer.mode()), (Some("c"), &Mode::Tool));
    let to_tool = |name| Effect::ToolInput(Input::Key(key(name)));
    assert_eq!(harness.keys("y esc q ctrl+c"), ["y", "esc", "q", "ctrl+c"].map(to_tool));
    let paste = Input::Paste("secret".into());
    assert_eq!(harness.input(paste.clone()), Some(Effect::ToolInput(paste)));
    assert_eq!(harness.keys("ctrl+] ctrl+]"), [to_tool("ctrl+]")]);
}

#[test]
fn tool_without_terminal_yet_gets_keys() {
    let mut harness = harness();
    harness.keys("ctrl+shift+t enter");
    assert_eq!(harness.keys("a"), [Effect::ToolInput(Input::Key(key("a")))]);
    assert_eq!(harness.keys("ctrl+] y"), []);
    assert_eq!(harness.message(), "no visible text to copy");
    assert_eq!(harness.keys("pageup j / x esc b"), [Effect::ToolInput(Input::Key(key("b")))]);
}

#[test]
fn tool_output_can_be_scrolled() {
    let mut harness = opened("ctrl+shift+t enter");
    assert_eq!(shown(&harness), [16, 17, 18, 19, 20]);
    assert_eq!(harness.keys("pageup"), []);
    assert_eq!((shown(&harness), harness.viewer.mode()), (vec![11, 12, 13, 14, 15], &Mode::ToolScrolling));
    harness.keys("g");
    assert_eq!(shown(&harness)[0], 1);
    harness.types("/12\n");
    assert!(shown(&harness).contains(&12), "{:?}", shown(&harness));
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(11), Some((Some(1), Some(1)))));
    harness.keys("3 2");
    assert_eq!(harness.viewer.number(), Some(32));
    harness.keys("=");
    assert_eq!(harness.keys("q x"), [Effect::ToolInput(Input::Key(key("x")))]);
    assert_eq!(shown(&harness), [16, 17, 18, 19, 20], "who types sees the end");
    harness.keys("ctrl+] [ k");
    assert_eq!(shown(&harness)[0], 15);
    assert_eq!(harness.keys("ctrl+] y"), [Effect::Copy("15\n16\n17\n18\n19".into())]);
}

#[test]
fn full_screen_tool_gets_pageup() {
    let mut harness = opened("ctrl+shift+t enter");
    harness.tool.as_mut().unwrap().process_data(TsNs(0), b"\x1b[?1049h");
    assert_eq!(harness.keys("pageup"), [Effect::ToolInput(Input::Key(key("pageup")))]);
    assert_eq!(harness.keys("shift+pageup"), []);
    assert_eq!(harness.viewer.mode(), &Mode::ToolScrolling);
}

#[test]
fn ended_tool_stays_until_dismissed() {
    let mut harness = opened("ctrl+shift+t down down enter");
    assert_eq!((harness.viewer.shown_tool(), harness.viewer.mode()), (Some("d"), &Mode::ToolScrolling));
    harness.keys("k");
    assert_eq!(shown(&harness)[0], 15, "less's keys");
    assert_eq!(harness.keys("ctrl+] x"), [Effect::DismissTool("d".into())]);
    assert_eq!((harness.viewer.mode(), ids(&harness)), (&Mode::Tools, vec!["c", "b", "a"]));
    harness.viewer.set_tools(tools());
    assert_eq!(ids(&harness), ["c", "b", "a"], "a dismissed tool does not return");
    assert_eq!(harness.keys("up x"), []);
    assert_eq!(harness.message(), "the tool is running: only finished tools can be dismissed");
    assert_eq!(harness.keys("down x"), [Effect::DismissTool("a".into())]);
}

#[test]
fn tool_that_ends_enters_scroll_mode() {
    let mut harness = opened("ctrl+shift+t enter");
    let mut ended = tools();
    ended[2].state = ToolState::Ended(None);
    harness.viewer.set_tools(ended);
    assert_eq!((harness.viewer.shown_tool(), harness.viewer.mode()), (Some("c"), &Mode::ToolScrolling));
    assert_eq!(harness.keys("x"), [], "no program reads the key");
    harness.keys("esc");
    assert_eq!((harness.viewer.shown_tool(), harness.viewer.mode()), (None, &Mode::Tools));
    harness.keys("esc");
    assert_eq!(harness.viewer.mode(), &Mode::Live);
}

#[test]
fn removed_tool_gives_way_to_list_then_program() {
    let mut harness = opened("ctrl+shift+t enter");
    harness.viewer.set_tools(tools().into_iter().take(2).collect());
    assert_eq!(harness.viewer.mode(), &Mode::Tools);
    harness.viewer.set_tools(Vec::new());
    assert_eq!(harness.viewer.mode(), &Mode::Live);
}

#[test]
fn click_opens_a_tool() {
    let mut harness = harness();
    harness.keys("ctrl+shift+t");
    let at = |row| {
        let action = MouseAction::Press(Button::Left);
        Input::Mouse(Mouse { action, col: 3, row, ctrl: false, alt: false, shift: false })
    };
    assert_eq!(harness.input(at(4)), None, "below the list");
    assert_eq!(harness.input(at(1)), Some(Effect::ShowTool("b".into())));
}

#[test]
fn modal_hides_task_entry_temporarily() {
    let mut harness = harness();
    harness.snapshot(1);
    harness.keys("ctrl+shift+up a ctrl+shift+t");
    assert_eq!(harness.viewer.mode(), &Mode::Tools);
    harness.keys("esc");
    assert_eq!(harness.viewer.mode(), &Mode::Entry);
    assert_eq!(harness.viewer.entry().unwrap().text(), "a");
}

#[test]
fn text_for_an_ended_tool_is_discarded() {
    let mut harness = opened("ctrl+shift+t enter");
    harness.keys("y e");
    let mut ended = tools();
    ended[2].state = ToolState::Ended(Some(0));
    harness.viewer.set_tools(ended);
    assert_eq!(harness.keys("q q s backspace tab q"), []);
    assert_eq!((harness.viewer.shown_tool(), harness.viewer.mode()), (Some("c"), &Mode::ToolScrolling));
    assert!(harness.message().contains("until Enter or an arrow"), "{}", harness.message());
    harness.keys("pageup k");
    assert_eq!(shown(&harness)[0], 10, "after a key that is no text, keys are less's");
    harness.keys("q");
    assert_eq!(harness.viewer.mode(), &Mode::Tools);
}

/// The tool `c` is shown, these keys are pressed, it ends.
fn ended_after(keys: &str) -> Harness {
    let mut harness = opened("ctrl+shift+t enter");
    if !keys.is_empty() {
        harness.keys(keys);
    }
    let mut ended = tools();
    ended[2].state = ToolState::Ended(Some(0));
    harness.viewer.set_tools(ended);
    harness
}

#[test]
fn enter_ends_discarding() {
    let mut harness = ended_after("y");
    assert_eq!(harness.keys("e s enter"), []);
    assert_eq!(shown(&harness)[0], 16, "it is of the text");
    assert_eq!(harness.message(), "tool ended: keys scroll its output");
    harness.keys("k");
    assert_eq!(shown(&harness)[0], 15);
}

#[test]
fn watched_tool_discards_nothing_when_it_ends() {
    // A key that is no text begins none: Ctrl+C may be what has ended it.
    for keys in ["", "ctrl+c", "up esc", "pageup q"] {
        let mut harness = ended_after(keys);
        assert_eq!(harness.message(), "tool ended; Esc returns to the list", "{keys}");
        harness.keys("k");
        assert_eq!(shown(&harness)[0], 15, "{keys}");
        harness.keys("q");
        assert_eq!(harness.viewer.mode(), &Mode::Tools, "{keys}");
    }
    let mut harness = opened("ctrl+shift+t enter");
    harness.input(Input::Paste("secret".into()));
    let mut ended = tools();
    ended[2].state = ToolState::Ended(Some(0));
    harness.viewer.set_tools(ended);
    harness.keys("q");
    assert_eq!(harness.viewer.mode(), &Mode::ToolScrolling, "a paste is text");
}

#[test]
fn frame_cost_does_not_depend_on_tool_count() {
    let cost = |count: u64, is_open: bool| {
        let mut window = live(100, 30);
        let updates = (0..count).map(|number| {
            let state = if number % 2 == 0 { ToolState::Running } else { ToolState::Ended(Some(0)) };
            ToolUpdate { number, tool: tool(&format!("toolu-{number:05}"), state), reader: InputReader::Tool }
        });
        let changes = ToolUpdates { reset: false, first: 0, updates: updates.collect() };
        window.viewer.update_tools(changes);
        if is_open {
            window.input(Input::Key(key("ctrl+shift+t")));
            assert!(window.viewer.modal().is_some());
        }
        // The shortest of many: what else the machine does is not counted.
        let times = (0..100).map(|_| {
            let begin = Instant::now();
            window.drawn();
            begin.elapsed()
        });
        times.min().unwrap()
    };
    for is_open in [false, true] {
        // As many as fill the list, in both.
        let (few, many) = (cost(30, is_open), cost(10_000, is_open));
        eprintln!("open {is_open}: {few:?} with 30 tools, {many:?} with 10,000");
        assert!(many < 2 * few, "open {is_open}: {few:?} with 30 tools, {many:?} with 10,000");
    }
}
