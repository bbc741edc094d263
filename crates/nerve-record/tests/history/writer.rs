use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

use nerve_record::history::{
    HISTORY_BUFFER_LINES, HistoryError, HistoryWriter, Operation, RequestedBy, ResponseData, SendEntry,
    SendStreamEntry,
};
use nerve_types::{ParserKind, Section, SectionKind, Tokens};

use super::{Fixture, at};

#[test]
fn documented_entries_match_byte_for_byte() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer();
    let response = ResponseData {
        sections: vec![Section::new(SectionKind::Text, "Hi!")],
        tokens: Some(Tokens { input: Some(10), output: Some(5), total: None }),
        is_complete: true,
        is_ready: true,
    };
    let seqs = [
        writer.log(&Operation::Run { ts: at(0), input: "claude" }),
        writer.log(&Operation::Read {
            ts: at(1_500),
            buffer: "Claude started...",
            lines: HISTORY_BUFFER_LINES,
        }),
        writer.log(&Operation::Send(SendEntry {
            ts_start: at(5_000),
            ts_end: at(10_000),
            input: "Hello!",
            preceding_buffer_seq: Some(2),
            response,
            usage: None,
        })),
        writer.log(&Operation::Read { ts: at(10_100), buffer: "...", lines: HISTORY_BUFFER_LINES }),
        writer.log(&Operation::SendStream(SendStreamEntry {
            ts_start: at(15_000),
            ts_end: at(25_000),
            input: "Write code",
            preceding_buffer_seq: Some(4),
            final_buffer: "def hello()...",
            parser: ParserKind::Claude,
            usage: None,
        })),
        writer.log(&Operation::Read { ts: at(25_100), buffer: "...", lines: HISTORY_BUFFER_LINES }),
        writer.log(&Operation::Interrupt { ts: at(30_000) }),
        writer.log(&Operation::Read { ts: at(30_200), buffer: "^C...", lines: HISTORY_BUFFER_LINES }),
        writer.log(&Operation::Close { ts: at(300_000), reason: None }),
    ];
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // The documented example, verbatim.
    let expected = r#"{"seq": 1, "op": "run", "ts": "2025-12-22T10:30:00.000Z", "input": "claude"}
{"seq": 2, "op": "read", "ts": "2025-12-22T10:30:01.500Z", "buffer": "Claude started...", "lines": 50}
{"seq": 3, "op": "send", "ts_start": "2025-12-22T10:30:05.000Z", "ts_end": "2025-12-22T10:30:10.000Z", "input": "Hello!", "preceding_buffer_seq": 2, "response": {"sections": [{"type": "text", "content": "Hi!"}], "tokens": {"input": 10, "output": 5}, "is_complete": true, "is_ready": true}}
{"seq": 4, "op": "read", "ts": "2025-12-22T10:30:10.100Z", "buffer": "...", "lines": 50}
{"seq": 5, "op": "send_stream", "ts_start": "2025-12-22T10:30:15.000Z", "ts_end": "2025-12-22T10:30:25.000Z", "input": "Write code", "preceding_buffer_seq": 4, "final_buffer": "def hello()...", "parser": "claude"}
{"seq": 6, "op": "read", "ts": "2025-12-22T10:30:25.100Z", "buffer": "...", "lines": 50}
{"seq": 7, "op": "interrupt", "ts": "2025-12-22T10:30:30.000Z"}
{"seq": 8, "op": "read", "ts": "2025-12-22T10:30:30.200Z", "buffer": "^C...", "lines": 50}
{"seq": 9, "op": "close", "ts": "2025-12-22T10:35:00.000Z", "reason": null}
"#;
    assert_eq!(fixture.text(), expected);
}

#[test]
fn dialogs_cancels_and_unsent_prompts_name_their_client() {
    let fixture = Fixture::new();
    let by = RequestedBy { client: "uid 1000 pid 7", transport: "unix" };
    let mut writer = fixture.writer();
    writer.log(&Operation::Answer { ts: at(0), dialog: "permission", choice: "Yes", by });
    writer.log(&Operation::Cancel { ts: at(0), dialog: Some("trust"), input: None, by });
    writer.log(&Operation::Cancel { ts: at(0), dialog: None, input: Some("Hello!"), by });
    writer.log(&Operation::Unsent { ts: at(0), input: "Hello!", reason: "cancelled", by });
    let who = r#""client": "uid 1000 pid 7", "transport": "unix"}"#;
    let expected = format!(
        r#"{{"seq": 1, "op": "answer", "ts": "2025-12-22T10:30:00.000Z", "dialog": "permission", "choice": "Yes", {who}
{{"seq": 2, "op": "cancel", "ts": "2025-12-22T10:30:00.000Z", "dialog": "trust", "input": null, {who}
{{"seq": 3, "op": "cancel", "ts": "2025-12-22T10:30:00.000Z", "dialog": null, "input": "Hello!", {who}
{{"seq": 4, "op": "unsent", "ts": "2025-12-22T10:30:00.000Z", "input": "Hello!", "reason": "cancelled", {who}
"#
    );
    assert_eq!(fixture.text(), expected);
}

#[test]
fn missing_answer_fields_are_null_and_metadata_is_kept() {
    let fixture = Fixture::new();
    let tool = Section::new(SectionKind::ToolCall, "ok").with("tool", "Bash").with("args", "ls");
    let response =
        ResponseData { sections: vec![tool], tokens: Some(Tokens::default()), ..ResponseData::default() };
    fixture.writer().log(&Operation::Send(SendEntry {
        ts_start: at(0),
        ts_end: at(1),
        input: "x",
        preceding_buffer_seq: Some(0),
        response,
        usage: None,
    }));
    assert_eq!(
        fixture.text(),
        r#"{"seq": 1, "op": "send", "ts_start": "2025-12-22T10:30:00.000Z", "ts_end": "2025-12-22T10:30:00.001Z", "input": "x", "preceding_buffer_seq": null, "response": {"sections": [{"type": "tool_call", "content": "ok", "metadata": {"args": "ls", "tool": "Bash"}}], "tokens": null, "is_complete": false, "is_ready": false}}
"#
    );
}

#[test]
fn new_writer_creates_empty_private_file() {
    let fixture = Fixture::new();
    let base = fixture.base().join("deep/history");
    let writer = HistoryWriter::create(&base, "server", "node").unwrap();
    assert!(writer.is_enabled());
    assert_eq!((writer.seq(), writer.lost()), (0, 0));
    let path = writer.path().unwrap();
    assert_eq!(path, base.join("server/node.jsonl"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path), 0o600);
    assert_eq!(mode(&base.join("server")), 0o700);
    assert_eq!(mode(&base), 0o700);
}

#[test]
fn disabled_writer_creates_no_file() {
    let fixture = Fixture::new();
    let mut writer = HistoryWriter::disabled();
    assert!(!writer.is_enabled());
    assert_eq!(writer.log(&Operation::Run { ts: at(0), input: "echo hello" }), 0);
    writer.close();
    assert_eq!((writer.seq(), writer.lost(), writer.path()), (0, 0, None));
    assert_eq!(fs::read_dir(fixture.base()).unwrap().count(), 0);
}

#[test]
fn closed_writer_writes_nothing() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer();
    assert_eq!(writer.log(&Operation::Run { ts: at(0), input: "a" }), 1);
    writer.close();
    assert!(!writer.is_enabled());
    assert_eq!((writer.log(&Operation::Run { ts: at(0), input: "b" }), writer.lost()), (0, 0));
    writer.close();
    assert_eq!(fixture.text().lines().count(), 1);
}

#[test]
fn sequence_numbers_continue_in_existing_file() {
    let fixture = Fixture::new();
    let mut first = fixture.writer();
    first.log(&Operation::Run { ts: at(0), input: "cmd1" });
    first.log(&Operation::Run { ts: at(0), input: "cmd2" });
    first.close();
    let mut second = fixture.writer();
    assert_eq!(second.seq(), 2);
    assert_eq!(second.log(&Operation::Run { ts: at(0), input: "cmd3" }), 3);
}

#[test]
fn recovery_uses_highest_sequence_number() {
    let cases: [(&str, &[u8], u64); 11] = [
        ("empty", b"", 1),
        ("only newlines", b"\n\n\n", 1),
        ("garbage", b"this is not json\n\x00\xff\xfe\n[1,2]\n", 1),
        ("not in order", b"{\"seq\": 9}\n{\"seq\": 4}\n", 10),
        ("malformed last", b"{\"seq\": 3, \"op\": \"run\"}\n{\"seq\": 4, \"op\": \"ru\n", 4),
        ("no seq last", b"{\"seq\": 3}\n{\"op\": \"note\"}\n", 4),
        ("crlf", b"{\"seq\": 1}\r\n{\"seq\": 2}\r\n", 3),
        ("byte order mark", b"\xef\xbb\xbf{\"seq\": 5}\n", 6),
        ("bad utf-8 inside", b"{\"seq\": 5, \"input\": \"\xff\"}\n", 6),
        ("absurd", b"{\"seq\": 2}\n{\"seq\": 18446744073709551615}\n{\"seq\": -5}\n{\"seq\": 1e3}\n", 3),
        ("strings", b"{\"seq\": 2}\n{\"seq\": \"7\"}\n", 3),
    ];
    for (name, content, expected) in cases {
        assert_eq!(Fixture::with(content).next_seq(), expected, "{name}");
    }
}

#[test]
fn incomplete_last_line_is_terminated_first() {
    let fixture = Fixture::with("{\"seq\": 1, \"op\": \"run\"}\n{\"seq\": 2, \"op\": \"wri");
    let mut writer = fixture.writer();
    // The file changes only when an entry is appended.
    assert!(fixture.text().ends_with("wri"));
    assert_eq!(writer.log(&Operation::Interrupt { ts: at(0) }), 2);
    assert_eq!(writer.log(&Operation::Interrupt { ts: at(0) }), 3);
    let text = fixture.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[1], "{\"seq\": 2, \"op\": \"wri");
    let page = fixture.reader().query(&Default::default()).unwrap();
    assert_eq!((page.total, page.malformed), (3, 1));
}

#[test]
fn complete_last_line_without_newline_counts() {
    let fixture = Fixture::with("{\"seq\": 6, \"op\": \"run\"}");
    assert_eq!(fixture.next_seq(), 7);
    assert_eq!(fixture.reader().query(&Default::default()).unwrap().total, 2);
}

#[test]
fn recovery_reads_only_the_end() {
    let fixture = Fixture::with("");
    let mut file = OpenOptions::new().write(true).open(fixture.file()).unwrap();
    // A hole of 256 GiB: reading it would take minutes.
    file.seek(SeekFrom::Start(256 << 30)).unwrap();
    file.write_all(b"\n").unwrap();
    for seq in 1..=1_000 {
        writeln!(file, "{{\"seq\": {seq}, \"op\": \"read\", \"buffer\": \"{}\"}}", "x".repeat(100)).unwrap();
    }
    assert_eq!(fixture.next_seq(), 1_001);
    let last = fixture.reader().last(2).unwrap();
    assert_eq!(last.iter().map(|entry| entry.seq()).collect::<Vec<_>>(), [Some(1_000), Some(1_001)]);
}

#[test]
fn recovery_skips_back_over_huge_last_line() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer();
    writer.log(&Operation::Run { ts: at(0), input: "small" });
    assert_eq!(writer.log(&Operation::Write { ts: at(0), input: &"y".repeat(9 << 20) }), 2);
    writer.close();
    assert_eq!(fixture.next_seq(), 3);
}

#[test]
fn any_text_stays_on_one_json_line() {
    let fixture = Fixture::new();
    let all: String =
        (0..=0x2ff).filter_map(char::from_u32).chain("\u{2028}\u{2029}\u{feff}😀".chars()).collect();
    let mut writer = fixture.writer();
    writer.log(&Operation::Write { ts: at(0), input: &all });
    writer.log(&Operation::Write { ts: at(0), input: "a\r\nb\n\n\u{0}\u{1b}[31m\u{7f}" });
    assert_eq!(fixture.text().matches('\n').count(), 2);
    assert!(!fixture.text().contains('\u{1b}'));
    let entries = fixture.reader().last(2).unwrap();
    assert_eq!(entries[0].value["input"], all);
    assert_eq!(entries[1].value["input"], "a\r\nb\n\n\u{0}\u{1b}[31m\u{7f}");
}

#[test]
fn invalid_names_create_nothing() {
    let fixture = Fixture::new();
    for (server, node) in
        [("server", "../x"), ("../..", "node"), ("server", ""), ("Server", "node"), ("s", "a.b")]
    {
        let error = HistoryWriter::create(fixture.base(), server, node).unwrap_err();
        assert!(matches!(error, HistoryError::Name(_)), "{error}");
    }
    let error = HistoryWriter::create_in_session(fixture.base(), "server", Some(".."), "node").unwrap_err();
    assert!(error.to_string().contains("session name \"..\""), "{error}");
    assert_eq!(fs::read_dir(fixture.base()).unwrap().count(), 0);
}

#[test]
fn second_writer_is_rejected_until_first_closes() {
    let fixture = Fixture::new();
    let mut first = fixture.writer();
    let error = HistoryWriter::create(fixture.base(), "server", "node").unwrap_err();
    assert!(matches!(error, HistoryError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("node.jsonl"), "{error}");
    assert_eq!(first.log(&Operation::Run { ts: at(0), input: "still mine" }), 1);
    first.close();
    assert_eq!(fixture.next_seq(), 2);
    drop(fixture.writer());
    fixture.writer();
}

#[test]
fn links_pipes_and_folders_are_rejected() {
    let fixture = Fixture::new();
    fixture.put("outside", "");
    fs::create_dir(fixture.base().join("server")).unwrap();
    let assert_rejected = |what: &str| {
        let error = HistoryWriter::create(fixture.base(), "server", "node").unwrap_err();
        assert!(matches!(error, HistoryError::NotAFile { .. }), "{what}: {error}");
        let error = nerve_record::history::HistoryReader::open(fixture.base(), "server", "node").unwrap_err();
        assert!(matches!(error, HistoryError::NotAFile { .. }), "{what}: {error}");
    };
    symlink("../outside", fixture.file()).unwrap();
    assert_rejected("a link");
    fs::remove_file(fixture.file()).unwrap();
    symlink("nowhere", fixture.file()).unwrap();
    assert_rejected("a link to nothing");
    fs::remove_file(fixture.file()).unwrap();
    fs::create_dir(fixture.file()).unwrap();
    assert_rejected("a folder");
    fs::remove_dir(fixture.file()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, fixture.file(), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .unwrap();
    assert_rejected("a pipe");
    assert_eq!(fs::read(fixture.base().join("outside")).unwrap(), b"");
}

#[test]
fn file_in_place_of_folder_is_an_error() {
    let fixture = Fixture::new();
    fixture.put("history/test-server", "");
    let error = HistoryWriter::create(&fixture.base().join("history"), "test-server", "node").unwrap_err();
    assert!(matches!(error, HistoryError::Io { .. }), "{error}");
    assert!(error.to_string().contains("history/test-server"), "{error}");
}

#[test]
fn concurrent_writes_are_complete_and_separate() {
    let fixture = Fixture::new();
    let writer = std::sync::Mutex::new(fixture.writer());
    std::thread::scope(|scope| {
        for start in [0, 100, 200] {
            let writer = &writer;
            scope.spawn(move || {
                for index in 0..10 {
                    writer
                        .lock()
                        .unwrap()
                        .log(&Operation::Write { ts: at(0), input: &format!("data_{start}_{index}") });
                }
            });
        }
    });
    let entries: Vec<_> = fixture.reader().entries().map(Result::unwrap).collect();
    let seqs: Vec<_> = entries.iter().map(|entry| entry.seq().unwrap()).collect();
    assert_eq!(seqs, (1..=30).collect::<Vec<_>>());
    let mut inputs: Vec<_> = entries.iter().map(|entry| entry.value["input"].as_str().unwrap()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    assert_eq!(inputs.len(), 30);
}

#[test]
fn same_name_in_two_sessions_uses_two_files() {
    let fixture = Fixture::new();
    let mut direct = fixture.writer();
    let mut other = HistoryWriter::create_in_session(fixture.base(), "server", Some("work"), "node").unwrap();
    assert_eq!(
        (
            direct.log(&Operation::Run { ts: at(0), input: "a" }),
            other.log(&Operation::Run { ts: at(0), input: "b" })
        ),
        (1, 1)
    );
    assert_eq!(other.path().unwrap(), fixture.base().join("server/work/node.jsonl"));
}
