//! Recordings shown in a recording: `cat old.ahr` puts whole blocks into the payload of a block, and as they do not
//! compress, they lie there as they are. Damage must not bring them to life.

use nerve_record::ahr::HEADER_LEN;

use super::{data, lost, noise, output, read, sealed, shape};

/// A recording with another one in the payload of its second block, and the offset of that block.
fn showing(shown: &[u8]) -> ([Vec<u8>; 3], usize) {
    let first = noise(1, 3000);
    let second = [&noise(2, 60_000)[..], shown, &noise(3, 60_000)[..]].concat();
    let end = (first.len() + second.len()) as u64;
    let blocks = [
        sealed(&[data(1_000_000, 0, &first)]),
        sealed(&[data(1_000_250, 3000, &second)]),
        sealed(&[data(1_000_500, end, b"the end")]),
    ];
    let place = blocks[0].len();
    assert!(blocks[1].windows(shown.len()).any(|window| window == shown), "it was compressed");
    (blocks, place)
}

/// One that is older and whose output went farther than the block that shows it.
fn older() -> Vec<u8> {
    [sealed(&[data(0, 0, &noise(4, 300))]), sealed(&[data(10, 9_000_000, &noise(5, 300))])].concat()
}

#[test]
fn a_damaged_payload_is_stepped_over() {
    let (mut blocks, _) = showing(&older());
    blocks[1][HEADER_LEN + 5] ^= 0x10;
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert!(output(&parts).ends_with(b"the end"));
    assert_eq!(output(&parts).len(), 3007);
}

#[test]
fn under_a_damaged_header_earlier_output_is_not_believed() {
    let shown = sealed(&[data(2_000_000, 1000, &noise(4, 300))]);
    let (mut blocks, _) = showing(&shown);
    blocks[1][0] = b'X';
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert_eq!(output(&parts).len(), 3007);
}

#[test]
fn of_a_block_that_is_cut_short_nothing_is_brought_to_life() {
    let (blocks, place) = showing(&older());
    let whole = blocks[..2].concat();
    let parts = read(&whole[..whole.len() - 100]);
    assert_eq!(shape(&parts), "BL");
    let lost = lost(&parts)[0];
    assert_eq!((lost.file.start, lost.tail), (place as u64, true));
    assert_eq!(output(&parts).len(), 3000);
}

#[test]
fn a_recording_that_shows_its_own_beginning() {
    let beginning = sealed(&[data(1_000_000, 0, &noise(1, 3000))]);
    let (mut blocks, _) = showing(&beginning);
    // Neither its length nor its payload is any good.
    blocks[1][28] ^= 0xFF;
    blocks[1][HEADER_LEN + 5] ^= 0x10;
    let parts = read(blocks.concat());
    assert_eq!(shape(&parts), "BLB");
    assert_eq!(output(&parts).len(), 3007);
}
