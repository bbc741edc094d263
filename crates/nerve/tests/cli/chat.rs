//! Chat nodes at the command line, against `nerve mock-model`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::harness::Home;

const KEY: &str = "sk-cli-0123456789";

/// A scripted model in a process of its own.
struct Model {
    child: Child,
    url: String,
}

impl Drop for Model {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn model(home: &Home) -> Model {
    let mut command = home.command(&["mock-model"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let from = line.find("http://").unwrap_or_else(|| panic!("{line:?}"));
    let url: String = line[from..].chars().take_while(|c| !c.is_whitespace()).collect();
    Model { child, url }
}

fn create<'a>(model: &'a Model, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![
        "server",
        "node",
        "create",
        "ask",
        "-b",
        "chat",
        "--model",
        "test-model",
        "--base-url",
        &model.url,
    ];
    args.extend(more);
    args
}

#[test]
fn chat_node_answers_streams_forks_and_persists() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let model = model(&home);
    let file = home.hermetic.work().join("talk.json");
    let (env, file) = (format!("OPENAI_API_KEY={KEY}"), file.to_str().unwrap());
    let more = ["--provider", "openai", "--system", "Be brief.", "--env", &env, "--keep", file];
    assert_eq!(home.ok(&create(&model, &more)), "node 'ask' created\n");
    assert_eq!(home.ok(&["server", "node", "execute", "ask", "hello"]), "You said: hello\n");
    let streamed = home.ok(&["server", "node", "execute", "ask", "again", "--stream"]);
    assert!(streamed.contains("You said: again"), "{streamed:?}");
    let read = home.ok(&["server", "node", "read", "ask"]);
    assert!(read.starts_with("user: hello\nassistant: You said: hello\nuser: again"), "{read}");
    home.ok(&["server", "node", "fork", "ask", "other"]);
    assert_eq!(home.ok(&["server", "node", "read", "other"]), read);
    let info = home.info("ask").to_string();
    assert!(info.contains("test-model") && !info.contains(KEY), "{info}");
    let history = home.ok(&["server", "node", "history", "ask", "--json"]);
    assert!(history.contains("You said: hello") && !history.contains(KEY), "{history}");
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept.contains("You said: again") && !kept.contains(KEY));
}

#[test]
fn missing_chat_options_are_named() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let model = model(&home);
    home.nerve(&["server", "node", "create", "ask", "-b", "chat"])
        .assert_stderr(2, &["needs a model", "--model"]);
    home.nerve(&["server", "node", "create", "ask", "-b", "bash", "--model", "m"])
        .assert_stderr(2, &["--model requires a chat node"]);
    home.nerve(&create(&model, &["--provider", "robot"])).assert_stderr(2, &["robot"]);
    home.nerve(&create(&model, &["--api-key-env", "NERVE_TEST_NO_SUCH"]))
        .assert_stderr(2, &["no API key: the variable NERVE_TEST_NO_SUCH is not set", "--api-key-env"]);
    home.ok(&create(&model, &["--api-key-env", "", "--tool", "nobody"]));
    home.nerve(&["server", "node", "execute", "ask", "hello"]).assert_stderr(3, &["tool 'nobody'"]);
}
