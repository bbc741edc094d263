use nerve_record::history::{Filter, HistoryError, HistoryReader, HistoryWriter, Operation, SendEntry};
use nerve_types::HistoryOp;

use super::{Fixture, at};

/// The documented sample: run, read, send, close.
fn sample() -> Fixture {
    let fixture = Fixture::new();
    let mut writer = fixture.writer();
    writer.log(&Operation::Run { ts: at(0), input: "claude" });
    writer.log(&Operation::Read { ts: at(1), buffer: "Claude started", lines: 50 });
    writer.log(&Operation::Send(SendEntry {
        ts_start: at(2),
        ts_end: at(3),
        input: "Hello",
        preceding_buffer_seq: Some(2),
        response: Default::default(),
        usage: None,
    }));
    writer.log(&Operation::Close { ts: at(4), reason: Some("done") });
    fixture
}

fn ops(fixture: &Fixture, filter: &Filter) -> Vec<String> {
    let page = fixture.reader().query(filter).unwrap();
    assert_eq!(page.total, page.entries.len());
    page.entries
        .iter()
        .map(|text| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            format!("{}{}", value["seq"], value["op"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn entries_have_order_and_line_numbers() {
    let fixture = sample();
    let entries: Vec<_> = fixture.reader().entries().map(Result::unwrap).collect();
    let lines: Vec<_> = entries.iter().map(|entry| (entry.line_no, entry.seq(), entry.op())).collect();
    assert_eq!(
        lines,
        [
            (Some(1), Some(1), "run"),
            (Some(2), Some(2), "read"),
            (Some(3), Some(3), "send"),
            (Some(4), Some(4), "close")
        ]
    );
    let lines: Vec<String> = fixture.text().lines().map(str::to_string).collect();
    assert_eq!(entries.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>(), lines);
    let mut backwards: Vec<_> = fixture.reader().entries_from_end().map(Result::unwrap).collect();
    backwards.reverse();
    assert_eq!(
        backwards.iter().map(|entry| entry.offset).collect::<Vec<_>>(),
        entries.iter().map(|entry| entry.offset).collect::<Vec<_>>()
    );
}

#[test]
fn filters_apply_alone_and_combined() {
    let fixture = sample();
    let all = Filter::default();
    let cases = [
        (all.clone(), vec!["1run", "2read", "3send", "4close"]),
        (Filter { last: Some(2), ..all.clone() }, vec!["3send", "4close"]),
        (Filter { last: Some(100), ..all.clone() }, vec!["1run", "2read", "3send", "4close"]),
        (Filter { last: Some(0), ..all.clone() }, vec![]),
        (Filter { op: Some(HistoryOp::Send), ..all.clone() }, vec!["3send"]),
        (Filter { op: Some(HistoryOp::Delete), ..all.clone() }, vec![]),
        (Filter { seq: Some(3), ..all.clone() }, vec!["3send"]),
        (Filter { seq: Some(99), ..all.clone() }, vec![]),
        (Filter { inputs_only: true, ..all.clone() }, vec!["1run", "3send"]),
        (Filter { inputs_only: true, last: Some(1), ..all.clone() }, vec!["3send"]),
        (Filter { without_reads: true, last: Some(3), ..all.clone() }, vec!["1run", "3send", "4close"]),
        (Filter { op: Some(HistoryOp::Read), last: Some(5), ..all.clone() }, vec!["2read"]),
        (Filter { op: Some(HistoryOp::Read), inputs_only: true, ..all.clone() }, vec![]),
        (Filter { seq: Some(3), op: Some(HistoryOp::Read), ..all.clone() }, vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(ops(&fixture, &filter), expected, "{filter:?}");
    }
}

#[test]
fn streamed_prompts_and_writes_are_inputs() {
    let content = ["send", "send_stream", "write", "run", "interrupt", "read", "close", "delete"]
        .iter()
        .enumerate()
        .map(|(index, op)| format!("{{\"seq\": {index}, \"op\": \"{op}\"}}\n"))
        .collect::<String>();
    let inputs = Filter { inputs_only: true, ..Filter::default() };
    assert_eq!(ops(&Fixture::with(content), &inputs), ["0send", "1send_stream", "2write", "3run"]);
}

#[test]
fn byte_limit_truncates_and_is_reported() {
    let fixture = sample();
    let size = |from: usize, to: usize| {
        fixture.text().lines().skip(from).take(to - from).map(str::len).sum::<usize>()
    };
    let page = fixture.reader().query(&Filter { max_bytes: Some(size(0, 2)), ..Filter::default() }).unwrap();
    assert_eq!((page.total, page.truncated), (2, true));
    assert!(page.entries[0].contains("\"seq\": 1"));
    let limit = Some(size(2, 4));
    let page =
        fixture.reader().query(&Filter { last: Some(9), max_bytes: limit, ..Filter::default() }).unwrap();
    assert_eq!((page.total, page.truncated), (2, true));
    assert!(page.entries[1].contains("\"seq\": 4"));
    let page = fixture.reader().query(&Filter { max_bytes: Some(size(0, 4)), ..Filter::default() }).unwrap();
    assert_eq!((page.total, page.truncated), (4, false));
}

#[test]
fn malformed_lines_are_skipped_and_counted() {
    let fixture = Fixture::with(
        "{\"seq\": 1, \"op\": \"run\"}\nthis is not json\n\n{\"seq\": 2, \"op\": \"close\"}\n[3]\n",
    );
    let page = fixture.reader().query(&Filter::default()).unwrap();
    assert_eq!((page.total, page.malformed), (2, 2));
    let reader = fixture.reader();
    let mut entries = reader.entries();
    assert_eq!(entries.next().unwrap().unwrap().line_no, Some(1));
    assert_eq!(entries.next().unwrap().unwrap().line_no, Some(4));
    assert!(entries.next().is_none());
    assert_eq!(entries.malformed(), 2);
    let page = fixture.reader().query(&Filter { last: Some(1), ..Filter::default() }).unwrap();
    assert_eq!((page.total, page.malformed), (1, 1));
}

#[test]
fn empty_and_garbage_files_have_no_entries() {
    for (content, malformed) in
        [(&b""[..], 0), (b"\n\r\n \n", 0), (b"\x00\x01\x02", 1), (b"a\nb\nc\n\xff\n", 4)]
    {
        let page = Fixture::with(content).reader().query(&Filter::default()).unwrap();
        assert_eq!((page.total, page.malformed), (0, malformed), "{content:?}");
    }
}

#[test]
fn crlf_bom_and_bad_utf8_hide_no_entries() {
    let fixture = Fixture::with(
        b"\xef\xbb\xbf{\"seq\": 1, \"op\": \"run\", \"input\": \"a\"}\r\n{\"seq\": 2, \"op\": \"write\", \"input\": \"x\xffy\"}\r\n",
    );
    let entries: Vec<_> = fixture.reader().entries().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].text, r#"{"seq": 1, "op": "run", "input": "a"}"#);
    assert_eq!(entries[1].value["input"], "x\u{fffd}y");
    assert_eq!(fixture.reader().last(2).unwrap()[0].text, entries[0].text);
}

#[test]
fn huge_line_is_read_in_both_directions() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer();
    writer.log(&Operation::Run { ts: at(0), input: "before" });
    writer.log(&Operation::Write { ts: at(0), input: &"z".repeat(10 << 20) });
    writer.log(&Operation::Run { ts: at(0), input: "after" });
    let last = fixture.reader().last(2).unwrap();
    assert_eq!(last[0].value["input"].as_str().unwrap().len(), 10 << 20);
    assert_eq!(ops(&fixture, &Filter::default()), ["1run", "2write", "3run"]);
}

#[test]
fn missing_history_error_names_node_and_server() {
    let fixture = Fixture::new();
    let error = HistoryReader::open(fixture.base(), "test-server", "nonexistent").unwrap_err();
    assert!(matches!(error, HistoryError::NotFound { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("'nonexistent'") && message.contains("'test-server'"), "{message}");
    for (server, node) in [("../..", "node"), ("server", "../../etc/passwd")] {
        let error = HistoryReader::open(fixture.base(), server, node).unwrap_err();
        assert!(matches!(error, HistoryError::Name(_)), "{error}");
    }
}

/// A legacy file: escaped non-ASCII characters, `+00:00`, an obsolete operation and obsolete fields.
const LEGACY_HISTORY: &str = r#"{"seq": 1, "op": "run", "ts": "2025-12-24T09:00:00.123456+00:00", "input": "claude"}
{"seq": 2, "op": "send", "ts_start": "2025-12-24T09:00:01+00:00", "ts_end": "2025-12-24T09:00:02+00:00", "input": "caf\u00e9 \ud83d\ude00 \udcff", "preceding_buffer_seq": null, "response": {"sections": [], "tokens": null, "is_complete": true, "is_ready": true}, "later": [1, 2.50]}
{"seq": 3, "op": "delete", "ts": "2025-12-24T09:00:03+00:00", "reason": null}
"#;

#[test]
fn legacy_history_is_readable() {
    let fixture = Fixture::new();
    fixture.put("server/main/node.jsonl", LEGACY_HISTORY);
    assert_eq!(ops(&fixture, &Filter::default()), ["1run", "2send", "3delete"]);
    let entries: Vec<_> = fixture.reader().entries().map(Result::unwrap).collect();
    assert_eq!(entries[1].value["input"], "café 😀 \u{fffd}");
    assert!(entries[1].text.ends_with(r#""later": [1, 2.50]}"#));
    assert_eq!(entries[0].value["ts"], "2025-12-24T09:00:00.123456+00:00");
    let with_session =
        HistoryReader::open_in_session(fixture.base(), "server", Some("main"), "node").unwrap();
    assert_eq!(with_session.path(), fixture.base().join("server/main/node.jsonl"));
}

#[test]
fn session_folder_comes_first_and_is_never_guessed() {
    let fixture = Fixture::new();
    fixture.put("server/a/node.jsonl", "{\"seq\": 1}\n");
    fixture.put("server/b/node.jsonl", "{\"seq\": 2}\n");
    fixture.put("server/b/deeper/other.jsonl", "{\"seq\": 3}\n");
    let error = HistoryReader::open(fixture.base(), "server", "node").unwrap_err();
    assert!(error.to_string().contains("several sessions of server 'server': a, b"), "{error}");
    let error = HistoryReader::open(fixture.base(), "server", "other").unwrap_err();
    assert!(matches!(error, HistoryError::NotFound { .. }), "{error}");
    let path = |session: Option<&str>| {
        let reader = HistoryReader::open_in_session(fixture.base(), "server", session, "node").unwrap();
        reader.path().strip_prefix(fixture.base()).unwrap().to_str().unwrap().to_string()
    };
    assert_eq!(path(Some("b")), "server/b/node.jsonl");
    fixture.put("server/node.jsonl", "");
    assert_eq!(path(None), "server/node.jsonl");
    assert_eq!(path(Some("a")), "server/a/node.jsonl");
    assert_eq!(path(Some("c")), "server/node.jsonl");
}

#[test]
fn reader_sees_file_as_of_opening() {
    let fixture = sample();
    let reader = fixture.reader();
    let mut writer = HistoryWriter::create(fixture.base(), "server", "node").unwrap();
    assert_eq!(writer.log(&Operation::Run { ts: at(9), input: "later" }), 5);
    assert_eq!(reader.query(&Filter::default()).unwrap().total, 4);
    assert_eq!(fixture.reader().last(1).unwrap()[0].seq(), Some(5));
}
