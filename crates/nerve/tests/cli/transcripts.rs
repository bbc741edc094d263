//! `nerve transcript` with the scripted agent and shells: sources, formats and errors.

use serde_json::json;

use crate::harness::{Home, NERVE};

fn with_agent() -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let agent = format!("{NERVE} mock-agent");
    home.ok(&["new", "m", "-c", &agent, "--profile", "claude"]);
    home
}

#[test]
fn history_is_the_source_for_agent_without_session_file() {
    let home = with_agent();
    home.ok(&["send", "m", "hello"]);
    home.nerve(&["send", "m", "PERMIT this"]).assert_stderr(5, &["1. "]);
    home.ok(&["answer", "m", "1", "--wait"]);
    let transcript = home.nerve(&["transcript", "m", "--json"]).json();
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "{transcript:#}");
    assert_eq!((&turns[0]["prompt"], &turns[0]["source"]), (&json!("hello"), &json!("history")));
    let dialog = &turns[1]["dialogs"][0];
    assert_eq!((&dialog["dialog"], &dialog["transport"]), (&json!("permission"), &json!("unix")), "{dialog}");
    assert_eq!((&transcript["node_id"], &transcript["profile"]), (&json!("m"), &json!("claude")));
    assert!(transcript["recording_id"].is_string(), "{transcript:#}");
    let text = home.ok(&["transcript", "m"]);
    assert!(
        text.contains("[1] ") && text.contains("\n> hello\n") && text.contains("(Dialog 'permission'"),
        "{text}"
    );

    // The recording has the same turns, and needs no server.
    home.ok(&["server", "stop"]);
    let id = transcript["recording_id"].as_str().unwrap();
    let again = home.nerve(&["transcript", id, "--json"]).json();
    assert_eq!(again["turns"], transcript["turns"]);
}

#[test]
fn shell_that_was_stopped_keeps_its_transcript() {
    let home = Home::with_shell();
    home.ok(&["send", "sh", "echo one"]);
    home.ok(&["stop", "sh"]);
    let markdown = home.ok(&["transcript", "sh", "-f", "md", "--turn", "1"]);
    assert!(markdown.contains("> echo one\n\none\n"), "{markdown}");
    home.nerve(&["transcript", "sh", "--turn", "7"]).assert_stderr(3, &["turn 7"]);

    // An export in these formats is the transcript of the recording.
    let exported = home.ok(&["export", "sh", "-f", "md"]);
    assert!(
        exported.starts_with("# Transcript of sh\n") && exported.contains("> echo one\n\none\n"),
        "{exported}"
    );
    assert!(home.ok(&["export", "sh", "-f", "html"]).contains("<pre class=\"prompt\">echo one</pre>"));
}

#[test]
fn recording_without_history_is_replayed() {
    let home = Home::new();
    home.ok(&["record", "--headless", "--out-file", "session.ahr", "--", "printf", "shown text"]);
    let transcript = home.nerve(&["transcript", "./session.ahr", "--json"]).json();
    assert_eq!(transcript["turns"][0]["source"], "screen", "{transcript:#}");
    assert_eq!(transcript["turns"][0]["sections"][0]["content"], "shown text");
}

#[test]
fn node_of_default_session_comes_first() {
    let home = Home::with_shell();
    home.ok(&["session", "create", "work"]);
    home.ok(&["new", "sh", "--session", "work", "-c", "bash --norc", "--env", "PS1=$ "]);
    home.ok(&["send", "sh", "echo one"]);
    home.ok(&["send", "sh", "echo two", "--session", "work"]);
    let prompt = |args: &[&str]| {
        let args = [&["transcript", "--json"], args].concat();
        home.nerve(&args).json()["turns"][0]["prompt"].clone()
    };
    assert_eq!(prompt(&["sh"]), "echo one", "the other recording was written later");
    assert_eq!(prompt(&["work/sh"]), "echo two");
}

#[test]
fn unknown_names_and_files_are_errors() {
    let home = Home::new();
    home.nerve(&["transcript", "missing"]).assert_stderr(3, &["hint:"]);
    home.nerve(&["transcript", "./missing.ahr"]).assert_stderr(3, &["missing.ahr"]);
    home.nerve(&["transcript", "x", "-f", "pdf"]).assert_stderr(2, &["md", "html", "json", "txt"]);
}

#[test]
fn server_returns_the_same_transcript() {
    let home = Home::new();
    home.ok(&["server", "start", "--tcp", "127.0.0.1:0"]);
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    home.ok(&["send", "sh", "echo one"]);
    let here = home.nerve(&["transcript", "sh", "--json"]).json();
    let address = home.nerve(&["server", "status", "--json"]).json()["tcp"].as_str().unwrap().to_string();
    let server = format!("tcp://{address}");
    let remote = |name: &str| home.nerve(&["transcript", name, "--json", "-s", &server]);
    assert_eq!(remote("sh").json(), here);
    assert_eq!(remote(here["recording_id"].as_str().unwrap()).json(), here);
    remote("missing").assert_code(3);
}
