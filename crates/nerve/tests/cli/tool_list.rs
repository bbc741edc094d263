//! The list of an agent's tools: unrecorded sessions, links, tools with much output, successive runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use nerve_record::executions::{self, ExecutionLine};
use nerve_testkit::wait_until;

use crate::harness::{Home, NERVE};
use crate::tools::{SIZE, Session, TOOLS};
use crate::tty::{LIMIT, Tty};

/// A shell in the viewer, to type `$NERVE` into.
fn shell(home: &Home, record: &[&str]) -> Tty {
    let mut command = home.command(&[record, &["--", "bash", "--norc", "--noprofile"]].concat());
    command.env("NERVE", NERVE);
    let tty = Tty::spawn(command, SIZE);
    tty.expect("bash-");
    tty
}

/// Returns the temporary folders of unrecorded sessions.
fn unrecorded(home: &Home) -> Vec<PathBuf> {
    let hosts = home.hermetic.nerve_home().join("hosts");
    let files = fs::read_dir(hosts).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "unrecorded")).collect()
}

#[test]
fn unrecorded_session_lists_tools_until_it_ends() {
    let home = Home::new();
    let mut tty = shell(&home, &["record", "--no-record", "--session-id", "alone"]);
    tty.send(TOOLS);
    tty.expect("'nerve exec' commands are listed");
    tty.send("$NERVE exec --id ask -c 'printf Pass: >/dev/tty; read a </dev/tty; echo got $a'\r");
    tty.expect("\nPass:");
    tty.send(TOOLS);
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("\u{2502}Pass:");
    tty.send("yes\r");
    tty.expect("\u{2502}got yes");
    tty.expect("done");
    // The tool can be shown again, also from another terminal.
    let show = ["show-sandbox-execution", "--id", "ask"];
    for more in [&[][..], &["--session", "alone"], &["--session", "al"]] {
        let shown = home.nerve(&[&show[..], more].concat());
        assert_eq!(
            (shown.stdout.as_str(), shown.stderr.as_str()),
            ("Pass:yes\r\ngot yes\r\n", ""),
            "{more:?}"
        );
    }
    home.nerve(&["exec", "--id", "ask", "--session", "alone", "--", "true"]).assert_stderr(1, &["'ask'"]);
    assert_eq!(unrecorded(&home).len(), 1);
    // From the tool to the list, and from there to the program.
    tty.send(TOOLS);
    tty.expect("0 running of 1");
    tty.send(TOOLS);
    tty.expect("live");
    tty.send("exit 3\r");
    assert_eq!(tty.wait_for_exit(), Some(3));
    assert!(wait_until(LIMIT, || unrecorded(&home).is_empty() && home.hosts().is_empty()));
    home.nerve(&show).assert_stderr(3, &["execution 'ask'"]);
}

#[test]
fn unrecorded_node_lists_tools() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let env = format!("NERVE={NERVE}");
    let node = ["server", "node", "create", "sh", "-c", "bash --norc", "--no-record", "--env", "PS1=$ "];
    home.ok(&[&node[..], &["--env", &env]].concat());
    let tty = Tty::new(&home, SIZE, &["attach", "sh"]);
    tty.expect("ready");
    tty.send(TOOLS);
    tty.expect("tools are listed when a turn ends");
    tty.send("$NERVE exec --id one -- sleep 1000 &\r");
    tty.expect("1 running: one");
    home.ok(&["server", "stop", "--force"]);
    assert!(wait_until(LIMIT, || unrecorded(&home).is_empty()));
}

#[test]
fn tool_terminal_points_to_the_agents_viewer() {
    let session = Session::of("cat");
    let mut run = run(&session, "tool", "exec sleep 1000");
    let shown = Tty::new(&session.home, SIZE, &["show-sandbox-execution", "--id", "tool"]);
    shown.expect("sleep 1000");
    shown.send(TOOLS);
    shown.expect("the viewer of its agent lists what runs");
    end(&mut run);
}

#[test]
fn symlinked_session_folder_has_the_same_tools() {
    let session = Session::of("cat");
    let begun = ExecutionLine { id: "own".into(), command: Some("make".into()), ..ExecutionLine::default() };
    executions::append(&session.recording, begun).unwrap();
    let link = session.home.hermetic.home().join("link");
    std::os::unix::fs::symlink(session.recording.parent().unwrap(), &link).unwrap();
    let linked = link.join("session.ahr");
    let tty = Tty::new(&session.home, SIZE, &["view", "--task", linked.to_str().unwrap()]);
    tty.expect("\u{25b8} 1");
    let mut command =
        session.home.command(&["exec", "--id", "linked", "--session", linked.to_str().unwrap()]);
    assert!(command.args(["--", "true"]).stdin(Stdio::null()).status().unwrap().success());
    let line = executions::find(&session.recording, "linked").unwrap().unwrap();
    assert_eq!(line.anchor_byte, Some(0), "its session was asked how far it is");
}

#[test]
fn long_tool_output_shows_screen_first_and_all_lines_later() {
    let session = Session::of("cat");
    let line = "stty -echo; seq -f '%.0f is one of very many lines that a tool has written' 300000; \
                echo at the end; read a; echo got $a";
    let mut run = run(&session, "much", line);
    let own = executions::recording_path(&session.recording, "much").unwrap();
    let tty = session.viewer();
    tty.expect("1 running: much");
    // Everything is recorded before the viewer opens it.
    let all = || {
        nerve_record::ahr::Reader::open(&own).is_ok_and(|reader| ends_with_output(reader, b"at the end\r\n"))
    };
    assert!(wait_until(LIMIT, all));
    tty.send(TOOLS);
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("\u{2502}at the end");
    tty.expect("MB of earlier output are not shown");
    tty.send("yes\r");
    tty.expect("\u{2502}got yes");
    assert!(run.wait().unwrap().success());
    tty.expect("tool ended");
    // Text is ignored until a control key is pressed.
    tty.send("\x1b[A");
    let first = || {
        tty.send("g");
        tty.text().contains("\u{2502}1 is one of")
    };
    assert!(wait_until(LIMIT, first), "{}", tty.text());
    // A tool that has already ended is shown at its end, too.
    tty.send(TOOLS);
    tty.expect("0 running of 1");
    tty.send("\r");
    tty.expect("\u{2502}got yes");
    assert!(wait_until(LIMIT, first), "{}", tty.text());
}

/// Returns true if the recorded output ends with these bytes.
fn ends_with_output(
    mut reader: nerve_record::ahr::Reader<impl std::io::Read + std::io::Seek>,
    with: &[u8],
) -> bool {
    let mut last = Vec::new();
    while let Ok(Some(part)) = reader.next() {
        let nerve_record::ahr::Part::Block(block) = part else { continue };
        for record in block.records() {
            if let nerve_record::ahr::Body::Data { bytes, .. } = record.body {
                last.extend_from_slice(bytes);
                last.drain(..last.len().saturating_sub(with.len()));
            }
        }
    }
    last == with
}

#[test]
fn follow_shows_next_run_from_any_session() {
    let home = Home::new();
    let run = |session: &str, says: &str| {
        // The program sets its progress and never clears it.
        let line = format!("printf '\\033]9;4;1;42\\007'; echo {says}; read a </dev/tty; echo over");
        let exec = [NERVE, "exec", "--interactive", "--id", "same", "-c", &line];
        let record = ["record", "--headless", "--session-id", session, "--out-file", "--"];
        home.command(&[&record[..], &exec].concat()).stdin(Stdio::null()).spawn().unwrap()
    };
    let show = ["show-sandbox-execution", "--id", "same", "--follow"];
    let mut first = run("one", "first");
    assert!(wait_until(LIMIT, || home.hosts().len() == 2));
    let mut tty = Tty::new(&home, SIZE, &show);
    tty.expect("first");
    let mut named = Tty::new(&home, SIZE, &[&show[..], &["--session", "one"]].concat());
    named.expect("first");
    tty.send("\r");
    tty.expect("the program has ended");
    assert!(first.wait().unwrap().success());
    // This viewer opens after the run has ended.
    let mut late = Tty::new(&home, SIZE, &show);
    late.expect("over");
    let mut second = run("two", "second");
    for tty in [&tty, &late] {
        tty.expect("second");
        tty.expect("showing the next run");
        assert!(!tty.text().contains("first"), "{}", tty.text());
    }
    // The first run's progress is cleared.
    let output = String::from_utf8_lossy(&tty.output.lock().unwrap()).into_owned();
    let progress = ["\x1b]9;4;1;42\x1b\\", "\x1b]9;4;0\x1b\\"].map(|words| output.find(words));
    assert!(progress[0].is_some() && progress[0] < progress[1], "{output:?}");
    late.send("\r");
    late.expect("the program has ended");
    assert!(second.wait().unwrap().success());
    let mut third = run("three", "third");
    tty.expect("third");
    late.expect("third");
    tty.send("\r");
    assert!(third.wait().unwrap().success());
    tty.expect("the program has ended");
    late.expect("the program has ended");
    for tty in [&mut tty, &mut late] {
        tty.send("q");
        assert_eq!(tty.wait_for_exit(), Some(0));
    }
    assert!(named.text().contains("first"), "one session has one run: {}", named.text());
    named.send("q");
    assert_eq!(named.wait_for_exit(), Some(0));
}

/// Runs a line as an execution and returns when its host exists.
fn run(session: &Session, id: &str, line: &str) -> Child {
    let child = session.run(id, line);
    assert!(wait_until(LIMIT, || session.home.hosts().len() > 1));
    child
}

fn end(run: &mut Child) {
    run.kill().unwrap();
    run.wait().unwrap();
}
