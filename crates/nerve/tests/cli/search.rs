//! `nerve search`: prompts, answers, tools and screens, with an index that follows the files.

use std::fs;

use nerve_record::store::Store;
use nerve_testkit::wait_until;
use nerve_types::{Size, TsNs};
use serde_json::Value;

use crate::harness::{DEADLINE, Home};
use crate::recordings::{START, data, record};
use crate::tty::Tty;

impl Home {
    fn hits(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = ["search", "--json"].into_iter().chain(args.iter().copied()).collect();
        self.nerve(&args).json()["hits"].as_array().unwrap().clone()
    }
}

#[test]
fn sentence_is_found_after_everything_ended() {
    let home = Home::with_agent();
    home.ok(&["send", "m", "the Übermorgen plan has three steps"]);
    home.ok(&["stop", "m"]);
    home.ok(&["server", "stop"]);
    // Words, without case and accents, the last one not finished.
    let hits = home.hits(&["ubermorgen PLAN ha", "--in", "prompts"]);
    assert_eq!(hits.len(), 1, "{hits:?}");
    let hit = &hits[0];
    assert_eq!(
        (&hit["node_id"], &hit["turn"], &hit["kind"]),
        (&"m".into(), &1.into(), &"prompt".into()),
        "{hit}"
    );
    // The command that a hit names shows it.
    let open = hit["open"].as_str().unwrap().strip_prefix("nerve ").unwrap();
    let shown = home.ok(&open.split(' ').collect::<Vec<_>>());
    assert!(shown.contains("> the Übermorgen plan has three steps"), "{shown}");
    // The same words are in the answer and on the screen.
    let kinds: Vec<Value> = home.hits(&["Übermorgen"]).into_iter().map(|hit| hit["kind"].clone()).collect();
    for kind in ["prompt", "answer", "screen"] {
        assert!(kinds.contains(&kind.into()), "{kind}: {kinds:?}");
    }
    let text = home.ok(&["search", "Übermorgen", "--in", "prompts"]);
    assert!(text.starts_with("m · turn 1 · ") && text.contains("    the Übermorgen plan"), "{text}");
}

#[test]
fn new_turns_are_found_without_duplicates() {
    let home = Home::with_agent();
    for turn in 1..=3u64 {
        home.ok(&["send", "m", &format!("wordalpha number{turn}")]);
        let hits = home.hits(&["wordalpha", "--in", "prompts"]);
        let turns: Vec<&Value> = hits.iter().map(|hit| &hit["turn"]).collect();
        assert_eq!(turns, (1..=turn).rev().collect::<Vec<_>>(), "newest first");
    }
    assert_eq!(home.hits(&["wordalpha", "--in", "prompts", "-n", "1"]).len(), 1);
    home.nerve(&["search", "wordalpha", "--node", "other"]).assert_stderr(3, &["node 'other'"]);
    assert_eq!(home.hits(&["wordalpha", "--since", "1h", "--in", "prompts"]).len(), 3);
    assert!(home.hits(&["wordalpha", "--since", "2100-01-01"]).is_empty());
    let hits = home.hits(&["/number[23]$/", "--in", "prompts"]);
    assert_eq!(hits.len(), 2, "{hits:?}");
    let (start, end) =
        (hits[0]["matches"][0][0].as_u64().unwrap(), hits[0]["matches"][0][1].as_u64().unwrap());
    assert_eq!(&hits[0]["text"].as_str().unwrap()[start as usize..end as usize], "number3");
}

#[test]
fn node_without_recording_is_found_by_its_history() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["node", "create", "b", "--backend", "bash"]);
    home.ok(&["send", "b", "echo wordbeta"]);
    let hits = home.hits(&["wordbeta", "--in", "answers"]);
    assert_eq!((hits.len(), &hits[0]["recording_id"]), (1, &Value::Null), "{hits:?}");
    assert_eq!(hits[0]["open"], "nerve transcript b --turn 1");
}

#[test]
fn removed_recordings_are_forgotten() {
    let home = Home::new();
    home.ok(&["record", "--headless", "--out-file", "--", "printf", "wordgamma"]);
    let found = home.hits(&["wordgamma"]);
    assert_eq!((found.len(), &found[0]["kind"]), (1, &"screen".into()), "{found:?}");
    let open = found[0]["open"].as_str().unwrap();
    assert!(open.starts_with("nerve view ") && open.contains(" --at 0."), "{open}");
    home.ok(&["recording", "prune", "--max-size", "0"]);
    assert!(home.hits(&["wordgamma"]).is_empty());
}

#[test]
fn unreadable_session_file_is_tried_again() {
    let home = Home::new();
    home.ok(&["record", "--headless", "--", "printf", "wordxi"]);
    let recording = home.nerve(&["recording", "list", "--json"]).json()["recordings"][0].clone();
    let id = "55555555-5555-4555-8555-555555555555";
    let session_file = home.hermetic.work().join(format!("{id}.jsonl"));
    // Not UTF-8.
    std::fs::write(&session_file, [0xff, b'\n']).unwrap();
    let meta_file = std::path::Path::new(recording["path"].as_str().unwrap()).with_extension("meta.json");
    let mut meta: Value = serde_json::from_slice(&std::fs::read(&meta_file).unwrap()).unwrap();
    meta["profile"] = "claude".into();
    meta["agentSession"] = id.into();
    meta["transcript"] = session_file.to_str().unwrap().into();
    std::fs::write(&meta_file, meta.to_string()).unwrap();
    for _ in 0..3 {
        home.nerve(&["search", "wordxi"]).assert_stderr(0, &["not searched completely", id]);
    }
    let message = serde_json::json!({"role": "user", "content": "wordomicron"});
    let line = serde_json::json!({"type": "user", "uuid": "1", "parentUuid": null, "sessionId": id,
        "timestamp": recording["started_at"], "message": message});
    std::fs::write(&session_file, format!("{line}\n")).unwrap();
    assert_eq!(home.hits(&["wordomicron", "--in", "prompts"]).len(), 1);
}

#[test]
fn text_of_alternate_screen_is_found() {
    let home = Home::new();
    let script = "printf '\\033[?1049h\\033[Hworddelta on a full screen'; sleep 0.1; printf '\\033[?1049l'";
    home.ok(&["record", "--headless", "--out-file", "--", "sh", "-c", script]);
    assert_eq!(home.hits(&["worddelta on a full", "--in", "screen"]).len(), 1);
}

#[test]
fn text_before_a_clear_is_found() {
    let home = Home::new();
    let script =
        "echo wordzeta; printf '\\033[H\\033[J'; echo wordeta; printf '\\033[2J\\033[H'; echo wordtheta";
    home.ok(&["record", "--headless", "--out-file", "--", "sh", "-c", script]);
    for word in ["wordzeta", "wordeta", "wordtheta"] {
        assert_eq!(home.hits(&[word]).len(), 1, "{word}");
    }
}

#[test]
fn unrecorded_turns_of_recorded_node_are_found() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    for (option, word) in [("--no-record", "wordiota"), ("--record", "wordkappa")] {
        home.ok(&["new", "sh", option, "-c", "bash --norc", "--env", "PS1=$ "]);
        home.ok(&["send", "sh", &format!("echo {word}")]);
        home.ok(&["stop", "sh"]);
    }
    let open = |word: &str| home.hits(&[word, "--in", "prompts"])[0]["open"].as_str().unwrap().to_string();
    assert_eq!(open("wordiota"), "nerve logs sh");
    assert!(open("wordkappa").ends_with(" --turn 1"), "{}", open("wordkappa"));
}

#[test]
fn nodes_of_one_name_keep_their_histories_apart() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["session", "create", "work"]);
    home.ok(&["node", "create", "b", "--backend", "bash"]);
    home.ok(&["node", "create", "b", "--backend", "bash", "--session", "work"]);
    home.ok(&["send", "b", "echo wordlambda"]);
    home.ok(&["send", "b", "echo wordmu", "--session", "work"]);
    assert_eq!(home.hits(&["wordmu", "--in", "prompts"])[0]["open"], "nerve transcript work/b --turn 1");
    let shown = home.ok(&["transcript", "work/b"]);
    assert!(shown.contains("wordmu") && !shown.contains("wordlambda"), "{shown}");
    let shown = home.ok(&["transcript", "b", "--session", "default"]);
    assert!(shown.contains("wordlambda") && !shown.contains("wordmu"), "{shown}");
}

#[test]
fn concurrent_first_searches_succeed() {
    let home = Home::with_agent();
    home.ok(&["send", "m", "wordnu"]);
    let searches: Vec<_> = (0..6)
        .map(|_| home.command(&["search", "wordnu"]).stdout(std::process::Stdio::piped()).spawn().unwrap())
        .collect();
    for search in searches {
        let output = search.wait_with_output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn part_of_unspaced_text_is_found() {
    let home = Home::with_agent();
    home.ok(&["send", "m", "日本語のテキスト"]);
    assert_eq!(home.hits(&["本語", "--in", "prompts"]).len(), 1);
}

#[test]
fn damaged_and_newer_index() {
    let home = Home::with_agent();
    home.ok(&["send", "m", "wordepsilon"]);
    assert!(!home.hits(&["wordepsilon"]).is_empty());
    let index = home.hermetic.nerve_home().join("search/index.db");
    std::fs::remove_file(index.with_extension("db-wal")).ok();
    std::fs::write(&index, "not a database, but long enough to look like one".repeat(40)).unwrap();
    let done = home.nerve(&["search", "wordepsilon"]);
    done.assert_stderr(0, &["damaged", "built again"]);
    assert!(done.stdout.contains("wordepsilon"), "{done:?}");
    // The version is at offset 60 of the file, 4 bytes, big-endian (SQLite file format, section 1.3).
    for suffix in ["db-wal", "db-shm"] {
        assert!(!index.with_extension(suffix).exists(), "the last process closed the database");
    }
    let mut bytes = std::fs::read(&index).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&index, &bytes).unwrap();
    home.nerve(&["search", "wordepsilon"]).assert_stderr(1, &["newer", "hint:", "index.db"]);
}

#[test]
fn bad_input_is_an_error() {
    let home = Home::new();
    home.nerve(&["search", ""]).assert_stderr(2, &["empty"]);
    home.nerve(&["search", "/(/"]).assert_stderr(2, &["regex"]);
    home.nerve(&["search", "x", "--since", "soon"]).assert_stderr(2, &["--since", "yesterday"]);
    home.nerve(&["search", "x", "-n", "0"]).assert_stderr(2, &["1..=100000"]);
    home.nerve(&["search", "x", "--in", "dreams"]).assert_stderr(2, &["prompts", "screen"]);
    let none = home.nerve(&["search", "not there"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""), "as grep");
}

#[test]
fn server_keeps_the_index_up_to_date() {
    let home = Home::with_shell();
    home.ok(&["send", "sh", "echo first-turn"]);
    home.ok(&["search", "first-turn"]);
    home.ok(&["send", "sh", "echo later-turn"]);
    let files = ["index.db", "index.db-wal"].map(|name| home.hermetic.nerve_home().join("search").join(name));
    let has_later_turn = || {
        files.iter().any(|file| {
            fs::read(file).is_ok_and(|bytes| bytes.windows(10).any(|window| window == b"later-turn"))
        })
    };
    assert!(wait_until(DEADLINE, has_later_turn), "no search was needed");
    home.ok(&["server", "stop"]);
}

#[test]
fn first_search_shows_its_progress_on_a_terminal() {
    let home = Home::new();
    for number in 0..3u64 {
        let store = Store::new(home.hermetic.nerve_home().join("recordings"));
        let path = store.prepare(&format!("{number:08}"), TsNs(START + number)).unwrap();
        record(&path, &[(100, data(0, &format!("wordtheta{number}\r\n")))]);
    }
    let index = home.hermetic.nerve_home().join("search");
    // Nothing else is on the terminal, neither at the end nor in a narrow window.
    for (size, shown) in
        [(Size::new(80, 24), "indexing: 3 of 3 files (100 %)"), (Size::new(20, 24), "indexing: 3 of 3 fi")]
    {
        let mut tty = Tty::output_only(home.command(&["search", "wordtheta1"]), size);
        assert_eq!(tty.wait_for_exit(), Some(0));
        let output = String::from_utf8(tty.output.lock().unwrap().clone()).unwrap();
        assert!(output.contains(&format!("\r{shown}\u{1b}[K")), "{output:?}");
        let screen = tty.text();
        assert!(screen.contains("wordtheta1") && !screen.contains("indexing"), "{screen}");
        // Once more from the beginning, with standard error in a file.
        fs::remove_dir_all(&index).unwrap();
        let done = home.nerve(&["search", "wordtheta1"]);
        assert_eq!((done.code, done.stderr.as_str()), (0, ""));
        fs::remove_dir_all(&index).unwrap();
    }
}
