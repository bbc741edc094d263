//! `nerve repl` and `nerve server repl`: through pipes, at a terminal, and under tmux.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nerve_testkit::harness::{CommandOutput, TmuxServer, has_descendant, signal};
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;

use crate::harness::{Home, NERVE};
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 100, rows: 30 };

const GATED: &str = "\
graph: gated
steps:
  - {id: first, node: sh, input: echo one}
  - {id: ship, gate: {question: Ship it?, choices: [yes, no]}, depends_on: [first]}
  - {id: last, node: sh, input: 'echo {{ steps.ship.choice }} after {{ steps.first }}', depends_on: [ship]}
";

/// Commands on standard input.
fn piped(home: &Home, args: &[&str], commands: &[&str]) -> CommandOutput {
    home.nerve_with(args, &(commands.join("\n") + "\n"))
}

/// Opens the REPL on a terminal, including stderr.
fn open_tty(home: &Home, args: &[&str]) -> Tty {
    let mut command = home.hermetic.command("/bin/sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1", NERVE]).args(args);
    let tty = Tty::spawn(command, SIZE);
    tty.expect("'help' lists the commands");
    at_prompt(&tty);
    tty
}

/// Waits until a line can be edited. (Before that the terminal takes Ctrl-D for the end of a line, termios(3).)
#[track_caller]
fn at_prompt(tty: &Tty) {
    assert!(wait_until(LIMIT, || tty.text().trim_end().ends_with('>')), "{}", tty.text());
}

fn file(home: &Home, name: &str, text: &str) -> String {
    let path = home.hermetic.work().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn script_runs_and_its_nodes_are_stopped() {
    let home = Home::new();
    let commands = file(
        &home,
        "commands",
        "# a comment\nnode create sh -b bash\nnode create term -c 'bash --norc'\n@sh echo \"two  spaces\" 'and quotes'\n\
         send term \"\"\"\necho a block\n\"\"\"\nread term 3\nhistory term 1\n",
    );
    let done = home.nerve(&["repl", &commands]);
    done.assert_stderr(0, &["stopped nodes sh, term"]);
    for words in ["node 'sh' created", "two  spaces and quotes\n", "\na block\n", "SEND @"] {
        assert!(done.stdout.contains(words), "{done:?} lacks {words:?}");
    }
    assert!(home.hosts().is_empty(), "nodes run in the process itself");
    assert!(home.hermetic.nerve_home().join("history/repl/term.jsonl").exists());
}

#[test]
fn failed_command_prints_reason_and_silent_one_nothing() {
    let home = Home::new();
    let done = piped(&home, &["repl"], &["node create sh -b bash", "@sh true", "send sh true"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "node 'sh' created\n"), "{done:?}");
    let done = piped(&home, &["repl"], &["node create sh -b bash", "@sh echo one; echo no tea >&2; exit 4"]);
    done.assert_stderr(1, &["exit code 4", "no tea"]);
    assert_eq!(done.stdout, "node 'sh' created\none\n");
}

#[test]
fn first_error_ends_script_unless_keep_going() {
    let home = Home::new();
    let text = "node create sh -b bash\n\n@sh \\\necho one\nnod list\n@sh echo two\n@absent hello\n";
    let commands = file(&home, "commands", text);
    let done = home.nerve(&["repl", &commands]);
    done.assert_stderr(1, &["commands:5", "'nod'", "'node'", "stopped node sh"]);
    assert!(done.stdout.contains("one") && !done.stdout.contains("two"), "{done:?}");
    let done = home.nerve(&["repl", &commands, "--keep-going"]);
    done.assert_stderr(1, &["commands:5: ", "commands:7: ", "absent"]);
    assert!(done.stdout.contains("two"), "{done:?}");

    piped(&home, &["repl"], &["send sh \"\"\"", "never closed"]).assert_stderr(1, &["standard input:1"]);
    home.nerve(&["repl", "no-such-file"]).assert_stderr(3, &["no-such-file"]);
    home.nerve(&["server", "repl"]).assert_stderr(3, &["server 'default'"]);
}

#[test]
fn graph_is_built_checked_run_and_saved() {
    let home = Home::new();
    let done = piped(
        &home,
        &["repl"],
        &[
            "node create sh -b bash",
            "graph new hello",
            "step add a sh 'echo A-{{ input.task }}'",
            "step add b sh 'echo B-{{ steps.a }}' --after a",
            "step add c sh 'echo C'",
            "step add x absent hello",
            "chain b c x",
            "validate",
            "step remove x",
            "dry",
            "show mermaid",
            "run task=one",
            "result b",
            "graph save hello.yaml",
            "graph save hello.json",
            "graph new other",
            "graph load hello.json",
            "show yaml",
            "runs",
        ],
    );
    done.assert_stderr(0, &["no node 'absent' in the graph or the session"]);
    for words in
        ["3 steps", "flowchart TD", "\nC\n", "\nB-A-one\n", "completed", "graph: hello\nsteps:\n", "3  c"]
    {
        assert!(done.stdout.contains(words), "{done:?} lacks {words:?}");
    }
    // Saved files are valid graph files.
    for name in ["hello.yaml", "hello.json"] {
        let path = home.hermetic.work().join(name);
        home.ok(&["server", "graph", "validate", path.to_str().unwrap()]);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o600, 0o600, "{name} has mode {mode:o}");
    }
    // The journal of the run is kept.
    assert_eq!(fs::read_dir(home.hermetic.nerve_home().join("runs/repl")).unwrap().count(), 1);
}

#[test]
fn invalid_or_failing_graph_is_reported() {
    let home = Home::new();
    let run = |commands: &[&str]| piped(&home, &["repl"], commands);
    run(&["validate"]).assert_stderr(1, &["'graph new ID'"]);
    run(&["graph new g", "run"]).assert_stderr(1, &["step add"]);
    run(&["graph new g", "step add a sh x --after z"]).assert_stderr(1, &["step 'z'"]);
    run(&["graph new g", "step add a sh '{{ steps.b }}'", "run"])
        .assert_stderr(1, &["steps[0].input", "step \"b\""]);
    run(&["graph new g", "step add a sh x", "graph save no/such/folder.yaml"])
        .assert_stderr(1, &["no/such/folder.yaml"]);
    let failing = ["node create sh -b bash", "graph new g", "step add a sh 'exit 3'", "run", "sessions"];
    let done = run(&failing);
    done.assert_stderr(1, &["standard input:4: "]);
    assert!(!done.stdout.contains("SESSION"), "{done:?}");
    let wrong = file(&home, "wrong.yaml", "graph: g\nsteps:\n  - id: a\n    nod: sh\n");
    home.nerve(&["repl", &wrong]).assert_stderr(2, &["wrong.yaml:4:5"]);
}

#[test]
fn answered_gate_resumes_the_run() {
    let home = Home::new();
    let gated = file(&home, "gated.yaml", GATED);
    let done = piped(
        &home,
        &["repl", &gated],
        &["node create sh -b bash", "run", "gate 2", "events on", "run --detach", "follow", "gate no"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("ship asks: Ship it? [yes | no]\n"), "{done:?}");
    assert!(done.stdout.contains("no after one\n"), "{done:?}");
    assert!(done.stderr.contains("gated/first started on sh"), "{done:?}");

    let left = piped(&home, &["repl", &gated], &["node create sh -b bash", "run"]);
    left.assert_stderr(1, &["'gate CHOICE'", "cancelled run r-", "stopped node sh"]);
    let bad = piped(&home, &["repl", &gated], &["node create sh -b bash", "run", "gate maybe"]);
    bad.assert_stderr(1, &["maybe"]);
    piped(&home, &["repl"], &["gate yes"]).assert_stderr(1, &["gate"]);
}

#[test]
fn server_repl_takes_a_server_name() {
    let home = Home::new();
    home.ok(&["server", "start", "work"]);
    let done = piped(&home, &["server", "repl", "work"], &["node create sh -b bash", "@sh echo hello"]);
    assert_eq!((done.code, done.stdout.contains("hello\n")), (0, true), "{done:?}");
    home.nerve(&["server", "repl", "other"]).assert_stderr(3, &["server 'other'"]);
    // A file of that name is a script.
    let commands = file(&home, "work", "node list\nbrew coffee\n");
    let script = home.nerve(&["server", "repl", &commands, "--server", "work"]);
    script.assert_stderr(1, &["work:2: ", "brew"]);
    home.ok(&["server", "stop", "work"]);
}

#[test]
fn old_dag_commands_work_with_a_warning() {
    let home = Home::new();
    let graph = file(&home, "g.yaml", "graph: g\nsteps:\n  - {id: a, node: sh, input: echo one}\n");
    let load = format!("dag load {graph}");
    let done = piped(&home, &["repl"], &["node create sh -b bash", &load, "dag run"]);
    done.assert_stderr(0, &["'dag' is deprecated, use 'graph'"]);
    assert!(done.stdout.contains("one\n"), "{done:?}");
}

#[test]
fn repl_on_server_stops_only_its_own_nodes() {
    let home = Home::with_shell();
    let nodes = || home.nerve(&["server", "node", "list", "--json"]).json()["nodes"].clone();
    let done = piped(
        &home,
        &["server", "repl"],
        &["node create mine -b bash", "@sh echo hello", "@mine echo there"],
    );
    done.assert_stderr(0, &["stopped node mine"]);
    assert!(done.stdout.contains("hello\n") && done.stdout.contains("there\n"), "{done:?}");
    assert_eq!(nodes(), serde_json::json!(["sh"]));

    piped(&home, &["server", "repl"], &["node create mine -b bash", "exit --keep", "node stop sh"])
        .assert_stderr(0, &["keep running"]);
    assert_eq!(nodes(), serde_json::json!(["mine", "sh"]));
    piped(&home, &["repl"], &["node create x -b bash", "exit --keep"])
        .assert_stderr(1, &["--keep", "stopped node x"]);

    // A node stopped by a command no longer belongs to the REPL.
    let done = piped(&home, &["server", "repl"], &["node create a -b bash", "node stop a"]);
    assert!(done.code == 0 && !done.stderr.contains("stopped node"), "{done:?}");
    let done = piped(
        &home,
        &["server", "repl"],
        &["session work", "session", "node create a -b bash", "node list", "sessions"],
    );
    done.assert_stderr(0, &["stopped node work/a"]);
    assert!(done.stdout.contains("session 'work' created"), "{done:?}");
    // An error of the server is passed on.
    let fork = piped(&home, &["server", "repl"], &["node fork sh copy"]);
    assert!(fork.code == 1 && !fork.stderr.is_empty(), "{fork:?}");
}

#[test]
fn blocked_agent_is_answered_as_hinted() {
    let home = Home::new();
    let create = format!("node create me -c '{NERVE} mock-agent' --profile claude");
    let done = piped(
        &home,
        &["repl", "--keep-going"],
        &[&create, "@me PERMIT", "answer me 1", "wait me", "@me again"],
    );
    done.assert_stderr(1, &["standard input:2: ", "1. Yes", "answer me NUMBER"]);
    assert!(!done.stderr.contains("nerve answer"), "{done:?}");
    assert!(done.stdout.contains("END-OF-TOOL") && done.stdout.contains("You said: again"), "{done:?}");
}

#[test]
fn tab_completes_commands_and_names() {
    let home = Home::with_shell();
    let mut tty = open_tty(&home, &["server", "repl"]);
    tty.send("node int\t");
    tty.expect("> node interrupt");
    tty.send("s\t");
    tty.expect("> node interrupt sh");
    tty.send("\x15@s\techo com$((1+1))pleted\r");
    tty.expect("@sh echo");
    tty.expect("com2pleted");
    // The REPL refreshes its names, so new nodes complete.
    home.ok(&["server", "node", "create", "other", "-b", "bash"]);
    assert!(
        wait_until(LIMIT, || {
            tty.send("\x15why oth\t");
            wait_until(std::time::Duration::from_millis(500), || tty.text().contains("> why other"))
        }),
        "{}",
        tty.text()
    );
    fs::write(home.hermetic.work().join("review.yaml"), GATED).unwrap();
    tty.send("\x15graph load rev\t\r");
    tty.expect("graph 'gated' is now current");
    tty.send("chain fi\tla\t\r");
    tty.expect("chain first last");
    at_prompt(&tty);
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn events_appear_above_the_edited_line() {
    let home = Home::with_shell();
    let mut tty = open_tty(&home, &["server", "repl"]);
    tty.send("node li");
    tty.expect("> node li");
    home.ok(&["server", "node", "create", "other", "-b", "bash"]);
    tty.expect("· other created");
    let shown = tty.text();
    let (event, line) = (shown.find("· other").unwrap(), shown.rfind("> node li").unwrap());
    assert!(event < line, "{shown}");
    tty.send("st\r");
    tty.expect("> node list");
    tty.expect("STATE");
    tty.send("events off\r");
    tty.send("node li");
    assert!(wait_until(LIMIT, || tty.text().trim_end().ends_with("> node li")), "{}", tty.text());
    home.ok(&["server", "node", "stop", "other"]);
    tty.send("\x15sessions\r");
    tty.expect("GRAPHS");
    assert!(!tty.text().contains("other stopped"), "{}", tty.text());
    at_prompt(&tty);
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn ctrl_c_clears_line_interrupts_turn_and_twice_exits() {
    let home = Home::new();
    let mut tty = open_tty(&home, &["repl"]);
    tty.send("node create sh -c 'bash --norc'\r");
    tty.expect("sh is ready");
    tty.send("@sh sleep 1000\r");
    tty.expect("@sh sleep 1000");
    // The turn runs: the shell has a child.
    assert!(wait_until(LIMIT, || has_descendant(tty.child.id(), "sleep")), "{}", tty.text());
    tty.signal(Signal::INT);
    tty.expect("interrupting sh");
    tty.expect("was interrupted");
    // A command typed ahead while the previous one runs is not lost.
    let go = home.hermetic.work().join("go");
    tty.send(&format!(
        "@sh until [ -e {} ]; do sleep 0.01; done; echo first\r@sh echo second\r",
        go.display()
    ));
    fs::write(go, "").unwrap();
    tty.expect("\nfirst");
    tty.expect("\nsecond");
    tty.send("half a line");
    tty.expect("> half a line");
    tty.send("\x03");
    at_prompt(&tty);
    assert!(!tty.text().contains("again to exit"), "{}", tty.text());
    tty.send("\x03");
    tty.expect("Ctrl-C again to exit; this stops 1 node");
    tty.send("events\r");
    tty.expect("\non");
    tty.send("\x03");
    assert!(wait_until(LIMIT, || tty.text().matches("again to exit").count() == 2), "{}", tty.text());
    tty.send("\x03");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("stopped node sh");
}

#[test]
fn interrupted_script_stops_its_nodes() {
    let home = Home::new();
    let commands = file(&home, "commands", "node create sh -b bash\n@sh sleep 1000\nsessions\n");
    let mut repl = home.command(&["repl", "--keep-going", &commands]);
    let repl = repl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_until(LIMIT, || has_descendant(repl.id(), "sleep")), "nothing runs");
    signal(repl.id(), Signal::INT);
    let pid = repl.id();
    let done = CommandOutput::new(&repl.wait_with_output().unwrap());
    done.assert_stderr(130, &["interrupting sh", "commands:2:", "stopped node sh"]);
    assert!(!done.stdout.contains("SESSION") && !has_descendant(pid, "sleep"), "{done:?}");
}

#[test]
fn line_history_is_private_and_persistent() {
    let home = Home::new();
    let kept = home.hermetic.nerve_home().join("repl_history");
    let mut first = open_tty(&home, &["repl"]);
    first.send("node create sh -b bash\r");
    first.expect("created");
    first.send("@sh\recho one\recho two\r\"\"\"\r");
    first.expect("\none\ntwo");
    first.send(" sessions\r");
    first.expect("GRAPHS");
    at_prompt(&first);
    first.send("\x04");
    assert_eq!(first.wait_for_exit(), Some(0));
    let text = fs::read_to_string(&kept).unwrap();
    assert!(text.contains("node create sh -b bash") && !text.contains("sessions"), "{text}");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);

    let mut second = open_tty(&home, &["repl"]);
    // Up through the rows of the prompt to the previous history line.
    second.send(&"\x1b[A".repeat(6));
    second.expect("> node create sh -b bash");
    second.send("\r");
    second.expect("created");
    second.send("exit\r");
    assert_eq!(second.wait_for_exit(), Some(0));
    second.expect("stopped node sh");
}

#[test]
fn terminated_repl_stops_nodes_and_restores_terminal() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let mut tty = open_tty(&home, &["server", "repl"]);
    tty.send("node create sh -c 'bash --norc'\r");
    tty.expect("sh is ready");
    tty.send("half");
    tty.expect("> half");
    tty.signal(Signal::TERM);
    assert_eq!(tty.wait_for_exit(), Some(130));
    tty.expect("stopped node sh");
    assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], serde_json::json!([]));
}

#[test]
fn lost_server_is_reported_and_repl_can_exit() {
    let home = Home::with_shell();
    let mut tty = open_tty(&home, &["server", "repl"]);
    home.ok(&["server", "stop"]);
    tty.expect("server 'default' closed the connection");
    tty.send("node list\r");
    tty.expect("error: ");
    tty.send("exit\r");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn graph_is_watched_cancelled_and_answered_on_terminal() {
    let home = Home::new();
    let gated = file(&home, "gated.yaml", GATED);
    let mut tty = open_tty(&home, &["repl", &gated]);
    tty.send("node create sh -b bash\r");
    tty.expect("created");
    tty.send("run\r");
    tty.expect("gated/first completed");
    tty.expect("the run waits");
    tty.send("gate yes\r");
    tty.expect("\nyes after one");
    tty.send("graph new slow\r");
    tty.expect("graph 'slow'");
    tty.send("step add a sh 'sleep 1000'\rrun\r");
    tty.expect("slow/a started on sh");
    assert!(wait_until(LIMIT, || has_descendant(tty.child.id(), "sleep")), "{}", tty.text());
    tty.signal(Signal::INT);
    tty.expect("cancelling run");
    tty.expect("slow cancelled");
    tty.send("run --detach\r");
    tty.expect("started; wait");
    at_prompt(&tty);
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("cancelled run r-");
    assert!(wait_until(LIMIT, || !has_descendant(std::process::id(), "sleep")));
}

/// A terminal that turns keys into signals, as users have it.
#[test]
fn keys_work_under_tmux() {
    let home = Home::new();
    let Some(tmux) = TmuxServer::new("keys_work_under_tmux", &home.hermetic, "tmux.sock") else { return };
    // Keys that arrive while no line is edited do not reach the editor.
    let wait_for_prompt = || {
        assert!(wait_until(LIMIT, || tmux.screen().trim_end().ends_with('>')), "{}", tmux.screen());
    };
    tmux.ok(&["new-session", "-d", "-x", "100", "-y", "30", "bash --norc --noprofile"]);
    tmux.press(&[&format!("{NERVE} repl"), "Enter"]);
    tmux.expect("nerve>");
    let agent = format!("{NERVE} mock-agent --session-id keys");
    tmux.press(&["node cr", "Tab", &format!("me -c '{agent}' --profile claude"), "Enter"]);
    tmux.expect("me is ready");
    wait_for_prompt();
    tmux.press(&["@m", "Tab", "hello", "Enter"]);
    tmux.expect("You said: hello");
    wait_for_prompt();
    tmux.press(&["@me STALL 600", "Enter"]);
    // The turn runs: the agent has its prompt.
    let projects = home.hermetic.home().join(".claude/projects");
    let has_prompt = || {
        let folders = fs::read_dir(&projects).into_iter().flatten().flatten();
        let mut transcripts = folders.map(|folder| fs::read_to_string(folder.path().join("keys.jsonl")));
        transcripts.any(|text| text.is_ok_and(|text| text.contains("STALL 600")))
    };
    assert!(wait_until(LIMIT, has_prompt), "{}", tmux.screen());
    tmux.press(&["C-c"]);
    tmux.expect("interrupting me");
    tmux.expect("was interrupted");
    wait_for_prompt();
    tmux.press(&["C-d"]);
    tmux.expect("stopped node me");
    tmux.press(&["echo back in the she''ll", "Enter"]);
    tmux.expect("\nback in the shell");
}
