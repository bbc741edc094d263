//! The session files of agents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use nerve_agent::profile::{Profiles, TranscriptKind};
use nerve_transcript::session_files::{SessionFiles, write_sibling};
use nerve_types::TsNs;
use rustix::fs::{CWD, Mode, mkfifoat};

const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
const B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";

fn home() -> (tempfile::TempDir, SessionFiles) {
    let home = tempfile::tempdir().expect("a folder");
    let session_files = SessionFiles::in_home(home.path().into());
    (home, session_files)
}

fn write(home: &tempfile::TempDir, path: &str, text: &str) -> PathBuf {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, text).expect("a file");
    path
}

#[test]
fn id_is_read_from_valid_status_files_only() {
    let (home, session_files) = home();
    let forms = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
    assert_eq!(session_files.current_id(&forms, 7).unwrap(), None);
    for bad in ["[]", r#"{"sessionId": 5}"#, r#"{"sessionId": "../../x"}"#] {
        write(&home, ".claude/sessions/7.json", bad);
        assert_eq!(session_files.current_id(&forms, 7).unwrap(), None, "{bad}");
    }
    write(&home, ".claude/sessions/7.json", &format!(r#"{{"pid": 7, "sessionId": "{A}"}}"#));
    assert_eq!(session_files.current_id(&forms, 7).unwrap().as_deref(), Some(A));
}

#[test]
fn status_file_that_is_being_written_is_read_again() {
    let (home, session_files) = home();
    let forms = Profiles::builtin().get("claude").unwrap().session.clone().unwrap();
    let status = format!(r#"{{"pid": 7, "sessionId": "{A}"}}"#);
    let complete = write(&home, "complete.json", &status);
    let path = write(&home, ".claude/sessions/7.json", "");
    fs::remove_file(&path).unwrap();
    // A pipe has the reader wait for what is written here.
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let reader = thread::spawn(move || session_files.current_id(&forms, 7));
    let mut pipe = File::options().write(true).open(&path).unwrap();
    pipe.write_all(&status.as_bytes()[..20]).unwrap();
    fs::rename(complete, path).unwrap();
    drop(pipe);
    assert_eq!(reader.join().unwrap().unwrap().as_deref(), Some(A));
}

#[test]
fn files_are_found_by_id() {
    let (home, session_files) = home();
    assert_eq!(session_files.transcript(A), None);
    let transcript = write(&home, &format!(".claude/projects/-x-y/{A}.jsonl"), "{}\n");
    assert_eq!(session_files.transcript(A), Some(transcript));
    assert_eq!(session_files.transcript(B), None);
    let name = ".gemini/tmp/project/chats/session-2026-11-22T08-59-aaaaaaaa.jsonl";
    let chat = write(&home, name, &format!("{{\"sessionId\":\"{A}\"}}\n"));
    assert_eq!(session_files.chat(TranscriptKind::Gemini, A), Some(chat));
    assert_eq!(
        session_files.chat(TranscriptKind::Gemini, "aaaaaaaa-0000-4000-8000-000000000000"),
        None,
        "same prefix, other id"
    );
}

#[test]
fn codex_folder_of_environment_is_searched() {
    let (home, _) = home();
    let var = |name: &str, path: PathBuf| (name.to_string(), path.display().to_string());
    let env = BTreeMap::from([var("HOME", home.path().into()), var("CODEX_HOME", home.path().join("other"))]);
    write(&home, &format!("other/sessions/2026/11/22/rollout-2026-11-22T08-59-47-{A}.jsonl"), "");
    fs::create_dir_all(home.path().join(".codex")).unwrap();
    let session_files = SessionFiles::for_env(&env).unwrap();
    let has = |id: &str| session_files.has_conversation(Some(TranscriptKind::Codex), id);
    assert_eq!((has(A), has(B)), (Some(true), Some(false)));
}

#[test]
fn gemini_conversations_are_found_by_folder_and_time() {
    let (home, session_files) = home();
    let line = |id: &str, time: &str| format!("{{\"sessionId\":\"{id}\",\"startTime\":\"{time}\"}}\n");
    let chat = |project: &str, name: &str, text: &str| {
        write(&home, &format!(".gemini/tmp/{project}/chats/session-{name}.jsonl"), text)
    };
    write(&home, ".gemini/tmp/project/.project_root", "/x/project");
    write(&home, ".gemini/tmp/other/.project_root", "/x/other");
    let begun = line(A, "1970-01-01T00:00:10Z");
    let whole = chat("project", "1-aaaaaaaa", &format!("{begun}{{}}\n"));
    chat("project", "2-aaaaaaaa", &begun);
    chat("project", "3-bbbbbbbb", &line(B, "1970-01-01T00:00:30Z"));
    chat("other", "4-bbbbbbbb", &line(B, "1970-01-01T00:00:10Z"));
    let seconds = |from: u64, to: u64| {
        session_files.chats_started_in(
            TranscriptKind::Gemini,
            Path::new("/x/project"),
            TsNs(from * 1_000_000_000),
            TsNs(to * 1_000_000_000),
        )
    };
    assert_eq!(seconds(5, 20), [A], "listed once, although it has two files");
    assert_eq!(seconds(5, 40), [A, B]);
    assert_eq!(seconds(11, 20), [""; 0]);
    assert_eq!(session_files.chat(TranscriptKind::Gemini, A), Some(whole), "the larger file");
}

#[test]
fn conversations_of_pi_and_qwen_are_found() {
    let (home, session_files) = home();
    let cwd = Path::new("/x/my.project");
    for (kind, key, root, folder) in [
        (TranscriptKind::Pi, "id", ".pi/agent/sessions", "--x-my.project--/1970_"),
        (TranscriptKind::Qwen, "sessionId", ".qwen/projects", "-x-my-project/chats/"),
    ] {
        let session = |folder: &str, id: &str| {
            let head = format!(r#"{{"type":"session","{key}":"{id}","timestamp":"1970-01-01T00:00:10Z"}}"#);
            write(&home, &format!("{root}/{folder}{id}.jsonl"), &format!("{head}\n"))
        };
        let (one, _) = (session(folder, A), session(&folder.replace("my", "other"), B));
        assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(20_000_000_000)), [A]);
        assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(5_000_000_000)), [""; 0]);
        assert_eq!(session_files.chats_changed_in(kind, cwd, TsNs(1)), std::slice::from_ref(&one));
        assert_eq!(session_files.chat(kind, A), Some(one));
        assert_eq!(session_files.has_conversation(Some(kind), "aaaaaaaa"), Some(false), "a part of an id");
    }
}

#[test]
fn conversations_of_copilot_belong_to_the_folder_in_their_first_event() {
    let (home, session_files) = home();
    let session = |id: &str, cwd: &str| {
        let data = format!(r#"{{"sessionId":"{id}","context":{{"cwd":"{cwd}"}}}}"#);
        let start = format!(
            r#"{{"type":"session.start","data":{data},"id":"x","timestamp":"1970-01-01T00:00:10Z"}}"#
        );
        write(&home, &format!(".copilot/session-state/{id}/events.jsonl"), &format!("{start}\n"))
    };
    let (one, other) = (session(A, "/x/my.project"), session(B, "/x/other"));
    let (kind, cwd) = (TranscriptKind::Copilot, Path::new("/x/my.project"));
    assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(20_000_000_000)), [A]);
    assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(5_000_000_000)), [""; 0]);
    assert_eq!(session_files.chats_changed_in(kind, cwd, TsNs(1)), std::slice::from_ref(&one));
    assert_eq!(session_files.chat(kind, A), Some(one));
    assert_eq!(session_files.chat(kind, B), Some(other), "an id is enough");
    assert_eq!(session_files.has_conversation(Some(kind), "aaaaaaaa"), Some(false), "a part of an id");
}

#[test]
fn conversations_of_kimi_belong_to_the_workspace_of_the_folder() {
    let (home, session_files) = home();
    let workspaces = r#"{"workspaces":{"wd_a":{"root":"/x/project"},"wd_b":{"root":"/x/other"}}}"#;
    write(&home, ".kimi-code/workspaces.json", workspaces);
    let wire = |workspace: &str, id: &str, ms: u64| {
        let first = format!(r#"{{"type":"metadata","protocol_version":"1.5","created_at":{ms}}}"#);
        let path = format!(".kimi-code/sessions/{workspace}/{id}/agents/main/wire.jsonl");
        write(&home, &path, &format!("{first}\n"))
    };
    let (one, other) = (wire("wd_a", "session_1", 10_000), wire("wd_b", "session_2", 10_000));
    // A subagent's file is no conversation.
    write(&home, ".kimi-code/sessions/wd_a/session_1/agents/sub/wire.jsonl", "{}\n");
    let (kind, cwd) = (TranscriptKind::Kimi, Path::new("/x/project"));
    assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(20_000_000_000)), ["session_1"]);
    assert_eq!(session_files.chats_started_in(kind, cwd, TsNs(0), TsNs(5_000_000_000)), [""; 0]);
    assert_eq!(session_files.chats_changed_in(kind, cwd, TsNs(1)), std::slice::from_ref(&one));
    assert_eq!(session_files.chat(kind, "session_1"), Some(one));
    assert_eq!(session_files.chat(kind, "session_2"), Some(other), "an id is enough");
    assert_eq!(session_files.has_conversation(Some(kind), "session_3"), Some(false));
}

#[test]
fn copy_is_private_and_never_replaces_a_file() {
    let (home, _) = home();
    let source = write(&home, &format!("p/{A}.jsonl"), "old\n");
    let copy = write_sibling(&source, B, "new\n").unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "new\n");
    assert_eq!(write_sibling(&source, A, "x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&source).unwrap(), "old\n");
    assert_eq!(fs::read_dir(home.path().join("p")).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn single_open_rollout_determines_id() {
    let (home, session_files) = home();
    let pid = i32::try_from(std::process::id()).unwrap();
    let forms = Profiles::builtin().get("codex").unwrap().session.clone().unwrap();
    let open_rollout = |pid| session_files.current_id(&forms, pid).unwrap();
    let name = |id: &str| format!(".codex/sessions/2026/11/22/rollout-2026-11-22T08-59-47-{id}.jsonl");
    let one = File::open(write(&home, &name(A), "")).unwrap();
    assert_eq!(open_rollout(pid).as_deref(), Some(A));
    let other = File::open(write(&home, &name(B), "")).unwrap();
    assert_eq!(open_rollout(pid), None, "ambiguous");
    drop((one, other));
    assert_eq!(open_rollout(pid), None);
}

#[test]
fn databases_are_named_like_their_program() {
    let files = SessionFiles::in_home("/home/me".into());
    let data = std::path::Path::new("/home/me/.local/share");
    assert_eq!(files.database(TranscriptKind::Opencode), Some(data.join("opencode/opencode.db")));
    assert_eq!(files.database(TranscriptKind::Kilo), Some(data.join("kilo/kilo.db")));
    assert_eq!(files.database(TranscriptKind::Claude), None);
}
