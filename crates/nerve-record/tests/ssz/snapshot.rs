//! Snapshot requests and responses.

use nerve_record::ssz::SszError;
use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
use nerve_record::ssz::snapshot::{MAX_LABEL, MAX_LABEL_IN_FRAME, Request, Response};
use proptest::prelude::*;

use crate::hex;

fn request(label: impl Into<Vec<u8>>) -> Request {
    Request::Snapshot { id: 0x1122_3344_5566_7788, label: label.into() }
}

#[test]
fn requests_match_reference_encoding() {
    let golden = hex("00 8877665544332211 0c000000 6162");
    assert_eq!(request("ab").encode(), golden);
    assert_eq!(Request::decode(&golden), Ok(request("ab")));
    let without_label = hex("00 8877665544332211 0c000000");
    assert_eq!(request("").encode(), without_label);
    assert_eq!(Request::decode(&without_label), Ok(request("")));
    assert_eq!(request("ab").frame().unwrap(), [&hex("0f000000")[..], &golden].concat());
}

#[test]
fn responses_match_reference_encoding() {
    let success = Response::Success { id: 1, anchor: 2, at_ns: 3 };
    let golden = hex("00 0100000000000000 0200000000000000 0300000000000000");
    assert_eq!(success.encode(), golden);
    assert_eq!(Response::decode(&golden), Ok(success));
    let error = Response::Error { message: "no".into() };
    assert_eq!(error.encode(), hex("01 6e6f"));
    assert_eq!(Response::decode(&hex("01 6e6f")), Ok(error));
}

#[test]
fn invalid_request_is_rejected_with_reason() {
    let cases = [
        ("", SszError::Empty),
        ("01 8877665544332211 0c000000", SszError::Selector { union: "a request", selector: 1 }),
        ("ff", SszError::Selector { union: "a request", selector: 255 }),
        ("00", SszError::Length { expected: 12, found: 0 }),
        ("00 8877665544332211 0c0000", SszError::Length { expected: 12, found: 11 }),
        ("00 8877665544332211 0d000000 6162", SszError::Offset { offset: 13, length: 14 }),
        ("00 8877665544332211 0b000000 6162", SszError::Offset { offset: 11, length: 14 }),
        ("00 8877665544332211 00000000 6162", SszError::Offset { offset: 0, length: 14 }),
        ("00 8877665544332211 0f000000 6162", SszError::Offset { offset: 15, length: 14 }),
        ("00 8877665544332211 ffffffff 6162", SszError::Offset { offset: u32::MAX, length: 14 }),
    ];
    for (dump, error) in cases {
        assert_eq!(Request::decode(&hex(dump)), Err(error), "{dump}");
    }
}

#[test]
fn invalid_response_is_rejected_with_reason() {
    let cases = [
        ("", SszError::Empty),
        ("02", SszError::Selector { union: "a response", selector: 2 }),
        ("00 0100000000000000", SszError::Length { expected: 24, found: 8 }),
        (
            "00 0100000000000000 0200000000000000 0300000000000000 00",
            SszError::Length { expected: 24, found: 25 },
        ),
    ];
    for (dump, error) in cases {
        assert_eq!(Response::decode(&hex(dump)), Err(error), "{dump}");
    }
}

#[test]
fn oversized_label_is_rejected_in_any_body() {
    let longest = request(vec![b'x'; MAX_LABEL]);
    assert_eq!(Request::decode(&longest.encode()), Ok(longest));
    for length in [MAX_LABEL + 1, 70_000] {
        let error = Request::decode(&request(vec![b'x'; length]).encode());
        assert_eq!(error, Err(SszError::LabelTooLong { length }));
    }
}

#[test]
fn frame_holds_label_up_to_documented_limit() {
    let longest = request(vec![b'x'; MAX_LABEL_IN_FRAME]);
    let mut frame = longest.frame().unwrap();
    let body = decode_frame(&mut frame, MAX_MESSAGE).unwrap().unwrap();
    assert_eq!(body.len(), MAX_MESSAGE);
    assert_eq!(Request::decode(&body), Ok(longest));
    let over = request(vec![b'x'; MAX_LABEL_IN_FRAME + 1]).frame();
    assert_eq!(over, Err(SszError::TooLong { length: MAX_MESSAGE + 1, limit: MAX_MESSAGE }));
    assert!(request(vec![b'x'; 70_000]).frame().is_err());
}

#[test]
fn long_error_is_truncated_at_character_boundary() {
    let mut frame = Response::Error { message: "ä".repeat(MAX_MESSAGE) }.frame();
    let body = decode_frame(&mut frame, MAX_MESSAGE).unwrap().unwrap();
    let Response::Error { message } = Response::decode(&body).unwrap() else { panic!("an error") };
    assert_eq!(message, "ä".repeat((MAX_MESSAGE - 1) / 2));
}

proptest! {
    #[test]
    fn requests_round_trip(id: u64, label in prop::collection::vec(any::<u8>(), 0..300)) {
        let request = Request::Snapshot { id, label };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn responses_round_trip(id: u64, anchor: u64, at_ns: u64, message: String) {
        for response in [Response::Success { id, anchor, at_ns }, Response::Error { message }] {
            prop_assert_eq!(Response::decode(&response.encode()), Ok(response));
        }
    }

    #[test]
    fn arbitrary_bytes_decode_or_fail_cleanly(body in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(request) = Request::decode(&body) {
            prop_assert_eq!(request.encode(), body.clone());
        }
        let _ = Response::decode(&body);
    }
}
