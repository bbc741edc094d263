//! `nerve cluster` with servers of two machines at a real broker.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

#[expect(dead_code, reason = "these tests need little of it")]
#[path = "cli/harness.rs"]
mod harness;

use nerve_testkit::harness::{Broker, find_nats_server, freeze, signal};
use nerve_testkit::{skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use harness::{DEADLINE, Home};

/// Starts a broker; `None` if `test` is skipped.
fn broker(test: &str) -> Option<Broker> {
    let Some(program) = find_nats_server() else {
        skip(test, "nats-server is not installed: cargo xtask setup");
        return None;
    };
    Some(Broker::start(&program, ""))
}

/// Makes a machine a member, with a short lease.
fn join(home: &Home, command: &str, name: &str, broker: &Broker) -> Value {
    let url = broker.url();
    let args = ["cluster", command, "team", "--broker", &url, "--name", name, "--lease", "3", "--json"];
    let done = home.nerve(&args);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

/// Returns name and number of starts of each member, as a machine sees them.
fn members(home: &Home) -> Vec<(String, u64)> {
    let status = home.nerve(&["cluster", "status", "--json"]).json();
    let members = status["members"].as_array().unwrap().iter();
    members
        .map(|member| {
            (member["machine_name"].as_str().unwrap().to_string(), member["boot"].as_u64().unwrap())
        })
        .collect()
}

#[track_caller]
fn wait_for_members(home: &Home, expected: &[(&str, u64)]) {
    let is_expected =
        || members(home).iter().map(|(name, boot)| (name.as_str(), *boot)).eq(expected.iter().copied());
    assert!(wait_until(DEADLINE, is_expected), "{:?}", members(home));
}

#[test]
fn servers_join_are_lost_return_and_leave() {
    let Some(broker) = broker("servers_join_are_lost_return_and_leave") else { return };
    let (a, b) = (Home::new(), Home::new());
    // A server that runs joins at once, another one when it starts.
    a.ok(&["server", "start"]);
    assert_eq!(join(&a, "init", "a", &broker)["member"], true);
    assert_eq!(join(&b, "join", "b", &broker)["member"], false);
    assert_eq!(b.nerve(&["cluster", "status"]).code, 1);
    b.ok(&["server", "start"]);
    for home in [&a, &b] {
        wait_for_members(home, &[("a", 1), ("b", 1)]);
    }
    let text = a.ok(&["cluster", "status"]);
    assert!(text.lines().count() == 3 && text.contains("this machine"), "{text}");
    // A stopped server, as on a machine that sleeps, comes back as the same process.
    let pid = b.pid("default");
    freeze(pid);
    wait_for_members(&a, &[("a", 1)]);
    signal(pid, Signal::CONT);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    b.kill_server("default");
    wait_for_members(&a, &[("a", 1)]);
    b.ok(&["server", "start"]);
    wait_for_members(&a, &[("a", 1), ("b", 2)]);
    b.ok(&["cluster", "leave"]);
    assert_eq!(members(&a), [("a".to_string(), 1)]);
    assert_eq!(b.nerve(&["cluster", "status"]).code, 3);
    let checks = a.nerve(&["doctor", "--json"]).json();
    let checks = checks["checks"].as_array().unwrap();
    let cluster = checks.iter().find(|check| check["name"] == "cluster").unwrap();
    assert_eq!(
        (&cluster["ok"], cluster["hint"].is_string()),
        (&Value::Bool(false), true),
        "one broker: {cluster}"
    );
}

#[test]
fn unavailable_broker_is_reported_and_last_members_stay() {
    let Some(mut broker) = broker("unavailable_broker_is_reported_and_last_members_stay") else { return };
    let home = Home::new();
    home.ok(&["server", "start"]);
    join(&home, "init", "a", &broker);
    let server = || home.nerve(&["cluster", "status", "--json"]).json()["server"].clone();
    assert!(wait_until(DEADLINE, || server()["members"]
        .as_array()
        .is_some_and(|members| members.len() == 1)));
    broker.kill();
    assert!(wait_until(DEADLINE, || server()["state"] == "suspended"));
    let status = home.nerve(&["cluster", "status"]);
    assert!(status.code == 1 && status.stdout.contains("this machine"), "{status:?}");
    broker.restart();
    assert!(wait_until(DEADLINE, || home.nerve(&["cluster", "status"]).code == 0));
}

#[test]
fn refused_attempt_to_join_has_a_hint_and_saves_nothing() {
    let Some(mut broker) = broker("refused_attempt_to_join_has_a_hint_and_saves_nothing") else { return };
    let home = Home::new();
    let url = broker.url();
    let refuse = |args: &[&str], code: u8| {
        let done = home.nerve(&[&["cluster"], args, &["--json"]].concat());
        assert_eq!(done.code, i32::from(code), "{done:?}");
        let error: Value = serde_json::from_str(&done.stderr).unwrap();
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
        assert_eq!(home.nerve(&["cluster", "status"]).code, 3);
    };
    refuse(&["join", "other", "--broker", &url, "--name", "a"], 3);
    refuse(&["join", "team", "--broker", "http://127.0.0.1", "--name", "a"], 2);
    refuse(&["leave"], 3);
    broker.kill();
    refuse(&["join", "team", "--broker", &url, "--name", "a"], 1);
}
