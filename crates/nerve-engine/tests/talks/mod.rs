//! Conversation history with the real Claude Code: it is sent once, as part of one prompt.

use nerve_api::reply::ExecuteReply;
use nerve_api::request::{ConversationMessage, ConversationOptions, ExecuteInput, GetResult};
use nerve_api::value::{NodeState, Role};
use nerve_testkit::Renderer;

use crate::{Harness, NODE, TURN};

async fn history_is_one_prompt(renderer: Renderer) {
    let Some(harness) = Harness::start(renderer, |_, _| ()).await else { return };
    harness.wait(NodeState::Ready).await;
    let message =
        |role, content: &str, timestamp| ConversationMessage { role, content: content.into(), timestamp };
    let history = vec![
        message(Role::User, "My name is Alice", 1),
        message(Role::Assistant, "Hi there!\n\n* one\n* two", 2),
    ];
    let execute_with = |text: &str, history| ExecuteInput {
        conversation: Some(ConversationOptions {
            workspace: Some("work".into()),
            chat: Some("c".into()),
            history,
            context: None,
        }),
        ..harness.nodes.execute(NODE, text)
    };
    let response = harness.nodes.run(execute_with("What is my name?", history)).await.unwrap();
    assert!(response.is_complete && response.source.as_str() == "transcript", "{response:?}");
    assert!(
        response.text.contains("User: My name is Alice") && response.text.contains("What is my name?"),
        "{response:?}"
    );
    assert!(harness.request_texts().contains("Assistant: Hi there!"), "{}", harness.request_texts());
    let asynchronous = ExecuteInput { is_async: true, ..execute_with("and now", Vec::new()) };
    let ExecuteReply::Accepted(accepted) =
        harness.nodes.engine.execute_input(asynchronous, Default::default()).await.unwrap()
    else {
        panic!("not accepted")
    };
    let wait = GetResult { result_id: accepted.result_id, wait: true, timeout: Some(TURN.into()) };
    let result = harness.nodes.engine.get_result(wait, Default::default()).await.unwrap();
    let response = result.response.as_ref().unwrap_or_else(|| panic!("{result:#?}"));
    assert_eq!(response.text, "You said: and now");
}

#[tokio::test]
async fn history_is_one_prompt_in_classic_renderer() {
    history_is_one_prompt(Renderer::Classic).await;
}

#[tokio::test]
async fn history_is_one_prompt_in_full_screen_renderer() {
    history_is_one_prompt(Renderer::FullScreen).await;
}
