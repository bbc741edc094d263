//! Agents that have reached a usage limit.

use nerve_api::event::EventKind;
use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::node_ref;

use crate::harness::Harness;

/// Imitates the screen of Codex after a usage limit, and reads no input.
const LIMITED_AGENT: &str = "stty raw -echo; printf '\
    \\r\\n■ You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit the settings\
    \\r\\nto purchase more credits or try again in 2 hours 5 minutes.\
    \\r\\n\\r\\n› Ask Codex to do anything\\r\\n\\r\\n  model\\033[2A\\033[3G'; exec sleep 600";

#[tokio::test]
async fn usage_limit_suspends_the_node_until_interrupt() {
    let mut harness = Harness::new();
    let mut spec = harness.spec("m", &["sh", "-c", LIMITED_AGENT]);
    spec.profile = Some("codex".into());
    harness.engine.create(spec).await.unwrap();
    harness.wait("m", NodeState::Suspended).await.unwrap();
    let event = harness.wait_for_event(|kind| matches!(kind, EventKind::NodeSuspended { .. })).await;
    assert!(matches!(event, EventKind::NodeSuspended { until_at: Some(_), .. }), "{event:?}");

    let refused = harness.send("m", "must not be typed").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Blocked);
    assert!(refused.choices.is_empty() && refused.screen.is_some(), "{refused:?}");
    let until = harness.engine.node_info(&node_ref("m")).unwrap().metadata.text("until_at").to_string();
    let expected = format!("suspended until {until}: ■ You’ve hit your usage limit.");
    assert!(refused.message.contains(&expected), "{refused:?}");
    assert!(!harness.buffer("m", None).await.contains("must not be typed"));

    harness.engine.send_interrupt(node_ref("m").into(), Default::default()).await.unwrap();
    harness.wait("m", NodeState::Ready).await.unwrap();
    harness.stop("m").await;
}
