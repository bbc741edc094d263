use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use nerve_record::lookup::{Candidate, Finder, LookupError, Name, NodePath, select};
use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_types::TsNs;

/// Two ids with the same timestamp, and one with another.
const FIRST: &str = "0195e3a1-77aa-7bcd-8000-0123456789ab";
const SECOND: &str = "0195e3a1-77aa-7c00-9000-feed00000001";
const OTHER: &str = "0195ffff-0000-7aaa-a000-00000000beef";

fn candidate(id: &str, node: Option<(&str, &str)>) -> Candidate {
    Candidate {
        id: id.to_string(),
        node: node.map(|(session, node)| NodePath::new(Some(session), node)),
        written: Some(TsNs(1_710_000_000_000_000_000)),
        is_recorded: true,
        ..Candidate::default()
    }
}

/// Returns the id of the selected candidate, or the error's text.
fn selected(text: &str, candidates: &[Candidate]) -> Result<String, String> {
    let found = Name::parse(text).and_then(|name| select(&name, candidates).map(|one| one.id.clone()));
    found.map_err(|error| format!("{error}; {}", error.suggestion().unwrap_or_default()))
}

#[track_caller]
fn assert_selects(candidates: &[Candidate], cases: &[(&str, &str)]) {
    for (text, id) in cases {
        assert_eq!(selected(text, candidates).as_deref(), Ok(*id), "{text}");
    }
}

#[track_caller]
fn assert_fails(candidates: &[Candidate], text: &str, words: &[&str]) {
    let error = selected(text, candidates).unwrap_err();
    assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
}

#[test]
fn id_is_found_by_beginning_of_any_random_part() {
    let all = [candidate(FIRST, None), candidate(SECOND, None), candidate(OTHER, None)];
    assert_selects(
        &all,
        &[
            (FIRST, FIRST),
            ("0195f", OTHER),
            ("0195e3a1-77aa-7c", SECOND),
            ("7bcd", FIRST),
            ("9", SECOND),
            ("0123456789ab", FIRST),
            ("feed", SECOND),
            ("00000000be", OTHER),
        ],
    );
    assert_fails(
        &all,
        "0195e3",
        &["'0195e3' is ambiguous", FIRST, SECOND, "2024-03-09 16:00:00Z", "16 characters"],
    );
    assert_fails(&all, "7", &["'7' is ambiguous", "use an id"]);
    assert_fails(&all, "dead", &["no recording or session 'dead'"]);
}

#[test]
fn host_id_selects_its_session() {
    let host = |id: &str, host: &str| Candidate { host: Some(host.to_string()), ..candidate(id, None) };
    let all = [host("s-1", "aa11"), host("s-2", "aa22"), host("same", "bb1"), host("same", "bb2")];
    assert_selects(&all, &[("aa11", "s-1"), ("aa2", "s-2"), ("s-2", "s-2"), ("bb1", "same")]);
    assert_fails(&all, "aa", &["at least 3 characters: 'aa1' or 'aa2'"]);
    assert_fails(&all, "same", &["ambiguous", "'bb1' or 'bb2'"]);
}

#[test]
fn node_selects_its_newest_or_nth_recording() {
    let me = Some(("default", "me"));
    let all = [
        candidate("c", me),
        candidate("x", Some(("default", "you"))),
        candidate("b", me),
        candidate("a", me),
    ];
    assert_selects(&all, &[("me", "c"), ("me@1", "c"), ("me@2", "b"), ("default/me@3", "a"), ("you", "x")]);
    assert_fails(&all, "me@4", &["no recording 'me@4': the node has 3"]);
    assert_fails(&all, "yuo", &["did you mean 'you'?"]);
    assert_fails(&all, "default/mee", &["did you mean 'default/me'?"]);
    for invalid in ["", "me@0", "me@", "me@x", "a/b/c", "../x", "two words", "/me", "me/"] {
        assert_fails(&all, invalid, &["invalid name"]);
    }
}

#[test]
fn node_of_default_session_precedes_others() {
    let all = [candidate("n", Some(("night", "me"))), candidate("d", Some(("default", "me")))];
    assert_selects(&all, &[("me", "d"), ("night/me", "n"), ("default/me", "d")]);
    let all = [
        candidate("n2", Some(("night", "me"))),
        candidate("d1", Some(("day", "me"))),
        candidate("n1", Some(("night", "me"))),
    ];
    assert_fails(&all, "me", &["'me' is ambiguous: n2 (night/me, 2", "d1 (day/me", "'night/me' or 'day/me'"]);
    assert_selects(&all, &[("night/me@2", "n1")]);
    let name = Name::parse("me").unwrap().in_session(Some("day"));
    assert_eq!(select(&name, &all).unwrap().id, "d1");
}

#[test]
fn exact_id_precedes_node_and_node_precedes_beginning() {
    let all = [
        candidate("abc", None),
        candidate("x", Some(("default", "abc"))),
        candidate("y", Some(("default", "ab"))),
    ];
    assert_selects(&all, &[("abc", "abc"), ("ab", "y"), ("a", "abc")]);
}

/// A store whose recordings have an age of their last write in seconds.
fn store(recordings: &[(&str, Option<&str>, u64)]) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    for &(id, node, age) in recordings {
        let path = store.prepare(id, TsNs(1_767_225_600_000_000_000)).unwrap();
        let file = File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        let node = node.map(str::to_string);
        Meta { node, ..Meta::default() }.store(&path).unwrap();
    }
    (folder, store)
}

fn found(store: &Store, sessions: &[Candidate], text: &str) -> Result<String, LookupError> {
    Finder::new(store, sessions.to_vec()).find(&Name::parse(text)?).map(|one| one.id)
}

#[test]
fn finder_orders_by_last_write_and_reads_nodes() {
    let (_folder, store) =
        store(&[(FIRST, Some("me"), 30), (SECOND, Some("me"), 20), (OTHER, Some("you"), 10)]);
    let found = |text: &str| found(&store, &[], text);
    assert_eq!(found("me").as_deref(), Ok(SECOND));
    assert_eq!(found("me@2").as_deref(), Ok(FIRST));
    assert_eq!(found(OTHER).as_deref(), Ok(OTHER));
    assert_eq!(found("00000000be"), found("0195f"), "the last group is random");
    let error = found("0195e3a1-").unwrap_err().to_string();
    assert!(error.contains(&format!("{SECOND} (default/me, ")), "{error}");
    assert!(matches!(found("nothing"), Err(LookupError::NotFound { .. })));
}

#[test]
fn exact_id_and_uuid_beginning_open_no_metadata() {
    let (_folder, store) = store(&[(FIRST, None, 2), (OTHER, Some("you"), 1)]);
    // Opening a FIFO would block.
    let sidecar = Meta::sidecar_path(&store.all()[0]);
    fs::remove_file(&sidecar).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &sidecar,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for text in [FIRST, OTHER, "0195e3a1-", "0195ffff-0000"] {
        assert!(found(&store, &[], text).is_ok(), "{text}");
    }
}

#[test]
fn running_session_is_merged_with_its_recording() {
    let (_folder, store) = store(&[(FIRST, Some("me"), 5)]);
    let path = store.all().pop();
    let host = Some("0123456789ab".to_string());
    let running = Candidate { host, path, ..candidate(FIRST, Some(("default", "me"))) };
    let unrecorded = Candidate {
        host: Some("cc".to_string()),
        is_recorded: false,
        written: Some(TsNs(u64::MAX)),
        ..candidate("later", Some(("default", "me")))
    };
    let sessions = [running, unrecorded];
    for (text, id) in
        [("0123456789ab", FIRST), (FIRST, FIRST), ("me", "later"), ("me@2", FIRST), ("cc", "later")]
    {
        assert_eq!(found(&store, &sessions, text).as_deref(), Ok(id), "{text}");
    }
}
