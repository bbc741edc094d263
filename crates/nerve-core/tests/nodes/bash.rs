//! One-shot bash nodes.

use std::time::{Duration, Instant};

use nerve_core::command::{BackendKind, EventKind, Response, StateName};
use nerve_core::engine::RequestContext;
use nerve_core::error::{EngineError, ErrorKind};

use crate::harness::{LIMIT, Stage, at, wait_for};

async fn bash() -> Stage {
    let stage = Stage::new();
    let mut spec = stage.spec("b", &[]);
    spec.backend = BackendKind::Bash;
    stage.engine.create(spec).await.unwrap();
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
    slow.timeout = Some(Duration::from_millis(300).into());
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
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    stage.wait("b", StateName::Busy).await.unwrap();
    stage.engine.send_interrupt(at("b").into(), Default::default()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), turn).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Interrupted);
    assert_eq!(stage.ask("b", "echo ok").await.text, "ok");
}

#[tokio::test]
async fn what_needs_a_terminal_is_refused() {
    let stage = bash().await;
    let error = stage
        .engine
        .get_buffer(
            nerve_api::request::GetBuffer { node_id: "b".into(), lines: None, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("has no terminal"));
}

/// Ends a process that a test let go of.
struct Stray<'a>(&'a Stage);

impl Drop for Stray<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.folder.path().join("pid")) {
            std::process::Command::new("kill").args(["-9", pid.trim()]).status().ok();
        }
    }
}

/// A command that puts a `sleep` into a session of its own, where no signal of ours reaches it, with our pipes open.
fn stray(stage: &Stage, then: &str) -> String {
    let folder = stage.folder.path().display();
    format!(
        "echo early; setsid sh -c 'echo $$ > {folder}/pid.new; mv {folder}/pid.new {folder}/pid; exec sleep 40' & {then}"
    )
}

#[tokio::test]
async fn a_timeout_does_not_wait_for_who_left_the_group() {
    let stage = bash().await;
    let _stray = Stray(&stage);
    let mut slow = stage.execute("b", &stray(&stage, "wait"));
    slow.timeout = Some(Duration::from_millis(700).into());
    let started = Instant::now();
    assert_eq!(stage.run(slow).await.unwrap_err().kind, ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    let entries = stage.history("b").await;
    assert!(entries.iter().any(|entry| entry.contains(r#""content":"early""#)), "{entries:?}");
    assert_eq!(stage.ask("b", "echo next").await.text, "next");
}

#[tokio::test]
async fn a_command_that_ended_is_ended_though_its_pipes_are_held() {
    let stage = bash().await;
    let _stray = Stray(&stage);
    let started = Instant::now();
    let wait_for_pid = format!("until [ -e {}/pid ]; do :; done; exit 4", stage.folder.path().display());
    let response = stage.ask("b", &stray(&stage, &wait_for_pid)).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!((response.text.as_str(), response.attributes["exit_code"].as_str()), ("early", "4"));
}

#[tokio::test]
async fn a_limit_without_end_is_no_panic() {
    let stage = bash().await;
    let mut endless = stage.execute("b", "echo ok");
    endless.timeout = Some(Duration::MAX.into());
    assert_eq!(stage.run(endless).await.unwrap().text, "ok");
}

/// What the parts of a response that repeat its output come to on the wire: `raw`, `text` thrice (as `output` too, and in
/// two lists of sections), the attributes.
fn on_the_wire(response: &Response) -> usize {
    let json = |text: &String| serde_json::to_string(text).unwrap().len();
    let sections: usize = response.sections.iter().map(|section| json(&section.content)).sum();
    let attributes: usize = response.attributes.values().map(json).sum();
    json(&response.raw) + 2 * json(&response.text) + 2 * sections + attributes
}

#[tokio::test]
async fn the_end_of_long_output_is_kept_and_the_rest_counted() {
    let stage = bash().await;
    let response = stage.ask("b", "head -c 600000 /dev/zero | tr '\\0' x; echo end; echo short >&2").await;
    assert_eq!(response.text.len(), 512 * 1024 - 1, "without the newline at the end");
    assert!(response.text.ends_with("xend"));
    let left_out = 600_004 - 512 * 1024;
    assert_eq!(
        response.attributes["truncated"],
        format!("the first {left_out} bytes of stdout are left out")
    );
    assert_eq!(response.attributes["stderr"], "short\n");
    assert_eq!(response.bytes.1, 600_010);
    assert!(!stage.ask("b", "echo few").await.attributes.contains_key("truncated"));
}

#[tokio::test]
async fn the_worst_output_fits_into_a_line_of_the_wire() {
    let stage = bash().await;
    for byte in ["\\001", "\\377", "\\n", "\\\\"] {
        let both = format!("head -c 3000000 /dev/zero | tr '\\0' '{byte}' | tee /dev/stderr; echo end");
        let response = stage.ask("b", &both).await;
        let size = on_the_wire(&response);
        assert!(size < 15 << 20, "{byte}: {size}");
        assert!(response.text.ends_with("end"), "{byte}");
        let told = &response.attributes["truncated"];
        assert!(told.contains("of stdout and the first") && told.contains("of stderr"), "{told}");
    }
}

#[tokio::test]
async fn a_cut_does_not_split_a_character() {
    let stage = bash().await;
    let response = stage.ask("b", "printf 'ä%.0s' {1..300000}; printf x").await;
    assert!(response.text.starts_with('ä') && response.text.ends_with("äx"));
    assert_eq!(response.attributes["truncated"], "the first 75714 bytes of stdout are left out");
}

async fn wait(
    stage: &Stage,
    until: &[StateName],
    timeout: Option<Duration>,
) -> Result<StateName, EngineError> {
    let reached = stage.engine.wait_node(wait_for("b", until, timeout), Default::default()).await?;
    let states = [StateName::Ready, StateName::Busy, StateName::Blocked, StateName::Stopped];
    Ok(states.into_iter().find(|state| state.as_str() == reached.state).unwrap())
}

#[tokio::test]
async fn a_wait_waits_until_its_state_or_its_limit() {
    let stage = bash().await;
    assert_eq!(wait(&stage, &[], None).await.unwrap(), StateName::Ready);
    let gate = stage.folder.path().join("gate");
    let execute = stage.execute("b", &format!("until [ -e {} ]; do :; done", gate.display()));
    let engine = stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    assert_eq!(wait(&stage, &[StateName::Busy], Some(LIMIT)).await.unwrap(), StateName::Busy);
    let short = Some(Duration::from_millis(50));
    let error = wait(&stage, &[StateName::Ready, StateName::Blocked], short).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "node 'b' is still busy, not ready or blocked, after 50ms");
    std::fs::write(gate, "").unwrap();
    assert_eq!(wait(&stage, &[StateName::Ready], Some(LIMIT)).await.unwrap(), StateName::Ready);
    turn.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_wait_ends_with_the_node() {
    let stage = bash().await;
    let engine = stage.engine.clone();
    let request = wait_for("b", &[StateName::Blocked], Some(LIMIT));
    let waiting = tokio::spawn(async move { engine.wait_node(request, Default::default()).await });
    tokio::task::yield_now().await;
    stage.stop("b").await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, ErrorKind::NodeStopped);
}

#[tokio::test]
async fn each_of_two_stops_returns_when_the_node_is_gone() {
    let mut stage = bash().await;
    let folder = stage.folder.path().display().to_string();
    let execute = stage.execute("b", &stray(&stage, "wait"));
    let engine = stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    let pid = std::path::PathBuf::from(folder).join("pid");
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    let (first, second) = (stage.engine.clone(), stage.engine.clone());
    let first = tokio::spawn(async move { first.stop_node(at("b").into(), Default::default()).await });
    let second = tokio::spawn(async move { second.stop_node(at("b").into(), Default::default()).await });
    let stopped_by_then = |stage: &mut Stage| {
        std::iter::from_fn(|| stage.events.try_recv().ok())
            .any(|event| matches!(event.kind, EventKind::NodeStopped { .. }))
    };
    let one_of_them = async {
        tokio::select! { stopped = first => stopped, stopped = second => stopped }
    };
    tokio::time::timeout(LIMIT, one_of_them).await.unwrap().unwrap().unwrap();
    assert!(stopped_by_then(&mut stage), "a stop returned before the node was gone");
    assert_eq!(turn.await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    drop(Stray(&stage));
}

#[tokio::test]
async fn output_is_told_while_the_command_runs() {
    let mut stage = bash().await;
    let go = stage.folder.path().join("go");
    let mut execute = stage.execute("b", "");
    execute.text = format!(
        "printf 'one\\nz\\xc3'; echo err >&2; until [ -e {} ]; do sleep 0.01; done; printf '\\xbc\\n\\n'",
        go.display()
    );
    execute.stream = true;
    let engine = stage.engine.clone();
    let context = RequestContext { tag: Some(7), ..RequestContext::default() };
    let turn = tokio::spawn(async move { engine.run_turn(execute, context).await });
    let is_chunk = |kind: &EventKind| matches!(kind, EventKind::OutputChunk { .. });
    // Bash writes line by line: what it has printed at once can come in two chunks.
    let mut told = String::new();
    for wanted in ["one\nz", "one\nzü"] {
        while told != wanted {
            let event = stage.event(is_chunk).await;
            let EventKind::OutputChunk { turn: 1, tag: Some(7), chunk } = &event else { panic!("{event:?}") };
            told.push_str(chunk);
            assert!(wanted.starts_with(&told), "{told:?}");
        }
        std::fs::write(&go, "").unwrap();
    }
    let Ok(response) = turn.await.unwrap() else { panic!("no response") };
    assert_eq!(response.text, "one\nzü");
    // What nobody asked for is not told.
    assert_eq!(stage.ask("b", "echo two").await.text, "two");
    stage.stop("b").await;
    while let Ok(event) = stage.events.try_recv() {
        assert!(!is_chunk(&event.kind), "{event:?}");
    }
}
