use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use nerve_record::executions::{ExecutionLine, append};
use nerve_testkit::harness::host_entry;
use serde_json::json;

use super::super::states::{ExecutionUpdate, State};
use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

struct Fixture {
    _dir: tempfile::TempDir,
    recording: PathBuf,
    registry: PathBuf,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let (recording, registry) = (dir.path().join("s.ahr"), dir.path().join("hosts"));
        std::fs::create_dir(&registry).unwrap();
        Fixture { _dir: dir, recording, registry }
    }

    /// Starts a process and lists it as a host.
    fn host(&self, id: &str, recording: Option<&Path>) -> Child {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut entry = host_entry(id, "s", child.id());
        entry["recording"] = json!(recording);
        let entry: Entry = serde_json::from_value(entry).unwrap();
        entry.store(&self.registry).unwrap();
        child
    }

    fn list(&self, line: ExecutionLine) {
        append(&self.recording, line).unwrap();
    }
}

fn line(id: &str, host: Option<&str>) -> ExecutionLine {
    ExecutionLine { id: id.into(), host: host.map(str::to_string), ..ExecutionLine::default() }
}

async fn updates(watch: &mut Watch) -> Vec<(String, State)> {
    let changes = tokio::time::timeout(DEADLINE, watch.changed()).await.unwrap().unwrap();
    changes.updates.into_iter().map(|ExecutionUpdate { id, state, .. }| (id, state)).collect()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn killed_host_ends_its_execution_without_a_line() {
    let fixture = Fixture::new();
    let host = fixture.host("aaa", None);
    fixture.list(line("1", Some("aaa")));
    fixture.list(line("2", Some("gone")));
    let mut watch = Watch::start(&fixture.recording, &fixture.registry);
    let first = [("1".to_string(), State::Running), ("2".to_string(), State::Ended(None))];
    assert_eq!(updates(&mut watch).await, first);
    let later = fixture.host("bbb", None);
    fixture.list(line("3", Some("bbb")));
    assert_eq!(updates(&mut watch).await, [("3".to_string(), State::Running)]);
    kill(host);
    assert_eq!(updates(&mut watch).await, [("1".to_string(), State::Ended(None))]);
    // An end that is listed first is reported once, with its exit code.
    fixture.list(ExecutionLine { ended_ns: Some(1), exit_code: Some(3), ..line("3", None) });
    assert_eq!(updates(&mut watch).await, [("3".to_string(), State::Ended(Some(3)))]);
    kill(later);
    fixture.list(line("4", None));
    assert_eq!(updates(&mut watch).await, [("4".to_string(), State::Ended(None))]);
}

#[tokio::test]
async fn executions_without_host_end_with_their_agent() {
    let fixture = Fixture::new();
    let agent = fixture.host("aaa", Some(&fixture.recording));
    fixture.list(line("1", None));
    let mut watch = Watch::start(&fixture.recording, &fixture.registry);
    assert_eq!(updates(&mut watch).await, [("1".to_string(), State::Running)]);
    kill(agent);
    assert_eq!(updates(&mut watch).await, [("1".to_string(), State::Ended(None))]);
}

#[tokio::test]
async fn unwatchable_list_is_an_error_once() {
    let fixture = Fixture::new();
    std::fs::write(fixture.recording.with_extension(""), "a file in place of a folder").unwrap();
    let below = fixture.recording.with_extension("").join("s.ahr");
    let mut watch = Watch::start(&below, &fixture.registry);
    assert!(tokio::time::timeout(DEADLINE, watch.changed()).await.unwrap().is_err());
    assert!(tokio::time::timeout(Duration::from_millis(10), watch.changed()).await.is_err());
}

#[tokio::test]
async fn replaced_list_does_not_watch_a_host_twice() {
    let fixture = Fixture::new();
    let host = fixture.host("aaa", None);
    let mut hosts = Hosts::new(fixture.registry.clone());
    assert!(hosts.watch("aaa") && hosts.watch("aaa"));
    assert_eq!(hosts.ends.len(), 1);
    fixture.list(line("1", Some("aaa")));
    let mut watch = Watch::start(&fixture.recording, &fixture.registry);
    let running = [("1".to_string(), State::Running)];
    assert_eq!(updates(&mut watch).await, running);
    // Replace the file.
    let list = nerve_record::executions::list_path(&fixture.recording);
    let copy = list.with_extension("copy");
    std::fs::copy(&list, &copy).unwrap();
    std::fs::rename(&copy, &list).unwrap();
    assert_eq!(updates(&mut watch).await, running);
    kill(host);
    assert_eq!(updates(&mut watch).await, [("1".to_string(), State::Ended(None))]);
    let end = tokio::time::timeout(DEADLINE, hosts.ends.join_next()).await.unwrap().unwrap().unwrap();
    hosts.on_reported(&end);
    assert!(!hosts.watch("aaa") && hosts.watched.is_empty());
}

#[tokio::test]
async fn links_resolve_to_the_same_session() {
    let fixture = Fixture::new();
    std::fs::write(&fixture.recording, "").unwrap();
    let agent = fixture.host("aaa", Some(&fixture.recording));
    fixture.list(line("1", None));
    let folder = fixture.recording.parent().unwrap();
    let (linked, file) = (folder.join("link"), folder.join("link.ahr"));
    std::os::unix::fs::symlink(folder, &linked).unwrap();
    std::os::unix::fs::symlink(&fixture.recording, &file).unwrap();
    for path in [linked.join("s.ahr"), file] {
        let mut watch = Watch::start(&path, &fixture.registry);
        assert_eq!(updates(&mut watch).await, [("1".to_string(), State::Running)], "{}", path.display());
    }
    kill(agent);
}
