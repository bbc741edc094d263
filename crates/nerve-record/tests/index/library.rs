//! Listing and removing recordings.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_record::ahr::{Body, Writer};
use nerve_record::executions;
use nerve_record::index::Index;
use nerve_record::library::{Reason, RecordingInfo, Retention, list, remove, removed, select_expired};
use nerve_record::lookup::{Finder, LookupError, Name};
use nerve_record::meta::Meta;
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};
use nerve_record::store::Store;
use nerve_types::{Size, TsNs};

use crate::{GeneratedRecording, START};

const HOUR: u64 = 3_600_000_000_000;

/// Stores a recording that begins `hours` after the start and lasts a minute.
fn store_recording(store: &Store, id: &str, hours: u64) -> PathBuf {
    let path = store.prepare(id, TsNs(START)).unwrap();
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    generated.bytes();
    let mut generated = GeneratedRecording { at: START + hours * HOUR, blocks: Vec::new(), ..generated };
    generated.push(Body::Resize { cols: 60, rows: 12 });
    generated.output(b"hello");
    generated.seal();
    generated.at += 60_000_000_000;
    generated.output(b" world");
    let mut writer = Writer::create(&path).unwrap();
    generated.write(&mut writer);
    writer.append(&generated.segment.seal(4, true)).unwrap();
    path
}

#[test]
fn recordings_are_listed_newest_first_with_details() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let bare = store_recording(&store, "bare", 1);
    let known = store_recording(&store, "known", 2);
    let meta = Meta {
        started_at: TsNs(START + 2 * HOUR),
        ended_at: Some(TsNs(START + 3 * HOUR)),
        cmd: vec!["claude".into(), "--resume".into()],
        cols: 100,
        rows: 30,
        ..Meta::default()
    };
    meta.store(&known).unwrap();
    let line =
        SnapshotLine { id: 1, ts_ns: START, label: None, kind: "auto".into(), anchor_byte: 5, files: None };
    snapshots::append(&known, &line).unwrap();
    let all = list(&store, usize::MAX);
    let ids: Vec<&str> = all.iter().map(|info| info.id.as_str()).collect();
    assert_eq!(ids, ["known", "bare"]);
    assert_eq!(all[0].duration, Some(Duration::from_secs(3600)));
    assert_eq!((all[0].size, all[0].snapshots, all[0].live), (Some(Size::new(100, 30)), 1, false));
    assert_eq!(all[0].command, ["claude", "--resume"]);
    assert!(all[0].bytes > fs::metadata(&known).unwrap().len());
    // Without sidecars, the blocks have the information.
    assert_eq!(all[1].started, Some(TsNs(START + HOUR)));
    assert_eq!(all[1].duration, Some(Duration::from_secs(60)));
    assert_eq!((all[1].size, all[1].bytes), (Some(Size::new(60, 12)), fs::metadata(&bare).unwrap().len()));
}

#[test]
fn ten_thousand_recordings_are_listed_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    for number in 0..10_000 {
        let path = store.prepare(&format!("s{number:04}-old"), TsNs(START)).unwrap();
        fs::write(path, "").unwrap();
    }
    let newest = store_recording(&store, "newest", 1);
    let ids = |last| list(&store, last).into_iter().map(|info| info.id).collect::<Vec<_>>();
    assert_eq!(ids(1), ["newest"]);
    assert_eq!(ids(usize::MAX).len(), 10_001);
    let finder = Finder::new(&store, Vec::new());
    let find = |name: &str| finder.find(&Name::parse(name).unwrap());
    assert_eq!(find("newe").unwrap().path, Some(newest));
    assert_eq!(find("s7777").unwrap().id, "s7777-old");
    match find("s").unwrap_err() {
        LookupError::Ambiguous { candidates, .. } => assert!(candidates.len() > 1),
        error => panic!("{error}"),
    }
}

#[test]
fn last_written_recordings_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let paths = ["early", "late"].map(|id| (id, store_recording(&store, id, 1)));
    for ((_, path), age) in paths.iter().zip([10, 20]) {
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(3_000_000_000 - age);
        fs::File::options().append(true).open(path).unwrap().set_modified(written).unwrap();
    }
    // Began last, but was written before the other.
    let meta = Meta {
        started_at: TsNs(START + 2 * HOUR),
        cwd: Some("/work".into()),
        node: Some("me".into()),
        session: Some("default".into()),
        server: Some("main".into()),
        profile: Some("claude".into()),
        conversation_id: Some("c-1".into()),
        ..Meta::default()
    };
    meta.store(&paths[1].1).unwrap();
    let ids = |last| -> Vec<String> { list(&store, last).into_iter().map(|info| info.id).collect() };
    assert_eq!((ids(usize::MAX), ids(1)), (vec!["early".into(), "late".into()], vec!["early".into()]));
    let all = list(&store, usize::MAX);
    let late = all.iter().find(|info| info.id == "late").unwrap();
    assert_eq!(late.written, Some(TsNs(2_999_999_980_000_000_000)));
    let texts = [&late.node, &late.session, &late.server, &late.profile, &late.conversation_id];
    assert_eq!(texts.map(|text| text.as_deref().unwrap()), ["me", "default", "main", "claude", "c-1"]);
    assert_eq!(late.cwd.as_deref(), Some(Path::new("/work")));
}

#[test]
fn damaged_recordings_are_listed_as_far_as_readable() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let cut = store_recording(&store, "cut", 1);
    let mut bytes = fs::read(&cut).unwrap();
    bytes.extend_from_slice(b"AHRC and then nothing that could be a block");
    bytes.extend([0; 5000]);
    fs::write(&cut, &bytes).unwrap();
    fs::write(Meta::sidecar_path(&cut), "{").unwrap();
    fs::write(cut.with_file_name("rubbish.ahr"), [0x41; 3000]).unwrap();
    fs::write(cut.with_file_name("empty.ahr"), "").unwrap();
    let all = list(&store, usize::MAX);
    let find = |id: &str| all.iter().find(|info| info.id == id).unwrap();
    assert_eq!(find("cut").duration, Some(Duration::from_secs(60)));
    assert_eq!(
        (find("rubbish").started, find("rubbish").duration, find("rubbish").empty),
        (None, None, false)
    );
    assert!(find("empty").empty);
}

#[test]
fn retention_removes_by_age_then_by_size() {
    let info = |id: &str, hours: u64, bytes: u64, live: bool| RecordingInfo {
        path: id.into(),
        id: id.into(),
        started: Some(TsNs(START + hours * HOUR)),
        duration: Some(Duration::from_secs(60)),
        bytes,
        size: None,
        written: None,
        command: Vec::new(),
        cwd: None,
        node: None,
        session: None,
        server: None,
        profile: None,
        conversation_id: None,
        exit: None,
        snapshots: 0,
        live,
        empty: false,
    };
    let all = [
        info("e", 5, 10, false),
        info("d", 4, 50, false),
        info("c", 3, 10, false),
        info("b", 2, 10, true),
        info("a", 1, 10, false),
    ];
    let expired = |keep: Retention| -> Vec<(&str, Reason)> {
        select_expired(&all, keep).into_iter().map(|(info, reason)| (info.id.as_str(), reason)).collect()
    };
    assert_eq!(expired(Retention::default()), []);
    let old = Retention { not_before: Some(TsNs(START + 3 * HOUR)), ..Retention::default() };
    assert_eq!(expired(old), [("a", Reason::Age)]);
    let small = Retention { bytes: Some(30), ..Retention::default() };
    assert_eq!(expired(small), [("d", Reason::Bytes), ("a", Reason::Bytes)]);
    let none = Retention { bytes: Some(0), not_before: Some(TsNs(u64::MAX)) };
    assert_eq!(expired(none).len(), 4, "live recording removed");
    // The recording ended a minute after it began.
    let just = Retention { not_before: Some(TsNs(START + HOUR + 60_000_000_000)), ..Retention::default() };
    assert_eq!(expired(just), []);
}

#[test]
fn sweep_removes_abandoned_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let recording = store_recording(&store, "one", 1);
    let folder = recording.parent().unwrap();
    let written = |name: &str, age: Duration| {
        let path = folder.join(name);
        fs::write(&path, "x").unwrap();
        fs::File::open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        path
    };
    let abandoned = written(".new-AbCdEf", Duration::from_secs(3700));
    let kept =
        [written(".new-GhIjKl", Duration::from_secs(60)), written("two.ahr", Duration::from_secs(9999))];
    store.sweep();
    assert!(!abandoned.exists() && recording.exists() && kept.iter().all(|path| path.exists()));
}

#[test]
fn removal_includes_sidecars_and_spares_live_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let path = store_recording(&store, "one", 1);
    Meta::default().store(&path).unwrap();
    fs::write(Index::sidecar_path(&path), "x").unwrap();
    assert!(remove(&path).unwrap());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);

    let path = store.prepare("two", TsNs(START)).unwrap();
    let mut writer = Writer::create(&path).unwrap();
    assert!(!remove(&path).unwrap(), "empty live recording removed");
    writer.append(&GeneratedRecording::new(Size::new(60, 12)).bytes()).unwrap();
    assert!(list(&store, usize::MAX)[0].live);
    assert!(!remove(&path).unwrap());
    drop(writer);
    assert!(!list(&store, usize::MAX)[0].live);
    assert!(remove(&path).unwrap() && !path.exists());
}

#[test]
fn list_of_git_snapshots_outlives_its_recording() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let [one, two] = ["one", "two"].map(|id| store_recording(&store, id, 1));
    let line = |provider: &str| {
        let files = FilesRef { provider: provider.into(), source: "/w".into(), reference: "r".into() };
        let kind = "auto".to_string();
        SnapshotLine { id: 1, ts_ns: START, label: None, kind, anchor_byte: 5, files: Some(files) }
    };
    snapshots::append(&one, &line("git")).unwrap();
    snapshots::append(&two, &line("copy")).unwrap();
    assert!(removed(&store).is_empty());
    assert!(remove(&one).unwrap() && remove(&two).unwrap());
    assert!(store.all().is_empty());
    let [stand_in] = &removed(&store)[..] else { panic!("{:?}", removed(&store)) };
    assert_eq!(snapshots::read(stand_in).unwrap(), [line("git")]);
    // The recording is imported again.
    store_recording(&store, "one", 1);
    assert!(removed(&store).is_empty());
    assert!(remove(&one).unwrap());
    snapshots::replace(stand_in, &[line("git"), line("git")]).unwrap();
    assert_eq!(snapshots::read(stand_in).unwrap().len(), 1);
    snapshots::replace(stand_in, &[]).unwrap();
    assert_eq!(fs::read_dir(one.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn recording_is_kept_while_an_execution_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let path = store_recording(&store, "one", 1);
    let ended_at = Some(TsNs(START + HOUR + 60_000_000_000));
    Meta { started_at: TsNs(START + HOUR), ended_at, ..Meta::default() }.store(&path).unwrap();
    let tool = executions::recording_path(&path, "dev").unwrap();
    fs::create_dir(tool.parent().unwrap()).unwrap();
    let mut writer = Writer::create(&tool).unwrap();
    assert!(!remove(&path).unwrap(), "an execution that has just begun");
    writer.append(&GeneratedRecording::new(Size::new(60, 12)).bytes()).unwrap();
    let info = RecordingInfo::read(&path).unwrap();
    // The agent has ended.
    assert_eq!((info.live, info.duration), (true, Some(Duration::from_secs(60))));
    assert!(!remove(&path).unwrap() && path.exists() && tool.exists());
    drop(writer);
    assert!(!RecordingInfo::read(&path).unwrap().live);
    assert!(remove(&path).unwrap());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
}
