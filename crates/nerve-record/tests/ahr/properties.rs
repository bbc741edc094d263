//! Properties that hold for all records and all damage.

use std::io::Cursor;
use std::ops::Range;

use nerve_record::ahr::{Body, HEADER_LEN, Mark, Part, Reader, Record, Segment};
use nerve_types::TsNs;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{blocks, data, read, records, shape};

/// A record that owns its bytes.
#[derive(Debug, Clone)]
enum Owned {
    Data(u64, u64, Vec<u8>),
    Resize(u64, u16, u16),
    Input(u64, Vec<u8>),
    Mark(u64, u32, u32),
    Snapshot(u64, u64, u64, Vec<u8>),
}

impl Owned {
    fn record(&self) -> Record<'_> {
        let (at, body) = match self {
            Owned::Data(at, off, bytes) => (at, Body::Data { off: *off, bytes }),
            Owned::Resize(at, cols, rows) => (at, Body::Resize { cols: *cols, rows: *rows }),
            Owned::Input(at, bytes) => (at, Body::Input { bytes }),
            Owned::Mark(at, code, val) => (at, Body::Mark(Mark::from_parts(*code, *val))),
            Owned::Snapshot(at, id, anchor, label) => {
                (at, Body::Snapshot { id: *id, anchor: *anchor, label })
            }
        };
        Record { at: TsNs(*at), body }
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        (any::<u8>(), 0..5000_usize).prop_map(|(byte, len)| vec![byte; len]),
        // Fragments of the format itself.
        Just(b"AHRC\x01\x00\x2c\x00".to_vec()),
    ]
}

/// Times of one session: others contradict each other.
fn time() -> impl Strategy<Value = u64> {
    crate::START..crate::START + 60_000_000_000
}

fn record() -> impl Strategy<Value = Owned> {
    prop_oneof![
        (time(), any::<u64>(), bytes()).prop_map(|(at, off, bytes)| Owned::Data(at, off, bytes)),
        (time(), any::<u16>(), any::<u16>()).prop_map(|(at, cols, rows)| Owned::Resize(at, cols, rows)),
        (time(), bytes()).prop_map(|(at, bytes)| Owned::Input(at, bytes)),
        (time(), prop_oneof![0..5_u32, any::<u32>()], prop_oneof![0..0x210_u32, any::<u32>()])
            .prop_map(|(at, code, val)| Owned::Mark(at, code, val)),
        (time(), any::<u64>(), any::<u64>(), bytes())
            .prop_map(|(at, id, anchor, label)| Owned::Snapshot(at, id, anchor, label)),
    ]
}

/// Generates a recording as a recorder writes it: with continuous output offsets.
fn recording() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec((vec(bytes(), 0..4), any::<bool>()), 1..8).prop_map(|blocks| {
        let (mut off, mut millis) = (0, 0);
        let mut sealed = Vec::new();
        for (chunks, snapshot) in blocks {
            let mut segment = Segment::starting_at(off, super::at(millis));
            for chunk in &chunks {
                segment.push(&data(millis, off, chunk)).unwrap();
                off += chunk.len() as u64;
                millis += 7;
            }
            if snapshot {
                let body = Body::Snapshot { id: millis, anchor: off, label: b"s" };
                segment.push(&Record { at: super::at(millis), body }).unwrap();
            }
            millis += 1;
            sealed.push(segment.seal(4, false));
        }
        sealed
    })
}

/// Damage at a position, given as a fraction of the file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(f64, u8),
    Zero(f64, usize),
    Overwrite(f64, Vec<u8>),
    Insert(f64, Vec<u8>),
    Remove(f64, usize),
    Cut(f64),
}

impl Damage {
    /// Applies the damage; returns the range of affected bytes in the original file.
    fn apply(&self, file: &mut Vec<u8>) -> Range<usize> {
        let len = file.len();
        let position = |share: &f64| ((*share * len as f64) as usize).min(len.saturating_sub(1));
        match self {
            Damage::Flip(share, bits) => {
                file[position(share)] ^= bits;
                position(share)..position(share) + 1
            }
            Damage::Zero(share, count) => {
                let range = position(share)..(position(share) + count).min(len);
                file[range.clone()].fill(0);
                range
            }
            Damage::Overwrite(share, bytes) => {
                let range = position(share)..(position(share) + bytes.len()).min(len);
                file[range.clone()].copy_from_slice(&bytes[..range.len()]);
                range
            }
            Damage::Insert(share, bytes) => {
                file.splice(position(share)..position(share), bytes.iter().copied());
                position(share)..position(share)
            }
            Damage::Remove(share, count) => {
                let range = position(share)..(position(share) + count).min(len);
                file.drain(range.clone());
                range
            }
            Damage::Cut(share) => {
                file.truncate(position(share));
                position(share)..len
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let share = || 0.0..1.0_f64;
    prop_oneof![
        4 => (share(), 1..=255_u8).prop_map(|(share, bits)| Damage::Flip(share, bits)),
        1 => (share(), 1..3000_usize).prop_map(|(share, count)| Damage::Zero(share, count)),
        2 => (share(), bytes()).prop_map(|(share, bytes)| Damage::Overwrite(share, bytes)),
        2 => (share(), bytes()).prop_map(|(share, bytes)| Damage::Insert(share, bytes)),
        1 => (share(), 1..3000_usize).prop_map(|(share, count)| Damage::Remove(share, count)),
        1 => share().prop_map(Damage::Cut),
    ]
}

/// Returns the segment bytes of all records of a block, for comparing blocks.
fn content(block: &nerve_record::ahr::Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in block.records() {
        record.encode(&mut bytes).unwrap();
    }
    bytes
}

proptest! {
    #[test]
    fn pushed_records_round_trip(owned in vec(record(), 0..40), quality in 0..=6_u8, last: bool, off: u64) {
        let mut segment = Segment::new(off);
        let mut length = 0;
        for owned in &owned {
            segment.push(&owned.record()).unwrap();
            length += owned.record().encoded_len();
        }
        prop_assert_eq!(segment.len(), length);
        let sealed = segment.seal(quality, last);
        let parts = read(&sealed);
        prop_assert_eq!(shape(&parts), "B");
        let expected: Vec<Record<'_>> = owned.iter().map(Owned::record).collect();
        prop_assert_eq!(records(&parts), expected);
        let block = blocks(&parts)[0];
        prop_assert_eq!(block.damage(), None);
        prop_assert_eq!(block.file(), 0..sealed.len() as u64);
        prop_assert!(block.header.encode()[..] == sealed[..44]);
        prop_assert_eq!((block.header.last, block.header.records as usize), (last, owned.len()));
        prop_assert_eq!(block.header.start_off, segment.start());
    }

    #[test]
    fn marks_keep_their_numbers(code: u32, val: u32) {
        prop_assert_eq!(Mark::from_parts(code, val).parts(), (code, val));
    }

    /// A single damage loses no other block, invents nothing, and every byte of the file is accounted for.
    #[test]
    fn damage_loses_only_the_touched_blocks(recording in recording(), damage in damage()) {
        let mut file = recording.concat();
        let before = read(&file);
        let touched = damage.apply(&mut file);
        let untouched: Vec<Vec<u8>> = blocks(&before)
            .into_iter()
            .filter(|block| {
                let range = block.file();
                let (start, end) = (range.start as usize, range.end as usize);
                end <= touched.start || start >= touched.end && start >= touched.start
            })
            .map(content)
            .collect();

        let after = read(&file);
        let found: Vec<Vec<u8>> = blocks(&after).into_iter().map(content).collect();
        let mut rest = found.iter();
        for block in &untouched {
            prop_assert!(rest.any(|found| found == block), "missing block: {}", shape(&after));
        }
        // A damaged header can lose the flag for the checksum, so that nothing protects the payload.
        let flags_intact = blocks(&before).iter().all(|block| {
            let start = block.file_off as usize;
            touched.end <= start || touched.start >= start + HEADER_LEN
        });
        let mut known = before.iter();
        for block in &found {
            let known = known.any(|part| matches!(part, Part::Block(old) if content(old) == *block));
            prop_assert!(known || !flags_intact, "invented block: {}", shape(&after));
        }
        let mut end = 0;
        for part in &after {
            let range = match part {
                Part::Block(block) => block.file(),
                Part::Lost(lost) => lost.file.clone(),
            };
            prop_assert_eq!(range.start, end);
            end = range.end;
        }
        prop_assert_eq!(end, file.len() as u64);
    }

    /// Multiple damage without checksums, so that bad bytes reach the decompressor: no panic, no error, and the blocks
    /// before the first damage come first.
    #[test]
    fn any_damage_is_survived(recording in recording(), damages in vec(damage(), 1..10), checked: bool) {
        let mut blocks = recording;
        if !checked {
            for block in &mut blocks {
                block[41] = 0;
            }
        }
        let mut file = blocks.concat();
        let before = read(&file);
        let mut first = file.len();
        for damage in damages {
            if !file.is_empty() {
                first = first.min(damage.apply(&mut file).start);
            }
        }
        let after = read(&file);
        for (old, new) in super::blocks(&before).into_iter().zip(&after) {
            if old.file().end as usize > first {
                break;
            }
            let Part::Block(new) = new else { panic!("loss before the damage: {}", shape(&after)) };
            prop_assert_eq!(content(old), content(new));
        }
    }

    #[test]
    fn arbitrary_bytes_are_survived(bytes in vec(any::<u8>(), 0..4000), magics in vec(0..4000_usize, 0..5)) {
        let mut bytes = bytes;
        for offset in magics {
            if offset + 44 <= bytes.len() {
                bytes[offset..offset + 6].copy_from_slice(b"AHRC\x01\x00");
                // Plausible lengths, so that the decompressor is reached.
                for zero in [26, 27, 30, 31, 41] {
                    bytes[offset + zero] = 0;
                }
            }
        }
        let mut reader = Reader::new(Cursor::new(&bytes)).unwrap();
        let mut end = 0;
        while let Some(part) = reader.next().unwrap() {
            end = match part {
                Part::Block(block) => block.file().end,
                Part::Lost(lost) => lost.file.end,
            };
        }
        prop_assert_eq!(end, bytes.len() as u64);
    }
}
