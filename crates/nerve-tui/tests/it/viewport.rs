//! The rows that a window shows: a test per rule of the viewport and of task entry movement, then random operations.

use nerve_tui::view::viewport::{Row, Viewport};
use proptest::prelude::*;

fn view(lines: u64, rows: u16) -> Viewport {
    let mut view = Viewport::new(rows);
    view.set_lines(0..lines);
    view
}

/// The lines in the window, and `-` for rows of the task entry, `~` for blank ones; dimmed lines in brackets.
fn shown(view: &Viewport) -> String {
    let words = view.rows().map(|row| match row {
        Row::Line { number, dimmed: false } => number.to_string(),
        Row::Line { number, dimmed: true } => format!("[{number}]"),
        Row::Entry(_) => "-".to_string(),
        Row::Blank => "~".to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn follows_output_until_scrolled() {
    let mut view = view(10, 3);
    assert_eq!(shown(&view), "7 8 9");
    view.set_lines(0..12);
    assert_eq!(shown(&view), "9 10 11");
    view.scroll(-2);
    view.set_lines(0..20);
    assert_eq!((shown(&view), view.is_following()), ("7 8 9".into(), false));
    view.scroll(9);
    assert!(!view.is_following());
    view.scroll(1);
    assert_eq!((shown(&view), view.is_following()), ("17 18 19".into(), true));
}

#[test]
fn following_window_keeps_pinned_line_visible() {
    let mut view = view(20, 4);
    view.pin(Some((9, 18)));
    assert_eq!(shown(&view), "15 16 17 18");
    view.pin(Some((18, 18)));
    assert_eq!(shown(&view), "16 17 18 19");
    view.pin(Some((9, 11)));
    assert_eq!(shown(&view), "9 10 11 12");
    view.scroll(1);
    view.set_lines(0..21);
    assert_eq!(shown(&view), "10 11 12 13", "scrolling ends the pin");
    view.go_to_end();
    assert_eq!(shown(&view), "9 10 11 12");
    view.set_rows(2);
    assert_eq!(shown(&view), "10 11");
}

#[test]
fn short_document_has_blank_rows_below() {
    assert_eq!(shown(&view(2, 4)), "0 1 ~ ~");
    assert_eq!(shown(&view(0, 2)), "~ ~");
}

#[test]
fn dropped_lines_leave_the_window() {
    let mut view = view(10, 3);
    view.go_to_start();
    view.set_lines(5..10);
    assert_eq!(shown(&view), "5 6 7");
    view.set_lines(9..9);
    assert_eq!(shown(&view), "~ ~ ~");
}

#[test]
fn visible_snapshot_with_room_keeps_its_row() {
    let mut view = view(100, 10);
    view.go_to_line(50);
    view.place_entry(53, 4);
    assert_eq!(shown(&view), "50 51 52 53 - - - - [54] [55]");
    assert_eq!(view.row_of(53), Some(3));
    // With the entry above it: it is the row on the screen that stays.
    view.place_entry(54, 0);
    assert_eq!(shown(&view), "46 47 48 49 50 51 52 53 54 -");
    view.place_entry(51, 4);
    assert_eq!(shown(&view), "46 47 48 49 50 51 - - - -");
}

#[test]
fn entry_that_just_fits_does_not_scroll() {
    let mut fits = view(100, 10);
    fits.go_to_line(50);
    fits.place_entry(55, 4);
    assert_eq!(shown(&fits), "50 51 52 53 54 55 - - - -");
    let mut none = view(100, 10);
    none.go_to_line(50);
    none.place_entry(56, 4);
    assert_eq!(shown(&none), "54 55 56 - - - - [57] [58] [59]");
}

#[test]
fn hidden_snapshot_is_centred() {
    for (rows, height) in [(10, 4), (11, 4), (10, 3), (7, 7), (1, 1), (2, 1)] {
        for line in [20, 80] {
            let mut view = view(100, rows);
            view.go_to_line(50);
            view.place_entry(line, height);
            let rows: Vec<Row> = view.rows().collect();
            let above = rows.iter().take_while(|row| !matches!(row, Row::Entry(_))).count();
            let below = rows.len() - above - usize::from(height);
            assert!(below == above || below == above + 1, "{above} {below}: {}", shown(&view));
        }
    }
}

#[test]
fn open_entry_stops_following() {
    let mut view = view(20, 10);
    view.place_entry(14, 3);
    let before = shown(&view);
    assert!(!view.is_following());
    for end in 21..40 {
        view.set_lines(0..end);
        assert_eq!(shown(&view), before);
    }
    view.close_entry();
    assert_eq!(shown(&view), "10 11 12 13 14 15 16 17 18 19", "what was in the window stays");
    assert!(!view.is_following());
}

#[test]
fn entry_scrolls_with_its_snapshot() {
    let mut view = view(100, 6);
    view.go_to_line(50);
    view.place_entry(51, 2);
    assert_eq!(shown(&view), "50 51 - - [52] [53]");
    view.scroll(1);
    assert_eq!(shown(&view), "51 - - [52] [53] [54]");
    view.scroll(2);
    assert_eq!(shown(&view), "- [52] [53] [54] [55] [56]");
    view.scroll(1);
    assert_eq!(shown(&view), "[52] [53] [54] [55] [56] [57]");
    assert_eq!(view.entry(), Some((-2, 2)));
    view.scroll(-4);
    assert_eq!(shown(&view), "50 51 - - [52] [53]");
}

#[test]
fn entry_at_the_end_is_below_all_lines() {
    let mut view = view(20, 6);
    view.place_entry(19, 2);
    assert_eq!(shown(&view), "16 17 18 19 - -");
    view.set_entry_height(4);
    assert_eq!(shown(&view), "18 19 - - - -");
    view.set_entry_height(99);
    assert_eq!(shown(&view), "- - - - - -");
    view.set_entry_height(1);
    assert_eq!(shown(&view), "15 16 17 18 19 -");
}

#[test]
fn show_centres_hidden_lines() {
    let mut view = view(100, 7);
    view.go_to_line(50);
    view.show(56);
    assert_eq!(view.top_line(), 50);
    view.show(57);
    assert_eq!(shown(&view), "54 55 56 57 58 59 60");
    view.show(99);
    assert_eq!((view.top_line(), view.is_following()), (93, true));
}

#[derive(Debug, Clone)]
enum Deed {
    Write(u64),
    Forget(u64),
    Shrink(u64),
    Resize(u16),
    Scroll(i64),
    Start,
    End,
    Line(u64),
    Show(u64),
    Put(u64, u16),
    Height(u16),
    Close,
}

fn deeds() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..30u64).prop_map(Deed::Write),
        1 => (0..20u64).prop_map(Deed::Forget),
        1 => (0..20u64).prop_map(Deed::Shrink),
        2 => (0..20u16).prop_map(Deed::Resize),
        3 => prop_oneof![-30..30i64, Just(i64::MIN), Just(i64::MAX)].prop_map(Deed::Scroll),
        1 => Just(Deed::Start),
        1 => Just(Deed::End),
        1 => prop_oneof![0..200u64, Just(u64::MAX / 2)].prop_map(Deed::Line),
        1 => (0..200u64).prop_map(Deed::Show),
        4 => (0..200u64, 0..12u16).prop_map(|(line, height)| Deed::Put(line, height)),
        1 => (0..30u16).prop_map(Deed::Height),
        1 => Just(Deed::Close),
    ]
}

/// Contiguous, in range, as tall as the window; blank rows only where there is nothing more to show.
pub(crate) fn check(view: &Viewport) -> Result<(), TestCaseError> {
    let rows: Vec<Row> = view.rows().collect();
    prop_assert_eq!(rows.len(), usize::from(view.height()));
    let (lines, entry) = (view.lines(), view.entry());
    let mut everything: Vec<Row> = Vec::new();
    let at = view.entry_line().map(|line| line + 1).unwrap_or(lines.start);
    prop_assert!(view.numbers().all(|number| lines.contains(&number)));
    prop_assert!(view.is_filtered() || view.numbers().eq(lines.clone()));
    prop_assert!(!view.is_filtered() || entry.is_none());
    for number in view.numbers() {
        if number == at {
            everything.extend((0..entry.map_or(0, |(_, height)| height)).map(Row::Entry));
        }
        everything.push(Row::Line { number, dimmed: entry.is_some() && number >= at });
    }
    if at == lines.end {
        everything.extend((0..entry.map_or(0, |(_, height)| height)).map(Row::Entry));
    }
    let blanks = rows.iter().rev().take_while(|row| **row == Row::Blank).count();
    let filled = &rows[..rows.len() - blanks];
    prop_assert!(!filled.contains(&Row::Blank));
    prop_assert!(blanks == 0 || filled == everything, "{filled:?} of {everything:?}");
    let found = filled.is_empty() || everything.windows(filled.len()).any(|part| part == filled);
    prop_assert!(found, "{filled:?} is no part of {everything:?}");
    for (at, row) in rows.iter().enumerate() {
        if let Row::Line { number, .. } = row {
            prop_assert_eq!(view.row_of(*number).map(usize::from), Some(at));
            prop_assert_eq!(view.line_at(u16::try_from(at).unwrap()), Some(*number));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn window_is_always_contiguous(
        rows in 0..20u16,
        deeds in prop::collection::vec(deeds(), 0..60),
    ) {
        let mut view = Viewport::new(rows);
        let (mut first, mut end) = (0, 0);
        check(&view)?;
        for deed in deeds {
            match deed {
                Deed::Write(more) => end += more,
                Deed::Forget(less) => first = (first + less).min(end),
                Deed::Shrink(less) => end = (end - less.min(end)).max(first),
                Deed::Resize(rows) => view.set_rows(rows),
                Deed::Scroll(rows) => view.scroll(rows),
                Deed::Start => view.go_to_start(),
                Deed::End => view.go_to_end(),
                Deed::Line(line) => view.go_to_line(line),
                Deed::Show(line) => view.show(line),
                Deed::Put(line, height) => {
                    let (row, room) = (view.row_of(line), view.height());
                    view.place_entry(line, height);
                    let height = view.entry().unwrap().1;
                    let fits = |row: &u16| {
                        let top = line.checked_sub((*row).into()).filter(|top| *top >= first);
                        row + 1 + height <= room
                            && top.is_some_and(|top| top + u64::from(room) <= end + u64::from(height))
                    };
                    if let Some(row) = row.filter(fits) {
                        prop_assert_eq!(view.row_of(line), Some(row), "visible, with room: it stays");
                    }
                }
                Deed::Height(height) => view.set_entry_height(height),
                Deed::Close => view.close_entry(),
            }
            view.set_lines(first..end);
            check(&view)?;
            if let Some(last) = view.lines().last().filter(|_| view.is_following()) {
                prop_assert!(view.row_of(last).is_some() && view.is_at_end(), "it follows");
            }
        }
    }
}

#[test]
fn renumbered_lines_keep_their_rows() {
    let mut view = view(50, 10);
    view.place_entry(20, 4);
    let before: Vec<Row> = view.rows().collect();
    let moved = |by: u64| {
        before.iter().map(move |row| match *row {
            Row::Line { number, dimmed } => Row::Line { number: number + by, dimmed },
            other => other,
        })
    };
    view.renumber(1000);
    view.set_lines(0..1050);
    assert!(view.rows().eq(moved(1000)));
    assert_eq!(view.entry_line(), Some(1020));
    // At the end of all lines the entry stays there.
    view.place_entry_at_end(4);
    view.renumber(5000);
    view.set_lines(0..6050);
    assert!(view.is_at_end() && view.rows().any(|row| matches!(row, Row::Entry(_))));
    assert_eq!(
        view.rows().find_map(|row| if let Row::Line { number, .. } = row { Some(number) } else { None }),
        Some(6044)
    );
}
