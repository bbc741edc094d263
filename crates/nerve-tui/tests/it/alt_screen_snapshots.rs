//! Snapshots that were taken on the alternate screen, in a recording: going to one shows the screen of its moment.

use std::time::Duration;

use nerve_tui::view::keys::{Button, Input, Mouse, MouseAction};
use nerve_tui::view::timeline::{SnapshotMark, Timeline};
use nerve_tui::view::viewer::{Effect, Mode, Source, Submission, Target, Viewer};
use nerve_tui::view::viewport::Row;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Snapshot, TerminalState};

use crate::window::{Window, after};
use crate::{COLS, Harness, key};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const ROWS: u16 = 10;

/// A viewer of a recording, together with the player that shows the snapshots it requests.
struct Session {
    /// Pieces of output, one a second, each with the snapshot taken after it.
    past: Vec<(String, Option<u64>)>,
    harness: Harness,
}

impl Session {
    fn of(past: &[(&str, Option<u64>)]) -> Session {
        Session::with(past, |viewer| viewer)
    }

    fn with(past: &[(&str, Option<u64>)], become_another: impl Fn(Viewer) -> Viewer) -> Session {
        let past: Vec<_> = past.iter().map(|(text, id)| (text.to_string(), *id)).collect();
        let mut harness = Harness::on(Source::Recording, terminal(&past, usize::MAX), ROWS);
        harness.viewer = become_another(harness.viewer);
        harness.resize(ROWS);
        let taken = (1..).zip(&past).filter_map(|(second, (_, id))| Some((second, (*id)?)));
        harness.timeline = Some(Timeline {
            duration: Duration::from_secs(past.len() as u64),
            snapshots: taken.map(|(at, id)| SnapshotMark { at: Duration::from_secs(at), id }).collect(),
            ..Timeline::default()
        });
        harness.write("");
        Session { past, harness }
    }

    /// A program that has nothing but the whole screen, and three snapshots of what it showed.
    fn full() -> Session {
        Session::of(&[
            (ENTER, None),
            (&screen("first"), Some(11)),
            (&screen("second"), Some(12)),
            (&screen("third"), Some(13)),
            (&screen("last"), None),
        ])
    }

    /// Lines, some of a full-screen program's screens, lines again.
    fn mixed() -> Session {
        let lines = |from: u64, to: u64| (from..to).map(|n| format!("line {n}\r\n")).collect::<String>();
        Session::of(&[
            (&lines(1, 20), Some(1)),
            (&lines(20, 30), Some(2)),
            (&format!("{ENTER}{}", screen("first")), Some(3)),
            (&screen("second"), Some(4)),
            (LEAVE, Some(5)),
            (&lines(30, 60), Some(6)),
            (&lines(60, 62), None),
        ])
    }

    /// Shows a requested snapshot; returns any other effect.
    fn asked(&mut self, asked: Option<Effect>) -> Option<Effect> {
        match asked? {
            Effect::SeekSnapshot(id) => self.show(id),
            other => return Some(other),
        }
        None
    }

    fn show(&mut self, id: Option<u64>) {
        let taken = id.map(|id| self.past.iter().position(|(_, other)| *other == Some(id)).unwrap());
        self.go_to(taken.map_or(usize::MAX, |at| at + 1));
    }

    fn go_to(&mut self, second: usize) {
        self.harness.terminal = terminal(&self.past, second);
        self.harness.end = (second < self.past.len()).then(|| terminal(&self.past, usize::MAX));
        self.harness.write("");
    }

    fn keys(&mut self, names: &str) -> Vec<Effect> {
        let asked = names.split(' ').filter_map(|name| {
            let asked = self.harness.key(key(name));
            self.asked(asked)
        });
        asked.collect()
    }

    fn click(&mut self, col: u16, row: u16) -> Option<Effect> {
        let mouse = |action| Input::Mouse(Mouse { action, col, row, ctrl: false, alt: false, shift: false });
        let asked = self.harness.input(mouse(MouseAction::Press(Button::Left)));
        self.harness.input(mouse(MouseAction::Release(Button::Left)));
        self.asked(asked)
    }

    /// A click on the mark of a snapshot on the timeline.
    fn click_on(&mut self, id: u64) -> Option<Effect> {
        let timeline = self.harness.timeline.as_ref().unwrap();
        let col = (0..COLS).find(|col| timeline.snapshot_at(*col, COLS) == Some(id)).unwrap();
        self.click(col, ROWS)
    }

    fn target(&self) -> Option<Target> {
        self.harness.viewer.entry()?.target()
    }

    /// Returns the rows that the program displayed, without blank ones.
    fn screen(&self) -> String {
        self.harness.shown().into_iter().filter(|line| line.starts_with("screen ")).collect()
    }

    fn submitted(&mut self) -> Submission {
        match self.keys("x enter").pop() {
            Some(Effect::Branch(submission)) => submission,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the output with which a full-screen program displays this screen.
fn screen(name: &str) -> String {
    format!("\x1b[2J\x1b[Hscreen {name}\r\nmore of it")
}

fn terminal(past: &[(String, Option<u64>)], until: usize) -> TerminalState {
    terminal_of(Size::new(COLS, 5), past, until)
}

fn terminal_of(size: Size, past: &[(String, Option<u64>)], until: usize) -> TerminalState {
    let mut terminal = TerminalState::new(size).keeping_last_alt_screen();
    for (second, (text, id)) in (1..).zip(past).take(until) {
        let at = TsNs(second * 1_000_000_000);
        terminal.process_data(at, text.as_bytes());
        if let Some(id) = *id {
            let offset = terminal.offset();
            terminal.record_snapshot(Snapshot { id, at, offset, ..Snapshot::default() });
        }
    }
    terminal
}

fn moment(id: u64) -> Option<Target> {
    Some(Target::Moment { id })
}

#[test]
fn entry_moves_between_snapshots_and_end() {
    let mut session = Session::full();
    assert_eq!((session.target(), session.screen()), (Some(Target::End), "screen last".into()));
    for (keys, id, shown) in
        [("up", 13, "third"), ("ctrl+shift+up", 12, "second"), ("up", 11, "first"), ("down", 12, "second")]
    {
        session.keys(keys);
        assert_eq!((session.target(), session.screen()), (moment(id), format!("screen {shown}")), "{keys}");
        let rows: Vec<Row> = session.harness.viewer.viewport().rows().collect();
        let after = rows.iter().skip_while(|row| !matches!(row, Row::Entry(_)));
        assert!(after.clone().count() >= 3, "it is in sight: {rows:?}");
        assert!(after.clone().all(|row| matches!(row, Row::Entry(_) | Row::Blank)), "below all: {rows:?}");
    }
    session.keys("up up");
    assert_eq!((session.target(), session.harness.message()), (moment(11), "no snapshot above"));
    session.keys("down down ctrl+shift+down");
    assert_eq!((session.target(), session.screen()), (Some(Target::End), "screen last".into()));
    session.keys("down");
    assert_eq!(session.harness.message(), "no snapshot below");
}

#[test]
fn branches_from_the_shown_snapshot() {
    let mut session = Session::full();
    session.keys("up up");
    let submission = session.submitted();
    assert_eq!((submission.snapshot, submission.text.as_str()), (Some(12), "x"));
    // It was made: what is shown then is the end.
    session.harness.viewer.branch_created();
    let asked = session.harness.viewer.take_effect();
    assert_eq!(asked, Some(Effect::SeekSnapshot(None)));
    session.asked(asked);
    assert_eq!((session.target(), session.screen()), (None, "screen last".into()));
    assert_eq!(session.harness.viewer.take_effect(), None, "reported once");
    let mut end = Session::full();
    assert_eq!(end.submitted().snapshot, None);
}

#[test]
fn esc_leaves_snapshot_and_keeps_text() {
    let mut session = Session::full();
    session.keys("up up a b esc");
    assert_eq!((session.target(), session.screen()), (None, "screen last".into()));
    assert_eq!(session.harness.message(), "press Esc again to leave");
    session.keys("ctrl+shift+up");
    assert_eq!((session.target(), session.screen()), (moment(13), "screen third".into()));
    assert_eq!(session.harness.viewer.entry().unwrap().text(), "ab");
}

#[test]
fn brackets_go_between_snapshot_screens() {
    let mut session = Session::full();
    session.keys("esc j");
    let mut goes = |keys: &str| {
        session.keys(keys);
        (session.screen(), session.harness.message().to_string())
    };
    let to = |name: &str, message: &str| (format!("screen {name}"), message.to_string());
    assert_eq!(goes("]"), to("last", "no snapshot below"));
    assert_eq!(goes("["), to("third", ""));
    assert_eq!(goes("["), to("second", ""));
    assert_eq!(goes("["), to("first", ""));
    assert_eq!(goes("["), to("first", "no snapshot above"));
    assert_eq!(goes("2 ]"), to("third", ""));
    assert_eq!(goes("]"), to("last", ""), "past the last one is the end");
    assert_eq!(goes("9 ["), to("first", ""));
    assert_eq!(goes("esc"), to("last", "press Esc again to leave"));
    assert_eq!(goes("["), to("third", ""));
    assert_eq!(goes("G"), to("last", ""));
    assert!(session.harness.viewer.entry().is_none());
    assert_eq!(session.keys("[ esc esc"), [Effect::Quit]);
}

#[test]
fn snapshot_at_end_is_the_end() {
    // As sessions end: the program leaves the screen, and a snapshot is taken.
    let mut session = Session::of(&[
        (ENTER, None),
        (&screen("first"), Some(1)),
        (&screen("second"), Some(2)),
        (&screen("last"), None),
        (LEAVE, Some(3)),
    ]);
    assert_eq!((session.target(), session.screen()), (Some(Target::End), "screen last".into()));
    session.keys("esc [");
    assert_eq!(session.screen(), "screen second");
    session.keys("]");
    assert_eq!(
        (session.screen(), session.harness.viewer.viewport().is_at_end()),
        ("screen last".into(), true)
    );
    session.keys("i up up");
    assert_eq!((session.target(), session.screen()), (moment(1), "screen first".into()));
    session.keys("down down");
    assert_eq!((session.target(), session.submitted().snapshot), (Some(Target::End), Some(3)));
}

#[test]
fn i_and_click_use_the_shown_snapshot() {
    let mut session = Session::full();
    session.keys("esc [ [ i");
    assert_eq!((session.target(), session.screen()), (moment(12), "screen second".into()));
    session.keys("esc [ [");
    // On the program's screen, and on the mark of the line from which it came there.
    session.click(3, 2);
    assert_eq!((session.target(), session.screen()), (moment(12), "screen second".into()));
    session.keys("esc");
    session.click(3, 2);
    assert_eq!(
        (session.target(), session.screen()),
        (moment(13), "screen third".into()),
        "the last one before"
    );
    session.keys("esc i");
    assert_eq!((session.target(), session.screen()), (Some(Target::End), "screen last".into()));
}

#[test]
fn timeline_mark_shows_its_snapshot() {
    let mut session = Session::full();
    session.keys("a");
    assert_eq!(session.click_on(11), None);
    assert_eq!((session.target(), session.screen()), (moment(11), "screen first".into()));
    session.keys("esc");
    session.click_on(12);
    assert_eq!((session.target(), session.screen()), (None, "screen second".into()), "none that was closed");
    session.keys("]");
    assert_eq!(session.screen(), "screen third");
    session.keys("i");
    // Elsewhere is no snapshot's moment: what is written for one does not stand there.
    let begin = session.click(0, ROWS);
    assert_eq!((begin, session.target()), (Some(Effect::Seek(Duration::ZERO)), None));
    session.go_to(1);
    session.keys("i");
    assert_eq!((session.target(), session.harness.message()), (None, "no snapshot at this line or above it"));
    session.keys("]");
    assert_eq!(session.screen(), "screen first");
}

#[test]
fn other_moments_are_between_snapshots() {
    for (keys, shown, target) in [
        ("[", "second", None),
        ("]", "third", None),
        ("i", "second", moment(12)),
        ("ctrl+shift+up", "second", moment(12)),
    ] {
        let mut session = Session::full();
        session.past.insert(3, (screen("between"), None));
        session.keys("esc");
        assert_eq!(session.keys(","), [Effect::Skip(-5)]);
        session.go_to(4);
        assert_eq!(session.screen(), "screen between");
        session.keys(keys);
        assert_eq!((session.screen(), session.target()), (format!("screen {shown}"), target), "{keys}");
    }
}

#[test]
fn seeking_leaves_the_snapshot() {
    let mut session = Session::full();
    assert_eq!(session.keys("esc [ [ p"), [Effect::TogglePlay]);
    session.keys("esc");
    assert_eq!(session.screen(), "screen second", "where it plays, not at the end");
}

#[test]
fn lines_and_snapshot_screens_alternate() {
    let mut session = Session::mixed();
    session.keys("esc g");
    let mut stops = Vec::new();
    for _ in 0..6 {
        session.keys("]");
        stops.push(match session.screen() {
            screen if screen.is_empty() => session.harness.first(),
            screen => screen,
        });
    }
    let there = ["line 20", "line 30", "screen first", "screen second", "line 30", "line 53"];
    assert_eq!(stops, there, "the last one as far up as there are lines below");
    session.keys("]");
    assert_eq!(session.harness.message(), "no snapshot below");
    let mut back = Vec::new();
    for _ in 0..6 {
        session.keys("[");
        back.push(match session.screen() {
            screen if screen.is_empty() => session.harness.first(),
            screen => screen,
        });
    }
    assert_eq!(back, ["line 30", "screen second", "screen first", "line 30", "line 20", "line 20"]);
    // The task entry has a place for each of them.
    let mut session = Session::mixed();
    let mut targets = Vec::new();
    for _ in 0..6 {
        session.keys("up");
        targets.push((session.target().unwrap(), session.screen()));
    }
    let line = |id, line| (Target::Snapshot { id, line }, String::new());
    let at = |id, name: &str| (Target::Moment { id }, format!("screen {name}"));
    let all = [line(6, 59), line(5, 29), at(4, "second"), at(3, "first"), line(2, 29), line(1, 19)];
    assert_eq!(targets, all);
    assert_eq!(session.submitted().snapshot, Some(1));
}

#[test]
fn unfinished_recording_opens_at_latest_snapshot() {
    let past =
        [(ENTER, None), (&screen("first"), Some(1)), (&screen("second"), Some(2)), (&screen("now"), None)];
    let mut session = Session::with(&past, Viewer::still_recording);
    assert_eq!(session.target(), moment(2));
    let asked = session.harness.viewer.take_effect();
    session.asked(asked);
    assert_eq!((session.target(), session.screen()), (moment(2), "screen second".into()));
    session.keys("down");
    assert_eq!((session.target(), session.harness.message()), (moment(2), "no snapshot below"));
    session.keys("up esc");
    assert_eq!((session.target(), session.screen()), (None, "screen now".into()));
}

#[test]
fn screen_snapshot_survives_erased_lines() {
    let mut session = Session::of(&[
        ("a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng", None),
        (&format!("{ENTER}{}", screen("first")), Some(1)),
        (&format!("{LEAVE}\x1b[H\x1b[2J\x1b[3Jh"), Some(2)),
        ("i", None),
    ]);
    session.keys("up up");
    assert_eq!((session.target(), session.screen()), (moment(1), "screen first".into()));
}

#[test]
fn tool_snapshots_cannot_be_branched() {
    let past = [(ENTER, None), (&screen("first"), Some(1)), (&screen("last"), None)];
    let mut session = Session::with(&past, Viewer::without_entry);
    session.keys("[");
    assert_eq!(session.screen(), "screen first");
    session.keys("i");
    assert_eq!(session.target(), None);
    assert!(session.harness.message().starts_with("no branches from a tool's output"));
}

// ---- Moments of lines ----

/// Lines alone, a snapshot after the first nineteen of them and one further down.
fn lines_alone() -> Session {
    let lines = |from: u64, to: u64| (from..to).map(|n| format!("line {n}\r\n")).collect::<String>();
    Session::of(&[
        (&lines(1, 10), None),
        (&lines(10, 20), Some(1)),
        (&lines(20, 30), None),
        (&lines(30, 60), Some(2)),
        (&lines(60, 62), None),
    ])
}

#[test]
fn i_before_the_end_uses_own_snapshot() {
    let first = Some(Target::Snapshot { id: 1, line: 19 });
    // A while after the snapshot, and just when it was taken.
    for moment in [3, 2] {
        for keys in ["i", "ctrl+shift+up"] {
            let mut session = lines_alone();
            session.keys("esc ,");
            session.go_to(moment);
            let before = session.harness.document().lines();
            session.keys(keys);
            assert_eq!(session.target(), first, "{keys} at {moment}");
            assert_eq!(session.harness.document().lines(), before, "the moment is still shown");
            assert!(session.harness.viewer.viewport().rows().any(|row| matches!(row, Row::Entry(_))));
            session.keys("up");
            assert_eq!((session.target(), session.harness.message()), (first, "no snapshot above"));
            session.keys("down");
            assert_eq!((session.target(), session.harness.message()), (first, "no snapshot below"));
            assert_eq!(session.submitted().snapshot, Some(1));
        }
    }
    for (keys, message) in
        [("i", "there are no snapshots"), ("ctrl+shift+up", "no snapshot to branch from yet")]
    {
        let mut session = lines_alone();
        session.keys("esc ,");
        session.go_to(1);
        session.keys(keys);
        assert_eq!((session.target(), session.harness.message()), (None, message));
    }
}

#[test]
fn seeking_closes_entry_at_end() {
    let mut session = lines_alone();
    session.keys("a b");
    let end = Duration::from_secs(5);
    assert_eq!(session.click(COLS - 1, ROWS), Some(Effect::Seek(end)));
    assert_eq!(session.target(), Some(Target::End), "who goes to the end is there already");
    assert_eq!(session.click(0, ROWS), Some(Effect::Seek(Duration::ZERO)));
    session.go_to(3);
    assert_eq!((session.target(), session.harness.viewer.mode()), (None, &Mode::Scrolling));
    session.keys("i");
    assert_eq!(session.target(), Some(Target::Snapshot { id: 1, line: 19 }));
    assert_eq!(session.harness.viewer.entry().unwrap().text(), "ab");
}

#[test]
fn entry_at_later_snapshot_moves_up() {
    let mut session = lines_alone();
    session.keys("up");
    assert_eq!(session.target(), Some(Target::Snapshot { id: 2, line: 59 }));
    session.click(0, ROWS);
    session.go_to(3);
    session.keys("down");
    assert_eq!(session.harness.message(), "no snapshot below");
    session.keys("up");
    assert_eq!(session.target(), Some(Target::Snapshot { id: 1, line: 19 }));
}

#[test]
fn seek_target_explains_missing_snapshots() {
    let elsewhere = "earlier snapshots are on lines that only the recording's end shows";
    for keys in ["i", "ctrl+shift+up", "["] {
        let mut session = lines_alone();
        session.keys("esc ,");
        session.go_to(3);
        // As it is after a jump: what was before the keyframe is not there.
        let offset = session.harness.terminal.offset();
        let mut jumped = TerminalState::new(Size::new(COLS, 5));
        jumped.process_data(TsNs(0), &vec![b' '; usize::try_from(offset).unwrap()]);
        session.harness.terminal = jumped;
        session.harness.write("\r\nline 29");
        session.keys(keys);
        assert_eq!((session.target(), session.harness.message()), (None, elsewhere), "{keys}");
    }
}

// ---- Matches ----

impl Session {
    /// The place of the match that was gone to and how many there are, when all are counted.
    fn matches(&mut self) -> Option<(Option<u64>, Option<u64>)> {
        let document = nerve_tui::view::document::Document::recorded(&self.harness.terminal);
        while self.harness.viewer.advance_search(&document) {}
        self.harness.viewer.matches()
    }
}

#[test]
fn matches_are_of_the_shown_snapshot() {
    let mut session = Session::mixed();
    session.keys("esc g");
    session.harness.types("/line\n");
    assert_eq!(session.matches(), Some((Some(1), Some(61))));
    session.keys("G [ [");
    assert_eq!(session.screen(), "screen second");
    assert_eq!(session.matches(), Some((None, Some(29))), "none of them was gone to");
    session.keys("G");
    assert_eq!(session.matches(), Some((None, Some(61))));
    session.keys("[ [ n esc alt+u");
    assert_eq!(session.matches(), Some((None, Some(61))));
    // To lines of the end.
    session.keys("[ [");
    assert_eq!(session.matches(), Some((None, Some(29))));
    session.keys("]");
    assert_eq!((session.screen().as_str(), session.matches()), ("", Some((None, Some(61)))));
}

#[test]
fn matches_are_of_the_seek_target() {
    let mut session = lines_alone();
    session.keys("esc G");
    session.harness.types("?line\n");
    assert_eq!(session.matches().unwrap().1, Some(61));
    session.keys(",");
    for (moment, matches) in [(2, 19), (1, 9), (3, 29), (4, 59), (usize::MAX, 61), (2, 19)] {
        session.go_to(moment);
        assert_eq!(session.matches(), Some((None, Some(matches))), "{moment}");
    }
}

// ---- What is drawn ----

fn drawn(window: &mut Window) -> String {
    window.info.begin = Some(TsNs(0));
    window.text()
}

#[test]
fn title_and_status_name_the_snapshot() {
    let past = Session::full().past;
    let at = |until| terminal_of(Size::new(60, 8), &past, until);
    let mut window = after(90, 18);
    window.terminal = at(usize::MAX);
    window.drawn();
    assert!(drawn(&mut window).contains("3 snapshots"));
    window.keys("up up");
    window.end = Some(at(usize::MAX));
    window.terminal = at(3);
    let text = drawn(&mut window);
    assert!(text.contains("branch from snapshot 12 (2 of 3), 0:03"), "{text}");
    assert!(text.contains("snapshot 2 of 3, 0:03"), "{text}");
    window.keys("ctrl+home");
    assert!(window.text().contains("screen second"), "{}", window.text());
}

#[test]
fn live_title_names_snapshot_on_current_screen() {
    let past = Session::full().past;
    let mut window = crate::window::live(90, 12);
    window.terminal = terminal(&past, usize::MAX);
    window.drawn();
    assert_eq!(window.keys("ctrl+shift+up ctrl+shift+up"), [], "no seek in a recording");
    assert_eq!(window.viewer.mode(), &Mode::Entry);
    assert_eq!(window.viewer.entry().unwrap().target(), Some(Target::Snapshot { id: 12, line: 0 }));
    let text = drawn(&mut window);
    assert!(text.contains("branch from snapshot 12 (2 of 3), 0:03"), "{text}");
    assert!(text.contains("snapshot 2 of 3, 0:03"), "{text}");
    assert!(text.contains("screen last"), "{text}");
}

#[test]
fn loading_explains_missing_snapshots() {
    let still = "earlier snapshots are still being read: try again when all lines are there";
    let past = Session::full().past;
    let mut window = after(90, 18);
    window.lacks_begin = true;
    window.terminal = terminal_of(Size::new(60, 8), &past, usize::MAX);
    window.drawn();
    let text = drawn(&mut window);
    assert!(!text.contains("3 snapshots"), "{text}");
    window.keys("up up up");
    window.end = Some(terminal_of(Size::new(60, 8), &past, usize::MAX));
    window.terminal = terminal_of(Size::new(60, 8), &past, 2);
    let text = drawn(&mut window);
    assert!(text.contains("branch from snapshot 11, 0:02"), "{text}");
    assert!(text.contains("snapshot 11, 0:02") && !text.contains("of 3"), "{text}");
    window.keys("up");
    assert_eq!(window.viewer.message(), Some(still));
    window.lacks_begin = false;
    window.keys("up");
    assert_eq!(window.viewer.message(), Some("no snapshot above"));
    assert!(drawn(&mut window).contains("branch from snapshot 11 (1 of 3), 0:02"));
    // Where there is none at all yet, and where there are lines alone.
    let mut window = after(90, 18);
    window.lacks_begin = true;
    window.write("a\r\nb");
    for keys in ["up", "esc [", "g i"] {
        window.keys(keys);
        let message = if keys == "g i" { None } else { Some(still) };
        assert_eq!(window.viewer.message(), message, "{keys}");
    }
}
