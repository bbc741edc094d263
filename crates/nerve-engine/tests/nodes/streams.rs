//! Streamed answers: published text is never withdrawn, cut or repeated.

use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_node::response::Response;
use nerve_testkit::skip;

use crate::harness::Harness;

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

/// Runs a streamed turn; returns the response and the chunks published before it.
async fn streamed(harness: &mut Harness, node: &str, text: &str) -> (Response, Vec<String>) {
    let mut execute = harness.execute(node, text);
    execute.stream = true;
    let response = match harness.run(execute).await {
        Ok(response) => response,
        Err(error) => panic!("{text:?}: {error}"),
    };
    let mut chunks = Vec::new();
    loop {
        use tokio::sync::broadcast::error::TryRecvError;
        match harness.events.try_recv() {
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
async fn redrawn_rows_pause_the_stream() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    let redraw = "printf 'aaaa\\nbbbb\\n'; sleep 0.5; printf '\\033[2A日本日本日本\\n日本日本\\nnew\\nmore\\n'; sleep 0.3";
    let (response, chunks) = streamed(&mut harness, "sh", redraw).await;
    assert_eq!(response.text, "日本日本日本\n日本日本\nnew\nmore");
    assert_eq!(chunks.concat(), "aaaa\nbbbb", "the stream continued after rows that are no longer shown");
    assert_eq!(harness.ask("sh", "echo alive").await.text, "alive");
    // The stream resumes when the published rows are back.
    let restore = "printf 'one\\ntwo\\n'; sleep 0.3; printf '\\033[1Axxx\\n'; sleep 0.3; printf '\\033[1Atwo\\nthree\\n'";
    let (response, chunks) = streamed(&mut harness, "sh", restore).await;
    assert_eq!(response.text, "one\ntwo\nthree");
    assert_eq!(chunks.concat(), response.text);
    harness.stop("sh").await;
}

#[tokio::test]
async fn parsed_stream_survives_redrawn_rows() {
    let mut harness = Harness::new();
    let mut spec = harness.spec("sh", &BASH);
    spec.parser = Some(nerve_agent::parse::ParserKind::Codex);
    harness.engine.create(spec).await.unwrap();
    let redraw = "printf '• aaaa\\n  bbbb\\n  c\\n'; sleep 0.5; printf '\\033[3A• 日本日本\\n  日本日本\\n  new\\n  more\\n'; sleep 0.4";
    let (response, chunks) = streamed(&mut harness, "sh", redraw).await;
    assert!(response.text.ends_with("日本日本\n日本日本\nnew\nmore"), "{response:?}");
    assert!(!chunks.concat().contains('日'), "{chunks:?}");
    assert_eq!(harness.ask("sh", "echo alive").await.text, "alive");
    harness.stop("sh").await;
}

#[tokio::test]
async fn long_stream_has_each_line_once_in_order() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    let (response, chunks) = streamed(&mut harness, "sh", "seq 1 200000").await;
    let all = chunks.concat();
    let mut lines = all.lines();
    for n in 1..=200_000 {
        assert_eq!(lines.next(), Some(n.to_string().as_str()));
    }
    assert_eq!(lines.next(), None);
    assert!(response.attributes.contains_key("truncated") && response.text.ends_with("\n200000"));
    let slow =
        "for i in 1 2 3 4 5; do seq 1 3000; printf '\\n\\n'; sleep 0.15; done; printf 'x%.0s' {1..500}";
    let (response, chunks) = streamed(&mut harness, "sh", slow).await;
    assert!(chunks.len() > 2, "{}", chunks.len());
    assert!(chunks.concat() == response.text, "blank or wrapped rows are missing");
    harness.stop("sh").await;
}

#[tokio::test]
async fn row_is_published_when_the_next_one_begins() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let mut execute = harness.execute("sh", "echo 日本; printf 'open '; sleep 30");
    (execute.stream, execute.timeout) = (true, Some(Duration::from_secs(20).into()));
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    let chunk = harness.wait_for_event(|kind| matches!(kind, EventKind::OutputChunk { .. })).await;
    assert!(matches!(&chunk, EventKind::OutputChunk { chunk, .. } if chunk == "日本"), "{chunk:?}");
    harness.stop("sh").await;
    assert!(turn.await.unwrap().is_err());
}

#[tokio::test]
async fn full_screen_program_and_cleared_screen_are_skipped() {
    let mut harness = Harness::new();
    harness.start("sh", &BASH).await;
    let visit = "echo before; sleep 0.3; printf '\\033[?1049h\\033[Hinside\\n'; sleep 0.3; printf '\\033[?1049l'; echo after";
    let (response, chunks) = streamed(&mut harness, "sh", visit).await;
    assert_eq!(response.text, "before\nafter");
    assert_eq!(chunks.concat(), response.text);
    let (response, chunks) = streamed(&mut harness, "sh", "clear; echo top").await;
    assert_eq!((response.text.as_str(), chunks.concat().as_str()), ("top", "top"));
    harness.stop("sh").await;
}

#[tokio::test]
async fn output_of_erased_screen_is_exact() {
    let mut harness = Harness::new();
    for (node, program) in [("bash", &BASH[..]), ("dash", &["/bin/dash"])] {
        harness.start(node, program).await;
        // `clear` on an xterm, on a VT100, and in the two orders of other programs.
        for clear in ["clear", "TERM=vt100 clear", "printf '\\033[H\\033[J'", "printf '\\033[2J\\033[H'"] {
            for before in ["true", "seq 1 60"] {
                harness.ask(node, before).await;
                let (response, chunks) = streamed(&mut harness, node, &format!("{clear}; seq 1 3")).await;
                assert_eq!(response.failure(), None, "{node} {clear} after {before}");
                assert_eq!(response.text, "1\n2\n3", "{node} {clear} after {before}");
                assert_eq!(chunks.concat(), response.text, "{node} {clear} after {before}");
            }
        }
        assert_eq!(harness.ask(node, "TERM=vt100 clear").await.text, "");
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn overwritten_output_is_incomplete() {
    let harness = Harness::new();
    for (node, program) in [("bash", &BASH[..]), ("dash", &["/bin/dash"])] {
        harness.start(node, program).await;
        for lossy in [
            "printf '\\033[H'; echo top",
            "printf '\\033[5A'; echo up",
            "printf '\\033[1A'; echo up",
            "printf '\\033[5A'; echo; printf 'up\\n\\n\\n\\n\\n\\nend\\n'",
            "printf '\\033[H'; seq 1 100",
            "printf '\\0337'; seq 1 100; printf '\\033[H'; echo top",
            "seq 1 10; printf '\\033[5A'; echo up",
            "seq 1 10; printf '\\033[H\\033[J'; echo end",
            "seq 1 10; clear; echo end",
            "seq 1 100; TERM=vt100 clear; seq 1 3; TERM=vt100 clear; echo end",
            "printf 'abc\\r'",
            "seq 1 3; printf 'abcdef\\rxy'",
        ] {
            harness.ask(node, "clear; seq 1 60").await;
            let response = harness.ask(node, lossy).await;
            let failure = response.failure().map(|failure| failure.kind);
            assert_eq!(failure, Some(ErrorKind::Incomplete), "{node} {lossy}: {response:?}");
            // The next output covers the text that still stands there, which is no part of it.
            for _ in 0..2 {
                let next = harness.ask(node, "echo x").await;
                assert_eq!((next.text.as_str(), next.failure()), ("x", None), "{node} after {lossy}");
                harness.ask(node, "clear").await;
            }
        }
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn text_below_the_prompt_is_no_part_of_later_output() {
    let mut harness = Harness::new();
    for (node, program) in [("bash", &BASH[..]), ("dash", &["/bin/dash"])] {
        harness.start(node, program).await;
        for (command, text) in [
            ("echo x", "x".to_string()),
            ("printf 'a\\tb\\n\\nc\\n'", "a       b\n\nc".to_string()),
            ("true", String::new()),
            ("seq 1 90", (1..=90).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")),
        ] {
            harness.ask(node, "clear; seq 1000000 1000060").await;
            let moved = harness.ask(node, "printf '\\033[3;1H'").await;
            assert_eq!(moved.failure().map(|failure| failure.kind), Some(ErrorKind::Incomplete), "{moved:?}");
            let (response, chunks) = streamed(&mut harness, node, command).await;
            assert_eq!(
                (response.text.as_str(), response.failure()),
                (text.as_str(), None),
                "{node} {command}"
            );
            assert_eq!(chunks.concat(), text, "{node} {command}");
            let next = harness.ask(node, "echo next").await;
            assert_eq!((next.text.as_str(), next.failure()), ("next", None), "{node} after {command}");
            // Output that is lost above the prompt is noticed there, too.
            let lost = harness.ask(node, "printf '1\\n2\\n3\\n\\033[2A4\\n'").await;
            assert_eq!(lost.failure().map(|failure| failure.kind), Some(ErrorKind::Incomplete), "{lost:?}");
        }
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn text_under_the_prompt_of_other_shells_is_incomplete() {
    for (node, program) in [("zsh", &["zsh", "-f"][..]), ("fish", &["fish", "--no-config"])] {
        if std::process::Command::new(node).arg("--version").output().is_err() {
            skip(&format!("text_under_the_prompt_of_other_shells_is_incomplete ({node})"), "it is missing");
            continue;
        }
        let harness = Harness::new();
        harness.start(node, program).await;
        for (command, text) in
            [("echo one", "one"), ("printf 'one\\ntwo'", "one"), ("echo one; printf '5%%\\r  \\r'", "one")]
        {
            let response = harness.ask(node, command).await;
            assert!(response.text.starts_with(text), "{node} {command}: {response:?}");
            assert_eq!(response.failure(), None, "{node} {command}: {response:?}");
        }
        let response = harness.ask(node, "echo one; printf 'abc\\r'").await;
        let failure = response.failure().map(|failure| failure.kind);
        assert_eq!(failure, Some(ErrorKind::Incomplete), "{node}: {response:?}");
        assert_eq!(harness.ask(node, "echo two").await.failure(), None, "{node}");
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn redrawn_output_is_complete() {
    let mut harness = Harness::new();
    for (node, program) in [("bash", &BASH[..]), ("dash", &["/bin/dash"])] {
        harness.start(node, program).await;
        for before in ["true", "seq 1 60"] {
            harness.ask(node, before).await;
            let progress = "echo a; echo 50%; printf '\\033[1A\\033[K'; echo 100%; echo b";
            let (response, _) = streamed(&mut harness, node, progress).await;
            assert_eq!((response.text.as_str(), response.failure()), ("a\n100%\nb", None), "{node}");
            for (progress, text) in [
                ("printf '50%%\\r100%%\\n'", "100%"),
                ("echo a; printf '50%%\\r60%%\\r\\033[K'", "a"),
                ("echo a; printf '50%%\\r    \\r'", "a"),
            ] {
                let response = harness.ask(node, progress).await;
                assert_eq!((response.text.as_str(), response.failure()), (text, None), "{node} {progress}");
            }
            // Two commands in one prompt: the echo of the second is erased with the screen, or drawn again.
            let long = format!("TERM=vt100 clear\necho {}", "x".repeat(200));
            let response = harness.ask(node, &long).await;
            assert_eq!(response.failure(), None, "{node}: {response:?}");
        }
        harness.stop(node).await;
    }
}
