//! Imports an asciicast. The recording is intact and has as much output as reported.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::Scratch;
use nerve_record::ahr::{Body, Part, Reader};
use nerve_record::import::import;
use nerve_types::TsNs;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(Scratch::new);

fuzz_target!(|data: &[u8]| {
    let recording = SCRATCH.file("cast.ahr");
    let _ = std::fs::remove_file(&recording);
    let Ok(summary) = import(data, &recording, TsNs(1)) else {
        assert!(!recording.exists(), "a failed import leaves a recording");
        return;
    };
    let (mut reader, mut output) = (Reader::open(&recording).expect("an unreadable recording"), 0);
    while let Some(part) = reader.next().expect("an unreadable recording") {
        let Part::Block(block) = part else { panic!("a damaged recording") };
        assert!(block.damage().is_none());
        for record in block.records() {
            if let Body::Data { bytes, .. } = record.body {
                output += bytes.len() as u64;
            }
        }
    }
    assert_eq!(output, summary.output);
});
