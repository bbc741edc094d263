//! Snapshots and branches of recordings over the protocol. Tests with real hosts are those of the command line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nerve_host::snapshot_retention::trim_snapshots;
use nerve_record::files::{DEFAULT_LIMIT, FileStore, SnapshotKey, SnapshotRequest, choose};
use nerve_record::snapshots::{SnapshotLine, append};
use nerve_server::paths::ServerPaths;
use nerve_types::TsNs;
use serde_json::json;

use crate::harness::TestServer;

const RECORDING: &str = "0195e3a1-77aa-7bcd-8000-0123456789ab";

/// Creates a recording with snapshot 1, labelled `first`, of a directory with a file, and snapshot 2 without files.
/// Returns the directory.
pub(crate) fn record(home: &Path) -> PathBuf {
    let paths = ServerPaths::under(home);
    let dir = home.join("project");
    fs::create_dir_all(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/file"), "old\n").unwrap();
    symlink("/etc", dir.join("link")).unwrap();
    let store = FileStore::new(paths.data.snapshots.clone());
    let key = SnapshotKey::new(RECORDING, 1).unwrap();
    let request = SnapshotRequest { at: TsNs(5), label: Some("first"), stop: None };
    let taken = choose(&dir, &store, DEFAULT_LIMIT).unwrap().take(&key, &request).unwrap();
    fs::write(dir.join("sub/file"), "new\n").unwrap();
    let recordings = paths.data.recordings.join("2025/12");
    fs::create_dir_all(&recordings).unwrap();
    let recording = recordings.join(format!("{RECORDING}.ahr"));
    fs::write(&recording, "").unwrap();
    let line = SnapshotLine {
        id: 1,
        ts_ns: 5_000_000,
        label: Some("first".into()),
        kind: "manual".into(),
        anchor_byte: 7,
        files: Some(taken.files),
    };
    append(&recording, &line).unwrap();
    append(&recording, &SnapshotLine { id: 2, label: None, files: None, ..line }).unwrap();
    dir
}

#[tokio::test]
async fn snapshots_are_listed_and_restored() {
    let server = TestServer::start();
    let client = &mut server.client().await;
    assert_eq!(client.request_ok("LIST_SNAPSHOTS", json!({})).await["snapshots"], json!([]));
    let dir = record(server.home.path());
    let listed = client.request_ok("LIST_SNAPSHOTS", json!({ "recording": "0195e3a1" })).await;
    let snapshots = listed["snapshots"].as_array().unwrap();
    assert_eq!(
        (snapshots.len(), &snapshots[1]["snapshot_id"], &snapshots[1]["files"]),
        (2, &json!(2), &json!(null))
    );
    let first = &snapshots[0];
    assert_eq!((&first["recording_id"], &first["label"]), (&json!(RECORDING), &json!("first")), "{first}");
    assert_eq!(
        (&first["anchor_byte"], &first["taken_at"]),
        (&json!(7), &json!("1970-01-01T00:00:00.005Z")),
        "{first}"
    );
    let last = client.request_ok("LIST_SNAPSHOTS", json!({ "recording": RECORDING, "last": 1 })).await;
    assert_eq!(last["snapshots"], json!([snapshots[1]]));
    // Without a session, all snapshots that have files.
    let all = client.request_ok("LIST_SNAPSHOTS", json!({})).await;
    assert_eq!(
        (&all["snapshots"][0]["snapshot_id"], &all["snapshots"][1]),
        (&json!(1), &json!(null)),
        "{all}"
    );

    let to = server.home.path().join("restored");
    let params = json!({ "snapshot_id": 1, "recording": RECORDING, "to": to });
    let restored = client.request_ok("RESTORE_SNAPSHOT", params.clone()).await;
    assert_eq!((&restored["to"], &restored["recording_id"]), (&json!(to), &json!(RECORDING)), "{restored}");
    assert_eq!(fs::read_to_string(to.join("sub/file")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(dir.join("sub/file")).unwrap(), "new\n", "the source is as it was");
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc"), "a link is not followed");
    let error = client.request("RESTORE_SNAPSHOT", params).await;
    assert!(error["error"].as_str().unwrap().contains(to.to_str().unwrap()), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("`to`"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn removed_files_of_a_snapshot_are_not_listed() {
    let server = TestServer::start();
    record(server.home.path());
    let client = &mut server.client().await;
    let paths = ServerPaths::under(server.home.path());
    let trimmed = trim_snapshots(&paths.data.snapshots, &paths.data.hosts, &paths.data.branches, 0, false);
    assert_eq!(trimmed.removed.len(), 1);
    let listed = client.request_ok("LIST_SNAPSHOTS", json!({ "recording": RECORDING })).await;
    let files: Vec<_> = listed["snapshots"].as_array().unwrap().iter().map(|one| &one["files"]).collect();
    assert_eq!(files, [&json!(null); 2], "the marks remain");
    let to = server.home.path().join("restored");
    let params = json!({ "snapshot_id": 1, "recording": RECORDING, "to": to });
    let error = client.request("RESTORE_SNAPSHOT", params).await;
    assert_eq!(error["data"]["error_type"], "not_found_error", "{error}");
    assert!(!to.exists());
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_for_snapshots_change_nothing() {
    let server = TestServer::start();
    record(server.home.path());
    let client = &mut server.client().await;
    client.request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    let to = server.home.path().join("restored");
    for (command, params, words) in [
        ("LIST_SNAPSHOTS", json!({ "node_id": "x" }), "no node 'x'"),
        ("LIST_SNAPSHOTS", json!({ "node_id": "b" }), "no recording"),
        ("LIST_SNAPSHOTS", json!({ "node_id": "b", "recording": "a" }), "only one of them"),
        ("LIST_SNAPSHOTS", json!({ "recording": "/nowhere.ahr" }), "no recording"),
        ("LIST_SNAPSHOTS", json!({ "recording": "../up.ahr" }), "not an absolute path"),
        ("LIST_SNAPSHOTS", json!({ "dir": "relative" }), "params.dir"),
        ("RESTORE_SNAPSHOT", json!({ "snapshot_id": 9, "recording": RECORDING, "to": to }), "no snapshot 9"),
        (
            "RESTORE_SNAPSHOT",
            json!({ "snapshot_id": 2, "recording": RECORDING, "to": to }),
            "no stored files",
        ),
        ("RESTORE_SNAPSHOT", json!({ "snapshot_id": 1, "recording": RECORDING, "to": "here" }), "params.to"),
        ("RESTORE_SNAPSHOT", json!({ "snapshot_id": -1, "to": to }), "params.snapshot_id"),
        ("RESTORE_SNAPSHOT", json!({ "snapshot_id": 1 }), "params.to"),
        ("TAKE_SNAPSHOT", json!({}), "node_id or recording"),
        ("TAKE_SNAPSHOT", json!({ "node_id": "x" }), "no node 'x'"),
        ("TAKE_SNAPSHOT", json!({ "node_id": "b" }), "no recording"),
        ("TAKE_SNAPSHOT", json!({ "recording": RECORDING }), "no running session"),
        ("CREATE_BRANCH", json!({ "recording": RECORDING }), "params.instruction"),
        ("CREATE_BRANCH", json!({ "instruction": "x" }), "source_id or recording"),
        ("CREATE_BRANCH", json!({ "source_id": "x", "instruction": "x" }), "no node 'x'"),
        ("CREATE_BRANCH", json!({ "recording": "ffff", "instruction": "x" }), "no recording"),
        ("CREATE_BRANCH", json!({ "recording": RECORDING, "instruction": " " }), "instruction is empty"),
        ("CREATE_BRANCH", json!({ "recording": RECORDING, "instruction": "x" }), "is empty"),
        ("CREATE_BRANCH", json!({ "recording": RECORDING, "instruction": "x", "to": "up" }), "params.to"),
        ("CREATE_BRANCH", json!({ "recording": RECORDING, "instruction": "x", "target_id": "../x" }), "node"),
        (
            "CREATE_BRANCH",
            json!({ "recording": RECORDING, "instruction": "x", "in_place": true, "to": "/tmp/x" }),
            "in_place and to",
        ),
        ("DELETE_BRANCH", json!({ "name": "none" }), "no branch"),
        ("PRUNE_RECORDINGS", json!({ "force": true }), "older_than, max_size or branches"),
        ("PRUNE_RECORDINGS", json!({ "older_than": -1 }), "params.older_than"),
        ("DELETE_BRANCH", json!({ "name": ".." }), "no branch"),
    ] {
        let error = client.request_err(command, params.clone()).await;
        assert!(error.contains(words), "{command} {params}: {error}");
    }
    assert!(!to.exists());
    assert_eq!(client.request_ok("LIST_BRANCHES", json!({})).await["branches"], json!([]));
    let listed = client.request_ok("LIST_RECORDINGS", json!({})).await;
    let recording = &listed["recordings"][0];
    assert_eq!(
        (&recording["recording_id"], &recording["empty"]),
        (&json!(RECORDING), &json!(true)),
        "{listed}"
    );
    let prune = json!({ "older_than": 0, "branches": true });
    let pruned = client.request_ok("PRUNE_RECORDINGS", prune).await;
    assert_eq!((&pruned["removed"], &pruned["total"]), (&json!([]), &json!(1)), "{pruned}");
    server.stop().await;
}
