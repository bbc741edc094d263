use std::time::Duration;

use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES, encode};
use nerve_api::{Message, ResultMessage};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn read_frames(input: &[u8], limit: usize) -> Vec<Frame> {
    let mut reader = LineReader::with_limit(input, limit);
    let mut frames = Vec::new();
    loop {
        let frame = reader.next().await.unwrap();
        frames.push(frame.clone());
        if matches!(frame, Frame::Eof { .. }) {
            return frames;
        }
    }
}

fn line(text: &str) -> Frame {
    Frame::Line(text.as_bytes().to_vec())
}

fn eof(partial: &str) -> Frame {
    Frame::Eof { partial: partial.as_bytes().to_vec() }
}

#[tokio::test]
async fn lines_are_returned_one_by_one() {
    assert_eq!(read_frames(b"", 10).await, [eof("")]);
    assert_eq!(read_frames(b"a\n\n \r\nbc\r\nd", 10).await, [line("a"), line("bc\r"), eof("d")]);
}

#[tokio::test]
async fn oversized_line_is_skipped() {
    assert_eq!(
        read_frames(b"0123456789\n0123456789x\nnext\n", 10).await,
        [line("0123456789"), Frame::TooLong { bytes: 11 }, line("next"), eof("")]
    );
    assert_eq!(read_frames(b"0123456789xyz", 10).await, [Frame::TooLong { bytes: 13 }, eof("")]);
}

#[tokio::test]
async fn endless_line_uses_bounded_memory() {
    // 1 GiB through a reader that may buffer 16 MiB.
    let endless = tokio::io::repeat(b'x').take(1 << 30).chain(&b"\n{}\n"[..]);
    let mut reader = LineReader::new(endless);
    assert_eq!(reader.next().await.unwrap(), Frame::TooLong { bytes: 1 << 30 });
    assert_eq!(reader.next().await.unwrap(), line("{}"));
}

#[tokio::test]
async fn cancelled_read_loses_nothing() {
    let (mut client, server) = tokio::io::duplex(64);
    let mut reader = LineReader::new(server);
    client.write_all(b"first ha").await.unwrap();
    for _ in 0..3 {
        let read = tokio::time::timeout(Duration::from_millis(1), reader.next()).await;
        assert!(read.is_err());
    }
    client.write_all(b"lf\nsecond\n").await.unwrap();
    assert_eq!(reader.next().await.unwrap(), line("first half"));
    assert_eq!(reader.next().await.unwrap(), line("second"));
}

#[tokio::test]
async fn has_line_reports_buffered_lines() {
    let (mut client, server) = tokio::io::duplex(1024);
    let mut reader = LineReader::new(server);
    assert!(!reader.has_line());
    client.write_all(b"one\ntwo\nthr").await.unwrap();
    assert_eq!(reader.next().await.unwrap(), line("one"));
    assert!(reader.has_line());
    assert_eq!(reader.next().await.unwrap(), line("two"));
    assert!(!reader.has_line());
    client.write_all(b"ee\n\n").await.unwrap();
    assert_eq!(reader.next().await.unwrap(), line("three"));
    // A blank line is not returned: the reader waits for the next one.
    assert!(tokio::time::timeout(Duration::from_millis(1), reader.next()).await.is_err());
    drop(client);
    assert_eq!(reader.next().await.unwrap(), eof(""));
}

#[test]
fn oversized_result_is_not_encoded() {
    let result = |text: String| Message::Result(ResultMessage::ok(None, Value::String(text)));
    let overhead = encode(&result(String::new())).unwrap().len() - 1;
    let fits = encode(&result("x".repeat(MAX_LINE_BYTES - overhead))).unwrap();
    assert_eq!(fits.len(), MAX_LINE_BYTES + 1);
    assert_eq!(fits.last(), Some(&b'\n'));
    let error = encode(&result("x".repeat(MAX_LINE_BYTES - overhead + 1))).unwrap_err();
    assert_eq!(error.bytes, MAX_LINE_BYTES as u64 + 1);
    assert!(error.to_string().contains("16777217"), "{error}");
}

#[test]
fn encoded_message_is_one_line() {
    let line = encode(&json!({"text": "a\nb\r\u{2028}\u{0}"})).unwrap();
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

proptest! {
    #[test]
    fn framing_does_not_depend_on_read_sizes(lines in prop::collection::vec("[a-z]{1,30}", 0..8), cuts in prop::collection::vec(1_usize..20, 1..20)) {
        let sent: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let actual = runtime.block_on(async move {
            let (mut client, server) = tokio::io::duplex(7);
            let write = async move {
                let mut rest = sent.as_bytes();
                for cut in cuts.iter().cycle() {
                    if rest.is_empty() {
                        break;
                    }
                    let (now, later) = rest.split_at((*cut).min(rest.len()));
                    client.write_all(now).await.unwrap();
                    tokio::task::yield_now().await;
                    rest = later;
                }
            };
            let read = async move {
                let mut reader = LineReader::with_limit(server, 20);
                let mut frames = Vec::new();
                loop {
                    match reader.next().await.unwrap() {
                        Frame::Eof { .. } => return frames,
                        frame => frames.push(frame),
                    }
                }
            };
            tokio::join!(write, read).1
        });
        let expected: Vec<Frame> = lines
            .iter()
            .map(|text| if text.len() > 20 { Frame::TooLong { bytes: text.len() as u64 } } else { line(text) })
            .collect();
        prop_assert_eq!(actual, expected);
    }
}
