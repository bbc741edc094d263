//! Executions that nobody waits for: their results, their ends, and who is told.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_api::reply::{ExecuteReply, ResultInfo};
use nerve_api::request::{CancelResult, ExecuteInput, GetResult, ListResults, WebhookTarget};
use nerve_core::command::{EventKind, StateName};
use nerve_core::conversation::{Conversation, ConversationId, Message, Role};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::node::factory::FactoryConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{LIMIT, Stage};
use crate::tmux::Tmux;

impl Stage {
    async fn begin(
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

    async fn begun(&self, node: &str, text: &str) -> String {
        self.begin(self.execute(node, text), None).await.unwrap()
    }

    async fn result(&self, id: &str) -> ResultInfo {
        result_of(&self.engine, id, false).await.unwrap()
    }

    async fn ended(&self, id: &str) -> ResultInfo {
        result_of(&self.engine, id, true).await.unwrap()
    }

    /// Looks at a result until it is as it should be.
    async fn result_is(&self, id: &str, fits: impl Fn(&ResultInfo) -> bool) -> ResultInfo {
        let seen = async {
            loop {
                let record = self.result(id).await;
                if fits(&record) {
                    return record;
                }
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(LIMIT, seen).await {
            Ok(record) => record,
            Err(_) => panic!("{:#?}", self.result(id).await),
        }
    }

    async fn cancel(&self, id: &str) -> Result<ResultInfo, EngineError> {
        self.engine.cancel_result(CancelResult { result_id: id.into() }, Default::default()).await
    }

    /// A bash node, and a prompt for it that ends when the pipe that comes with it is opened for writing.
    async fn held(&self, node: &str) -> (String, std::path::PathBuf) {
        self.start_bash(node).await;
        let pipe = self.folder.path().join(format!("{node}.pipe"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        (format!("cat {}", pipe.display()), pipe)
    }
}

async fn result_of(engine: &Engine, id: &str, wait: bool) -> Result<ResultInfo, EngineError> {
    let request = GetResult { result_id: id.into(), wait, timeout: Some(LIMIT.into()) };
    engine.get_result(request, Default::default()).await
}

async fn release(pipe: std::path::PathBuf, text: &'static str) {
    tokio::task::spawn_blocking(move || fs::write(pipe, text)).await.unwrap().unwrap();
}

fn response(record: &ResultInfo) -> Value {
    let response = record.response.as_ref().unwrap_or_else(|| panic!("{record:#?}"));
    serde_json::to_value(response).unwrap()
}

/// Seed conversation-history-async, tests 1 and 2: what is true of the path on which the caller waits is true of this one.
#[tokio::test]
async fn a_conversation_is_the_same_on_both_paths() {
    let stage = Stage::new();
    let told = || Conversation {
        id: Some(ConversationId::new("work", "c")),
        history: vec![Message::new(Role::User, "Hello", 1), Message::new(Role::Assistant, "Hi there!", 2)],
        ..Conversation::default()
    };
    let mut texts = Vec::new();
    for (node, waits) in [("a", true), ("b", false)] {
        stage.start_mock(node, &[]).await;
        for prompt in ["My name is Alice", "What is my name?"] {
            let execute = stage.talk(node, prompt, told());
            texts.push(if waits {
                stage.run(execute).await.unwrap().text
            } else {
                let id = stage.begin(execute, None).await.unwrap();
                let record = stage.ended(&id).await;
                assert_eq!(record.status, "done", "{record:#?}");
                response(&record)["text"].as_str().unwrap().to_string()
            });
        }
        assert_eq!(stage.kept("c").len(), 4, "{node}");
        fs::remove_file(stage.chat_file("c")).unwrap();
        stage.stop(node).await;
    }
    assert_eq!(texts[..2], texts[2..]);
    assert!(texts[0].contains("User: Hello\n") && texts[0].contains("Assistant: Hi there!"), "{}", texts[0]);
    // Another agent, later, in the background.
    stage.start_mock("a", &[]).await;
    let again = |prompt| stage.talk("a", prompt, Conversation { history: Vec::new(), ..told() });
    stage.run(again("My name is Alice")).await.unwrap();
    stage.start_mock("b", &[]).await;
    let asked = ExecuteInput { node_id: "b".into(), ..again("What is my name?") };
    let record = stage.ended(&stage.begin(asked, None).await.unwrap()).await;
    assert!(response(&record)["text"].as_str().unwrap().contains("User: My name is Alice"), "{record:#?}");
}

#[tokio::test]
async fn they_wait_for_each_other_and_are_told_when_they_end() {
    let mut stage = Stage::new();
    let (prompt, pipe) = stage.held("b").await;
    let first = stage.begun("b", &prompt).await;
    let second = stage.begun("b", "echo second").await;
    assert!(first < second);
    stage.result_is(&first, |record| record.status == "running").await;
    let waiting = stage.result(&second).await;
    assert_eq!((waiting.status.as_str(), waiting.started_at), ("queued", None));
    let impatient =
        GetResult { result_id: first.clone(), wait: true, timeout: Some(Duration::from_millis(50).into()) };
    assert_eq!(
        stage.engine.get_result(impatient, Default::default()).await.unwrap_err().kind,
        ErrorKind::Timeout
    );
    release(pipe, "let go").await;
    let record = stage.ended(&first).await;
    assert_eq!(record.status, "done");
    assert_eq!(response(&record)["text"], "let go");
    assert!(record.created_at <= record.started_at.unwrap() && record.started_at <= record.ended_at);
    let record = stage.ended(&second).await;
    assert_eq!(response(&record)["text"].as_str().unwrap().trim(), "second");
    for id in [&first, &second] {
        let fits = |kind: &EventKind| matches!(kind, EventKind::ResultReady { result, success: true, .. } if result == id);
        stage.event(fits).await;
    }
    let list = ListResults { node_id: Some("b".into()), ..ListResults::default() };
    let all = stage.engine.list_results(list, Default::default()).await.unwrap().results;
    assert_eq!(all.iter().map(|record| &record.result_id).collect::<Vec<_>>(), [&second, &first]);
    assert!(all.iter().all(|record| record.response.is_none()));
}

#[tokio::test]
async fn what_failed_says_why() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let failed = stage.ended(&stage.begun("b", "echo no >&2; exit 3").await).await;
    assert_eq!(failed.status, "failed");
    assert_eq!(response(&failed)["attributes"]["exit_code"], 3);
    stage.start_mock("m", &[]).await;
    let blocked = stage.ended(&stage.begun("m", "PERMIT this").await).await;
    assert_eq!((blocked.status.as_str(), blocked.error_type.as_deref()), ("failed", Some("blocked")));
    assert!(blocked.choices.len() >= 2 && blocked.screen.is_some(), "{blocked:?}");
    stage.stop("m").await;
    stage.start_mock("m", &[]).await;
    let crashed = stage.ended(&stage.begun("m", "CRASH now").await).await;
    assert_eq!(crashed.error_type.as_deref(), Some("process_error"), "{crashed:#?}");
    // What can be known at once is an error at once.
    let nobody = stage.begin(stage.execute("nobody", "x"), None).await.unwrap_err();
    assert_eq!(nobody.kind, ErrorKind::NotFound);
    for id in ["", "x", "../../etc/passwd", "0000000000000000000", &"a".repeat(1 << 20)] {
        assert_eq!(result_of(&stage.engine, id, true).await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(stage.cancel(id).await.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_prompt_is_taken_back_whether_it_waits_or_runs() {
    let stage = Stage::new();
    let (prompt, pipe) = stage.held("b").await;
    let (first, second) = (stage.begun("b", &prompt).await, stage.begun("b", "echo second").await);
    stage.result_is(&first, |record| record.status == "running").await;
    for id in [&second, &first] {
        let record = stage.cancel(id).await.unwrap();
        assert_eq!(record.error_type.as_deref(), Some("cancelled"), "{record:#?}");
    }
    assert_eq!(stage.cancel(&first).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(fs::metadata(&pipe).is_ok());
    assert_eq!(stage.ask("b", "echo on").await.text.trim(), "on");
    // An agent's turn is interrupted, and the agent goes on.
    stage.start_mock("m", &[]).await;
    stage.wait("m", StateName::Ready).await.unwrap();
    let slow = stage.begun("m", "SLOW words").await;
    stage.shows("m", "Slow words").await;
    let record = stage.cancel(&slow).await.unwrap();
    assert_eq!(record.error_type.as_deref(), Some("cancelled"), "{record:#?}");
    assert_eq!(stage.ask("m", "hello").await.text, "You said: hello");
    stage.stop("m").await;
}

#[tokio::test]
async fn there_is_a_limit_to_what_is_at_work() {
    let stage = Stage::new();
    let (prompt, pipe) = stage.held("b").await;
    let mut ids = vec![stage.begun("b", &prompt).await];
    while ids.len() < 256 {
        ids.push(stage.begun("b", "true").await);
    }
    let error = stage.begin(stage.execute("b", "true"), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    let at_once = ExecuteInput { fail_if_busy: true, ..stage.execute("b", "true") };
    assert_eq!(stage.begin(at_once, None).await.unwrap_err().kind, ErrorKind::Busy);
    for id in &ids[2..] {
        stage.cancel(id).await.unwrap();
    }
    release(pipe, "").await;
    assert_eq!(stage.ended(&ids[1]).await.status, "done");
    stage.begun("b", "true").await;
}

#[tokio::test]
async fn a_time_limit_counts_while_it_waits() {
    let stage = Stage::new();
    let (prompt, pipe) = stage.held("b").await;
    let first = stage.begun("b", &prompt).await;
    let short =
        ExecuteInput { timeout: Some(Duration::from_millis(100).into()), ..stage.execute("b", "true") };
    let record = stage.ended(&stage.begin(short, None).await.unwrap()).await;
    assert_eq!(record.error_type.as_deref(), Some("timeout"), "{record:#?}");
    assert_eq!(stage.result(&first).await.status, "running");
    release(pipe, "").await;
}

/// The same results, seen by the next server.
fn next(stage: &Stage) -> Engine {
    Engine::new(EngineConfig {
        nodes: FactoryConfig { server: "test".into(), ..FactoryConfig::default() },
        results_dir: Some(stage.folder.path().join("results")),
        ..EngineConfig::default()
    })
}

#[tokio::test]
async fn what_a_server_does_not_end_is_lost_and_says_so() {
    let stage = Stage::new();
    let (prompt, _pipe) = stage.held("b").await;
    let done = stage.begun("b", "echo done").await;
    stage.ended(&done).await;
    let hook = WebhookTarget { url: "http://127.0.0.1:9/".into(), secret: None };
    let running = stage.begin(stage.execute("b", &prompt), Some(hook)).await.unwrap();
    let queued = stage.begun("b", "true").await;
    stage.result_is(&running, |record| record.status == "running").await;
    // A server that is killed has written no more than this.
    let folder = stage.folder.path().join("results/test");
    let as_it_was: Vec<_> = [&running, &queued]
        .map(|id| (folder.join(format!("{id}.json")), fs::read(folder.join(format!("{id}.json"))).unwrap()))
        .into();
    stage.engine.shut_down(false).await;
    let refused = stage.begin(stage.execute("b", "true"), None).await.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::NodeStopped | ErrorKind::NotFound), "{refused}");
    for killed in [false, true] {
        if killed {
            for (file, content) in &as_it_was {
                fs::write(file, content).unwrap();
                fs::write(file.with_extension("open"), "").unwrap();
            }
        }
        let how = if killed { "the server ended" } else { "the server was shut down" };
        let engine = next(&stage);
        for (id, when) in [(&running, "before the turn ended"), (&queued, "before the turn began")] {
            let record = result_of(&engine, id, true).await.unwrap();
            assert_eq!((record.status.as_str(), record.error_type.as_deref()), ("lost", Some("lost")));
            let message = record.error.clone().unwrap();
            assert!(message.contains(how) && message.contains(when), "{message:?}");
            assert!(record.ended_at.is_some() && record.hint.is_some());
        }
        let hook = result_of(&engine, &running, false).await.unwrap().webhook.clone().unwrap();
        assert!(!hook.delivered && hook.gave_up.clone().unwrap().contains(how), "{hook:?}");
        let record = result_of(&engine, &done, false).await.unwrap();
        assert_eq!(response(&record)["success"], true);
        let open = fs::read_dir(&folder).unwrap().flatten();
        assert_eq!(open.filter(|entry| entry.path().extension().is_some_and(|ext| ext == "open")).count(), 0);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_refuses_at_once() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    fs::write(stage.folder.path().join("results"), "in the way").unwrap();
    let error = stage.begin(stage.execute("b", "true"), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(error.message.contains("was not started"), "{error}");
    assert_eq!(stage.ask("b", "echo on").await.text.trim(), "on");
}

/// The lines of a request's head, in lower case, and its body.
type Seen = (Vec<String>, String);

/// Answers one request after the other with these statuses, and keeps what it was sent.
struct Listener {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Listener {
    async fn start(statuses: &'static [u16]) -> Listener {
        Listener::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), statuses)
    }

    fn on(listener: TcpListener, statuses: &'static [u16]) -> Listener {
        let url = format!("http://{}/hook?key=in-the-url", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&seen);
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
                            keeps.lock().unwrap().push((head, body.to_string()));
                            break true;
                        }
                    }
                    if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                        break false;
                    }
                };
                assert!(head, "the request was cut");
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Listener { url, seen }
    }

    fn hook(&self, secret: Option<&str>) -> WebhookTarget {
        WebhookTarget { url: self.url.clone(), secret: secret.map(str::to_string) }
    }
}

fn header<'a>(head: &'a [String], name: &str) -> &'a str {
    let prefix = format!("{name}: ");
    head.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("no {name}: {head:?}"))
}

#[tokio::test]
async fn a_webhook_is_told_signed_and_told_again_after_an_error() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let listener = Listener::start(&[500, 200]).await;
    let execute = stage.execute("b", "echo hello");
    let id = stage.begin(execute, Some(listener.hook(Some("hush-hush")))).await.unwrap();
    // The result does not wait for those who are told.
    assert_eq!(stage.ended(&id).await.status, "done");
    let delivered = |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.delivered);
    let record = stage.result_is(&id, delivered).await;
    let hook = record.webhook.clone().unwrap();
    assert_eq!(
        hook.attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>(),
        [Some(500), Some(200)]
    );
    assert!(hook.signed && hook.gave_up.is_none());
    let seen = listener.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    for (head, body) in &seen {
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
    let told: Value = serde_json::from_str(&seen[0].1).unwrap();
    assert_eq!(told["event"], "RESULT_READY");
    assert_eq!((&told["result_id"], &told["success"]), (&json!(id), &json!(true)));
    assert_eq!(told["response"]["text"].as_str().unwrap().trim(), "hello");
    // Neither the secret nor the rest of the URL is in a file.
    for entry in fs::read_dir(stage.folder.path().join("results/test")).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(!text.contains("hush-hush") && !text.contains("in-the-url"), "{text}");
    }
}

#[tokio::test]
async fn a_webhook_that_refuses_is_not_asked_again_and_redirects_are_not_followed() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    for statuses in [&[404_u16][..], &[302], &[410]] {
        let listener = Listener::start(statuses).await;
        let id = stage.begin(stage.execute("b", "exit 1"), Some(listener.hook(None))).await.unwrap();
        let gave_up =
            |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.gave_up.is_some());
        let record = stage.result_is(&id, gave_up).await;
        let hook = record.webhook.clone().unwrap();
        assert_eq!((hook.attempts.len(), hook.attempts[0].status), (1, Some(statuses[0])));
        let (head, body) = listener.seen.lock().unwrap()[0].clone();
        assert!(!head.iter().any(|line| line.starts_with("x-nerve-signature")), "{head:?}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["success"], false);
    }
}

#[tokio::test]
async fn a_webhook_that_comes_up_later_is_reached() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let hook = WebhookTarget { url: format!("http://{address}/"), secret: None };
    let id = stage.begin(stage.execute("b", "true"), Some(hook)).await.unwrap();
    let tried = |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| !hook.attempts.is_empty());
    stage.result_is(&id, tried).await;
    let _listener = Listener::on(TcpListener::bind(address).await.unwrap(), &[200]);
    let delivered = |record: &ResultInfo| record.webhook.as_ref().is_some_and(|hook| hook.delivered);
    let hook = stage.result_is(&id, delivered).await.webhook.clone().unwrap();
    assert!(hook.attempts[0].error.is_some(), "{hook:?}");
}

/// The path of the seed: an agent in tmux that nobody waits for, and what was said before.
#[tokio::test]
async fn in_tmux_too() {
    let Some(tmux) = Tmux::new("results::in_tmux_too") else { return };
    tmux.start_mock("m", &[]).await;
    let history = vec![Message::new(Role::User, "My name is Alice", 1)];
    let told = tmux.stage.talk("m", "What is my name?", Conversation { history, ..Conversation::default() });
    let record = tmux.stage.ended(&tmux.stage.begin(told, None).await.unwrap()).await;
    let text = response(&record)["text"].as_str().unwrap().to_string();
    assert!(text.contains("User: My name is Alice") && text.contains("What is my name?"), "{record:#?}");
    tmux.stop("m").await;
}
