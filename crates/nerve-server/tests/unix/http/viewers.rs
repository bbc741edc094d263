//! Many viewers of a terminal at once, and viewers that misbehave.

use futures_util::SinkExt;
use nerve_server::web::Role;
use nerve_testkit::harness::memory_kib;
use nerve_testkit::within_deadline;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::client::{HttpServer, read_head};
use super::terminal::{Received, Viewer, server_with};
use super::web::Browser;

const TERMINAL: &str = "/nodes/term/terminal";

/// The connections that a page of the console keeps open: the stream of events and a terminal.
struct Page {
    events: BufReader<TcpStream>,
    viewer: Viewer,
}

impl Page {
    /// Logs in and opens both connections.
    async fn open(server: &HttpServer) -> Page {
        let browser = Browser::logged_in(server, Role::Full).await;
        let mut events = server.connect().await;
        let head = browser.head("GET", "/events?types=NODE_BUSY", "\r\n");
        events.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_head(&mut events).await.0, 200);
        let origin = format!("http://{}", server.address);
        let headers = [("cookie", browser.cookie.as_str()), ("origin", origin.as_str())];
        Page { events, viewer: Viewer::connect(server, TERMINAL, &headers).await.unwrap() }
    }

    async fn wait_for_event(&mut self, kind: &str) {
        let mut line = String::new();
        while !line.contains(kind) {
            line.clear();
            let read = within_deadline("an event", self.events.read_line(&mut line)).await;
            assert_ne!(read.unwrap(), 0, "the stream has ended");
        }
    }
}

async fn ping(server: &HttpServer) {
    let pong = server.request_ok("POST", "/api/command", json!({ "command_type": "PING" })).await;
    assert_eq!(pong["data"]["pong"], true);
}

#[tokio::test]
async fn fifty_pages_see_the_same_output_and_events() {
    const PAGES: usize = 50;
    let server = server_with("exec cat").await;
    server.bash("job").await;
    let mut pages = Vec::new();
    for _ in 0..PAGES {
        pages.push(Page::open(&server).await);
    }
    server.request_ok("POST", "/nodes/job/execute", json!({ "text": "echo done" })).await;
    for (number, page) in pages.iter_mut().enumerate() {
        let typed = format!("by page {number}");
        page.viewer.type_keys(&format!("{typed}\r")).await;
        page.viewer.wait_for(&format!("{typed}\r\n{typed}\r\n")).await;
    }
    let last = format!("by page {}", PAGES - 1);
    for page in &mut pages {
        page.viewer.wait_for(&last).await;
        page.wait_for_event("NODE_BUSY").await;
        assert_eq!(page.viewer.dumps, 1);
    }
    ping(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn viewers_that_stop_reading_cost_no_memory_and_delay_no_one() {
    const STALLED: usize = 8;
    /// Maximum memory in KiB: the host's buffer, the terminal and the output on its way to each viewer.
    const MEMORY: u64 = 64 << 10;
    const LAST: &str = "all written";
    // The program writes as fast as its terminal is read.
    let script = format!("read line; yes {} | head -c 10000000; echo; echo {LAST}; exec cat", "x".repeat(55));
    let server = server_with(&script).await;
    let mut stalled = Vec::new();
    for number in 0..STALLED {
        let mut viewer = Viewer::started(&server, "", "dump").await;
        set_socket_recv_buffer_size(viewer.socket.get_ref(), 64 << 10).unwrap();
        if number % 2 == 0 {
            viewer.send(json!({ "type": "ack", "offset": viewer.offset })).await;
        }
        stalled.push(viewer);
    }
    let mut reader = Viewer::started(&server, "", "dump").await;
    let before = memory_kib(std::process::id(), "VmRSS");
    reader.type_keys("\r").await;
    let (mut most, mut messages) = (0, 0);
    while !reader.text().contains(LAST) {
        assert!(matches!(reader.next().await, Received::Output | Received::Json(_)));
        // The test itself keeps only the end.
        let surplus = reader.shown.len().saturating_sub(64 << 10);
        reader.shown.drain(..surplus);
        messages += 1;
        if messages % 16 == 0 {
            ping(&server).await;
            most = most.max(memory_kib(std::process::id(), "VmRSS").saturating_sub(before));
        }
    }
    assert!(messages >= 16, "{messages} messages");
    assert!(most < MEMORY, "{most} KiB");
    for viewer in &mut stalled {
        while !viewer.text().contains(LAST) {
            assert!(matches!(viewer.next().await, Received::Output | Received::Json(_)));
            viewer.send(json!({ "type": "ack", "offset": viewer.offset })).await;
        }
        assert!(viewer.dumps > 1, "{} bytes were kept for it", viewer.shown.len());
    }
    server.stop().await;
}

#[tokio::test]
async fn broken_frames_end_only_their_viewer() {
    const MASK: &str = "\0\0\0\0";
    let masked = |head: &[u8], payload: &[u8]| [head, MASK.as_bytes(), payload].concat();
    let broken: [(&str, Vec<u8>); 10] = [
        ("not masked", vec![0x81, 1, b'x']),
        ("reserved operation", masked(&[0x83, 0x80], b"")),
        ("reserved bit", masked(&[0xc1, 0x80], b"")),
        ("continuation of nothing", masked(&[0x80, 0x80], b"")),
        ("text in another text", [masked(&[0x01, 0x81], b"a"), masked(&[0x81, 0x81], b"b")].concat()),
        ("large ping", masked(&[0x89, 0xfe, 0x01, 0x00], &[0; 256])),
        ("ping in pieces", masked(&[0x09, 0x80], b"")),
        ("2^63 bytes announced", masked(&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], b"")),
        ("text that is not UTF-8", masked(&[0x81, 0x81], &[0xff])),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
    ];
    let server = server_with("exec cat").await;
    let mut good = Viewer::started(&server, "", "dump").await;
    for (what, frame) in broken {
        let mut bad = Viewer::started(&server, "", "dump").await;
        bad.socket.get_mut().write_all(&frame).await.unwrap();
        within_deadline(what, bad.end()).await;
        good.type_keys(&format!("after {what}\r")).await;
        good.wait_for(&format!("after {what}\r\nafter {what}")).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn wrong_acknowledgements_stop_no_output() {
    const LAST: &str = "all written";
    let script = format!("read line; yes {} | head -n 20000; echo {LAST}; exec cat", "x".repeat(55));
    let server = server_with(&script).await;
    let mut viewer = Viewer::started(&server, "", "dump").await;
    // Two offsets that were never sent, and one before the first output.
    for offset in [u64::MAX, 1 << 40, 0] {
        viewer.send(json!({ "type": "ack", "offset": offset })).await;
    }
    viewer.type_keys("\r").await;
    let start = viewer.offset;
    while viewer.offset - start < 500_000 {
        assert!(matches!(viewer.next().await, Received::Output | Received::Json(_)));
    }
    // The window is closed; a correct report opens it again.
    viewer.send(json!({ "type": "ack", "offset": viewer.offset })).await;
    viewer.send(json!({ "type": "ack", "offset": u64::MAX })).await;
    viewer.wait_for(LAST).await;
    viewer.type_keys("still here\r").await;
    viewer.wait_for("still here\r\nstill here").await;
    server.stop().await;
}

#[tokio::test]
async fn no_byte_is_lost_or_doubled_when_connections_break() {
    const PIECES: usize = 30;
    /// 47 kB: without a viewer, the server keeps the last 64 KiB.
    const NUMBERS: u32 = 8000;
    let server = server_with(&format!("while read line; do seq {NUMBERS}; done")).await;
    let piece: String = std::iter::once("\r\n".to_string())
        .chain((1..=NUMBERS).map(|number| format!("{number}\r\n")))
        .collect();
    let mut viewer = Viewer::started(&server, "", "dump").await;
    assert!(matches!(viewer.next().await, Received::Output));
    for number in 0..PIECES {
        viewer.shown.clear();
        viewer.type_keys("\r").await;
        let mut received = Vec::new();
        while received.len() < piece.len() {
            // Connections break within a piece, if its output comes in several messages.
            while viewer.shown.is_empty() {
                assert!(matches!(viewer.next().await, Received::Output | Received::Json(_)));
            }
            received.append(&mut viewer.shown);
            let position = viewer.position();
            drop(viewer);
            viewer = Viewer::started(&server, &position, "resume").await;
        }
        assert!(received == piece.as_bytes(), "piece {number} is another one: {} bytes", received.len());
        assert_eq!(viewer.dumps, 0);
    }
    server.stop().await;
}

#[tokio::test]
async fn large_message_in_many_frames_is_refused() {
    let server = server_with("exec cat").await;
    let mut good = Viewer::started(&server, "", "dump").await;
    let mut bad = Viewer::started(&server, "", "dump").await;
    let before = memory_kib(std::process::id(), "VmRSS");
    // Frames of 64 KiB without the FIN bit: the message has no end.
    let begin = [&[0x02, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[b'x'; 64 << 10]].concat();
    let more = [&[0x00, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[b'x'; 64 << 10]].concat();
    let mut sent = bad.socket.get_mut().write_all(&begin).await;
    for _ in 0..1600 {
        if sent.is_err() {
            break;
        }
        sent = within_deadline("a frame", bad.socket.get_mut().write_all(&more)).await;
    }
    within_deadline("the end", bad.end()).await;
    let used = memory_kib(std::process::id(), "VmRSS").saturating_sub(before);
    assert!(used < 32 << 10, "{used} KiB");
    good.socket.send(Message::binary(b"fine\r".to_vec())).await.unwrap();
    good.wait_for("fine\r\nfine").await;
    server.request_ok("DELETE", "/nodes/term", Value::Null).await;
    server.stop().await;
}
