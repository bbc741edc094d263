//! Shells as users have them: with start files, nested, with unfinished input.

use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_testkit::eventually;
use nerve_testkit::harness::{assert_error, node_ref};

use crate::harness::{Harness, LIMIT};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

async fn with_rc(text: &str) -> Harness {
    let harness = Harness::new();
    let rc = harness.folder.path().join("rc");
    std::fs::write(&rc, text).unwrap();
    harness.start("sh", &["bash", "--rcfile", &rc.display().to_string()]).await;
    harness
}

#[tokio::test]
async fn users_prompt_command_is_supported() {
    let harness = with_rc("PROMPT_COMMAND='history -a'\nPS1='mine> '\n").await;
    for n in 0..3 {
        assert_eq!(harness.ask("sh", &format!("echo {n}")).await.text, n.to_string());
    }
    assert_eq!(harness.ask("sh", "sleep 0.6; echo slept").await.text, "slept");
    harness.stop("sh").await;
}

#[tokio::test]
async fn multi_line_command_returns_all_output() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let text = harness.ask("sh", "echo one\necho two\necho three").await.text;
    let outputs: Vec<&str> = text.lines().filter(|line| ["one", "two", "three"].contains(line)).collect();
    assert_eq!(outputs, ["one", "two", "three"], "{text}");
    assert_eq!(harness.ask("sh", "echo after").await.text, "after");
    harness.stop("sh").await;
}

#[tokio::test]
async fn nested_shell_takes_turns() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.ask("sh", "bash --norc --noprofile").await;
    assert_eq!(harness.ask("sh", "echo inner $SHLVL").await.text.split(' ').next(), Some("inner"));
    harness.ask("sh", "exit").await;
    assert_eq!(harness.ask("sh", "echo outer").await.text, "outer");
    harness.stop("sh").await;
}

#[tokio::test]
async fn incomplete_command_blocks() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    let incomplete = harness.send("sh", "echo 'abc").await.unwrap_err();
    assert_eq!(incomplete.kind, ErrorKind::Blocked, "{incomplete:?}");
    harness.engine.send_interrupt(node_ref("sh").into(), Default::default()).await.unwrap();
    harness.wait("sh", NodeState::Ready).await.unwrap();
    assert_eq!(harness.ask("sh", "echo whole").await.text, "whole");
    harness.stop("sh").await;
}

#[tokio::test]
async fn shell_tracing_hides_our_instrumentation() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.ask("sh", "set -x").await;
    assert_eq!(harness.ask("sh", "echo traced").await.text, "+ echo traced\ntraced");
    harness.stop("sh").await;
}

#[tokio::test]
async fn program_is_interrupted_once() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let engine = harness.engine.clone();
    let script = "python3 -c 'import signal,time\nn=0\ndef hit(*a):\n  global n; n+=1\nsignal.signal(2,hit)\nprint(\"up\", flush=True)\nt=time.time()+3\nwhile time.time()<t: time.sleep(0.05)\nprint(\"hits\", n)'";
    let execute = harness.execute("sh", script);
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait_for_output("sh", "\nup").await;
    harness.engine.send_interrupt(node_ref("sh").into(), Default::default()).await.unwrap();
    let reply = tokio::time::timeout(LIMIT + Duration::from_secs(5), turn).await.unwrap().unwrap().unwrap();
    let response = reply;
    assert!(response.text.contains("hits 1"), "{}", response.text);
    harness.stop("sh").await;
}

#[tokio::test]
async fn python_accepts_blocks_and_wrapped_lines() {
    let harness = Harness::new();
    harness.start("py", &["python3", "-q"]).await;
    assert_eq!(harness.ask("py", "for i in range(3):\n    print(i)\n").await.text, "0\n1\n2");
    let slow = harness.ask("py", "import time\ntime.sleep(1.5)\nprint('x')").await;
    assert_eq!(slow.text, "x");
    let long = format!("print('{}'[:3])", "z".repeat(300));
    assert_eq!(harness.ask("py", &long).await.text, "zzz");
    assert_eq!(harness.ask("py", "print(1); import time; time.sleep(2); print(2)").await.text, "1\n2");
    harness.stop("py").await;
}

#[tokio::test]
async fn unfinished_input_of_a_user_blocks_the_prompt() {
    let harness = Harness::new();
    harness.start("sh", &BASH).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    let write = async |data: &[u8]| {
        harness.engine.write_bytes(&node_ref("sh"), data.to_vec()).await.unwrap();
    };
    write(b"half").await;
    harness.wait_for_output("sh", "$ half").await;
    let error = harness.send("sh", "echo whole").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["'half'"]);
    assert!(error.hint.as_deref().unwrap_or_default().contains("C-u"), "{error:?}");
    // Keys are read in order, so the line is cleared before the next prompt.
    write(b"\x15").await;
    eventually("cleared", async || !harness.screen("sh").await.contains("half")).await;
    assert_eq!(harness.ask("sh", "echo whole").await.text, "whole");
    harness.stop("sh").await;
}
