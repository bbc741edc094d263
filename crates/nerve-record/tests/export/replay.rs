//! Replay: sizes, gaps, snapshot positions and clocks.

use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};

use crate::{data, reader, record, recording, replayed, resize, snapshot};

#[test]
fn recorded_size_applies_from_first_byte() {
    let replay = replayed(&recording(&[(0, resize(10, 3)), (1, data(0, "0123456789ab"))]));
    assert_eq!(replay.terminal.size(), Size::new(10, 3));
    assert_eq!(replay.terminal.screen().text(), "0123456789\nab");
}

#[test]
fn missing_output_is_a_gap() {
    let replay = replayed(&recording(&[(0, data(0, "one \x1b]0;cut")), (1, data(1000, "two"))]));
    assert_eq!((replay.terminal.offset(), replay.terminal.screen().text().as_str()), (1003, "one two"));
}

#[test]
fn damage_loses_only_damaged_output() {
    let mut file = recording(&[(0, data(0, "one ")), (1, data(4, "two ")), (2, data(8, "three"))]);
    let middle = file.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"AHRC").nth(1).unwrap().0;
    file[middle + 46] ^= 0x55;
    let mut lost = Vec::new();
    let replay = TerminalReplay::read_all(&mut reader(&file), |stretch| lost.push(stretch.clone())).unwrap();
    assert_eq!(replay.terminal.screen().text(), "one three");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].output, Some(4..8));
}

#[test]
fn snapshot_is_bound_at_its_offset() {
    // The record precedes its offset: within, at the end of, and after the output that follows.
    let replay = replayed(&recording(&[
        (0, snapshot(1, 5, "")),
        (1, snapshot(2, 8, "")),
        (2, snapshot(3, 99, "")),
        (3, data(0, "one\r\ntwo\r\nx")),
        (4, snapshot(4, 0, "late")),
    ]));
    let snapshots: Vec<_> = replay
        .terminal
        .snapshots_by_time()
        .into_iter()
        .map(|(line, snapshot)| (snapshot.id, line.0, snapshot.col))
        .collect();
    assert_eq!(snapshots, [(1, 1, 0), (2, 1, 3), (4, 2, 1), (3, 2, 1)]);
}

#[test]
fn clock_never_decreases() {
    let mut replay = TerminalReplay::new(Size::default());
    replay.apply(&record(500, data(0, "a\x1b[?2026hb")));
    replay.apply(&record(0, data(10, "c")));
    assert_eq!(replay.clock(), record(500, data(0, "")).at);
    // An update left open is shown after 150 ms, as in a live terminal.
    assert_eq!(replay.terminal.screen().text(), "a");
    replay.wait_until(TsNs(replay.clock().0 + 150_000_000));
    assert_eq!(replay.terminal.screen().text(), "abc");
}

#[test]
fn scrollback_limit_applies() {
    let mut replay = TerminalReplay::new(Size::new(20, 2)).with_limits(3, 0);
    replay.apply(&record(0, data(0, "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7")));
    assert_eq!(replay.terminal.first_kept_line().0, 2);
}
