//! `nerve exec` and `nerve tools`: commands in their own recorded terminals.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nerve_record::executions::{self, ExecutionLine};
use nerve_testkit::harness::{CommandOutput, is_alive, memory_kib, resize, signal};
use nerve_testkit::{wait_for, wait_until};
use nerve_types::{ExitStatus, Origin, Size};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{DEADLINE, Home, NERVE, pid_in};
use crate::recording::Recording;
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 80, rows: 20 };

/// A session whose recording is a file.
struct Session {
    home: Home,
    recording: PathBuf,
}

impl Session {
    /// A finished session without output.
    fn ended() -> Session {
        Session::of("true")
    }

    /// A finished session of this script.
    fn of(script: &str) -> Session {
        let home = Home::new();
        let recording = home.hermetic.work().join("session.ahr");
        home.ok(&[
            "record",
            "--headless",
            "--out-file",
            recording.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
        ]);
        Session { home, recording }
    }

    fn file(&self) -> &str {
        self.recording.to_str().unwrap()
    }

    /// Prepares a command as a program of the session would start it.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("NERVE_RECORDING", &self.recording);
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.home.run(self.command(args))
    }

    fn listed(&self, id: &str) -> Option<ExecutionLine> {
        executions::read(&self.recording).unwrap().get(id).cloned()
    }

    fn terminal(&self, id: &str) -> PathBuf {
        executions::recording_path(&self.recording, id).unwrap()
    }

    fn show(&self, id: &str) -> CommandOutput {
        self.home.nerve(&["show-sandbox-execution", "--id", id, "--session", self.file()])
    }

    /// Starts an execution and waits until it prints `running`.
    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 8];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"running\n");
        child
    }
}

fn code(child: &mut Child) -> Option<i32> {
    wait_for(DEADLINE, || child.try_wait().unwrap()).expect("it ends").code()
}

#[test]
fn exec_outside_session_makes_a_plain_recording() {
    let home = Home::new();
    let done = home.nerve(&["exec", "--id", "b-1", "--", "sh", "-c", "test -t 1 && stty size <&1; exit 3"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (3, "40 120\n", ""));
    assert_eq!(home.ok(&["replay", "b-1", "--fast"]).trim_end(), "40 120");
    let shown = home.nerve(&["show-sandbox-execution", "--id", "b-1"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (0, "40 120\r\n"));
    let same = "sh -c 'test -t 1 && stty size <&1; exit 3'";
    assert_eq!(home.nerve(&["show-sandbox-execution", same, "--id", "b-1"]).stderr, "");
    let other = home.nerve(&["show-sandbox-execution", "make test", "--id", "b-1"]);
    assert!(other.code == 0 && other.stderr.contains("the command differs"), "{other:?}");
    assert!(home.hosts().is_empty(), "nothing is left behind");
    // The id is taken.
    home.nerve(&["exec", "--id", "b-1", "--", "true"]).assert_stderr(1, &["'b-1'", "--id"]);
    // A generated id is free.
    assert_eq!(home.ok(&["exec", "-c", "echo $((1 + 1)) | tr 2 3"]), "3\n");
}

#[test]
fn exec_in_session_is_stored_next_to_its_recording() {
    let script = format!(
        "printf before; {NERVE} exec --id e-1 -c 'echo one | tr o 0; {NERVE} snapshot --no-files --label in-it >/dev/null; exit 4'; \
         echo code $?"
    );
    let session = Session::of(&script);
    let recorded = Recording::of(&session.recording);
    assert!(String::from_utf8_lossy(&recorded.output).contains("before0ne\r\ncode 4"), "{recorded:?}");
    assert_eq!(recorded.snapshots.len(), 2, "a tool's snapshot is the session's, the other is its end");
    let line = session.listed("e-1").unwrap();
    assert!(line.command.unwrap().starts_with("echo one | tr o 0;"));
    assert_eq!((line.exit_code, line.status.as_deref()), (Some(4), Some("failed")));
    assert_eq!(line.anchor_byte, Some("before".len() as u64));
    assert!(line.started_ns < line.ended_ns && line.host.is_some());
    let own = Recording::of(&session.terminal("e-1"));
    assert_eq!(own.output, b"0ne\r\n");
    assert_eq!(own.exits, [ExitStatus::Code(4)]);
    assert_eq!(session.show("e-1").stdout, "0ne\r\n");
    // Without a session, only the recordings folder is searched; this recording is elsewhere.
    session
        .home
        .nerve(&["show-sandbox-execution", "--id", "e-1"])
        .assert_stderr(3, &["execution 'e-1'", "--recording"]);
    let listed = session.home.ok(&["recordings", "list"]);
    assert!(!listed.contains("e-1"), "{listed}");
}

#[test]
fn mismatching_command_is_shown_with_a_warning() {
    let session = Session::ended();
    assert_eq!(session.run(&["exec", "--id", "x", "--", "echo", "a b"]).stdout, "a b\n");
    let show = |said: &str| {
        session.home.nerve(&["show-sandbox-execution", said, "--id", "x", "--session", session.file()])
    };
    assert_eq!(show("echo  'a b'").stderr, "");
    let other = show("rm -rf /");
    other.assert_stderr(0, &["warning", "echo 'a b'"]);
    assert_eq!(other.stdout, "a b\r\n");
    let mut ah = session.home.hermetic.command(env!("CARGO_BIN_EXE_ah"));
    ah.args(["show-sandbox-execution", "echo 'a b'", "--id", "x", "--session", session.file()]);
    assert_eq!(session.home.run(ah).stdout, "a b\r\n");
}

#[test]
fn piped_stdin_reaches_the_command() {
    let session = Session::ended();
    let mut command = session.command(&["exec", "--", "sh", "-c", "wc -c; test -t 0 || echo no terminal"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "100000\nno terminal\n");
    assert_eq!(code(&mut child), Some(0));
}

#[test]
fn missing_commands_and_signals_exit_as_in_a_shell() {
    let session = Session::ended();
    let missing = session.run(&["exec", "--id", "m", "--", "no-such-command-here"]);
    missing.assert_stderr(127, &["program 'no-such-command-here'", "-c"]);
    assert_eq!(session.listed("m").unwrap().exit_code, Some(127));
    assert!(!session.terminal("m").exists(), "of nothing there is no recording");
    assert_eq!(session.run(&["exec", "-c", "no-such-command-here"]).code, 127);
    let killed = session.run(&["exec", "--id", "k", "-c", "kill -KILL $$"]);
    assert_eq!(killed.code, 137);
    assert_eq!(session.listed("k").unwrap().exit_code, Some(137));

    let mut child = session.start(&["exec", "--id", "t", "-c", "echo running; exec sleep 1000"]);
    signal(child.id(), Signal::TERM);
    assert_eq!(code(&mut child), Some(143));
    let trap = "trap 'echo heard; exit 9' USR1; echo running; while :; do sleep 0.01; done";
    let mut child = session.start(&["exec", "-c", trap]);
    signal(child.id(), Signal::USR1);
    assert_eq!(code(&mut child), Some(9));
    assert!(session.home.hosts().is_empty());
}

#[test]
fn invalid_ids_and_sessions_are_refused() {
    let session = Session::ended();
    for id in ["../up", "a/b", "", ".", "x y", &"i".repeat(65)] {
        session.run(&["exec", "--id", id, "--", "true"]).assert_code(2);
        session.show(id).assert_code(2);
    }
    session.run(&["exec", "--session", "nowhere", "--", "true"]).assert_stderr(3, &["nowhere"]);
    session.run(&["exec", "--session", "/no/such.ahr", "--", "true"]).assert_stderr(3, &["/no/such.ahr"]);
    session
        .home
        .nerve(&["show-sandbox-execution", "--id", "x", "--session", "nowhere"])
        .assert_stderr(3, &["nowhere"]);
    session.show("x").assert_stderr(3, &["execution 'x'"]);
    session.run(&["exec", "--id", "known", "--", "true"]);
    session.show("x").assert_stderr(3, &["known"]);
    // A program whose session is gone can still run commands.
    let mut command = session.home.command(&["exec", "--", "echo", "runs"]);
    command.env("NERVE_RECORDING", "/no/such.ahr").env("NERVE_SESSION_ID", "gone");
    assert_eq!(session.home.run(command).stdout, "runs\n");
}

#[test]
fn only_one_of_two_executions_with_same_id_runs() {
    let session = Session::ended();
    let mut children: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = session.command(&["exec", "--id", "same", "--", "sh", "-c", "echo x >> ran"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut codes: Vec<Option<i32>> = children.iter_mut().map(code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)]);
    assert_eq!(fs::read_to_string(session.home.hermetic.work().join("ran")).unwrap(), "x\n");
}

#[test]
fn hundred_megabytes_pass_in_little_memory() {
    let session = Session::ended();
    let mut command = session.command(&["exec", "--id", "big", "--", "head", "-c", "100000000", "/dev/zero"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut out, mut piece, mut bytes, mut peak) = (child.stdout.take().unwrap(), vec![0; 1 << 16], 0, 0);
    loop {
        let size = out.read(&mut piece).unwrap();
        if size == 0 {
            break;
        }
        bytes += size;
        peak = peak.max(memory_kib(child.id(), "VmHWM"));
    }
    assert_eq!((code(&mut child), bytes), (Some(0), 100_000_000));
    assert!((1..160 << 10).contains(&peak), "{peak} KiB");
    let shown = session.show("big");
    assert_eq!((shown.code, shown.stdout.len()), (0, 100_000_000));
}

#[test]
fn slow_reader_gets_all_output() {
    let session = Session::ended();
    let mut child = session.start(&["exec", "--id", "slow", "-c", "echo running; exec seq 400000"]);
    // Longer than a host waits for slow readers after the exit. The time is the subject: there is no event to wait for.
    std::thread::sleep(Duration::from_secs(5));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((code(&mut child), text.lines().count()), (Some(0), 400_000));
}

#[test]
fn closed_stdout_ends_the_execution() {
    let session = Session::ended();
    let mut child = session.start(&["exec", "--id", "y", "-c", "echo running; exec yes"]);
    drop(child.stdout.take());
    assert!(code(&mut child).is_some());
    assert!(session.listed("y").unwrap().has_ended());
}

#[test]
fn running_execution_is_shown_and_answered_from_elsewhere() {
    let session = Session::ended();
    let ask = "echo running; printf 'Pass: ' >/dev/tty; read answer </dev/tty; echo \"got $answer\"; exit 5";
    let mut child = session.start(&["exec", "--id", "ask", "-c", ask]);
    // A viewer whose output is no terminal only prints.
    let mut along = session.home.command(&["show-sandbox-execution", "--id", "ask"]);
    let along = along.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut tty = Tty::new(&session.home, SIZE, &["show-sandbox-execution", ask, "--id", "ask"]);
    tty.expect("Pass:");
    tty.send("yes\r");
    assert_eq!(code(&mut child), Some(5));
    assert_eq!(tty.wait_for_exit(), Some(0));
    let read = CommandOutput::new(&along.wait_with_output().unwrap());
    assert_eq!((read.code, read.stdout.as_str()), (0, "running\r\nPass: yes\r\ngot yes\r\n"));
    let own = Recording::of(&session.terminal("ask"));
    let typed: Vec<_> = own.inputs.iter().map(|typed| (typed.origin, typed.bytes.clone())).collect();
    let keys: Vec<u8> = typed.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(keys, b"yes\r");
    assert!(typed.iter().all(|(origin, _)| *origin == Some(Origin::Injected)), "{typed:?}");
}

#[test]
fn follow_stays_open_for_scrolling() {
    let session = Session::ended();
    session.run(&["exec", "--id", "long", "--", "seq", "500"]);
    let args = ["show-sandbox-execution", "--id", "long", "--session", session.file()];
    let mut plain = Tty::new(&session.home, SIZE, &args);
    plain.expect("500");
    assert_eq!(plain.wait_for_exit(), Some(0));
    let mut tty = Tty::new(&session.home, SIZE, &[&args[..], &["--follow"]].concat());
    tty.expect("500");
    // The title is the command.
    tty.expect("view  seq 500");
    assert_eq!(tty.terminal.lock().unwrap().title(), "seq 500");
    // An execution cannot be branched, so the task entry does not open.
    tty.send("i");
    tty.expect("no branches from a tool's output");
    tty.send("\x1b[5~\x1b[5~\x1b[5~");
    let has_last = || tty.text().lines().any(|line| line.trim() == "500");
    assert!(wait_until(LIMIT, || !has_last()), "{}", tty.text());
    tty.signal(Signal::TERM);
    assert_eq!(tty.wait_for_exit(), Some(143));
}

#[test]
fn follow_handles_first_key_after_the_end() {
    let session = Session::ended();
    let ask = "echo running; read answer </dev/tty; echo \"got $answer\"";
    let mut child = session.start(&["exec", "--id", "ask", "-c", ask]);
    let args = ["show-sandbox-execution", "--id", "ask", "--follow", "--session", session.file()];
    let mut tty = Tty::new(&session.home, SIZE, &args);
    tty.expect("running");
    tty.expect("live  echo running; read answer");
    assert!(tty.terminal.lock().unwrap().title().starts_with("echo running; read answer"));
    tty.send("yes\r");
    assert_eq!(code(&mut child), Some(0));
    tty.expect("the program has ended");
    tty.expect("got yes");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn killed_execution_is_shown_up_to_its_end() {
    let session = Session::ended();
    let mut child = session.start(&["exec", "--id", "dead", "-c", "echo running; exec sleep 1000"]);
    // What is on disk survives: the recorder writes at least four times a second.
    let path = session.terminal("dead");
    assert!(wait_until(LIMIT, || path.exists() && !Recording::of(&path).output.is_empty()));
    let program = pid_in(&session.home.hosts()[0]["child"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = || !is_alive(program);
    assert!(wait_until(LIMIT, gone), "it ends with its terminal");
    let shown = session.show("dead");
    shown.assert_stderr(0, &["killed"]);
    assert_eq!(shown.stdout, "running\r\n");
    // The next execution removes the files of the killed one.
    session.run(&["exec", "--", "true"]);
    assert!(session.home.hosts().is_empty());
}

#[test]
fn execution_without_terminal_shows_its_tool_result() {
    let session = Session::ended();
    let line = ExecutionLine {
        id: "toolu_1".into(),
        tool: Some("Bash".into()),
        command: Some("ls".into()),
        started_ns: Some(1),
        ..ExecutionLine::default()
    };
    executions::append(&session.recording, line.clone()).unwrap();
    session.show("toolu_1").assert_stderr(1, &["toolu_1"]);
    let end = ExecutionLine { ended_ns: Some(2), output: Some("a\u{1b}[2Jb\n".into()), ..line };
    executions::append(&session.recording, end).unwrap();
    let shown = session.show("toolu_1");
    assert_eq!((shown.code, shown.stdout.as_str()), (0, "a[2Jb\n"));
}

#[test]
fn follow_scrolls_output_of_executions_without_terminal() {
    let home = Home::new();
    let recording = home.hermetic.work().join("session.ahr");
    let file = recording.to_str().unwrap();
    let agent = ["record", "--headless", "--out-file", file, "--", "sh", "-c", "sleep 1000"];
    let mut agent = home.command(&agent).stdin(Stdio::null()).spawn().unwrap();
    assert!(wait_until(DEADLINE, || home.hosts().iter().any(|host| host["recording_path"] == file)));
    let begun =
        ExecutionLine { id: "toolu_1".into(), command: Some("make".into()), ..ExecutionLine::default() };
    executions::append(&recording, begun.clone()).unwrap();
    let args = ["show-sandbox-execution", "make", "--id", "toolu_1", "--session", file, "--follow"];
    let mut waits = Tty::with_stderr(home.command(&args), SIZE);
    waits.expect("the execution has no terminal of its own");
    let lines: String = (1..=90).map(|n| format!("line {n}.\n")).collect();
    executions::append(&recording, ExecutionLine { ended_ns: Some(2), output: Some(lines), ..begun })
        .unwrap();
    let mut late = Tty::new(&home, SIZE, &args);
    for tty in [&mut waits, &mut late] {
        tty.expect("line 90.");
        tty.expect("make");
        tty.send("g");
        tty.expect("line 1.");
        tty.send("i");
        tty.expect("no branches from a tool's output");
        tty.send("q");
        assert_eq!(tty.wait_for_exit(), Some(0));
    }
    signal(agent.id(), Signal::TERM);
    agent.wait().unwrap();
}

#[test]
fn announced_agent_command_becomes_an_execution() {
    let session = Session::ended();
    let folder = session.home.hermetic.work().join("hooks");
    fs::create_dir(&folder).unwrap();
    let link = nerve_record::executions::trace::prepare(&folder, Path::new(NERVE)).unwrap();
    let socket = folder.join("socket");
    let announce = |id: &str, command: &str| {
        let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": id,
                            "tool_input": { "command": command } });
        let output = session.home.nerve_with(&["hook", socket.to_str().unwrap()], &input.to_string());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (0, ""),
            "a hook that says something changes what is run"
        );
    };
    let run = |line: &str| {
        let mut command = session.home.hermetic.command(link.to_str().unwrap());
        command.arg(line).env("NERVE_RECORDING", &session.recording).env("SHELL", "/bin/bash");
        session.home.run(command)
    };
    let left = session.home.hermetic.work().join("cwd");
    let framed = |command: &str| {
        let quoted = shell_words::quote(command).into_owned();
        format!("export READY=1 && eval {quoted} < /dev/null && pwd -P >| '{}'", left.display())
    };
    // The agent's preparations run, the final folder is reported, and stdin is empty.
    let command = "cd / && echo \"$READY\" 'it''s'; cat; git --version >/dev/null; echo $PAGER";
    announce("toolu_1", command);
    let done = run(&framed(command));
    assert_eq!((done.code, done.stdout.as_str()), (0, "1 its\ncat\n"), "{done:?}");
    assert_eq!(fs::read_to_string(&left).unwrap(), "/\n");
    let line = session.listed("toolu_1").unwrap();
    assert_eq!((line.command.as_deref(), line.exit_code), (Some(command), Some(0)));
    assert_eq!(session.show("toolu_1").stdout, "1 its\r\ncat\r\n");
    // An unannounced second run and other commands pass through unchanged.
    assert_eq!(run(&framed("echo again")).stdout, "again\n");
    let done = run("echo to-out; echo to-err >&2; test -t 1 || exit 6");
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (6, "to-out\n", "to-err\n"));
    assert_eq!(executions::read(&session.recording).unwrap().iter().count(), 1);
    // A failed record does not prevent the command.
    announce("toolu_1", "echo twice");
    let twice = run(&framed("echo twice"));
    twice.assert_stderr(0, &["not recorded", "toolu_1"]);
    assert_eq!(twice.stdout, "twice\n");
}

#[test]
fn keys_size_and_exit_code_pass_through() {
    let session = Session::ended();
    let command = session.command(&["exec", "--id", "seat", "--", "bash", "--norc", "--noprofile"]);
    let mut tty = Tty::spawn(command, SIZE);
    tty.expect("bash-");
    tty.send("stty size; test -t 0 && echo $((40 + 2)) keys\r");
    tty.expect("20 80");
    tty.expect("42 keys");
    resize(&tty.keyboard, Size::new(70, 15)).unwrap();
    tty.signal(Signal::WINCH);
    tty.send("until [ \"$(stty size)\" = '15 70' ]; do :; done; echo resiz''ed; exit 7\r");
    tty.expect("resized");
    assert_eq!(tty.wait_for_exit(), Some(7));
    let own = Recording::of(&session.terminal("seat"));
    assert_eq!(own.sizes, [(80, 20), (70, 15)]);
    assert!(own.inputs.iter().any(|typed| typed.origin == Some(Origin::User)));
}

#[test]
fn smaller_viewer_sets_the_size_of_an_execution() {
    let session = Session::ended();
    let script = "stty -echo; echo up; while read a; do stty size; done";
    let tty = Tty::spawn(session.command(&["exec", "--id", "seat", "-c", script]), SIZE);
    tty.expect("up");
    let host = session.home.hosts().remove(0);
    let args = ["attach", host["host_id"].as_str().unwrap()];
    let mut large = Tty::new(&session.home, Size::new(101, 31), &args);
    large.expect("up");
    large.send("\r");
    large.expect("20 80");
    let small = Tty::new(&session.home, Size::new(51, 11), &args);
    small.expect("up");
    let has_size = || {
        small.send("\r");
        small.text().contains("10 50")
    };
    assert!(wait_until(LIMIT, has_size), "{}", small.text());
    tty.send("\x04");
    assert_eq!(large.wait_for_exit(), Some(0));
}

#[test]
fn terminal_queries_are_answered_without_a_viewer() {
    let session = Session::ended();
    // Requests the cursor position (ECMA-48 CPR). The reply is read from the terminal, because there is no other input.
    let ask = "stty raw -echo </dev/tty; printf 'abc\\033[6n'; head -c 6 </dev/tty | tr -d '\\033'; stty sane </dev/tty";
    let done = session.run(&["exec", "--", "sh", "-c", ask]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "abc\u{1b}[6n[1;4R"));
}

#[test]
fn show_waits_for_tool_result_and_sends_keys_to_agent() {
    let home = Home::new();
    let recording = home.hermetic.work().join("session.ahr");
    let file = recording.to_str().unwrap();
    let mut agent = home.command(&[
        "record",
        "--headless",
        "--out-file",
        file,
        "--",
        "sh",
        "-c",
        "echo up; head -c 3; cat",
    ]);
    let mut agent = agent.stdin(Stdio::null()).spawn().unwrap();
    assert!(wait_until(LIMIT, || home.hosts().iter().any(|host| host["recording_path"] == file)));
    let begun = ExecutionLine {
        id: "toolu_2".into(),
        tool: Some("Bash".into()),
        command: Some("make".into()),
        ..ExecutionLine::default()
    };
    executions::append(&recording, begun.clone()).unwrap();
    let args = ["show-sandbox-execution", "make", "--id", "toolu_2", "--session", file];
    let mut along = home.command(&args);
    let along = along.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut left = Tty::with_stderr(home.command(&args), SIZE);
    left.expect("Ctrl+] detaches");
    left.send("\x1d");
    assert_eq!(left.wait_for_exit(), Some(130));
    let mut tty = Tty::with_stderr(home.command(&args), SIZE);
    tty.expect("Ctrl+] detaches");
    let mut ended = Tty::with_stderr(home.command(&args), SIZE);
    ended.expect("Ctrl+] detaches");
    ended.signal(Signal::TERM);
    assert_eq!(ended.wait_for_exit(), Some(143));
    tty.send("yes\r");
    assert!(wait_until(LIMIT, || Recording::of(&recording).inputs.len() == 1));
    let end = ExecutionLine { ended_ns: Some(2), output: Some("made\n".into()), ..begun };
    executions::append(&recording, end).unwrap();
    tty.expect("made");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert_eq!(along.wait_with_output().unwrap().stdout, b"made\n");
    let typed = Recording::of(&recording).inputs.remove(0);
    assert_eq!((typed.origin, typed.bytes.as_slice()), (Some(Origin::Injected), &b"yes\r"[..]));
    signal(agent.id(), Signal::TERM);
    agent.wait().unwrap();
}

/// A program that reads its settings file like Claude Code, and runs one command of a tool.
const AGENT: &str = r#"#!/bin/sh
settings=$2
hook=$(sed 's/.*"command":"\([^"]*\)".*/\1/' "$settings")
prefix=$(sed -n 's/.*"CLAUDE_CODE_SHELL_PREFIX":"\([^"]*\)".*/\1/p' "$settings")
input='{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"toolu_9","tool_input":{"command":"echo traced"}}'
printf '%s' "$input" | sh -c "$hook"
"${prefix:-none}" "eval 'echo traced' < /dev/null && pwd -P >| /dev/null"
"#;

#[test]
fn trace_tools_works_for_claude_and_warns_otherwise() {
    let home = Home::new();
    let (agent, recording) = (home.hermetic.work().join("claude"), home.hermetic.work().join("s.ahr"));
    fs::write(&agent, AGENT).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let (agent, file) = (agent.to_str().unwrap(), recording.to_str().unwrap());
    let done = home.nerve(&["record", "--headless", "--trace-tools", "--out-file", file, "--", agent]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{}", Recording::of(&recording).text());
    let line = executions::read(&recording).unwrap().get("toolu_9").cloned().expect("it is listed");
    assert_eq!(
        (line.command.as_deref(), line.exit_code, line.has_terminal()),
        (Some("echo traced"), Some(0), true)
    );
    assert_eq!(Recording::of(&recording).text(), "traced\r\n");
    let done = home.nerve(&["record", "--headless", "--trace-tools", "--", "true"]);
    done.assert_stderr(0, &["cannot trace tools", "Claude Code"]);
    let other = home.hermetic.work().join("u.ahr");
    let mut prefixed = home.command(&["record", "--headless", "--trace-tools", "--out-file"]);
    let prefixed = prefixed.args([other.to_str().unwrap(), "--", agent]).env("CLAUDE_CODE_SHELL_PREFIX", "x");
    CommandOutput::new(&prefixed.output().unwrap()).assert_stderr(127, &["CLAUDE_CODE_SHELL_PREFIX"]);
    // Off by default.
    let other = home.hermetic.work().join("t.ahr");
    let done = home.nerve(&["record", "--headless", "--out-file", other.to_str().unwrap(), "--", agent]);
    assert_eq!(done.code, 127, "there is no prefix: {}", Recording::of(&other).text());
}

#[test]
fn pruning_a_recording_removes_its_executions() {
    let home = Home::new();
    home.ok(&[
        "record",
        "--headless",
        "--session-id",
        "mine",
        "--out-file",
        "--",
        NERVE,
        "exec",
        "--id",
        "e",
        "--",
        "echo",
        "hi",
    ]);
    let shown = home.ok(&["show-sandbox-execution", "--id", "e"]);
    assert_eq!(shown, "hi\r\n", "it is found by its id alone");
    assert_eq!(home.ok(&["show-sandbox-execution", "--id", "e", "--session", "mine"]), shown);
    let listed = home.nerve(&["recordings", "list", "--json"]).json();
    let recording =
        PathBuf::from(listed.to_string().split('"').find(|word| word.ends_with("mine.ahr")).unwrap());
    assert!(executions::list_path(&recording).exists());
    home.ok(&["recordings", "prune", "--max-size", "0"]);
    assert!(!recording.exists() && !executions::list_path(&recording).exists());
    assert!(!executions::folder_path(&recording).exists());
}

#[test]
fn no_byte_of_immediate_output_is_missed() {
    let session = Session::ended();
    let done = session.run(&["exec", "--", "seq", "1000000"]);
    let numbers = done.stdout.lines().zip(1..).take_while(|(line, number)| *line == number.to_string());
    assert_eq!((done.code, numbers.count()), (0, 1_000_000));
}

#[test]
fn session_viewer_lists_shows_and_answers_executions() {
    let home = Home::new();
    let recording = home.hermetic.work().join("session.ahr");
    let file = recording.to_str().unwrap();
    let mut command = home.command(&["record", "--out-file", file, "--", "bash", "--norc", "--noprofile"]);
    command.env("NERVE", NERVE);
    let tty = Tty::spawn(command, Size::new(100, 20));
    tty.expect("bash-");
    tty.send("$NERVE exec --id ask -c 'printf Pass: >/dev/tty; read a </dev/tty; echo got $a'\r");
    tty.expect("\nPass:");
    // Ctrl+] as terminals with the kitty keyboard protocol send it, and this one has it.
    tty.send("\x1b[93;5ut");
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("\u{2502}Pass:");
    tty.send("yes\r");
    tty.expect("\u{2502}got yes");
    let own = executions::recording_path(&recording, "ask").unwrap();
    assert!(wait_until(LIMIT, || executions::read(&recording).unwrap().get("ask").unwrap().has_ended()));
    let typed = Recording::of(&own).inputs;
    assert!(
        typed.iter().all(|typed| typed.origin == Some(Origin::Injected)) && !typed.is_empty(),
        "{typed:?}"
    );
    tty.expect("done");
}
