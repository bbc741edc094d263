//! Pages of output: dump and pages together show what a replay shows.

use std::path::Path;

use nerve_record::ahr::{Body, Writer};
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::output_page::{ChunkContent, OutputPage};
use nerve_record::playback::Playback;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use crate::{GeneratedRecording, START, replay_from_start, write_file};

const PAGE: usize = 64 << 10;

/// A terminal that is fed with a dump and pages, as a client does.
struct Client {
    terminal: TerminalState,
    offset: u64,
}

impl Client {
    fn at(path: &Path, to: Position) -> Client {
        let mut play = Playback::open(path, Size::default()).unwrap();
        play.seek(to).unwrap();
        let mut terminal = TerminalState::new(play.replay().terminal.size());
        terminal.process_data(TsNs(0), &play.dump());
        Client { terminal, offset: play.replay().terminal.offset() }
    }

    fn show(&mut self, page: &OutputPage) {
        for chunk in &page.chunks {
            match &chunk.content {
                ChunkContent::Output(bytes) => {
                    self.terminal.process_data(chunk.at, bytes);
                }
                ChunkContent::Resize(size) => self.terminal.resize(*size),
            }
        }
        self.offset = page.next_offset;
    }

    /// Shows all pages up to an offset.
    fn play_until(&mut self, path: &Path, end: u64) {
        let index = Index::ensure(path).unwrap();
        while self.offset < end {
            let limit = PAGE.min((end - self.offset) as usize);
            let play = Playback::open(path, Size::default()).unwrap();
            let page = play.page_at(index.as_ref(), self.offset, limit).unwrap();
            assert!(page.next_offset > self.offset && page.next_offset <= end, "no progress");
            self.show(&page);
        }
    }

    fn assert_shows(&self, path: &Path, to: Position) {
        let replay = replay_from_start(path, to);
        assert_eq!(self.terminal.screen().text(), replay.terminal.screen().text(), "{to:?}");
    }
}

fn long_recording(dir: &Path) -> (std::path::PathBuf, GeneratedRecording) {
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < SPACING + SPACING / 2 {
        generated.burst();
        if generated.random(100) == 0 {
            let (cols, rows) = (40 + generated.random(40) as u16, 10 + generated.random(10) as u16);
            generated.push(Body::Resize { cols, rows });
        }
    }
    let path = dir.join("long.ahr");
    write_file(&path, &generated.bytes());
    (path, generated)
}

#[test]
fn dump_at_any_offset_equals_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut generated) = long_recording(dir.path());
    let end = generated.segment.end();
    for round in 0..12 {
        let to = match round {
            0..8 => Position::Offset(generated.random(end)),
            _ => Position::Time(TsNs(START + generated.random(generated.at - START))),
        };
        let mut client = Client::at(&path, to);
        client.assert_shows(&path, to);
        // Also within a sequence or a character, the output continues as it would have.
        let later = (client.offset + 3000).min(end);
        client.play_until(&path, later);
        client.assert_shows(&path, Position::Offset(later));
    }
}

#[test]
fn pages_join_without_gap_and_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let (path, generated) = long_recording(dir.path());
    let end = generated.segment.end();
    let mut play = Playback::open(&path, Size::default()).unwrap();
    play.seek(Position::Offset(SPACING - 777)).unwrap();
    let mut page = play.into_page(PAGE).unwrap();
    let (mut next, mut last) = (SPACING - 777, TsNs(0));
    let index = Index::ensure(&path).unwrap();
    loop {
        let mut bytes = 0;
        for chunk in &page.chunks {
            assert_eq!(chunk.offset, next);
            assert!(chunk.at >= last, "times decrease");
            last = chunk.at;
            if let ChunkContent::Output(output) = &chunk.content {
                bytes += output.len();
                next += output.len() as u64;
            }
        }
        assert_eq!((page.next_offset, bytes <= PAGE), (next, true));
        if page.is_end {
            break;
        }
        assert_eq!(bytes, PAGE);
        page = Playback::open(&path, Size::default())
            .unwrap()
            .page_at(index.as_ref(), page.next_offset, PAGE)
            .unwrap();
    }
    assert_eq!(next, end);
}

#[test]
fn page_at_the_end_continues_when_the_recording_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("growing.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let mut generated = GeneratedRecording::new(Size::new(20, 5));
    generated.output(b"one");
    generated.write(&mut writer);
    let page = |offset| Playback::open(&path, Size::default()).unwrap().page_at(None, offset, PAGE).unwrap();
    let first = page(0);
    assert_eq!((first.is_end, first.next_offset, first.chunks.len()), (true, 3, 2));
    assert!(page(3).chunks.is_empty() && page(3).is_end);
    // A resize has no offset of its own.
    generated.push(Body::Resize { cols: 30, rows: 6 });
    generated.output(b"two");
    generated.write(&mut writer);
    let contents: Vec<ChunkContent> = page(3).chunks.into_iter().map(|chunk| chunk.content).collect();
    assert_eq!(contents, [ChunkContent::Resize(Size::new(30, 6)), ChunkContent::Output(b"two".to_vec())]);
}

#[test]
fn page_across_damage_reports_it_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (path, generated) = long_recording(dir.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0x55);
    write_file(&path, &bytes);
    let (mut next, mut ends, mut lost) = (0, Vec::new(), Vec::new());
    loop {
        let play = Playback::open(&path, Size::default()).unwrap();
        let page = play.page_at(None, next, PAGE).unwrap();
        lost.extend(page.lost);
        for chunk in &page.chunks {
            if let ChunkContent::Output(bytes) = &chunk.content {
                ends.push((chunk.offset, chunk.offset + bytes.len() as u64));
            }
        }
        next = page.next_offset;
        if page.is_end {
            break;
        }
    }
    assert_eq!(next, generated.segment.end());
    let missing = lost[0].output.clone().unwrap();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(ends.iter().any(|(_, end)| *end == missing.start));
    assert!(ends.iter().any(|(start, _)| *start == missing.end));
}

#[test]
fn index_is_extended_in_steps_until_it_reaches_a_position() {
    let dir = tempfile::tempdir().unwrap();
    let (path, generated) = long_recording(dir.path());
    let to = Position::Offset(generated.segment.end() - 1);
    let step = 1 << 20;
    assert!(!Index::extend(&path, to, step).unwrap());
    let first = Index::open(&path).unwrap().end().0;
    assert!((step..2 * step).contains(&first), "{first}");
    // What is covered can be reached already.
    assert!(Index::extend(&path, Position::Offset(first / 2), step).unwrap());
    let mut steps = 1;
    while !Index::extend(&path, to, step).unwrap() {
        steps += 1;
    }
    assert!((2..10).contains(&steps), "{steps}");
    let index = Index::open(&path).unwrap();
    let mut play = Playback::open(&path, Size::default()).unwrap();
    play.seek_with(Some(&index), to).unwrap();
    assert_eq!(play.replay().terminal.screen(), replay_from_start(&path, to).terminal.screen());
}
