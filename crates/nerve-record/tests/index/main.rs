//! Tests of the index, of playing and seeking, and of the library.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod library;
mod near_end;
mod pages;
mod seeking;
mod sidecar;
mod timeline;

use std::fs;
use std::path::Path;

use nerve_record::ahr::{Body, Part, Reader, Record, Segment, Writer};
use nerve_record::index::Position;
use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};

/// Start time of the recordings.
const START: u64 = 1_710_000_000_000_000_000;

/// A recording with deterministic pseudo-random output that is cheap to replay.
struct GeneratedRecording {
    segment: Segment,
    blocks: Vec<Vec<u8>>,
    at: u64,
    state: u64,
}

impl GeneratedRecording {
    fn new(size: Size) -> GeneratedRecording {
        let mut generated =
            GeneratedRecording { segment: Segment::new(0), blocks: Vec::new(), at: START, state: 7 };
        generated.push(Body::Resize { cols: size.cols, rows: size.rows });
        generated
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn push(&mut self, body: Body<'_>) {
        self.segment.push(&Record { at: TsNs(self.at), body }).unwrap();
        if self.segment.is_full() {
            self.seal();
        }
    }

    fn seal(&mut self) {
        self.blocks.push(self.segment.seal(1, false));
        self.segment = Segment::new(self.segment.end());
    }

    fn output(&mut self, bytes: &[u8]) {
        self.push(Body::Data { off: self.segment.end(), bytes });
    }

    /// Appends about 4 KiB of typical agent output, split anywhere: in sequences, characters and frames.
    fn burst(&mut self) {
        const PIECES: [&str; 12] = [
            "some words of an answer ",
            "\r\n",
            "\x1b[1;31mred\x1b[0m ",
            "\x1b[2K\r",
            "日本語 ",
            "\x1b[?2026h\x1b[3;1Hframe\x1b[?2026l",
            "\x1b[10;5H",
            "\x1b]0;a title\x07",
            "👩\u{200d}👩\u{200d}👧 e\u{301}",
            "\x1b[4b",
            "\x1b7\x1b[1;1Hcorner\x1b8",
            "\x1b[38;5;200mindexed\x1b[m\r\n",
        ];
        let mut text = String::new();
        while text.len() < 4096 {
            text.push_str(PIECES[self.random(12) as usize]);
            if self.random(400) == 0 {
                text.push_str("\x1b[?1049h\x1b[2Jin the alternate screen\x1b[?1049l");
            }
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((self.random(1500) as usize + 1).min(rest.len()));
            self.at += self.random(4_000_000);
            self.output(piece);
            rest = more;
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        if !self.segment.is_empty() {
            self.seal();
        }
        self.blocks.concat()
    }

    /// Writes what was generated since the last call.
    fn write(&mut self, writer: &mut Writer) {
        let bytes = self.bytes();
        self.blocks.clear();
        writer.append(&bytes).unwrap();
    }
}

/// Replays from the start to a position.
fn replay_from_start(path: &Path, to: Position) -> TerminalReplay {
    let mut reader = Reader::open(path).unwrap();
    let mut replay = TerminalReplay::new(Size::default());
    while let Some(part) = reader.next().unwrap() {
        let Part::Block(block) = part else { continue };
        for record in block.records() {
            match (to, record.body) {
                (Position::Time(at), _) if record.at.max(replay.clock()) > at => return replay,
                (Position::Offset(to), Body::Data { off, bytes }) if off + bytes.len() as u64 > to => {
                    let body = Body::Data { off, bytes: &bytes[..(to.saturating_sub(off)) as usize] };
                    if to > off {
                        replay.apply(&Record { body, ..record });
                    }
                    return replay;
                }
                _ => {}
            }
            replay.apply(&record);
        }
    }
    replay.finish();
    replay
}

fn write_file(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
