//! Sessions are stored, shared between servers, read from older files, and not lost with damaged ones.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nerve_api::request::{ChatSettings, CommandLine, ConversationOptions, NodeSpec, ProxySettings};
use nerve_api::value::{BackendKind, ParserKind, Provider};
use nerve_types::TsNs;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::entry::LastProcess;
use super::{
    GraphRecord, LoadReport, NodeRecord, SessionMetadata, SessionStore, SessionStoreError, is_secret,
};

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nerve/sessions.json");
    (folder, path)
}

fn session(id: &str) -> SessionMetadata {
    SessionMetadata {
        id: id.into(),
        name: format!("name-{id}"),
        server: "default".into(),
        description: "größer".into(),
        tags: vec!["work".into()],
        created_at: TsNs(1_790_000_000_123_456_000),
        updated_at: TsNs(1_790_000_001_000_000_000),
        nodes: Vec::new(),
        ledger: Default::default(),
        graphs: Vec::new(),
    }
}

fn record(spec: NodeSpec) -> NodeRecord {
    NodeRecord { spec, env_omitted: Vec::new(), last: None }
}

fn full_node() -> NodeRecord {
    let conversation = ConversationOptions {
        workspace: Some("w".into()),
        chat: Some("a chat".into()),
        ..ConversationOptions::default()
    };
    let spec = NodeSpec {
        backend: BackendKind::Tmux,
        command: Some(CommandLine::Argv(vec!["claude".into(), "--model".into(), "a b".into()])),
        cwd: Some("/tmp/größer".into()),
        env: [("LANG".to_string(), "C".to_string())].into(),
        cols: Some(120),
        rows: Some(40),
        profile: Some("claude".into()),
        parser: Some(ParserKind::None),
        history: false,
        ready_timeout: Duration::from_millis(60_500).into(),
        pane_id: Some("%3".into()),
        tmux_session: Some("work".into()),
        conversation_id: Some("5c3a".into()),
        conversation: Some(conversation),
        chat: Some(Box::new(ChatSettings::new(Default::default(), "m"))),
        proxy: Some(Box::new(ProxySettings::new(Provider::Openai))),
        ..NodeSpec::new("coder")
    };
    NodeRecord { env_omitted: vec!["OLD_TOKEN".into()], ..record(spec) }
}

fn load(path: &Path) -> SessionStore {
    let (store, report) = SessionStore::load(path).unwrap();
    assert_eq!(report, LoadReport::default());
    store
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn content(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn ids(store: &SessionStore) -> Vec<&str> {
    store.list().iter().map(|session| session.id.as_str()).collect()
}

#[test]
fn saved_session_is_loaded() {
    let (_folder, path) = place();
    let mut store = load(&path);
    let mut one = session("one");
    let text = NodeSpec { command: Some(CommandLine::Text("bash -i".into())), ..NodeSpec::new("sh") };
    one.nodes = vec![full_node(), record(text), record(NodeSpec::new("bare"))];
    one.graphs =
        vec![GraphRecord { name: "review".into(), definition: json!({"graph": "review", "steps": []}) }];
    store.add(one.clone()).unwrap();
    assert_eq!(store.save().unwrap(), LoadReport::default());
    let loaded = load(&path);
    assert_eq!(loaded.get("one"), Some(&one));
    assert_eq!(content(&path)["version"], "1.0");
}

#[test]
fn file_and_folder_are_private() {
    let (_folder, path) = place();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    for _ in 0..2 {
        store.add(session("two")).unwrap();
        store.save().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
    let mut names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["sessions.json", "sessions.json.lock"], "no temporary file is left");
}

#[test]
fn sessions_are_found_by_id_name_tag_and_server() {
    let (_folder, path) = place();
    let mut store = load(&path);
    let mut old = session("z-old");
    old.created_at = TsNs(1);
    let mut elsewhere = SessionMetadata { server: "other".into(), name: "name-one".into(), ..session("far") };
    elsewhere.tags = vec!["work".into(), "far".into()];
    elsewhere.updated_at = TsNs(2_000_000_000_000_000_000);
    for session in [session("one"), elsewhere, old] {
        store.add(session).unwrap();
    }
    assert_eq!(ids(&store), ["z-old", "far", "one"]);
    assert_eq!(store.find_by_name("name-one").unwrap().id, "far");
    assert!(store.find_by_name("one").is_none());
    let tagged: Vec<&str> = store.find_by_tag("far").iter().map(|session| session.id.as_str()).collect();
    assert_eq!(tagged, ["far"]);
    assert!(store.find_by_tag("fa").is_empty());
    assert_eq!(store.of_server("default").len(), 2);
    assert_eq!(store.remove("one").unwrap().name, "name-one");
    assert!(store.remove("one").is_none() && store.get("one").is_none());
}

#[test]
fn adding_an_id_again_replaces_the_session() {
    let (_folder, path) = place();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    store.save().unwrap();
    store.add(SessionMetadata { description: "new".into(), tags: Vec::new(), ..session("one") }).unwrap();
    store.save().unwrap();
    let loaded = load(&path);
    assert_eq!(ids(&loaded), ["one"]);
    assert_eq!(loaded.get("one").unwrap().description, "new");
    assert!(loaded.get("one").unwrap().tags.is_empty());
}

#[test]
fn removed_sessions_leave_the_file() {
    let (_folder, path) = place();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    store.add(session("two")).unwrap();
    store.save().unwrap();
    store.remove("one");
    store.save().unwrap();
    assert_eq!(ids(&load(&path)), ["two"]);
}

#[test]
fn save_without_changes_touches_nothing() {
    let (_folder, path) = place();
    load(&path).save().unwrap();
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn secret_looking_values_are_not_stored() {
    let (_folder, path) = place();
    let mut store = load(&path);
    let secret =
        ["ANTHROPIC_API_KEY", "github_token", "MySecret", "DB_PASSWORD", "passwd", "X_AUTH_Y", "Credentials"];
    let mut node = full_node();
    node.spec.env.extend(secret.iter().map(|name| ((*name).to_string(), "hunter2".to_string())));
    store.add(SessionMetadata { nodes: vec![node], ..session("one") }).unwrap();
    store.save().unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("hunter2"));
    for store in [&store, &load(&path)] {
        let node = &store.get("one").unwrap().nodes[0];
        assert_eq!(node.spec.env.keys().collect::<Vec<_>>(), ["LANG"]);
        let mut omitted = secret.to_vec();
        omitted.push("OLD_TOKEN");
        omitted.sort_unstable();
        assert_eq!(node.env_omitted, omitted);
    }
}

#[test]
fn names_and_urls_with_passwords_are_secret() {
    for (name, value) in [
        ("PGPASSWORD", "x"),
        ("PGPASS", "x"),
        ("db_pass", "x"),
        ("SSH_PASSPHRASE", "x"),
        ("DATABASE_URL", "postgres://u:pw_zzz@h/d"),
        ("DATABASE_URL", "postgres://u:p@ss@h:5432/d?x=1"),
        ("CACHES", "redis://one redis://:pw@two:6379"),
        ("DATABASE_URL", "postgres://u:p/w@h/d"),
        ("CACHE", "redis://:p#w@h"),
        ("REMOTE", "https://ghp_0123456789abcdef@github.com/me/repo"),
        ("MYSQL_PWD", "x"),
    ] {
        assert!(is_secret(name, value), "{name}={value}");
    }
    for (name, value) in [
        ("LANG", "C"),
        ("OLDPWD", "/home/me"),
        ("PASSTHROUGH", "1"),
        ("PGPASSFILE", "/home/me/.pgpass"),
        ("HOMEPAGE", "https://me@example.com:8080/a:b@c"),
        ("REMOTE", "git@example.com:me/repo"),
        ("NOTE", "a:b@c"),
    ] {
        assert!(!is_secret(name, value), "{name}={value}");
    }
}

#[test]
fn sessions_that_cannot_be_read_back_are_rejected() {
    let (_folder, path) = place();
    let mut store = load(&path);
    let definition = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let deep = vec![GraphRecord { name: "deep".into(), definition }];
    let cwd = Some(PathBuf::from(std::ffi::OsStr::from_bytes(b"/tmp/\xff")));
    let odd = vec![record(NodeSpec { cwd, ..NodeSpec::new("a") })];
    let nameless = vec![record(NodeSpec::new(""))];
    let cases = [
        (session(""), "no id"),
        (SessionMetadata { graphs: deep, ..session("one") }, "recursion limit"),
        (SessionMetadata { nodes: odd, ..session("one") }, "not UTF-8"),
        (SessionMetadata { nodes: nameless, ..session("one") }, "no name"),
    ];
    for (session, why) in cases {
        let error = store.add(session).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    store.save().unwrap();
    assert!(!path.exists());
}

#[test]
fn file_of_first_version_is_converted_without_loss() {
    let (_folder, path) = place();
    write(
        &path,
        r#"{"s-1": {"id": "s-1", "name": "old", "description": null, "tags": ["a"], "created_at": "2025-12-01T10:00:00.5",
                    "metadata": {"x": 1}},
            "s-2": {"name": "older", "created_at": 1764583200.25},
            "s-3": {"created_at": "2025-12-01T11:00:00+01:00"}}"#,
    );
    let mut store = load(&path);
    let first = store.get("s-1").unwrap();
    assert_eq!(
        (first.name.as_str(), first.description.as_str(), first.server.as_str()),
        ("old", "", "default")
    );
    assert_eq!(first.tags, ["a"]);
    assert_eq!(first.created_at, TsNs(1_764_583_200_500_000_000));
    assert_eq!(first.updated_at, first.created_at);
    assert_eq!(store.get("s-2").unwrap().created_at, TsNs(1_764_583_200_250_000_000));
    let third = store.get("s-3").unwrap();
    assert_eq!((third.name.as_str(), third.created_at), ("s-3", TsNs(1_764_583_200_000_000_000)));

    let edited = SessionMetadata { description: "edited".into(), ..first.clone() };
    store.add(edited.clone()).unwrap();
    store.save().unwrap();
    let written = content(&path);
    assert_eq!(written["version"], "1.0");
    assert_eq!(written["sessions"][0]["metadata"], json!({"x": 1}), "unknown fields are kept");
    assert_eq!(written["sessions"][1], json!({"name": "older", "created_at": 1_764_583_200.25, "id": "s-2"}));
    assert_eq!(load(&path).get("s-1"), Some(&edited));
}

#[test]
fn node_with_old_field_names_is_read() {
    let (_folder, path) = place();
    let node = json!({
        "name": "coder", "backend": "tmux", "command": ["claude", "--model", "a b"], "cwd": "/tmp/größer",
        "env": {"LANG": "C"}, "env_omitted": ["OLD_TOKEN"], "cols": 120, "rows": 40, "profile": "claude",
        "parser": "none", "history": false, "record": null, "ready_timeout": 60.5, "response_timeout": 1800.0,
        "place": {"pane": "%3", "session": "work"}, "agent_session": "5c3a",
        "chat": {"model": "m", "provider": "anthropic", "max_tokens": 4096},
        "conversation": {"workspace": "w", "chat": "a chat"}, "proxy": {"kind": "openai"},
    });
    let agent = json!({"node_id": "agent", "claude_session_id": "5c3a"});
    let nodes = json!([node, {"name": "bare"}, agent]);
    write(&path, &json!({"version": "1.0", "sessions": [{"id": "a", "nodes": nodes}]}).to_string());
    let agent = NodeSpec { conversation_id: Some("5c3a".into()), ..NodeSpec::new("agent") };
    assert_eq!(
        load(&path).get("a").unwrap().nodes,
        [full_node(), record(NodeSpec::new("bare")), record(agent)]
    );
}

#[test]
fn conversation_of_last_process_is_read_by_both_names() {
    for name in ["agent_session", "conversation_id"] {
        let last: LastProcess = serde_json::from_value(json!({name: "c-1"})).unwrap();
        assert_eq!(last.conversation_id.as_deref(), Some("c-1"));
        assert_eq!(
            serde_json::to_value(&last).unwrap(),
            json!({"agent_session": "c-1"}),
            "for older servers"
        );
    }
}

#[test]
fn list_without_version_is_read() {
    let (_folder, path) = place();
    write(&path, r#"{"sessions": [{"id": "a", "name": "one"}, {"id": "b", "tags": null}]}"#);
    assert_eq!(ids(&load(&path)), ["a", "b"]);
    write(&path, "{}");
    assert!(load(&path).list().is_empty());
}

#[test]
fn newer_minor_version_keeps_its_fields() {
    let (_folder, path) = place();
    let other = json!({"id": "a", "mood": {"x": 1}, "nodes": [{"name": "n", "colour": "red"}]});
    write(&path, &json!({"version": "1.7", "theme": "dark", "sessions": [other]}).to_string());
    let mut store = load(&path);
    assert_eq!(store.get("a").unwrap().nodes[0].spec.node_id, "n");
    store.add(session("one")).unwrap();
    store.save().unwrap();
    let written = content(&path);
    assert_eq!((&written["version"], &written["theme"]), (&json!("1.7"), &json!("dark")));
    assert_eq!(written["sessions"][0], other);
    assert_eq!(written["sessions"][1]["id"], "one");
}

#[test]
fn newer_major_version_is_read_but_not_written() {
    let (_folder, path) = place();
    for (version, sessions) in [
        (json!("2.0"), json!([{"id": "a", "name": "one", "nodes": []}, {"uid": 5}])),
        (json!(3), json!({"a": {"name": "one"}})),
        (json!("next"), json!([{"id": "a"}])),
    ] {
        let newer = json!({"version": version, "sessions": sessions}).to_string();
        write(&path, &newer);
        let (mut store, report) = SessionStore::load(&path).unwrap();
        assert!(report.problem.unwrap().contains("not written"));
        assert_eq!(report.set_aside, None);
        assert_eq!(ids(&store), ["a"]);
        store.add(session("mine")).unwrap();
        let error = store.save().unwrap_err();
        assert!(matches!(error, SessionStoreError::Newer { .. }), "{error}");
        assert!(error.to_string().contains("use the newer nerve"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), newer);
        // After the file was moved away as the message says, the pending change goes into a new file.
        fs::remove_file(&path).unwrap();
        store.save().unwrap();
        assert_eq!(ids(&load(&path)), ["mine"]);
    }
}

#[test]
fn file_that_became_newer_is_not_written() {
    let (_folder, path) = place();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    write(&path, r#"{"version": "2.0", "sessions": []}"#);
    assert!(matches!(store.save(), Err(SessionStoreError::Newer { .. })));
}

#[test]
fn damaged_file_is_set_aside_and_reported() {
    let (_folder, path) = place();
    let damaged = [
        "",
        "not json",
        "{\"version\":\"1.0\",\"sessions\":[",
        "[1]",
        "{\"a\":1}",
        "{\"version\":\"1.0\",\"sessions\":5}",
    ];
    for (index, spoilt) in damaged.iter().enumerate() {
        write(&path, spoilt);
        let (store, report) = SessionStore::load(&path).unwrap();
        assert!(store.list().is_empty());
        let aside = path.with_file_name(format!("sessions.json.damaged-{}", index + 1));
        assert_eq!(report.set_aside.as_ref(), Some(&aside));
        let problem = report.problem.unwrap();
        assert!(problem.contains("damaged") && problem.contains(aside.to_str().unwrap()), "{problem}");
        assert_eq!(fs::read_to_string(&aside).unwrap(), *spoilt);
        assert!(!path.exists());
    }
}

#[test]
fn damage_found_during_save_loses_no_session() {
    let (_folder, path) = place();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    store.save().unwrap();
    write(&path, "not json");
    store.add(session("two")).unwrap();
    let report = store.save().unwrap();
    assert_eq!(fs::read_to_string(report.set_aside.unwrap()).unwrap(), "not json");
    assert_eq!(ids(&load(&path)), ["one", "two"]);
}

#[test]
fn unreadable_session_is_reported_and_kept() {
    let (_folder, path) = place();
    let odd = [
        json!({"id": "odd", "tags": 5}),
        json!("text"),
        json!({"id": "slow", "nodes": [{"name": "n", "ready_timeout": -1}]}),
    ];
    let good = json!({"id": "good"});
    write(&path, &json!({"version": "1.0", "sessions": [odd[0], good, odd[1], odd[2]]}).to_string());
    let (mut store, report) = SessionStore::load(&path).unwrap();
    assert_eq!(ids(&store), ["good"]);
    let problem = report.problem.unwrap();
    for name in ["\"odd\"", "number 3", "\"slow\" cannot be read"] {
        assert!(problem.contains(name), "{problem}");
    }
    store.add(session("one")).unwrap();
    store.save().unwrap();
    let written = content(&path);
    let sessions = written["sessions"].as_array().unwrap();
    assert!(odd.iter().all(|odd| sessions.contains(odd)), "{written}");
    assert_eq!(sessions.len(), 5);
}

#[test]
fn unreadable_file_is_an_error_and_left_alone() {
    let (folder, _) = place();
    // A folder in place of the file.
    assert!(matches!(SessionStore::load(folder.path()), Err(SessionStoreError::Io { doing: "read", .. })));
    assert!(folder.path().is_dir());
}

#[test]
fn symbolic_link_to_file_is_preserved() {
    let (folder, path) = place();
    let real = folder.path().join("elsewhere/real.json");
    write(&real, "{}");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    let mut store = load(&path);
    store.add(session("one")).unwrap();
    store.save().unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(ids(&load(&real)), ["one"]);
}

#[test]
fn server_keeps_changes_of_another_server() {
    let (_folder, path) = place();
    let mut here = load(&path);
    let mut there = load(&path);
    here.add(session("here")).unwrap();
    here.add(session("common")).unwrap();
    here.save().unwrap();
    there.add(session("there")).unwrap();
    assert!(there.get("here").is_none());
    there.save().unwrap();
    assert_eq!(ids(&there), ["common", "here", "there"]);
    there.remove("common");
    there.save().unwrap();
    here.add(session("more")).unwrap();
    here.save().unwrap();
    assert_eq!(ids(&here), ["here", "more", "there"], "removed sessions do not come back");
}

/// Adds and saves sessions one by one, and removes every second one again.
fn busy_writer(path: &Path, name: &str, count: usize) {
    let (mut store, _) = SessionStore::load(path).unwrap();
    for index in 0..count {
        store.add(session(&format!("{name}-{index}"))).unwrap();
        store.save().unwrap();
        if index % 2 == 1 {
            store.remove(&format!("{name}-{index}"));
            store.save().unwrap();
        }
    }
}

fn expected(names: &[&str], count: usize) -> Vec<String> {
    let mut ids: Vec<String> = names
        .iter()
        .flat_map(|name| (0..count).step_by(2).map(move |index| format!("{name}-{index}")))
        .collect();
    ids.sort();
    ids
}

#[test]
fn concurrent_threads_lose_nothing() {
    let (_folder, path) = place();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            scope.spawn(|| busy_writer(&path, name, 16));
        }
    });
    assert_eq!(ids(&load(&path)), expected(&["a", "b", "c"], 16));
}

const WRITER_PATH: &str = "NERVE_TEST_SESSIONS";
const WRITER_NAME: &str = "NERVE_TEST_WRITER";

#[test]
fn concurrent_processes_lose_nothing() {
    let (_folder, path) = place();
    let test = format!("{}::writer_process", module_path!());
    let test = test.split_once("::").unwrap().1;
    let start = |name: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", test])
            .env(WRITER_PATH, &path)
            .env(WRITER_NAME, name)
            .output()
    };
    std::thread::scope(|scope| {
        let writers = ["p", "q"].map(|name| scope.spawn(move || start(name)));
        for writer in writers {
            let output = writer.join().unwrap().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    });
    assert_eq!(ids(&load(&path)), expected(&["p", "q"], 16));
}

#[test]
#[ignore = "started by concurrent_processes_lose_nothing"]
fn writer_process() {
    let (Some(path), Ok(name)) = (std::env::var_os(WRITER_PATH), std::env::var(WRITER_NAME)) else {
        // Run with all ignored tests, not by the other test: there is nothing to do.
        return;
    };
    busy_writer(Path::new(&path), &name, 16);
}
