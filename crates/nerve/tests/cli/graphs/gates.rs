//! Gates: answered by another command, on the terminal, or by their default.

use std::process::Stdio;

use nerve_types::Size;

use crate::graphs::{begin, graph, wait_for_status, with_server, write};
use crate::harness::Home;
use crate::tty::Tty;

const SHIP: &str = "\
graph: ship
nodes: {t: {type: template, template: 'shipped: {{ input }}'}}
steps:
  - id: approve
    gate: {question: 'Ship it?', choices: ['yes', 'no', 'later'], default: 'no', timeout_seconds: 600}
  - id: ship
    node: t
    depends_on: [approve]
    input: '{{ steps.approve.choice }} by {{ steps.approve.by }}'
";

fn ship() -> Home {
    let home = with_server();
    write(&home, "ship.yaml", SHIP);
    home
}

#[test]
fn gate_is_answered_by_another_command() {
    let home = ship();
    for (run, choice) in [("r1", "later"), ("r2", "3")] {
        let waits = begin(&home, &["run", "ship.yaml", "--run-id", run]);
        wait_for_status(&home, run, "waiting");
        let shown = graph(&home, &["status", run]);
        assert!(shown.stdout.contains("approve asks: Ship it? [yes | no | later]"), "{shown:?}");
        shown.assert_stderr(0, &[&format!("nerve graph answer {run} --step approve CHOICE")]);
        graph(&home, &["answer", run, "never"]).assert_stderr(2, &["never"]);
        graph(&home, &["answer", run, "--step", "other", "yes"]).assert_stderr(3, &["other"]);
        let answer = home.ok(&["server", "graph", "answer", run, "--step", "approve", choice]);
        assert_eq!(answer, format!("run '{run}' continues with: later\n"));
        let done = waits.output();
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, "== approve\nlater\n== ship\nshipped: later by person\n"),
            "{done:?}"
        );
        let asks = format!(
            "ship/approve asks: Ship it? [yes | no | later]; answer with 'nerve graph answer {run} --step approve CHOICE'"
        );
        done.assert_stderr(0, &[&asks, "ship/approve: later (person)"]);
    }
    // A late second answer gets an error that says the gate was already answered.
    graph(&home, &["answer", "r1", "yes"]).assert_stderr(3, &["run 'r1'"]);
    graph(&home, &["answer", "r9", "yes"]).assert_stderr(3, &["run 'r9'"]);
}

#[test]
fn answer_needs_step_if_several_gates_wait() {
    let home = with_server();
    let text = "graph: two\nmax_parallel: 2\nsteps:\n  - {id: one, gate: {question: first}}\n  - {id: other, gate: {question: second}}\n";
    write(&home, "two.yaml", text);
    home.ok(&["server", "graph", "run", "two.yaml", "--run-id", "r1", "--detach"]);
    wait_for_status(&home, "r1", "waiting");
    graph(&home, &["answer", "r1", "yes"]).assert_stderr(2, &["2 gates", "--step"]);
    graph(&home, &["answer", "r1", "yes", "--step", "other"]).assert_stderr(0, &[]);
    graph(&home, &["answer", "r1", "no"]).assert_stderr(0, &[]);
    wait_for_status(&home, "r1", "completed");
    let results = graph(&home, &["resume", "r1", "--file", "two.yaml", "--json"]).json()["results"].take();
    assert_eq!((&results["one"]["choice"], &results["other"]["choice"]), (&"no".into(), &"yes".into()));
}

#[test]
fn unanswered_gate_takes_its_default() {
    let home = ship();
    write(&home, "soon.yaml", &SHIP.replace("600", "0.2"));
    let done = graph(&home, &["run", "soon.yaml"]);
    assert!(done.code == 0 && done.stdout.contains("shipped: no by default"), "{done:?}");
    write(&home, "never.yaml", &SHIP.replace("600", "0.2").replace(", default: 'no'", ""));
    let done = graph(&home, &["run", "never.yaml"]);
    assert_eq!(done.code, 4, "{done:?}");
}

/// Runs the command with stdin, stdout and stderr on a terminal.
fn open_tty(home: &Home, size: Size, args: &[&str]) -> Tty {
    Tty::with_stderr(home.command(&[&["server", "graph"], args].concat()), size)
}

#[test]
fn gate_prompts_on_the_terminal() {
    let home = ship();
    let mut tty = open_tty(&home, Size::new(80, 24), &["run", "ship.yaml", "--run-id", "r1"]);
    tty.expect("approve: Ship it?");
    tty.expect("2. no (default)");
    tty.expect("[no]:");
    tty.send("never\n");
    tty.expect("not one of the choices");
    tty.send("3\n");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("shipped: later by person");
    assert!(tty.text().contains("done      ship"), "{}", tty.text());
}

#[test]
fn enter_takes_default_and_remote_answer_is_shown() {
    let home = ship();
    let mut first = open_tty(&home, Size::new(40, 10), &["run", "ship.yaml", "--run-id", "r1"]);
    first.expect("[no]:");
    first.send("\n");
    assert_eq!(first.wait_for_exit(), Some(0));
    first.expect("shipped: no by person");

    let mut second = open_tty(&home, Size::new(80, 24), &["run", "ship.yaml", "--run-id", "r2"]);
    second.expect("[no]:");
    home.ok(&["server", "graph", "answer", "r2", "yes"]);
    second.expect("approve was answered by person: yes");
    assert_eq!(second.wait_for_exit(), Some(0));
    second.expect("shipped: yes by person");
}

#[test]
fn without_stdin_terminal_shows_how_to_answer() {
    let home = ship();
    let mut command = home.command(&["server", "graph", "run", "ship.yaml", "--run-id", "r1"]);
    command.stdin(Stdio::null());
    let mut tty = Tty::output_only(command, Size::new(120, 24));
    tty.expect("answer with 'nerve graph answer r1 --step approve CHOICE'");
    home.ok(&["server", "graph", "answer", "r1", "1"]);
    assert_eq!(tty.wait_for_exit(), Some(0));
}
