//! Recordings of the format's first implementation, and damaged copies of one of them. A `.json` file describes the
//! contents of each: its records, or what can be recovered, with SHA-256 digests of the file and of the output.

use std::fs;

use nerve_record::ahr::{Body, Part, Record};
use serde_json::Value;

use super::{blocks, fixture, lost, output, read, records, sha256, shape};

struct Sample {
    bytes: Vec<u8>,
    sidecar: Value,
}

impl Sample {
    fn intact(name: &str) -> Sample {
        Sample::of(name, fs::read(fixture(&format!("{name}.ahr"))).unwrap())
    }

    /// Damages a fixture as the original implementation did; the description's digest proves that the bytes are equal.
    fn damaged(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Sample {
        let mut bytes = fs::read(fixture("multiblock.ahr")).unwrap();
        damage(&mut bytes);
        Sample::of(name, bytes)
    }

    fn of(name: &str, bytes: Vec<u8>) -> Sample {
        let sidecar: Value =
            serde_json::from_slice(&fs::read(fixture(&format!("{name}.json"))).unwrap()).unwrap();
        assert_eq!(sha256::hex(&bytes), sidecar["file"]["sha256"], "{name} is not the sample");
        Sample { bytes, sidecar }
    }

    /// Reads all recoverable parts.
    fn read(&self) -> Vec<Part> {
        let parts = read(&self.bytes);
        let recoverable = &self.sidecar["recoverable"];
        let output = output(&parts);
        assert_eq!(recoverable["records"], records(&parts).len());
        assert_eq!(recoverable["data_bytes"], output.len());
        assert_eq!(recoverable["data_sha256"], sha256::hex(&output));
        for block in blocks(&parts) {
            assert_eq!(block.damage(), None);
        }
        parts
    }
}

/// Describes a record in the form of the `.json` files.
fn describe(record: &Record<'_>) -> Value {
    let mut describe = match record.body {
        Body::Data { off, bytes } => {
            serde_json::json!({"tag": 0, "start_byte_off": off, "len": bytes.len(), "b64": base64(bytes)})
        }
        Body::Resize { cols, rows } => serde_json::json!({"tag": 1, "cols": cols, "rows": rows}),
        Body::Snapshot { id, anchor, label } => serde_json::json!({
            "tag": 4, "snapshot_id": id, "anchor_byte": anchor, "label": String::from_utf8_lossy(label)
        }),
        other => panic!("not in the samples: {other:?}"),
    };
    describe["ts_ns"] = record.at.0.into();
    describe
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_usize, |bits, &byte| bits << 8 | usize::from(byte));
        for digit in 0..4 {
            let known = digit <= group.len();
            text.push(if known { char::from(DIGITS[bits >> (18 - 6 * digit) & 63]) } else { '=' });
        }
    }
    text
}

#[test]
fn intact_fixtures_match_their_descriptions() {
    for name in ["short", "nolastflag", "resize", "snapshots", "empty"] {
        let sample = Sample::intact(name);
        let parts = sample.read();
        assert!(lost(&parts).is_empty(), "{name}");
        let found: Vec<Value> = records(&parts).iter().map(describe).collect();
        assert_eq!(sample.sidecar["records"], Value::from(found), "{name}");

        let expected = sample.sidecar["blocks"].as_array().unwrap();
        assert_eq!(expected.len(), blocks(&parts).len(), "{name}");
        for (expected, block) in expected.iter().zip(blocks(&parts)) {
            let header = &block.header;
            assert_eq!(expected["off"], block.file_off);
            assert_eq!(expected["header_len"], header.header_len);
            assert_eq!(expected["start_ts_ns"], header.start.0);
            assert_eq!(expected["start_byte_off"], header.start_off);
            assert_eq!(expected["uncompressed_len"], header.uncompressed);
            assert_eq!(expected["compressed_len"], header.compressed);
            assert_eq!(expected["record_count"], header.records);
            assert_eq!(expected["flags"], u8::from(header.last));
            assert_eq!(header.checksum, None);
        }
    }
}

#[test]
fn long_fixture_is_intact() {
    let parts = read(fs::read(fixture("multiblock.ahr")).unwrap());
    assert_eq!(shape(&parts), "BBBBBBB");
    assert_eq!(records(&parts).len(), 382);
    assert!(blocks(&parts)[6].header.last);
}

#[test]
fn file_truncated_in_header() {
    let parts = Sample::damaged("trunc_header", |bytes| bytes.truncate(334_208)).read();
    assert_eq!(shape(&parts), "BBBBBBL");
    let lost = lost(&parts)[0];
    assert_eq!((lost.file.clone(), lost.tail), (334_188..334_208, true));
    assert_eq!(
        lost.to_string(),
        "file bytes 334188..334208 are lost (the file ends within a block's header, after 20 bytes): output from byte \
         1301300 on may be missing"
    );
}

#[test]
fn file_truncated_in_payload() {
    let parts = Sample::damaged("trunc_payload", |bytes| bytes.truncate(384_296)).read();
    assert_eq!(shape(&parts), "BBBBBBL");
    let lost = lost(&parts)[0];
    assert_eq!((lost.file.clone(), lost.tail, lost.after), (334_188..384_296, true, Some(1_301_300)));
    assert!(lost.reason.contains("after 50064 of 51064 bytes"), "{}", lost.reason);
}

#[test]
fn file_with_zero_tail() {
    let parts = Sample::damaged("zero_tail", |bytes| {
        bytes.truncate(334_188);
        bytes.resize(334_188 + 4096, 0);
    })
    .read();
    assert_eq!(shape(&parts), "BBBBBBL");
    let lost = lost(&parts)[0];
    assert_eq!((lost.file.clone(), lost.tail), (334_188..338_284, false));
    assert!(lost.reason.contains("all zero"), "{}", lost.reason);
}

#[test]
fn file_with_one_bad_byte() {
    let parts = Sample::damaged("corrupt_mid", |bytes| bytes[66_982] ^= 0x55).read();
    assert_eq!(shape(&parts), "BBLBBBB");
    let lost = lost(&parts)[0];
    assert_eq!(lost.file, 66_888..133_692);
    // From the end of block 1 to the start of block 3, according to the neighbours' headers.
    assert_eq!(lost.output, Some(260_260..520_520));
    assert_eq!(blocks(&parts)[2].header.start_off, 520_520);
}
