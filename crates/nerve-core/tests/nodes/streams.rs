//! Answers published while they grow: what was published is never taken back, cut or said twice.

use std::time::Duration;

use nerve_core::command::{EventKind, Response, StateName};

use crate::harness::Stage;

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// The response and the chunks that came before it.
async fn streamed(stage: &mut Stage, node: &str, text: &str) -> (Response, Vec<String>) {
    let mut execute = stage.execute(node, text);
    execute.stream = true;
    let response = match stage.run(execute).await {
        Ok(response) => response,
        Err(error) => panic!("{text:?}: {error}"),
    };
    let mut chunks = Vec::new();
    loop {
        use tokio::sync::broadcast::error::TryRecvError;
        match stage.events.try_recv() {
            Ok(event) => {
                if let EventKind::OutputChunk { chunk, turn, .. } = event.kind {
                    assert_eq!(turn, response.turn);
                    chunks.push(chunk);
                }
            }
            Err(TryRecvError::Empty) => return (response, chunks),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn rows_drawn_anew_stop_the_stream_and_hurt_nobody() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    let redraw = "printf 'aaaa\\nbbbb\\n'; sleep 0.5; printf '\\033[2A日本日本日本\\n日本日本\\nnew\\nmore\\n'; sleep 0.3";
    let (response, chunks) = streamed(&mut stage, "sh", redraw).await;
    assert_eq!(response.text, "日本日本日本\n日本日本\nnew\nmore");
    assert_eq!(chunks.concat(), "aaaa\nbbbb", "what stands no longer is not gone on with");
    assert_eq!(stage.ask("sh", "echo alive").await.text, "alive");
    // Back as it was: it goes on.
    let restore = "printf 'one\\ntwo\\n'; sleep 0.3; printf '\\033[1Axxx\\n'; sleep 0.3; printf '\\033[1Atwo\\nthree\\n'";
    let (response, chunks) = streamed(&mut stage, "sh", restore).await;
    assert_eq!(response.text, "one\ntwo\nthree");
    assert_eq!(chunks.concat(), response.text);
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_parsed_stream_survives_rows_drawn_anew() {
    let mut stage = Stage::new();
    let mut spec = stage.spec("sh", &BASH);
    spec.parser = Some(nerve_agent::parse::ParserKind::Codex);
    stage.engine.create(spec).await.unwrap();
    let redraw = "printf '• aaaa\\n  bbbb\\n  c\\n'; sleep 0.5; printf '\\033[3A• 日本日本\\n  日本日本\\n  new\\n  more\\n'; sleep 0.4";
    let (response, chunks) = streamed(&mut stage, "sh", redraw).await;
    assert!(response.text.ends_with("日本日本\n日本日本\nnew\nmore"), "{response:?}");
    assert!(!chunks.concat().contains('日'), "{chunks:?}");
    assert_eq!(stage.ask("sh", "echo alive").await.text, "alive");
    stage.stop("sh").await;
}

#[tokio::test]
async fn every_line_of_a_long_stream_comes_once_and_in_order() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    let (response, chunks) = streamed(&mut stage, "sh", "seq 1 200000").await;
    let all = chunks.concat();
    let mut lines = all.lines();
    for n in 1..=200_000 {
        assert_eq!(lines.next(), Some(n.to_string().as_str()));
    }
    assert_eq!(lines.next(), None);
    assert!(response.attributes.contains_key("truncated") && response.text.ends_with("\n200000"));
    let slow =
        "for i in 1 2 3 4 5; do seq 1 3000; printf '\\n\\n'; sleep 0.15; done; printf 'x%.0s' {1..500}";
    let (response, chunks) = streamed(&mut stage, "sh", slow).await;
    assert!(chunks.len() > 2, "{}", chunks.len());
    assert!(chunks.concat() == response.text, "blank and wrapped rows too");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_row_is_published_when_the_next_one_begins() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let mut execute = stage.execute("sh", "echo 日本; printf 'open '; sleep 30");
    (execute.stream, execute.timeout) = (true, Some(Duration::from_secs(20).into()));
    let engine = stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    let chunk = stage.event(|kind| matches!(kind, EventKind::OutputChunk { .. })).await;
    assert!(matches!(&chunk, EventKind::OutputChunk { chunk, .. } if chunk == "日本"), "{chunk:?}");
    stage.stop("sh").await;
    assert!(turn.await.unwrap().is_err());
}

#[tokio::test]
async fn a_full_screen_program_and_a_cleared_screen() {
    let mut stage = Stage::new();
    stage.start("sh", &BASH).await;
    let visit = "echo before; sleep 0.3; printf '\\033[?1049h\\033[Hinside\\n'; sleep 0.3; printf '\\033[?1049l'; echo after";
    let (response, chunks) = streamed(&mut stage, "sh", visit).await;
    assert_eq!(response.text, "before\nafter");
    assert_eq!(chunks.concat(), response.text);
    let (response, chunks) = streamed(&mut stage, "sh", "clear; echo top").await;
    assert_eq!((response.text.as_str(), chunks.concat().as_str()), ("top", "top"));
    stage.stop("sh").await;
}
