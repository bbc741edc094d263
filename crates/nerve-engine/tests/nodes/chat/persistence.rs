//! Conversations across forks, files and server restarts; and invalid specs.

use std::collections::BTreeMap;

use nerve_api::event::EventKind;
use nerve_api::request::{ForkNode, NodeSpec};
use nerve_api::value::NodeState;
use nerve_engine::{Engine, EngineConfig};
use nerve_graph::session::Session;
use nerve_node::Node;
use nerve_node::chat::{ChatSettings, Provider};
use nerve_node::error::ErrorKind;
use nerve_node::factory::FactoryConfig;
use nerve_testkit::harness::{assert_error, node_ref};
use nerve_testkit::mock_model::{MockModel, Script};

use super::{ChatHarness, KEY, chat, context, spec, standalone_node};
use crate::harness::Harness;

#[tokio::test]
async fn forks_diverge() {
    for provider in Provider::ALL {
        let model = MockModel::start(Script::default()).await;
        let session = Session::new("s");
        let one = standalone_node(chat(provider, &model));
        one.execute(&context(&session, "together").0.turn).await.unwrap();
        let two = one.fork(&node_ref("two")).unwrap().await.unwrap();
        assert_eq!((two.id(), two.kind(), two.is_persistent()), ("two", "chat", true));
        one.execute(&context(&session, "left").0.turn).await.unwrap();
        two.execute(&context(&session, "right").0.turn).await.unwrap();
        let (one, two) = (one.read(None).await.unwrap(), two.read(None).await.unwrap());
        let shared = "user: together\nassistant: You said: together\n";
        assert_eq!(one, format!("{shared}user: left\nassistant: You said: left"));
        assert_eq!(two, format!("{shared}user: right\nassistant: You said: right"));
        let sent = model.requests()[2].body["messages"].to_string();
        assert!(sent.contains("together") && sent.contains("right") && !sent.contains("left"));
    }
}

#[tokio::test]
async fn conversation_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.json");
    let model = MockModel::start(Script::default()).await;
    let session = Session::new("s");
    let one = standalone_node(chat(Provider::Anthropic, &model));
    one.execute(&context(&session, "remember").0.turn).await.unwrap();
    one.save(&path).await.unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains(KEY));
    // Another provider can load the same file.
    let two = standalone_node(chat(Provider::Openai, &model));
    two.load(&path).await.unwrap();
    two.execute(&context(&session, "continue").0.turn).await.unwrap();
    assert!(model.requests()[1].body["messages"].to_string().contains("You said: remember"));
    std::fs::write(&path, "{}").unwrap();
    let before = two.messages();
    assert_eq!(two.load(&path).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(two.messages(), before);
    assert!(two.reset().await.unwrap(), "the conversation is forgotten");
    assert!(two.messages().is_empty());
}

#[tokio::test]
async fn kept_conversation_resumes_in_the_next_node() {
    let mut harness =
        ChatHarness::with(Provider::Openai, Script::default(), |chat| chat.keep = Some("talk.json".into()))
            .await;
    harness.nodes.ask("c", "remember").await;
    harness.nodes.stop("c").await;
    let chat = ChatSettings { keep: Some("talk.json".into()), ..chat(Provider::Openai, &harness.model) };
    harness.create(chat.clone()).await.unwrap();
    harness.nodes.ask("c", "continue").await;
    assert!(harness.sent_messages(1).to_string().contains("You said: remember"));
    // A foreign file is not overwritten.
    harness.nodes.stop("c").await;
    let path = harness.nodes.folder.path().join("talk.json");
    std::fs::write(&path, "my notes").unwrap();
    let error = harness.create(chat.clone()).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[&path.display().to_string()]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
    // An unwritable file is reported; the turn still succeeds.
    let unwritable = ChatSettings { keep: Some("no/folder/talk.json".into()), ..chat };
    harness.create(unwritable).await.unwrap();
    harness.nodes.ask("c", "hello").await;
    let event = harness.nodes.wait_for_event(|event| matches!(event, EventKind::Error { .. })).await;
    assert!(format!("{event:?}").contains("cannot write"), "{event:?}");
}

fn engine(harness: &Harness) -> Engine {
    let folder = harness.folder.path();
    Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "again".into(),
            history_dir: Some(folder.join("h")),
            ..FactoryConfig::default()
        },
        sessions_file: Some(folder.join("sessions.json")),
        ..EngineConfig::default()
    })
}

#[tokio::test]
async fn restarted_server_keeps_spec_but_not_messages() {
    let harness = Harness::new();
    let model = MockModel::start(Script::default()).await;
    let spec_with_system =
        ChatSettings { system: Some("Be brief.".into()), ..chat(Provider::Openai, &model) };
    let first = engine(&harness);
    first.create(spec(&harness, "c", spec_with_system.clone())).await.unwrap();
    first.run_turn(harness.execute("c", "remember"), Default::default()).await.unwrap();
    first.shut_down(true).await;
    let saved = std::fs::read_to_string(harness.folder.path().join("sessions.json")).unwrap();
    assert!(
        saved.contains("Be brief.") && saved.contains("OPENAI_API_KEY") && !saved.contains(KEY),
        "{saved}"
    );

    let mut second = Harness::new();
    second.engine = engine(&harness);
    assert_eq!(
        second.wait("c", NodeState::Created).await.err().map(|error| error.kind),
        Some(ErrorKind::NotFound)
    );
    // The key is not saved.
    let error = second.engine.start_node(node_ref("c").into(), Default::default()).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["OPENAI_API_KEY"]);
    let recreated = NodeSpec { ..spec(&harness, "c", spec_with_system) };
    second.engine.create(recreated).await.unwrap();
    second.ask("c", "hello").await;
    assert!(!model.requests()[1].body.to_string().contains("remember"));
}

#[tokio::test]
async fn invalid_specs_are_rejected() {
    let harness = Harness::new();
    let model = MockModel::start(Script::default()).await;
    let valid = || spec(&harness, "c", chat(Provider::Anthropic, &model));
    let spec_of = |chat: ChatSettings| spec(&harness, "c", chat);
    let no_key = NodeSpec {
        env: BTreeMap::new(),
        ..spec_of(ChatSettings {
            api_key_env: Some("NERVE_TEST_NO_SUCH_KEY".into()),
            ..chat(Provider::Openai, &model)
        })
    };
    let invalid_key =
        NodeSpec { env: BTreeMap::from([("ANTHROPIC_API_KEY".to_string(), "a\nb".to_string())]), ..valid() };
    let empty_key =
        NodeSpec { env: BTreeMap::from([("ANTHROPIC_API_KEY".to_string(), " ".to_string())]), ..valid() };
    for (spec, expected) in [
        (NodeSpec { chat: None, ..valid() }, "a chat node needs a model (add"),
        (no_key, "no API key: the variable NERVE_TEST_NO_SUCH_KEY is not set (set NERVE_TEST_NO_SUCH_KEY"),
        (invalid_key, "ANTHROPIC_API_KEY is not a valid key"),
        (empty_key, "the variable ANTHROPIC_API_KEY is not set"),
        (
            spec_of(ChatSettings {
                base_url: Some("nonsense".into()),
                ..ChatSettings::new(Provider::Openai, "m")
            }),
            "chat.base_url",
        ),
        (NodeSpec { cwd: Some("/no/such/folder".into()), ..valid() }, "/no/such/folder"),
    ] {
        let error = harness.engine.create(spec).await.unwrap_err().to_string();
        assert!(error.starts_with("node 'c' was not started: ") && error.contains(expected), "{error}");
    }
    assert!(!harness.folder.path().join("history").exists(), "a rejected node has a history");
    let local = ChatSettings { api_key_env: Some(String::new()), ..chat(Provider::Openai, &model) };
    let keyless = NodeSpec { env: BTreeMap::new(), ..spec_of(local) };
    harness.engine.create(keyless).await.unwrap();
    assert_eq!(harness.ask("c", "hello").await.text, "You said: hello");
}

#[tokio::test]
async fn forked_node_is_independent() {
    let mut harness = ChatHarness::with(Provider::Anthropic, Script::default(), |chat| {
        chat.keep = Some("talk.json".into())
    })
    .await;
    harness.nodes.ask("c", "together").await;
    let engine = harness.nodes.engine.clone();
    let fork = |target: &str, at| {
        let request = ForkNode { source_id: "c".into(), target_id: target.into(), at, session_id: None };
        engine.fork_node(request, Default::default())
    };
    let forked = fork("d", None).await.unwrap();
    assert_eq!((forked.node_id.as_str(), forked.forked_from.as_str()), ("d", "c"));
    let info = engine.node_info(&node_ref("d")).unwrap();
    assert_eq!(info.kind, "chat");
    assert!(!info.metadata.contains_key("keep"), "two nodes share one file");
    let event = harness
        .nodes
        .wait_for_event(|event| matches!(event, EventKind::NodeCreated { forked_from: Some(_), .. }))
        .await;
    assert!(format!("{event:?}").contains(r#"forked_from: Some("c")"#), "{event:?}");
    harness.nodes.ask("d", "right").await;
    harness.nodes.ask("c", "left").await;
    let (left, right) = (harness.text().await, harness.nodes.buffer("d", None).await);
    assert!(left.contains("together") && left.contains("left") && !left.contains("right"), "{left}");
    assert!(right.contains("together") && right.contains("right") && !right.contains("left"), "{right}");
    assert!(harness.nodes.history("d").await[0].contains("right"), "the fork has no log");
    let saved = std::fs::read_to_string(harness.nodes.folder.path().join("talk.json")).unwrap();
    assert!(!saved.contains("right"));
    assert_eq!(fork("e", Some(1)).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(fork("c", None).await.unwrap_err().kind, ErrorKind::AlreadyExists);
}
