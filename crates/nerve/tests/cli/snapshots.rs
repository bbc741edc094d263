//! `nerve snapshot` against a recorder that implements only the wire protocol.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nerve_record::snapshots::{self, SnapshotLine};
use nerve_record::ssz::frame::{MAX_MESSAGE, decode_frame};
use nerve_record::ssz::snapshot::{Request, Response};
use nerve_testkit::harness::CommandOutput;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home};

const SESSION: &str = "0195e3a1-77aa-7bcd-8000-0123456789ab";
/// 2025-12-22T10:30:00Z.
const AT_NS: u64 = 1_766_399_400_000_000_000;

/// A recorded session: a home, a recording (its neighbours matter, not its content) and a work directory.
struct Session {
    home: Home,
    recording: PathBuf,
}

/// A request that the recorder has answered.
type ReceivedRequest = (u64, String);

/// Answers each connection with the result of `answer`; `None` closes it.
fn serve<S: Read + Write>(
    connections: impl Iterator<Item = S> + Send + 'static,
    mut answer: impl FnMut(u64) -> Option<Vec<u8>> + Send + 'static,
) -> Receiver<ReceivedRequest> {
    let (tell, requests) = channel();
    std::thread::spawn(move || {
        for mut stream in connections {
            let mut read = Vec::new();
            let mut piece = [0; 1000];
            let body = loop {
                match decode_frame(&mut read, MAX_MESSAGE).unwrap() {
                    Some(body) => break body,
                    None => {
                        let count = stream.read(&mut piece).unwrap();
                        assert_ne!(count, 0, "closed before it asked");
                        read.extend_from_slice(&piece[..count]);
                    }
                }
            };
            let Request::Snapshot { id, label } = Request::decode(&body).unwrap();
            if let Some(bytes) = answer(id) {
                stream.write_all(&bytes).unwrap();
            }
            if tell.send((id, String::from_utf8(label).unwrap())).is_err() {
                return;
            }
        }
    });
    requests
}

fn confirm(id: u64) -> Option<Vec<u8>> {
    Some(Response::Success { id, anchor: 1000 + id, at_ns: AT_NS }.frame())
}

impl Session {
    fn new() -> Session {
        let home = Home::new();
        let recordings = home.hermetic.nerve_home().join("recordings/2025/12");
        fs::create_dir_all(&recordings).unwrap();
        let recording = recordings.join(format!("{SESSION}.ahr"));
        fs::write(&recording, "").unwrap();
        Session { home, recording }
    }

    /// With a git repository to work in.
    fn with_git() -> Session {
        let session = Session::new();
        session.git(&["init", "--quiet"]);
        session.put("file", "old\n");
        session.git(&["add", "--all"]);
        session.git(&["commit", "--quiet", "--message", "first"]);
        session
    }

    fn socket(&self) -> PathBuf {
        self.home.hermetic.runtime().join("recorder.sock")
    }

    fn listen(
        &self,
        answer: impl FnMut(u64) -> Option<Vec<u8>> + Send + 'static,
    ) -> Receiver<ReceivedRequest> {
        let listener = UnixListener::bind(self.socket()).unwrap();
        serve(std::iter::from_fn(move || Some(listener.accept().unwrap().0)), answer)
    }

    fn work(&self) -> PathBuf {
        self.home.hermetic.work().canonicalize().unwrap()
    }

    fn put(&self, path: &str, content: &str) {
        fs::write(self.work().join(path), content).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        self.home.hermetic.git(&self.work(), args)
    }

    /// `nerve snapshot …`, as a program in the recorded terminal runs it.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(&[&["snapshot"], args].concat());
        command.env("NERVE_RECORDER_SOCKET", self.socket());
        command.env("NERVE_RECORDING", &self.recording).env("NERVE_SESSION_ID", SESSION);
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    fn run(&self, command: Command) -> CommandOutput {
        self.home.run(command)
    }

    fn snapshot(&self, args: &[&str]) -> CommandOutput {
        self.run(self.command(args))
    }

    #[track_caller]
    fn snapshot_json(&self, args: &[&str]) -> Value {
        let done = self.snapshot(&[args, &["--json"]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        done.json()
    }

    fn lines(&self) -> Vec<SnapshotLine> {
        snapshots::read(&self.recording).unwrap()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn files_are_captured_at_confirmation_and_restored() {
    let session = Session::with_git();
    session.put("untracked", "u\n");
    let file = session.work().join("file");
    // Output written before the recorder's answer belongs to the snapshot.
    let requests = session.listen(move |id| {
        fs::write(&file, "written while it was asked\n").unwrap();
        confirm(id)
    });
    let done = session.snapshot_json(&["--label", "tests pass"]);
    assert_eq!(requests.recv_timeout(DEADLINE).unwrap(), (1, "tests pass".to_string()));
    let reference = format!("refs/nerve/snapshots/{SESSION}/1");
    let expected = json!({
        "snapshot_id": 1, "recording_id": SESSION, "label": "tests pass", "anchor_byte": 1001,
        "taken_at": TsMs::from(TsNs(AT_NS)).iso(), "left_out": [],
        "files": { "provider": "git", "source": session.work(), "reference": reference },
    });
    assert_eq!(done, expected);
    assert_eq!(session.git(&["status", "--porcelain"]), " M file\n?? untracked");
    let line = &session.lines()[0];
    assert_eq!((line.id, line.ts_ns, line.anchor_byte, &*line.kind), (1, AT_NS, 1001, "manual"));
    assert_eq!(line.files.as_ref().unwrap().reference, reference);

    session.put("file", "later\n");
    let to = session.home.hermetic.root().join("again");
    let to_text = to.to_str().unwrap();
    assert_eq!(session.snapshot_json(&["restore", "1", "--to", to_text])["to"], to_text);
    assert_eq!(read(&to.join("file")), "written while it was asked\n");
    assert_eq!(read(&to.join("untracked")), "u\n");
    assert_eq!(read(&session.work().join("file")), "later\n");
    session.snapshot(&["restore", "1", "--to", to_text]).assert_stderr(2, &["--to"]);
    session
        .snapshot(&["restore", "2", "--to", to_text])
        .assert_stderr(3, &["snapshot 2", "nerve snapshot list"]);
}

#[test]
fn recorder_entry_is_extended_not_replaced() {
    let session = Session::with_git();
    let recording = session.recording.clone();
    let _asked = session.listen(move |id| {
        let label = Some("noted by the recorder".to_string());
        let line = SnapshotLine {
            id,
            ts_ns: AT_NS,
            label,
            kind: "auto".into(),
            anchor_byte: 1000 + id,
            files: None,
        };
        snapshots::append(&recording, &line).unwrap();
        confirm(id)
    });
    session.snapshot_json(&[]);
    let lines = session.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!((&*lines[0].kind, lines[0].label.as_deref()), ("auto", Some("noted by the recorder")));
    assert_eq!(lines[0].files.as_ref().unwrap().provider, "git");
    // The next number is free in both.
    assert_eq!(session.snapshot_json(&["--no-files"])["snapshot_id"], 2);
    assert_eq!(session.snapshot_json(&["--id", "9"])["snapshot_id"], 9);
    assert_eq!(session.snapshot_json(&["--no-files"])["snapshot_id"], 10);
    assert_eq!(session.lines().len(), 4);
}

#[test]
fn plain_directory_is_copied_and_found_without_recording() {
    let session = Session::new();
    session.put("a", "one");
    let _asked = session.listen(confirm);
    let mut command = session.command(&["--json", "--label", "l"]);
    command.env_remove("NERVE_RECORDING");
    let files = session.run(command).json()["files"].clone();
    assert_ne!(files["provider"], "git");
    assert_eq!(
        (&files["source"], &files["reference"]),
        (&json!(session.work()), &json!(format!("{SESSION}/1")))
    );
    let copy = session.home.hermetic.nerve_home().join("snapshots").join(SESSION).join("1/a");
    assert_eq!(read(&copy), "one");

    // From outside of the terminal, by session and by number alone.
    let outside = |args: &[&str]| session.home.nerve(&[&["snapshot"], args].concat());
    let to = |name: &str| session.home.hermetic.root().join(name).to_str().unwrap().to_string();
    let done = outside(&["restore", "1", "--session", SESSION, "--to", &to("one")]);
    assert_eq!((done.code, read(Path::new(&to("one/a")))), (0, "one".to_string()), "{done:?}");
    assert_eq!(outside(&["restore", "1", "--to", &to("two")]).code, 0);
    let listed = outside(&["list", "--json"]).json()["snapshots"].clone();
    assert_eq!(
        (&listed[0]["snapshot_id"], &listed[0]["recording_id"], &listed[0]["taken_at"]),
        (&json!(1), &json!(SESSION), &json!(null))
    );
    // Only the copy is known, not the directory that was stored.
    assert_eq!(
        (&listed[0]["files"]["source"], &listed[0]["files"]["provider"]),
        (&json!(null), &json!("copy"))
    );
    // Another session's snapshot of the same number makes it ambiguous.
    let mut command = session.command(&[]);
    command.env_remove("NERVE_RECORDING").env("NERVE_SESSION_ID", "other");
    assert_eq!(session.run(command).code, 0);
    outside(&["restore", "1", "--to", &to("three")]).assert_stderr(2, &["other", "--recording"]);
}

#[test]
fn oversized_snapshot_is_refused_but_mark_stays() {
    let session = Session::with_git();
    session.put("huge", &"x".repeat(100_000));
    let _asked = session.listen(confirm);
    let done = session.snapshot(&["--limit", "64K"]);
    done.assert_stderr(1, &["snapshot 1", "byte 1001", "100000 bytes", "65536", "--limit"]);
    assert_eq!(session.git(&["for-each-ref", "refs/nerve"]), "");
    let done = session.snapshot(&["--limit", "64K", "--json"]);
    let error: Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!((&error["code"], done.stdout.as_str()), (&json!(1), ""));
}

#[test]
fn snapshots_are_listed_with_metadata() {
    let session = Session::with_git();
    let _asked = session.listen(confirm);
    session.snapshot_json(&["--label", "first \x1b[31mred"]);
    session.snapshot_json(&["--no-files"]);
    let table = session.snapshot(&["list"]).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[1].contains("2025-12-22 10:30:00  1001  git    first [31mred"), "{table}");
    assert!(rows[2].contains("1002  -"), "{table}");
    let by_file = session.snapshot_json(&["list", "--session", session.recording.to_str().unwrap()]);
    assert_eq!(by_file, session.snapshot_json(&["list", "--session", "0195e3a1"]));
    assert_eq!(by_file[1]["files"], json!(null));
    session.snapshot(&["restore", "2", "--to", "x"]).assert_code(3);
    session.snapshot(&["list", "--session", "/no/such.ahr"]).assert_code(3);
    session.snapshot(&["list", "--session", "absent"]).assert_stderr(3, &["session 'absent'"]);
}

#[test]
fn old_variable_and_tcp_reach_the_recorder() {
    let session = Session::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let requests = serve(std::iter::from_fn(move || Some(listener.accept().unwrap().0)), confirm);
    let mut command = session.home.command(&["snapshot", "--no-files", "--id", "5", "--json"]);
    command.env("AH_RECORDER_IPC_SOCKET", &address);
    let done = session.run(command).json();
    assert_eq!(
        (&done["snapshot_id"], &done["recording_id"], &done["files"]),
        (&json!(5), &json!("unnamed"), &json!(null))
    );
    session.snapshot_json(&["--no-files", "--id", "6", "--socket", &address]);
    assert_eq!([requests.recv().unwrap().0, requests.recv().unwrap().0], [5, 6]);
}

#[test]
fn missing_recorder_hints_what_to_do() {
    let session = Session::new();
    session.home.nerve(&["snapshot"]).assert_stderr(3, &["nerve record", "--recorder-socket"]);
    session.snapshot(&[]).assert_stderr(3, &["recorder.sock"]);
    session.snapshot(&["--socket", "tcp:127.0.0.1:1"]).assert_stderr(3, &["tcp:127.0.0.1:1"]);
    assert!(!session.home.hermetic.nerve_home().join("snapshots").join(SESSION).join("1").exists());
}

#[test]
fn unconfirmed_snapshot_leaves_no_files() {
    type Answer = fn(u64) -> Option<Vec<u8>>;
    let cases: [(Answer, i32, &str); 5] = [
        (
            |_| Some(Response::Error { message: "disk full".into() }.frame()),
            1,
            "refused the snapshot: disk full",
        ),
        (|_| None, 1, "without a reply"),
        (
            |id| Some(Response::Success { id: id + 1, anchor: 0, at_ns: 0 }.frame()),
            1,
            "snapshot 2 instead of 1",
        ),
        (|_| Some(vec![1, 0, 0, 0, 9]), 1, "no variant 9"),
        (|_| Some(vec![255; 4]), 1, "4294967295 bytes long"),
    ];
    for (answer, code, words) in cases {
        let session = Session::with_git();
        let requests = session.listen(answer);
        session.snapshot(&[]).assert_stderr(code, &[words]);
        session.snapshot(&[]).assert_stderr(code, &[]);
        let ids: Vec<u64> = requests.try_iter().map(|(id, _)| id).collect();
        let again = if words.contains("refused") { 1 } else { 2 };
        assert_eq!(ids, [1, again], "{words}: the number of what was refused is free again");
        assert_eq!(session.git(&["for-each-ref", "refs/nerve"]), "");
        assert_eq!(session.lines(), []);
    }
}

#[test]
fn silent_recorder_times_out() {
    let session = Session::with_git();
    let _silent = UnixListener::bind(session.socket()).unwrap();
    session.snapshot(&["--timeout", "0.2"]).assert_stderr(4, &["0.2 s"]);
    assert_eq!(session.git(&["for-each-ref", "refs/nerve"]), "");
}

#[test]
fn names_and_sizes_are_checked_before_the_request() {
    let session = Session::with_git();
    let requests = session.listen(confirm);
    session.snapshot(&["--label", &"x".repeat(70_000)]).assert_stderr(2, &["70000 bytes", "256"]);
    let mut command = session.command(&[]);
    command.env("NERVE_SESSION_ID", "../../x");
    assert_ne!(session.run(command).code, 0);
    session.snapshot(&["--dir", "/no/such/dir"]).assert_stderr(1, &["/no/such/dir"]);
    session.snapshot(&["--limit", "much"]).assert_stderr(2, &["500M"]);
    session.snapshot(&["--no-files", "--dir", "."]).assert_code(2);
    assert!(requests.recv_timeout(Duration::ZERO).is_err());
    session.snapshot_json(&["--label", &"x".repeat(256), "--no-files"]);
}

#[test]
fn git_hook_variables_are_ignored() {
    let session = Session::with_git();
    let _asked = session.listen(confirm);
    let mut command = session.command(&["--json"]);
    command.env("GIT_DIR", "/nowhere").env("GIT_INDEX_FILE", "/nowhere/index").env("GIT_WORK_TREE", "/tmp");
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.bare")
        .env("GIT_CONFIG_VALUE_0", "true");
    let done = session.run(command);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["files"]["source"], json!(session.work()));
}
