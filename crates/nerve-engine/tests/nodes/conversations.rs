//! Conversation context: sent to agents, saved in files, and never run as a command.

use std::fs;
use std::path::PathBuf;

use nerve_api::event::EventKind;
use nerve_api::request::{ConversationMessage, ConversationOptions, ExecuteInput};
use nerve_api::value::BackendKind;
use nerve_engine::conversation::{ConversationId, ConversationRequest, Message, Role, UseContext};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use serde_json::{Value, json};

use crate::harness::Harness;

fn chat(name: &str) -> ConversationId {
    ConversationId::new("work", name)
}

fn in_chat(name: &str) -> ConversationRequest {
    ConversationRequest { id: Some(chat(name)), ..ConversationRequest::default() }
}

fn alice() -> Vec<Message> {
    vec![Message::new(Role::User, "My name is Alice", 1), Message::new(Role::Assistant, "Hi there!", 2)]
}

/// Converts a conversation to request options.
pub(crate) fn conversation_options(conversation: ConversationRequest) -> ConversationOptions {
    let ConversationRequest { id, history, context } = conversation;
    let (workspace, chat) = id.map(|id| (id.workspace, id.chat)).unzip();
    let message = |message: Message| ConversationMessage {
        role: message.role,
        content: message.content,
        timestamp: message.timestamp,
    };
    let history = history.into_iter().map(message).collect();
    ConversationOptions { workspace, chat, history, context: Some(context) }
}

impl Harness {
    pub(crate) fn execute_with(
        &self,
        node: &str,
        text: &str,
        conversation: ConversationRequest,
    ) -> ExecuteInput {
        ExecuteInput { conversation: Some(conversation_options(conversation)), ..self.execute(node, text) }
    }

    async fn ask_with(&self, node: &str, text: &str, conversation: ConversationRequest) -> Response {
        self.send_with(node, text, conversation).await.unwrap()
    }

    async fn send_with(
        &self,
        node: &str,
        text: &str,
        conversation: ConversationRequest,
    ) -> Result<Response, EngineError> {
        self.run(self.execute_with(node, text, conversation)).await
    }

    pub(crate) fn chat_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("conversations/work").join(format!("{name}.json"))
    }

    /// Returns role and content of the saved messages of a chat.
    pub(crate) fn saved_messages(&self, name: &str) -> Vec<(String, String)> {
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

#[tokio::test]
async fn caller_history_is_sent_but_not_saved() {
    let harness = Harness::new();
    harness.start_mock("m", &[]).await;
    let conversation = ConversationRequest { history: alice(), ..in_chat("c") };
    let answer = harness.ask_with("m", "What is my name?", conversation).await;
    assert!(answer.text.contains("# Previous conversation context:"), "{}", answer.text);
    assert!(answer.text.contains("My name is Alice") && answer.text.contains("Assistant: Hi there!"));
    let saved = harness.saved_messages("c");
    assert_eq!(saved[0], ("user".to_string(), "What is my name?".to_string()));
    assert_eq!((saved.len(), saved[1].1.contains("Alice")), (2, true));
    // A history without a chat is sent; with `never` nothing is sent.
    let history_only = ConversationRequest { history: alice(), ..ConversationRequest::default() };
    assert!(harness.ask_with("m", "And now?", history_only.clone()).await.text.contains("My name is Alice"));
    let without_context = ConversationRequest { context: UseContext::Never, ..history_only };
    assert_eq!(harness.ask_with("m", "Not any more?", without_context).await.text, "You said: Not any more?");
    assert_eq!(harness.saved_messages("c").len(), 2);
    harness.stop("m").await;
}

#[tokio::test]
async fn agent_receives_only_messages_it_missed() {
    let harness = Harness::new();
    harness.start_mock("a", &[]).await;
    harness.start_mock("b", &[]).await;
    assert_eq!(harness.ask_with("a", "first words", in_chat("c")).await.text, "You said: first words");
    assert_eq!(harness.ask_with("a", "second words", in_chat("c")).await.text, "You said: second words");
    assert_eq!(harness.saved_messages("c").len(), 4);
    // b has no context yet.
    let third = harness.ask_with("b", "third words", in_chat("c")).await.text;
    assert!(third.contains("User: first words") && third.contains("Assistant: You said: second words"));
    assert_eq!(harness.ask_with("b", "fourth words", in_chat("c")).await.text, "You said: fourth words");
    // a receives the turns of b, but not its own.
    let fifth = harness.ask_with("a", "fifth words", in_chat("c")).await.text;
    let expected = "You said:\n# Previous conversation context:\nUser: third words\nAssistant: You said:";
    assert!(fifth.starts_with(expected) && fifth.contains("User: fourth words"), "{fifth}");
    // Chats are separate. Returning to the first chat sends nothing again.
    assert_eq!(harness.ask_with("a", "elsewhere", in_chat("other")).await.text, "You said: elsewhere");
    assert_eq!(harness.ask_with("a", "sixth words", in_chat("c")).await.text, "You said: sixth words");
    let always = ConversationRequest { context: UseContext::Always, ..in_chat("c") };
    assert!(harness.ask_with("a", "seventh words", always).await.text.contains("User: first words"));
    // A restarted program has lost its context.
    harness.stop("a").await;
    harness.start_mock("a", &[]).await;
    assert!(harness.ask_with("a", "eighth words", in_chat("c")).await.text.contains("User: first words"));
    harness.stop("a").await;
    harness.stop("b").await;
}

/// A shell would run the output of an agent as commands.
#[tokio::test]
async fn shells_receive_no_context() {
    let harness = Harness::new();
    harness.start("sh", &["bash", "--norc", "--noprofile"]).await;
    harness.start_bash("b").await;
    let canary = harness.folder.path().join("canary");
    let injection = format!("x\ntouch {}\n", canary.display());
    let messages = json!([{ "role": "assistant", "content": injection, "timestamp": 1 }]).to_string();
    for node in ["sh", "b"] {
        harness.write_chat("c", &messages);
        assert_eq!(harness.ask_with(node, "echo one", in_chat("c")).await.text.trim(), "one");
        let conversation = ConversationRequest { history: alice(), ..in_chat("c") };
        let answer = harness.ask_with(node, "echo two", conversation).await;
        assert_eq!(answer.text.trim(), "two");
        assert!(answer.warnings[0].contains("would run it as commands"), "{answer:?}");
        let always = ConversationRequest { context: UseContext::Always, ..in_chat("c") };
        let error = harness.send_with(node, "echo three", always).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error}");
        let saved = harness.saved_messages("c");
        assert_eq!(saved.len(), 5, "{saved:?}");
        assert_eq!(saved[3], ("user".to_string(), "echo two".to_string()));
        assert!(!canary.exists());
    }
    harness.stop("sh").await;
}

#[tokio::test]
async fn last_hundred_messages_are_kept() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let messages: Vec<Value> = (0..150)
        .map(|at| json!({ "role": "user", "content": format!("Message {at}"), "timestamp": at }))
        .collect();
    harness.write_chat("c", &json!(messages).to_string());
    let answer = harness.ask_with("b", "echo last", in_chat("c")).await;
    assert!(answer.warnings.is_empty(), "{answer:?}");
    let saved = harness.saved_messages("c");
    assert_eq!(saved.len(), 100);
    assert_eq!(saved[0].1, "Message 52");
    assert_eq!((saved[98].1.as_str(), saved[99].1.trim()), ("echo last", "last"));
}

#[tokio::test]
async fn invalid_chat_file_is_a_warning() {
    let mut harness = Harness::new();
    harness.start_bash("b").await;
    for invalid in ["{ no json", r#"{"messages":[]}"#, r#"[{"role":"system","content":"x","timestamp":1}]"#] {
        harness.write_chat("c", invalid);
        let answer = harness.ask_with("b", "echo on", in_chat("c")).await;
        assert_eq!(answer.text.trim(), "on");
        assert!(answer.warnings[0].contains(".broken-"), "{answer:?}");
        harness
            .wait_for_event(
                |kind| matches!(kind, EventKind::Error { message, .. } if message.contains(".broken-")),
            )
            .await;
        assert_eq!(harness.saved_messages("c").len(), 2);
    }
    // A directory in place of the file, then a file in place of the directory.
    fs::remove_file(harness.chat_file("c")).unwrap();
    fs::create_dir(harness.chat_file("c")).unwrap();
    let answer = harness.ask_with("b", "echo on", in_chat("c")).await;
    assert!(answer.warnings[0].contains("it is not a file"), "{answer:?}");
    fs::remove_dir_all(harness.folder.path().join("conversations")).unwrap();
    fs::write(harness.folder.path().join("conversations"), "in the way").unwrap();
    let answer = harness.ask_with("b", "echo on", in_chat("c")).await;
    assert_eq!(answer.text.trim(), "on");
    assert!(answer.warnings[1].contains("was not added to"), "{answer:?}");
}

#[tokio::test]
async fn failed_turn_is_not_saved() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let failed = harness.ask_with("b", "exit 3", in_chat("c")).await;
    assert_eq!(failed.attributes["exit_code"], 3);
    harness.start_mock("m", &[]).await;
    harness.send_with("m", "CRASH now", in_chat("c")).await.unwrap_err();
    assert!(harness.saved_messages("c").is_empty());
}

#[tokio::test]
async fn chat_names_are_validated_and_escaped() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let long = "x".repeat(513);
    for (workspace, chat) in [("", "c"), ("w", ""), (" \n", "c"), ("w", long.as_str())] {
        let id = Some(ConversationId::new(workspace, chat));
        let error = harness
            .send_with("b", "true", ConversationRequest { id, ..ConversationRequest::default() })
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{workspace:?} {chat:?}");
    }
    let id = Some(ConversationId::new("../../etc", "../passwd"));
    harness.ask_with("b", "true", ConversationRequest { id, ..ConversationRequest::default() }).await;
    let root = harness.folder.path().join("conversations");
    let workspaces: Vec<_> = fs::read_dir(&root).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(workspaces.len(), 1);
    assert!(workspaces[0].to_string_lossy().starts_with("______etc."), "{workspaces:?}");
    assert!(!harness.folder.path().join("etc").exists());
}

#[tokio::test]
async fn node_can_have_a_default_conversation() {
    let harness = Harness::new();
    let mut spec = harness.spec("b", &[]);
    spec.backend = BackendKind::Bash;
    spec.conversation = Some(ConversationOptions { context: None, ..conversation_options(in_chat("own")) });
    harness.engine.create(spec).await.unwrap();
    harness.ask("b", "echo mine").await;
    assert_eq!(harness.saved_messages("own")[0].1, "echo mine");
    harness.ask_with("b", "echo theirs", in_chat("other")).await;
    assert_eq!((harness.saved_messages("own").len(), harness.saved_messages("other").len()), (2, 2));
    // Also if the request names the session.
    let session = Some("default".to_string());
    harness.run(ExecuteInput { session_id: session, ..harness.execute("b", "echo again") }).await.unwrap();
    assert_eq!(harness.saved_messages("own").len(), 4);
}

#[tokio::test]
async fn long_conversation_is_continued() {
    let harness = Harness::new();
    harness.start_bash("b").await;
    let long: Vec<Value> = (0..100)
        .map(|at| json!({ "role": "user", "content": format!("{at} {}", "word ".repeat(2000)), "timestamp": at }))
        .collect();
    harness.write_chat("c", &json!(long).to_string());
    let prompt = "echo $((6 * 7))";
    assert_eq!(harness.ask_with("b", prompt, in_chat("c")).await.text, "42");
    assert_eq!(harness.saved_messages("c").last().unwrap().1, "42");
}
