//! Damaged and malicious recordings, one test for each kind.

use nerve_record::ahr::{Body, HEADER_LEN, MAX_SEGMENT, Part, Reader, Record, RecordError, Segment};

use super::{at, blocks, counting, data, foreign, lost, noise, output, patch, read, records, sealed, shape};

const UNCOMPRESSED: usize = 24;
const COMPRESSED: usize = 28;
const COUNT: usize = 32;
const CHECKSUM_KIND: usize = 41;
const THREE_GIB: u32 = 3 << 30;

/// Encodes records without compression.
fn segment(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        record.encode(&mut bytes).unwrap();
    }
    bytes
}

#[test]
fn claimed_length_of_3_gib_is_rejected() {
    for field in [UNCOMPRESSED, COMPRESSED] {
        let mut parts = counting(&[1, 2, 3]);
        patch(&mut parts[1], field, THREE_GIB.to_le_bytes());
        let read = read(parts.concat());
        assert_eq!(shape(&read), "BLB");
        let lost = lost(&read)[0];
        assert!(lost.reason.contains("claims 3221225472 bytes, more than the 16777216"), "{}", lost.reason);
        assert_eq!(lost.output, Some(101..203));
    }
}

#[test]
fn decompression_stops_at_claimed_length() {
    let zeroes = vec![0; 8 << 20];
    let mut bomb = foreign(&segment(&[data(10, 101, &zeroes)]), 1, 22);
    assert!(bomb.len() < 1000, "{} bytes", bomb.len());
    patch(&mut bomb, UNCOMPRESSED, 4096_u32.to_le_bytes());
    let [before, _, after] = counting(&[1, 2, 3]).try_into().unwrap();
    let parts = read([before, bomb, after].concat());
    assert_eq!(shape(&parts), "BLB");
    let reason = &lost(&parts)[0].reason;
    assert!(reason.contains("decompresses to more than the 4096 bytes"), "{reason}");
}

#[test]
fn short_decompressed_block_is_lost() {
    let mut short = foreign(&segment(&[data(0, 0, b"abc")]), 1, 16);
    patch(&mut short, UNCOMPRESSED, 4096_u32.to_le_bytes());
    let parts = read(short);
    assert_eq!(shape(&parts), "L");
    assert!(lost(&parts)[0].reason.contains("27 bytes instead of the 4096"), "{}", lost(&parts)[0].reason);
}

#[test]
fn label_length_limit_is_enforced() {
    let label = vec![b'x'; 70_000];
    let snapshot = |label| Record { at: at(1), body: Body::Snapshot { id: 9, anchor: 3, label } };
    let mut segment = Segment::new(3);
    assert_eq!(segment.push(&snapshot(&label)), Err(RecordError::Label { len: 70_000 }));
    assert_eq!((segment.is_empty(), segment.len()), (true, 0));

    segment.push(&snapshot(&label[..65_535])).unwrap();
    let parts = read(segment.seal(4, false));
    assert_eq!(records(&parts), [snapshot(&label[..65_535])]);
}

#[test]
fn oversized_segment_is_rejected() {
    let bytes = vec![b'x'; MAX_SEGMENT];
    let mut segment = Segment::new(0);
    assert_eq!(segment.push(&data(0, 0, &bytes)), Err(RecordError::Segment { len: MAX_SEGMENT + 24 }));
    assert!(segment.is_empty());
    // A full segment accepts nothing more, not even a short record.
    segment.push(&data(0, 0, &bytes[24..])).unwrap();
    assert!(matches!(segment.push(&data(0, 0, b"")), Err(RecordError::Segment { .. })));
}

#[test]
fn wrong_record_count_loses_no_record() {
    let mut parts = counting(&[1, 2, 3]);
    patch(&mut parts[1], COUNT, 700_u32.to_le_bytes());
    let parts = read(parts.concat());
    assert_eq!(shape(&parts), "BBB");
    assert_eq!(output(&parts).len(), 101 + 102 + 103);
    let damage = blocks(&parts)[1].damage().unwrap();
    assert_eq!(damage.reason, "the header says 700 records, the block has 1");
    assert!(!damage.is_output_missing());
}

#[test]
fn unknown_tag_ends_only_its_block() {
    let mut bytes = segment(&[data(1, 0, b"kept"), data(2, 4, b"hidden")]);
    bytes[12 + 12 + 4] = 77; // the tag of the second record
    let mut stream = foreign(&bytes, 2, 16);
    stream.extend(sealed(&[data(3, 10, b"after")]));
    let parts = read(stream);
    assert_eq!(shape(&parts), "BB");
    assert_eq!(output(&parts), b"keptafter");
    let damage = blocks(&parts)[0].damage().unwrap();
    assert!(damage.reason.contains("unknown tag 77"), "{}", damage.reason);
    assert_eq!((damage.output.clone(), damage.after), (None, Some(4)));
}

#[test]
fn truncated_record_is_reported() {
    let complete = segment(&[data(1, 0, b"kept"), data(2, 4, b"hidden")]);
    let parts = read(foreign(&complete[..complete.len() - 1], 2, 16));
    assert_eq!(output(&parts), b"kept");
    assert!(blocks(&parts)[0].damage().unwrap().reason.contains("cut short"));
}

#[test]
fn garbage_between_blocks_is_one_stretch_without_output() {
    for garbage in [vec![0x41], b"AHR".to_vec(), b"AHRC".to_vec(), noise(7, 300_000), vec![0; 200_000]] {
        let [one, two] = counting(&[1, 2]).try_into().unwrap();
        let offset = one.len() as u64;
        let parts = read([one, garbage.clone(), two].concat());
        assert_eq!(shape(&parts), "BLB");
        let lost = lost(&parts)[0];
        assert_eq!(lost.file, offset..offset + garbage.len() as u64);
        assert!(!lost.is_output_missing() && !lost.tail, "{lost}");
    }
}

#[test]
fn garbage_at_start_or_alone_is_lost() {
    let [_, two] = counting(&[1, 2]).try_into().unwrap();
    let parts = read([noise(3, 999), two].concat());
    assert_eq!(shape(&parts), "LB");
    assert_eq!(lost(&parts)[0].output, Some(0..101));

    let parts = read(noise(4, 100_000));
    assert_eq!(shape(&parts), "L");
    assert_eq!(lost(&parts)[0].file, 0..100_000);
}

#[test]
fn adjacent_damaged_blocks_are_one_stretch() {
    let mut parts = counting(&[1, 2, 3, 4]);
    for block in &mut parts[1..3] {
        block[HEADER_LEN + 2] ^= 0xFF;
    }
    let parts = read(parts.concat());
    assert_eq!(shape(&parts), "BLB");
    assert_eq!(lost(&parts)[0].output, Some(101..101 + 102 + 103));
}

#[test]
fn damaged_length_hides_no_block() {
    for length in [0_u32, 1, 60, 1000, 16 << 20] {
        let mut parts = counting(&[1, 2, 3, 4]);
        patch(&mut parts[1], COMPRESSED, length.to_le_bytes());
        let parts = read(parts.concat());
        assert_eq!(shape(&parts), "BLBB", "length {length}");
        assert_eq!(lost(&parts)[0].output, Some(101..203));
        assert!(!lost(&parts)[0].tail);
    }
}

#[test]
fn damaged_length_to_later_block_hides_none_between() {
    for last in [3, 5] {
        let mut parts = counting(&[1, 2, 3, 4, 5]);
        let length: usize = parts[1..last].iter().map(Vec::len).sum();
        patch(&mut parts[1], COMPRESSED, u32::try_from(length - HEADER_LEN).unwrap().to_le_bytes());
        let parts = read(parts.concat());
        assert_eq!(shape(&parts), "BLBBB");
        assert_eq!(lost(&parts)[0].output, Some(101..203));
    }
}

#[test]
fn checksum_mismatch_loses_block() {
    // Incompressible, so that a changed byte still decompresses, but to other data.
    let bytes = noise(1, 5000);
    let mut block = sealed(&[data(0, 0, &bytes)]);
    let middle = block.len() / 2;
    block[middle] ^= 1;
    let parts = read(&block);
    assert_eq!(shape(&parts), "L");
    assert!(lost(&parts)[0].reason.contains("checksum"), "{}", lost(&parts)[0].reason);

    // Without a checksum, as in files of older recorders, the change is not detected.
    block[CHECKSUM_KIND] = 0;
    let parts = read(&block);
    assert_eq!(shape(&parts), "B");
    assert_ne!(output(&parts), bytes);
}

#[test]
fn empty_blocks_and_empty_file_are_read() {
    assert!(read(b"").is_empty());

    let [one, two] = counting(&[1, 2]).try_into().unwrap();
    let empty = Segment::starting_at(101, at(15)).seal(4, false);
    let last = Segment::starting_at(203, at(99)).seal(4, true);
    let parts = read([one, empty, two, last].concat());
    assert_eq!(shape(&parts), "BBBB");
    let blocks = blocks(&parts);
    assert_eq!(blocks.iter().map(|block| block.record_count()).collect::<Vec<_>>(), [1, 0, 1, 0]);
    assert_eq!(blocks.iter().map(|block| block.header.last).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!((blocks[3].header.start, blocks[3].output()), (at(99), 203..203));

    // Other recorders may omit the single byte of an empty Brotli stream.
    let mut bare = foreign(b"", 0, 16);
    bare.truncate(HEADER_LEN);
    patch(&mut bare, COMPRESSED, 0_u32.to_le_bytes());
    assert_eq!(shape(&read(bare)), "B");
}

#[test]
fn headers_of_48_bytes_are_read() {
    let widen = |block: &[u8]| [&block[..HEADER_LEN], &[0; 4], &block[HEADER_LEN..]].concat();
    let one = widen(&foreign(&segment(&[data(0, 0, b"one")]), 1, 16));
    let mut two = foreign(&segment(&[data(0, 3, b"two")]), 1, 16);
    patch(&mut two, 16, 3_u64.to_le_bytes());
    let parts = read([one.clone(), widen(&two), two].concat());
    assert_eq!(shape(&parts), "BBB");
    assert_eq!(output(&parts), b"onetwotwo");
    assert_eq!(blocks(&parts)[0].file(), 0..one.len() as u64);
}

#[test]
fn all_standard_brotli_windows_are_read() {
    let bytes = noise(5, 2000).repeat(20);
    for window in 10..=24 {
        let parts = read(foreign(&segment(&[data(0, 0, &bytes)]), 1, window));
        assert_eq!(output(&parts), bytes, "window {window}");
    }
}

#[test]
fn decreasing_times_are_preserved() {
    let hour = 3_600_000;
    let first = sealed(&[data(2 * hour, 0, b"a"), data(hour, 1, b"b")]);
    let second = sealed(&[data(0, 2, b"c")]);
    let mut damaged = sealed(&[data(2 * hour, 3, b"d")]);
    damaged[HEADER_LEN] ^= 0xFF;
    let third = sealed(&[data(hour, 4, b"e")]);
    let parts = read([first, second, damaged, third].concat());
    assert_eq!(shape(&parts), "BBLB");
    assert_eq!(
        records(&parts).iter().map(|record| record.at).collect::<Vec<_>>(),
        [at(2 * hour), at(hour), at(0), at(hour)]
    );
}

#[test]
fn unknown_version_is_reported() {
    let mut parts = counting(&[1, 2]);
    patch(&mut parts[0], 4, 2_u16.to_le_bytes());
    let parts = read(parts.concat());
    assert_eq!(shape(&parts), "LB");
    assert!(lost(&parts)[0].reason.contains("unknown version 2"), "{}", lost(&parts)[0].reason);
}

#[test]
fn nested_false_headers_are_scanned_in_bounded_time() {
    // Each header claims the next megabyte, which exists for all but the last of them and decompresses for none.
    // Without a bound, 22 GB would be read.
    let mut header = foreign(b"", 0, 16);
    header.truncate(HEADER_LEN);
    patch(&mut header, UNCOMPRESSED, (16_u32 << 20).to_le_bytes());
    patch(&mut header, COMPRESSED, (1_u32 << 20).to_le_bytes());
    let mut bytes = header.repeat((2 << 20) / HEADER_LEN);
    let offset = bytes.len() as u64;
    bytes.extend(&counting(&[1])[0]);
    let parts = read(&bytes);
    assert_eq!(parts.len(), 1);
    let lost = lost(&parts)[0];
    assert!(lost.file.start == 0 && lost.file.end >= offset, "{lost}");
    assert!(lost.reason.contains("too much looks like a block"), "{}", lost.reason);
}

#[test]
fn reader_seeks_to_any_block() {
    let blocks = counting(&[1, 2, 3]);
    let offsets = [0, blocks[0].len(), blocks[0].len() + blocks[1].len()];
    let mut reader = Reader::new(std::io::Cursor::new(blocks.concat())).unwrap();
    for n in [2, 0, 1] {
        reader.seek_to(offsets[n] as u64).unwrap();
        let Some(Part::Block(block)) = reader.next().unwrap() else { panic!("block {n}") };
        assert_eq!(block.file_off, offsets[n] as u64);
        assert_eq!(block.output().start, [0, 101, 203][n]);
        assert_eq!(reader.position(), block.file().end);
    }
    // Seeking into the middle of a block finds the next one; the output before it is unknown.
    reader.seek_to(offsets[1] as u64 + 1).unwrap();
    let Some(Part::Lost(lost)) = reader.next().unwrap() else { panic!("no loss") };
    assert_eq!((lost.file.end, lost.output), (offsets[2] as u64, None));
    assert!(matches!(reader.next().unwrap(), Some(Part::Block(_))));
}
