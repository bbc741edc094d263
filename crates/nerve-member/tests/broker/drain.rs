//! Machines are drained before maintenance, and keep their names.

use std::fs;
use std::time::Duration;

use nerve_cluster::journal::{AttemptState, RunOutcome};
use nerve_member::{Creation, DrainState, MemberError, MemberInfo};
use nerve_testkit::{eventually, within_deadline};

use crate::faults::executor_behind;
use crate::harness::{CREATE, LONG, Machine, SHORT, broker};
use crate::relay::Relay;
use crate::runs::{TestRun, add_ended_runs};

/// Returns a member as the broker describes it now.
async fn member(machine: &Machine, name: &str) -> Option<MemberInfo> {
    let list = machine.membership.status().await.unwrap().members.unwrap();
    list.members.into_iter().find(|member| member.machine_name == name)
}

async fn wait_for_drain(machine: &Machine, name: &str, state: Option<DrainState>) {
    eventually("the drain has the state", async || {
        member(machine, name).await.is_some_and(|member| member.drain == state)
    })
    .await;
}

#[tokio::test]
async fn drained_machine_ends_its_step_and_begins_no_other() {
    let Some(broker) = broker("drained_machine_ends_its_step_and_begins_no_other", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 2).await;
    let running = TestRun::start_waiting(&a, "on: b").await;
    running.wait_for_effects(1).await;
    assert_eq!(a.membership.set_drained(Some("b"), true).await, Ok("b".to_string()));
    wait_for_drain(&a, "b", Some(DrainState::Draining)).await;
    assert_eq!(member(&a, "b").await.unwrap().running_steps, 1);
    let named =
        TestRun::start_as("r-2", &a, "  - {id: s, node: sh, input: 'echo x >> DIR/log', on: b}\n").await;
    let any = TestRun::start_as("r-3", &a, "  - {id: s, node: sh, input: 'echo x >> DIR/log'}\n").await;
    assert_eq!(any.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!(any.attempt(1).await.unwrap().machine, a.id());
    // What runs ends, with its result.
    running.let_go();
    assert_eq!(running.follow().await.outcome, Some(RunOutcome::Completed));
    let drained = within_deadline("b is drained", a.membership.wait_until_drained("b")).await.unwrap();
    assert_eq!(
        drained.map(|member| (member.drain, member.running_steps)),
        Some((Some(DrainState::Drained), 0))
    );
    assert_eq!((named.attempt(1).await, named.effects()), (None, 0));
    // The drain stays after the maintenance.
    b.stop().await;
    let away = a.membership.status().await.unwrap().members.unwrap().away;
    assert_eq!(
        away.iter().map(|away| (away.machine_id, away.is_drained)).collect::<Vec<_>>(),
        [(b.id(), true)]
    );
    assert_eq!(a.membership.wait_until_drained("b").await, Ok(None));
    b.start();
    wait_for_drain(&a, "b", Some(DrainState::Drained)).await;
    assert_eq!(named.attempt(1).await, None);
    b.membership.set_drained(None, false).await.unwrap();
    assert_eq!(named.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!((named.effects(), member(&a, "b").await.unwrap().drain), (1, None));
    let unknown = a.membership.set_drained(Some("c"), true).await;
    assert_eq!(unknown, Err(MemberError::NoMachine("c".to_string())));
}

#[tokio::test]
async fn machine_that_starts_is_not_drained_before_it_knows_its_steps() {
    let test = "machine_that_starts_is_not_drained_before_it_knows_its_steps";
    let Some(broker) = broker(test, "") else { return };
    let mut a = Machine::executor("a", &broker, 0).await;
    a.stop().await;
    // The oldest run is the last one that a machine reads after its start.
    add_ended_runs(&broker, 100).await;
    a.start();
    let relay = Relay::start(&broker, Duration::from_millis(100)).await;
    let mut b = executor_behind(&relay, Machine::new("b", &broker, SHORT)).await;
    let run = TestRun::start_waiting(&a, "on: b").await;
    run.wait_for_effects(1).await;
    a.membership.set_drained(Some("b"), true).await.unwrap();
    b.stop().await;
    b.start();
    eventually("the machine knows its step", async || {
        let Some(member) = member(&a, "b").await else { return false };
        assert_ne!(member.drain, Some(DrainState::Drained), "{member:?}");
        member.boot == 2 && member.drain == Some(DrainState::Draining)
    })
    .await;
    run.let_go();
    assert_eq!((run.follow().await.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
}

#[tokio::test]
async fn steps_offered_to_a_silent_machine_move_with_its_drain() {
    let Some(broker) = broker("steps_offered_to_a_silent_machine_move_with_its_drain", "") else { return };
    let a = Machine::executor("a", &broker, 0).await;
    let relay = Relay::start(&broker, Duration::ZERO).await;
    let mut silent = Machine::new("silent", &broker, LONG);
    (silent.config.brokers, silent.config.slots) = (vec![relay.url()], 1);
    silent.membership.join(&silent.config, CREATE).await.unwrap();
    silent.start();
    a.wait_for_members(&[("a", 1), ("silent", 1)]).await;
    relay.cut();
    let run = TestRun::start(&a, "  - {id: s, node: sh, input: 'echo x >> DIR/log'}\n").await;
    run.wait_for(1, |attempt| attempt.machine == silent.id()).await;
    let c = Machine::executor("c", &broker, 1).await;
    a.wait_for_members(&[("a", 1), ("c", 1), ("silent", 1)]).await;
    assert_eq!(run.attempt(1).await.unwrap().state, AttemptState::Offered);
    a.membership.set_drained(Some("silent"), true).await.unwrap();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!((run.attempt(1).await.unwrap().machine, run.effects()), (c.id(), 1));
    assert_eq!(member(&a, "silent").await.unwrap().drain, Some(DrainState::Requested));
}

#[tokio::test]
async fn name_stays_with_its_machine_until_it_leaves_or_is_removed() {
    let Some(broker) = broker("name_stays_with_its_machine_until_it_leaves_or_is_removed", "") else {
        return;
    };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::member("b", &broker, LONG).await;
    let other = Machine::new("b", &broker, SHORT);
    let join = async || other.membership.join(&other.config, Creation::Refuse).await.map(drop);
    let taken = MemberError::NameTaken { name: "b".to_string(), holder: b.id() };
    assert_eq!(join().await, Err(taken.clone()));
    assert_eq!(a.membership.remove("b").await, Err(MemberError::IsMember("b".to_string())));
    b.stop().await;
    // The name is taken while its machine is away.
    assert_eq!(join().await, Err(taken));
    a.membership.remove("b").await.unwrap();
    assert_eq!(a.membership.remove("b").await, Err(MemberError::NoMachine("b".to_string())));
    assert_eq!(join().await, Ok(()));
    assert_eq!(other.membership.leave().await, Ok(true));
    let away = a.membership.status().await.unwrap().members.unwrap().away;
    assert!(away.is_empty(), "{away:?}");
    // Its former machine starts with a free name.
    b.start();
    a.wait_for_members(&[("a", 1), ("b", 2)]).await;
}

#[tokio::test]
async fn former_name_of_a_present_machine_becomes_free() {
    let Some(broker) = broker("former_name_of_a_present_machine_becomes_free", "") else { return };
    let a = Machine::member("a", &broker, SHORT).await;
    let mut b = Machine::member("b", &broker, SHORT).await;
    b.stop().await;
    // As if the broker had been away when the machine left.
    fs::remove_file(b.file("cluster.toml")).unwrap();
    b.config.machine = "c".into();
    b.membership.join(&b.config, Creation::Refuse).await.unwrap();
    let other = Machine::new("b", &broker, SHORT);
    assert_eq!(other.membership.join(&other.config, Creation::Refuse).await.map(drop), Ok(()));
    // A person edits the name.
    let file = b.file("cluster.toml");
    let text = fs::read_to_string(&file).unwrap().replace("machine = \"c\"", "machine = \"d\"");
    fs::write(&file, text).unwrap();
    b.start();
    a.wait_for_members(&[("a", 1), ("d", 2)]).await;
    assert_eq!(a.membership.remove("d").await, Err(MemberError::IsMember("d".to_string())));
    assert_eq!(a.membership.remove("c").await, Ok(()));
    assert_eq!(a.membership.remove("c").await, Err(MemberError::NoMachine("c".to_string())));
}
