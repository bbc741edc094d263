//! What was said before, told to the real Claude Code: it arrives as one prompt, and is not told again.

use nerve_core::command::{Background, Command, Execute, Reply, StateName};
use nerve_core::conversation::{Conversation, ConversationId, Message, Role};
use nerve_testkit::Renderer;

use crate::{Stage, TURN};

async fn a_history_is_one_prompt(renderer: Renderer) {
    let Some(stage) = Stage::start(renderer, |_, _| ()).await else { return };
    stage.wait(StateName::Ready).await;
    let history = vec![
        Message::new(Role::User, "My name is Alice", 1),
        Message::new(Role::Assistant, "Hi there!\n\n* one\n* two", 2),
    ];
    let talk = |text: &str, history: Vec<Message>| Execute {
        timeout: Some(TURN),
        conversation: Some(Conversation {
            id: Some(ConversationId::new("work", "c")),
            history,
            ..Conversation::default()
        }),
        ..Execute::new(stage.node.clone(), text)
    };
    let asked = stage.engine.execute(Command::ExecuteInput(talk("What is my name?", history))).await.unwrap();
    let Reply::Response(told) = asked else { panic!("{asked:?}") };
    assert!(told.is_complete && told.source == "transcript", "{told:?}");
    assert!(
        told.text.contains("User: My name is Alice") && told.text.contains("What is my name?"),
        "{told:?}"
    );
    assert!(stage.prompts().contains("Assistant: Hi there!"), "{}", stage.prompts());
    let later = Execute { background: Some(Background::default()), ..talk("and now", Vec::new()) };
    let Reply::Accepted { result, .. } = stage.engine.execute(Command::ExecuteInput(later)).await.unwrap()
    else {
        panic!("not accepted")
    };
    let wait = Command::GetResult { result, wait: true, timeout: Some(TURN) };
    let Reply::Result(record) = stage.engine.execute(wait).await.unwrap() else { panic!("no result") };
    let response = record.response.as_ref().unwrap_or_else(|| panic!("{record:#?}"));
    assert_eq!(response["text"], "You said: and now");
}

#[tokio::test]
async fn a_history_is_one_prompt_of_the_classic_renderer() {
    a_history_is_one_prompt(Renderer::Classic).await;
}

#[tokio::test]
async fn a_history_is_one_prompt_of_the_full_screen_renderer() {
    a_history_is_one_prompt(Renderer::FullScreen).await;
}
