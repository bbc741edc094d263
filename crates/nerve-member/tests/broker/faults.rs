//! Faults of the broker, and of a machine's files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nerve_member::MemberState;

use crate::harness::{CREATE, LONG, Machine, SHORT, broker};

#[tokio::test]
async fn member_reports_a_lost_broker_and_comes_back() {
    let Some(mut broker) = broker("member_reports_a_lost_broker_and_comes_back", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    a.wait_for_members(&[("a", 1)]).await;
    broker.kill();
    let lost = a.wait_for(|status| status.state == MemberState::Suspended).await;
    assert!(lost.problem.is_some());
    assert_eq!(lost.list.members.len(), 1, "the last known members stay");
    let status = a.membership.status().await.unwrap();
    assert_eq!(status.members.unwrap_err().kind(), nerve_types::ErrorKind::Network);
    broker.restart();
    let back = a.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    assert_eq!((back.boot, back.machine_id), (1, lost.machine_id));
}

#[tokio::test]
async fn member_survives_a_stopped_broker() {
    let Some(broker) = broker("member_survives_a_stopped_broker", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    broker.freeze();
    a.wait_for(|status| status.state == MemberState::Suspended && status.problem.is_some()).await;
    broker.thaw();
    let back = a.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    assert_eq!(back.boot, 1);
}

#[tokio::test]
async fn server_waits_for_an_absent_broker() {
    let Some(mut broker) = broker("server_waits_for_an_absent_broker", "") else { return };
    let mut a = Machine::member("a", &broker, SHORT).await;
    a.stop().await;
    broker.kill();
    a.start();
    let waiting = a.wait_for(|status| status.problem.is_some()).await;
    assert_eq!(waiting.state, MemberState::Joining);
    broker.restart();
    a.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    a.stop().await;
}

#[tokio::test]
async fn lost_streams_are_a_problem_until_one_member_creates_them() {
    let test = "lost_streams_are_a_problem_until_one_member_creates_them";
    let Some(mut broker) = broker(test, "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let b = Machine::member("b", &broker, SHORT).await;
    broker.lose_disk();
    broker.restart();
    for machine in [&a, &b] {
        let lost = machine.wait_for(|status| status.state == MemberState::Suspended).await;
        assert!(lost.problem.is_some());
    }
    assert_eq!(a.membership.leave().await, Ok(true));
    a.membership.join(&a.config, CREATE).await.unwrap();
    for machine in [&a, &b] {
        machine.wait_for_members(&[("a", 2), ("b", 1)]).await;
    }
}

#[tokio::test]
async fn copy_of_a_state_directory_is_a_conflict() {
    let Some(broker) = broker("copy_of_a_state_directory_is_a_conflict", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut copy = Machine::new("copy", &broker, SHORT);
    copy.copy_identity(&a);
    copy.membership.join(&copy.config, nerve_member::Creation::Refuse).await.unwrap();
    copy.start();
    let status = copy.wait_for(|status| status.state == MemberState::IdentityConflict).await;
    assert_eq!(status.boot, 2);
    assert_eq!(a.status().await.unwrap().state, MemberState::Member);
}

#[tokio::test]
async fn membership_ends_while_others_can_read_its_configuration() {
    let Some(broker) = broker("membership_ends_while_others_can_read_its_configuration", "") else { return };
    let a = Machine::member("a", &broker, LONG).await;
    let set_mode = |mode| {
        fs::set_permissions(a.file("cluster.toml"), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    a.wait_until_ended().await;
    set_mode(0o600);
    let back = a.wait_for(|status| status.state == MemberState::Member).await;
    assert_eq!(back.boot, 2);
}
