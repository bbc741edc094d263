//! The `claude-wezterm` backend with the fake WezTerm.

use std::path::PathBuf;

use nerve_engine::{Engine, EngineConfig};
use nerve_node::command::{BackendKind, StateName};
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::{assert_error, node_ref};

use super::mux::WeztermHarness;
use crate::harness::{mock_agent, ops};

/// Installs the mock agent as `claude`.
fn claude(harness: &WeztermHarness) -> String {
    let path = harness.nodes.folder.path().join("claude");
    if !path.exists() {
        std::os::unix::fs::symlink(mock_agent(), &path).unwrap();
    }
    path.display().to_string()
}

#[tokio::test]
async fn each_operation_is_logged_once() {
    let harness = WeztermHarness::new();
    let mut spec = harness.spec("c", &[&claude(&harness)]);
    spec.backend = BackendKind::ClaudeWezterm;
    let info = harness.create(spec).await.unwrap();
    assert_eq!((info.kind.as_str(), info.metadata["parser"].as_str()), ("claude-wezterm", "claude"));
    assert_eq!(info.metadata["profile"], "claude");
    harness.nodes.wait("c", StateName::Ready).await.unwrap();
    let response = harness.nodes.ask("c", "hello there").await;
    assert_eq!(response.text, "You said: hello there");
    assert!(!response.sections.is_empty(), "the answer was not parsed");
    let data = b"draft".to_vec();
    harness.nodes.engine.write_bytes(&node_ref("c"), data).await.unwrap();
    harness.nodes.engine.send_interrupt(node_ref("c").into(), Default::default()).await.unwrap();
    harness.nodes.stop("c").await;
    let history = harness.nodes.history("c").await;
    let ops = ops(&history);
    for (op, times) in [("run", 1), ("send", 1), ("write", 1), ("interrupt", 1), ("close", 1)] {
        assert_eq!(ops.iter().filter(|found| *found == op).count(), times, "{op}: {ops:?}");
    }
    assert_eq!(ops[0], "run");
}

#[tokio::test]
async fn other_program_is_rejected() {
    let harness = WeztermHarness::new();
    let mut spec = harness.spec("c", &["bash"]);
    spec.backend = BackendKind::ClaudeWezterm;
    let error = harness.create(spec).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'claude'"]);
    assert!(harness.mux.wezterm().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn failed_claim_leaves_neither_pane_nor_hooks() {
    let mut harness = WeztermHarness::new();
    let mut spec = harness.spec("c", &[&claude(&harness)]);
    spec.backend = BackendKind::ClaudeWezterm;
    let folder = harness.nodes.folder.path().to_path_buf();
    std::fs::write(folder.join("claims"), "not a directory").unwrap();
    let mut nodes = WeztermHarness::factory_config(&folder);
    nodes.hook_relay = Some(PathBuf::from("/bin/true"));
    harness.nodes.engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
    let error = harness.create(spec).await.unwrap_err();
    assert_eq!((error.kind, harness.mux.calls("spawn")), (ErrorKind::Process, 1), "{error}");
    assert!(harness.mux.wezterm().list().await.unwrap().is_empty());
    let entries = std::fs::read_dir(folder.join("panes")).unwrap();
    let entries: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(entries.is_empty(), "{entries:?}");
}
