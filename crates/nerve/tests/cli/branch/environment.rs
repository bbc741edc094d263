//! Branches: the variables and the proxy of the recorded node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_record::meta::Meta;

use super::{Stage, put, text};
use crate::harness::{Home, NERVE};

/// A node `me` whose agent writes down at each start what it was given.
fn stage(more: &[&str]) -> Stage {
    let home = Home::new();
    let folder = home.hermetic.work().canonicalize().unwrap().join("project");
    put(&folder, "file", "old\n");
    home.ok(&["server", "start"]);
    let claude = home.hermetic.work().join("claude");
    let script = format!(
        "#!/bin/sh\necho \"$COLOUR $API_TOKEN $ANTHROPIC_BASE_URL\" >> \"$HOME/given\"\nexec '{NERVE}' mock-agent \"$@\"\n"
    );
    fs::write(&claude, script).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let base = ["server", "node", "create", "me", "-c", claude.to_str().unwrap(), "-b", "claude", "--cwd"];
    home.ok(&[&base[..], &[folder.to_str().unwrap()], more].concat());
    let recording = home.recording_of("me");
    let stage = Stage { home, recording };
    stage.say("one");
    stage.snapshot(&["--label", "one"]);
    stage
}

const GIVEN: [&str; 4] = ["--env", "COLOUR=red", "--env", "API_TOKEN=hunter2"];

impl Stage {
    /// What the agent that was started last was given.
    fn given(&self) -> String {
        let all = text(self.home.hermetic.home().join("given"));
        all.lines().last().unwrap().trim().to_string()
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn branch_inherits_env_and_no_file_has_values() {
    let stage = stage(&GIVEN);
    let told = stage.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(told.stdout.contains("API_TOKEN, COLOUR from node 'me'"), "{told:?}");
    assert!(!told.stdout.contains("hunter2") && !told.stdout.contains("red"), "{told:?}");
    assert_eq!(stage.branch(&["RECALL", "--at", "one"]).stdout, "You said: one\n");
    assert_eq!(stage.given(), "red hunter2");
    let branched = stage.branch_json(&["RECALL", "--at", "one", "--env", "COLOUR=blue"]);
    assert_eq!(stage.given(), "blue hunter2");
    let environment = &branched["environment"];
    assert_eq!(
        (&environment["given"][0], &environment["taken_over"][0]),
        (&"COLOUR".into(), &"API_TOKEN".into())
    );
    // Names are beside the recordings, values are not.
    assert_eq!(Meta::load(&stage.recording).unwrap().unwrap().env, ["API_TOKEN", "COLOUR"]);
    for place in ["recordings", "hosts", "branches"] {
        for file in files_below(&stage.home.hermetic.nerve_home().join(place)) {
            let bytes = fs::read(&file).unwrap();
            assert!(!bytes.windows(7).any(|bytes| bytes == b"hunter2"), "{}", file.display());
        }
    }
}

#[test]
fn unknown_env_values_are_named_and_can_be_set() {
    let stage = stage(&GIVEN);
    stage.stop();
    let told = stage.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(told.stdout.contains("without API_TOKEN, COLOUR of the recorded node"), "{told:?}");
    let done = stage.branch(&["RECALL", "--at", "one"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("is without API_TOKEN, COLOUR"), "{done:?}");
    assert_eq!(stage.given(), "");
    let done = stage.branch(&["RECALL", "--at", "one", "-e", "API_TOKEN=new", "--env", "COLOUR=blue"]);
    assert_eq!((done.code, done.stderr.contains("without")), (0, false), "{done:?}");
    assert_eq!(stage.given(), "blue new");
    // Another node of the same name is another one.
    let cwd = stage.folder();
    let base = ["server", "node", "create", "me", "-c", "bash --norc", "--env", "COLOUR=green", "--cwd"];
    stage.home.ok(&[&base[..], &[cwd.to_str().unwrap()]].concat());
    let done = stage.branch(&["RECALL", "--at", "one"]);
    assert!(done.stderr.contains("is without API_TOKEN, COLOUR"), "{done:?}");
    stage.branch(&["x", "--at", "one", "--env", "novalue"]).says(2, &["KEY=VALUE"]);
}

#[test]
fn restarted_server_supplies_non_secret_env() {
    let stage = stage(&GIVEN);
    stage.home.ok(&["server", "stop"]);
    // Whoever starts it branches: what looks secret was not kept.
    stage.home.ok(&["server", "start"]);
    let done = stage.branch(&["RECALL", "--at", "one"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("is without API_TOKEN, which"), "{done:?}");
    assert_eq!(stage.given(), "red");
}

#[test]
fn branch_of_proxied_node_gets_own_proxy_or_fails() {
    let stage = stage(&["--proxy", "anthropic", "--proxy-base-url", "http://127.0.0.1:9"]);
    let url = stage.home.fact("me", "proxy_url");
    assert_eq!(stage.given(), url);
    let told = stage.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(told.stdout.contains("its own to anthropic"), "{told:?}");
    assert_eq!(stage.branch(&["RECALL", "--at", "one"]).code, 0);
    let own = stage.home.fact("me-branch", "proxy_url");
    assert_eq!(
        (stage.given(), stage.home.fact("me-branch", "proxy_upstream")),
        (own.clone(), "127.0.0.1:9".into())
    );
    assert_ne!(own, url, "what it spends is its own");
    assert_eq!(stage.branch(&["RECALL", "--at", "one", "--no-proxy"]).code, 0);
    assert_eq!(stage.given(), "");
    stage.stop();
    // Nobody knows its settings any more: it would pass its budget by.
    let refused = ["had a proxy (anthropic)", "--proxy", "--no-proxy"];
    stage.branch(&["RECALL", "--at", "one"]).says(1, &refused);
    stage.branch(&["RECALL", "--at", "one", "--dry-run"]).says(1, &refused);
    assert_eq!(stage.branch(&["RECALL", "--at", "one", "--no-proxy"]).code, 0);
    let more = [
        "RECALL",
        "--at",
        "one",
        "--proxy",
        "anthropic",
        "--proxy-base-url",
        "http://127.0.0.1:10",
        "--node",
        "own",
    ];
    assert_eq!(stage.branch(&more).code, 0);
    assert_eq!(stage.home.fact("own", "proxy_upstream"), "127.0.0.1:10");
}
