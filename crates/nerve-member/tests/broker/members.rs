//! Members come and go.

use nerve_member::{MemberError, MemberState};
use nerve_nats::Durability;
use nerve_testkit::eventually;

use crate::harness::{LONG, Machine, SHORT, broker};

#[tokio::test]
async fn two_members_see_each_other() {
    let Some(broker) = broker("two_members_see_each_other", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let b = Machine::member("b", &broker, SHORT).await;
    for machine in [&a, &b] {
        machine.wait_for_members(&[("a", 1), ("b", 1)]).await;
        let status = machine.membership.status().await.unwrap();
        let members = status.members.unwrap().members;
        let names: Vec<&str> = members.iter().map(|member| member.machine_name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(members.iter().all(|member| member.member_for_ms >= member.lease_age_ms), "{members:?}");
        let own = members.iter().find(|member| member.machine_name == machine.config.machine).unwrap();
        assert_eq!(Some(own.machine_id), status.machine_id);
        assert_eq!(status.server.unwrap().state, MemberState::Member);
    }
    assert_eq!(a.membership.check_broker().await.unwrap().durability, Durability::OneBroker);
}

#[tokio::test]
async fn crashed_member_disappears_and_returns_with_next_boot() {
    let Some(broker) = broker("crashed_member_disappears_and_returns_with_next_boot", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::member("b", &broker, SHORT).await;
    a.wait_for_members(&[("a", 1), ("b", 1)]).await;
    b.crash().await;
    assert_eq!(b.status().await, None);
    a.wait_for_members(&[("a", 1)]).await;
    b.start();
    a.wait_for_members(&[("a", 1), ("b", 2)]).await;
    // Renewals keep a lease.
    let first = b.wait_for(|status| status.state == MemberState::Member).await;
    eventually("the lease outlives its time", async || {
        let members = a.membership.status().await.unwrap().members.unwrap().members;
        members.iter().all(|member| member.member_for_ms > SHORT * 1_000 + 500)
    })
    .await;
    assert_eq!(b.status().await.unwrap().since, first.since);
}

#[tokio::test]
async fn stopped_member_releases_its_lease() {
    let Some(broker) = broker("stopped_member_releases_its_lease", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::member("b", &broker, LONG).await;
    a.wait_for_members(&[("a", 1), ("b", 1)]).await;
    b.stop().await;
    a.wait_for_members(&[("a", 1)]).await;
    b.start();
    b.wait_for(|status| status.state == MemberState::Member).await;
    a.wait_for_members(&[("a", 1), ("b", 2)]).await;
}

#[tokio::test]
async fn running_server_joins_and_leaves() {
    let Some(broker) = broker("running_server_joins_and_leaves", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::new("b", &broker, LONG);
    b.start();
    assert_eq!(b.membership.leave().await, Err(MemberError::NotConfigured));
    b.membership.join(&b.config, nerve_member::Creation::Refuse).await.unwrap();
    b.wait_for(|status| status.state == MemberState::Member).await;
    let again = b.membership.join(&b.config, nerve_member::Creation::Refuse).await;
    assert!(matches!(again, Err(MemberError::AlreadyConfigured(_))), "{again:?}");
    a.wait_for_members(&[("a", 1), ("b", 1)]).await;
    assert_eq!(b.membership.leave().await, Ok(true));
    a.wait_for_members(&[("a", 1)]).await;
    assert_eq!(b.membership.status().await.unwrap_err(), MemberError::NotConfigured);
    // The machine keeps its id.
    let id = |machine: &Machine| std::fs::read_to_string(machine.file("cluster/machine.json")).unwrap();
    let before: serde_json::Value = serde_json::from_str(&id(&b)).unwrap();
    b.membership.join(&b.config, nerve_member::Creation::Refuse).await.unwrap();
    a.wait_for_members(&[("a", 1), ("b", 2)]).await;
    let after: serde_json::Value = serde_json::from_str(&id(&b)).unwrap();
    assert_eq!(before["machine_id"], after["machine_id"]);
    b.stop().await;
}

#[tokio::test]
async fn membership_of_another_server_is_not_taken() {
    let Some(broker) = broker("membership_of_another_server_is_not_taken", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::new("b", &broker, SHORT);
    b.config.server = "night".into();
    b.membership.join(&b.config, nerve_member::Creation::Refuse).await.unwrap();
    // Its server is `default`.
    b.start();
    let c = Machine::member("c", &broker, SHORT).await;
    a.wait_for_members(&[("a", 1), ("c", 1)]).await;
    assert!(b.status().await.is_none() && !b.file("cluster/status.json").exists());
    assert_eq!(c.status().await.unwrap().machine_name, "c");
}
