//! Feeds output to a terminal, in pieces and with resizes in between. Invariants hold, and a keyframe restores the screen.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::pieces;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};

/// Rows of scrollback that are kept.
const ROWS: u64 = 50;

fuzz_target!(|data: &[u8]| {
    let Some((&[cols, rows], output)) = data.split_first_chunk() else { return };
    let size = |cols: u8, rows: u8| Size::new(u16::from(cols % 100) + 1, u16::from(rows % 50) + 1);
    let mut terminal = TerminalState::new(size(cols, rows)).with_limits(ROWS, 1 << 20);
    for piece in pieces(output) {
        // No output of a program is a resize; here, its first byte says so.
        if let [0xff, cols, rows, ..] = *piece {
            terminal.resize(size(cols, rows));
        }
        let _ = terminal.process_data(TsNs(0), piece);
    }
    terminal.expire_frame(TsNs(u64::MAX));
    let screen = terminal.screen();
    assert_eq!(screen.rows.len(), usize::from(screen.size.rows));
    assert!(screen.cursor.row < screen.size.rows && screen.cursor.col < screen.size.cols);
    assert!(terminal.first_kept_line().0 <= screen.first_line);
    assert!(screen.first_line - terminal.first_kept_line().0 <= ROWS);
    for row in &screen.rows {
        assert!(row.runs.iter().map(|run| run.len).sum::<u16>() <= screen.size.cols);
    }
    let _ = (terminal.text(LineIndex(0)..LineIndex(u64::MAX)), terminal.tail(9));
    let mut copy = TerminalState::new(screen.size);
    let _ = copy.process_data(TsNs(0), &terminal.dump_with_scrollback(20, 1 << 16));
    if let Some(keyframe) = terminal.keyframe(TsNs(0)) {
        let _ = TerminalState::from_keyframe(&keyframe).screen();
    }
});
