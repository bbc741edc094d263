//! A node whose agent has hit a usage limit.

use nerve_core::command::{EventKind, StateName};
use nerve_core::error::ErrorKind;

use crate::harness::{Stage, at};

/// Draws itself as Codex does after a refusal, and takes no input.
const LIMITED: &str = "stty raw -echo; printf '\
    \\r\\n■ You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit the settings\
    \\r\\nto purchase more credits or try again in 2 hours 5 minutes.\
    \\r\\n\\r\\n› Ask Codex to do anything\\r\\n\\r\\n  model\\033[2A\\033[3G'; exec sleep 600";

#[tokio::test]
async fn a_usage_limit_suspends_a_node_until_the_time_it_names_or_an_interrupt() {
    let mut stage = Stage::new();
    let mut spec = stage.spec("m", &["sh", "-c", LIMITED]);
    spec.profile = Some("codex".into());
    stage.engine.create(spec).await.unwrap();
    stage.wait("m", StateName::Suspended).await.unwrap();
    let told = stage.event(|kind| matches!(kind, EventKind::NodeSuspended { .. })).await;
    assert!(matches!(told, EventKind::NodeSuspended { until: Some(_), .. }), "{told:?}");

    let refused = stage.send("m", "must not be typed").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Blocked);
    assert!(refused.choices.is_empty() && refused.screen.is_some(), "{refused:?}");
    let until = stage.engine.node_info(&at("m")).unwrap().metadata["until"].clone();
    let said = format!("suspended until {until}: ■ You’ve hit your usage limit.");
    assert!(refused.message.contains(&said), "{refused:?}");
    assert!(!stage.buffer("m", None).await.contains("must not be typed"));

    stage.engine.send_interrupt(at("m").into(), Default::default()).await.unwrap();
    stage.wait("m", StateName::Ready).await.unwrap();
    stage.stop("m").await;
}
