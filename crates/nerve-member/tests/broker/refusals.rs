//! Attempts to join that are refused: the error has a hint, and nothing is saved.

use nerve_cluster::journal::RunOutcome;
use nerve_member::{Creation, MemberError};
use nerve_types::ErrorKind;

use crate::harness::{CREATE, Machine, SHORT, broker, write};
use crate::runs::TestRun;

async fn refuse(machine: &Machine, creation: Creation) -> MemberError {
    let error = machine.membership.join(&machine.config, creation).await.unwrap_err();
    assert!(!error.hint().is_empty() && !machine.membership.is_configured(), "{error:?}");
    error
}

#[tokio::test]
async fn refused_credentials_are_an_error() {
    let settings = "authorization { user: ann, password: right }";
    let Some(broker) = broker("refused_credentials_are_an_error", settings) else { return };
    let mut machine = Machine::new("a", &broker, SHORT);
    assert_eq!(refuse(&machine, CREATE).await.kind(), ErrorKind::Authentication);
    let file = machine.file("credentials.toml");
    machine.config.credentials = Some(file.clone());
    let text = |password: &str| format!("type = \"password\"\nuser = \"ann\"\npassword = \"{password}\"\n");
    assert_eq!(refuse(&machine, CREATE).await.kind(), ErrorKind::Process);
    write(&file, &text("wrong"), 0o600);
    assert_eq!(refuse(&machine, CREATE).await.kind(), ErrorKind::Authentication);
    write(&file, &text("right"), 0o644);
    assert_eq!(refuse(&machine, CREATE).await.kind(), ErrorKind::Permission);
    write(&file, &text("right"), 0o600);
    machine.membership.join(&machine.config, CREATE).await.unwrap();
}

#[tokio::test]
async fn absent_broker_is_an_error() {
    let Some(mut broker) = broker("absent_broker_is_an_error", "") else { return };
    let machine = Machine::new("a", &broker, SHORT);
    broker.kill();
    assert_eq!(refuse(&machine, CREATE).await.kind(), ErrorKind::Network);
}

#[tokio::test]
async fn unknown_cluster_is_an_error() {
    let Some(broker) = broker("unknown_cluster_is_an_error", "") else { return };
    let machine = Machine::new("a", &broker, SHORT);
    let error = refuse(&machine, Creation::Refuse).await;
    assert!(matches!(error, MemberError::NoCluster { .. }), "{error:?}");
    assert!(error.hint().contains("nerve cluster init team"));
}

#[tokio::test]
async fn taken_name_is_an_error() {
    let Some(broker) = broker("taken_name_is_an_error", "") else { return };
    let _first = Machine::member("a", &broker, SHORT).await;
    let second = Machine::new("a", &broker, SHORT);
    let error = refuse(&second, Creation::Refuse).await;
    assert!(matches!(error, MemberError::NameTaken { .. }), "{error:?}");
}

#[tokio::test]
async fn documented_permissions_suffice_for_a_member() {
    let page = include_str!("../../../../docs/cluster.md");
    let (_, block) = page.split_once("```text\nauthorization").unwrap();
    let settings = format!("authorization{}", block.split("```").next().unwrap());
    let settings = settings.replacen('…', "a", 1).replacen('…', "b", 1);
    let Some(broker) = broker("documented_permissions_suffice_for_a_member", &settings) else { return };
    let machine = |name: &str, user: &str, password: &str| {
        let mut machine = Machine::new(name, &broker, SHORT);
        let file = machine.file("credentials.toml");
        let text = format!("type = \"password\"\nuser = \"{user}\"\npassword = \"{password}\"\n");
        write(&file, &text, 0o600);
        (machine.config.credentials, machine.config.slots) = (Some(file), 1);
        machine
    };
    let (admin, mut member) = (machine("hub", "admin", "a"), machine("build", "build", "b"));
    let error = refuse(&member, CREATE).await;
    assert!(error.to_string().contains("STREAM.CREATE"), "it names the missing permission: {error}");
    admin.membership.join(&admin.config, CREATE).await.unwrap();
    member.membership.join(&member.config, Creation::Refuse).await.unwrap();
    member.start();
    member.wait_for_members(&[("build", 1)]).await;
    let run = TestRun::start(&member, "  - {id: s, node: sh, input: 'echo x >> DIR/log'}\n").await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    member.membership.set_drained(None, true).await.unwrap();
    assert!(member.status().await.unwrap().problem.is_none());
    member.stop().await;
}
