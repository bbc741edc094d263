//! `ClaudeWezTermNode` (seeds channel-history §5.7, node-refactoring N6), over the stand-in for WezTerm.

use nerve_core::command::{BackendKind, StateName};
use nerve_core::error::ErrorKind;

use super::mux::Scene;
use crate::harness::{at, mock_agent, ops};

/// The mock agent by the name of the real one.
fn claude(scene: &Scene) -> String {
    let path = scene.stage.folder.path().join("claude");
    if !path.exists() {
        std::os::unix::fs::symlink(mock_agent(), &path).unwrap();
    }
    path.display().to_string()
}

#[tokio::test]
async fn a_claude_wezterm_node_on_the_fake_logs_its_start_and_each_operation_once() {
    let scene = Scene::new();
    let mut spec = scene.spec("c", &[&claude(&scene)]);
    spec.backend = BackendKind::ClaudeWezterm;
    let info = scene.create(spec).await.unwrap();
    assert_eq!((info.kind, info.metadata["parser"].as_str()), ("claude-wezterm", "claude"));
    assert_eq!(info.metadata["profile"], "claude");
    scene.stage.wait("c", StateName::Ready).await.unwrap();
    let response = scene.stage.ask("c", "hello there").await;
    assert_eq!(response.text, "You said: hello there");
    assert!(!response.sections.is_empty(), "parsed as Claude Code's");
    let data = b"draft".to_vec();
    scene.stage.engine.write_bytes(&at("c"), data).await.unwrap();
    scene.stage.engine.send_interrupt(at("c").into(), Default::default()).await.unwrap();
    scene.stage.stop("c").await;
    let history = scene.stage.history("c").await;
    let ops = ops(&history);
    for (op, times) in [("run", 1), ("send", 1), ("write", 1), ("interrupt", 1), ("close", 1)] {
        assert_eq!(ops.iter().filter(|is| *is == op).count(), times, "{op}: {ops:?}");
    }
    assert_eq!(ops[0], "run");
}

#[tokio::test]
async fn a_claude_wezterm_node_without_claude_is_refused() {
    let scene = Scene::new();
    let mut spec = scene.spec("c", &["bash"]);
    spec.backend = BackendKind::ClaudeWezterm;
    let error = scene.create(spec).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("must contain 'claude'"), "{error}");
    assert!(scene.mux.wezterm().list().await.unwrap().is_empty());
}
