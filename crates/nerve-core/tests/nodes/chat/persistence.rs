//! What a conversation outlives, and what it does not: forks, files, servers. And nodes that cannot be made.

use std::collections::BTreeMap;

use nerve_api::request::ForkNode;
use nerve_core::chat::{ChatSpec, Provider};
use nerve_core::command::{EventKind, NodeSpec, StateName};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::ErrorKind;
use nerve_core::node::Node;
use nerve_core::node::factory::FactoryConfig;
use nerve_core::session::Session;
use nerve_testkit::mock_model::Script;

use super::{KEY, Talk, alone, chat, context, model, spec};
use crate::harness::{Stage, at};

#[tokio::test]
async fn forks_go_on_apart() {
    for provider in Provider::ALL {
        let model = model(Script::default()).await;
        let session = Session::new("s");
        let one = alone(chat(provider, &model));
        one.execute(&context(&session, "together").0).await.unwrap();
        let two = one.fork(&at("two")).unwrap().unwrap();
        assert_eq!((two.id(), two.kind(), two.persistent()), ("two", "chat", true));
        one.execute(&context(&session, "left").0).await.unwrap();
        two.execute(&context(&session, "right").0).await.unwrap();
        let (one, two) = (one.read(None), two.as_chat().unwrap().read(None));
        let both = "user: together\nassistant: You said: together\n";
        assert_eq!(one, format!("{both}user: left\nassistant: You said: left"));
        assert_eq!(two, format!("{both}user: right\nassistant: You said: right"));
        let sent = model.requests()[2].body["messages"].to_string();
        assert!(sent.contains("together") && sent.contains("right") && !sent.contains("left"));
    }
}

#[tokio::test]
async fn a_conversation_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.json");
    let model = model(Script::default()).await;
    let session = Session::new("s");
    let one = alone(chat(Provider::Anthropic, &model));
    one.execute(&context(&session, "remember").0).await.unwrap();
    one.save(&path).await.unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains(KEY));
    // With another API: what is kept is nobody's own.
    let two = alone(chat(Provider::Openai, &model));
    two.load(&path).await.unwrap();
    two.execute(&context(&session, "go on").0).await.unwrap();
    assert!(model.requests()[1].body["messages"].to_string().contains("You said: remember"));
    std::fs::write(&path, "{}").unwrap();
    let before = two.messages();
    assert_eq!(two.load(&path).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(two.messages(), before);
    two.reset().await.unwrap();
    assert!(two.messages().is_empty());
}

#[tokio::test]
async fn a_kept_conversation_goes_on_with_the_next_node() {
    let mut talk =
        Talk::with(Provider::Openai, Script::default(), |chat| chat.keep = Some("talk.json".into())).await;
    talk.stage.ask("c", "remember").await;
    talk.stage.stop("c").await;
    let chat = ChatSpec { keep: Some("talk.json".into()), ..chat(Provider::Openai, &talk.model) };
    talk.create(chat.clone()).await.unwrap();
    talk.stage.ask("c", "go on").await;
    assert!(talk.sent(1).to_string().contains("You said: remember"));
    // A file that is none of ours is not written over.
    talk.stage.stop("c").await;
    let path = talk.stage.folder.path().join("talk.json");
    std::fs::write(&path, "my notes").unwrap();
    let error = talk.create(chat.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("cannot read a conversation from"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
    // One that cannot be written is told, and the turn goes well.
    let nowhere = ChatSpec { keep: Some("no/folder/talk.json".into()), ..chat };
    talk.create(nowhere).await.unwrap();
    talk.stage.ask("c", "hello").await;
    let told = talk.stage.event(|event| matches!(event, EventKind::Error { .. })).await;
    assert!(format!("{told:?}").contains("cannot write"), "{told:?}");
}

fn engine(stage: &Stage) -> Engine {
    let folder = stage.folder.path();
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
async fn a_new_server_knows_the_node_and_not_what_was_said() {
    let stage = Stage::new();
    let model = model(Script::default()).await;
    let made = ChatSpec { system: Some("Be brief.".into()), ..chat(Provider::Openai, &model) };
    let first = engine(&stage);
    first.create(spec(&stage, "c", made.clone())).await.unwrap();
    first.run_turn(stage.execute("c", "remember"), Default::default()).await.unwrap();
    first.shut_down(true).await;
    let kept = std::fs::read_to_string(stage.folder.path().join("sessions.json")).unwrap();
    assert!(kept.contains("Be brief.") && kept.contains("OPENAI_API_KEY") && !kept.contains(KEY), "{kept}");

    let second = Stage { engine: engine(&stage), ..Stage::new() };
    assert_eq!(
        second.wait("c", StateName::Created).await.err().map(|error| error.kind),
        Some(ErrorKind::NotFound)
    );
    // Its key was given to it, and is not kept.
    let error = second.engine.start_node(at("c").into(), Default::default()).await.unwrap_err();
    assert!(error.message.contains("the variable OPENAI_API_KEY is not set"), "{error}");
    let again = NodeSpec { ..spec(&stage, "c", made) };
    second.engine.create(again).await.unwrap();
    second.ask("c", "hello").await;
    assert!(!model.requests()[1].body.to_string().contains("remember"));
}

#[tokio::test]
async fn what_cannot_be_made_says_why() {
    let stage = Stage::new();
    let model = model(Script::default()).await;
    let good = || spec(&stage, "c", chat(Provider::Anthropic, &model));
    let with = |chat: ChatSpec| spec(&stage, "c", chat);
    let no_key = NodeSpec {
        env: BTreeMap::new(),
        ..with(ChatSpec {
            api_key_env: Some("NERVE_TEST_NO_SUCH_KEY".into()),
            ..chat(Provider::Openai, &model)
        })
    };
    let odd_key =
        NodeSpec { env: BTreeMap::from([("ANTHROPIC_API_KEY".to_string(), "a\nb".to_string())]), ..good() };
    let empty_key =
        NodeSpec { env: BTreeMap::from([("ANTHROPIC_API_KEY".to_string(), " ".to_string())]), ..good() };
    for (spec, says) in [
        (NodeSpec { chat: None, ..good() }, "a chat node needs a model (add"),
        (no_key, "no API key: the variable NERVE_TEST_NO_SUCH_KEY is not set (set NERVE_TEST_NO_SUCH_KEY"),
        (odd_key, "ANTHROPIC_API_KEY is not a valid key"),
        (empty_key, "the variable ANTHROPIC_API_KEY is not set"),
        (
            with(ChatSpec { base_url: Some("nonsense".into()), ..ChatSpec::new(Provider::Openai, "m") }),
            "chat.base_url",
        ),
        (NodeSpec { cwd: Some("/no/such/folder".into()), ..good() }, "/no/such/folder"),
    ] {
        let error = stage.engine.create(spec).await.unwrap_err().to_string();
        assert!(error.starts_with("node 'c' was not started: ") && error.contains(says), "{error}");
    }
    assert!(!stage.folder.path().join("history").exists(), "what is not there has no history");
    let local = ChatSpec { api_key_env: Some(String::new()), ..chat(Provider::Openai, &model) };
    let keyless = NodeSpec { env: BTreeMap::new(), ..with(local) };
    stage.engine.create(keyless).await.unwrap();
    assert_eq!(stage.ask("c", "hello").await.text, "You said: hello");
}

#[tokio::test]
async fn a_fork_on_a_server_has_its_own_life() {
    let mut talk =
        Talk::with(Provider::Anthropic, Script::default(), |chat| chat.keep = Some("talk.json".into())).await;
    talk.stage.ask("c", "together").await;
    let engine = talk.stage.engine.clone();
    let fork = |target: &str, at| {
        let request = ForkNode { source_id: "c".into(), target_id: target.into(), at, session_id: None };
        engine.fork_node(request, Default::default())
    };
    let forked = fork("d", None).await.unwrap();
    assert_eq!((forked.node_id.as_str(), forked.forked_from.as_str()), ("d", "c"));
    let info = engine.node_info(&at("d")).unwrap();
    assert_eq!(info.kind, "chat");
    assert!(!info.metadata.contains_key("keep"), "two nodes in one file");
    let told =
        talk.stage.event(|event| matches!(event, EventKind::NodeCreated { forked_from: Some(_), .. })).await;
    assert!(format!("{told:?}").contains(r#"forked_from: Some("c")"#), "{told:?}");
    talk.stage.ask("d", "right").await;
    talk.stage.ask("c", "left").await;
    let (left, right) = (talk.text().await, talk.stage.buffer("d", None).await);
    assert!(left.contains("together") && left.contains("left") && !left.contains("right"), "{left}");
    assert!(right.contains("together") && right.contains("right") && !right.contains("left"), "{right}");
    assert!(talk.stage.history("d").await[0].contains("right"), "a fork keeps a log as its source does");
    let kept = std::fs::read_to_string(talk.stage.folder.path().join("talk.json")).unwrap();
    assert!(!kept.contains("right"));
    assert_eq!(fork("e", Some(1)).await.unwrap_err().kind, ErrorKind::InvalidRequest);
    assert_eq!(fork("c", None).await.unwrap_err().kind, ErrorKind::AlreadyExists);
}
