//! Sidecar files of a recording.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nerve_record::meta::{Host, Meta, MetaError};
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};
use nerve_record::store::sidecar_path;
use nerve_types::{ExitStatus, TsNs};
use serde_json::{Value, json};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn sidecar_paths_use_the_stem() {
    let cases = [
        ("a/b.ahr", "a/b.meta.json"),
        ("b", "b.meta.json"),
        ("v1.2", "v1.2.meta.json"),
        ("x.y.ahr", "x.y.meta.json"),
    ];
    for (recording, expected) in cases {
        assert_eq!(Meta::sidecar_path(Path::new(recording)), Path::new(expected));
    }
    assert_eq!(sidecar_path(Path::new("s.ahr"), "index"), Path::new("s.index"));
}

#[test]
fn documented_metadata_example_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.ahr");
    let text = r#"{ "version": 1, "startedAtNs": 1710000000000000000, "cmd": ["agent-cli", "run", "--project", "x"],
        "cols": 120, "rows": 40, "brotliQ": 4, "host": { "os": "linux", "arch": "x86_64" }, "moon": {"phase": 3}, "conversationId": "c-1" }"#;
    fs::write(folder.path().join("session.meta.json"), text).unwrap();
    let meta = Meta::load(&recording).unwrap().unwrap();
    let expected = Meta {
        started_at: TsNs(1_710_000_000_000_000_000),
        cmd: ["agent-cli", "run", "--project", "x"].map(String::from).to_vec(),
        cols: 120,
        rows: 40,
        host: Host { os: "linux".into(), arch: "x86_64".into() },
        conversation_id: Some("c-1".into()),
        ..Meta::default()
    };
    assert_eq!(meta, expected);
}

#[test]
fn metadata_is_stored_with_fixed_names_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.ahr");
    assert_eq!(Meta::load(&recording).unwrap(), None);
    let mut meta = Meta {
        started_at: TsNs(u64::MAX),
        cmd: vec!["claude".into()],
        host: Host::this(),
        id: Some("abc".into()),
        node: Some("n1".into()),
        conversation_id: Some("c-1".into()),
        ..Meta::default()
    };
    meta.store(&recording).unwrap();
    let value: Value = serde_json::from_slice(&fs::read(Meta::sidecar_path(&recording)).unwrap()).unwrap();
    assert_eq!(
        value,
        json!({
            "version": 1, "startedAtNs": u64::MAX, "cmd": ["claude"], "cols": 0, "rows": 0, "brotliQ": 4,
            "host": {"os": std::env::consts::OS, "arch": std::env::consts::ARCH}, "id": "abc", "node": "n1",
            "agentSession": "c-1"
        })
    );

    for exit in [ExitStatus::Code(3), ExitStatus::Signal(9), ExitStatus::Unknown] {
        meta.exit = Some(exit);
        meta.ended_at = Some(TsNs(7));
        meta.screens = true;
        meta.store(&recording).unwrap();
        assert_eq!(Meta::load(&recording).unwrap(), Some(meta.clone()));
    }
    assert_eq!(mode(&Meta::sidecar_path(&recording)), 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "temporary file left");
}

#[test]
fn invalid_metadata_error_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.ahr");
    for bad in [&b"{"[..], b"7", b"{\"cols\": -4}", &vec![b' '; 2 << 20]] {
        fs::write(Meta::sidecar_path(&recording), bad).unwrap();
        let error = Meta::load(&recording).unwrap_err();
        assert!(matches!(error, MetaError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains("session.meta.json"), "{error}");
    }
    fs::write(Meta::sidecar_path(&recording), "{}").unwrap();
    assert_eq!(Meta::load(&recording).unwrap(), Some(Meta::default()));
}

fn snapshot(id: u64, label: Option<&str>) -> SnapshotLine {
    SnapshotLine {
        id,
        ts_ns: 1_710_000_000_001_000_000 + id,
        label: label.map(String::from),
        kind: "auto".into(),
        anchor_byte: 198_000,
        files: None,
    }
}

#[test]
fn later_snapshot_line_amends_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.ahr");
    assert!(snapshots::read(&recording).unwrap().is_empty());
    let first = snapshot(45, Some("post-tool"));
    let second = snapshot(46, Some("line\nbreak"));
    snapshots::append(&recording, &first).unwrap();
    snapshots::append(&recording, &second).unwrap();
    let files = FilesRef { provider: "git".into(), source: "/work tree".into(), reference: "refs/x".into() };
    snapshots::append(&recording, &SnapshotLine { files: Some(files.clone()), ..snapshot(45, None) })
        .unwrap();

    let path = snapshots::list_path(&recording);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3);
    // The documented example.
    assert_eq!(
        serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap(),
        json!({"id": 45, "ts_ns": 1_710_000_000_001_000_045_u64, "label": "post-tool", "kind": "auto", "anchor_byte": 198_000})
    );
    assert_eq!(snapshots::read(&recording).unwrap(), [SnapshotLine { files: Some(files), ..first }, second]);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn invalid_and_incomplete_snapshot_lines_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.ahr");
    let path = snapshots::list_path(&recording);
    snapshots::append(&recording, &snapshot(1, None)).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"not json\n\xff\xfe\n\n{\"id\": 3}\n").unwrap();
    file.write_all(&vec![b'x'; 3 << 20]).unwrap();
    file.write_all(b"\n{\"id\": 2, \"ts_ns\"").unwrap();
    snapshots::append(&recording, &snapshot(4, Some("whole"))).unwrap();
    assert_eq!(snapshots::read(&recording).unwrap(), [snapshot(1, None), snapshot(4, Some("whole"))]);
}
