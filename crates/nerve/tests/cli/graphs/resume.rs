//! Runs whose server is killed in the middle.

use std::fs;

use nerve_testkit::wait_until;

use crate::graphs::{UNTIL_GO, begin, go, graph, read, wait_for_status, wait_for_text, with_server, write};
use crate::harness::{DEADLINE, Home, NERVE};

/// Returns a graph of three steps that each write a line to `log`. The second one waits for the file `go`.
fn three(more: &str) -> String {
    format!(
        "graph: three\n{more}nodes: {{sh: {{type: bash}}}}\nsteps:\n  - {{id: a, node: sh, input: 'echo a >> log; echo one'}}\n  \
        - {{id: b, node: sh, input: 'echo b >> log; {UNTIL_GO}; echo {{{{ steps.a.text }}}} two', depends_on: [a]}}\n  \
        - {{id: c, node: sh, input: 'echo c >> log; echo {{{{ steps.b.text }}}} three', depends_on: [b]}}\n"
    )
}

/// Starts a run of [`three`], kills the server during the second step, and starts a new one.
fn killed(more: &str) -> Home {
    let home = with_server();
    write(&home, "three.yaml", &three(more));
    let run = begin(&home, &["run", "three.yaml", "--run-id", "r1"]);
    wait_for_text(&home, "log", "b\n");
    // A step that is not in the journal when the server is killed would run again.
    let journal = home.hermetic.nerve_home().join("runs/default/r1.jsonl");
    let known = || fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"step\":\"b\""));
    assert!(wait_until(DEADLINE, known));
    home.kill_server("default");
    let done = run.output();
    done.assert_stderr(1, &["server 'default'", "run 'r1'", "nerve graph resume r1"]);
    home.ok(&["server", "start"]);
    home
}

fn count(home: &Home, step: &str) -> usize {
    read(home, "log").lines().filter(|line| *line == step).count()
}

#[test]
fn run_of_killed_server_resumes_unfinished_steps() {
    let home = killed("");
    let info = wait_for_status(&home, "r1", "interrupted");
    assert_eq!(info["done_steps"], 1, "{info:#}");
    assert!(graph(&home, &["list", "--runs"]).stdout.contains("interrupted"));
    graph(&home, &["status", "r1"]).assert_stderr(0, &["nerve graph resume r1"]);
    go(&home);
    let done = graph(&home, &["resume", "r1", "--trace", "trace.json"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "== a\none\n== b\none two\n== c\none two three\n"),
        "{done:?}"
    );
    done.assert_stderr(
        0,
        &["three resumed: 3 steps, run r1", "three/a reused", "three/b started", "three completed"],
    );
    assert_eq!((count(&home, "a"), count(&home, "b"), count(&home, "c")), (1, 2, 1));
    assert!(read(&home, "trace.json").contains("\"completed\""));
    graph(&home, &["resume", "r1"]).assert_stderr(2, &["completed"]);
    graph(&home, &["resume", "r9"]).assert_stderr(3, &["run 'r9'"]);
}

#[test]
fn edited_graph_reuses_unchanged_steps() {
    let home = killed("");
    go(&home);
    write(&home, "edited.yaml", &three("").replace("two'", "zwei'"));
    let done = graph(&home, &["resume", "r1", "--file", "edited.yaml", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["results"]["c"]["text"], "one zwei three");
    assert_eq!(count(&home, "a"), 1);
    // Resumes the completed run with another edit: only the last step has changed.
    write(&home, "again.yaml", &three("").replace("two'", "zwei'").replace("three'", "drei'"));
    let done = graph(&home, &["resume", "r1", "--file", "again.yaml"]);
    assert!(done.stdout.contains("one zwei drei"), "{done:?}");
    assert_eq!((count(&home, "a"), count(&home, "b"), count(&home, "c")), (1, 2, 2));
    write(&home, "wrong.yaml", "graph: three\nsteps: [{id: a}]\n");
    graph(&home, &["resume", "r1", "--file", "wrong.yaml"]).assert_stderr(2, &["wrong.yaml:2:"]);
}

#[test]
fn auto_resume_graph_is_resumed_by_next_server() {
    let home = killed("on_restart: resume\n");
    go(&home);
    let info = wait_for_status(&home, "r1", "completed");
    assert_eq!(info["done_steps"], 3, "{info:#}");
    assert_eq!((count(&home, "a"), count(&home, "c")), (1, 1));
}

#[test]
fn run_that_crashed_twice_is_not_resumed_again() {
    let home = killed("on_restart: resume\n");
    assert!(wait_until(DEADLINE, || count(&home, "b") == 2));
    let journal = home.hermetic.nerve_home().join("runs/default/r1.jsonl");
    let is_resumed = || fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"resumed\""));
    assert!(wait_until(DEADLINE, is_resumed));
    home.kill_server("default");
    home.ok(&["server", "start"]);
    let log = home.hermetic.nerve_home().join("logs/default.log");
    let is_reported = || fs::read_to_string(&log).is_ok_and(|text| text.contains("nerve graph resume r1"));
    assert!(wait_until(DEADLINE, is_reported));
    wait_for_status(&home, "r1", "interrupted");
    go(&home);
    assert!(home.ok(&["server", "graph", "resume", "r1"]).contains("one two three"));
}

#[test]
fn failed_run_can_be_resumed() {
    let home = with_server();
    write(
        &home,
        "needs.yaml",
        "graph: needs\nnodes: {sh: {type: bash}}\nsteps:\n  - {id: a, node: sh, input: 'echo a >> log; echo one'}\n  \
        - {id: b, node: sh, input: 'cat wanted', depends_on: [a]}\n",
    );
    graph(&home, &["run", "needs.yaml", "--run-id", "r1"]).assert_stderr(1, &["wanted"]);
    write(&home, "wanted", "here\n");
    assert_eq!(home.ok(&["server", "graph", "resume", "r1"]), "== a\none\n== b\nhere\n");
    assert_eq!(count(&home, "a"), 1);
}

#[test]
fn interrupted_agent_step_needs_a_decision() {
    let home = with_server();
    let agent = format!("{NERVE} mock-agent --word-delay 60000");
    home.ok(&["server", "node", "create", "me", "-c", &agent, "--profile", "claude"]);
    write(&home, "talk.yaml", "graph: talk\nsteps: [{id: say, node: me, input: SLOW}]\n");
    let run = begin(&home, &["run", "talk.yaml", "--run-id", "r1"]);
    assert!(wait_until(DEADLINE, || home.info("me")["state"] == "busy"));
    home.kill_server("default");
    run.output().assert_stderr(1, &["connection"]);
    home.ok(&["server", "start"]);
    home.ok(&["server", "graph", "resume", "r1", "--detach"]);
    let info = wait_for_status(&home, "r1", "waiting");
    assert_eq!(info["gates"][0]["step_id"], "say", "{info:#}");
    home.ok(&["server", "graph", "cancel", "r1"]);
    wait_for_status(&home, "r1", "cancelled");
}

#[test]
fn stopped_server_says_run_can_be_resumed() {
    let home = with_server();
    write(&home, "three.yaml", &three(""));
    let run = begin(&home, &["run", "three.yaml", "--run-id", "r1"]);
    wait_for_text(&home, "log", "b\n");
    home.ok(&["server", "stop"]);
    run.output().assert_stderr(1, &["run 'r1'", "nerve graph resume r1"]);
    home.ok(&["server", "start"]);
    go(&home);
    assert!(home.ok(&["server", "graph", "resume", "r1"]).contains("one two three"));
}

#[test]
fn command_does_not_outlive_killed_server() {
    let home = with_server();
    let text = format!(
        "graph: g\nnodes: {{sh: {{type: bash}}}}\nsteps: [{{id: a, node: sh, input: 'echo $$ > pid; {UNTIL_GO}'}}]\n"
    );
    write(&home, "g.yaml", &text);
    let run = begin(&home, &["run", "g.yaml", "--run-id", "r1"]);
    let pid = || read(&home, "pid").trim().parse::<u32>().ok();
    assert!(wait_until(DEADLINE, || home.hermetic.work().join("pid").exists() && pid().is_some()));
    let shell = std::path::PathBuf::from(format!("/proc/{}/cmdline", pid().unwrap()));
    assert!(!fs::read(&shell).unwrap().is_empty());
    home.kill_server("default");
    // Gone, or a zombie that has not been reaped yet.
    assert!(wait_until(DEADLINE, || fs::read(&shell).unwrap_or_default().is_empty()), "{}", shell.display());
    run.output();
}

#[test]
fn nodes_of_a_run_get_the_environment_of_the_shell() {
    let home = with_server();
    let graph = format!(
        "graph: env\nnodes: {{once: {{type: bash}}, sh: {{type: pty, command: bash --norc}}}}\nsteps:\n  \
        - {{id: a, node: once, input: 'echo $COLOUR'}}\n  \
        - {{id: b, node: sh, input: '{UNTIL_GO}; echo $COLOUR', depends_on: [a], on_resume: rerun}}\n"
    );
    write(&home, "env.yaml", &graph);
    let mut command = home.command(&["server", "graph", "run", "env.yaml", "--run-id", "r1", "--no-wait"]);
    command.env("COLOUR", "red").env("MY_TOKEN", "secret-value");
    assert_eq!(home.run(command).code, 0);
    let journal = home.hermetic.nerve_home().join("runs/default/r1.jsonl");
    let is_first_done = || fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"text\":\"red\""));
    assert!(wait_until(DEADLINE, is_first_done), "{:?}", fs::read_to_string(&journal));
    home.kill_server("default");
    home.ok(&["host", "stop", "--all"]);
    home.ok(&["server", "start"]);
    go(&home);
    // The resumed run gets the environment of the shell that resumes it.
    let mut command = home.command(&["server", "graph", "resume", "r1"]);
    command.env("COLOUR", "blue");
    let done = home.run(command);
    assert_eq!((done.code, done.stdout.as_str()), (0, "== a\nred\n== b\nblue\n"), "{done:?}");
    let stored = fs::read_to_string(&journal).unwrap();
    assert!(!stored.contains("secret-value") && !stored.contains("shell_env"), "{stored}");
}
