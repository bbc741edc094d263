//! Reading a recording while it is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nerve_record::ahr::{Part, Reader, Segment, Writer};
use tempfile::TempDir;

use super::{counting, data, noise};

#[test]
fn unfinished_block_is_reported_once_then_read() {
    let [one, two, three] = counting(&[1, 2, 3]).try_into().unwrap();
    for cut in [1, 3, 4, 20, 43, 44, 45, two.len() - 1] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("growing.ahr");
        fs::write(&path, &one).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert!(matches!(reader.next().unwrap(), Some(Part::Block(_))));
        assert!(reader.next().unwrap().is_none());

        file.write_all(&two[..cut]).unwrap();
        let Some(Part::Lost(lost)) = reader.next().unwrap() else { panic!("cut at {cut}: no loss reported") };
        assert!(lost.tail, "cut at {cut}: {lost}");
        assert_eq!(lost.file, one.len() as u64..(one.len() + cut) as u64);
        assert!(reader.next().unwrap().is_none(), "cut at {cut}: reported twice");
        if cut + 1 < two.len() {
            file.write_all(&two[cut..=cut]).unwrap();
            assert!(reader.next().unwrap().is_none(), "cut at {cut}: reported again after one more byte");
        }

        let written = (cut + 1).min(two.len() - 1).max(cut);
        file.write_all(&two[written..]).unwrap();
        file.write_all(&three).unwrap();
        for block in [&one, &two] {
            let Some(Part::Block(read)) = reader.next().unwrap() else { panic!("cut at {cut}: no block") };
            assert!(read.file_off >= block.len() as u64);
        }
        assert!(reader.next().unwrap().is_none());
    }
}

/// Writes a block and the beginning of another one, and reads both.
fn read_unfinished(folder: &TempDir, bytes: &[u8]) -> (PathBuf, Reader<BufReader<File>>) {
    let path = folder.path().join("growing.ahr");
    fs::write(&path, bytes).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.next().unwrap(), Some(Part::Block(_))));
    assert!(matches!(reader.next().unwrap(), Some(Part::Lost(lost)) if lost.tail));
    (path, reader)
}

#[test]
fn unfinished_block_with_successors_becomes_damage() {
    let [one, two, three] = counting(&[1, 2, 3]).try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, mut reader) = read_unfinished(&folder, &[&one, &two[..50]].concat());
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&three).unwrap();
    let Some(Part::Lost(lost)) = reader.next().unwrap() else { panic!("no loss") };
    assert!(!lost.tail);
    assert_eq!((lost.file, lost.output), (one.len() as u64..one.len() as u64 + 50, Some(101..203)));
    assert!(matches!(reader.next().unwrap(), Some(Part::Block(_))));
}

#[test]
fn truncated_and_rewritten_block_is_read() {
    let [one, two, three] = counting(&[1, 2, 3]).try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, mut reader) = read_unfinished(&folder, &[&one, &two[..50]].concat());
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(one.len() as u64).unwrap();
    assert!(reader.next().unwrap().is_none());
    file.write_all(&three).unwrap();
    let Some(Part::Block(block)) = reader.next().unwrap() else { panic!("no block") };
    assert_eq!(block.output(), 203..306);
}

/// A file that becomes complete as soon as its end was reached once: the writer overtakes the reader.
struct Overtaken {
    bytes: Vec<u8>,
    at: usize,
    visible: usize,
}

impl Read for Overtaken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.bytes[self.at..self.visible]).read(buffer)?;
        self.at += count;
        if count == 0 {
            self.visible = self.bytes.len();
        }
        Ok(count)
    }
}

impl Seek for Overtaken {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut cursor = io::Cursor::new(&self.bytes[..self.visible]);
        cursor.set_position(self.at as u64);
        let at = cursor.seek(to)?;
        self.at = usize::try_from(at).unwrap().min(self.visible);
        Ok(at)
    }
}

#[test]
fn block_finished_during_search_is_not_lost() {
    let blocks = counting(&[1, 2, 3]);
    let (one, two) = (blocks[0].len(), blocks[1].len());
    for cut in [1, 3, 4, 20, 43, 44, 45, two - 1] {
        let source = Overtaken { bytes: blocks.concat(), at: 0, visible: one + cut };
        let mut reader = Reader::new(source).unwrap();
        for block in 0..blocks.len() {
            let part = reader.next().unwrap();
            assert!(matches!(part, Some(Part::Block(_))), "cut at {cut}, block {block}: {part:?}");
        }
        assert!(reader.next().unwrap().is_none());
    }
}

/// Recorder and viewer as two threads: everything arrives once and in order.
#[test]
fn concurrent_reader_gets_every_byte() {
    const BLOCKS: u64 = 200;
    const EACH: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let recorder = thread::spawn(move || {
        for n in 0..BLOCKS {
            let bytes = noise(n + 1, EACH);
            let mut segment = Segment::new(n * EACH as u64);
            segment.push(&data(n, n * EACH as u64, &bytes)).unwrap();
            writer.append(&segment.seal(1, n + 1 == BLOCKS)).unwrap();
        }
    });

    let mut reader = Reader::open(&path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut next, mut is_last) = (0, false);
    while !is_last {
        assert!(Instant::now() < deadline, "no block {next}");
        match reader.next().unwrap() {
            None => thread::yield_now(),
            Some(Part::Lost(lost)) => assert!(lost.tail, "{lost}"),
            Some(Part::Block(block)) => {
                assert_eq!(block.output(), next * EACH as u64..(next + 1) * EACH as u64);
                next += 1;
                is_last = block.header.last;
            }
        }
    }
    assert_eq!(next, BLOCKS);
    recorder.join().unwrap();
    assert_eq!(reader.file_len().unwrap(), File::open(&path).unwrap().metadata().unwrap().len());
}
