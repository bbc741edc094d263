//! Decodes frames, snapshot messages and activities. What is decoded is encoded to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_record::ssz::event;
use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame, encode_frame};
use nerve_record::ssz::snapshot::{Request, Response};

fuzz_target!(|data: &[u8]| {
    let mut unread = data.to_vec();
    while let Ok(Some(body)) = decode_frame(&mut unread, MAX_MESSAGE) {
        assert!(encode_frame(&body, MAX_MESSAGE).is_ok());
    }
    if let Ok(request) = Request::decode(data) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(response) = Response::decode(data) {
        assert_eq!(Response::decode(&response.encode()), Ok(response));
    }
    if let Ok(activity) = event::decode(data) {
        assert_eq!(event::decode(&event::encode(&activity)), Ok(activity));
    }
});
