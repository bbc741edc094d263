//! Snapshots and branches as requests: through the Rust client and from a remote command line.

use std::fs;
use std::path::PathBuf;

use nerve_api::request::{CreateBranch, ListSnapshots, RestoreSnapshot, Subscribe, TakeSnapshot};
use nerve_api::{ErrorKind, EventType};
use nerve_client::{NerveClient, Tls};

use super::{Fixture, put, text};
use crate::harness::DEADLINE;

fn of_node() -> ListSnapshots {
    ListSnapshots { node_id: Some("me".into()), ..ListSnapshots::default() }
}

async fn exercise(fixture: &Fixture, client: &NerveClient, name: &str) {
    let types = [EventType::SnapshotTaken, EventType::BranchProgress];
    let types = Some(types.iter().map(ToString::to_string).collect());
    let mut events = client.subscribe(&Subscribe { types, ..Subscribe::default() }).await.unwrap();
    put(&fixture.folder(), "file", "first\n");
    let before = client.snapshots(&of_node()).await.unwrap().len();
    let label = Some(format!("first of {name}"));
    let request =
        TakeSnapshot { node_id: Some("me".into()), label: label.clone(), ..TakeSnapshot::default() };
    let taken = client.take_snapshot(&request).await.unwrap();
    assert_eq!(taken.files.as_ref().unwrap().source, Some(fixture.folder().display().to_string()));
    let reported = async {
        loop {
            // Events from before the subscription may precede it.
            let event = events.next().await.expect("the stream ended");
            if event.kind() == Some(EventType::SnapshotTaken) {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(DEADLINE, reported).await.unwrap();
    assert_eq!(event.node_id.as_deref(), Some("me"));
    assert_eq!(
        (&event.data["snapshot_id"], &event.data["label"]),
        (&taken.snapshot_id.into(), &label.clone().unwrap().into())
    );
    put(&fixture.folder(), "file", "later\n");
    let listed = client.snapshots(&of_node()).await.unwrap();
    let last = listed.last().unwrap();
    assert_eq!(
        (listed.len(), last.snapshot_id, &last.label),
        (before + 1, taken.snapshot_id, &label),
        "{listed:?}"
    );
    assert_eq!(last.files, taken.files);

    let to = fixture.home.hermetic.work().join(format!("restored-{name}"));
    let request = RestoreSnapshot {
        snapshot_id: taken.snapshot_id,
        to: to.display().to_string(),
        node_id: Some("me".into()),
        ..RestoreSnapshot::default()
    };
    client.restore_snapshot(&request).await.unwrap();
    assert_eq!(text(to.join("file")), "first\n");

    let request = CreateBranch { source_id: Some("me".into()), at: label, ..CreateBranch::new("RECALL") };
    let plan = CreateBranch { dry_run: true, ..request.clone() };
    let plan = client.create_branch(&plan).await.unwrap();
    assert_eq!((plan.dry_run, plan.conversation.kind.as_str()), (true, "cut"), "{plan:?}");
    let mut steps = Vec::new();
    let branch = client.create_branch_with_progress(&request, |step| steps.push(step.to_string()));
    let branch = branch.await.unwrap();
    let starting = format!("starting node '{}'", branch.node_id);
    for step in ["restoring the files", &starting, "sending the instruction"] {
        assert_eq!(steps.iter().filter(|found| *found == step).count(), 1, "{step}: {steps:?}");
    }
    assert_eq!(branch.node_id, plan.node_id);
    assert!(branch.response.unwrap().text.starts_with("You said: one"));
    assert_eq!(text(PathBuf::from(&branch.cwd).join("file")), "first\n");
    let now = CreateBranch {
        at: Some("now".into()),
        target_id: Some(format!("now-{name}")),
        instruction: "SLOW down".into(),
        wait: false,
        ..request.clone()
    };
    let now = client.create_branch(&now).await.unwrap();
    assert_eq!((now.node_id, now.response.is_none()), (format!("now-{name}"), true));
    assert_eq!(text(PathBuf::from(&now.cwd).join("file")), "later\n");
    let branches = client.branches().await.unwrap();
    let listed = branches.iter().find(|listed| listed.path == branch.cwd).unwrap();
    assert_eq!(listed.used_by.as_deref(), Some(&*format!("node '{}'", branch.node_id)), "{branches:?}");
    let error = client.delete_branch(&branch.cwd, true).await.unwrap_err();
    assert_eq!(error.server().unwrap().details.error_type, ErrorKind::Busy, "{error}");
    let error = client.create_branch(&CreateBranch { at: Some("99".into()), ..request }).await.unwrap_err();
    assert_eq!(error.server().unwrap().details.error_type, ErrorKind::NotFound, "{error}");
}

#[test]
fn clients_take_list_restore_and_branch() {
    let fixture = Fixture::start(&["--http", "127.0.0.1:0"], "", |_, _| {});
    fixture.say("one");
    let status = fixture.home.nerve(&["server", "status", "--json"]).json();
    let url = format!("http://{}", status["http"].as_str().unwrap());
    let token = fixture.home.ok(&["token", "show"]);
    let socket = fixture.home.hermetic.nerve_home().join("run/default.sock");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        exercise(&fixture, &NerveClient::connect(&socket).await.unwrap(), "unix").await;
        let http = NerveClient::connect_http(&url, token.trim(), &Tls::Off).await.unwrap();
        exercise(&fixture, &http, "http").await;
    });
}

#[test]
fn clients_delete_folders_without_node_or_changes() {
    let fixture = Fixture::new().with_two_turns();
    let (changed, unchanged) = (fixture.ended_branch(), fixture.ended_branch());
    put(&changed, "file", "mine\n");
    let socket = fixture.home.hermetic.nerve_home().join("run/default.sock");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = NerveClient::connect(&socket).await.unwrap();
        let name = unchanged.file_name().unwrap().to_str().unwrap();
        let error = client.delete_branch(name, true).await.unwrap_err();
        assert_eq!(error.server().unwrap().details.error_type, ErrorKind::Busy, "just created: {error}");
        fixture.backdate_folders();
        let deleted = client.delete_branch(name, false).await.unwrap();
        assert_eq!((PathBuf::from(deleted.path), deleted.note), (unchanged.clone(), None));
        let changed = changed.to_str().unwrap();
        let error = client.delete_branch(changed, false).await.unwrap_err();
        assert_eq!(error.server().unwrap().details.error_type, ErrorKind::Process, "{error}");
        assert_eq!(client.branches().await.unwrap().len(), 1);
        client.delete_branch(changed, true).await.unwrap();
        assert_eq!(client.branches().await.unwrap(), []);
    });
    assert!(!unchanged.exists() && !changed.exists());
    assert_eq!(text(fixture.folder().join("file")), "two\n");
}

#[test]
fn remote_command_line_branches_on_the_server() {
    let fixture = Fixture::start(&["--tcp", "127.0.0.1:0"], "", |_, _| {}).with_two_turns();
    let status = fixture.home.nerve(&["server", "status", "--json"]).json();
    let url = format!("tcp://{}", status["tcp"].as_str().unwrap());
    let done = fixture.branch(&["RECALL", "--at", "one", "--server", &url]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
    let cwd = PathBuf::from(fixture.home.metadata("me-branch", "cwd"));
    assert_eq!(text(cwd.join("file")), "one\n");
    let plan = fixture.branch(&["RECALL", "--at", "two", "--server", &url, "--dry-run"]).json();
    assert_eq!(plan["node_id"], "me-branch-2", "{plan}");
    fixture.branch(&["RECALL", "--at", "9", "--server", &url]).assert_stderr(3, &["snapshot 9"]);
    fixture.home.nerve(&["branch", "RECALL", "--server", &url]).assert_code(2);
    let id = fixture.recording.file_stem().unwrap().to_str().unwrap();
    let listed = fixture.home.nerve(&["snapshot", "list", id, "--server", &url, "--json"]).json();
    let listed = &listed["snapshots"];
    assert_eq!((&listed[0]["label"], &listed[1]["label"]), (&"one".into(), &"two".into()), "{listed}");
    let taken = fixture.home.nerve(&["snapshot", "--session", "me", "--server", &url, "--json"]).json();
    assert_eq!((&taken["snapshot_id"], &taken["recording_id"]), (&3.into(), &id.into()), "{taken}");
    let to = fixture.home.hermetic.work().canonicalize().unwrap().join("restored");
    let restore = ["snapshot", "restore", "1", "--session", id, "--server", &url, "--to"];
    fixture.home.ok(&[&restore[..], &[to.to_str().unwrap()]].concat());
    assert_eq!(text(to.join("file")), "one\n");
    let relative = fixture.home.nerve(&[&restore[..], &["here"]].concat());
    relative.assert_code(2);
    let folders = fs::read_dir(fixture.branches()).unwrap().flatten();
    assert_eq!(folders.filter(|entry| entry.path().join("file").is_file()).count(), 1);
}
