//! One-shot bash nodes.

use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::value::{BackendKind, NodeState};
use nerve_engine::RequestContext;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_testkit::harness::{assert_error, is_alive, node_ref, wait_request};
use nerve_testkit::{eventually, within_deadline};

use crate::harness::{Harness, LIMIT};

async fn bash() -> Harness {
    let harness = Harness::new();
    let mut spec = harness.spec("b", &[]);
    spec.backend = BackendKind::Bash;
    harness.engine.create(spec).await.unwrap();
    harness
}

#[tokio::test]
async fn stdout_stderr_and_exit_code_are_separate() {
    let harness = bash().await;
    let response = harness.ask("b", "echo out; echo err >&2; exit 3").await;
    assert_eq!(response.text, "out");
    assert_eq!(response.attributes["stdout"], "out\n");
    assert_eq!(response.attributes["stderr"], "err\n");
    assert_eq!(response.attributes["exit_code"], 3);
    assert_eq!(response.source.as_str(), "process");
    assert_eq!(harness.ask("b", "x=1; echo $x").await.text, "1");
    assert_eq!(harness.ask("b", "echo ${x:-nothing}").await.text, "nothing", "no state between commands");
}

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let harness = bash().await;
    let mut slow = harness.execute("b", "");
    slow.text = format!("sleep 1000 & echo $! > {0}/pid; wait", harness.folder.path().display());
    slow.timeout = Some(Duration::from_millis(300).into());
    let ended = within_deadline("the turn times out", harness.run(slow)).await;
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Timeout);
    let pid = std::fs::read_to_string(harness.folder.path().join("pid")).unwrap();
    let pid = pid.trim().parse().unwrap();
    eventually("the sleep is killed", async || !is_alive(pid)).await;
}

#[tokio::test]
async fn interrupt_ends_the_command() {
    let harness = bash().await;
    let engine = harness.engine.clone();
    let execute = harness.execute("b", "sleep 1000");
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait("b", NodeState::Busy).await.unwrap();
    harness.engine.send_interrupt(node_ref("b").into(), Default::default()).await.unwrap();
    assert_eq!(harness.info("b").state, NodeState::Ready, "the interrupt has taken effect");
    let ended = within_deadline("the turn is interrupted", turn).await.unwrap();
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Interrupted);
    assert_eq!(harness.ask("b", "echo ok").await.text, "ok");
}

#[tokio::test]
async fn terminal_operations_are_rejected() {
    let harness = bash().await;
    let error = harness
        .engine
        .get_buffer(
            nerve_api::request::GetBuffer { node_id: "b".into(), lines: None, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
}

/// Kills the process of [`detached_sleep`] on drop.
struct KillOnDrop<'a>(&'a Harness);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.folder.path().join("pid")) {
            std::process::Command::new("kill").args(["-9", pid.trim()]).status().ok();
        }
    }
}

/// Returns a command that starts a `sleep` in a new session, out of reach of our signals, with our pipes open.
fn detached_sleep(harness: &Harness, then: &str) -> String {
    let folder = harness.folder.path().display();
    format!(
        "echo early; setsid sh -c 'echo $$ > {folder}/pid.new; mv {folder}/pid.new {folder}/pid; exec sleep 1000' & {then}"
    )
}

#[tokio::test]
async fn timeout_does_not_wait_for_detached_process() {
    let harness = bash().await;
    let _guard = KillOnDrop(&harness);
    let mut slow = harness.execute("b", &detached_sleep(&harness, "wait"));
    slow.timeout = Some(Duration::from_millis(700).into());
    let ended = within_deadline("the turn times out", harness.run(slow)).await;
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Timeout);
    let entries = harness.history("b").await;
    assert!(entries.iter().any(|entry| entry.contains(r#""content":"early""#)), "{entries:?}");
    assert_eq!(harness.ask("b", "echo next").await.text, "next");
}

#[tokio::test]
async fn exited_command_completes_despite_open_pipes() {
    let harness = bash().await;
    let _guard = KillOnDrop(&harness);
    let wait_for_pid = format!("until [ -e {}/pid ]; do :; done; exit 4", harness.folder.path().display());
    let command = detached_sleep(&harness, &wait_for_pid);
    let response = within_deadline("the command exits", harness.ask("b", &command)).await;
    assert_eq!((response.text.as_str(), response.attributes["exit_code"].as_i64()), ("early", Some(4)));
}

#[tokio::test]
async fn maximum_timeout_does_not_overflow() {
    let harness = bash().await;
    let mut endless = harness.execute("b", "echo ok");
    endless.timeout = Some(Duration::MAX.into());
    assert_eq!(harness.run(endless).await.unwrap().text, "ok");
}

/// Returns the wire size of the parts of a response that repeat its output: `raw`, `text` (also as `output`), two lists of
/// sections, and the attributes.
fn wire_size(response: &Response) -> usize {
    let json = |text: &str| serde_json::to_string(text).unwrap().len();
    let sections: usize = response.sections.iter().map(|section| json(&section.content)).sum();
    let attributes: usize = response.attributes.values().map(|value| value.to_string().len()).sum();
    json(&response.raw) + 2 * json(&response.text) + 2 * sections + attributes
}

#[tokio::test]
async fn long_output_keeps_its_end() {
    let harness = bash().await;
    let response = harness.ask("b", "head -c 600000 /dev/zero | tr '\\0' x; echo end; echo short >&2").await;
    assert_eq!(response.text.len(), 512 * 1024 - 1, "without the newline at the end");
    assert!(response.text.ends_with("xend"));
    let omitted = 600_004 - 512 * 1024;
    assert_eq!(response.attributes["truncated"], format!("the first {omitted} bytes of stdout are left out"));
    assert_eq!(response.attributes["stderr"], "short\n");
    assert_eq!(response.bytes.end, 600_010);
    assert!(!harness.ask("b", "echo few").await.attributes.contains_key("truncated"));
}

#[tokio::test]
async fn worst_case_output_fits_one_wire_line() {
    let harness = bash().await;
    for byte in ["\\001", "\\377", "\\n", "\\\\"] {
        let command = format!("head -c 3000000 /dev/zero | tr '\\0' '{byte}' | tee /dev/stderr; echo end");
        let response = harness.ask("b", &command).await;
        let size = wire_size(&response);
        assert!(size < 15 << 20, "{byte}: {size}");
        assert!(response.text.ends_with("end"), "{byte}");
        let notice = response.attributes["truncated"].as_str().unwrap();
        assert!(notice.contains("of stdout and the first") && notice.contains("of stderr"), "{notice}");
    }
}

#[tokio::test]
async fn truncation_preserves_characters() {
    let harness = bash().await;
    let response = harness.ask("b", "printf 'ä%.0s' {1..300000}; printf x").await;
    assert!(response.text.starts_with('ä') && response.text.ends_with("äx"));
    assert_eq!(response.attributes["truncated"], "the first 75714 bytes of stdout are left out");
}

async fn wait(
    harness: &Harness,
    until: &[NodeState],
    timeout: Option<Duration>,
) -> Result<NodeState, EngineError> {
    let request = wait_request("b", until, timeout);
    Ok(harness.engine.wait_node(request, Default::default()).await?.state)
}

#[tokio::test]
async fn wait_ends_with_state_or_timeout() {
    let harness = bash().await;
    assert_eq!(wait(&harness, &[], None).await.unwrap(), NodeState::Ready);
    let gate = harness.folder.path().join("gate");
    let execute = harness.execute("b", &format!("until [ -e {} ]; do :; done", gate.display()));
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    assert_eq!(wait(&harness, &[NodeState::Busy], Some(LIMIT)).await.unwrap(), NodeState::Busy);
    let short = Some(Duration::from_millis(50));
    let states = [NodeState::Blocked, NodeState::Ready, NodeState::Blocked];
    let error = wait(&harness, &states, short).await.unwrap_err();
    // Each state is named once.
    assert_error(&error, ErrorKind::Timeout, &["'b'"]);
    std::fs::write(gate, "").unwrap();
    assert_eq!(wait(&harness, &[NodeState::Ready], Some(LIMIT)).await.unwrap(), NodeState::Ready);
    turn.await.unwrap().unwrap();
}

#[tokio::test]
async fn wait_fails_when_the_node_stops() {
    let harness = bash().await;
    let engine = harness.engine.clone();
    let request = wait_request("b", &[NodeState::Blocked], Some(LIMIT));
    let waiting = tokio::spawn(async move { engine.wait_node(request, Default::default()).await });
    tokio::task::yield_now().await;
    harness.stop("b").await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, ErrorKind::NodeStopped);
}

#[tokio::test]
async fn concurrent_stops_return_after_the_node_has_stopped() {
    let mut harness = bash().await;
    let folder = harness.folder.path().display().to_string();
    let execute = harness.execute("b", &detached_sleep(&harness, "wait"));
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    let pid = std::path::PathBuf::from(folder).join("pid");
    eventually("the command runs", async || pid.exists()).await;
    let (first, second) = (harness.engine.clone(), harness.engine.clone());
    let first = tokio::spawn(async move { first.stop_node(node_ref("b").into(), Default::default()).await });
    let second =
        tokio::spawn(async move { second.stop_node(node_ref("b").into(), Default::default()).await });
    let has_stopped = |harness: &mut Harness| {
        std::iter::from_fn(|| harness.events.try_recv().ok())
            .any(|event| matches!(event.kind, EventKind::NodeStopped { .. }))
    };
    let first_stop = async {
        tokio::select! { stopped = first => stopped, stopped = second => stopped }
    };
    tokio::time::timeout(LIMIT, first_stop).await.unwrap().unwrap().unwrap();
    assert!(has_stopped(&mut harness), "a stop returned before the node was gone");
    assert_eq!(turn.await.unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    drop(KillOnDrop(&harness));
}

#[tokio::test]
async fn output_is_streamed() {
    let mut harness = bash().await;
    let gate = harness.folder.path().join("go");
    let mut execute = harness.execute("b", "");
    execute.text = format!(
        "printf 'one\\nz\\xc3'; echo err >&2; until [ -e {} ]; do sleep 0.01; done; printf '\\xbc\\n\\n'",
        gate.display()
    );
    execute.stream = true;
    let engine = harness.engine.clone();
    let context = RequestContext { tag: Some(7), ..RequestContext::default() };
    let turn = tokio::spawn(async move { engine.run_turn(execute, context).await });
    let is_chunk = |kind: &EventKind| matches!(kind, EventKind::OutputChunk { .. });
    // Bash writes line by line, so one write of the script can arrive in two chunks.
    let mut received = String::new();
    for expected in ["one\nz", "one\nzü"] {
        while received != expected {
            let event = harness.wait_for_event(is_chunk).await;
            let EventKind::OutputChunk { turn: 1, tag: Some(7), chunk, .. } = &event else {
                panic!("{event:?}")
            };
            received.push_str(chunk);
            assert!(expected.starts_with(&received), "{received:?}");
        }
        std::fs::write(&gate, "").unwrap();
    }
    let Ok(response) = turn.await.unwrap() else { panic!("no response") };
    assert_eq!(response.text, "one\nzü");
    // Without `stream` there are no chunks.
    assert_eq!(harness.ask("b", "echo two").await.text, "two");
    harness.stop("b").await;
    while let Ok(event) = harness.events.try_recv() {
        assert!(!is_chunk(&event.kind), "{event:?}");
    }
}
