//! Rows of channels and of history.

use nerve_agent::parse::ParserKind;
use nerve_core::command::StateName;
use nerve_core::node::Node;
use nerve_core::node::terminal::TerminalNode;
use nerve_record::history::HistoryReader;
use serde_json::{Value, json};

use super::{BASH, Bench, until};
use crate::harness::LIMIT;
use crate::wezterm::mux::Scene;

/// Row: PTYChannel.send() → test_pty_node_execute.
#[tokio::test]
async fn test_pty_node_execute() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let context = bench.context().with_input("echo hello; echo there").with_parser(ParserKind::None);
    let value = Node::execute(&node, &context).await.unwrap();
    assert_eq!((&value["text"], &value["success"]), (&json!("hello\nthere"), &json!(true)), "{value:#}");
    assert_eq!((&value["node_id"], &value["is_complete"]), (&json!("sh"), &json!(true)));
    assert_eq!(node.info().state, StateName::Ready);
    node.stop("done").await;
}

/// Row: WezTermChannel.send() → test_wezterm_node_execute. Over a stand-in for WezTerm, which cannot be had here.
#[tokio::test]
async fn test_wezterm_node_execute() {
    let (bench, scene) = (Bench::new(), Scene::new());
    let node = scene.factory().create_terminal(scene.spec("sh", &BASH)).await.unwrap();
    node.wait(&[StateName::Ready], Some(LIMIT)).await.unwrap();
    let context = bench.context().with_input("echo hello; echo there").with_parser(ParserKind::None);
    let value = Node::execute(&node, &context).await.unwrap();
    assert_eq!((&value["text"], &value["success"]), (&json!("hello\nthere"), &json!(true)), "{value:#}");
    assert_eq!((&value["node_id"], &value["is_complete"]), (&json!("sh"), &json!(true)));
    assert_eq!((node.kind(), node.info().state), ("wezterm", StateName::Ready));
    node.stop("done").await;
}

/// Row: PTYChannel.send_stream() → test_pty_node_execute_stream.
#[tokio::test]
async fn test_pty_node_execute_stream() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let go = bench.file("go");
    let command =
        format!("echo one; printf 'and '; until [ -e {} ]; do sleep 0.01; done; echo two", go.display());
    let mut stream = node.execute_stream(bench.context().with_input(command));
    // It comes while the command still runs: nothing else lets it end.
    let first = tokio::time::timeout(super::LIMIT, stream.next()).await.unwrap();
    assert_eq!(first.as_deref(), Some("one"));
    std::fs::write(go, "").unwrap();
    let mut all = first.unwrap();
    while let Some(chunk) = stream.next().await {
        all.push_str(&chunk);
    }
    assert_eq!(all, "one\nand two");
    assert_eq!(stream.response().await.unwrap().text, all);
    node.stop("done").await;
}

/// Row: Channel.run() → test_node_run.
#[tokio::test]
async fn test_node_run() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let (go, done) = (bench.file("go"), bench.file("done"));
    let command = format!("until [ -e {} ]; do sleep 0.01; done; touch {}", go.display(), done.display());
    // Returns although the command cannot end yet.
    node.run(command).await.unwrap();
    assert!(!done.exists());
    std::fs::write(go, "").unwrap();
    until("the command ends", async || done.exists()).await;
    node.stop("done").await;
}

/// Row: Channel.write() → test_node_write.
#[tokio::test]
async fn test_node_write() {
    let bench = Bench::new();
    let node = bench.terminal("cat", &["cat"]).await;
    assert_eq!(node.write(b"w\xc3\xb6rter\n".to_vec()).await.unwrap(), 8);
    // Once as typed, once as cat says it.
    until("cat says it", async || node.read().await.unwrap().matches("wörter").count() == 2).await;
    node.stop("done").await;
}

/// Row: Channel.read() → test_node_read.
#[tokio::test]
async fn test_node_read() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    Node::execute(&node, &bench.context().with_input("seq 1 200")).await.unwrap();
    let text = node.read().await.unwrap();
    let numbers: Vec<&str> = text.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers.len(), 200, "scrollback included: {text}");
    node.stop("done").await;
}

/// Row: Channel.read_tail() → test_node_read_tail.
#[tokio::test]
async fn test_node_read_tail() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    Node::execute(&node, &bench.context().with_input("seq 1 200")).await.unwrap();
    let tail = node.read_tail(3).await.unwrap();
    assert_eq!(tail.lines().count(), 3, "{tail}");
    assert!(tail.contains("200") && !tail.contains("197"), "{tail}");
    let all = node.read().await.unwrap();
    assert!(all.trim_end().ends_with(tail.trim_end()), "{tail:?}");
    node.stop("done").await;
}

/// The process has a child that runs this program.
fn child_is(pid: &str, program: &str) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    children.split_whitespace().any(|child| name(child).trim_end() == program)
}

/// Row: Channel.interrupt() → test_node_interrupt.
#[tokio::test]
async fn test_node_interrupt() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let (turn, context) = (node.clone(), bench.context().with_input("sleep 1000"));
    let turn = tokio::spawn(async move { Node::execute(&turn, &context).await });
    // Interrupted on its way to the program, a shell has other exit codes.
    let pid = node.info().metadata["pid"].clone();
    until("the program runs", async || child_is(&pid, "sleep")).await;
    node.interrupt().await.unwrap();
    let value = turn.await.unwrap().unwrap();
    assert_eq!(value["attributes"]["interrupted"], "true", "{value:#}");
    assert_eq!((&value["is_complete"], &value["attributes"]["exit_code"]), (&json!(false), &json!(130)));
    let next = Node::execute(&node, &bench.context().with_input("echo alive")).await.unwrap();
    assert_eq!(next["text"], "alive");
    node.stop("done").await;
}

/// Row: Channel.close() → test_node_stop.
#[tokio::test]
async fn test_node_stop() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let process = format!("/proc/{}", node.info().metadata["pid"]);
    assert!(std::path::Path::new(&process).exists());
    node.stop("closed").await;
    assert_eq!(node.info().state, StateName::Stopped);
    assert!(!std::path::Path::new(&process).exists(), "the program is left behind");
    let late = Node::execute(&node, &bench.context().with_input("echo x")).await.unwrap_err();
    assert_eq!(late.kind, nerve_core::error::ErrorKind::NodeStopped);
    node.stop("again").await;
}

/// What the audit log of `sh` has, oldest first.
fn log(bench: &Bench) -> Vec<Value> {
    let base = bench.factory.history_base_dir();
    let reader =
        HistoryReader::open_in_session(base, bench.factory.server_name(), Some("bench"), "sh").unwrap();
    reader.last(100).unwrap().into_iter().map(|entry| entry.value).collect()
}

fn entry<'a>(log: &'a [Value], op: &str) -> &'a Value {
    log.iter().find(|entry| entry["op"] == op).unwrap_or_else(|| panic!("no {op}: {log:#?}"))
}

async fn stopped(node: TerminalNode) {
    node.stop("done").await;
}

/// Row: History logging → test_node_history.
#[tokio::test]
async fn test_node_history() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    Node::execute(&node, &bench.context().with_input("echo hello")).await.unwrap();
    stopped(node).await;
    let log = log(&bench);
    let send = entry(&log, "send");
    assert_eq!(send["input"], "echo hello", "{send:#}");
    assert!(send["response"].to_string().contains("hello"), "{send:#}");
    assert_eq!(log.last().unwrap()["op"], "close");
    let numbers: Vec<i64> = log.iter().filter_map(|entry| entry["seq"].as_i64()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

/// Row: History streaming → test_node_history_streaming.
#[tokio::test]
async fn test_node_history_streaming() {
    let bench = Bench::new();
    let node = bench.bash("sh").await;
    let mut stream = node.execute_stream(bench.context().with_input("echo streamed"));
    while stream.next().await.is_some() {}
    stream.response().await.unwrap();
    stopped(node).await;
    let log = log(&bench);
    let send = entry(&log, "send_stream");
    assert_eq!(send["input"], "echo streamed", "{send:#}");
    assert!(send.to_string().contains("streamed"), "{send:#}");
    assert!(log.iter().all(|entry| entry["op"] != "send"), "{log:#?}");
}
