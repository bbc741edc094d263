//! Terminal nodes and their history.

use nerve_agent::parse::ParserKind;
use nerve_api::value::NodeState;
use nerve_node::Node;
use nerve_node::terminal::TerminalNode;
use nerve_record::history::HistoryReader;
use nerve_testkit::eventually;
use nerve_testkit::harness::has_descendant;
use serde_json::{Value, json};

use super::{BASH, Fixture};
use crate::harness::LIMIT;
use crate::wezterm::mux::WeztermHarness;

#[tokio::test]
async fn pty_node_executes() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let context = fixture.turn_context().with_input("echo hello; echo there").with_parser(ParserKind::None);
    let value = Node::execute(&node, &context).await.unwrap();
    assert_eq!((&value["text"], &value["success"]), (&json!("hello\nthere"), &json!(true)), "{value:#}");
    assert_eq!((&value["node_id"], &value["is_complete"]), (&json!("sh"), &json!(true)));
    assert_eq!(node.info().state, NodeState::Ready);
    node.stop("done").await;
}

/// Uses the fake WezTerm.
#[tokio::test]
async fn wezterm_node_executes() {
    let (fixture, harness) = (Fixture::new(), WeztermHarness::new());
    let pane = harness.spawn(&BASH).await;
    let node = harness.factory().create_terminal(harness.spec("sh", &pane)).await.unwrap();
    node.wait(&[NodeState::Ready], Some(LIMIT)).await.unwrap();
    let context = fixture.turn_context().with_input("echo hello; echo there").with_parser(ParserKind::None);
    let value = Node::execute(&node, &context).await.unwrap();
    assert_eq!((&value["text"], &value["success"]), (&json!("hello\nthere"), &json!(true)), "{value:#}");
    assert_eq!((&value["node_id"], &value["is_complete"]), (&json!("sh"), &json!(true)));
    assert_eq!((node.kind(), node.info().state), ("wezterm", NodeState::Ready));
    node.stop("done").await;
}

#[tokio::test]
async fn pty_node_streams() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let go = fixture.file("go");
    let command =
        format!("echo one; printf 'and '; until [ -e {} ]; do sleep 0.01; done; echo two", go.display());
    let mut stream = node.execute_stream(fixture.turn_context().with_input(command));
    // The first chunk arrives while the command waits for the file.
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

#[tokio::test]
async fn run_returns_immediately() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let (go, done) = (fixture.file("go"), fixture.file("done"));
    let command = format!("until [ -e {} ]; do sleep 0.01; done; touch {}", go.display(), done.display());
    // Returns while the command is still waiting.
    node.run_command(command).await.unwrap();
    assert!(!done.exists());
    std::fs::write(go, "").unwrap();
    eventually("the command ends", async || done.exists()).await;
    node.stop("done").await;
}

#[tokio::test]
async fn write_reaches_the_program() {
    let fixture = Fixture::new();
    let node = fixture.terminal("cat", &["cat"]).await;
    assert_eq!(node.write(b"w\xc3\xb6rter\n".to_vec()).await.unwrap(), 8);
    // Once as echo of the terminal, once as output of cat.
    eventually("cat repeats the line", async || {
        node.read(None).await.unwrap().matches("wörter").count() == 2
    })
    .await;
    node.stop("done").await;
}

#[tokio::test]
async fn read_includes_scrollback() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    Node::execute(&node, &fixture.turn_context().with_input("seq 1 200")).await.unwrap();
    let text = node.read(None).await.unwrap();
    let numbers: Vec<&str> = text.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers.len(), 200, "scrollback included: {text}");
    node.stop("done").await;
}

#[tokio::test]
async fn read_tail_returns_the_last_rows() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    Node::execute(&node, &fixture.turn_context().with_input("seq 1 200")).await.unwrap();
    let tail = node.read(Some(3)).await.unwrap();
    assert_eq!(tail.lines().count(), 3, "{tail}");
    assert!(tail.contains("200") && !tail.contains("197"), "{tail}");
    let all = node.read(None).await.unwrap();
    assert!(all.trim_end().ends_with(tail.trim_end()), "{tail:?}");
    node.stop("done").await;
}

#[tokio::test]
async fn interrupt_ends_the_turn() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let (turn, context) = (node.clone(), fixture.turn_context().with_input("sleep 1000"));
    let turn = tokio::spawn(async move { Node::execute(&turn, &context).await });
    // A shell interrupted before it has started the program reports a different exit code.
    let pid = node.info().metadata.display("pid").parse().unwrap();
    eventually("the program runs", async || has_descendant(pid, "sleep")).await;
    node.interrupt().await.unwrap();
    assert_eq!(node.info().state, NodeState::Ready, "the interrupt has taken effect");
    let value = turn.await.unwrap().unwrap();
    assert_eq!(value["attributes"]["interrupted"], true, "{value:#}");
    assert_eq!((&value["is_complete"], &value["attributes"]["exit_code"]), (&json!(false), &json!(130)));
    let next = Node::execute(&node, &fixture.turn_context().with_input("echo alive")).await.unwrap();
    assert_eq!(next["text"], "alive");
    node.stop("done").await;
}

#[tokio::test]
async fn stop_ends_the_program() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let process = format!("/proc/{}", node.info().metadata.display("pid"));
    assert!(std::path::Path::new(&process).exists());
    node.stop("closed").await;
    assert_eq!(node.info().state, NodeState::Stopped);
    assert!(!std::path::Path::new(&process).exists(), "the program is still running");
    let error = Node::execute(&node, &fixture.turn_context().with_input("echo x")).await.unwrap_err();
    assert_eq!(error.kind, nerve_node::error::ErrorKind::NodeStopped);
    node.stop("again").await;
}

/// Returns the audit log of `sh`, oldest entry first.
fn log(fixture: &Fixture) -> Vec<Value> {
    let base = fixture.factory.history_base_dir();
    let reader =
        HistoryReader::open_in_session(base, fixture.factory.server_name(), Some("fixture"), "sh").unwrap();
    reader.last(100).unwrap().into_iter().map(|entry| entry.value).collect()
}

fn entry<'a>(log: &'a [Value], op: &str) -> &'a Value {
    log.iter().find(|entry| entry["op"] == op).unwrap_or_else(|| panic!("no {op}: {log:#?}"))
}

async fn stop(node: TerminalNode) {
    node.stop("done").await;
}

#[tokio::test]
async fn executions_are_logged() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    Node::execute(&node, &fixture.turn_context().with_input("echo hello")).await.unwrap();
    stop(node).await;
    let log = log(&fixture);
    let send = entry(&log, "send");
    assert_eq!(send["input"], "echo hello", "{send:#}");
    assert!(send["response"].to_string().contains("hello"), "{send:#}");
    assert_eq!(log.last().unwrap()["op"], "close");
    let numbers: Vec<i64> = log.iter().filter_map(|entry| entry["seq"].as_i64()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[tokio::test]
async fn streamed_executions_are_logged() {
    let fixture = Fixture::new();
    let node = fixture.bash("sh").await;
    let mut stream = node.execute_stream(fixture.turn_context().with_input("echo streamed"));
    while stream.next().await.is_some() {}
    stream.response().await.unwrap();
    stop(node).await;
    let log = log(&fixture);
    let send = entry(&log, "send_stream");
    assert_eq!(send["input"], "echo streamed", "{send:#}");
    assert!(send.to_string().contains("streamed"), "{send:#}");
    assert!(log.iter().all(|entry| entry["op"] != "send"), "{log:#?}");
}
