//! Runs that do not complete: failed, timed out, blocked, cancelled, left.

use nerve_testkit::harness::{KillOnDrop, signal};
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;

use crate::graphs::{UNTIL_GO, begin, go, graph, wait_for_status, wait_for_text, with_server, write};
use crate::harness::{DEADLINE, Home, NERVE};
use crate::tty::Tty;

fn interrupt(command: &KillOnDrop) {
    signal(command.0.id(), Signal::INT);
}

#[test]
fn failed_run_has_partial_results_and_exits_with_1() {
    let home = with_server();
    write(
        &home,
        "fails.yaml",
        "graph: fails\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: a, node: sh, input: 'echo one'}\n  \
        - {id: b, node: sh, input: 'echo oh no >&2; exit 3', depends_on: [a]}\n  - {id: c, node: sh, input: 'echo three', depends_on: [b]}\n",
    );
    let done = graph(&home, &["run", "fails.yaml", "--run-id", "r1", "--trace", "trace.json"]);
    done.assert_stderr(1, &["run 'r1'", "step 'b'", "exit code 3", "oh no", "nerve graph resume r1"]);
    assert_eq!(done.stdout, "one\n");
    assert!(crate::graphs::read(&home, "trace.json").contains("\"failed\""));
    let done = graph(&home, &["run", "fails.yaml", "--json"]);
    let data = done.json();
    assert_eq!(
        (done.code, &data["state"], &data["results"]["a"]["text"]),
        (1, &"failed".into(), &"one".into())
    );
    assert!(data["error"].as_str().unwrap().contains("exit code 3") && data["results"]["c"].is_null());
    let status = graph(&home, &["status", "r1"]);
    assert!(status.stdout.contains("failed") && status.stdout.contains("exit code 3"), "{status:?}");
    // An unknown node is detected when its step begins.
    write(&home, "late.yaml", "graph: late\nsteps: [{id: a, node: absent, input: x}]\n");
    graph(&home, &["run", "late.yaml"]).assert_stderr(1, &["warning: no node 'absent'"]);
    graph(&home, &["run", "late.yaml", "--dry-run"]).assert_stderr(0, &["warning: no node 'absent'"]);
    // The id of a run is used once.
    graph(&home, &["run", "fails.yaml", "--run-id", "r1"]).assert_stderr(1, &["run 'r1'"]);
}

#[test]
fn timeout_exits_with_4_and_dialog_with_5() {
    let home = with_server();
    write(
        &home,
        "slow.yaml",
        "graph: slow\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: a, node: sh, input: 'sleep 60', error_policy: {timeout_ms: 100}}\n",
    );
    graph(&home, &["run", "slow.yaml"]).assert_stderr(4, &["failed"]);
    write(
        &home,
        "asks.yaml",
        &format!(
            "graph: asks\nnodes: {{agent: {{type: pty, command: '{NERVE} mock-agent', profile: claude}}}}\nsteps: [{{id: a, node: agent, input: PERMIT}}]\n"
        ),
    );
    let done = graph(&home, &["run", "asks.yaml", "--keep-nodes"]);
    done.assert_stderr(5, &["1. Yes"]);
}

#[test]
fn ctrl_c_cancels_run_and_interrupts_agent() {
    let home = with_server();
    let agent = format!("{NERVE} mock-agent --word-delay 60000");
    home.ok(&["server", "node", "create", "me", "-c", &agent, "--profile", "claude"]);
    write(
        &home,
        "talk.yaml",
        "graph: talk\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: a, node: sh, input: 'echo one'}\n  - {id: b, node: me, input: SLOW, depends_on: [a]}\n",
    );
    let run = begin(&home, &["run", "talk.yaml", "--run-id", "r1"]);
    assert!(wait_until(DEADLINE, || home.info("me")["state"] == "busy"), "{:#}", home.info("me"));
    interrupt(&run);
    let done = run.output();
    done.assert_stderr(130, &["run 'r1'", "nerve graph resume r1"]);
    assert_eq!(done.stdout, "one\n");
    home.ok(&["server", "node", "wait", "me"]);
    let history = home.ok(&["server", "node", "history", "me"]);
    assert!(history.to_lowercase().contains("interrupt"), "{history}");
    wait_for_status(&home, "r1", "cancelled");
}

/// Writes `long.yaml`, whose only step appends to a log and then waits.
fn write_long_graph(home: &Home) {
    let step = format!("{{id: a, node: sh, input: 'echo on >> log; {UNTIL_GO}'}}");
    write(home, "long.yaml", &format!("graph: long\nnodes: {{sh: {{type: bash}}}}\nsteps: [{step}]\n"));
}

#[test]
fn cancel_ends_one_run_or_all_runs_of_a_graph() {
    let home = with_server();
    write_long_graph(&home);
    for (run, id) in [("r1", "r1"), ("r2", "long")] {
        let waits = begin(&home, &["run", "long.yaml", "--run-id", run]);
        wait_for_status(&home, run, "running");
        assert_eq!(home.ok(&["server", "graph", "cancel", id]), format!("cancelling run '{run}'\n"));
        waits.output().assert_stderr(130, &[&format!("run '{run}' was cancelled")]);
    }
    graph(&home, &["cancel", "r1"]).assert_stderr(3, &["r1"]);
}

#[test]
fn waiting_gate_can_be_cancelled() {
    let home = with_server();
    write(&home, "ask.yaml", "graph: ask\nsteps: [{id: ok, gate: {question: 'Go?'}}]\n");
    let run = begin(&home, &["run", "ask.yaml", "--run-id", "r1"]);
    wait_for_status(&home, "r1", "waiting");
    interrupt(&run);
    run.output().assert_code(130);
}

#[test]
fn ctrl_c_in_watch_leaves_the_run_alone() {
    let home = with_server();
    write_long_graph(&home);
    home.ok(&["server", "graph", "run", "long.yaml", "--detach", "--run-id", "r1"]);
    wait_for_text(&home, "log", "on");
    let mut tty =
        Tty::output_only(home.command(&["server", "graph", "status", "r1", "--watch"]), Size::new(100, 20));
    tty.expect("running   a");
    tty.signal(Signal::INT);
    assert_eq!(tty.wait_for_exit(), Some(130));
    tty.expect("interrupted; run 'r1' continues");
    go(&home);
    wait_for_status(&home, "r1", "completed");
}

#[test]
fn second_ctrl_c_exits_at_once() {
    let home = with_server();
    let agent = format!("{NERVE} mock-agent --ignore-interrupt");
    write(
        &home,
        "hang.yaml",
        &format!(
            "graph: hang\nnodes: {{agent: {{type: pty, command: '{agent}', profile: claude}}}}\nsteps: [{{id: a, node: agent, input: HANG}}]\n"
        ),
    );
    let mut tty = Tty::output_only(
        home.command(&["server", "graph", "run", "hang.yaml", "--run-id", "r1"]),
        Size::new(100, 20),
    );
    tty.expect("running   a");
    let busy = || {
        home.nerve(&["server", "node", "info", "agent", "--session", "r1", "--json"]).stdout.contains("busy")
    };
    assert!(wait_until(DEADLINE, busy));
    tty.signal(Signal::INT);
    tty.expect("Ctrl+C again to exit immediately");
    tty.signal(Signal::INT);
    assert_eq!(tty.wait_for_exit(), Some(130));
}
