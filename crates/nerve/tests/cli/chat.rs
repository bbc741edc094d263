//! Chat nodes at the command line, against `nerve mock-model`.

use nerve_testkit::harness::Listener;

use crate::harness::Home;

const KEY: &str = "sk-cli-0123456789";

/// Starts a scripted model in a process of its own.
fn model(home: &Home) -> Listener {
    Listener::start(home.command(&["mock-model"]))
}

fn create<'a>(model: &'a Listener, more: &[&'a str]) -> Vec<&'a str> {
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
        model.url(),
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
    let usage: serde_json::Value =
        serde_json::from_str(&home.ok(&["usage", "--by", "model", "--json"])).unwrap();
    assert!(usage.to_string().contains("test-model"), "{usage}");
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept.contains("You said: again") && !kept.contains(KEY));
}

#[test]
fn error_of_the_api_exits_with_9() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let model = model(&home);
    let env = format!("OPENAI_API_KEY={KEY}");
    home.ok(&create(&model, &["--provider", "openai", "--env", &env]));
    home.nerve(&["send", "ask", "ERR 401"]).assert_stderr(9, &["401", "hint", "api_key_env"]);
    home.nerve(&["send", "ask", "ERR 418"]).assert_stderr(9, &["418", "hint"]);
    assert_eq!(home.ok(&["send", "ask", "hello"]), "You said: hello\n");
}

#[test]
fn missing_chat_options_are_named() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let model = model(&home);
    home.nerve(&["server", "node", "create", "ask", "-b", "chat"]).assert_stderr(2, &["--model"]);
    home.nerve(&["server", "node", "create", "ask", "-b", "bash", "--model", "m"])
        .assert_stderr(2, &["--model"]);
    home.nerve(&create(&model, &["--provider", "robot"])).assert_stderr(2, &["robot"]);
    home.nerve(&create(&model, &["--api-key-env", "NERVE_TEST_NO_SUCH"]))
        .assert_stderr(2, &["NERVE_TEST_NO_SUCH", "--api-key-env"]);
    home.ok(&create(&model, &["--api-key-env", "", "--tool", "absent"]));
    home.nerve(&["server", "node", "execute", "ask", "hello"]).assert_stderr(3, &["tool 'absent'"]);
}
