//! Shells as people have them: with start files, in each other, with half a command typed.

use std::time::Duration;

use nerve_core::command::StateName;
use nerve_core::error::ErrorKind;

use crate::harness::{LIMIT, Stage, at};

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];

async fn with_rc(text: &str) -> Stage {
    let stage = Stage::new();
    let rc = stage.folder.path().join("rc");
    std::fs::write(&rc, text).unwrap();
    stage.start("sh", &["bash", "--rcfile", &rc.display().to_string()]).await;
    stage
}

#[tokio::test]
async fn a_prompt_command_of_ones_own() {
    let stage = with_rc("PROMPT_COMMAND='history -a'\nPS1='mine> '\n").await;
    for n in 0..3 {
        assert_eq!(stage.ask("sh", &format!("echo {n}")).await.text, n.to_string());
    }
    assert_eq!(stage.ask("sh", "sleep 0.6; echo slept").await.text, "slept");
    stage.stop("sh").await;
}

#[tokio::test]
async fn several_lines_give_all_their_output() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    let text = stage.ask("sh", "echo one\necho two\necho three").await.text;
    let outputs: Vec<&str> = text.lines().filter(|line| ["one", "two", "three"].contains(line)).collect();
    assert_eq!(outputs, ["one", "two", "three"], "{text}");
    assert_eq!(stage.ask("sh", "echo after").await.text, "after");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_shell_in_a_shell_takes_turns_too() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.ask("sh", "bash --norc --noprofile").await;
    assert_eq!(stage.ask("sh", "echo inner $SHLVL").await.text.split(' ').next(), Some("inner"));
    stage.ask("sh", "exit").await;
    assert_eq!(stage.ask("sh", "echo outer").await.text, "outer");
    stage.stop("sh").await;
}

#[tokio::test]
async fn half_a_command_blocks_instead_of_answering() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    let half = stage.send("sh", "echo 'abc").await.unwrap_err();
    assert_eq!(half.kind, ErrorKind::Blocked, "{half:?}");
    stage.engine.send_interrupt(at("sh").into(), Default::default()).await.unwrap();
    stage.wait("sh", StateName::Ready).await.unwrap();
    assert_eq!(stage.ask("sh", "echo whole").await.text, "whole");
    stage.stop("sh").await;
}

#[tokio::test]
async fn tracing_shows_the_commands_and_nothing_of_ours() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.ask("sh", "set -x").await;
    assert_eq!(stage.ask("sh", "echo traced").await.text, "+ echo traced\ntraced");
    stage.stop("sh").await;
}

#[tokio::test]
async fn a_program_is_interrupted_once() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let engine = stage.engine.clone();
    let script = "python3 -c 'import signal,time\nn=0\ndef hit(*a):\n  global n; n+=1\nsignal.signal(2,hit)\nprint(\"up\", flush=True)\nt=time.time()+3\nwhile time.time()<t: time.sleep(0.05)\nprint(\"hits\", n)'";
    let execute = stage.execute("sh", script);
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    stage.shows("sh", "\nup").await;
    stage.engine.send_interrupt(at("sh").into(), Default::default()).await.unwrap();
    let reply = tokio::time::timeout(LIMIT + Duration::from_secs(5), turn).await.unwrap().unwrap().unwrap();
    let response = reply;
    assert!(response.text.contains("hits 1"), "{}", response.text);
    stage.stop("sh").await;
}

#[tokio::test]
async fn python_takes_several_lines_and_a_line_longer_than_a_row() {
    let stage = Stage::new();
    stage.start("py", &["python3", "-q"]).await;
    assert_eq!(stage.ask("py", "for i in range(3):\n    print(i)\n").await.text, "0\n1\n2");
    let slow = stage.ask("py", "import time\ntime.sleep(1.5)\nprint('x')").await;
    assert_eq!(slow.text, "x");
    let long = format!("print('{}'[:3])", "z".repeat(300));
    assert_eq!(stage.ask("py", &long).await.text, "zzz");
    assert_eq!(stage.ask("py", "print(1); import time; time.sleep(2); print(2)").await.text, "1\n2");
    stage.stop("py").await;
}

#[tokio::test]
async fn half_a_line_of_somebodys_is_not_typed_into() {
    let stage = Stage::new();
    stage.start("sh", &BASH).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let write = async |data: &[u8]| {
        stage.engine.write_bytes(&at("sh"), data.to_vec()).await.unwrap();
    };
    write(b"half").await;
    stage.shows("sh", "$ half").await;
    let error = stage.send("sh", "echo whole").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Blocked, "{error:?}");
    assert!(error.message.contains("unfinished input at the prompt: 'half'"), "{}", error.message);
    assert!(error.hint.as_deref().unwrap_or_default().contains("C-u"), "{error:?}");
    // Keys are read in order: it is gone before what follows.
    write(b"\x15").await;
    let gone = async {
        while stage.screen("sh").await.contains("half") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.unwrap();
    assert_eq!(stage.ask("sh", "echo whole").await.text, "whole");
    stage.stop("sh").await;
}
