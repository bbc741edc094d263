//! Faults of the broker, and of a machine's files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use nerve_cluster::RunId;
use nerve_cluster::journal::{AttemptState, RunOutcome};
use nerve_member::{MemberError, MemberState};
use nerve_testkit::eventually;

use crate::harness::{CREATE, LONG, Machine, SHORT, broker, write};
use crate::relay::Relay;
use crate::runs::{TestRun, is_in_doubt, step};

/// Creates an executor behind a network.
pub(crate) async fn executor_behind(relay: &Relay, machine: Machine) -> Machine {
    let mut machine = machine;
    (machine.config.brokers, machine.config.slots) = (vec![relay.url()], 1);
    machine.membership.join(&machine.config, CREATE).await.unwrap();
    machine.start();
    machine.wait_for(|status| status.state == MemberState::Member).await;
    machine
}

#[tokio::test]
async fn partitioned_machine_begins_nothing_and_continues_its_step() {
    let Some(broker) = broker("partitioned_machine_begins_nothing_and_continues_its_step", "") else {
        return;
    };
    let a = Machine::executor("a", &broker, 1).await;
    let relay = Relay::start(&broker, Duration::ZERO).await;
    let b = executor_behind(&relay, Machine::new("b", &broker, SHORT)).await;
    let run = TestRun::start_waiting(&a, "on: b").await;
    run.wait_for_effects(1).await;
    relay.cut();
    b.wait_for(|status| status.state == MemberState::Suspended).await;
    run.wait_for(1, is_in_doubt).await;
    let second =
        TestRun::start_as("r-2", &a, "  - {id: s, node: sh, input: 'echo x >> DIR/log', on: b}\n").await;
    eventually("the run has an owner", async || second.state().await.owner.is_some()).await;
    assert_eq!(second.effects(), 0);
    relay.mend();
    b.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    run.wait_for(1, |attempt| matches!(attempt.state, AttemptState::Started { .. })).await;
    run.let_go();
    for run in [&run, &second] {
        assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
        assert_eq!((run.effects(), run.attempt(2).await), (1, None));
    }
}

#[tokio::test]
async fn cancelled_step_ends_with_the_partition_although_its_run_continued() {
    let test = "cancelled_step_ends_with_the_partition_although_its_run_continued";
    let Some(broker) = broker(test, "") else { return };
    let a = Machine::executor("a", &broker, 0).await;
    let relay = Relay::start(&broker, Duration::ZERO).await;
    let b = executor_behind(&relay, Machine::new("b", &broker, SHORT)).await;
    let run = TestRun::start_waiting(&a, "on: any").await;
    run.wait_for_effects(1).await;
    relay.cut();
    run.runs.cancel(&run.id).await.unwrap();
    let c = Machine::executor("c", &broker, 1).await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Cancelled));
    run.runs.resume(&run.id).await.unwrap();
    run.wait_for_effects(2).await;
    relay.mend();
    run.wait_for(1, |attempt| attempt.late.as_ref().is_some_and(|late| !late.is_success)).await;
    run.let_go();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 2));
    let machines = [1, 2].map(|number| state.attempt(&step("s"), number).unwrap().machine);
    assert_eq!(machines, [b.id(), c.id()]);
}

#[tokio::test]
async fn partitioned_owner_is_replaced() {
    let Some(broker) = broker("partitioned_owner_is_replaced", "") else { return };
    let relay = Relay::start(&broker, Duration::ZERO).await;
    let a = executor_behind(&relay, Machine::new("a", &broker, SHORT)).await;
    let run = TestRun::start(
        &a,
        "  - {id: s, node: sh, on: b, input: 'echo x >> DIR/log; until test -e DIR/go; do sleep 0.05; done'}\n\
         \x20 - {id: t, node: sh, on: b, depends_on: [s], input: 'echo x >> DIR/log'}\n",
    )
    .await;
    eventually("a owns the run", async || run.state().await.owner.is_some()).await;
    let b = Machine::executor("b", &broker, 1).await;
    run.wait_for_effects(1).await;
    relay.cut();
    // Another connection than that of the machine that is cut off.
    let runs = b.runs().await;
    let owner = async || runs.get(&run.id).await.unwrap().owner.map(|owner| owner.machine);
    eventually("b owns the run", async || owner().await == Some(b.id())).await;
    run.let_go();
    run.wait_for_effects(2).await;
    relay.mend();
    a.wait_for(|status| status.state == MemberState::Member).await;
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 2));
    assert!(state.steps.values().all(|step| step.attempts.len() == 1));
}

/// Returns the settings of a broker that reads its users from `auth.conf` in a folder.
fn settings_in(folder: &Path) -> String {
    // The broker looks for it next to its own configuration, which is in a sibling of the folder.
    format!("include '../{}/auth.conf'", folder.file_name().unwrap().to_str().unwrap())
}

fn credentials(machine: &mut Machine, password: &str) {
    let file = machine.file("credentials.toml");
    write(&file, &format!("type = \"password\"\nuser = \"ann\"\npassword = \"{password}\"\n"), 0o600);
    machine.config.credentials = Some(file);
}

#[tokio::test]
async fn revoked_credentials_suspend_a_member_until_it_has_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let allow = |password: &str| {
        fs::write(
            folder.path().join("auth.conf"),
            format!("authorization {{ user: ann, password: {password} }}"),
        )
        .unwrap();
    };
    allow("first");
    let test = "revoked_credentials_suspend_a_member_until_it_has_new_ones";
    let Some(mut broker) = broker(test, &settings_in(folder.path())) else { return };
    let mut a = Machine::new("a", &broker, SHORT);
    credentials(&mut a, "first");
    a.membership.join(&a.config, CREATE).await.unwrap();
    a.start();
    a.wait_for(|status| status.state == MemberState::Member).await;
    allow("second");
    broker.restart();
    let revoked =
        a.wait_for(|status| status.state == MemberState::Suspended && status.problem.is_some()).await;
    assert!(!revoked.problem.unwrap().contains("first"));
    let error = a.membership.status().await.unwrap().members.unwrap_err();
    assert_eq!(error.kind(), nerve_types::ErrorKind::Authentication);
    // Its server follows the file.
    credentials(&mut a, "second");
    let back = a.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    assert_eq!((back.boot, back.machine_id), (2, revoked.machine_id));
}

#[tokio::test]
async fn refused_records_are_shown_until_the_broker_accepts_them() {
    let folder = tempfile::tempdir().unwrap();
    let allow = |permissions: &str| {
        let user = format!("authorization {{ users = [{{ user: ann, password: p{permissions} }}] }}");
        fs::write(folder.path().join("auth.conf"), user).unwrap();
    };
    allow("");
    let test = "refused_records_are_shown_until_the_broker_accepts_them";
    let Some(mut broker) = broker(test, &settings_in(folder.path())) else { return };
    let mut a = Machine::new("a", &broker, SHORT);
    credentials(&mut a, "p");
    a.config.slots = 1;
    a.membership.join(&a.config, CREATE).await.unwrap();
    a.start();
    a.wait_for(|status| status.state == MemberState::Member).await;
    let run = TestRun::start_waiting(&a, "on: a").await;
    run.wait_for_effects(1).await;
    allow(", permissions: { publish: { deny: \"nerve.team.journal.*\" } }");
    broker.restart();
    a.wait_for(|status| status.state == MemberState::Member && status.problem.is_none()).await;
    run.let_go();
    a.wait_for(|status| {
        let problem = status.problem.as_ref();
        status.state == MemberState::Member && problem.is_some_and(|problem| problem.contains("'r-1'"))
    })
    .await;
    allow("");
    broker.restart();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
    a.wait_for(|status| status.problem.is_none()).await;
}

#[tokio::test]
async fn lost_run_is_reported_and_not_repeated() {
    let test = "lost_run_is_reported_and_not_repeated";
    let Some(mut broker) = broker(test, "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: b").await;
    run.wait_for_effects(1).await;
    broker.lose_disk();
    broker.restart();
    a.wait_for(|status| status.state == MemberState::Suspended).await;
    assert_eq!(a.membership.leave().await, Ok(true));
    a.membership.join(&a.config, CREATE).await.unwrap();
    b.wait_for(|status| status.state == MemberState::Member).await;
    run.let_go();
    b.wait_for(|status| status.problem.as_ref().is_some_and(|problem| problem.contains("'r-1'"))).await;
    let gone = a.runs().await.get(&RunId::new("r-1").unwrap()).await;
    assert!(matches!(gone, Err(MemberError::NoRun(_))), "{gone:?}");
    assert_eq!(run.effects(), 1);
}

#[tokio::test]
async fn copy_of_a_machine_executes_nothing() {
    let Some(broker) = broker("copy_of_a_machine_executes_nothing", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut copy = Machine::new("copy", &broker, SHORT);
    copy.copy_identity(&a);
    copy.config.slots = 1;
    copy.membership.join(&copy.config, nerve_member::Creation::Refuse).await.unwrap();
    copy.start();
    let conflict = copy.wait_for(|status| status.state == MemberState::IdentityConflict).await;
    let run = TestRun::start(&a, "  - {id: s, node: sh, input: 'echo x >> DIR/log'}\n").await;
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
    let by = state.attempt(&step("s"), 1).unwrap().starter().unwrap();
    assert_eq!((by.machine, by.boot, conflict.boot), (a.id(), 1, 2));
}

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
