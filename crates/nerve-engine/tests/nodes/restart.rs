//! Restarts of stopped nodes: the mock agent under the name `claude` resumes its conversation by its id.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_api::event::EventKind;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{
    ListNodes, NodeSpec, PruneNodes, RemoveNode, RestoreNodes, Seconds, StartNode, StartSession, StopSession,
};
use nerve_api::value::NodeState;
use nerve_engine::{EngineConfig, RequestContext};
use nerve_host::manager::HostManager;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::eventually;
use nerve_testkit::harness::{EngineHarness, assert_error, node_ref};
use serde_json::json;

use crate::fork::{claude, recall};
use crate::harness::{Harness, LIMIT, mock_agent};

fn harness() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    Harness::with(config(folder.path()), folder)
}

fn config(folder: &std::path::Path) -> EngineConfig {
    EngineConfig { sessions_file: Some(folder.join("sessions.json")), ..EngineHarness::config(folder) }
}

/// Replaces the engine by one that loads the same sessions.
async fn restart_engine(harness: &mut Harness) {
    harness.engine.shut_down(false).await;
    let folder = harness.folder.path().to_path_buf();
    **harness = EngineHarness::new(config(&folder), LIMIT);
}

/// Creates a node `c` that has said `one`.
async fn create_with_turn(harness: &Harness) -> String {
    let program = claude(harness);
    let info = harness.create(harness.spec("c", &[&program])).await;
    harness.ask("c", "one").await;
    info.metadata.text("conversation_id").to_string()
}

async fn start(harness: &Harness, node: &str, fresh: bool) -> Result<NodeInfo, EngineError> {
    let request = StartNode { fresh, ..StartNode::new(node, None) };
    harness.engine.start_node(request, Default::default()).await
}

/// Starts a node and returns the warnings of the reply.
async fn start_with_warnings(harness: &Harness, node: &str) -> String {
    let context = RequestContext::default();
    let warnings = context.warnings.clone();
    harness.engine.start_node(StartNode::new(node, None), context).await.unwrap();
    warnings.take().join("\n")
}

async fn prune(harness: &Harness, all: bool, dry_run: bool) -> Vec<String> {
    let request = PruneNodes { all, dry_run, ..PruneNodes::default() };
    harness.engine.prune_nodes(request, Default::default()).await.unwrap().removed
}

async fn start_all(harness: &Harness, all: bool) -> Vec<String> {
    let request = StartSession { all, ..StartSession::default() };
    let started = harness.engine.start_session(request, Default::default()).await.unwrap();
    assert!(started.failed.is_empty(), "{started:?}");
    started.nodes
}

const SHELL: [&str; 3] = ["bash", "--norc", "--noprofile"];

async fn stopped(harness: &Harness) -> Vec<NodeInfo> {
    harness.engine.list_nodes(ListNodes::default(), Default::default()).await.unwrap().stopped
}

async fn restore(harness: &Harness) -> Vec<(String, Option<String>)> {
    let restored = harness.engine.restore_nodes(RestoreNodes {}, Default::default()).await.unwrap();
    restored.nodes.into_iter().map(|node| (node.node_id, node.error)).collect()
}

async fn remove(harness: &Harness, node: &str) -> Result<(), EngineError> {
    let request = RemoveNode::new(node, None);
    harness.engine.remove_node(request, Default::default()).await.map(drop)
}

fn forget_conversations(harness: &Harness) {
    for entry in fs::read_dir(harness.folder.path().join(".claude/projects/-tmp")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[tokio::test]
async fn stopped_node_is_listed_and_resumes_its_conversation() {
    let harness = harness();
    let id = create_with_turn(&harness).await;
    let error = start(&harness, "c", false).await.unwrap_err();
    assert_error(&error, ErrorKind::AlreadyExists, &[]);
    harness.stop("c").await;

    let list = harness.engine.list_nodes(ListNodes::default(), Default::default()).await.unwrap();
    assert_eq!((list.nodes.len(), list.stopped.len()), (0, 1), "{list:?}");
    let entry = &list.stopped[0];
    assert_eq!((entry.node_id.as_str(), entry.state), ("c", NodeState::Stopped));
    let known = ["conversation_id", "cwd", "profile", "env", "cols", "reason"];
    let known = known.map(|name| entry.metadata.display(name));
    assert_eq!(known, [id.as_str(), "/tmp", "claude", "HOME PS1", "100", "stopped"]);
    assert!(entry.progress.state_changed_at.is_some_and(|since| since.0 > 0));

    let started = start(&harness, "c", false).await.unwrap();
    assert_eq!(started.metadata.text("conversation_id"), id);
    let command = harness.info("c").metadata.text("requested_command").to_string();
    assert_eq!(command, claude(&harness), "that of the user, without the arguments that resume");
    assert!(stopped(&harness).await.is_empty());
    assert_eq!(recall(&harness, "c").await, "one");
    harness.stop("c").await;
}

#[tokio::test]
async fn fresh_start_begins_a_new_conversation() {
    let harness = harness();
    let id = create_with_turn(&harness).await;
    harness.stop("c").await;
    let started = start(&harness, "c", true).await.unwrap();
    assert_ne!(started.metadata.text("conversation_id"), id);
    assert_eq!(recall(&harness, "c").await, "You said:");
    harness.stop("c").await;
}

#[tokio::test]
async fn unknown_conversation_is_an_error_and_entry_stays() {
    let harness = harness();
    let id = create_with_turn(&harness).await;
    harness.stop("c").await;
    forget_conversations(&harness);
    let error = start(&harness, "c", false).await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'c'", &id]);
    assert!(error.hint.is_some_and(|hint| hint.contains("nerve start c --fresh")));

    // Without the folder of its conversations, only the agent itself can say that it does not know the id.
    fs::remove_dir_all(harness.folder.path().join(".claude/projects")).unwrap();
    let error = start(&harness, "c", false).await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'c'", "No conversation found"]);
    assert!(error.hint.is_some_and(|hint| hint.contains("nerve start c --fresh")));
    assert_eq!(stopped(&harness).await[0].metadata.text("conversation_id"), id);
    start(&harness, "c", true).await.unwrap();
    harness.stop("c").await;
}

#[tokio::test]
async fn node_without_turns_starts_again() {
    let harness = harness();
    let program = claude(&harness);
    harness.create(harness.spec("c", &[&program])).await;
    harness.wait_ready("c").await;
    harness.stop("c").await;
    start(&harness, "c", false).await.unwrap();
    harness.ask("c", "one").await;
    harness.stop("c").await;
}

#[tokio::test]
async fn ended_program_is_started_again() {
    let harness = harness();
    create_with_turn(&harness).await;
    harness.engine.write_bytes(&node_ref("c"), b"/exit\r".to_vec()).await.unwrap();
    harness.wait("c", NodeState::Stopped).await.unwrap();
    assert_eq!(harness.info("c").metadata["exit"], json!({ "code": 0 }));
    assert!(restore(&harness).await.is_empty(), "a program that exits by itself is not restored");
    start(&harness, "c", false).await.unwrap();
    assert_eq!(recall(&harness, "c").await, "one");
    harness.stop("c").await;
}

#[tokio::test]
async fn next_server_restores_nodes_that_no_request_stopped() {
    let mut harness = harness();
    let id = create_with_turn(&harness).await;
    harness.start("sh", &["bash", "--norc", "--noprofile"]).await;
    harness.start("done", &["bash", "--norc", "--noprofile"]).await;
    harness.stop("done").await;
    restart_engine(&mut harness).await;

    let entries = stopped(&harness).await;
    let reasons: Vec<_> =
        entries.iter().map(|node| (node.node_id.as_str(), node.metadata.text("reason"))).collect();
    let lost = "its server or its host went down";
    assert_eq!(reasons, [("c", lost), ("done", "stopped"), ("sh", lost)]);
    assert_eq!(entries[0].metadata.text("conversation_id"), id);

    assert_eq!(restore(&harness).await, [("c".to_string(), None), ("sh".to_string(), None)]);
    assert_eq!(recall(&harness, "c").await, "one");
    assert_eq!(stopped(&harness).await.len(), 1);
    assert!(restore(&harness).await.is_empty(), "all of them run");

    // The stop of a restored node is requested, so the next server leaves it alone.
    harness.stop("c").await;
    restart_engine(&mut harness).await;
    assert_eq!(restore(&harness).await, [("sh".to_string(), None)]);
    harness.stop("sh").await;
}

#[tokio::test]
async fn removed_and_pruned_nodes_are_gone_for_good() {
    let mut harness = harness();
    for node in ["a", "b", "c"] {
        harness.start(node, &["bash", "--norc", "--noprofile"]).await;
    }
    assert_error(&remove(&harness, "a").await.unwrap_err(), ErrorKind::InvalidRequest, &["running"]);
    for node in ["a", "b"] {
        harness.stop(node).await;
    }
    remove(&harness, "a").await.unwrap();
    harness.wait_for_event(|event| matches!(event, EventKind::NodeRemoved {})).await;
    assert_error(&remove(&harness, "a").await.unwrap_err(), ErrorKind::NotFound, &["node 'a'"]);
    let older_than = |seconds| PruneNodes { older_than: Seconds::new(seconds), ..PruneNodes::default() };
    let pruned = harness.engine.prune_nodes(older_than(3600.0), Default::default()).await.unwrap();
    assert!(pruned.removed.is_empty(), "{pruned:?}");
    let pruned = harness.engine.prune_nodes(older_than(0.0), Default::default()).await.unwrap();
    assert_eq!(pruned.removed, ["b"]);
    harness.wait_for_event(|event| matches!(event, EventKind::NodeRemoved {})).await;
    restart_engine(&mut harness).await;
    let ids: Vec<String> = stopped(&harness).await.into_iter().map(|node| node.node_id).collect();
    assert_eq!(ids, ["c"]);
}

#[tokio::test]
async fn new_node_replaces_entry_of_its_name() {
    let harness = harness();
    create_with_turn(&harness).await;
    harness.stop("c").await;
    harness.start("c", &["bash", "--norc", "--noprofile"]).await;
    harness.stop("c").await;
    let entries = stopped(&harness).await;
    assert_eq!((entries.len(), entries[0].metadata.get("conversation_id")), (1, None), "{entries:?}");
}

#[tokio::test]
async fn session_start_reports_each_failure() {
    let harness = harness();
    create_with_turn(&harness).await;
    harness.start("sh", &["bash", "--norc", "--noprofile"]).await;
    harness.engine.stop_session(StopSession::default(), Default::default()).await.unwrap();
    forget_conversations(&harness);
    let started = harness.engine.start_session(StartSession::default(), Default::default()).await.unwrap();
    assert_eq!((started.nodes, started.failed.len()), (vec!["sh".to_string()], 1));
    let failed = &started.failed[0];
    assert_eq!(failed.error_type, ErrorKind::NotFound, "{failed:?}");
    assert!(failed.hint.as_ref().unwrap().contains("--fresh"), "{failed:?}");
    harness.stop("sh").await;
}

#[tokio::test]
async fn conversation_id_is_stored_while_the_node_runs() {
    let harness = harness();
    let id = create_with_turn(&harness).await;
    let file = harness.folder.path().join("sessions.json");
    eventually("the id is stored", async || {
        let stored = fs::read_to_string(&file).unwrap_or_default();
        stored.contains(&id) && stored.contains("has_turns")
    })
    .await;
    harness.stop("c").await;
}

#[tokio::test]
async fn typed_prompt_counts_as_turn() {
    let harness = harness();
    let program = claude(&harness);
    harness.create(harness.spec("c", &[&program])).await;
    harness.wait_ready("c").await;
    assert_eq!(harness.info("c").metadata.get("has_turns"), None);
    // As an attached terminal does.
    harness.engine.write_bytes(&node_ref("c"), b"STALL 5\r".to_vec()).await.unwrap();
    harness.wait("c", NodeState::Busy).await.unwrap();
    harness.wait_ready("c").await;
    assert_eq!(harness.info("c").metadata.display("turns"), "0");
    harness.stop("c").await;
    start(&harness, "c", false).await.unwrap();
    assert_eq!(recall(&harness, "c").await, "STALL 5");
    harness.stop("c").await;
    forget_conversations(&harness);
    let error = start(&harness, "c", false).await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'c'"]);
}

#[tokio::test]
async fn agent_behind_script_is_not_started_anew() {
    let harness = harness();
    let path = harness.folder.path().join("start-agent");
    fs::write(&path, format!("#!/bin/sh\nexec '{}'\n", mock_agent().display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let spec = harness.spec("c", &[path.to_str().unwrap()]);
    harness.create(NodeSpec { profile: Some("claude".into()), ..spec }).await;
    harness.ask("c", "one").await;
    harness.stop("c").await;
    let error = start(&harness, "c", false).await.unwrap_err();
    assert_error(&error, ErrorKind::NotFound, &["'c'"]);
    assert!(error.hint.is_some_and(|hint| hint.contains("--fresh")));
    start(&harness, "c", true).await.unwrap();
    harness.stop("c").await;
}

#[tokio::test]
async fn node_stopped_during_its_start_is_not_restored() {
    let mut harness = harness();
    create_with_turn(&harness).await;
    restart_engine(&mut harness).await;
    fs::write(claude(&harness), "#!/bin/sh\nexec sleep 60\n").unwrap();
    let engine = harness.engine.clone();
    let starting =
        tokio::spawn(async move { engine.start_node(StartNode::new("c", None), Default::default()).await });
    eventually("the program runs", async || harness.engine.nodes(None).unwrap().len() == 1).await;
    harness.stop("c").await;
    let error = starting.await.unwrap().unwrap_err();
    assert_error(&error, ErrorKind::Process, &["'c'", "stopped or replaced meanwhile"]);
    assert_eq!(stopped(&harness).await[0].metadata.text("end"), "requested");
    restart_engine(&mut harness).await;
    assert!(restore(&harness).await.is_empty());
}

#[tokio::test]
async fn session_stop_includes_nodes_that_are_not_restored_yet() {
    let mut harness = harness();
    harness.start("sh", &SHELL).await;
    restart_engine(&mut harness).await;
    harness.engine.stop_session(StopSession::default(), Default::default()).await.unwrap();
    assert!(restore(&harness).await.is_empty());
    assert_eq!(start_all(&harness, false).await, ["sh"]);
    harness.stop("sh").await;
}

#[tokio::test]
async fn session_start_leaves_exited_programs_alone() {
    let harness = harness();
    harness.start("done", &["sh", "-c", "exit 0"]).await;
    harness.wait("done", NodeState::Stopped).await.unwrap();
    harness.start("trap", &["sh", "-c", "trap 'exit 7' HUP TERM; while :; do sleep 0.1; done"]).await;
    harness.engine.stop_session(StopSession::default(), Default::default()).await.unwrap();
    let ends: Vec<String> =
        stopped(&harness).await.iter().map(|node| node.metadata.text("end").to_string()).collect();
    assert_eq!(ends, ["exited", "requested"], "the exit status of a stopped program is not its own");
    assert_eq!(start_all(&harness, false).await, ["trap"]);
    assert_eq!(start_all(&harness, true).await, ["done"]);
    harness.stop("trap").await;
}

#[tokio::test]
async fn prune_keeps_nodes_that_can_be_restored() {
    let mut harness = harness();
    for node in ["lost", "old"] {
        harness.start(node, &SHELL).await;
    }
    harness.stop("old").await;
    restart_engine(&mut harness).await;
    assert_eq!(prune(&harness, true, true).await, ["lost", "old"]);
    assert_eq!(prune(&harness, false, false).await, ["old"]);
    assert_eq!(restore(&harness).await, [("lost".to_string(), None)]);
    restart_engine(&mut harness).await;
    assert_eq!(prune(&harness, true, false).await, ["lost"]);
    assert!(stopped(&harness).await.is_empty());
}

#[tokio::test]
async fn names_of_secrets_without_value_are_kept() {
    const NAME: &str = "NERVE_RESTART_TEST_TOKEN";
    let mut harness = harness();
    let mut spec = harness.spec("sh", &SHELL);
    spec.env.insert(NAME.to_string(), "secret".to_string());
    harness.create(spec).await;
    harness.stop("sh").await;
    assert_eq!(start_with_warnings(&harness, "sh").await, "", "this server knows the value");
    for _ in 0..2 {
        harness.stop("sh").await;
        restart_engine(&mut harness).await;
        let warnings = start_with_warnings(&harness, "sh").await;
        assert!(warnings.contains(NAME), "{warnings}");
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn replaced_conversation_is_named() {
    let harness = harness();
    let id = create_with_turn(&harness).await;
    harness.stop("c").await;
    let context = RequestContext::default();
    let warnings = context.warnings.clone();
    harness.engine.create_node(harness.spec("c", &SHELL), context).await.unwrap();
    let warnings = warnings.take().join("\n");
    assert!(warnings.contains(&id), "{warnings}");
    harness.stop("c").await;
}

/// Configures a server that runs nodes in hosts, with the damaged entry of a host whose directory exists.
fn config_with_damaged_entry(folder: &std::path::Path) -> EngineConfig {
    let hosting = HostManager {
        program: folder.join("missing/nerve"),
        runtime: folder.join("runtime"),
        registry: folder.join("hosts"),
        recordings: folder.join("recordings"),
        snapshots: folder.join("snapshots"),
    };
    fs::create_dir_all(folder.join("runtime/aa11")).unwrap();
    fs::create_dir_all(folder.join("hosts")).unwrap();
    fs::write(folder.join("hosts/aa11.json"), "{").unwrap();
    let mut config = config(folder);
    config.nodes.hosting = Some(hosting);
    config.nodes.proxies.folder = Some(folder.join("proxies"));
    config
}

#[tokio::test]
async fn lost_node_is_not_started_while_its_host_may_run() {
    let folder = tempfile::tempdir().unwrap();
    let node = json!({"node_id": "sh", "command": "bash", "backend": "pty", "cwd": "/tmp"});
    let session = json!({"id": "test/default", "name": "default", "server": "test", "nodes": [node]});
    let stored = json!({"version": "1.0", "sessions": [session]}).to_string();
    fs::write(folder.path().join("sessions.json"), stored).unwrap();
    let harness = Harness::with(config_with_damaged_entry(folder.path()), folder);
    let error = start(&harness, "sh", false).await.unwrap_err();
    assert_error(&error, ErrorKind::Busy, &["'sh'", "aa11.json"]);
    assert!(matches!(restore(&harness).await.as_slice(), [(node, Some(_))] if node == "sh"));
    // The directory of a host that runs exists.
    fs::remove_dir(harness.folder.path().join("runtime/aa11")).unwrap();
    // A file cannot be listed, even by root.
    let [registry, other] = ["hosts", "other"].map(|name| harness.folder.path().join(name));
    fs::rename(&registry, &other).unwrap();
    fs::write(&registry, "").unwrap();
    let error = start(&harness, "sh", false).await.unwrap_err();
    assert_error(&error, ErrorKind::Busy, &["'sh'", "/hosts: "]);
    fs::remove_file(&registry).unwrap();
    fs::rename(&other, &registry).unwrap();
    // The program of hosts is missing.
    let error = start(&harness, "sh", false).await.unwrap_err();
    assert_ne!(error.kind, ErrorKind::Busy, "{error:?}");
}

#[tokio::test]
async fn damaged_host_entry_protects_the_state_of_proxies() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("proxies/run/test/abc.json");
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    fs::write(&state, "{}").unwrap();
    let harness = Harness::with(config_with_damaged_entry(folder.path()), folder);
    harness.engine.adopt();
    assert!(state.exists());
    fs::remove_file(harness.folder.path().join("hosts/aa11.json")).unwrap();
    harness.engine.adopt();
    assert!(!state.exists(), "no host uses it");
}
