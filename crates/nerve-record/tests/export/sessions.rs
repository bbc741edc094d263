//! Replays recorded sessions of real agents and compares them with the live terminal.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use nerve_record::ahr::{Body, Reader, Record, Segment};
use nerve_record::export::{CastOptions, CastVersion, cast};
use nerve_record::import::import;
use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};

use crate::START;

const SESSIONS: [&str; 7] = [
    "claude/classic-modern",
    "claude/classic-noanswer",
    "claude/fs-noanswer",
    "codex/default-none",
    "codex/inline-none",
    "gemini/default-modern",
    "opencode/default-modern",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-vt/tests/fixtures/recordings").join(name)
}

/// Returns times and bytes of the session's output.
fn session(name: &str) -> Vec<(TsNs, Vec<u8>)> {
    let raw = fs::read(fixture(&format!("{name}.raw"))).unwrap();
    let timing = fs::read_to_string(fixture(&format!("{name}.timing"))).unwrap();
    let (mut at, mut rest) = (START, raw.as_slice());
    let mut pieces = Vec::new();
    for line in timing.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        at += (fields[1].parse::<f64>().unwrap() * 1e9) as u64;
        if fields[0] == "O" {
            let (piece, more) = rest.split_at(fields[2].parse().unwrap());
            pieces.push((TsNs(at), piece.to_vec()));
            rest = more;
        }
    }
    assert!(rest.is_empty() && pieces.len() > 50, "{name}: {} bytes left", rest.len());
    pieces
}

fn record_session(pieces: &[(TsNs, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut segment = Segment::new(0);
    segment.push(&Record { at: TsNs(START), body: Body::Resize { cols: 120, rows: 40 } }).unwrap();
    for (at, bytes) in pieces {
        if segment.len() > 20_000 {
            file.extend(segment.seal(4, false));
            segment = Segment::new(segment.end());
        }
        segment.push(&Record { at: *at, body: Body::Data { off: segment.end(), bytes } }).unwrap();
    }
    file.extend(segment.seal(4, true));
    file
}

/// Feeds a terminal as in the live session.
fn live(pieces: &[(TsNs, Vec<u8>)]) -> TerminalState {
    let mut terminal = TerminalState::new(Size::default());
    for (at, bytes) in pieces {
        terminal.expire_frame(*at);
        terminal.process_data(*at, bytes);
    }
    terminal
}

fn assert_same(one: &TerminalState, other: &TerminalState, name: &str) {
    assert_eq!(one.screen(), other.screen(), "{name}");
    assert_eq!(one.line_count(), other.line_count(), "{name}");
    for line in one.first_kept_line().0..one.line_count() {
        assert_eq!(
            one.line_content(LineIndex(line)),
            other.line_content(LineIndex(line)),
            "{name} line {line}"
        );
    }
}

#[test]
fn replay_matches_live_session() {
    for name in SESSIONS {
        let pieces = session(name);
        let file = record_session(&pieces);
        let mut reader = Reader::new(Cursor::new(&file)).unwrap();
        let replay = TerminalReplay::read_all(&mut reader, |lost| panic!("{lost}")).unwrap();
        assert_same(&replay.terminal, &live(&pieces), name);
    }
}

#[test]
fn session_survives_export_and_import() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, name) in SESSIONS.iter().enumerate() {
        let pieces = session(name);
        let file = record_session(&pieces);
        let version = [CastVersion::V2, CastVersion::V3][nth % 2];
        let mut text = Vec::new();
        let mut reader = Reader::new(Cursor::new(&file)).unwrap();
        cast(&mut reader, CastOptions::new(version), &mut text, |lost| panic!("{lost}")).unwrap();
        let path = dir.path().join(format!("{nth}.ahr"));
        let summary = import(text.as_slice(), &path, TsNs(0)).unwrap();
        assert_eq!(summary.output, pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>(), "{name}");
        let replay =
            TerminalReplay::read_all(&mut Reader::open(&path).unwrap(), |lost| panic!("{lost}")).unwrap();
        assert_same(&replay.terminal, &live(&pieces), name);
    }
}
