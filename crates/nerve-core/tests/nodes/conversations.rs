//! What was said before: told, kept, and never run as a command.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nerve_api::request::{ConversationMessage, ConversationOptions, ExecuteInput};
use nerve_core::command::{BackendKind, EventKind, Response};
use nerve_core::conversation::{Conversation, ConversationId, Message, Role, UseContext};
use nerve_core::error::{EngineError, ErrorKind};
use serde_json::{Value, json};

use crate::harness::Stage;

const WARNINGS: &str = Response::WARNINGS;

fn chat(name: &str) -> ConversationId {
    ConversationId::new("work", name)
}

fn in_chat(name: &str) -> Conversation {
    Conversation { id: Some(chat(name)), ..Conversation::default() }
}

fn alice() -> Vec<Message> {
    vec![Message::new(Role::User, "My name is Alice", 1), Message::new(Role::Assistant, "Hi there!", 2)]
}

/// A conversation as a request has it.
pub(crate) fn options(conversation: Conversation) -> ConversationOptions {
    let Conversation { id, history, context } = conversation;
    let (workspace, chat) = id.map(|id| (id.workspace, id.chat)).unzip();
    let message = |message: Message| ConversationMessage {
        role: message.role.as_str().to_string(),
        content: message.content,
        timestamp: message.timestamp,
    };
    let history = history.into_iter().map(message).collect();
    ConversationOptions { workspace, chat, history, context: Some(context.as_str().to_string()) }
}

impl Stage {
    pub(crate) fn talk(&self, node: &str, text: &str, conversation: Conversation) -> ExecuteInput {
        ExecuteInput { conversation: Some(options(conversation)), ..self.execute(node, text) }
    }

    async fn say(&self, node: &str, text: &str, conversation: Conversation) -> Response {
        self.try_say(node, text, conversation).await.unwrap()
    }

    async fn try_say(&self, node: &str, text: &str, talk: Conversation) -> Result<Response, EngineError> {
        self.run(self.talk(node, text, talk)).await
    }

    pub(crate) fn chat_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("conversations/work").join(format!("{name}.json"))
    }

    /// Role and content of what is kept of a chat.
    pub(crate) fn kept(&self, name: &str) -> Vec<(String, String)> {
        let Ok(bytes) = fs::read(self.chat_file(name)) else { return Vec::new() };
        let messages: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_string();
        messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
    }

    fn write_chat(&self, name: &str, content: &str) {
        let file = self.chat_file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    pub(crate) async fn start_bash(&self, node: &str) {
        let mut spec = self.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.engine.create(spec).await.unwrap();
    }
}

/// Seed conversation-history-async, test 1: the history is told, on the path on which the caller waits.
#[tokio::test]
async fn a_history_is_told_once_and_not_kept() {
    let stage = Stage::new();
    stage.start_mock("m", &[]).await;
    let told = Conversation { history: alice(), ..in_chat("c") };
    let answer = stage.say("m", "What is my name?", told).await;
    assert!(answer.text.contains("# Previous conversation context:"), "{}", answer.text);
    assert!(answer.text.contains("My name is Alice") && answer.text.contains("Assistant: Hi there!"));
    let kept = stage.kept("c");
    assert_eq!(kept[0], ("user".to_string(), "What is my name?".to_string()));
    assert_eq!((kept.len(), kept[1].1.contains("Alice")), (2, true));
    // A history alone, without a chat; and with 'never' not at all.
    let alone = Conversation { history: alice(), ..Conversation::default() };
    assert!(stage.say("m", "And now?", alone.clone()).await.text.contains("My name is Alice"));
    let never = Conversation { context: UseContext::Never, ..alone };
    assert_eq!(stage.say("m", "Not any more?", never).await.text, "You said: Not any more?");
    assert_eq!(stage.kept("c").len(), 2);
    stage.stop("m").await;
}

/// Seed, test 2, and what it leaves open: an agent that was there is not told again, one that was not is told all it missed.
#[tokio::test]
async fn who_was_there_is_not_told_again() {
    let stage = Stage::new();
    stage.start_mock("a", &[]).await;
    stage.start_mock("b", &[]).await;
    assert_eq!(stage.say("a", "first words", in_chat("c")).await.text, "You said: first words");
    assert_eq!(stage.say("a", "second words", in_chat("c")).await.text, "You said: second words");
    assert_eq!(stage.kept("c").len(), 4);
    // b knows nothing of it.
    let caught_up = stage.say("b", "third words", in_chat("c")).await.text;
    assert!(
        caught_up.contains("User: first words") && caught_up.contains("Assistant: You said: second words")
    );
    assert_eq!(stage.say("b", "fourth words", in_chat("c")).await.text, "You said: fourth words");
    // a is told what b was asked, and nothing of its own.
    let missed = stage.say("a", "fifth words", in_chat("c")).await.text;
    let begins = "You said:\n# Previous conversation context:\nUser: third words\nAssistant: You said:";
    assert!(missed.starts_with(begins) && missed.contains("User: fourth words"), "{missed}");
    // Another chat is another one; back in the first, nothing is told again.
    assert_eq!(stage.say("a", "elsewhere", in_chat("other")).await.text, "You said: elsewhere");
    assert_eq!(stage.say("a", "sixth words", in_chat("c")).await.text, "You said: sixth words");
    let all = Conversation { context: UseContext::Always, ..in_chat("c") };
    assert!(stage.say("a", "seventh words", all).await.text.contains("User: first words"));
    // Its program is another one: it has to be told.
    stage.stop("a").await;
    stage.start_mock("a", &[]).await;
    assert!(stage.say("a", "eighth words", in_chat("c")).await.text.contains("User: first words"));
    stage.stop("a").await;
    stage.stop("b").await;
}

/// What an agent said must not be run by a shell.
#[tokio::test]
async fn a_shell_is_never_told_anything() {
    let stage = Stage::new();
    stage.start("sh", &["bash", "--norc", "--noprofile"]).await;
    stage.start_bash("b").await;
    let canary = stage.folder.path().join("canary");
    let evil = format!("x\ntouch {}\n", canary.display());
    let said = json!([{ "role": "assistant", "content": evil, "timestamp": 1 }]).to_string();
    for node in ["sh", "b"] {
        stage.write_chat("c", &said);
        assert_eq!(stage.say(node, "echo one", in_chat("c")).await.text.trim(), "one");
        let told = Conversation { history: alice(), ..in_chat("c") };
        let answer = stage.say(node, "echo two", told).await;
        assert_eq!(answer.text.trim(), "two");
        assert!(answer.attributes[WARNINGS].contains("would run it as commands"), "{answer:?}");
        let all = Conversation { context: UseContext::Always, ..in_chat("c") };
        let error = stage.try_say(node, "echo three", all).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
        let kept = stage.kept("c");
        assert_eq!(kept.len(), 5, "{kept:?}");
        assert_eq!(kept[3], ("user".to_string(), "echo two".to_string()));
        assert!(!canary.exists());
    }
    stage.stop("sh").await;
}

/// Seed, test 3.
#[tokio::test]
async fn of_150_messages_the_last_hundred_are_kept() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let many: Vec<Value> = (0..150)
        .map(|at| json!({ "role": "user", "content": format!("Message {at}"), "timestamp": at }))
        .collect();
    stage.write_chat("c", &json!(many).to_string());
    let answer = stage.say("b", "echo last", in_chat("c")).await;
    assert!(!answer.attributes.contains_key(WARNINGS), "{answer:?}");
    let kept = stage.kept("c");
    assert_eq!(kept.len(), 100);
    assert_eq!(kept[0].1, "Message 52");
    assert_eq!((kept[98].1.as_str(), kept[99].1.trim()), ("echo last", "last"));
}

#[tokio::test]
async fn what_is_wrong_with_the_file_never_fails_the_turn_and_is_told() {
    let mut stage = Stage::new();
    stage.start_bash("b").await;
    for broken in ["{ no json", r#"{"messages":[]}"#, r#"[{"role":"system","content":"x","timestamp":1}]"#] {
        stage.write_chat("c", broken);
        let answer = stage.say("b", "echo on", in_chat("c")).await;
        assert_eq!(answer.text.trim(), "on");
        assert!(answer.attributes[WARNINGS].contains(".broken-"), "{answer:?}");
        stage
            .event(|kind| matches!(kind, EventKind::Error { message } if message.contains(".broken-")))
            .await;
        assert_eq!(stage.kept("c").len(), 2);
    }
    // A folder in the file's place; a file in the folder's.
    fs::remove_file(stage.chat_file("c")).unwrap();
    fs::create_dir(stage.chat_file("c")).unwrap();
    let answer = stage.say("b", "echo on", in_chat("c")).await;
    assert!(answer.attributes[WARNINGS].contains("it is not a file"), "{answer:?}");
    fs::remove_dir_all(stage.folder.path().join("conversations")).unwrap();
    fs::write(stage.folder.path().join("conversations"), "in the way").unwrap();
    let answer = stage.say("b", "echo on", in_chat("c")).await;
    assert_eq!(answer.text.trim(), "on");
    assert!(answer.attributes[WARNINGS].contains("was not added to"), "{answer:?}");
}

#[tokio::test]
async fn a_turn_that_failed_is_not_kept() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let failed = stage.say("b", "exit 3", in_chat("c")).await;
    assert_eq!(failed.attributes["exit_code"], "3");
    stage.start_mock("m", &[]).await;
    stage.try_say("m", "CRASH now", in_chat("c")).await.unwrap_err();
    assert!(stage.kept("c").is_empty());
}

#[tokio::test]
async fn names_that_are_none_are_refused_and_odd_ones_stay_inside() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let long = "x".repeat(513);
    for (workspace, chat) in [("", "c"), ("w", ""), (" \n", "c"), ("w", long.as_str())] {
        let id = Some(ConversationId::new(workspace, chat));
        let error =
            stage.try_say("b", "true", Conversation { id, ..Conversation::default() }).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{workspace:?} {chat:?}");
    }
    let id = Some(ConversationId::new("../../etc", "../passwd"));
    stage.say("b", "true", Conversation { id, ..Conversation::default() }).await;
    let base = stage.folder.path().join("conversations");
    let workspaces: Vec<_> = fs::read_dir(&base).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(workspaces.len(), 1);
    assert!(workspaces[0].to_string_lossy().starts_with("______etc."), "{workspaces:?}");
    assert!(!stage.folder.path().join("etc").exists());
}

#[tokio::test]
async fn a_node_has_a_conversation_of_its_own() {
    let stage = Stage::new();
    let mut spec = stage.spec("b", &[]);
    spec.backend = BackendKind::Bash;
    spec.conversation = Some(Box::new(chat("own")));
    stage.engine.create(spec).await.unwrap();
    stage.ask("b", "echo mine").await;
    assert_eq!(stage.kept("own")[0].1, "echo mine");
    stage.say("b", "echo theirs", in_chat("other")).await;
    assert_eq!((stage.kept("own").len(), stage.kept("other").len()), (2, 2));
    // The same with the session named.
    let named = Some("default".to_string());
    stage.run(ExecuteInput { session_id: named, ..stage.execute("b", "echo again") }).await.unwrap();
    assert_eq!(stage.kept("own").len(), 4);
}

/// Seed, test 4, and the requirement on time: a long conversation costs next to nothing.
#[tokio::test]
async fn a_long_conversation_takes_no_time() {
    let stage = Stage::new();
    stage.start_bash("b").await;
    let long: Vec<Value> = (0..100)
        .map(|at| json!({ "role": "user", "content": format!("{at} {}", "word ".repeat(2000)), "timestamp": at }))
        .collect();
    stage.write_chat("c", &json!(long).to_string());
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let began = Instant::now();
        stage.ask("b", "true").await;
        without.push(began.elapsed());
        let began = Instant::now();
        stage.say("b", "true", in_chat("c")).await;
        with.push(began.elapsed());
    }
    with.sort();
    without.sort();
    // The requirement is 50 ms; this is a debug build on a machine that does other things.
    let more = with[3].saturating_sub(without[3]);
    assert!(more < Duration::from_millis(250), "{with:?} {without:?}");
}
