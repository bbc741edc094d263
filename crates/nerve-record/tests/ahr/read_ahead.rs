use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nerve_record::ahr::{HEADER_LEN, Part, Reader};
use nerve_testkit::{DEADLINE, wait_until};

use super::{counting, data, lost, noise, read, sealed, shape};

/// Passes two parts to the caller, which stops when the second thread has read up to `end`.
fn read_two<R: Read + Seek + Send>(reader: &mut Reader<TestFile<R>>, read_end: &AtomicU64, end: usize) {
    let mut count = 0;
    let process = |_| {
        count += 1;
        let has_read = || read_end.load(Ordering::Relaxed) >= end as u64;
        assert!(count < 2 || wait_until(DEADLINE, has_read));
        Ok(count < 2)
    };
    reader.read_ahead(process).unwrap();
}

/// A file that notes the end of the last read, and fails reads that begin at a given offset.
struct TestFile<R> {
    inner: R,
    read_end: Arc<AtomicU64>,
    fail_at: Arc<AtomicU64>,
}

impl<R: Read + Seek> TestFile<R> {
    fn new(inner: R) -> TestFile<R> {
        let (read_end, fail_at) = (Arc::default(), Arc::new(AtomicU64::new(u64::MAX)));
        TestFile { inner, read_end, fail_at }
    }
}

impl<R: Read + Seek> Read for TestFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inner.stream_position()? == self.fail_at.load(Ordering::Relaxed) {
            return Err(io::Error::other("the test's own"));
        }
        let len = self.inner.read(buffer)?;
        self.read_end.fetch_max(self.inner.stream_position()?, Ordering::Relaxed);
        Ok(len)
    }
}

impl<R: Seek> Seek for TestFile<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

fn offset(part: &Part) -> u64 {
    let Part::Block(block) = part else { panic!("{part:?}") };
    block.file_off
}

#[test]
fn parts_read_ahead_are_returned_later() {
    let file = counting(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut all = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        all.push(offset(&part));
    }
    for stop in 1..=all.len() {
        let mut reader = Reader::new(Cursor::new(&file)).unwrap();
        let mut seen = Vec::new();
        let mut see_until = |reader: &mut Reader<_>, stop: usize| {
            let process = |part: Part| {
                seen.push(offset(&part));
                Ok(seen.len() < stop)
            };
            reader.read_ahead(process).unwrap();
            seen.clone()
        };
        assert_eq!(see_until(&mut reader, stop), all[..stop]);
        assert_eq!(see_until(&mut reader, usize::MAX), all);
    }
}

#[test]
fn seek_discards_parts_read_ahead() {
    let file = counting(&[1, 2, 3, 4, 5, 6]).concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut count = 0;
    let two = |_| {
        count += 1;
        Ok(count < 2)
    };
    reader.read_ahead(two).unwrap();
    reader.seek_to(0).unwrap();
    assert_eq!(offset(&reader.next().unwrap().unwrap()), 0);
}

#[test]
fn panic_of_caller_ends_reading_ahead() {
    let file = counting(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut count = 0;
    let process = |_| {
        count += 1;
        assert!(count < 2, "the test's own");
        Ok(true)
    };
    assert!(catch_unwind(AssertUnwindSafe(|| reader.read_ahead(process))).is_err());
}

#[test]
fn damage_is_read_as_without_reading_ahead() {
    let mut blocks = counting(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for damaged in [2, 3, 6] {
        blocks[damaged][HEADER_LEN] ^= 0xff;
    }
    let file = [blocks.concat(), counting(&[9])[0][..50].to_vec()].concat();
    let mut parts = Vec::new();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let process = |part| {
        parts.push(part);
        Ok(true)
    };
    reader.read_ahead(process).unwrap();
    assert_eq!(shape(&parts), "BBLBBLBBL");
    assert_eq!(lost(&parts), lost(&read(&file)));
}

#[test]
fn damage_is_not_searched_in_advance() {
    let blocks = counting(&[1, 2, 3]).concat();
    let damage = blocks.len();
    let file = TestFile::new(Cursor::new([blocks, noise(1, 1 << 20)].concat()));
    let read_end = file.read_end.clone();
    let mut reader = Reader::new(file).unwrap();
    read_two(&mut reader, &read_end, damage + 1);
    let read_end = read_end.load(Ordering::Relaxed);
    assert!(read_end <= (damage + HEADER_LEN) as u64, "read up to {read_end}, intact up to {damage}");
}

#[test]
fn parts_read_ahead_do_not_count_yet() {
    let mut blocks = counting(&[1, 2, 3]);
    blocks.push(sealed(&[data(100, 999, b"x")]));
    let place = (blocks[0].len() + blocks[1].len()) as u64;
    let (file, len) = (TestFile::new(Cursor::new(blocks.concat())), blocks.concat().len());
    let read_end = file.read_end.clone();
    let mut reader = Reader::new(file).unwrap();
    read_two(&mut reader, &read_end, len);
    assert_eq!((reader.position(), reader.contradictions().count()), (place, 0));
    reader.read_ahead(|_| Ok(true)).unwrap();
    assert_eq!((reader.position(), reader.contradictions().count()), (len as u64, 1));
}

#[test]
fn unfinished_block_completed_meanwhile_is_not_lost() {
    let [one, two, three, four] = counting(&[1, 2, 3, 4]).try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.ahr");
    let unfinished = [&one, &two, &three, &four[..50]].concat();
    fs::write(&path, &unfinished).unwrap();
    let file = TestFile::new(File::open(&path).unwrap());
    let read_end = file.read_end.clone();
    let mut reader = Reader::new(file).unwrap();
    read_two(&mut reader, &read_end, unfinished.len());
    File::options().append(true).open(&path).unwrap().write_all(&four[50..]).unwrap();
    let mut parts = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        parts.push(part);
    }
    assert_eq!(shape(&parts), "BB");
}

#[test]
fn read_error_after_damage_does_not_repeat_loss() {
    let blocks = counting(&[1, 2]);
    let damage = noise(1, 1000);
    let file = TestFile::new(Cursor::new([&damage[..], &blocks.concat()].concat()));
    let fail_at = file.fail_at.clone();
    let mut reader = Reader::new(file).unwrap();
    assert!(matches!(reader.next().unwrap(), Some(Part::Lost(_))));
    fail_at.store((damage.len() + blocks[0].len()) as u64, Ordering::Relaxed);
    assert!(reader.next().is_err());
    fail_at.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(offset(&reader.next().unwrap().unwrap()), damage.len() as u64);
}
