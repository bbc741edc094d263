//! `nerve cluster` with servers of two machines at a real broker.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

#[expect(dead_code, reason = "these tests need little of it")]
#[path = "cli/harness.rs"]
mod harness;

use nerve_testkit::harness::{Broker, freeze, signal};
use nerve_testkit::{skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use harness::{DEADLINE, Home, NERVE};

/// Starts a broker; `None` if `test` is skipped.
fn broker(test: &str) -> Option<Broker> {
    Broker::start_if_installed(test, "")
}

/// Makes a machine a member, with a short lease.
fn join(home: &Home, command: &str, name: &str, broker: &Broker) -> Value {
    let url = broker.url();
    let args = ["cluster", command, "team", "--broker", &url, "--name", name, "--lease", "3", "--json"];
    let done = home.nerve(&args);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

/// Makes a machine with a running server a member that executes two steps at a time.
fn join_executor(home: &Home, command: &str, name: &str, broker: &Broker) {
    let url = broker.url();
    home.ok(&["server", "start"]);
    let args = ["cluster", command, "team", "--broker", &url, "--name", name, "--lease", "3", "--slots", "2"];
    home.ok(&args);
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

/// Returns a step of a run.
fn step(home: &Home, run: &str, id: &str) -> Value {
    let shown = home.nerve(&["cluster", "runs", run, "--json"]).json();
    let steps = shown["steps"].as_array().unwrap();
    steps.iter().find(|step| step["step_id"] == id).unwrap().clone()
}

#[test]
fn step_of_a_killed_server_is_in_doubt_until_a_person_decides() {
    let Some(broker) = broker("step_of_a_killed_server_is_in_doubt_until_a_person_decides") else { return };
    let (a, b) = (Home::new(), Home::new());
    join_executor(&a, "init", "a", &broker);
    join_executor(&b, "join", "b", &broker);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let (file, log, go) = (folder.path().join("g.yaml"), folder.path().join("log"), folder.path().join("go"));
    let graph = format!(
        "graph: slow\nnodes: {{sh: {{type: bash}}}}\nsteps:\n\
         \x20 - {{id: first, node: sh, input: 'echo from a', on: a}}\n\
         \x20 - {{id: slow, node: sh, input: 'echo x >> {log:?}; until test -e {go:?}; do sleep 0.05; done; echo {{{{ steps.first }}}}', on: b, depends_on: [first]}}\n"
    );
    std::fs::write(&file, graph).unwrap();
    let effects = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let file = file.to_str().unwrap();
    // Without a cluster, the step would run on the wrong machine.
    assert_eq!(a.nerve(&["graph", "run", file]).code, 2);
    let run = a.ok(&["graph", "run", file, "--cluster", "--no-wait"]).trim().to_string();
    assert!(wait_until(DEADLINE, || effects() == 1), "{:?}", a.nerve(&["cluster", "runs", &run]));
    b.kill_server("default");
    let state = || step(&a, &run, "slow")["state"].clone();
    assert!(wait_until(DEADLINE, || state() == "in_doubt"), "{}", state());
    // The machine is back, but the command ended with its server.
    b.ok(&["server", "start"]);
    wait_for_members(&a, &[("a", 1), ("b", 2)]);
    assert_eq!((state(), effects()), (Value::from("in_doubt"), 1));
    assert_eq!(a.nerve(&["cluster", "decide", &run, "first", "retry"]).code, 2);
    a.ok(&["cluster", "decide", &run, "slow", "retry"]);
    assert!(wait_until(DEADLINE, || effects() == 2), "{:?}", a.nerve(&["cluster", "runs", &run]));
    std::fs::write(&go, "").unwrap();
    let shown = || b.nerve(&["cluster", "runs", &run, "--json"]).json();
    assert!(wait_until(DEADLINE, || shown()["state"] == "completed"), "{}", shown());
    let shown = shown();
    assert_eq!(shown["results"]["slow"]["text"].as_str().unwrap().trim(), "from a");
    let slow = step(&a, &run, "slow");
    assert_eq!((slow["attempt"].as_u64(), slow["machine_name"].as_str()), (Some(2), Some("b")));
    assert_eq!((effects(), slow["reason"].as_str()), (2, Some("named")));
    let listed = a.nerve(&["cluster", "runs", "--json"]).json();
    assert_eq!((&listed["runs"][0]["run_id"], &listed["runs"][0]["graph_id"]), (&run.into(), &"slow".into()));
    // Each attempt is a run of the machine's own server.
    let own = b.nerve(&["graph", "list", "--runs", "--json"]).json();
    let mut states: Vec<&str> =
        own["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["completed", "interrupted"]);
}

/// Writes a graph with one step in a shell, and returns its file.
fn write_graph(folder: &std::path::Path, name: &str, options: &str, input: &str) -> String {
    let file = folder.join(format!("{name}.yaml"));
    let step = format!("{{id: s, node: sh, {options}, input: {input:?}}}");
    let graph = format!("graph: {name}\nnodes: {{sh: {{type: bash}}}}\nsteps:\n  - {step}\n");
    std::fs::write(&file, graph).unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn machine_is_drained_and_begins_steps_again() {
    let Some(broker) = broker("machine_is_drained_and_begins_steps_again") else { return };
    let (a, b) = (Home::new(), Home::new());
    join_executor(&a, "init", "a", &broker);
    join_executor(&b, "join", "b", &broker);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("until test -e {}; do sleep 0.05; done", go.display());
    let slow = write_graph(folder.path(), "slow", "on: b", &wait);
    let run = a.ok(&["graph", "run", &slow, "--cluster", "--no-wait"]).trim().to_string();
    assert!(wait_until(DEADLINE, || step(&a, &run, "s")["state"] == "running"));
    assert_eq!(a.nerve(&["machine", "drain", "b", "--timeout", "1"]).code, 4);
    let member = || {
        let status = a.nerve(&["cluster", "status", "--json"]).json();
        status["members"]
            .as_array()
            .unwrap()
            .iter()
            .find(|member| member["machine_name"] == "b")
            .unwrap()
            .clone()
    };
    assert!(wait_until(DEADLINE, || member()["drain"] == "draining"), "{}", member());
    assert_eq!(member()["running_steps"], 1);
    // Other steps go elsewhere.
    let any = write_graph(folder.path(), "any", "on: any", "echo done");
    let done = a.nerve(&["graph", "run", &any, "--cluster", "--json"]);
    assert_eq!((done.code, &done.json()["owner_name"].is_string()), (0, &true), "{done:?}");
    std::fs::write(&go, "").unwrap();
    let drained = a.nerve(&["machine", "drain", "b", "--json"]).json();
    assert_eq!((&drained["drain"], &drained["present"]), (&"drained".into(), &true.into()));
    assert_eq!(step(&a, &run, "s")["state"], "completed");
    assert!(a.ok(&["cluster", "status"]).contains("drained"));
    let named = write_graph(folder.path(), "named", "on: b", "echo done");
    let run = a.ok(&["graph", "run", &named, "--cluster", "--no-wait"]).trim().to_string();
    assert!(wait_until(DEADLINE, || step(&a, &run, "s")["state"] == "waiting"));
    // The machine itself is the default.
    b.ok(&["machine", "undrain"]);
    assert!(wait_until(DEADLINE, || step(&a, &run, "s")["state"] == "completed"));
    assert_eq!(member()["drain"], Value::Null);
    assert_eq!(a.nerve(&["machine", "drain", "c"]).code, 3);
    b.ok(&["server", "stop"]);
    assert!(wait_until(DEADLINE, || members(&a) == [("a".to_string(), 1)]));
    let away = a.nerve(&["machine", "drain", "b", "--json"]);
    let shown = away.json();
    assert_eq!((away.code, &shown["drain"], &shown["present"]), (1, &"requested".into(), &false.into()));
    a.ok(&["cluster", "remove", "b"]);
    assert_eq!(a.nerve(&["cluster", "remove", "b"]).code, 3);
}

#[test]
fn run_is_cancelled_and_resumed() {
    let Some(broker) = broker("run_is_cancelled_and_resumed") else { return };
    let home = Home::new();
    join_executor(&home, "init", "a", &broker);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let input = format!("until test -e {}; do sleep 0.05; done; echo done", go.display());
    let file = write_graph(folder.path(), "slow", "on: a", &input);
    let run = home.ok(&["graph", "run", &file, "--cluster", "--no-wait"]).trim().to_string();
    assert!(wait_until(DEADLINE, || step(&home, &run, "s")["state"] == "running"));
    assert_eq!(home.nerve(&["cluster", "resume", &run]).code, 2);
    home.ok(&["cluster", "cancel", &run]);
    let state = || home.nerve(&["cluster", "runs", &run, "--json"]).json()["state"].clone();
    assert!(wait_until(DEADLINE, || state() == "cancelled"), "{}", state());
    let own = home.nerve(&["graph", "list", "--runs", "--json"]).json();
    assert_eq!(own["runs"][0]["state"], "cancelled");
    std::fs::write(&go, "").unwrap();
    let resumed = home.nerve(&["cluster", "resume", &run, "--json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(resumed.json()["results"]["s"]["text"].as_str().unwrap().trim(), "done");
    assert_eq!(step(&home, &run, "s")["attempt"], 2);
    assert_eq!(home.nerve(&["cluster", "cancel", &run]).code, 2);
}

#[test]
fn frozen_server_continues_its_step() {
    let Some(broker) = broker("frozen_server_continues_its_step") else { return };
    let (a, b) = (Home::new(), Home::new());
    join_executor(&a, "init", "a", &broker);
    join_executor(&b, "join", "b", &broker);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let (log, go) = (folder.path().join("log"), folder.path().join("go"));
    let input = format!("echo x >> {}; until test -e {}; do sleep 0.05; done", log.display(), go.display());
    let file = write_graph(folder.path(), "slow", "on: b", &input);
    let run = a.ok(&["graph", "run", &file, "--cluster", "--no-wait"]).trim().to_string();
    assert!(wait_until(DEADLINE, || log.exists()));
    let pid = b.pid("default");
    freeze(pid);
    let state = || step(&a, &run, "s")["state"].clone();
    assert!(wait_until(DEADLINE, || state() == "in_doubt"), "{}", state());
    signal(pid, Signal::CONT);
    assert!(wait_until(DEADLINE, || state() == "running"), "{}", state());
    std::fs::write(&go, "").unwrap();
    assert!(wait_until(DEADLINE, || state() == "completed"), "{}", state());
    let effects = std::fs::read_to_string(&log).unwrap().lines().count();
    assert_eq!((effects, &step(&a, &run, "s")["attempt"]), (1, &Value::from(1)));
}

#[test]
fn clocks_of_two_machines_differ_by_an_hour() {
    let Some(broker) = broker("clocks_of_two_machines_differ_by_an_hour") else { return };
    let (a, b) = (Home::new(), Home::new());
    join_executor(&a, "init", "a", &broker);
    // A time namespace: the clock that leases use is an hour ahead.
    let namespace = ["-r", "--time", "--boottime", "3600", "--monotonic", "3600", "--fork"];
    let mut start = b.hermetic.command("unshare");
    start.args(namespace).arg(NERVE).args(["server", "start"]);
    let started = b.run(start);
    if started.stderr.contains("unshare") {
        skip("clocks_of_two_machines_differ_by_an_hour", "the system allows no time namespaces");
        return;
    }
    started.assert_code(0);
    let url = broker.url();
    b.ok(&["cluster", "join", "team", "--broker", &url, "--name", "b", "--lease", "3", "--slots", "2"]);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = folder.path().join("g.yaml");
    let step = |id: &str, on: &str, after: &str| {
        format!(
            "  - {{id: {id}, node: sh, on: {on}, depends_on: [{after}], input: 'echo x >> {}'}}\n",
            log.display()
        )
    };
    let steps = [step("one", "a", ""), step("two", "b", "one"), step("three", "a", "two")].concat();
    std::fs::write(&file, format!("graph: g\nnodes: {{sh: {{type: bash}}}}\nsteps:\n{steps}")).unwrap();
    // The second run begins after a lease's time.
    for effects in [3, 6] {
        let done = a.nerve(&["graph", "run", file.to_str().unwrap(), "--cluster", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), effects);
        let age = || {
            let status = a.nerve(&["cluster", "status", "--json"]).json();
            let members = status["members"].as_array().unwrap();
            assert!(
                members.iter().all(|member| member["lease_age_ms"].as_u64().unwrap() < 60_000),
                "{status}"
            );
            members.iter().map(|member| member["member_for_ms"].as_u64().unwrap()).min()
        };
        assert!(wait_until(DEADLINE, || age().is_some_and(|age| age > 3_500)));
    }
    assert_eq!(members(&a), [("a".to_string(), 1), ("b".to_string(), 1)]);
}

#[test]
fn prompt_reaches_a_node_of_another_machine() {
    let Some(broker) = broker("prompt_reaches_a_node_of_another_machine") else { return };
    let (a, b) = (Home::new(), Home::with_shell());
    join_executor(&a, "init", "a", &broker);
    join(&b, "join", "b", &broker);
    wait_for_members(&a, &[("a", 1), ("b", 1)]);
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("g.yaml"), folder.path().join("log"));
    let steps = format!("[{{id: ask, node: sh, input: 'echo x >> {log:?}; echo $((6 * 7))', on: b}}]");
    std::fs::write(&file, format!("graph: ask\nsteps: {steps}\n")).unwrap();
    let file = file.to_str().unwrap();
    let run = a.ok(&["graph", "run", file, "--cluster", "--no-wait"]).trim().to_string();
    // The machine accepts no steps.
    assert!(wait_until(DEADLINE, || step(&a, &run, "ask")["state"] == "waiting"));
    assert_eq!(step(&a, &run, "ask")["attempt"], 0);
    // Its server follows the edited configuration.
    let config = b.hermetic.nerve_home().join("cluster.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("slots = 0", "slots = 1")).unwrap();
    let done = a.nerve(&["graph", "run", file, "--cluster", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["results"]["ask"]["text"].as_str().unwrap().trim(), "42");
    let shown = || a.nerve(&["cluster", "runs", &run, "--json"]).json();
    assert!(wait_until(DEADLINE, || shown()["state"] == "completed"), "{}", shown());
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "graph: bad\nsteps: [{id: ask, node: missing, input: x, on: b}]\n").unwrap();
    let failed = a.nerve(&["graph", "run", bad.to_str().unwrap(), "--cluster"]);
    assert!(failed.code == 1 && failed.stderr.contains("missing"), "{failed:?}");
}
