use nerve_record::history::{Operation, ResponseData, SendEntry, SendStreamEntry};
use nerve_types::TsNs;
use nerve_types::{ParserKind, Section, SectionKind, Tokens};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Fixture;

#[derive(Debug, Clone)]
enum Logged {
    Send { input: String, section: String, tokens: Option<u64>, preceding: Option<u64> },
    Stream { input: String, buffer: String },
    Write(String),
    Run(String),
    Read(String, usize),
    Interrupt,
    Close(Option<String>),
    Reopen,
}

fn logged() -> impl Strategy<Value = Logged> {
    // `.` does not match newlines, hence the second pattern.
    let text = || prop_oneof![".{0,40}", "[\\x00-\\x20\\\\\"é\u{2028}\u{85}]{0,12}"];
    let seq = || prop::option::of(1_u64..1 << 53);
    prop_oneof![
        (text(), text(), seq(), seq()).prop_map(|(input, section, tokens, preceding)| Logged::Send {
            input,
            section,
            tokens,
            preceding
        }),
        (text(), text()).prop_map(|(input, buffer)| Logged::Stream { input, buffer }),
        text().prop_map(Logged::Write),
        text().prop_map(Logged::Run),
        (text(), 0_usize..10_000).prop_map(|(buffer, lines)| Logged::Read(buffer, lines)),
        Just(Logged::Interrupt),
        prop::option::of(text()).prop_map(Logged::Close),
        Just(Logged::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn logged_entries_round_trip(entries in prop::collection::vec(logged(), 0..24)) {
        let fixture = Fixture::new();
        let mut writer = fixture.writer();
        let mut expected: Vec<Value> = Vec::new();
        let ts = "1970-01-01T00:00:00.001Z";
        let now = TsNs(1_999_999);
        for entry in entries {
            let seq = expected.len() as u64 + 1;
            let (got, value) = match entry {
                Logged::Reopen => {
                    writer.close();
                    writer = fixture.writer();
                    continue;
                }
                Logged::Send { input, section, tokens, preceding } => {
                    let response = ResponseData {
                        sections: vec![Section::new(SectionKind::Error, section.clone())],
                        tokens: tokens.map(|total| Tokens { total: Some(total), ..Tokens::default() }),
                        is_complete: true,
                        is_ready: false,
                    };
                    let got = writer.log(&Operation::Send(SendEntry { ts_start: now, ts_end: now, input: &input, preceding_buffer_seq: preceding, response, usage: None }));
                    let response = json!({"sections": [{"type": "error", "content": section}], "tokens": tokens.map(|total| json!({"total": total})), "is_complete": true, "is_ready": false});
                    (got, json!({"seq": seq, "op": "send", "ts_start": ts, "ts_end": ts, "input": input, "preceding_buffer_seq": preceding, "response": response}))
                }
                Logged::Stream { input, buffer } => {
                    let got = writer.log(&Operation::SendStream(SendStreamEntry { ts_start: now, ts_end: now, input: &input, preceding_buffer_seq: None, final_buffer: &buffer, parser: ParserKind::None, usage: None }));
                    (got, json!({"seq": seq, "op": "send_stream", "ts_start": ts, "ts_end": ts, "input": input, "preceding_buffer_seq": null, "final_buffer": buffer, "parser": "none"}))
                }
                Logged::Write(input) => (writer.log(&Operation::Write { ts: now, input: &input }), json!({"seq": seq, "op": "write", "ts": ts, "input": input})),
                Logged::Run(input) => (writer.log(&Operation::Run { ts: now, input: &input }), json!({"seq": seq, "op": "run", "ts": ts, "input": input})),
                Logged::Read(buffer, lines) => (writer.log(&Operation::Read { ts: now, buffer: &buffer, lines }), json!({"seq": seq, "op": "read", "ts": ts, "buffer": buffer, "lines": lines})),
                Logged::Interrupt => (writer.log(&Operation::Interrupt { ts: now }), json!({"seq": seq, "op": "interrupt", "ts": ts})),
                Logged::Close(reason) => (writer.log(&Operation::Close { ts: now, reason: reason.as_deref() }), json!({"seq": seq, "op": "close", "ts": ts, "reason": reason})),
            };
            prop_assert_eq!(got, seq);
            expected.push(value);
        }
        let reader = fixture.reader();
        let mut entries = reader.entries();
        let read: Vec<Value> = entries.by_ref().map(|entry| entry.unwrap().value).collect();
        prop_assert_eq!(entries.malformed(), 0);
        prop_assert_eq!(&read, &expected);
        let half = expected.len() / 2;
        let last: Vec<Value> = reader.last(half).unwrap().into_iter().map(|entry| entry.value).collect();
        prop_assert_eq!(&last, &expected[expected.len() - half..]);
    }
}
