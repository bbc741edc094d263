//! Nodes that go on from where another one is, over the mock agent under the name of the agent it looks like. (The real one has
//! tests of its own.)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use nerve_api::request::{CreateGraph, ForkNode, GetHistory};
use nerve_core::command::{BackendKind, CommandLine, EventKind, NodeInfo, NodeSpec, PanePlace, StateName};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_types::Size;
use serde_json::{Value, json};

use crate::harness::{Stage, at, mock_agent};
use crate::tmux::Tmux;
use crate::wezterm::mux::Scene;

const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";

/// The mock agent as `claude`, which says first what it was started with.
fn claude(stage: &Stage) -> String {
    let path = stage.folder.path().join("claude");
    let script =
        format!("#!/bin/sh\necho \"PROXY=$HTTPS_PROXY\"\nexec '{}' \"$@\"\n", mock_agent().display());
    if !path.exists() {
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    path.display().to_string()
}

fn spec(stage: &Stage, node: &str, options: &[&str]) -> NodeSpec {
    let program = claude(stage);
    let mut argv = vec![program.as_str()];
    argv.extend(options);
    stage.spec(node, &argv)
}

async fn create(stage: &Stage, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
    stage.engine.create(spec).await
}

/// A node that has had a turn for each of these prompts.
async fn talked(stage: &Stage, node: &str, prompts: &[&str]) -> NodeInfo {
    let info = create(stage, spec(stage, node, &[])).await.unwrap();
    for prompt in prompts {
        stage.ask(node, prompt).await;
    }
    info
}

async fn fork(stage: &Stage, source: &str, target: &str) -> Result<NodeInfo, EngineError> {
    fork_at(stage, source, target, None).await
}

async fn fork_at(
    stage: &Stage,
    source: &str,
    target: &str,
    turn: Option<u64>,
) -> Result<NodeInfo, EngineError> {
    let request =
        ForkNode { source_id: source.into(), target_id: target.into(), at: turn, ..ForkNode::default() };
    let forked = stage.engine.fork_node(request, Default::default()).await?;
    assert_eq!(forked.forked_from, source);
    stage.engine.node_info(&at(&forked.node_id))
}

async fn refused(stage: &Stage, source: &str, target: &str, kind: ErrorKind) -> String {
    let error = fork(stage, source, target).await.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.hint.is_some(), "{error}");
    error.message
}

fn id_of(info: &NodeInfo) -> String {
    info.metadata["agent_session"].clone()
}

fn transcripts(stage: &Stage) -> PathBuf {
    stage.folder.path().join(".claude/projects/-tmp")
}

fn transcript(stage: &Stage, id: &str) -> PathBuf {
    transcripts(stage).join(format!("{id}.jsonl"))
}

async fn recalled(stage: &Stage, node: &str) -> String {
    stage.ask(node, "RECALL").await.text.replace("You said: ", "")
}

#[tokio::test]
async fn a_conversation_that_is_there_is_taken_up_by_its_id() {
    let stage = Stage::new();
    let spec = |node| NodeSpec { agent_session: Some(A.to_string()), ..spec(&stage, node, &[]) };
    create(&stage, spec("c")).await.unwrap();
    stage.ask("c", "one").await;
    stage.engine.stop_node(at("c").into(), Default::default()).await.unwrap();
    let info = create(&stage, spec("d")).await.unwrap();
    assert_eq!(id_of(&info), A);
    assert_eq!(recalled(&stage, "d").await, "one");
}

#[tokio::test]
async fn a_fork_knows_the_past_and_both_go_on_apart() {
    let mut stage = Stage::new();
    let source = talked(&stage, "c", &["one"]).await;
    let before = fs::read(transcript(&stage, &id_of(&source))).unwrap();

    let forked = fork(&stage, "c", "d").await.unwrap();
    let (a, b) = (id_of(&source), id_of(&forked));
    assert_ne!(a, b);
    assert_eq!(forked.id, "d");
    let command = &forked.metadata["command"];
    assert!(command.ends_with(&format!("claude --resume {a} --fork-session --session-id {b}")), "{command}");
    let told = stage.event(|kind| matches!(kind, EventKind::NodeCreated { forked_from: Some(_), .. })).await;
    let EventKind::NodeCreated { kind, forked_from } = told else { panic!() };
    assert_eq!((kind, forked_from.as_deref()), ("pty", Some("c")));

    assert_eq!(recalled(&stage, "d").await, "one");
    assert_eq!(fs::read(transcript(&stage, &a)).unwrap(), before, "the source's record is untouched");
    stage.ask("c", "two").await;
    stage.ask("d", "three").await;
    assert_eq!(recalled(&stage, "c").await, "one | two");
    assert_eq!(recalled(&stage, "d").await, "one | RECALL | three");

    // A fork of a fork goes on from the fork.
    let again = fork(&stage, "d", "e").await.unwrap();
    assert!(again.metadata["command"].contains(&format!("--resume {b} ")), "{again:?}");
    assert_eq!(recalled(&stage, "e").await, "one | RECALL | three | RECALL");
    for node in ["c", "d", "e"] {
        stage.stop(node).await;
    }
}

#[tokio::test]
async fn an_id_is_made_up_given_or_found() {
    let stage = Stage::new();
    let made = create(&stage, spec(&stage, "a", &[])).await.unwrap();
    let id = id_of(&made);
    assert_eq!(id.len(), 36);
    assert_eq!(made.metadata["claude_session_id"], id);
    assert!(made.metadata["command"].ends_with(&format!("claude --session-id {id}")), "{made:?}");

    let given = NodeSpec { agent_session: Some(A.into()), ..spec(&stage, "b", &[]) };
    assert_eq!(id_of(&create(&stage, given).await.unwrap()), A);

    let other = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";
    let found = create(&stage, spec(&stage, "c", &["--session-id", other])).await.unwrap();
    assert_eq!(id_of(&found), other);
    assert_eq!(found.metadata["command"].matches("--session-id").count(), 1);

    let claude = NodeSpec { backend: BackendKind::Claude, ..spec(&stage, "d", &[]) };
    assert!(create(&stage, claude).await.unwrap().metadata.contains_key("claude_session_id"));
    for node in ["a", "b", "c", "d"] {
        stage.stop(node).await;
    }
}

#[tokio::test]
async fn what_is_no_id_starts_nothing() {
    let stage = Stage::new();
    let bad = NodeSpec { agent_session: Some("custom".into()), ..spec(&stage, "a", &[]) };
    let error = create(&stage, bad).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("must be a UUID"), "{error}");
    let shell = NodeSpec { agent_session: Some(A.into()), ..stage.spec("a", &["sh"]) };
    assert_eq!(create(&stage, shell).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert!(matches!(stage.engine.nodes(None), Ok(nodes) if nodes.is_empty()));
}

#[tokio::test]
async fn what_the_source_was_made_with_is_carried_over() {
    let stage = Stage::new();
    let mut made = spec(&stage, "c", &["--delay", "1"]);
    made.env.insert("HTTPS_PROXY".into(), "http://127.0.0.1:9".into());
    made.parser = Some(nerve_agent::parse::ParserKind::None);
    made.size = Size::new(90, 25);
    made.place = PanePlace { session: Some("work".into()), ..PanePlace::default() };
    made.history = false;
    create(&stage, made).await.unwrap();
    stage.ask("c", "one").await;
    stage
        .engine
        .resize_node(
            nerve_api::request::ResizeNode { node_id: "c".into(), cols: 95, rows: 28, ..Default::default() },
            Default::default(),
        )
        .await
        .unwrap();
    let forked = fork(&stage, "c", "d").await.unwrap();
    let told = |key: &str| forked.metadata[key].clone();
    assert_eq!(told("cwd"), "/tmp");
    assert_eq!(told("parser"), "none");
    assert_eq!(told("profile"), "claude");
    assert_eq!((told("cols"), told("rows")), ("95".into(), "28".into()), "as it is now");
    assert!(told("command").contains("--delay 1 --resume"), "{forked:?}");
    stage.shows("d", "PROXY=http://127.0.0.1:9").await;
    let request = GetHistory { node_id: "d".into(), ..GetHistory::default() };
    let history = stage.engine.get_history(request, Default::default()).await.unwrap();
    assert!(history.note.is_some(), "it keeps no log either");
    stage.stop("c").await;
    stage.stop("d").await;
}

#[tokio::test]
async fn a_source_or_a_target_that_cannot_be() {
    let stage = Stage::new();
    let message = refused(&stage, "nobody", "d", ErrorKind::NotFound).await;
    assert_eq!(message, "no node 'nobody' in session 'default'");
    talked(&stage, "c", &["one"]).await;
    let message = refused(&stage, "c", "c", ErrorKind::AlreadyExists).await;
    assert_eq!(message, "node 'c' exists already in session 'default'");
    stage.start("taken", &["sh"]).await;
    assert!(refused(&stage, "c", "taken", ErrorKind::AlreadyExists).await.contains("'taken' exists already"));
    for bad in ["Not A Name", "", "-x", &"x".repeat(33)] {
        let error = fork(&stage, "c", bad).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
    }
    stage.stop("c").await;
    stage.stop("taken").await;
}

#[tokio::test]
async fn kinds_of_nodes_that_cannot_fork_say_so() {
    let stage = Stage::new();
    let bash = NodeSpec { backend: BackendKind::Bash, ..stage.spec("b", &[]) };
    create(&stage, bash).await.unwrap();
    let message = refused(&stage, "b", "d", ErrorKind::InvalidRequest).await;
    assert_eq!(message, "cannot fork node 'b': a bash node does not support forking");
    let graph = json!({ "steps": [{ "id": "s", "node": "b", "input": "true" }] });
    let graph = json!({ "id": "g", "steps": graph["steps"] });
    let serde_json::Value::Object(definition) = graph else { panic!("no object") };
    let request = CreateGraph { definition, session_id: None };
    stage.engine.create_graph(request, Default::default()).await.unwrap();
    let message = refused(&stage, "g", "d", ErrorKind::InvalidRequest).await;
    assert_eq!(message, "cannot fork node 'g': a graph node does not support forking");
    stage.start("sh", &["sh"]).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    let message = refused(&stage, "sh", "d", ErrorKind::InvalidRequest).await;
    assert_eq!(message, "cannot fork node 'sh': a node of 'shell' does not support forking");
    // The name is free again.
    stage.start("d", &["sh"]).await;
    for node in ["b", "sh", "d"] {
        stage.stop(node).await;
    }
}

#[tokio::test]
async fn an_agent_that_cannot_fork_says_why() {
    let stage = Stage::new();
    let profiles = stage.folder.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    let profile = "name = \"oldagent\"\nprograms = [\"sh\"]\n[session]\nprograms = [\"sh\"]\ncannot = \"it forgets all at its end\"\n";
    fs::write(profiles.join("old.toml"), profile).unwrap();
    let spec = NodeSpec { profile: Some("oldagent".into()), ..stage.spec("o", &["sh"]) };
    create(&stage, spec).await.unwrap();
    stage.wait("o", StateName::Ready).await.unwrap();
    let message = refused(&stage, "o", "d", ErrorKind::InvalidRequest).await;
    assert_eq!(message, "cannot fork node 'o': it forgets all at its end");
    stage.stop("o").await;
}

#[tokio::test]
async fn a_conversation_whose_id_nobody_knows_is_not_forked() {
    let stage = Stage::new();
    // Claude Code goes on with its latest one; the mock agent has none, and no such option.
    fs::write(stage.folder.path().join("claude"), format!("#!/bin/sh\nexec '{}'\n", mock_agent().display()))
        .unwrap();
    fs::set_permissions(stage.folder.path().join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let info = create(&stage, spec(&stage, "c", &["--continue"])).await.unwrap();
    assert!(!info.metadata.contains_key("agent_session"), "{info:?}");
    stage.ask("c", "one").await;
    let message = refused(&stage, "c", "d", ErrorKind::InvalidRequest).await;
    assert_eq!(message, "cannot fork node 'c': Claude session ID not tracked");
    stage.stop("c").await;
}

#[tokio::test]
async fn a_program_behind_a_script_is_not_forked() {
    let stage = Stage::new();
    let script = stage.folder.path().join("my-claude.sh");
    fs::write(&script, format!("#!/bin/sh\nexec '{}' --session-id {A}\n", mock_agent().display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = stage.spec("c", &[script.to_str().unwrap()]);
    spec.backend = BackendKind::Claude;
    create(&stage, spec).await.unwrap();
    stage.ask("c", "one").await;
    let message = refused(&stage, "c", "d", ErrorKind::InvalidRequest).await;
    assert!(message.contains("session ID not tracked"), "{message}");
    // It says so itself: then it is known, and still there is no place for the words.
    let Some(NodeInfo { metadata, .. }) = info(&stage, "c").await else { panic!() };
    let status = stage.folder.path().join(format!(".claude/sessions/{}.json", metadata["pid"]));
    fs::create_dir_all(status.parent().unwrap()).unwrap();
    fs::write(status, json!({ "sessionId": A }).to_string()).unwrap();
    let message = refused(&stage, "c", "d", ErrorKind::InvalidRequest).await;
    assert!(message.contains("does not start the agent itself"), "{message}");
    stage.stop("c").await;
}

async fn info(stage: &Stage, node: &str) -> Option<NodeInfo> {
    stage.engine.node_info(&at(node)).ok()
}

#[tokio::test]
async fn what_the_agent_says_of_its_conversation_counts_more_than_what_was_known() {
    let stage = Stage::new();
    let first = talked(&stage, "c", &["one"]).await;
    // As after `/clear`: the status file has another id, under which another conversation is kept.
    let text = fs::read_to_string(transcript(&stage, &id_of(&first))).unwrap();
    fs::write(transcript(&stage, A), text.replace("one", "after clear").replace(&id_of(&first), A)).unwrap();
    let pid = first.metadata["pid"].clone();
    let status = stage.folder.path().join(format!(".claude/sessions/{pid}.json"));
    fs::create_dir_all(status.parent().unwrap()).unwrap();
    fs::write(status, json!({ "sessionId": A }).to_string()).unwrap();
    let forked = fork(&stage, "c", "d").await.unwrap();
    assert!(forked.metadata["command"].contains(&format!("--resume {A} ")), "{forked:?}");
    assert_eq!(recalled(&stage, "d").await, "after clear");
    // And the node knows it after its next turn.
    stage.ask("c", "two").await;
    let known = async {
        while info(&stage, "c").await.unwrap().metadata["agent_session"] != A {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), known).await.unwrap();
    stage.stop("c").await;
    stage.stop("d").await;
}

#[tokio::test]
async fn a_node_that_never_had_a_turn_is_not_forked() {
    let stage = Stage::new();
    let made = talked(&stage, "c", &[]).await;
    stage.wait("c", StateName::Ready).await.unwrap();
    let message = refused(&stage, "c", "d", ErrorKind::InvalidRequest).await;
    assert!(message.contains("never had a turn"), "{message}");
    // Claude Code writes down its own commands, too.
    let line = json!({ "type": "user", "uuid": "u", "message": { "role": "user", "content": "<command-name>/clear</command-name>" } });
    fs::create_dir_all(transcripts(&stage)).unwrap();
    fs::write(transcript(&stage, &id_of(&made)), format!("{line}\n")).unwrap();
    assert!(refused(&stage, "c", "d", ErrorKind::InvalidRequest).await.contains("never had a turn"));
    assert!(info(&stage, "d").await.is_none());
    stage.stop("c").await;
}

#[tokio::test]
async fn a_node_that_is_busy_or_asks_or_starts_is_not_forked() {
    let stage = Stage::new();
    create(&stage, spec(&stage, "s", &["--never-ready"])).await.unwrap();
    assert!(refused(&stage, "s", "d", ErrorKind::Busy).await.contains("it is starting"));
    stage.stop("s").await;
    talked(&stage, "c", &["one"]).await;
    let execute = stage.execute("c", "STALL 100 please");
    let engine = stage.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(execute, Default::default()).await });
    stage.wait("c", StateName::Busy).await.unwrap();
    let error = fork(&stage, "c", "d").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.to_string().contains("wait until it is ready"), "{error}");
    stage.engine.send_interrupt(at("c").into(), Default::default()).await.unwrap();
    let _ = turn.await.unwrap();
    stage.send("c", "PERMIT this").await.unwrap_err();
    assert!(refused(&stage, "c", "d", ErrorKind::Blocked).await.contains("it asks something"));
    stage.stop("c").await;
}

#[tokio::test]
async fn a_node_whose_program_has_ended_is_forked_from_its_record_and_goes_on_when_it_is_started() {
    let stage = Stage::new();
    talked(&stage, "c", &["one"]).await;
    let forked = fork(&stage, "c", "d").await.unwrap();
    stage.ask("d", "two").await;
    for node in ["c", "d"] {
        stage.engine.write_bytes(&at(node), b"/exit\r".to_vec()).await.unwrap();
        stage.wait(node, StateName::Stopped).await.unwrap();
    }
    assert_eq!(
        refused(&stage, "c", "c", ErrorKind::AlreadyExists).await,
        "node 'c' exists already in session 'default'"
    );
    fork(&stage, "c", "e").await.unwrap();
    assert_eq!(recalled(&stage, "e").await, "one");

    // The fork's own id is in use now: it goes on under it.
    stage.engine.start_node(at("d").into(), Default::default()).await.unwrap();
    let again = stage.engine.node_info(&at("d")).unwrap();
    assert_eq!(id_of(&again), id_of(&forked));
    assert!(again.metadata["command"].ends_with(&format!("claude --resume {}", id_of(&forked))), "{again:?}");
    assert_eq!(recalled(&stage, "d").await, "one | two");
    for node in ["c", "d", "e"] {
        stage.stop(node).await;
    }
}

#[tokio::test]
async fn a_fork_at_an_earlier_turn_knows_no_more_than_that() {
    let stage = Stage::new();
    let source = talked(&stage, "c", &["one", "two", "three"]).await;
    let before = fs::read(transcript(&stage, &id_of(&source))).unwrap();
    let forked = fork_at(&stage, "c", "d", Some(2)).await.unwrap();
    let id = id_of(&forked);
    assert!(forked.metadata["command"].ends_with(&format!("claude --resume {id}")), "{forked:?}");
    let copy = transcript(&stage, &id);
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    for line in fs::read_to_string(&copy).unwrap().lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["sessionId"], Value::from(id.as_str()));
    }
    assert_eq!(recalled(&stage, "d").await, "one | two");
    assert_eq!(fs::read(transcript(&stage, &id_of(&source))).unwrap(), before);
    let last = fork_at(&stage, "c", "e", Some(3)).await.unwrap();
    assert_ne!(id_of(&last), id_of(&source));
    assert_eq!(recalled(&stage, "e").await, "one | two | three");

    let count = fs::read_dir(transcripts(&stage)).unwrap().count();
    for turn in [0, 4] {
        let error = fork_at(&stage, "c", "f", Some(turn)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(&format!("no turn {turn}: the conversation has 3")), "{error}");
    }
    assert_eq!(fs::read_dir(transcripts(&stage)).unwrap().count(), count, "nothing was written");
    for node in ["c", "d", "e"] {
        stage.stop(node).await;
    }
}

#[tokio::test]
async fn a_transcript_that_cannot_be_cut_starts_and_writes_nothing() {
    let stage = Stage::new();
    let source = talked(&stage, "c", &["one", "two"]).await;
    let path = transcript(&stage, &id_of(&source));
    let whole = fs::read_to_string(&path).unwrap();
    let cut_off = &whole[..whole.len() - 20];
    let newer = "{\"type\":\"turn\",\"v\":9}\n";
    let cases = [
        (cut_off.to_string(), "the last line is incomplete"),
        (format!("{{\n{whole}"), "line 1 is invalid"),
        (newer.to_string(), "newer format"),
    ];
    for (text, why) in cases {
        fs::write(&path, text).unwrap();
        let error = fork_at(&stage, "c", "d", Some(1)).await.unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert!(error.to_string().contains("nothing was started"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let error = fork_at(&stage, "c", "d", Some(1)).await.unwrap_err();
    assert!(error.message.contains("never had a turn"), "{error}");
    assert_eq!(fs::read_dir(transcripts(&stage)).unwrap().count(), 0);
    assert!(info(&stage, "d").await.is_none());
    stage.stop("c").await;
}

#[tokio::test]
async fn a_fork_that_cannot_start_leaves_no_copy() {
    let stage = Stage::new();
    talked(&stage, "c", &["one"]).await;
    fs::remove_file(stage.folder.path().join("claude")).unwrap();
    let error = fork_at(&stage, "c", "d", Some(1)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Process, "{error}");
    assert_eq!(fs::read_dir(transcripts(&stage)).unwrap().count(), 1, "the source's");
    stage.stop("c").await;
}

#[tokio::test]
async fn a_command_as_one_text_is_forked_too() {
    let stage = Stage::new();
    let folder = stage.folder.path().join("my tools");
    fs::create_dir(&folder).unwrap();
    claude(&stage);
    fs::rename(stage.folder.path().join("claude"), folder.join("claude")).unwrap();
    let mut spec = stage.spec("c", &[]);
    spec.command = CommandLine::Text(format!("env X=1 '{}' --delay 1", folder.join("claude").display()));
    create(&stage, spec).await.unwrap();
    stage.ask("c", "one").await;
    fork(&stage, "c", "d").await.unwrap();
    assert_eq!(recalled(&stage, "d").await, "one");
    stage.stop("c").await;
    stage.stop("d").await;
}

/// A fork is a pane beside the other one, and both conversations go on apart.
async fn forked_beside(stage: &Stage, made: NodeSpec) {
    let source = create(stage, made).await.unwrap();
    stage.ask("c", "one").await;
    let forked = fork(stage, "c", "d").await.unwrap();
    assert_eq!(forked.kind, source.kind);
    let (a, b) = (id_of(&source), id_of(&forked));
    let command = &forked.metadata["command"];
    assert!(command.ends_with(&format!("claude --resume {a} --fork-session --session-id {b}")), "{command}");
    assert_eq!(recalled(stage, "d").await, "one");
    stage.ask("c", "two").await;
    stage.ask("d", "three").await;
    assert_eq!(recalled(stage, "c").await, "one | two");
    assert_eq!(recalled(stage, "d").await, "one | RECALL | three");
    let pane = async |node: &str| stage.engine.node_info(&at(node)).unwrap().metadata["pane_id"].clone();
    assert_ne!(pane("c").await, pane("d").await);
    stage.stop("c").await;
    stage.ask("d", "the other one is gone").await;
    stage.stop("d").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_node_in_tmux_is_a_pane_beside_it() {
    let Some(tmux) = Tmux::new("a_fork_of_a_node_in_tmux") else { return };
    let program = claude(&tmux.stage);
    for backend in [BackendKind::Tmux, BackendKind::ClaudeTmux] {
        let place = PanePlace { session: Some("mine".into()), ..tmux.place() };
        let made = NodeSpec { backend, place, ..tmux.spec("c", &[&program]) };
        forked_beside(&tmux.stage, made).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_node_in_the_fake_wezterm_is_a_pane_beside_it() {
    let scene = Scene::new();
    let program = claude(&scene.stage);
    for backend in [BackendKind::Wezterm, BackendKind::ClaudeWezterm] {
        forked_beside(&scene.stage, NodeSpec { backend, ..scene.spec("c", &[&program]) }).await;
    }
}

/// An agent that somebody has started in a pane of theirs: its fork gets a pane of its own, and works in the same folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_an_agent_that_was_there_before_works_where_it_works() {
    let Some(tmux) = Tmux::new("a_fork_of_an_agent_that_was_there") else { return };
    let (home, program) = (tmux.stage.folder.path().display().to_string(), claude(&tmux.stage));
    let words = ["env", &format!("HOME={home}"), &program, "--session-id", A];
    let pane = tmux.pane("theirs", &shell_words::join(words));
    let path = format!("{home}:{}", std::env::var("PATH").unwrap());
    let mut made = NodeSpec { backend: BackendKind::ClaudeTmux, ..tmux.over("c", &pane) };
    (made.profile, made.cwd, made.agent_session) = (None, None, Some(A.into()));
    made.env.insert("PATH".into(), path);
    create(&tmux.stage, made).await.unwrap();
    tmux.stage.ask("c", "one").await;
    let forked = fork(&tmux.stage, "c", "d").await.unwrap();
    let folder = tmux.ask(&pane, "#{pane_current_path}");
    assert_eq!(forked.metadata["cwd"], folder);
    assert_eq!(recalled(&tmux.stage, "d").await, "one");
    // tmux asks the program that has the terminal: there has to be one first.
    assert_eq!(tmux.ask(&forked.metadata["pane_id"], "#{pane_current_path}"), folder);
    tmux.stop("d").await;
    tmux.stop("c").await;
    assert_eq!(tmux.ask(&pane, "#{pane_dead}"), "0", "it was there before us");
}
