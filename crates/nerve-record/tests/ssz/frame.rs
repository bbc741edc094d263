//! Length-prefixed frames.

use nerve_record::ssz::SszError;
use nerve_record::ssz::frame::{MAX_EVENT, MAX_MESSAGE, decode_frame, encode_frame};
use proptest::prelude::*;

#[test]
fn oversized_length_is_rejected_before_allocation() {
    for (length, limit) in [([0xff; 4], MAX_MESSAGE), ([1, 0, 1, 0], MAX_MESSAGE), ([1, 0, 16, 0], MAX_EVENT)]
    {
        let mut read = length.to_vec();
        let announced = u32::from_le_bytes(length) as usize;
        assert_eq!(decode_frame(&mut read, limit), Err(SszError::TooLong { length: announced, limit }));
        assert!(read.capacity() < 64, "{} bytes for four", read.capacity());
    }
    let message = decode_frame(&mut vec![0xff; 4], MAX_MESSAGE).unwrap_err().to_string();
    assert!(message.contains("4294967295") && message.contains("65536"), "{message}");
}

#[test]
fn frame_at_the_limit_passes() {
    let body = vec![7; MAX_MESSAGE];
    let mut read = encode_frame(&body, MAX_MESSAGE).unwrap();
    assert_eq!(decode_frame(&mut read, MAX_MESSAGE), Ok(Some(body)));
    let over = encode_frame(&vec![7; MAX_MESSAGE + 1], MAX_MESSAGE);
    assert_eq!(over, Err(SszError::TooLong { length: MAX_MESSAGE + 1, limit: MAX_MESSAGE }));
}

#[test]
fn empty_frame_is_valid() {
    let mut read = vec![0; 4];
    assert_eq!(decode_frame(&mut read, MAX_MESSAGE), Ok(Some(Vec::new())));
    assert!(read.is_empty());
}

proptest! {
    #[test]
    fn frames_survive_any_fragmentation(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        cut in 1_usize..17,
    ) {
        let stream: Vec<u8> =
            bodies.iter().flat_map(|body| encode_frame(body, MAX_MESSAGE).unwrap()).collect();
        let (mut read, mut found) = (Vec::new(), Vec::new());
        for piece in stream.chunks(cut) {
            read.extend_from_slice(piece);
            while let Some(body) = decode_frame(&mut read, MAX_MESSAGE).unwrap() {
                found.push(body);
            }
        }
        prop_assert_eq!(found, bodies);
        prop_assert!(read.is_empty());
    }
}
