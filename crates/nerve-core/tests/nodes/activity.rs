//! What nodes are said to do: statuses, dialogs, faults.

use nerve_core::command::{EventKind, StateName};
use nerve_record::activity::{Activity, Level, Status};

use crate::harness::Stage;

/// Activities until the node is gone, which is told last.
async fn until_gone(stage: &mut Stage) -> Vec<Activity> {
    let mut told = Vec::new();
    loop {
        let kind = |kind: &EventKind| matches!(kind, EventKind::Activity(_) | EventKind::NodeStopped { .. });
        match stage.event(kind).await {
            EventKind::Activity(activity) => told.push(*activity),
            _ => return told,
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
async fn a_shell_runs_pauses_and_completes() {
    let mut stage = Stage::new();
    stage.start("sh", &["bash", "--norc"]).await;
    stage.wait("sh", StateName::Ready).await.unwrap();
    stage.ask("sh", "echo hello").await;
    stage.send("sh", "exit").await.unwrap_err();
    let told = statuses(&until_gone(&mut stage).await);
    let [Status::Provisioning, Status::Paused, middle @ .., Status::Running, Status::Completed] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert!(middle.starts_with(&[Status::Running]), "{told:?}");
    assert!(told.windows(2).all(|two| two[0] != two[1]), "one status is told once: {told:?}");
}

#[tokio::test]
async fn an_end_that_is_no_success_is_a_failure_and_a_stop_a_cancellation() {
    let mut stage = Stage::new();
    stage.start("bad", &["sh", "-c", "exit 3"]).await;
    let told = statuses(&until_gone(&mut stage).await);
    assert_eq!(told.last(), Some(&Status::Failed), "{told:?}");
    stage.start("stopped", &["bash", "--norc"]).await;
    stage.wait("stopped", StateName::Ready).await.unwrap();
    stage.stop("stopped").await;
    let told = statuses(&until_gone(&mut stage).await);
    let [.., Status::Paused, Status::Stopping, Status::Cancelled] = &told[..] else { panic!("{told:?}") };
}

#[tokio::test]
async fn a_dialog_is_told_with_its_choices_once() {
    let mut stage = Stage::new();
    stage.start_mock("m", &[]).await;
    stage.wait("m", StateName::Ready).await.unwrap();
    stage.send("m", "PERMIT this").await.unwrap_err();
    stage.stop("m").await;
    let told = until_gone(&mut stage).await;
    let warnings: Vec<&String> = told
        .iter()
        .filter_map(|activity| match activity {
            Activity::Log { level: Level::Warn, message, .. } => Some(message),
            _ => None,
        })
        .collect();
    let [warning] = &warnings[..] else { panic!("{told:?}") };
    assert!(warning.starts_with("the agent asks (permission): 1. "), "{warning}");
}
