//! Activity events of nodes: statuses and dialogs.

use nerve_api::event::EventKind;
use nerve_api::value::NodeState;
use nerve_record::activity::{Activity, Level, Status};

use crate::harness::Harness;

/// Collects activities until the node has stopped.
async fn collect_until_stopped(harness: &mut Harness) -> Vec<Activity> {
    let mut activities = Vec::new();
    loop {
        let kind =
            |kind: &EventKind| matches!(kind, EventKind::NodeActivity(_) | EventKind::NodeStopped { .. });
        match harness.wait_for_event(kind).await {
            EventKind::NodeActivity(activity) => activities.push(*activity),
            _ => return activities,
        }
    }
}

fn statuses(activities: &[Activity]) -> Vec<Status> {
    let status = |activity: &Activity| match activity {
        Activity::Status { status, .. } => Some(*status),
        _ => None,
    };
    activities.iter().filter_map(status).collect()
}

#[tokio::test]
async fn shell_reports_running_paused_and_completed() {
    let mut harness = Harness::new();
    harness.start("sh", &["bash", "--norc"]).await;
    harness.wait("sh", NodeState::Ready).await.unwrap();
    harness.ask("sh", "echo hello").await;
    harness.send("sh", "exit").await.unwrap_err();
    let reported = statuses(&collect_until_stopped(&mut harness).await);
    let [Status::Provisioning, Status::Paused, middle @ .., Status::Running, Status::Completed] =
        &reported[..]
    else {
        panic!("{reported:?}")
    };
    assert!(middle.starts_with(&[Status::Running]), "{reported:?}");
    assert!(reported.windows(2).all(|pair| pair[0] != pair[1]), "repeated status: {reported:?}");
}

#[tokio::test]
async fn exit_codes_are_failures_and_stops_are_cancellations() {
    let mut harness = Harness::new();
    harness.start("bad", &["sh", "-c", "exit 3"]).await;
    let reported = statuses(&collect_until_stopped(&mut harness).await);
    assert_eq!(reported.last(), Some(&Status::Failed), "{reported:?}");
    harness.start("stopped", &["bash", "--norc"]).await;
    harness.wait("stopped", NodeState::Ready).await.unwrap();
    harness.stop("stopped").await;
    let reported = statuses(&collect_until_stopped(&mut harness).await);
    let [.., Status::Paused, Status::Stopping, Status::Cancelled] = &reported[..] else {
        panic!("{reported:?}")
    };
}

#[tokio::test]
async fn dialog_is_reported_once_with_choices() {
    let mut harness = Harness::new();
    harness.start_mock("m", &[]).await;
    harness.wait("m", NodeState::Ready).await.unwrap();
    harness.send("m", "PERMIT this").await.unwrap_err();
    harness.stop("m").await;
    let activities = collect_until_stopped(&mut harness).await;
    let warnings: Vec<&String> = activities
        .iter()
        .filter_map(|activity| match activity {
            Activity::Log { level: Level::Warn, message, .. } => Some(message),
            _ => None,
        })
        .collect();
    let [warning] = &warnings[..] else { panic!("{activities:?}") };
    assert!(warning.starts_with("the agent asks (permission): 1. "), "{warning}");
}
