//! Forks of nodes that run the mock agent under the name `claude`. Real agents have their own tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nerve_api::event::EventKind;
use nerve_api::reply::NodeInfo;
use nerve_api::request::{CommandLine, CreateGraph, ForkNode, GetHistory, NodeSpec};
use nerve_api::value::{BackendKind, NodeState};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::eventually;
use nerve_testkit::harness::{assert_error, node_ref};
use serde_json::{Value, json};

use crate::harness::{Harness, mock_agent};

const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";

/// Installs the mock agent as `claude`, in a script that first prints its proxy variable.
pub(crate) fn claude(harness: &Harness) -> String {
    let path = harness.folder.path().join("claude");
    let script =
        format!("#!/bin/sh\necho \"PROXY=$HTTPS_PROXY\"\nexec '{}' \"$@\"\n", mock_agent().display());
    if !path.exists() {
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    path.display().to_string()
}

fn spec(harness: &Harness, node: &str, options: &[&str]) -> NodeSpec {
    let program = claude(harness);
    let mut argv = vec![program.as_str()];
    argv.extend(options);
    harness.spec(node, &argv)
}

async fn create(harness: &Harness, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
    harness.engine.create(spec).await
}

/// Creates a node and runs a turn for each prompt.
async fn create_with_turns(harness: &Harness, node: &str, prompts: &[&str]) -> NodeInfo {
    let info = create(harness, spec(harness, node, &[])).await.unwrap();
    for prompt in prompts {
        harness.ask(node, prompt).await;
    }
    info
}

async fn fork(harness: &Harness, source: &str, target: &str) -> Result<NodeInfo, EngineError> {
    fork_at(harness, source, target, None).await
}

async fn fork_at(
    harness: &Harness,
    source: &str,
    target: &str,
    turn: Option<u64>,
) -> Result<NodeInfo, EngineError> {
    let request =
        ForkNode { source_id: source.into(), target_id: target.into(), at: turn, ..ForkNode::default() };
    let forked = harness.engine.fork_node(request, Default::default()).await?;
    assert_eq!(forked.forked_from, source);
    harness.engine.node_info(&node_ref(&forked.node_id))
}

async fn assert_rejected(harness: &Harness, source: &str, target: &str, kind: ErrorKind, fact: &str) {
    let error = fork(harness, source, target).await.unwrap_err();
    assert_error(&error, kind, &[fact]);
    assert!(error.hint.is_some(), "{error}");
}

fn session_id(info: &NodeInfo) -> String {
    info.metadata.text("conversation_id").to_string()
}

fn transcripts(harness: &Harness) -> PathBuf {
    harness.folder.path().join(".claude/projects/-tmp")
}

fn transcript(harness: &Harness, id: &str) -> PathBuf {
    transcripts(harness).join(format!("{id}.jsonl"))
}

pub(crate) async fn recall(harness: &Harness, node: &str) -> String {
    harness.ask(node, "RECALL").await.text.replace("You said: ", "")
}

#[tokio::test]
async fn existing_conversation_is_resumed_by_id() {
    let harness = Harness::new();
    let spec = |node| NodeSpec { conversation_id: Some(A.to_string()), ..spec(&harness, node, &[]) };
    create(&harness, spec("c")).await.unwrap();
    harness.ask("c", "one").await;
    harness.engine.stop_node(node_ref("c").into(), Default::default()).await.unwrap();
    let info = create(&harness, spec("d")).await.unwrap();
    assert_eq!(session_id(&info), A);
    assert_eq!(recall(&harness, "d").await, "one");
}

#[tokio::test]
async fn fork_shares_the_past_and_diverges() {
    let mut harness = Harness::new();
    let source = create_with_turns(&harness, "c", &["one"]).await;
    let before = fs::read(transcript(&harness, &session_id(&source))).unwrap();

    let forked = fork(&harness, "c", "d").await.unwrap();
    let (a, b) = (session_id(&source), session_id(&forked));
    assert_ne!(a, b);
    assert_eq!(forked.node_id, "d");
    let command = forked.metadata.text("command");
    assert!(command.ends_with(&format!("claude --resume {a} --fork-session --session-id {b}")), "{command}");
    let event = harness
        .wait_for_event(|kind| matches!(kind, EventKind::NodeCreated { forked_from: Some(_), .. }))
        .await;
    let EventKind::NodeCreated { kind, forked_from } = event else { panic!() };
    assert_eq!((kind.as_str(), forked_from.as_deref()), ("pty", Some("c")));

    assert_eq!(recall(&harness, "d").await, "one");
    assert_eq!(fs::read(transcript(&harness, &a)).unwrap(), before, "the source's transcript changed");
    harness.ask("c", "two").await;
    harness.ask("d", "three").await;
    assert_eq!(recall(&harness, "c").await, "one | two");
    assert_eq!(recall(&harness, "d").await, "one | RECALL | three");

    // A fork of a fork contains the turns of both.
    let second_fork = fork(&harness, "d", "e").await.unwrap();
    assert!(second_fork.metadata.text("command").contains(&format!("--resume {b} ")), "{second_fork:?}");
    assert_eq!(recall(&harness, "e").await, "one | RECALL | three | RECALL");
    for node in ["c", "d", "e"] {
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn session_id_is_generated_given_or_detected() {
    let harness = Harness::new();
    let created = create(&harness, spec(&harness, "a", &[])).await.unwrap();
    let id = session_id(&created);
    assert_eq!(id.len(), 36);
    assert!(created.metadata.text("command").ends_with(&format!("claude --session-id {id}")), "{created:?}");

    let with_id = NodeSpec { conversation_id: Some(A.into()), ..spec(&harness, "b", &[]) };
    assert_eq!(session_id(&create(&harness, with_id).await.unwrap()), A);

    let other = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";
    let found = create(&harness, spec(&harness, "c", &["--session-id", other])).await.unwrap();
    assert_eq!(session_id(&found), other);
    assert_eq!(found.metadata.text("command").matches("--session-id").count(), 1);

    let claude = NodeSpec { backend: BackendKind::Claude, ..spec(&harness, "d", &[]) };
    assert!(create(&harness, claude).await.unwrap().metadata.contains_key("conversation_id"));
    for node in ["a", "b", "c", "d"] {
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn invalid_session_id_is_rejected() {
    let harness = Harness::new();
    let bad = NodeSpec { conversation_id: Some("custom".into()), ..spec(&harness, "a", &[]) };
    let error = create(&harness, bad).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'custom'", "UUID"]);
    let shell = NodeSpec { conversation_id: Some(A.into()), ..harness.spec("a", &["sh"]) };
    assert_eq!(create(&harness, shell).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(matches!(harness.engine.nodes(None), Ok(nodes) if nodes.is_empty()));
}

#[tokio::test]
async fn fork_inherits_the_spec_of_its_source() {
    let harness = Harness::new();
    let mut created = spec(&harness, "c", &["--delay", "1"]);
    created.env.insert("HTTPS_PROXY".into(), "http://127.0.0.1:9".into());
    created.parser = Some(nerve_agent::parse::ParserKind::None);
    (created.cols, created.rows) = (Some(90), Some(25));
    created.tmux_session = Some("work".into());
    created.history = false;
    create(&harness, created).await.unwrap();
    harness.ask("c", "one").await;
    harness
        .engine
        .resize_node(
            nerve_api::request::ResizeNode { node_id: "c".into(), cols: 95, rows: 28, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap();
    let forked = fork(&harness, "c", "d").await.unwrap();
    let metadata = |key: &str| forked.metadata.display(key);
    assert_eq!(metadata("cwd"), "/tmp");
    assert_eq!(metadata("parser"), "none");
    assert_eq!(metadata("profile"), "claude");
    assert_eq!((metadata("cols"), metadata("rows")), ("95".into(), "28".into()), "the current size");
    assert!(metadata("command").contains("--delay 1 --resume"), "{forked:?}");
    harness.wait_for_output("d", "PROXY=http://127.0.0.1:9").await;
    let request = GetHistory { node_id: "d".into(), ..GetHistory::default() };
    let history = harness.engine.get_history(request, Default::default()).await.unwrap();
    assert!(history.note.is_some(), "the fork has a log");
    harness.stop("c").await;
    harness.stop("d").await;
}

#[tokio::test]
async fn invalid_source_or_target_is_rejected() {
    let harness = Harness::new();
    assert_rejected(&harness, "missing", "d", ErrorKind::NotFound, "'missing'").await;
    create_with_turns(&harness, "c", &["one"]).await;
    assert_rejected(&harness, "c", "c", ErrorKind::AlreadyExists, "'c'").await;
    harness.start("taken", &["sh"]).await;
    assert_rejected(&harness, "c", "taken", ErrorKind::AlreadyExists, "'taken'").await;
    for bad in ["Not A Name", "", "-x", &"x".repeat(33)] {
        let error = fork(&harness, "c", bad).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
    }
    harness.stop("c").await;
    harness.stop("taken").await;
}

#[tokio::test]
async fn unsupported_node_kinds_cannot_be_forked() {
    let harness = Harness::new();
    let bash = NodeSpec { backend: BackendKind::Bash, ..harness.spec("b", &[]) };
    create(&harness, bash).await.unwrap();
    assert_rejected(&harness, "b", "d", ErrorKind::InvalidRequest, "a bash node").await;
    let graph = json!({ "steps": [{ "id": "s", "node": "b", "input": "true" }] });
    let graph = json!({ "id": "g", "steps": graph["steps"] });
    let serde_json::Value::Object(definition) = graph else { panic!("no object") };
    let request = CreateGraph { definition, session_id: None };
    harness.engine.create_graph(request, Default::default()).await.unwrap();
    assert_rejected(&harness, "g", "d", ErrorKind::InvalidRequest, "a graph node").await;
    harness.start("sh", &["sh"]).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    assert_rejected(&harness, "sh", "d", ErrorKind::InvalidRequest, "'shell'").await;
    // The name is available again.
    harness.start("d", &["sh"]).await;
    for node in ["b", "sh", "d"] {
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn profile_gives_reason_why_fork_is_unsupported() {
    let harness = Harness::new();
    let profiles = harness.folder.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    let profile = "name = \"oldagent\"\nprograms = [\"sh\"]\n[session]\nprograms = [\"sh\"]\ncannot = \"conversations are not saved\"\n";
    fs::write(profiles.join("old.toml"), profile).unwrap();
    let spec = NodeSpec { profile: Some("oldagent".into()), ..harness.spec("o", &["sh"]) };
    create(&harness, spec).await.unwrap();
    harness.wait("o", NodeState::Ready).await.unwrap();
    assert_rejected(&harness, "o", "d", ErrorKind::InvalidRequest, "not saved").await;
    harness.stop("o").await;
}

#[tokio::test]
async fn unknown_session_id_prevents_fork() {
    let harness = Harness::new();
    // `--continue` resumes the latest conversation, so its id is unknown. The script drops this option, which
    // the mock agent lacks.
    fs::write(
        harness.folder.path().join("claude"),
        format!("#!/bin/sh\nexec '{}'\n", mock_agent().display()),
    )
    .unwrap();
    fs::set_permissions(harness.folder.path().join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let info = create(&harness, spec(&harness, "c", &["--continue"])).await.unwrap();
    assert!(!info.metadata.contains_key("conversation_id"), "{info:?}");
    harness.ask("c", "one").await;
    assert_rejected(&harness, "c", "d", ErrorKind::InvalidRequest, "session ID").await;
    harness.stop("c").await;
}

#[tokio::test]
async fn agent_started_by_a_script_is_not_forked() {
    let harness = Harness::new();
    let script = harness.folder.path().join("my-claude.sh");
    fs::write(&script, format!("#!/bin/sh\nexec '{}' --session-id {A}\n", mock_agent().display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = harness.spec("c", &[script.to_str().unwrap()]);
    spec.backend = BackendKind::Claude;
    create(&harness, spec).await.unwrap();
    harness.ask("c", "one").await;
    assert_rejected(&harness, "c", "d", ErrorKind::InvalidRequest, "session ID").await;
    // Even if the agent reports its id, the script leaves no place for additional arguments.
    let Some(NodeInfo { metadata, .. }) = info(&harness, "c").await else { panic!() };
    let status = harness.folder.path().join(format!(".claude/sessions/{}.json", metadata["pid"]));
    fs::create_dir_all(status.parent().unwrap()).unwrap();
    fs::write(status, json!({ "sessionId": A }).to_string()).unwrap();
    assert_rejected(&harness, "c", "d", ErrorKind::InvalidRequest, "command").await;
    harness.stop("c").await;
}

async fn info(harness: &Harness, node: &str) -> Option<NodeInfo> {
    harness.engine.node_info(&node_ref(node)).ok()
}

#[tokio::test]
async fn session_id_reported_by_the_agent_takes_precedence() {
    let harness = Harness::new();
    let first = create_with_turns(&harness, "c", &["one"]).await;
    // As after `/clear`: the status file has the id of a new conversation.
    let text = fs::read_to_string(transcript(&harness, &session_id(&first))).unwrap();
    fs::write(transcript(&harness, A), text.replace("one", "after clear").replace(&session_id(&first), A))
        .unwrap();
    let pid = first.metadata.display("pid");
    let status = harness.folder.path().join(format!(".claude/sessions/{pid}.json"));
    fs::create_dir_all(status.parent().unwrap()).unwrap();
    // An agent that hangs while it writes may have a new conversation: the old one is not forked.
    fs::write(&status, "{\"sessionId\": ").unwrap();
    assert_rejected(&harness, "c", "d", ErrorKind::Busy, "status file").await;
    fs::write(status, json!({ "sessionId": A }).to_string()).unwrap();
    let forked = fork(&harness, "c", "d").await.unwrap();
    assert!(forked.metadata.text("command").contains(&format!("--resume {A} ")), "{forked:?}");
    assert_eq!(recall(&harness, "d").await, "after clear");
    // The node reports the new id after its next turn.
    harness.ask("c", "two").await;
    eventually("known", async || info(&harness, "c").await.unwrap().metadata.text("conversation_id") == A)
        .await;
    harness.stop("c").await;
    harness.stop("d").await;
}

#[tokio::test]
async fn node_without_turns_is_not_forked() {
    let harness = Harness::new();
    let created = create_with_turns(&harness, "c", &[]).await;
    harness.wait("c", NodeState::Ready).await.unwrap();
    assert_rejected(&harness, "c", "d", ErrorKind::InvalidRequest, "turn").await;
    // Claude Code also records its own commands.
    let line = json!({ "type": "user", "uuid": "u", "message": { "role": "user", "content": "<command-name>/clear</command-name>" } });
    fs::create_dir_all(transcripts(&harness)).unwrap();
    fs::write(transcript(&harness, &session_id(&created)), format!("{line}\n")).unwrap();
    assert_rejected(&harness, "c", "d", ErrorKind::InvalidRequest, "turn").await;
    assert!(info(&harness, "d").await.is_none());
    harness.stop("c").await;
}

#[tokio::test]
async fn starting_busy_or_blocked_node_is_not_forked() {
    let harness = Harness::new();
    create(&harness, spec(&harness, "s", &["--never-ready"])).await.unwrap();
    assert_rejected(&harness, "s", "d", ErrorKind::Busy, "starting").await;
    harness.stop("s").await;
    create_with_turns(&harness, "c", &["one"]).await;
    let execute = harness.execute("c", "STALL 100 please");
    let engine = harness.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    harness.wait("c", NodeState::Busy).await.unwrap();
    let error = fork(&harness, "c", "d").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    harness.engine.send_interrupt(node_ref("c").into(), Default::default()).await.unwrap();
    let _ = turn.await.unwrap();
    harness.send("c", "PERMIT this").await.unwrap_err();
    assert_rejected(&harness, "c", "d", ErrorKind::Blocked, "dialog").await;
    harness.stop("c").await;
}

#[tokio::test]
async fn stopped_node_is_forked_from_transcript_and_resumes() {
    let harness = Harness::new();
    create_with_turns(&harness, "c", &["one"]).await;
    let forked = fork(&harness, "c", "d").await.unwrap();
    harness.ask("d", "two").await;
    for node in ["c", "d"] {
        harness.engine.write_bytes(&node_ref(node), b"/exit\r".to_vec()).await.unwrap();
        harness.wait(node, NodeState::Stopped).await.unwrap();
    }
    assert_rejected(&harness, "c", "c", ErrorKind::AlreadyExists, "'c'").await;
    fork(&harness, "c", "e").await.unwrap();
    assert_eq!(recall(&harness, "e").await, "one");

    // The fork's own session exists now and is resumed.
    harness.engine.start_node(node_ref("d").into(), Default::default()).await.unwrap();
    let resumed = harness.engine.node_info(&node_ref("d")).unwrap();
    assert_eq!(session_id(&resumed), session_id(&forked));
    assert!(
        resumed.metadata.text("command").ends_with(&format!("claude --resume {}", session_id(&forked))),
        "{resumed:?}"
    );
    assert_eq!(recall(&harness, "d").await, "one | two");
    for node in ["c", "d", "e"] {
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn fork_at_earlier_turn_omits_later_turns() {
    let harness = Harness::new();
    let source = create_with_turns(&harness, "c", &["one", "two", "three"]).await;
    let before = fs::read(transcript(&harness, &session_id(&source))).unwrap();
    let forked = fork_at(&harness, "c", "d", Some(2)).await.unwrap();
    let id = session_id(&forked);
    assert!(forked.metadata.text("command").ends_with(&format!("claude --resume {id}")), "{forked:?}");
    let copy = transcript(&harness, &id);
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    for line in fs::read_to_string(&copy).unwrap().lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["sessionId"], Value::from(id.as_str()));
    }
    assert_eq!(recall(&harness, "d").await, "one | two");
    assert_eq!(fs::read(transcript(&harness, &session_id(&source))).unwrap(), before);
    let last = fork_at(&harness, "c", "e", Some(3)).await.unwrap();
    assert_ne!(session_id(&last), session_id(&source));
    assert_eq!(recall(&harness, "e").await, "one | two | three");

    let count = fs::read_dir(transcripts(&harness)).unwrap().count();
    for turn in [0, 4] {
        let error = fork_at(&harness, "c", "f", Some(turn)).await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidRequest, &[&format!("turn {turn}"), "3"]);
    }
    assert_eq!(fs::read_dir(transcripts(&harness)).unwrap().count(), count, "a file was written");
    for node in ["c", "d", "e"] {
        harness.stop(node).await;
    }
}

#[tokio::test]
async fn invalid_transcript_is_not_forked() {
    let harness = Harness::new();
    let source = create_with_turns(&harness, "c", &["one", "two"]).await;
    let path = transcript(&harness, &session_id(&source));
    let complete = fs::read_to_string(&path).unwrap();
    let cut_off = &complete[..complete.len() - 20];
    let newer = "{\"type\":\"turn\",\"v\":9}\n";
    let cases = [
        (cut_off.to_string(), "the last line is incomplete"),
        (format!("{{\n{complete}"), "line 1 is invalid"),
        (newer.to_string(), "newer version"),
    ];
    for (text, why) in cases {
        fs::write(&path, text).unwrap();
        let error = fork_at(&harness, "c", "d", Some(1)).await.unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert!(error.to_string().contains("nothing was started"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let error = fork_at(&harness, "c", "d", Some(1)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["transcript"]);
    assert_eq!(fs::read_dir(transcripts(&harness)).unwrap().count(), 0);
    assert!(info(&harness, "d").await.is_none());
    harness.stop("c").await;
}

#[tokio::test]
async fn failed_fork_leaves_no_copy() {
    let harness = Harness::new();
    create_with_turns(&harness, "c", &["one"]).await;
    fs::remove_file(harness.folder.path().join("claude")).unwrap();
    let error = fork_at(&harness, "c", "d", Some(1)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Process, "{error}");
    assert_eq!(fs::read_dir(transcripts(&harness)).unwrap().count(), 1, "only the source's transcript");
    harness.stop("c").await;
}

#[tokio::test]
async fn shell_style_command_is_forked() {
    let harness = Harness::new();
    let folder = harness.folder.path().join("my tools");
    fs::create_dir(&folder).unwrap();
    claude(&harness);
    fs::rename(harness.folder.path().join("claude"), folder.join("claude")).unwrap();
    let mut spec = harness.spec("c", &[]);
    spec.command =
        Some(CommandLine::Text(format!("env X=1 '{}' --delay 1", folder.join("claude").display())));
    create(&harness, spec).await.unwrap();
    harness.ask("c", "one").await;
    fork(&harness, "c", "d").await.unwrap();
    assert_eq!(recall(&harness, "d").await, "one");
    harness.stop("c").await;
    harness.stop("d").await;
}
