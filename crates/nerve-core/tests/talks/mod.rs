//! What was said before, told to the real Claude Code: it arrives as one prompt, and is not told again.

use nerve_api::reply::ExecuteReply;
use nerve_api::request::{ConversationMessage, ConversationOptions, ExecuteInput, GetResult};
use nerve_core::command::StateName;
use nerve_testkit::Renderer;

use crate::{Stage, TURN};

async fn a_history_is_one_prompt(renderer: Renderer) {
    let Some(stage) = Stage::start(renderer, |_, _| ()).await else { return };
    stage.wait(StateName::Ready).await;
    let message = |role: &str, content: &str, timestamp| ConversationMessage {
        role: role.into(),
        content: content.into(),
        timestamp,
    };
    let history =
        vec![message("user", "My name is Alice", 1), message("assistant", "Hi there!\n\n* one\n* two", 2)];
    let talk = |text: &str, history| ExecuteInput {
        timeout: Some(TURN.into()),
        conversation: Some(ConversationOptions {
            workspace: Some("work".into()),
            chat: Some("c".into()),
            history,
            context: None,
        }),
        ..ExecuteInput::new(&*stage.node.node, text)
    };
    let told = stage.engine.run_turn(talk("What is my name?", history), Default::default()).await.unwrap();
    assert!(told.is_complete && told.source == "transcript", "{told:?}");
    assert!(
        told.text.contains("User: My name is Alice") && told.text.contains("What is my name?"),
        "{told:?}"
    );
    assert!(stage.prompts().contains("Assistant: Hi there!"), "{}", stage.prompts());
    let later = ExecuteInput { is_async: true, ..talk("and now", Vec::new()) };
    let ExecuteReply::Accepted(accepted) =
        stage.engine.execute_input(later, Default::default()).await.unwrap()
    else {
        panic!("not accepted")
    };
    let wait = GetResult { result_id: accepted.result_id, wait: true, timeout: Some(TURN.into()) };
    let result = stage.engine.get_result(wait, Default::default()).await.unwrap();
    let response = result.response.as_ref().unwrap_or_else(|| panic!("{result:#?}"));
    assert_eq!(response.text, "You said: and now");
}

#[tokio::test]
async fn a_history_is_one_prompt_of_the_classic_renderer() {
    a_history_is_one_prompt(Renderer::Classic).await;
}

#[tokio::test]
async fn a_history_is_one_prompt_of_the_full_screen_renderer() {
    a_history_is_one_prompt(Renderer::FullScreen).await;
}
