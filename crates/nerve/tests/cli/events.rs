//! `nerve events`.

use std::fs;

use nerve_testkit::{wait_for, wait_until};
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

#[test]
fn events_are_printed_until_server_ends() {
    let home = Home::with_shell();
    let output = home.hermetic.work().join("events");
    let mut events = home
        .command(&["events", "--type", "node-busy,NODE_READY", "--node", "sh", "--json"])
        .stdout(fs::File::create(&output).unwrap())
        .spawn()
        .unwrap();
    let printed = || -> Vec<Value> {
        let text = fs::read_to_string(&output).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // The subscription exists once an event arrives: repeat turns until one does.
    assert!(wait_until(DEADLINE, || {
        home.ok(&["node", "execute", "sh", "echo hello"]);
        !printed().is_empty()
    }));
    home.ok(&["server", "restart"]);
    home.ok(&["node", "execute", "sh", "echo hello"]);
    let has_resumed = || {
        let mut later = printed().into_iter().skip_while(|event| event["event_type"] != "EVENTS_DROPPED");
        later.any(|event| event["event_type"] == "NODE_READY")
    };
    assert!(wait_until(DEADLINE, has_resumed), "{:?}", printed());
    home.ok(&["server", "stop"]);
    let status = wait_for(DEADLINE, || events.try_wait().unwrap());
    assert!(status.expect("it does not end").success());
    let is_requested = |event: &Value| {
        ["NODE_BUSY", "NODE_READY", "EVENTS_DROPPED"].contains(&event["event_type"].as_str().unwrap())
    };
    assert!(printed().iter().all(is_requested), "{:?}", printed());
    // The new server has kept the events from before the client connected.
    let is_counted =
        |event: &&Value| event["event_type"] == "EVENTS_DROPPED" && !event["data"]["dropped"].is_null();
    assert_eq!(printed().iter().find(is_counted), None);
}

#[test]
fn exec_gets_event_in_variables_and_on_stdin() {
    let home = Home::with_shell();
    let output = home.hermetic.work().join("out");
    let command = format!(
        "(echo \"$NERVE_EVENT_TYPE $NERVE_EVENT_NODE $NERVE_EVENT_TEXT\"; cat) >> {}",
        output.display()
    );
    let _events = home.start(&["events", "--node", "sh", "--type", "node_ready", "--exec", &command]);
    assert!(wait_until(DEADLINE, || {
        home.ok(&["server", "node", "execute", "sh", "echo hello"]);
        output.exists()
    }));
    let has_end =
        || fs::read_to_string(&output).is_ok_and(|text| text.contains("\"event_type\":\"NODE_READY\""));
    assert!(wait_until(DEADLINE, has_end));
    let text = fs::read_to_string(&output).unwrap();
    assert!(text.starts_with("NODE_READY sh sh is ready\n"), "{text}");
}

#[test]
fn unknown_type_lists_known_ones() {
    let home = Home::new();
    home.nerve(&["events", "--type", "nosuch"]).assert_stderr(2, &["node_blocked", "graph_completed"]);
}
