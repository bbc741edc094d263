//! The memory that bodies take.

use std::fs;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Answer, HttpServer};
use crate::harness::DEADLINE;

/// What this process has in memory, the server in it, in MiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn bodies_take_no_more_memory_together_than_there_is_for_them() {
    const LENGTH: usize = 15 << 20;
    let server = HttpServer::start();
    let before = resident();
    let head = server.head("POST", "/api/command");
    let head = format!("{head}Content-Length: {LENGTH}\r\n\r\n");
    // Nothing of a body is sent twice, and none is sent whole: all of them are there at the same time.
    let body = vec![b' '; LENGTH - 1];
    let sending = (0..40).map(|_| async {
        let mut stream = server.connect().await;
        let sent = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await
        };
        // Those for which there is no memory are not read any further.
        let _ = tokio::time::timeout(Duration::from_secs(2), sent).await;
        stream
    });
    let mut streams = futures_util::future::join_all(sending).await;
    let taken = resident().saturating_sub(before);
    assert!(taken < 120, "{taken} MiB are taken");
    // Small requests do not wait for that.
    let started = Instant::now();
    let ping = server.done("POST", "/api/command", json!({ "command_type": "PING" })).await;
    assert_eq!(ping["data"]["pong"], true);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    // Four have it. The others are told so.
    let looking = streams.drain(..).map(|stream| async {
        let mut byte = [0; 1];
        let answered = tokio::time::timeout(Duration::from_secs(8), stream.get_ref().peek(&mut byte)).await;
        (answered.is_ok(), stream)
    });
    let (mut refused, mut held) = (0, Vec::new());
    for (is_answered, mut stream) in futures_util::future::join_all(looking).await {
        if !is_answered {
            held.push(stream);
            continue;
        }
        let answer = Answer::read(&mut stream).await;
        assert_eq!(answer.header("retry-after"), Some("5"), "{answer:?}");
        let told = answer.problem(503, "busy");
        assert!(told.contains("memory"), "{told}");
        refused += 1;
    }
    assert_eq!((refused, held.len()), (36, 4));
    for mut stream in held {
        stream.write_all(b" ").await.unwrap();
        let answer = Answer::read(&mut stream).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    // And then there is some again.
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(LENGTH) } });
    assert_eq!(server.done("POST", "/api/command", line).await["data"]["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_say_how_long_it_is_is_taken_all_the_same() {
    let server = HttpServer::start();
    let head = server.head("POST", "/api/command");
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(1 << 20) } }).to_string();
    for _ in 0..10 {
        let mut stream = server.connect().await;
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
        for chunk in line.as_bytes().chunks(100_000) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
            stream.write_all(chunk).await.unwrap();
            stream.write_all(b"\r\n").await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert_eq!(Answer::read(&mut stream).await.json()["data"]["pong"], true);
    }
    server.stop().await;
}

#[tokio::test]
async fn large_answers_to_clients_that_do_not_take_them_are_few_and_hold_up_no_small_ones() {
    /// Half a MiB of each is kept.
    const TURNS: usize = 16;
    let server = HttpServer::start();
    server.bash("sh").await;
    let text = "head -c 900000 /dev/zero | tr '\\0' x";
    for _ in 0..TURNS {
        server.done("POST", "/nodes/sh/execute", json!({ "text": text })).await;
    }
    let before = resident();
    // About twice as long as what the system buffers of one connection, and read by nobody.
    let request = format!("{}\r\n", server.head("GET", "/nodes/sh/history"));
    let mut readers = Vec::new();
    for _ in 0..40 {
        let mut stream = server.connect().await;
        // Otherwise the system may let it grow until a whole answer fits.
        set_socket_recv_buffer_size(stream.get_ref(), 64 << 10).unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    // The first have it, and take it when they like.
    let mut begun = Vec::new();
    for mut stream in readers {
        let mut byte = [0; 1];
        if tokio::time::timeout(Duration::from_secs(12), stream.get_ref().peek(&mut byte)).await.is_err() {
            continue;
        }
        let (status, head) = super::client::read_head(&mut stream).await;
        match status {
            200 => begun.push((stream, head)),
            _ => assert_eq!(status, 503, "{head}"),
        }
    }
    let taken = resident().saturating_sub(before);
    assert!(begun.len() >= 8 && begun.len() < 40, "{} were begun", begun.len());
    assert!(taken < 350, "{taken} MiB are taken");
    assert_eq!(server.done("GET", "/nodes", Value::Null).await["nodes"], json!(["sh"]));
    let (mut stream, head) = begun.swap_remove(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut body)).await.expect("it is not sent").unwrap();
    let history: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(history["entries"].as_array().unwrap().len(), TURNS);
    server.stop().await;
}
