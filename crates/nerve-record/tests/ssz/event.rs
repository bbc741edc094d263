//! Agent activity as bytes and as JSON.

use nerve_record::activity::{Activity, Level, Status, TsMs};
use nerve_record::ssz::SszError;
use nerve_record::ssz::event::{decode, encode, frame};
use nerve_record::ssz::frame::{MAX_EVENT, decode_frame, encode_frame};
use nerve_types::TsNs;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hex;

const AT: TsMs = TsMs(0x1122_3344_5566_7788);
/// 2024-01-01T12:00:00.042Z.
const NOON: TsMs = TsMs(1_704_110_400_042);

#[track_caller]
fn check(activity: &Activity, dump: &str) {
    assert_eq!(encode(activity), hex(dump));
    assert_eq!(&decode(&hex(dump)).unwrap(), activity);
}

#[test]
fn events_match_reference_encoding() {
    check(&Activity::Status { status: Status::Running, at: AT }, "00 02 8877665544332211");
    check(
        &Activity::Log { level: Level::Info, message: "hi".into(), execution: None, at: AT },
        "01 01 11000000 13000000 8877665544332211 6869 00",
    );
}

#[test]
fn other_events_match_reference_encoding() {
    let log =
        Activity::Log { level: Level::Error, message: "hi".into(), execution: Some("e1".into()), at: AT };
    check(&log, "01 03 11000000 13000000 8877665544332211 6869 01 6531");
    check(&Activity::Error { message: "no".into(), at: AT }, "02 0c000000 8877665544332211 6e6f");
    let thought = Activity::Thought { text: "hm".into(), reasoning: None, at: AT };
    check(&thought, "03 10000000 12000000 8877665544332211 686d 00");
    let start = Activity::ToolStart {
        name: "ls".into(),
        args: "[]".into(),
        execution: "7".into(),
        status: Status::Running,
        at: AT,
    };
    check(&start, "04 15000000 17000000 19000000 02 8877665544332211 6c73 5b5d 37");
    let output = Activity::ToolOutput {
        name: "ls".into(),
        output: "a".into(),
        execution: "7".into(),
        status: Status::Completed,
        at: AT,
    };
    check(&output, "05 15000000 17000000 18000000 08 8877665544332211 6c73 61 37");
    let edit =
        Activity::FileEdit { path: "f".into(), added: 5, removed: 2, description: Some("d".into()), at: AT };
    check(&edit, "06 20000000 0500000000000000 0200000000000000 21000000 8877665544332211 66 01 64");
    let usage = Activity::Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write: 4,
        model: Some("m".into()),
        at: AT,
    };
    check(
        &usage,
        "07 0100000000000000 0200000000000000 0300000000000000 0400000000000000 2c000000 8877665544332211 01 6d",
    );
}

#[test]
fn unknown_event_does_not_end_the_stream() {
    let known = Activity::Status { status: Status::Running, at: AT };
    let mut stream = encode_frame(&hex("ff 0102030405"), MAX_EVENT).unwrap();
    stream.extend(frame(&known).unwrap());
    let unknown = decode_frame(&mut stream, MAX_EVENT).unwrap().unwrap();
    assert_eq!(decode(&unknown), Err(SszError::Selector { union: "an event", selector: 255 }));
    let next = decode_frame(&mut stream, MAX_EVENT).unwrap().unwrap();
    assert_eq!(decode(&next), Ok(known));
}

#[test]
fn statuses_and_levels_have_fixed_numbers() {
    let words = [
        "queued",
        "provisioning",
        "running",
        "pausing",
        "paused",
        "resuming",
        "stopping",
        "stopped",
        "completed",
        "failed",
        "cancelled",
    ];
    for (number, word) in words.into_iter().enumerate() {
        let body = [&[0, u8::try_from(number).unwrap()], &AT.0.to_le_bytes()[..]].concat();
        assert_eq!(serde_json::to_value(decode(&body).unwrap()).unwrap()["status"], word);
    }
    for (number, word) in ["debug", "info", "warn", "error"].into_iter().enumerate() {
        let mut body = hex("01 00 11000000 11000000 8877665544332211 00");
        body[1] = u8::try_from(number).unwrap();
        assert_eq!(serde_json::to_value(decode(&body).unwrap()).unwrap()["level"], word);
    }
}

#[test]
fn invalid_event_is_rejected_with_reason() {
    let cases = [
        ("", SszError::Empty),
        ("08", SszError::Selector { union: "an event", selector: 8 }),
        ("00 02 88776655443322", SszError::Length { expected: 9, found: 8 }),
        ("00 02 8877665544332211 00", SszError::Length { expected: 9, found: 10 }),
        ("00 0b 8877665544332211", SszError::Number { field: "status", number: 11 }),
        (
            "01 04 11000000 13000000 8877665544332211 6869 00",
            SszError::Number { field: "log level", number: 4 },
        ),
        // The second part begins before the first.
        ("01 01 13000000 11000000 8877665544332211 6869 00", SszError::Offset { offset: 19, length: 20 }),
        // A hole before the first part.
        ("01 01 12000000 13000000 8877665544332211 6869 00", SszError::Offset { offset: 18, length: 20 }),
        ("01 01 11000000 15000000 8877665544332211 6869 00", SszError::Offset { offset: 21, length: 20 }),
        // An Option without bytes, one with an unknown selector, and a None with content.
        ("01 01 11000000 14000000 8877665544332211 6869 00", SszError::Length { expected: 1, found: 0 }),
        (
            "01 01 11000000 13000000 8877665544332211 6869 02",
            SszError::Selector { union: "an Option", selector: 2 },
        ),
        ("01 01 11000000 13000000 8877665544332211 6869 0000", SszError::Length { expected: 1, found: 2 }),
        ("02 0c000000 8877665544332211 ff", SszError::Text("message")),
    ];
    for (dump, error) in cases {
        assert_eq!(decode(&hex(dump)), Err(error), "{dump}");
    }
}

#[test]
fn json_uses_event_stream_names() {
    let log = |execution| Activity::Log { level: Level::Warn, message: "m".into(), execution, at: NOON };
    let start = |args: &str| Activity::ToolStart {
        name: "grep".into(),
        args: args.into(),
        execution: "e".into(),
        status: Status::Running,
        at: NOON,
    };
    let cases: Vec<(Activity, Value)> = vec![
        (
            Activity::Status { status: Status::Running, at: NOON },
            json!({"type": "status", "status": "running"}),
        ),
        (log(None), json!({"type": "log", "level": "warn", "message": "m"})),
        (
            log(Some("e".into())),
            json!({"type": "log", "level": "warn", "message": "m", "tool_execution_id": "e"}),
        ),
        (Activity::Error { message: "m".into(), at: NOON }, json!({"type": "error", "message": "m"})),
        (
            Activity::Thought { text: "t".into(), reasoning: Some("r".into()), at: NOON },
            json!({"type": "thought", "content": "t", "reasoning": "r"}),
        ),
        (
            start(r#"["pattern"]"#),
            json!({"type": "tool_start", "name": "grep", "args": ["pattern"], "tool_execution_id": "e",
                "status": "running"}),
        ),
        (
            start("-r 5"),
            json!({"type": "tool_start", "name": "grep", "args": "-r 5", "tool_execution_id": "e",
                "status": "running"}),
        ),
        (
            Activity::ToolOutput {
                name: "grep".into(),
                output: "42".into(),
                execution: "e".into(),
                status: Status::Failed,
                at: NOON,
            },
            json!({"type": "tool_output", "name": "grep", "output": "42", "tool_execution_id": "e",
                "status": "failed"}),
        ),
        (
            Activity::FileEdit {
                path: "src/main.rs".into(),
                added: 5,
                removed: 2,
                description: None,
                at: NOON,
            },
            json!({"type": "file_edit", "path": "src/main.rs", "lines_added": 5, "lines_removed": 2}),
        ),
        (
            Activity::Usage {
                input: 1,
                output: 2,
                cache_read: 3,
                cache_write: 4,
                model: Some("m".into()),
                at: NOON,
            },
            json!({"type": "usage", "input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "model": "m"}),
        ),
    ];
    for (activity, mut expected) in cases {
        expected["ts"] = json!("2024-01-01T12:00:00.042Z");
        assert_eq!(serde_json::to_value(&activity).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Activity>(expected).unwrap(), activity);
    }
}

#[test]
fn any_time_in_milliseconds_can_be_formatted() {
    assert_eq!(TsMs::from(TsNs(1_704_110_400_042_999_999)), NOON);
    assert_eq!(TsMs(0).iso(), "1970-01-01T00:00:00.000Z");
    assert!(TsMs(u64::MAX).iso().starts_with("9999-12-30T"));
}

#[test]
fn oversized_event_cannot_be_encoded() {
    let log = |length| Activity::Error { message: "x".repeat(length), at: AT };
    let mut whole = frame(&log(MAX_EVENT - 13)).unwrap();
    assert_eq!(decode_frame(&mut whole, MAX_EVENT).unwrap().unwrap().len(), MAX_EVENT);
    assert_eq!(
        frame(&log(MAX_EVENT - 12)),
        Err(SszError::TooLong { length: MAX_EVENT + 1, limit: MAX_EVENT })
    );
}

fn activity() -> impl Strategy<Value = Activity> {
    let parts = (".*", ".*", ".*", prop::option::of(".*"), 0..11_u8, 0..4_u8, any::<[u64; 5]>(), 0..8);
    parts.prop_map(|(a, b, c, option, status, level, [at, added, removed, read, write], kind)| {
        let (status, level, at) =
            (Status::from_repr(status).unwrap(), Level::from_repr(level).unwrap(), TsMs(at));
        match kind {
            0 => Activity::Status { status, at },
            1 => Activity::Log { level, message: a, execution: option, at },
            2 => Activity::Error { message: a, at },
            3 => Activity::Thought { text: a, reasoning: option, at },
            4 => Activity::ToolStart { name: a, args: b, execution: c, status, at },
            5 => Activity::ToolOutput { name: a, output: b, execution: c, status, at },
            6 => Activity::FileEdit { path: a, added, removed, description: option, at },
            _ => Activity::Usage {
                input: added,
                output: removed,
                cache_read: read,
                cache_write: write,
                model: option,
                at,
            },
        }
    })
}

proptest! {
    #[test]
    fn events_round_trip(activity in activity()) {
        prop_assert_eq!(decode(&encode(&activity)), Ok(activity));
    }

    #[test]
    fn damaged_event_decodes_or_fails_cleanly(activity in activity(), at: prop::sample::Index, byte: u8) {
        let mut body = encode(&activity);
        let at = at.index(body.len());
        body[at] = byte;
        // The encoding is canonical: whatever decodes is encoded identically.
        if let Ok(read) = decode(&body) {
            prop_assert_eq!(encode(&read), body.clone());
        }
        let _ = decode(&body[..at]);
    }
}
