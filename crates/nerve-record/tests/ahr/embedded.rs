//! Recordings embedded in a recording: `cat old.ahr` stores whole blocks verbatim in a payload, because they do not
//! compress. Damage must not turn them into blocks of the recording.

use nerve_record::ahr::HEADER_LEN;

use super::{data, lost, noise, output, read, sealed, shape};

/// Creates a recording with another one in the payload of its second block; also returns the offset of that block.
fn embed(embedded: &[u8]) -> ([Vec<u8>; 3], usize) {
    let first = noise(1, 3000);
    let second = [&noise(2, 60_000)[..], embedded, &noise(3, 60_000)[..]].concat();
    let end = (first.len() + second.len()) as u64;
    let blocks = [
        sealed(&[data(1_000_000, 0, &first)]),
        sealed(&[data(1_000_250, 3000, &second)]),
        sealed(&[data(1_000_500, end, b"the end")]),
    ];
    let offset = blocks[0].len();
    assert!(blocks[1].windows(embedded.len()).any(|window| window == embedded), "payload was compressed");
    (blocks, offset)
}

/// Creates an older recording whose output offsets are larger than those of the embedding block.
fn older_recording() -> Vec<u8> {
    [sealed(&[data(0, 0, &noise(4, 300))]), sealed(&[data(10, 9_000_000, &noise(5, 300))])].concat()
}

#[test]
fn damaged_payload_is_skipped() {
    let (mut blocks, _) = embed(&older_recording());
    blocks[1][HEADER_LEN + 5] ^= 0x10;
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert!(output(&parts).ends_with(b"the end"));
    assert_eq!(output(&parts).len(), 3007);
}

#[test]
fn embedded_block_with_earlier_output_is_rejected() {
    let embedded = sealed(&[data(2_000_000, 1000, &noise(4, 300))]);
    let (mut blocks, _) = embed(&embedded);
    blocks[1][0] = b'X';
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert_eq!(output(&parts).len(), 3007);
}

#[test]
fn truncated_block_revives_no_embedded_recording() {
    let (blocks, offset) = embed(&older_recording());
    let complete = blocks[..2].concat();
    let parts = read(&complete[..complete.len() - 100]);
    assert_eq!(shape(&parts), "BL");
    let lost = lost(&parts)[0];
    assert_eq!((lost.file.start, lost.tail), (offset as u64, true));
    assert_eq!(output(&parts).len(), 3000);
}

#[test]
fn recording_may_embed_its_own_beginning() {
    let beginning = sealed(&[data(1_000_000, 0, &noise(1, 3000))]);
    let (mut blocks, _) = embed(&beginning);
    // Neither length nor payload is usable.
    blocks[1][28] ^= 0xFF;
    blocks[1][HEADER_LEN + 5] ^= 0x10;
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert_eq!(output(&parts).len(), 3007);
}
