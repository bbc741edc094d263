//! Graphs as people and scripts run them: files, runs, gates, outcomes, and recovery after a crash of the server.

mod examples;
mod failures;
mod files;
mod gates;
mod registry;
mod resume;
mod runs;

use std::fs;

use nerve_testkit::harness::{CommandOutput, KillOnDrop};
use nerve_testkit::{wait_for, wait_until};
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

/// A home with a server.
pub(crate) fn with_server() -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home
}

/// A file in the directory commands start in.
pub(crate) fn write(home: &Home, name: &str, text: &str) {
    fs::write(home.hermetic.work().join(name), text).unwrap();
}

/// Returns a file's text, or an empty string.
fn read(home: &Home, name: &str) -> String {
    fs::read_to_string(home.hermetic.work().join(name)).unwrap_or_default()
}

/// `nerve graph …`.
pub(crate) fn graph(home: &Home, args: &[&str]) -> CommandOutput {
    home.nerve(&[&["server", "graph"], args].concat())
}

/// Starts `nerve graph …`.
fn begin(home: &Home, args: &[&str]) -> KillOnDrop {
    home.start(&[&["server", "graph"], args].concat())
}

/// Returns a run's status, or null.
fn status(home: &Home, run: &str) -> Value {
    let done = graph(home, &["status", run, "--json"]);
    if done.code == 0 { done.json() } else { Value::Null }
}

/// Waits until a run has this status.
#[track_caller]
fn wait_for_status(home: &Home, run: &str, wanted: &str) -> Value {
    let found = wait_for(DEADLINE, || Some(status(home, run)).filter(|info| info["state"] == wanted));
    found.unwrap_or_else(|| panic!("run {run} is not {wanted}: {:#}", status(home, run)))
}

/// Waits until a file contains these words.
#[track_caller]
fn wait_for_text(home: &Home, name: &str, words: &str) {
    assert!(
        wait_until(DEADLINE, || read(home, name).contains(words)),
        "{name} has no {words:?}: {}",
        read(home, name)
    );
}

/// Lets steps of [`UNTIL_GO`] end.
fn go(home: &Home) {
    write(home, "go", "");
}

/// A command that ends when [`go`] was called.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done";
