//! `nerve events`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nerve_testkit::wait_until;
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

#[test]
fn events_are_printed_until_server_ends() {
    let home = Home::with_shell();
    let mut events = home
        .command(&["events", "--type", "node-busy,NODE_READY,server_shutdown", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(events.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    // The subscription exists once a turn's event arrives: repeat until it does.
    let executor = std::thread::scope(|scope| {
        let first = scope.spawn(|| next());
        assert!(wait_until(DEADLINE, || {
            home.ok(&["server", "node", "execute", "sh", "echo hello"]);
            first.is_finished()
        }));
        first.join().unwrap()
    });
    assert_eq!(executor["node_id"], "sh");
    home.ok(&["server", "stop"]);
    let last = std::iter::repeat_with(next).find(|event| event["event_type"] == "SERVER_SHUTDOWN");
    assert!(last.is_some());
    assert!(events.wait().unwrap().success());
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
    assert!(fs::read_to_string(&output).unwrap().starts_with("NODE_READY sh sh is ready\n"));
}

#[test]
fn unknown_type_lists_known_ones() {
    let home = Home::new();
    home.nerve(&["events", "--type", "nosuch"]).assert_stderr(2, &["node_blocked", "graph_completed"]);
}
