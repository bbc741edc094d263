//! Branches: the variables and the proxy of the recorded node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_record::meta::Meta;

use super::{Fixture, put, text};
use crate::harness::{Home, NERVE};

/// Creates a node `me` whose agent logs its environment at each start.
fn fixture(more: &[&str]) -> Fixture {
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
    let fixture = Fixture { home, recording };
    fixture.say("one");
    fixture.snapshot(&["--label", "one"]);
    fixture
}

const ENV: [&str; 4] = ["--env", "COLOUR=red", "--env", "API_TOKEN=hunter2"];

impl Fixture {
    /// Returns the environment of the agent started last.
    fn last_env(&self) -> String {
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
    let fixture = fixture(&ENV);
    let output = fixture.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(output.stdout.contains("API_TOKEN, COLOUR from node 'me'"), "{output:?}");
    assert!(!output.stdout.contains("hunter2") && !output.stdout.contains("red"), "{output:?}");
    assert_eq!(fixture.branch(&["RECALL", "--at", "one"]).stdout, "You said: one\n");
    assert_eq!(fixture.last_env(), "red hunter2");
    let branched = fixture.branch_json(&["RECALL", "--at", "one", "--env", "COLOUR=blue"]);
    assert_eq!(fixture.last_env(), "blue hunter2");
    let environment = &branched["environment"];
    assert_eq!(
        (&environment["given"][0], &environment["taken_over"][0]),
        (&"COLOUR".into(), &"API_TOKEN".into())
    );
    // Names are stored with the recordings, values are not.
    assert_eq!(Meta::load(&fixture.recording).unwrap().unwrap().env, ["API_TOKEN", "COLOUR"]);
    for place in ["recordings", "hosts", "branches"] {
        for file in files_below(&fixture.home.hermetic.nerve_home().join(place)) {
            let bytes = fs::read(&file).unwrap();
            assert!(!bytes.windows(7).any(|bytes| bytes == b"hunter2"), "{}", file.display());
        }
    }
}

#[test]
fn unknown_env_values_are_named_and_can_be_set() {
    let fixture = fixture(&ENV);
    fixture.stop();
    fixture.home.ok(&["rm", "me"]);
    let output = fixture.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(output.stdout.contains("without API_TOKEN, COLOUR of the recorded node"), "{output:?}");
    let done = fixture.branch(&["RECALL", "--at", "one"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("runs without API_TOKEN, COLOUR of"), "{done:?}");
    assert_eq!(fixture.last_env(), "");
    let done = fixture.branch(&["RECALL", "--at", "one", "-e", "API_TOKEN=new", "--env", "COLOUR=blue"]);
    assert_eq!((done.code, done.stderr.contains("without")), (0, false), "{done:?}");
    assert_eq!(fixture.last_env(), "blue new");
    // A new node of the same name does not supply its values.
    let cwd = fixture.folder();
    let base = ["server", "node", "create", "me", "-c", "bash --norc", "--env", "COLOUR=green", "--cwd"];
    fixture.home.ok(&[&base[..], &[cwd.to_str().unwrap()]].concat());
    let done = fixture.branch(&["RECALL", "--at", "one"]);
    assert!(done.stderr.contains("runs without API_TOKEN, COLOUR of"), "{done:?}");
    fixture.branch(&["x", "--at", "one", "--env", "novalue"]).assert_stderr(2, &["KEY=VALUE"]);
}

#[test]
fn restarted_server_supplies_non_secret_env() {
    let fixture = fixture(&ENV);
    fixture.home.ok(&["server", "stop"]);
    // The server restarts; values that look secret were not stored.
    fixture.home.ok(&["server", "start"]);
    let done = fixture.branch(&["RECALL", "--at", "one"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("runs without API_TOKEN of"), "{done:?}");
    assert_eq!(fixture.last_env(), "red");
}

#[test]
fn branch_of_proxied_node_gets_own_proxy_or_fails() {
    let fixture = fixture(&["--proxy", "anthropic", "--proxy-base-url", "http://127.0.0.1:9"]);
    let url = fixture.home.metadata("me", "proxy_url");
    assert_eq!(fixture.last_env(), url);
    let output = fixture.branch(&["RECALL", "--at", "one", "--dry-run"]);
    assert!(output.stdout.contains("its own to anthropic"), "{output:?}");
    assert_eq!(fixture.branch(&["RECALL", "--at", "one"]).code, 0);
    let own = fixture.home.metadata("me-branch", "proxy_url");
    assert_eq!(
        (fixture.last_env(), fixture.home.metadata("me-branch", "proxy_upstream")),
        (own.clone(), "127.0.0.1:9".into())
    );
    assert_ne!(own, url, "what it spends is its own");
    assert_eq!(fixture.branch(&["RECALL", "--at", "one", "--no-proxy"]).code, 0);
    assert_eq!(fixture.last_env(), "");
    fixture.stop();
    fixture.home.ok(&["rm", "me"]);
    // The proxy settings are lost: a branch without them would bypass its budget.
    let refused = ["recorded agent's proxy (anthropic)", "--proxy", "--no-proxy"];
    fixture.branch(&["RECALL", "--at", "one"]).assert_stderr(1, &refused);
    fixture.branch(&["RECALL", "--at", "one", "--dry-run"]).assert_stderr(1, &refused);
    assert_eq!(fixture.branch(&["RECALL", "--at", "one", "--no-proxy"]).code, 0);
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
    assert_eq!(fixture.branch(&more).code, 0);
    assert_eq!(fixture.home.metadata("own", "proxy_upstream"), "127.0.0.1:10");
}
