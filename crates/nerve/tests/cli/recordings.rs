//! Recordings on the command line: export, import, inspect, list, prune, repair, and replay without a terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nerve_record::ahr::{Body, Record, Segment, Writer};
use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_testkit::skip;
use nerve_types::{Size, TsNs};

use crate::harness::Home;
use crate::tty::Tty;

/// 2024-03-09T16:00:00Z.
pub(crate) const START: u64 = 1_710_000_000_000_000_000;

/// Writes a recording of these records, each with its time in milliseconds and in its own block.
pub(crate) fn record(path: &Path, records: &[(u64, Body<'_>)]) {
    let mut writer = Writer::create(path).unwrap();
    let mut end = 0;
    for (ms, body) in records {
        let mut segment = Segment::new(end);
        segment.push(&Record { at: TsNs(START + ms * 1_000_000), body: *body }).unwrap();
        end = segment.end();
        writer.append(&segment.seal(4, false)).unwrap();
    }
    writer.append(&Segment::new(end).seal(4, true)).unwrap();
}

pub(crate) fn data(off: u64, text: &str) -> Body<'_> {
    Body::Data { off, bytes: text.as_bytes() }
}

const SIZE: Body<'static> = Body::Resize { cols: 40, rows: 6 };
const OUTPUT: &str = "one\r\n\x1b[31mtwo\x1b[0m\r\nthree";

/// A recording with two snapshots on its second line.
fn sample(path: &Path) {
    let snapshot = |id, label: &'static str| Body::Snapshot { id, anchor: 17, label: label.as_bytes() };
    record(
        path,
        &[
            (0, SIZE),
            (100, data(0, &OUTPUT[..17])),
            (200, snapshot(1, "first")),
            (300, snapshot(2, "")),
            (400, data(17, &OUTPUT[17..])),
        ],
    );
}

/// Adds a recording to the home's store that began `hours` after the start.
fn shelved(home: &Home, id: &str, hours: u64) -> PathBuf {
    let started = TsNs(START + hours * 3_600_000_000_000);
    let path = Store::new(home.hermetic.root().join("nerve/recordings")).prepare(id, started).unwrap();
    sample(&path);
    let cmd = vec!["claude".to_string(), "say hello".to_string()];
    let ended_at = Some(TsNs(started.0 + 60_000_000_000));
    Meta { started_at: started, ended_at, cmd, ..Meta::default() }.store(&path).unwrap();
    path
}

/// A home with a recording named `a.ahr` in its work directory.
fn with_sample() -> (Home, String) {
    let home = Home::new();
    let path = home.hermetic.work().join("a.ahr");
    sample(&path);
    (home, path.to_str().unwrap().to_string())
}

#[test]
fn branch_points_are_lines_and_snapshots() {
    let (home, path) = with_sample();
    let wanted = "one\ntwo\n▶ snapshot 1: first\n▶ snapshot 2\nthree\n";
    assert_eq!(home.ok(&["branch-points", &path]), wanted);
    assert_eq!(home.ok(&["branch-points", "--session", &path]), wanted);
    let json = home.nerve(&["branch-points", &path, "--json"]).json();
    let kinds: Vec<&str> =
        json["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["line", "line", "snapshot", "snapshot", "line"]);
    let first = &json["items"][2];
    assert_eq!((&first["label"], &first["line"]), (&"first".into(), &1.into()));
}

#[test]
fn recording_is_found_by_id_prefix_or_age() {
    let home = Home::new();
    home.nerve(&["replay", "--fast"]).assert_code(3);
    shelved(&home, "0195e3a1-aaaa", 1);
    let newest = shelved(&home, "0195e3a1-bbbb", 2);
    fs::File::options()
        .append(true)
        .open(&newest)
        .unwrap()
        .set_modified(std::time::SystemTime::now() + Duration::from_secs(5))
        .unwrap();
    for name in ["0195e3a1-aaaa", "0195e3a1-a"] {
        assert_eq!(home.ok(&["replay", name, "--fast"]), "one\ntwo\nthree\n");
    }
    let done = home.nerve(&["replay", "--fast"]);
    assert_eq!(done.stdout, "one\ntwo\nthree\n");
    done.assert_stderr(0, &["newest recording", "0195e3a1-bbbb.ahr"]);
    home.nerve(&["replay", "0195e3a1"])
        .assert_stderr(2, &["'0195e3a1'", "10 characters", "'0195e3a1-b'", "'0195e3a1-a'"]);
    home.nerve(&["export", "nothere", "-f", "md"]).assert_stderr(3, &["nothere", "nerve recording list"]);
    home.nerve(&["inspect", "/nowhere/a.ahr"]).assert_stderr(3, &["/nowhere/a.ahr"]);
    home.nerve(&["inspect", "a", "--session", "b"]).assert_code(2);
    // A file with another extension.
    let odd = home.hermetic.work().join("odd.name");
    fs::copy(&newest, &odd).unwrap();
    let mut command = home.command(&["branch-points", "odd.name"]);
    command.current_dir(home.hermetic.work());
    assert_eq!(home.run(command).stdout.lines().count(), 5);
}

/// Adds a recording of a node to the home's store that was written `age` seconds ago.
fn shelved_of(home: &Home, id: &str, (session, node): (&str, &str), age: u64) -> PathBuf {
    let path = Store::new(home.hermetic.root().join("nerve/recordings")).prepare(id, TsNs(START)).unwrap();
    record(&path, &[(0, SIZE), (100, data(0, id))]);
    let (node, session) = (Some(node.to_string()), Some(session.to_string()));
    Meta { node, session, cmd: vec!["claude".to_string()], ..Meta::default() }.store(&path).unwrap();
    let written = std::time::SystemTime::now() - Duration::from_secs(age);
    fs::File::options().append(true).open(&path).unwrap().set_modified(written).unwrap();
    path
}

#[test]
fn commands_find_recordings_by_the_same_names() {
    const ID: &str = "0195e3a1-77aa-7bcd-8000-0123456789ab";
    let home = Home::new();
    let path = shelved_of(&home, ID, ("night", "reviewer"), 20);
    shelved_of(&home, "0195e3a1-77aa-7c00-9000-feed00000001", ("night", "reviewer"), 10);
    shelved_of(&home, "0195ffff-0000-7aaa-a000-00000000beef", ("day", "writer"), 5);
    let path = path.to_str().unwrap();
    let commands: [&[&str]; 7] = [
        &["replay", "NAME", "--fast"],
        &["export", "NAME", "--format", "md"],
        &["recording", "inspect", "NAME"],
        &["recording", "branch-points", "--recording", "NAME"],
        &["recording", "extract", "NAME", "--raw"],
        &["snapshot", "list", "NAME"],
        &["branch", "NAME", "--dry-run", "continue"],
    ];
    for command in commands {
        let run = |name: &str| {
            let args: Vec<&str> =
                command.iter().map(|arg| if *arg == "NAME" { name } else { *arg }).collect();
            let done = home.nerve(&args);
            (done.code, done.stdout, done.stderr)
        };
        let by_path = run(path);
        let finds = by_path.0 == 0 || by_path.2.contains("cannot branch");
        assert!(finds, "{command:?}: {by_path:?}");
        for name in [ID, "0195e3a1-77aa-7b", "7bcd", "0123456789ab", "reviewer@2", "night/reviewer@2"] {
            let found = run(name);
            assert_eq!((found.0, &found.1), (by_path.0, &by_path.1), "{command:?} {name}: {}", found.2);
            assert!(!found.2.contains("no recording"), "{command:?} {name}: {}", found.2);
        }
        for (name, code, words) in [
            ("reviewer@3", 3, "the node has 2"),
            ("reviewr", 3, "did you mean 'reviewer'?"),
            ("day/reviewer", 3, "'day/reviewer'"),
            ("0195e3a1", 2, "0195e3a1-77aa-7c00-9000-feed00000001 (night/reviewer, "),
        ] {
            let (found, _, stderr) = run(name);
            let words = if command[1] == "extract" && code == 3 { "no file and no recording" } else { words };
            assert!(found == code && stderr.contains(words), "{command:?} {name}: {found} {stderr}");
        }
    }
    home.nerve(&["view", "reviewer"]).assert_code(2);
    home.nerve(&["attach", "reviewer@2"]).assert_stderr(3, &["nerve view reviewer@2"]);
    home.nerve(&["snapshot", "--recording", "reviewer"]).assert_code(3);
}

#[test]
fn piped_replay_prints_recorded_bytes() {
    let (home, path) = with_sample();
    assert_eq!(home.ok(&["replay", &path, "--speed", "100"]), OUTPUT);
    let plain = OUTPUT.replace("\x1b[31m", "").replace("\x1b[0m", "");
    assert_eq!(home.ok(&["replay", &path, "--speed", "100", "--no-colors"]), plain);
    assert_eq!(home.ok(&["replay", &path, "--speed", "100", "--no-colours"]), plain);
    let mut command = home.command(&["replay", &path, "--speed", "100"]);
    command.env("NO_COLOR", "1");
    assert_eq!(home.run(command).stdout, plain);
    // From the middle: the screen at that position, and the output that follows.
    let rest = home.ok(&["replay", &path, "--from", "+17"]);
    assert!(rest.ends_with("three") && rest.contains("one") && rest.contains("two"), "{rest:?}");
    let rest = home.ok(&["replay", &path, "--from", "0.3", "--speed", "1000"]);
    assert!(rest.ends_with("three") && rest.contains("two"), "{rest:?}");
    home.nerve(&["replay", &path, "--from", "soon"]).assert_stderr(2, &["M:S", "+BYTES"]);
    home.nerve(&["replay", &path, "--speed", "0"]).assert_stderr(2, &["0.001"]);
}

#[test]
fn replay_keeps_timing_and_shortens_idle_time() {
    let home = Home::new();
    let path = home.hermetic.work().join("slow.ahr");
    record(&path, &[(0, SIZE), (400, data(0, "a")), (3_600_000, data(1, "b"))]);
    let path = path.to_str().unwrap();
    let start = Instant::now();
    assert_eq!(home.ok(&["replay", path, "--idle-limit", "0.5"]), "ab");
    let took = start.elapsed();
    // The recording lasts an hour.
    assert!(took >= Duration::from_millis(900), "{took:?}");
    let start = Instant::now();
    assert_eq!(home.ok(&["replay", path, "--idle-limit", "0.5", "--speed", "0.5"]), "ab");
    assert!(start.elapsed() >= Duration::from_millis(1800));
}

#[test]
fn final_state_prints_all_lines() {
    let home = Home::new();
    let path = home.hermetic.work().join("long.ahr");
    let text: String = (0..500).map(|n| format!("\x1b[1mline {n}\x1b[m\r\n")).collect();
    record(&path, &[(0, SIZE), (10, data(0, &text)), (86_400_000, data(text.len() as u64, "\r\n\r\n"))]);
    let path = path.to_str().unwrap();
    let wanted: String = (0..500).map(|n| format!("line {n}\n")).collect();
    assert_eq!(home.ok(&["replay", path, "--fast"]), wanted);
    assert_eq!(home.ok(&["replay", "--session", path, "--fast", "--no-colors"]), wanted);
}

#[test]
fn final_alternate_screen_follows_the_lines() {
    let home = Home::new();
    let path = home.hermetic.work().join("alternate.ahr");
    record(&path, &[(0, SIZE), (10, data(0, "$ vi\r\n\x1b[?1049h\x1b[2;1Hthe text"))]);
    let done = home.nerve(&["replay", path.to_str().unwrap(), "--fast"]);
    assert_eq!(done.stdout, "$ vi\n\nthe text\n");
    done.assert_stderr(0, &["ends on the alternate screen"]);
    assert_eq!(home.ok(&["branch-points", path.to_str().unwrap()]), "$ vi\n");
}

#[test]
fn metadata_is_printed_without_replay() {
    let home = Home::new();
    shelved(&home, "facts", 1);
    let text = home.ok(&["replay", "facts", "--print-meta"]);
    for fact in ["claude 'say hello'", "40x6", "2024-03-09 17:00:00", "400ms", "24 B in 2 records", "none"] {
        assert!(text.contains(fact), "{text} lacks {fact}");
    }
    let json = home.nerve(&["replay", "facts", "--print-meta", "--json"]).json();
    assert_eq!((&json["stats"]["output_bytes"], &json["stats"]["snapshots"]), (&24.into(), &2.into()));
    assert_eq!(
        (&json["cols"], &json["meta"]["cmd"][0], &json["recording_id"]),
        (&40.into(), &"claude".into(), &"facts".into())
    );
    home.nerve(&["replay", "facts", "--json"]).assert_stderr(2, &["--print-meta"]);
}

#[test]
fn intact_part_of_damaged_recording_is_used() {
    let (home, path) = with_sample();
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"AHRC").nth(1).unwrap().0;
    bytes[second + 46] ^= 0x55;
    fs::write(&path, &bytes).unwrap();
    let lost = ["warning", "are lost", "output bytes 0..17 are missing"];
    let done = home.nerve(&["replay", &path, "--fast"]);
    assert_eq!(done.stdout.trim(), "three");
    done.assert_stderr(1, &lost);
    home.nerve(&["replay", &path, "--speed", "100"]).assert_stderr(1, &lost);
    home.nerve(&["branch-points", &path]).assert_stderr(1, &lost);
    home.nerve(&["export", &path, "-f", "asciicast2"]).assert_stderr(1, &lost);
    let done = home.nerve(&["inspect", &path]);
    assert!(
        done.code == 1 && done.stdout.contains("LOST") && done.stdout.contains("1 damaged range"),
        "{done:?}"
    );
    let done = home.nerve(&["inspect", &path, "--json"]);
    let json = done.json();
    assert_eq!((done.code, &json["ok"], &json["summary"]["damaged"]), (1, &false.into(), &1.into()));
    let lost = json["parts"].as_array().unwrap().iter().find(|part| part["kind"] == "lost").unwrap();
    assert_eq!(lost["output"], serde_json::json!([0, 17]));

    let done = home.nerve(&["recordings", "repair", &path, "--json"]);
    let repaired = done.json();
    assert_eq!((&repaired["gaps"], &repaired["stretches"]), (&1.into(), &1.into()));
    let clean = path.replace("a.ahr", "a-repaired.ahr");
    assert_eq!(repaired["path"], clean.as_str());
    assert_eq!(home.nerve(&["inspect", &clean]).code, 0);
    home.nerve(&["recordings", "repair", &path]).assert_stderr(1, &["not empty"]);
}

#[test]
fn contradictions_are_reported_by_every_command() {
    let home = Home::new();
    let path = home.hermetic.work().join("a.ahr");
    // 219 years later.
    let far = 219 * 365 * 24 * 60 * 60 * 1000;
    record(&path, &[(0, SIZE), (10, data(0, "one\r\n")), (far, data(9, "two")), (20, data(12, "!"))]);
    let path = path.to_str().unwrap();
    let words = ["warning", "output bytes 5..9 are missing", "times out of range"];
    for args in [
        &["replay", path, "--fast"][..],
        &["replay", path],
        &["replay", path, "--print-meta"],
        &["branch-points", path],
        &["export", path, "-f", "txt"],
        &["export", path, "-f", "asciicast2"],
        &["extract", path],
    ] {
        home.nerve(args).assert_stderr(1, &words);
    }
    let inspected = home.nerve(&["inspect", path, "--json"]);
    assert_eq!((inspected.code, &inspected.json()["summary"]["duration_ms"]), (1, &20.into()));
}

#[test]
fn recording_that_demands_too_much_work_is_an_error() {
    let home = Home::new();
    let path = home.hermetic.work().join("a.ahr");
    let size = Body::Resize { cols: 1000, rows: 1000 };
    record(&path, &[(0, size), (10, data(0, &"\x1b#8".repeat(1000)))]);
    let path = path.to_str().unwrap();
    for args in
        [&["replay", path, "--fast"][..], &["replay", path, "--speed", "100"], &["branch-points", path]]
    {
        home.nerve(args).assert_stderr(1, &["work"]);
    }
}

#[test]
fn inspect_lists_blocks_and_records() {
    let (home, path) = with_sample();
    let text = home.ok(&["inspect", &path]);
    for words in [
        "BLOCK  file 0..",
        "resize   40x6",
        "output   0 +17 \"one\\r\\n",
        "snapshot 1 at byte 17 \"first\"",
        "intact",
    ] {
        assert!(text.contains(words), "{text} lacks {words}");
    }
    assert!(!home.ok(&["inspect", &path, "--blocks"]).contains("resize"));
    let json = home.nerve(&["inspect", &path, "--json"]).json();
    assert_eq!((&json["ok"], json["parts"].as_array().unwrap().len()), (&true.into(), 6));
    let record = &json["parts"][1]["records"][0];
    assert_eq!(
        (&record["kind"], &record["len"], &record["recorded_at"]),
        (&"data".into(), &17.into(), &"2024-03-09T16:00:00.100Z".into())
    );
    assert_eq!(record["b64"], "b25lDQobWzMxbXR3bxtbMG0=");
    // An empty file is an empty session.
    fs::write(&path, "").unwrap();
    assert_eq!(home.nerve(&["inspect", &path]).code, 0);
    fs::write(&path, "rubbish").unwrap();
    assert_eq!(home.nerve(&["inspect", &path]).code, 1);
}

#[test]
fn exports_can_be_imported_again() {
    let (home, path) = with_sample();
    let work = home.hermetic.work();
    for (format, start) in [
        ("md", "| line | text |"),
        ("json", "{\"items\":[\n{\"kind\":\"line\""),
        ("csv", "kind,index,ts_ns,text\nline,0,,one\n"),
        ("txt", "one\ntwo\n▶"),
        ("asciicast2", "{\"version\":2,\"width\":40,\"height\":6"),
        ("asciicast3", "{\"version\":3,\"term\":{\"cols\":40,\"rows\":6"),
        ("html", "<!doctype html>"),
        (
            "svg",
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"360\" height=\"132\"",
        ),
    ] {
        let out = work.join(format!("out.{format}"));
        assert_eq!(home.ok(&["export", &path, "--format", format, "-o", out.to_str().unwrap()]), "");
        let text = fs::read_to_string(&out).unwrap();
        assert!(text.starts_with(start), "{format}: {text}");
        assert_eq!(home.ok(&["export", &path, "--format", format]), text);
    }
    for version in ["2", "3"] {
        let cast = work.join(format!("out.asciicast{version}"));
        let back = work.join(format!("back{version}.ahr"));
        let args = ["import", cast.to_str().unwrap(), "-o", back.to_str().unwrap(), "--json"];
        assert_eq!(home.nerve(&args).json()["output_bytes"], 24);
        assert_eq!(home.ok(&["replay", back.to_str().unwrap(), "--speed", "100"]), OUTPUT);
        assert!(
            home.ok(&["branch-points", back.to_str().unwrap()])
                .contains("two\n▶ snapshot 1: first\n▶ snapshot 2\n")
        );
    }
    home.nerve(&["export", &path, "--format", "pdf"]).assert_stderr(2, &["html", "svg", "asciicast3"]);
    home.nerve(&["export", &path, "-f", "md", "--json"]).assert_stderr(2, &["--json", "--output"]);
    let file = home.hermetic.work().join("report.md");
    let written = home.nerve(&["export", &path, "-f", "md", "--json", "-o", file.to_str().unwrap()]).json();
    assert_eq!((&written["path"], &written["format"]), (&file.to_str().unwrap().into(), &"md".into()));
    assert_eq!(written["bytes"], fs::metadata(&file).unwrap().len());
    home.nerve(&["export", &path, "-f", "md", "-o", "/nowhere/x.md"]).assert_stderr(1, &["/nowhere/x.md"]);
    assert!(
        fs::read_dir(&work).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with('.'))
    );
}

#[test]
fn invalid_cast_is_refused_with_line_number() {
    let home = Home::new();
    let cast = home.hermetic.work().join("a.cast");
    let path = cast.to_str().unwrap();
    fs::write(&cast, "{\"version\":2,\"width\":80,\"height\":24}\n[1,\"o\",\"x\"]\n[nonsense]\n").unwrap();
    home.nerve(&["import", path]).assert_stderr(1, &["a.cast", "line 3"]);
    assert!(!cast.with_extension("ahr").exists());
    fs::write(&cast, "{\"version\":2,\"width\":80,\"height\":24}\n[1,\"o\",\"x\"]\n").unwrap();
    assert!(home.ok(&["import", path]).contains("a.ahr: 1 B of output in 1.0s"));
    home.nerve(&["import", path]).assert_stderr(1, &["a.ahr"]);
    home.nerve(&["import", "/nowhere.cast"]).assert_stderr(3, &["/nowhere.cast"]);
    home.nerve_with(&["import", "-"], "").assert_stderr(2, &["-o"]);
    let piped = home.hermetic.work().join("piped.ahr");
    let args = ["import", "-", "-o", piped.to_str().unwrap()];
    assert_eq!(home.nerve_with(&args, &fs::read_to_string(&cast).unwrap()).code, 0);
}

#[test]
fn recordings_are_listed_and_pruned() {
    let home = Home::new();
    home.nerve(&["recordings", "list"]).assert_stderr(0, &["no recordings in"]);
    let old = shelved(&home, "old", 1);
    let new = shelved(&home, "new", 30);
    let text = home.ok(&["recordings", "list"]);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("ID") && rows[1].starts_with("new") && rows[2].starts_with("old"), "{text}");
    assert!(rows[1].contains("1m 00s") && rows[1].contains("claude 'say hello'"), "{text}");
    let json = home.nerve(&["recordings", "list", "--json", "-n", "1"]).json()["recordings"].clone();
    assert_eq!((json.as_array().unwrap().len(), &json[0]["recording_id"]), (1, &"new".into()));
    assert_eq!(json[0]["duration_ms"], 60_000);

    home.nerve(&["recordings", "prune"]).assert_stderr(2, &["--older-than", "--max-size"]);
    home.nerve(&["recordings", "prune", "--older-than", "soon"]).assert_stderr(2, &["30d"]);
    let dry = home.ok(&["recordings", "prune", "--older-than", "1d", "--dry-run"]);
    assert!(dry.contains("2 of 2 would be removed") && old.exists() && new.exists(), "{dry}");
    let bytes = json[0]["bytes"].as_u64().unwrap().to_string();
    let done = home.nerve(&["recordings", "prune", "--max-size", &bytes, "--json"]).json();
    assert_eq!(
        (&done["removed"][0]["recording_id"], &done["removed"][0]["reason"]),
        (&"old".into(), &"size".into())
    );
    assert!(!old.exists() && !Meta::sidecar_path(&old).exists() && new.exists());
    // A recording that is being written stays.
    let writer = fs::File::open(&new).unwrap();
    writer.lock().unwrap();
    assert!(home.ok(&["recordings", "list"]).contains(" recording "));
    assert!(home.ok(&["recordings", "prune", "--older-than", "1d"]).contains("0 of 1 removed"));
    drop(writer);
    assert!(home.ok(&["recordings", "prune", "--older-than", "1d"]).contains("1 of 1 removed"));
    assert!(!new.exists());
}

#[test]
fn recordings_are_listed_with_node_and_folder() {
    let home = Home::new();
    let (first, second) = (shelved(&home, "early", 1), shelved(&home, "late", 30));
    let mut meta = Meta::load(&first).unwrap().unwrap();
    meta.session = Some("default".into());
    meta.node = Some("me".into());
    meta.server = Some("main".into());
    meta.profile = Some("claude".into());
    meta.cwd = Some("/home/user/projects/of/mine/nerve".into());
    meta.conversation_id = Some("c-1".into());
    meta.store(&first).unwrap();
    // The recording that began first is written last.
    let written = std::time::SystemTime::now() + Duration::from_secs(5);
    fs::File::options().append(true).open(&first).unwrap().set_modified(written).unwrap();
    let text = home.ok(&["recordings", "list"]);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[1].starts_with("early") && rows[2].starts_with("late"), "{text}");
    for cell in ["default/me", " claude ", "/user/projects/of/mine/nerve", " c-1 ", "1m 00s", "say hello"] {
        assert!(rows[1].contains(cell), "{text} lacks {cell}");
    }
    for (cols, cells) in [
        (80, &["early", "default/me", "claude", " 1m 00s ", " B"][..]),
        (140, &["early", "default/me", "claude", " 1m 00s ", " B ", "/user/projects/of/mine/nerve", " c-1 "]),
    ] {
        let mut tty = Tty::new(&home, Size::new(cols, 24), &["recording", "list"]);
        assert_eq!(tty.wait_for_exit(), Some(0));
        let text = tty.text();
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].chars().count() <= usize::from(cols), "{text}");
        assert!(rows[0].contains("AGE") && rows[0].contains("LENGTH") && rows[0].contains("SIZE"), "{text}");
        for cell in cells {
            assert!(rows[1].contains(cell), "{text} lacks {cell}");
        }
    }
    let json = home.nerve(&["recordings", "list", "--json"]).json()["recordings"].clone();
    let fields = ["session_id", "node_id", "server_name", "profile", "cwd", "conversation_id"];
    let wanted = ["default", "me", "main", "claude", "/home/user/projects/of/mine/nerve", "c-1"];
    assert_eq!(fields.map(|field| json[0][field].as_str().unwrap()), wanted);
    assert!(json[0]["written_at"].as_str() > json[1]["written_at"].as_str(), "{json}");
    assert!(json[1]["node_id"].is_null() && second.exists());
    let newest = home.nerve(&["recordings", "list", "--json", "--last", "1"]).json()["recordings"].clone();
    assert_eq!((newest.as_array().unwrap().len(), &newest[0]["recording_id"]), (1, &"early".into()));
}

#[test]
fn recordings_on_a_server_are_listed_and_pruned() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "127.0.0.1:0"]);
    let (old, new) = (shelved(&home, "old", 1), shelved(&home, "new", 30));
    let status = home.nerve(&["server", "status", "--json"]).json();
    let url = format!("tcp://{}", status["tcp"].as_str().unwrap());
    let remote = |args: &[&str]| home.nerve(&[&["recordings"], args, &["--server", &url]].concat());
    let size = fs::metadata(&new).unwrap().len() + fs::metadata(Meta::sidecar_path(&new)).unwrap().len();
    let size = size.to_string();
    for args in [
        &["list"][..],
        &["list", "--json", "--last", "1"],
        &["branches", "--json"],
        &["prune", "--older-than", "1d", "--dry-run"],
        &["prune", "--max-size", &size, "--branches", "--dry-run", "--json"],
    ] {
        let local = home.ok(&[&["recordings"], args].concat());
        assert_eq!(remote(args).stdout, local, "{args:?}");
    }
    remote(&["branches"]).assert_stderr(0, &["no branches on server 'tcp://"]);
    for args in [&["prune"][..], &["prune", "--dry-run"]] {
        remote(args).assert_stderr(2, &["--older-than", "--max-size"]);
    }
    let writer = fs::File::open(&new).unwrap();
    writer.lock().unwrap();
    assert!(old.exists() && remote(&["prune", "--older-than", "1d"]).stdout.contains("1 of 2 removed"));
    assert!(!old.exists() && new.exists());
}

#[test]
fn errors_are_json_if_output_is_json() {
    let home = Home::new();
    let done = home.nerve(&["branch-points", "nothere", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!((done.code, &error["code"]), (3, &3.into()));
}

#[test]
fn asciinema_accepts_exported_casts() {
    // The variable may name a program that is not in PATH.
    let program = std::env::var("NERVE_TEST_ASCIINEMA").unwrap_or_else(|_| "asciinema".to_string());
    let Ok(version) = Command::new(&program).arg("--version").output() else {
        return skip(
            "asciinema_accepts_exported_casts",
            "asciinema is not installed (pip install asciinema)",
        );
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let (home, path) = with_sample();
    let third = version.contains(" 3.");
    let formats: &[&str] = if third { &["asciicast2", "asciicast3"] } else { &["asciicast2"] };
    for format in formats {
        let cast = home.hermetic.work().join(format!("{format}.cast"));
        home.ok(&["export", &path, "-f", format, "-o", cast.to_str().unwrap()]);
        // The command that prints the output of a cast: in version 3, `cat` has another meaning.
        let (before, after) = if third { ("convert -f raw", "-") } else { ("cat", "") };
        let line = format!("'{program}' {before} '{}' {after}", cast.display());
        // In its own terminal: version 2.2 does not start without one.
        let mut command = home.hermetic.command("script");
        command.args(["-qec", &line, "/dev/null"]);
        let output = command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(output.status.success(), "{version}: {output:?}");
        assert!(text.ends_with(&OUTPUT.replace('\r', "")), "{version}: {text:?}");
    }
}
