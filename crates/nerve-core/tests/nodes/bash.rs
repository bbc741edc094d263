//! One-shot bash nodes.

use std::time::{Duration, Instant};

use nerve_core::command::{BackendKind, Command};
use nerve_core::error::ErrorKind;

use crate::stage::{Stage, at};

async fn bash() -> Stage {
    let stage = Stage::new();
    let mut spec = stage.spec("b", &[]);
    spec.backend = BackendKind::Bash;
    stage.engine.execute(Command::CreateNode(spec)).await.unwrap();
    stage
}

#[tokio::test]
async fn output_errors_and_exit_codes_come_apart() {
    let stage = bash().await;
    let response = stage.ask("b", "echo out; echo err >&2; exit 3").await;
    assert_eq!(response.text, "out");
    assert_eq!(response.attributes["stdout"], "out\n");
    assert_eq!(response.attributes["stderr"], "err\n");
    assert_eq!(response.attributes["exit_code"], "3");
    assert_eq!(response.source, "process");
    assert_eq!(stage.ask("b", "x=1; echo $x").await.text, "1");
    assert_eq!(stage.ask("b", "echo ${x:-nothing}").await.text, "nothing", "no state between commands");
}

#[tokio::test]
async fn a_timeout_kills_the_whole_group() {
    let stage = bash().await;
    let mut slow = stage.execute("b", "");
    slow.text = format!("sleep 47 & echo $! > {0}/pid; wait", stage.folder.path().display());
    slow.timeout = Some(Duration::from_millis(300));
    let started = Instant::now();
    assert_eq!(stage.run(slow).await.unwrap_err().kind, ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(5));
    let pid = std::fs::read_to_string(stage.folder.path().join("pid")).unwrap();
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    assert!(nerve_testkit::wait_until(Duration::from_secs(5), gone), "the sleep lives on");
}

#[tokio::test]
async fn an_interrupt_ends_it_and_the_next_runs() {
    let stage = bash().await;
    let engine = stage.engine.clone();
    let execute = stage.execute("b", "sleep 30");
    let turn = tokio::spawn(async move { engine.execute(Command::ExecuteInput(execute)).await });
    stage.wait("b", nerve_core::command::StateName::Busy).await.ok();
    let ended = async {
        while !turn.is_finished() {
            stage.engine.execute(Command::SendInterrupt(at("b"))).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
    assert_eq!(turn.await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    assert_eq!(stage.ask("b", "echo ok").await.text, "ok");
}

#[tokio::test]
async fn what_needs_a_terminal_is_refused() {
    let stage = bash().await;
    let error = stage.engine.execute(Command::GetBuffer { node: at("b"), lines: None }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("has no terminal"));
}
