//! Where what an agent runs is listed: sessions without a recording, links, tools that wrote much, and runs that follow each other.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use nerve_record::executions::{self, ExecutionLine};
use nerve_testkit::wait_until;

use crate::harness::{Home, NERVE};
use crate::tools::{SIZE, Session, TOOLS};
use crate::tty::{LIMIT, Seat};

/// A shell in the viewer, to type `$NERVE` into.
fn shell(home: &Home, record: &[&str]) -> Seat {
    let mut command = home.command(&[record, &["--", "bash", "--norc", "--noprofile"]].concat());
    command.env("NERVE", NERVE);
    let seat = Seat::of(command, SIZE);
    seat.sees("bash-");
    seat
}

/// What is kept of sessions without a recording.
fn unrecorded(home: &Home) -> Vec<PathBuf> {
    let hosts = home.hermetic.nerve_home().join("hosts");
    let files = fs::read_dir(hosts).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "unrecorded")).collect()
}

#[test]
fn unrecorded_session_lists_tools_until_it_ends() {
    let home = Home::new();
    let mut seat = shell(&home, &["record", "--session-id", "alone"]);
    seat.types(TOOLS);
    seat.sees("what 'nerve exec' runs is listed");
    seat.types("$NERVE exec --id ask -c 'printf Pass: >/dev/tty; read a </dev/tty; echo got $a'\r");
    seat.sees("\nPass:");
    seat.types(TOOLS);
    seat.sees("1 running of 1");
    seat.types("\r");
    seat.sees("\u{2502}Pass:");
    seat.types("yes\r");
    seat.sees("\u{2502}got yes");
    seat.sees("done");
    // It can be looked at again, from elsewhere too.
    let show = ["show-sandbox-execution", "--id", "ask"];
    for more in [&[][..], &["--session", "alone"], &["--session", "al"]] {
        let shown = home.nerve(&[&show[..], more].concat());
        assert_eq!(
            (shown.stdout.as_str(), shown.stderr.as_str()),
            ("Pass:yes\r\ngot yes\r\n", ""),
            "{more:?}"
        );
    }
    home.nerve(&["exec", "--id", "ask", "--session", "alone", "--", "true"]).says(1, &["'ask' already"]);
    assert_eq!(unrecorded(&home).len(), 1);
    // From the tool to the list, and from there to the program.
    seat.types(TOOLS);
    seat.sees("0 running of 1");
    seat.types(TOOLS);
    seat.sees("live");
    seat.types("exit 3\r");
    assert_eq!(seat.left(), Some(3));
    assert!(wait_until(LIMIT, || unrecorded(&home).is_empty() && home.hosts().is_empty()));
    home.nerve(&show).says(3, &["no execution 'ask'"]);
}

#[test]
fn unrecorded_node_lists_tools() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let env = format!("NERVE={NERVE}");
    let node = ["server", "node", "create", "sh", "-c", "bash --norc", "--no-record", "--env", "PS1=$ "];
    home.ok(&[&node[..], &["--env", &env]].concat());
    let seat = Seat::new(&home, SIZE, &["attach", "sh"]);
    seat.sees("ready");
    seat.types(TOOLS);
    seat.sees("is listed when a turn ends");
    seat.types("$NERVE exec --id one -- sleep 1000 &\r");
    seat.sees("1 running: one");
    home.ok(&["server", "stop", "--force"]);
    assert!(wait_until(LIMIT, || unrecorded(&home).is_empty()));
}

#[test]
fn tool_terminal_points_to_the_agents_viewer() {
    let session = Session::of("cat");
    let mut run = run(&session, "tool", "exec sleep 1000");
    let shown = Seat::new(&session.home, SIZE, &["show-sandbox-execution", "--id", "tool"]);
    shown.sees("sleep 1000");
    shown.types(TOOLS);
    shown.sees("the viewer of its agent lists what runs");
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
    let seat = Seat::new(&session.home, SIZE, &["view", linked.to_str().unwrap()]);
    seat.sees("\u{25b8} 1");
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
    let own = executions::recording_of(&session.recording, "much").unwrap();
    let seat = session.viewer();
    seat.sees("1 running: much");
    // All of it is in the recording before somebody looks.
    let all = || nerve_record::ahr::Reader::open(&own).is_ok_and(|reader| ends(reader, b"at the end\r\n"));
    assert!(wait_until(LIMIT, all));
    seat.types(TOOLS);
    seat.sees("1 running of 1");
    seat.types("\r");
    seat.sees("\u{2502}at the end");
    seat.sees("MB of earlier output are not shown");
    seat.types("yes\r");
    seat.sees("\u{2502}got yes");
    assert!(run.wait().unwrap().success());
    seat.sees("it has ended");
    // Text is for nobody until a key that is none.
    seat.types("\x1b[A");
    let first = || {
        seat.types("g");
        seat.text().contains("\u{2502}1 is one of")
    };
    assert!(wait_until(LIMIT, first), "{}", seat.text());
    // One that has ended already is shown at its end, too.
    seat.types(TOOLS);
    seat.sees("0 running of 1");
    seat.types("\r");
    seat.sees("\u{2502}got yes");
    assert!(wait_until(LIMIT, first), "{}", seat.text());
}

/// The last output that was recorded is that.
fn ends(mut reader: nerve_record::ahr::Reader<impl std::io::Read + std::io::Seek>, with: &[u8]) -> bool {
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
        // It is at its place in progress, and ends without saying that this is over.
        let line = format!("printf '\\033]9;4;1;42\\007'; echo {says}; read a </dev/tty; echo over");
        let exec = [NERVE, "exec", "--interactive", "--id", "same", "-c", &line];
        let record = ["record", "--headless", "--session-id", session, "--out-file", "--"];
        home.command(&[&record[..], &exec].concat()).stdin(Stdio::null()).spawn().unwrap()
    };
    let show = ["show-sandbox-execution", "--id", "same", "--follow"];
    let mut first = run("one", "first");
    assert!(wait_until(LIMIT, || home.hosts().len() == 2));
    let mut seat = Seat::new(&home, SIZE, &show);
    seat.sees("first");
    let mut named = Seat::new(&home, SIZE, &[&show[..], &["--session", "one"]].concat());
    named.sees("first");
    seat.types("\r");
    seat.sees("the program has ended");
    assert!(first.wait().unwrap().success());
    // One that has ended before somebody looks.
    let mut late = Seat::new(&home, SIZE, &show);
    late.sees("over");
    let mut second = run("two", "second");
    for seat in [&seat, &late] {
        seat.sees("second");
        seat.sees("this is the next run");
        assert!(!seat.text().contains("first"), "{}", seat.text());
    }
    // How far the first one was is not shown any more.
    let told = String::from_utf8_lossy(&seat.written.lock().unwrap()).into_owned();
    let progress = ["\x1b]9;4;1;42\x1b\\", "\x1b]9;4;0\x1b\\"].map(|words| told.find(words));
    assert!(progress[0].is_some() && progress[0] < progress[1], "{told:?}");
    late.types("\r");
    late.sees("the program has ended");
    assert!(second.wait().unwrap().success());
    let mut third = run("three", "third");
    seat.sees("third");
    late.sees("third");
    seat.types("\r");
    assert!(third.wait().unwrap().success());
    seat.sees("the program has ended");
    late.sees("the program has ended");
    for seat in [&mut seat, &mut late] {
        seat.types("q");
        assert_eq!(seat.left(), Some(0));
    }
    assert!(named.text().contains("first"), "one session has one run: {}", named.text());
    named.types("q");
    assert_eq!(named.left(), Some(0));
}

/// Runs a line as an execution; returns when its terminal is there.
fn run(session: &Session, id: &str, line: &str) -> Child {
    let child = session.run(id, line);
    assert!(wait_until(LIMIT, || session.home.hosts().len() > 1));
    child
}

fn end(run: &mut Child) {
    run.kill().unwrap();
    run.wait().unwrap();
}
