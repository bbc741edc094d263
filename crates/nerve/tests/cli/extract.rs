//! `nerve recording extract`: answers of agents from saved screens, logs, recordings and panes.

use std::fs;
use std::path::PathBuf;

use nerve_record::ahr::Body;
use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_types::TsNs;
use serde_json::json;

use crate::harness::Home;
use crate::panes::Tmux;
use crate::recordings::{START, data, record};

/// A saved screen of a real agent.
fn screen(agent: &str, state: &str) -> String {
    let screens = concat!(env!("CARGO_MANIFEST_DIR"), "/../nerve-vt/tests/fixtures/screens");
    format!("{screens}/{agent}/{state}.txt")
}

fn written(home: &Home, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = home.hermetic.work().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}

const TALK: &str = "❯ first\n\n● One.\n\n✻ Baked for 1s\n\n❯ second\n\n● Bash(ls)\n  ⎿  a\n     b\n\n● Two.\n\n✻ Baked for 2s\n";

#[test]
fn log_is_split_into_turns() {
    let home = Home::new();
    let log = written(&home, "log", TALK);
    let done = home.nerve(&["extract", &log]);
    done.assert_stderr(0, &["parser: claude (detected from the text)"]);
    assert_eq!(
        done.stdout,
        "> first\n\n[text]\nOne.\n\n> second\n\n[tool_call Bash] ls\na\nb\n[text]\nTwo.\n"
    );
    let last = home.nerve(&["extract", "--last", "-p", "claude", &log]);
    assert_eq!((last.code, last.stdout.as_str(), last.stderr.as_str()), (0, "Two.\n", ""));
    // An answer that is only a tool call.
    let tool = "❯ x\n\n● Bash(ls)\n  ⎿  a\n";
    assert_eq!(home.nerve_with(&["extract", "--last", "-"], tool).stdout, "[tool_call Bash] ls\na\n");
    assert_eq!(home.ok(&["extract", "--raw", &log]), TALK);
    assert!(home.ok(&["extract", "--raw", "--last", &log]).starts_with("❯ second\n"));
}

#[test]
fn json_has_turns_and_last_answer() {
    let home = Home::new();
    let done = home.nerve(&["extract", "--json", &written(&home, "log", TALK)]).json();
    assert_eq!((&done["parser"], &done["guessed"]), (&json!("claude"), &json!(true)));
    assert_eq!((&done["text"], &done["is_complete"]), (&json!("Two."), &json!(true)));
    assert_eq!(done["turns"][0]["prompt"], "first");
    assert_eq!(done["turns"][1]["sections"], done["sections"]);
    assert_eq!(
        done["sections"][0],
        json!({"type": "tool_call", "content": "a\nb", "metadata": {"tool": "Bash", "args": "ls"}})
    );
    assert_eq!(done["raw"], TALK.trim_end());
    let last = home.nerve_with(&["extract", "--json", "--last"], TALK).json();
    assert_eq!((&last["source"], last["turns"].as_array().unwrap().len()), (&json!("standard input"), 1));
}

#[test]
fn saved_screens_of_real_agents_are_extracted() {
    let home = Home::new();
    for (agent, state, parser, answer) in [
        ("claude-classic", "04-short-response", "claude", "You said: hello there\n"),
        ("claude-fullscreen", "20-after-paste3", "claude", "You said: line one\nline two\nline three\n"),
        ("codex-inline", "04-short-response", "codex", "You said: hello there\n"),
        ("gemini-colour", "04-short-response", "gemini", "You said:\nhello there\n"),
    ] {
        let done = home.nerve(&["extract", "--last", &screen(agent, state)]);
        done.assert_stderr(0, &[&format!("parser: {parser} (detected")]);
        assert_eq!(done.stdout, answer, "{agent}");
    }
}

#[test]
fn colours_and_cursor_movements_are_interpreted() {
    let home = Home::new();
    let coloured = "\x1b[2m❯\x1b[0m hello\n\n\x1b[32m●\x1b[0m \x1b[1mhi\x1b[0m\n";
    assert_eq!(home.nerve_with(&["extract", "--last"], coloured).stdout, "hi\n");
    // As `script` writes it: the answer grows in place.
    let drawn = "\x1b[H\x1b[2J❯ hello\r\n\r\n● h\x1b[3;1H● hi there\r\n";
    assert_eq!(home.nerve_with(&["extract", "--last"], drawn).stdout, "hi there\n");
    // Control sequences do not reach the reader's terminal.
    let evil = home.nerve_with(&["extract", "-p", "none"], "a\x1b]0;evil\x07b\u{9b}31mc\n");
    assert_eq!(evil.code, 0);
    assert!(!evil.stdout.contains(['\x1b', '\x07', '\u{9b}']), "{evil:?}");
}

#[test]
fn text_without_agent_is_one_section() {
    let home = Home::new();
    let done = home.nerve_with(&["extract"], "$ ls\na\n");
    done.assert_stderr(0, &["parser: none"]);
    assert_eq!(done.stdout, "[text]\n$ ls\na\n");
}

#[test]
fn recording_is_extracted_by_file_and_by_id() {
    let home = Home::new();
    let output = "$ claude\r\n\x1b[?1049h\x1b[H❯ hello\r\n\r\n● hi\r\n\r\n✻ Baked for 1s\x1b[?1049l$ ";
    let size = Body::Resize { cols: 80, rows: 10 };
    let id = "0195e3a1-0000-7000-8000-000000000001";
    let store = Store::new(home.hermetic.root().join("nerve/recordings"));
    let path = store.prepare(id, TsNs(START)).unwrap();
    record(&path, &[(0, size), (1, data(0, output))]);
    let by_file = home.nerve(&["extract", path.to_str().unwrap()]);
    by_file.assert_stderr(0, &["parser: claude (detected"]);
    assert_eq!(by_file.stdout, "> hello\n\n[text]\nhi\n");
    // The recorded program determines the parser.
    let meta = Meta { version: 1, cmd: vec!["claude".to_string()], cols: 80, rows: 10, ..Meta::default() };
    meta.store(&path).unwrap();
    let by_id = home.nerve(&["extract", "0195e3a1", "--last"]);
    by_id.assert_stderr(0, &["parser: claude (from the recorded program)"]);
    assert_eq!(by_id.stdout, "hi\n");
    home.nerve(&["extract", "0195eeee"]).assert_stderr(3, &["recording '0195eeee'", "nerve recording list"]);
    let bytes = fs::read(&path).unwrap();
    let mut command = assert_cmd::Command::from_std(home.command(&["extract"]));
    let piped = nerve_testkit::harness::CommandOutput::new(&command.write_stdin(bytes).output().unwrap());
    piped.assert_code(2);
}

#[test]
fn old_name_warns_once() {
    let home = Home::new();
    let done = home.nerve_with(&["parse", "--last", "-p", "claude"], TALK);
    done.assert_stderr(0, &["'nerve parse' is now 'nerve recording extract'"]);
    assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("Two.\n", 1));
    assert!(!home.ok(&["--help"]).contains("  parse"));
}

#[test]
fn unreadable_input_is_reported() {
    let home = Home::new();
    home.nerve(&["extract", "/no/such.log"]).assert_stderr(3, &["recording '/no/such.log'"]);
    home.nerve(&["extract", "/"]).assert_code(2);
    home.nerve_with(&["extract"], "").assert_stderr(1, &["standard input"]);
    home.nerve_with(&["extract", "-"], " \n\n").assert_stderr(1, &["standard input"]);
    let binary = written(&home, "binary", [0x7f, b'E', b'L', b'F', 0, 1, 2, 3]);
    home.nerve(&["extract", &binary]).assert_stderr(1, &["byte"]);
    let damaged = written(&home, "damaged.ahr", b"AHRCnothing of a recording");
    assert_eq!(home.nerve(&["extract", &damaged]).stdout, "");
    let start = home.nerve(&["extract", "-p", "claude", &screen("claude-classic", "02-startup-ready")]);
    start.assert_stderr(3, &["--raw"]);
    home.nerve(&["extract", "--parser", "gpt", "x"]).assert_stderr(2, &["gpt", "claude"]);
    home.nerve(&["extract", "--pane", "%1", "x"]).assert_code(2);
    let large = PathBuf::from(written(&home, "large", "x"));
    fs::File::options().write(true).open(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    home.nerve(&["extract", large.to_str().unwrap()]).assert_stderr(1, &["64 MiB"]);
    let json = home.nerve(&["extract", "--json", "/no/such.log"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json.stderr).unwrap()["code"], 3);
}

#[test]
fn tmux_pane_is_extracted() {
    let Some(tmux) = Tmux::new("tmux_pane_is_extracted") else { return };
    let home = &tmux.home;
    let log = written(home, "log", format!("{}\nEND\n", TALK.repeat(10)));
    let pane = tmux.ok(&["spawn", "-c", &format!("sh -c 'cat {log}; exec sleep 1000'"), "--rows", "12"]);
    let pane = pane.trim();
    tmux.wait_for(pane, "END");
    let socket = tmux.socket.as_str();
    let turns = |args: &[&str]| {
        let args = [&["extract", "--json", "--socket", socket, "--pane", pane], args].concat();
        let done = home.nerve(&args).json();
        assert_eq!(done["source"], format!("pane {pane} of tmux"));
        assert_eq!(done["parser"], "claude");
        done["turns"].as_array().unwrap().len()
    };
    assert_eq!(turns(&["--full"]), 20);
    let shown = turns(&[]);
    assert!((1..=2).contains(&shown), "{shown}");
    home.nerve(&["extract", "--socket", socket, "--pane", "%99"]).assert_stderr(3, &["nerve tmux list"]);
    let listed = home.nerve(&["extract", "--socket", socket, "--list-panes", "--json"]).json();
    assert_eq!(listed["panes"][0]["pane_id"], pane);
    assert_eq!(listed["panes"][0]["multiplexer"], "tmux");
}
