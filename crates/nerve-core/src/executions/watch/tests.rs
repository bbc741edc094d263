use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use nerve_record::executions::{ExecutionLine, append};
use serde_json::json;

use super::super::states::{State, Told};
use super::*;
use crate::host::registry::start_ticks;

const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    _dir: tempfile::TempDir,
    recording: PathBuf,
    registry: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let (recording, registry) = (dir.path().join("s.ahr"), dir.path().join("hosts"));
        std::fs::create_dir(&registry).unwrap();
        Stage { _dir: dir, recording, registry }
    }

    /// A process that is listed as a host.
    fn host(&self, id: &str, recording: Option<&Path>) -> Child {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let entry: Entry = serde_json::from_value(json!({
            "id": id, "session_id": "s", "pid": child.id(), "start": start_ticks(child.id()).unwrap(),
            "child": 0, "child_start": 0, "argv": [], "cwd": null, "cols": 80, "rows": 24, "runtime": "/none",
            "recording": recording, "started": 0, "exit": null, "label": null,
        }))
        .unwrap();
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

async fn told(watch: &mut Watch) -> Vec<(String, State)> {
    let changes = tokio::time::timeout(PATIENCE, watch.changed()).await.unwrap().unwrap();
    changes.told.into_iter().map(|Told { id, state, .. }| (id, state)).collect()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_host_that_is_killed_has_ended_without_a_line() {
    let stage = Stage::new();
    let host = stage.host("aaa", None);
    stage.list(line("1", Some("aaa")));
    stage.list(line("2", Some("gone")));
    let mut watch = Watch::start(&stage.recording, &stage.registry);
    let first = [("1".to_string(), State::Running), ("2".to_string(), State::Ended(None))];
    assert_eq!(told(&mut watch).await, first);
    let later = stage.host("bbb", None);
    stage.list(line("3", Some("bbb")));
    assert_eq!(told(&mut watch).await, [("3".to_string(), State::Running)]);
    kill(host);
    assert_eq!(told(&mut watch).await, [("1".to_string(), State::Ended(None))]);
    // One that lists its end is told once, with its exit code.
    stage.list(ExecutionLine { ended_ns: Some(1), exit_code: Some(3), ..line("3", None) });
    assert_eq!(told(&mut watch).await, [("3".to_string(), State::Ended(Some(3)))]);
    kill(later);
    stage.list(line("4", None));
    assert_eq!(told(&mut watch).await, [("4".to_string(), State::Ended(None))]);
}

#[tokio::test]
async fn what_an_agent_runs_itself_ends_with_it() {
    let stage = Stage::new();
    let agent = stage.host("aaa", Some(&stage.recording));
    stage.list(line("1", None));
    let mut watch = Watch::start(&stage.recording, &stage.registry);
    assert_eq!(told(&mut watch).await, [("1".to_string(), State::Running)]);
    kill(agent);
    assert_eq!(told(&mut watch).await, [("1".to_string(), State::Ended(None))]);
}

#[tokio::test]
async fn a_list_that_cannot_be_watched_is_an_error_once() {
    let stage = Stage::new();
    std::fs::write(stage.recording.with_extension(""), "a file in place of a folder").unwrap();
    let below = stage.recording.with_extension("").join("s.ahr");
    let mut watch = Watch::start(&below, &stage.registry);
    assert!(tokio::time::timeout(PATIENCE, watch.changed()).await.unwrap().is_err());
    assert!(tokio::time::timeout(Duration::from_millis(10), watch.changed()).await.is_err());
}

#[tokio::test]
async fn a_list_that_is_read_anew_makes_nobody_wait_twice_for_a_host() {
    let stage = Stage::new();
    let host = stage.host("aaa", None);
    let mut hosts = Hosts::of(stage.registry.clone());
    assert!(hosts.watch("aaa") && hosts.watch("aaa"));
    assert_eq!(hosts.ends.len(), 1);
    stage.list(line("1", Some("aaa")));
    let mut watch = Watch::start(&stage.recording, &stage.registry);
    let running = [("1".to_string(), State::Running)];
    assert_eq!(told(&mut watch).await, running);
    // Another file in its place.
    let list = nerve_record::executions::path_of(&stage.recording);
    let copy = list.with_extension("copy");
    std::fs::copy(&list, &copy).unwrap();
    std::fs::rename(&copy, &list).unwrap();
    assert_eq!(told(&mut watch).await, running);
    kill(host);
    assert_eq!(told(&mut watch).await, [("1".to_string(), State::Ended(None))]);
    let end = tokio::time::timeout(PATIENCE, hosts.ends.join_next()).await.unwrap().unwrap().unwrap();
    hosts.ended(&end);
    assert!(!hosts.watch("aaa") && hosts.watched.is_empty());
}

#[tokio::test]
async fn links_lead_to_the_same_session() {
    let stage = Stage::new();
    std::fs::write(&stage.recording, "").unwrap();
    let agent = stage.host("aaa", Some(&stage.recording));
    stage.list(line("1", None));
    let folder = stage.recording.parent().unwrap();
    let (linked, file) = (folder.join("link"), folder.join("link.ahr"));
    std::os::unix::fs::symlink(folder, &linked).unwrap();
    std::os::unix::fs::symlink(&stage.recording, &file).unwrap();
    for path in [linked.join("s.ahr"), file] {
        let mut watch = Watch::start(&path, &stage.registry);
        assert_eq!(told(&mut watch).await, [("1".to_string(), State::Running)], "{}", path.display());
    }
    kill(agent);
}
