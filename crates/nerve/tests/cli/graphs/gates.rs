//! Gates: answered by another command, on the terminal, by nobody.

use std::process::Stdio;

use nerve_term::event::Size;

use crate::graphs::{begin, ended, graph, reaches, with_server, write};
use crate::harness::Home;
use crate::tty::Seat;

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
        reaches(&home, run, "waiting");
        let shown = graph(&home, &["status", run]);
        assert!(shown.stdout.contains("approve asks: Ship it? [yes / no / later]"), "{shown:?}");
        shown.says(0, &[&format!("nerve server graph answer {run} --step approve CHOICE")]);
        graph(&home, &["answer", run, "never"]).says(2, &["never"]);
        graph(&home, &["answer", run, "--step", "other", "yes"]).says(3, &["other"]);
        let answer = home.ok(&["server", "graph", "answer", run, "--step", "approve", choice]);
        assert_eq!(answer, format!("run '{run}' goes on with: later\n"));
        let done = ended(waits);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, "== approve\nlater\n== ship\nshipped: later by person\n"),
            "{done:?}"
        );
        let asks = format!(
            "gate approve asks: Ship it? [yes / no / later] (answer with 'nerve server graph answer {run} --step approve CHOICE')"
        );
        done.says(0, &[&asks, "gate approve answered by person: later"]);
    }
    // Two people answer: the second is told that the first was quicker, not that there is no such run.
    graph(&home, &["answer", "r1", "yes"]).says(3, &["run 'r1' asks nothing: it is completed"]);
    graph(&home, &["answer", "r9", "yes"]).says(3, &["no run 'r9'"]);
}

#[test]
fn answer_needs_step_if_several_gates_wait() {
    let home = with_server();
    let text = "graph: two\nmax_parallel: 2\nsteps:\n  - {id: one, gate: {question: first}}\n  - {id: other, gate: {question: second}}\n";
    write(&home, "two.yaml", text);
    home.ok(&["server", "graph", "run", "two.yaml", "--run-id", "r1", "--detach"]);
    reaches(&home, "r1", "waiting");
    graph(&home, &["answer", "r1", "yes"]).says(2, &["2 gates wait: one, other", "--step"]);
    graph(&home, &["answer", "r1", "yes", "--step", "other"]).says(0, &[]);
    graph(&home, &["answer", "r1", "no"]).says(0, &[]);
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

/// Everything of the command is on the terminal, and somebody sits in front of it.
fn seat(home: &Home, size: Size, args: &[&str]) -> Seat {
    Seat::with_stderr(home.command(&[&["server", "graph"], args].concat()), size)
}

#[test]
fn gate_prompts_on_the_terminal() {
    let home = ship();
    let mut seat = seat(&home, Size::new(80, 24), &["run", "ship.yaml", "--run-id", "r1"]);
    seat.sees("approve: Ship it?");
    seat.sees("2. no (default)");
    seat.sees("[no]:");
    seat.types("never\n");
    seat.sees("none of the choices");
    seat.types("3\n");
    assert_eq!(seat.left(), Some(0));
    seat.sees("shipped: later by person");
    assert!(seat.text().contains("done      ship"), "{}", seat.text());
}

#[test]
fn enter_takes_default_and_remote_answer_is_shown() {
    let home = ship();
    let mut first = seat(&home, Size::new(40, 10), &["run", "ship.yaml", "--run-id", "r1"]);
    first.sees("[no]:");
    first.types("\n");
    assert_eq!(first.left(), Some(0));
    first.sees("shipped: no by person");

    let mut second = seat(&home, Size::new(80, 24), &["run", "ship.yaml", "--run-id", "r2"]);
    second.sees("[no]:");
    home.ok(&["server", "graph", "answer", "r2", "yes"]);
    second.sees("approve was answered by person: yes");
    assert_eq!(second.left(), Some(0));
    second.sees("shipped: yes by person");
}

#[test]
fn without_stdin_terminal_shows_how_to_answer() {
    let home = ship();
    let mut command = home.command(&["server", "graph", "run", "ship.yaml", "--run-id", "r1"]);
    command.stdin(Stdio::null());
    let mut seat = Seat::watched(command, Size::new(120, 24));
    seat.sees("answer with 'nerve server graph answer r1 --step approve CHOICE'");
    home.ok(&["server", "graph", "answer", "r1", "1"]);
    assert_eq!(seat.left(), Some(0));
}
