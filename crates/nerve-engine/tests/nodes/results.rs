//! Asynchronous executions: results, cancellation and webhooks.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::{ExecuteReply, ResultInfo};
use nerve_api::request::{CancelResult, ExecuteInput, GetResult, ListResults, NodeSpec, WebhookTarget};
use nerve_api::value::{BackendKind, NodeState, ResultStatus};
use nerve_engine::conversation::{ConversationId, ConversationRequest, Message, Role};
use nerve_engine::{Engine, EngineConfig};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_testkit::harness::node_ref;
use nerve_testkit::wait_until_async;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{Harness, LIMIT};
use crate::tmux::Tmux;

impl Harness {
    async fn submit(
        &self,
        request: ExecuteInput,
        webhook: Option<WebhookTarget>,
    ) -> Result<String, EngineError> {
        let request = ExecuteInput { is_async: true, webhook, ..request };
        match self.engine.execute_input(request, Default::default()).await? {
            ExecuteReply::Accepted(accepted) => Ok(accepted.result_id),
            other => panic!("{other:?}"),
        }
    }

    async fn submit_prompt(&self, node: &str, text: &str) -> String {
        self.submit(self.execute(node, text), None).await.unwrap()
    }

    async fn result(&self, id: &str) -> ResultInfo {
        get_result(&self.engine, id, false).await.unwrap()
    }

    async fn finished(&self, id: &str) -> ResultInfo {
        get_result(&self.engine, id, true).await.unwrap()
    }

    /// Polls a result until it fits.
    async fn wait_for_result(&self, id: &str, fits: impl Fn(&ResultInfo) -> bool) -> ResultInfo {
        let mut record = self.result(id).await;
        let fitting = async || {
            record = self.result(id).await;
            fits(&record)
        };
        assert!(wait_until_async(LIMIT, fitting).await, "{record:#?}");
        record
    }

    async fn cancel(&self, id: &str) -> Result<ResultInfo, EngineError> {
        self.engine.cancel_result(CancelResult { result_id: id.into() }, Default::default()).await
    }

    /// Creates a bash node. Returns a prompt that blocks until [`unblock`] writes to the returned pipe.
    async fn blocked_command(&self, node: &str) -> (String, std::path::PathBuf) {
        self.start_bash(node).await;
        let pipe = self.folder.path().join(format!("{node}.pipe"));
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(status.success());
        (format!("cat {}", pipe.display()), pipe)
    }
}

#[tokio::test]
async fn node_with_executions_is_not_ready() {
    let harness = Harness::new();
    let (prompt, pipe) = harness.blocked_command("b").await;
    let first = harness.submit_prompt("b", &prompt).await;
    let second = harness.submit_prompt("b", "echo two").await;
    assert_eq!(harness.info("b").state, NodeState::Busy, "before the prompt reaches the node");
    let early = harness.wait_within("b", NodeState::Ready, Duration::from_millis(50)).await;
    assert_eq!(early.unwrap_err().kind, ErrorKind::Timeout);
    unblock(pipe, "one").await;
    harness.wait("b", NodeState::Ready).await.unwrap();
    for id in [first, second] {
        assert!(harness.result(&id).await.status.is_end());
    }
}

async fn get_result(engine: &Engine, id: &str, wait: bool) -> Result<ResultInfo, EngineError> {
    let request = GetResult { result_id: id.into(), wait, timeout: Some(LIMIT.into()) };
    engine.get_result(request, Default::default()).await
}

async fn unblock(pipe: std::path::PathBuf, text: &'static str) {
    tokio::task::spawn_blocking(move || fs::write(pipe, text)).await.unwrap().unwrap();
}

fn response(record: &ResultInfo) -> Value {
    let response = record.response.as_ref().unwrap_or_else(|| panic!("{record:#?}"));
    serde_json::to_value(response).unwrap()
}

#[tokio::test]
async fn asynchronous_execution_uses_the_conversation() {
    let harness = Harness::new();
    let conversation = || ConversationRequest {
        id: Some(ConversationId::new("work", "c")),
        history: vec![Message::new(Role::User, "Hello", 1), Message::new(Role::Assistant, "Hi there!", 2)],
        ..ConversationRequest::default()
    };
    let mut texts = Vec::new();
    for (node, is_synchronous) in [("a", true), ("b", false)] {
        harness.start_mock(node, &[]).await;
        for prompt in ["My name is Alice", "What is my name?"] {
            let execute = harness.execute_with(node, prompt, conversation());
            texts.push(if is_synchronous {
                harness.run(execute).await.unwrap().text
            } else {
                let id = harness.submit(execute, None).await.unwrap();
                let record = harness.finished(&id).await;
                assert_eq!(record.status.as_str(), "done", "{record:#?}");
                response(&record)["text"].as_str().unwrap().to_string()
            });
        }
        assert_eq!(harness.saved_messages("c").len(), 4, "{node}");
        fs::remove_file(harness.chat_file("c")).unwrap();
        harness.stop(node).await;
    }
    assert_eq!(texts[..2], texts[2..]);
    assert!(texts[0].contains("User: Hello\n") && texts[0].contains("Assistant: Hi there!"), "{}", texts[0]);
    // Also with another agent.
    harness.start_mock("a", &[]).await;
    let follow_up = |prompt| {
        harness.execute_with("a", prompt, ConversationRequest { history: Vec::new(), ..conversation() })
    };
    harness.run(follow_up("My name is Alice")).await.unwrap();
    harness.start_mock("b", &[]).await;
    let execute = ExecuteInput { node_id: "b".into(), ..follow_up("What is my name?") };
    let record = harness.finished(&harness.submit(execute, None).await.unwrap()).await;
    assert!(response(&record)["text"].as_str().unwrap().contains("User: My name is Alice"), "{record:#?}");
}

#[tokio::test]
async fn executions_are_queued_and_publish_their_end() {
    let mut harness = Harness::new();
    let (prompt, pipe) = harness.blocked_command("b").await;
    let first = harness.submit_prompt("b", &prompt).await;
    let second = harness.submit_prompt("b", "echo second").await;
    assert!(first < second);
    harness.wait_for_result(&first, |record| record.status == ResultStatus::Running).await;
    let waiting = harness.result(&second).await;
    assert_eq!((waiting.status.as_str(), waiting.started_at), ("queued", None));
    let short_wait =
        GetResult { result_id: first.clone(), wait: true, timeout: Some(Duration::from_millis(50).into()) };
    assert_eq!(
        harness.engine.get_result(short_wait, Default::default()).await.unwrap_err().kind,
        ErrorKind::Timeout
    );
    unblock(pipe, "let go").await;
    let record = harness.finished(&first).await;
    assert_eq!(record.status.as_str(), "done");
    assert_eq!(response(&record)["text"], "let go");
    assert!(record.created_at <= record.started_at.unwrap() && record.started_at <= record.ended_at);
    let record = harness.finished(&second).await;
    assert_eq!(response(&record)["text"].as_str().unwrap().trim(), "second");
    for id in [&first, &second] {
        let fits = |kind: &EventKind| matches!(kind, EventKind::ResultReady { result_id, success: true, .. } if result_id == id);
        harness.wait_for_event(fits).await;
    }
    let list = ListResults { node_id: Some("b".into()), ..ListResults::default() };
    let all = harness.engine.list_results(list, Default::default()).await.unwrap().results;
    assert_eq!(all.iter().map(|record| &record.result_id).collect::<Vec<_>>(), [&second, &first]);
    assert!(all.iter().all(|record| record.response.is_none()));
}

#[tokio::test]
async fn execution_ends_with_its_outcome_after_a_dialog() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let first = harness.submit_prompt("m", "PERMIT this").await;
    let second = harness.submit_prompt("m", "hello").await;
    let blocked = harness.finished(&first).await;
    assert_eq!(blocked.error_type, Some(ErrorKind::Blocked), "{blocked:#?}");
    assert!(!blocked.status.is_end() && blocked.delivery.is_some(), "{blocked:#?}");
    assert!(!harness.result(&second).await.status.is_end(), "the queue waits behind the dialog");
    harness.answer("m", Choice::Number(1)).await.unwrap();
    let first = harness.wait_for_result(&first, |record| record.status.is_end()).await;
    assert_eq!((first.status, first.error_type), (ResultStatus::Done, None), "{first:#?}");
    let second = harness.wait_for_result(&second, |record| record.status.is_end()).await;
    assert_eq!(response(&second)["text"], "You said: hello");
    harness.stop("m").await;
}

#[tokio::test]
async fn failed_results_have_reasons() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let failed = harness.finished(&harness.submit_prompt("b", "echo no >&2; exit 3").await).await;
    assert_eq!(failed.status.as_str(), "failed");
    assert_eq!(response(&failed)["attributes"]["exit_code"], 3);
    harness.start_mock("m", &[]).await;
    let blocked = harness.finished(&harness.submit_prompt("m", "PERMIT this").await).await;
    assert_eq!(
        (blocked.status.as_str(), blocked.error_type.map(ErrorKind::as_str)),
        ("running", Some("blocked"))
    );
    assert!(blocked.choices.len() >= 2 && blocked.screen.is_some(), "{blocked:?}");
    harness.stop("m").await;
    harness.start_mock("m", &[]).await;
    let crashed = harness.finished(&harness.submit_prompt("m", "CRASH now").await).await;
    assert_eq!(crashed.error_type.map(ErrorKind::as_str), Some("process_error"), "{crashed:#?}");
    // Problems that are known immediately are immediate errors.
    let missing = harness.submit(harness.execute("missing", "x"), None).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    for id in ["", "x", "../../etc/passwd", "0000000000000000000", &"a".repeat(1 << 20)] {
        assert_eq!(get_result(&harness.engine, id, true).await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(harness.cancel(id).await.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn queued_and_running_prompts_can_be_cancelled() {
    let harness = Harness::new();
    let (prompt, pipe) = harness.blocked_command("b").await;
    let (first, second) =
        (harness.submit_prompt("b", &prompt).await, harness.submit_prompt("b", "echo second").await);
    harness.wait_for_result(&first, |record| record.status == ResultStatus::Running).await;
    for id in [&second, &first] {
        let record = harness.cancel(id).await.unwrap();
        assert_eq!(record.error_type.map(ErrorKind::as_str), Some("cancelled"), "{record:#?}");
    }
    assert_eq!(harness.cancel(&first).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(fs::metadata(&pipe).is_ok());
    assert_eq!(harness.ask("b", "echo on").await.text.trim(), "on");
    // The turn of an agent is interrupted; the agent keeps running.
    harness.start_mock("m", &[]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    let slow = harness.submit_prompt("m", "SLOW words").await;
    harness.wait_for_output("m", "Slow words").await;
    let record = harness.cancel(&slow).await.unwrap();
    assert_eq!(record.error_type.map(ErrorKind::as_str), Some("cancelled"), "{record:#?}");
    assert_eq!(harness.ask("m", "hello").await.text, "You said: hello");
    harness.stop("m").await;
}

#[tokio::test]
async fn cancelled_and_stopped_executions_differ_in_status() {
    let mut harness = Harness::new();
    let (prompt, _pipe) = harness.blocked_command("b").await;
    let running = |record: &ResultInfo| record.status == ResultStatus::Running;
    let (first, second) =
        (harness.submit_prompt("b", &prompt).await, harness.submit_prompt("b", "echo second").await);
    harness.wait_for_result(&first, running).await;
    let mut cancelled = vec![second.clone(), first.clone()];
    for id in &cancelled {
        assert_eq!(harness.cancel(id).await.unwrap().status, ResultStatus::Cancelled);
    }
    // An interrupt of the turn, in a command and in an agent.
    harness.start_mock("m", &[]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    for (node, text) in [("b", &*prompt), ("m", "SLOW words")] {
        let id = harness.submit_prompt(node, text).await;
        harness.wait_for_result(&id, running).await;
        harness.wait(node, NodeState::Busy).await.unwrap();
        harness.engine.send_interrupt(node_ref(node).into(), Default::default()).await.unwrap();
        let record = harness.finished(&id).await;
        assert_eq!(record.status, ResultStatus::Cancelled, "{record:#?}");
        cancelled.push(id);
    }
    for id in &cancelled {
        let fits = |kind: &EventKind| matches!(kind, EventKind::ResultReady { result_id, success: false, status: ResultStatus::Cancelled } if result_id == id);
        harness.wait_for_event(fits).await;
    }
    let all = harness.engine.list_results(ListResults::default(), Default::default()).await.unwrap();
    assert!(all.results.iter().all(|record| record.status == ResultStatus::Cancelled), "{all:#?}");
    // The stop of a node interrupts its turns, but cancels none.
    for (node, text) in [("b", &*prompt), ("m", "SLOW words")] {
        let id = harness.submit_prompt(node, text).await;
        let queued = harness.submit_prompt(node, "echo queued").await;
        harness.wait_for_result(&id, running).await;
        harness.wait(node, NodeState::Busy).await.unwrap();
        harness.stop(node).await;
        for id in [&id, &queued] {
            let record = harness.finished(id).await;
            assert_eq!(record.status, ResultStatus::Failed, "{record:#?}");
        }
    }
}

#[tokio::test]
async fn pending_executions_are_limited() {
    let harness = Harness::new();
    let (prompt, pipe) = harness.blocked_command("b").await;
    let mut ids = vec![harness.submit_prompt("b", &prompt).await];
    while ids.len() < 256 {
        ids.push(harness.submit_prompt("b", "true").await);
    }
    let error = harness.submit(harness.execute("b", "true"), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    let immediate = ExecuteInput { fail_if_busy: true, ..harness.execute("b", "true") };
    assert_eq!(harness.submit(immediate, None).await.unwrap_err().kind, ErrorKind::Busy);
    for id in &ids[2..] {
        harness.cancel(id).await.unwrap();
    }
    unblock(pipe, "").await;
    assert_eq!(harness.finished(&ids[1]).await.status.as_str(), "done");
    harness.submit_prompt("b", "true").await;
}

#[tokio::test]
async fn timeout_includes_time_in_queue() {
    let harness = Harness::new();
    let (prompt, pipe) = harness.blocked_command("b").await;
    let first = harness.submit_prompt("b", &prompt).await;
    let short =
        ExecuteInput { timeout: Some(Duration::from_millis(100).into()), ..harness.execute("b", "true") };
    let record = harness.finished(&harness.submit(short, None).await.unwrap()).await;
    assert_eq!(record.error_type.map(ErrorKind::as_str), Some("timeout"), "{record:#?}");
    assert_eq!(harness.result(&first).await.status.as_str(), "running");
    unblock(pipe, "").await;
}

/// Creates an engine with the same results, as after a restart.
fn next_server(harness: &Harness) -> Engine {
    Engine::new(EngineConfig {
        nodes: FactoryConfig { server: "test".into(), ..FactoryConfig::default() },
        results_dir: Some(harness.folder.path().join("results")),
        ..EngineConfig::default()
    })
}

#[tokio::test]
async fn unfinished_results_are_lost_at_server_end() {
    let harness = Harness::new();
    let (prompt, _pipe) = harness.blocked_command("b").await;
    let done = harness.submit_prompt("b", "echo done").await;
    harness.finished(&done).await;
    let hook = WebhookTarget { url: "http://127.0.0.1:9/".into(), secret: None };
    let running = harness.submit(harness.execute("b", &prompt), Some(hook)).await.unwrap();
    let queued = harness.submit_prompt("b", "true").await;
    harness.wait_for_result(&running, |record| record.status == ResultStatus::Running).await;
    // The files as a killed server would leave them.
    let folder = harness.folder.path().join("results/test");
    let open_files: Vec<_> = [&running, &queued]
        .map(|id| (folder.join(format!("{id}.json")), fs::read(folder.join(format!("{id}.json"))).unwrap()))
        .into();
    harness.engine.shut_down(false).await;
    let refused = harness.submit(harness.execute("b", "true"), None).await.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::NodeStopped | ErrorKind::NotFound), "{refused}");
    for killed in [false, true] {
        if killed {
            for (file, content) in &open_files {
                fs::write(file, content).unwrap();
                fs::write(file.with_extension("open"), "").unwrap();
            }
        }
        let cause = if killed { "the server ended" } else { "the server was shut down" };
        let engine = next_server(&harness);
        for (id, when) in [(&running, "before the turn ended"), (&queued, "before the turn began")] {
            let record = get_result(&engine, id, true).await.unwrap();
            assert_eq!(
                (record.status.as_str(), record.error_type.map(ErrorKind::as_str)),
                ("lost", Some("lost"))
            );
            let message = record.error.clone().unwrap();
            assert!(message.contains(cause) && message.contains(when), "{message:?}");
            assert!(record.ended_at.is_some() && record.hint.is_some());
        }
        let hook = get_result(&engine, &running, false).await.unwrap().webhook.clone().unwrap();
        assert!(!hook.delivered && hook.gave_up.clone().unwrap().contains(cause), "{hook:?}");
        let record = get_result(&engine, &done, false).await.unwrap();
        assert_eq!(response(&record)["success"], true);
        let open = fs::read_dir(&folder).unwrap().flatten();
        assert_eq!(open.filter(|entry| entry.path().extension().is_some_and(|ext| ext == "open")).count(), 0);
    }
}

#[tokio::test]
async fn unwritable_folder_rejects_execution() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    fs::write(harness.folder.path().join("results"), "in the way").unwrap();
    let error = harness.submit(harness.execute("b", "true"), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert_eq!(harness.ask("b", "echo on").await.text.trim(), "on");
}

/// The lines of a request's head, in lower case, and its body.
type RecordedRequest = (Vec<String>, String);

/// Answers successive requests with the given statuses, and records them.
struct WebhookServer {
    url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl WebhookServer {
    async fn start(statuses: &'static [u16]) -> WebhookServer {
        WebhookServer::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), statuses)
    }

    fn listen(listener: TcpListener, statuses: &'static [u16]) -> WebhookServer {
        let url = format!("http://{}/hook?key=in-the-url", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            for status in statuses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                let head = loop {
                    let text = String::from_utf8_lossy(&bytes).to_string();
                    if let Some((head, body)) = text.split_once("\r\n\r\n") {
                        let head: Vec<String> = head.lines().map(str::to_lowercase).collect();
                        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
                        if body.len() >= length.unwrap().parse::<usize>().unwrap() {
                            recorded.lock().unwrap().push((head, body.to_string()));
                            break true;
                        }
                    }
                    if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                        break false;
                    }
                };
                assert!(head, "truncated request");
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        WebhookServer { url, requests }
    }

    fn target(&self, secret: Option<&str>) -> WebhookTarget {
        WebhookTarget { url: self.url.clone(), secret: secret.map(str::to_string) }
    }
}

fn header<'a>(head: &'a [String], name: &str) -> &'a str {
    let prefix = format!("{name}: ");
    head.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("no {name}: {head:?}"))
}

#[tokio::test]
async fn webhook_is_signed_and_retried_after_server_error() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let listener = WebhookServer::start(&[500, 200]).await;
    let execute = harness.execute("b", "echo hello");
    let id = harness.submit(execute, Some(listener.target(Some("hush-hush")))).await.unwrap();
    // The result does not wait for the webhook.
    assert_eq!(harness.finished(&id).await.status.as_str(), "done");
    let delivered = |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.delivered);
    let record = harness.wait_for_result(&id, delivered).await;
    let hook = record.webhook.clone().unwrap();
    assert_eq!(
        hook.attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>(),
        [Some(500), Some(200)]
    );
    assert!(hook.signed && hook.gave_up.is_none());
    let requests = listener.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 2);
    for (head, body) in &requests {
        assert_eq!(head[0], "post /hook?key=in-the-url http/1.1");
        assert_eq!(header(head, "x-nerve-event"), "result_ready");
        assert_eq!(header(head, "x-nerve-delivery"), id);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"hush-hush");
        let signed = format!("{}.{body}", header(head, "x-nerve-timestamp"));
        let hex = header(head, "x-nerve-signature").strip_prefix("sha256=").unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        ring::hmac::verify(&key, signed.as_bytes(), &bytes).unwrap();
    }
    let payload: Value = serde_json::from_str(&requests[0].1).unwrap();
    assert_eq!(payload["event"], "RESULT_READY");
    assert_eq!((&payload["result_id"], &payload["success"]), (&json!(id), &json!(true)));
    assert_eq!(payload["response"]["text"].as_str().unwrap().trim(), "hello");
    assert_eq!((&payload["response"]["node_id"], &payload["response"]["turn"]), (&json!("b"), &json!(1)));
    assert_eq!((&payload["error"], &payload["error_type"]), (&Value::Null, &Value::Null));
    // Neither the secret nor the query of the URL is in a file.
    for entry in fs::read_dir(harness.folder.path().join("results/test")).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(!text.contains("hush-hush") && !text.contains("in-the-url"), "{text}");
    }
}

#[tokio::test]
async fn webhook_is_not_retried_after_refusal_or_redirect() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    for statuses in [&[404_u16][..], &[302], &[410]] {
        let listener = WebhookServer::start(statuses).await;
        let id = harness.submit(harness.execute("b", "exit 1"), Some(listener.target(None))).await.unwrap();
        let gave_up =
            |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.gave_up.is_some());
        let record = harness.wait_for_result(&id, gave_up).await;
        let hook = record.webhook.clone().unwrap();
        assert_eq!((hook.attempts.len(), hook.attempts[0].status), (1, Some(statuses[0])));
        let (head, body) = listener.requests.lock().unwrap()[0].clone();
        assert!(!head.iter().any(|line| line.starts_with("x-nerve-signature")), "{head:?}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["success"], false);
    }
}

#[tokio::test]
async fn webhook_is_retried_until_reachable() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let hook = WebhookTarget { url: format!("http://{address}/"), secret: None };
    let id = harness.submit(harness.execute("b", "true"), Some(hook)).await.unwrap();
    let attempted =
        |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| !hook.attempts.is_empty());
    harness.wait_for_result(&id, attempted).await;
    let _listener = WebhookServer::listen(TcpListener::bind(address).await.unwrap(), &[200]);
    let delivered = |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.delivered);
    let hook = harness.wait_for_result(&id, delivered).await.webhook.clone().unwrap();
    assert!(hook.attempts[0].error.is_some(), "{hook:?}");
}

#[tokio::test]
async fn asynchronous_execution_in_tmux_uses_the_conversation() {
    let Some(tmux) = Tmux::new("asynchronous_execution_in_tmux_uses_the_conversation") else { return };
    tmux.start_mock("m", &[]).await;
    let history = vec![Message::new(Role::User, "My name is Alice", 1)];
    let execute = tmux.nodes.execute_with(
        "m",
        "What is my name?",
        ConversationRequest { history, ..ConversationRequest::default() },
    );
    let record = tmux.nodes.finished(&tmux.nodes.submit(execute, None).await.unwrap()).await;
    let text = response(&record)["text"].as_str().unwrap().to_string();
    assert!(text.contains("User: My name is Alice") && text.contains("What is my name?"), "{record:#?}");
    tmux.stop("m").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_run_in_the_order_of_their_arrival() {
    let mut harness = Harness::new();
    for backend in [BackendKind::Bash, BackendKind::Pty] {
        let node = backend.as_str();
        harness.create(NodeSpec { backend, ..harness.spec(node, &["bash", "--norc", "--noprofile"]) }).await;
        harness.wait_ready(node).await;
        let file = harness.folder.path().join(node);
        let command = |name: char| format!("echo {name} >> {}", file.display());
        let gate = file.with_extension("gate");
        let first = format!("until [ -e {} ]; do sleep 0.01; done; {}", gate.display(), command('a'));
        harness.submit_prompt(node, &first).await;
        for name in ['b', 'c', 'd'] {
            harness.submit_prompt(node, &command(name)).await;
        }
        harness.wait_for_event(|event| matches!(event, EventKind::NodeQueueChanged {})).await;
        let (e, f) = (command('e'), command('f'));
        let open_gate = async {
            let are_queued = async || harness.info(node).metadata.number("queued") == Some(5);
            assert!(wait_until_async(LIMIT, are_queued).await, "{:?}", harness.info(node).metadata);
            fs::write(&gate, "").unwrap();
        };
        tokio::join!(harness.ask(node, &e), harness.ask(node, &f), open_gate);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a\nb\nc\nd\ne\nf\n");
    }
}
