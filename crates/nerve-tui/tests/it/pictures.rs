//! The pictures of the documentation: what is drawn of a recorded session of Claude Code. `NERVE_PICTURES=write` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_tui::view::draw::{Capabilities, StatusInfo};
use nerve_tui::view::timeline::{SnapshotMark, Timeline};
use nerve_tui::view::tools::{Tool, ToolState};
use nerve_tui::view::viewer::Source;
use nerve_types::TsNs;
use nerve_vt::terminal::Snapshot;

use crate::svg::svg;
use crate::window::Window;

/// When snapshots were taken, in seconds, and their names.
const SNAPSHOTS: [(f64, &str); 3] = [(7.3, "report written"), (18.5, "slow one done"), (23.5, "file made")];
/// Nothing is written for longer: idle.
const IDLE: f64 = 1.5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn at(seconds: f64) -> TsNs {
    TsNs(0) + Duration::from_secs_f64(seconds)
}

/// A window on a session of Claude Code as it was after so many seconds.
fn claude(source: Source, size: (u16, u16), seconds: f64) -> Window {
    let recording = root().join("crates/nerve-vt/tests/fixtures/recordings/claude/classic-modern");
    let bytes = fs::read(recording.with_extension("raw")).unwrap();
    let timing = fs::read_to_string(recording.with_extension("timing")).unwrap();
    let mut window = Window::new(source, (120, 40), size);
    let mut timeline = Timeline::default();
    let (mut clock, mut rest, mut last) = (0.0, bytes.as_slice(), 0.0);
    let mut snapshots = SNAPSHOTS.iter().zip(1..).peekable();
    for line in timing.lines() {
        let mut fields = line.split(' ');
        let (source, wait, length) = (fields.next(), fields.next().unwrap(), fields.next().unwrap());
        clock += wait.parse::<f64>().unwrap();
        if source != Some("O") {
            continue;
        }
        if clock > seconds {
            break;
        }
        while let Some(((moment, label), id)) = snapshots.next_if(|((moment, _), _)| *moment < clock) {
            let snapshot =
                Snapshot { id, label: Some(label.to_string()), at: at(*moment), ..Snapshot::default() };
            window.terminal.record_snapshot(Snapshot { offset: window.terminal.offset(), ..snapshot });
            timeline.snapshots.push(SnapshotMark { at: Duration::from_secs_f64(*moment), id });
        }
        if clock - last > IDLE {
            timeline.idle.push(Duration::from_secs_f64(last)..Duration::from_secs_f64(clock));
        }
        let (output, after) = rest.split_at(length.parse().unwrap());
        window.terminal.process_data(at(clock), output);
        (rest, last) = (after, clock);
    }
    timeline.duration = Duration::from_secs_f64(last);
    timeline.at = timeline.duration;
    if source == Source::Recording {
        window.info.time = Some((timeline.at, timeline.duration));
        window.info.name = "0195e3a1.ahr".into();
        window.timeline = Some(timeline);
    }
    window.info.begin = Some(TsNs(0));
    window.info.capabilities = Capabilities { kitty_keyboard: false, colours: "24 bit" };
    window.drawn();
    window
}

fn live(seconds: f64) -> Window {
    let mut window = claude(Source::Live, (121, 41), seconds);
    window.info = StatusInfo {
        name: "claude".into(),
        state: Some(("ready".into(), "its title says so".into())),
        recorded: Some(22_400),
        ..std::mem::take(&mut window.info)
    };
    window
}

/// Compares with the committed picture, or writes it.
fn check(name: &str, title: &str, mut window: Window) {
    let (buffer, drawn) = window.drawn();
    let picture = svg(&buffer, &window.decorations, drawn.cursor, title);
    let file = root().join("docs/images").join(format!("{name}.svg"));
    if std::env::var_os("NERVE_PICTURES").is_some_and(|value| value == "write") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, picture).unwrap();
        return;
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let differs = committed.lines().zip(picture.lines()).find(|(old, new)| old != new);
    assert!(
        committed == picture,
        "docs/images/{name}.svg is not what is drawn: run 'cargo xtask generate'; the first line that differs: {differs:?}"
    );
}

#[test]
fn live_with_snapshots() {
    check("live", "A session of Claude Code, live", live(24.0));
}

#[test]
fn task_entry_at_a_snapshot() {
    let mut window = live(24.0);
    window.keys("ctrl+shift+up up");
    window.types("Do the same for the other report, and add a table of contents.");
    check("task", "An instruction typed at a snapshot", window);
}

#[test]
fn after_with_frame_and_timeline() {
    let mut window = claude(Source::Recording, (124, 36), 37.5);
    window.types("Now write tests for it.");
    check("after", "A finished session, in its frame, with its timeline", window);
}

#[test]
fn text_that_was_found() {
    let mut window = claude(Source::Recording, (124, 32), 24.0);
    window.keys("esc");
    window.keys("g /");
    window.types("answer");
    check("search", "Looking for text", window);
}

#[test]
fn a_tool_above_the_lines() {
    let mut window = live(24.0);
    window.info.state = Some(("busy".into(), "runs a tool".into()));
    window.viewer.set_tools(vec![
        Tool { id: "a".into(), command: "npm ci".into(), state: ToolState::Ended(Some(0)) },
        Tool { id: "b".into(), command: "make && sudo make install".into(), state: ToolState::Running },
    ]);
    window.keys("ctrl+shift+t enter");
    window.tool_writes(
        (80, 16),
        "cc -O2 -c main.c\r\ncc -O2 -c parse.c\r\n\x1b[1mparse.c:41:7: \x1b[35mwarning: \x1b[39munused variable\x1b[0m 'next'\r\n   41 |   int \
         \x1b[1;35mnext\x1b[0m = 0;\r\n      |       \x1b[1;35m^~~~\x1b[0m\r\ncc -o demo main.o parse.o\r\n\x1b[32mbuilt demo\x1b[0m\r\n[sudo] \
         password for dev: ",
    );
    check("tool", "A tool that the agent runs, in a terminal of its own", window);
}

#[test]
fn tools_in_a_list() {
    let mut window = live(24.0);
    window.viewer.set_tools(vec![
        Tool { id: "a".into(), command: "npm ci".into(), state: ToolState::Ended(Some(0)) },
        Tool {
            id: "b".into(),
            command: "npm test -- --watch=false".into(),
            state: ToolState::Ended(Some(1)),
        },
        Tool { id: "c".into(), command: "make && sudo make install".into(), state: ToolState::Running },
    ]);
    window.keys("ctrl+shift+t");
    check("tools", "The tools that the agent has run", window);
}

#[test]
fn all_keys() {
    let mut window = claude(Source::Recording, (124, 56), 37.5);
    window.keys("f1");
    check("help", "The help sheet", window);
}
