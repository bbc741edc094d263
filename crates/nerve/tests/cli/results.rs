//! `execute --async` and `nerve result`: ids, exit codes, conversations, servers that end.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Home, NERVE};

fn with_bash() -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "b", "--backend", "bash"]);
    home
}

impl Home {
    fn begin(&self, node: &str, text: &str) -> String {
        self.ok(&["server", "node", "execute", node, text, "--async"]).trim().to_string()
    }

    fn conversation(&self, workspace: &str, chat: &str) -> Vec<Value> {
        let file = self.hermetic.nerve_home().join(format!("conversations/{workspace}/{chat}.json"));
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }
}

#[test]
fn async_execute_returns_id_first_and_answer_later() {
    let home = with_bash();
    let id = home.begin("b", "echo hello");
    assert_eq!(home.ok(&["result", &id, "--wait", "--timeout", "20"]).trim(), "hello");
    assert_eq!(home.ok(&["result", &id]).trim(), "hello");
    let whole = home.nerve(&["result", &id, "--json"]).json();
    assert_eq!((&whole["state"], &whole["response"]["success"]), (&json!("done"), &json!(true)));
    let list = home.ok(&["result", "--list"]);
    assert!(list.contains(&id) && list.contains("done") && list.contains("echo hello"), "{list}");
    let list = home.nerve(&["result", "--list", "--node", "other", "--json"]).json();
    assert_eq!(list, json!({ "results": [], "next": null }));
    let as_json = home.nerve(&["server", "node", "execute", "b", "true", "--async", "--json"]).json();
    assert_eq!(as_json["node_id"], "b");
}

#[test]
fn exit_codes_match_execute() {
    let home = with_bash();
    let failed = home.begin("b", "echo why >&2; exit 3");
    home.nerve(&["result", &failed, "--wait"]).assert_stderr(1, &["exit code 3", "why"]);
    home.nerve(&["result", "nothing"]).assert_stderr(3, &["result 'nothing'", "--list"]);
    let endless = home.begin("b", "exec sleep 1000");
    home.nerve(&["result", &endless]).assert_stderr(4, &["--wait"]);
    home.nerve(&["result", &endless, "--wait", "--timeout", "0.2"]).assert_code(4);
    assert!(home.ok(&["result", &endless, "--cancel"]).contains("cancelled"));
    home.nerve(&["result", &endless]).assert_stderr(130, &["cancelled"]);
    let json = home.nerve(&["result", &endless, "--json"]);
    assert_eq!((json.code, &json.json()["state"]), (130, &json!("cancelled")));
    assert!(home.ok(&["result", "--list"]).contains("cancelled"));
    home.ok(&["server", "node", "create", "m", "-c", &format!("{NERVE} mock-agent"), "--profile", "claude"]);
    let blocked = home.begin("m", "PERMIT this");
    home.nerve(&["result", &blocked, "--wait"]).assert_stderr(5, &["1. "]);
    let listed = home.nerve(&["result", "--list", "--node", "m", "--json"]).json();
    assert_eq!(listed["results"][0]["delivery"], "started", "{listed}");
    home.nerve(&["result", &blocked, "--json"]).assert_stderr(5, &["\"code\":5"]);
    // Invalid command lines.
    home.nerve(&["result"]).assert_stderr(2, &["--list"]);
    home.nerve(&["result", "x", "--list"]).assert_code(2);
    let execute = ["server", "node", "execute", "b", "true"];
    let with = |more: &[&str]| home.nerve(&[&execute[..], more].concat());
    with(&["--webhook", "http://a/"]).assert_stderr(2, &["--no-wait"]);
    with(&["--async", "--stream"]).assert_code(2);
    with(&["--workspace", "w"]).assert_stderr(2, &["--chat"]);
    with(&["--async", "--webhook", "a"]).assert_stderr(2, &["webhook"]);
    with(&["--async", "--webhook", "http://a/", "--webhook-secret-env", "NO_SUCH"])
        .assert_stderr(2, &["NO_SUCH"]);
    with(&["--history", "/no/such/file"]).assert_stderr(1, &["/no/such/file"]);
}

#[test]
fn execution_of_killed_server_is_lost() {
    let home = with_bash();
    let id = home.begin("b", "exec sleep 1000");
    let running = || home.nerve(&["result", &id, "--json"]).json()["state"] == "running";
    assert!(nerve_testkit::wait_until(crate::harness::DEADLINE, running));
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.nerve(&["result", &id, "--wait"]).assert_stderr(1, &["nerve logs b"]);
    assert!(home.ok(&["result", "--list"]).contains("lost"));
}

#[test]
fn conversation_moves_to_another_agent_without_repeats() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let agent = format!("{NERVE} mock-agent");
    let create = |node: &str| {
        home.ok(&[
            "server",
            "node",
            "create",
            node,
            "-c",
            &agent,
            "--profile",
            "claude",
            "--workspace",
            "w",
            "--chat",
            "c",
        ])
    };
    let ask = |node: &str, text: &str| home.ok(&["server", "node", "execute", node, text]);
    create("one");
    ask("one", "my name is alice");
    assert!(!ask("one", "and now").contains("alice"));
    // The program runs in its host and keeps its conversation.
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "one"]);
    assert!(!ask("one", "and later").contains("alice"), "the conversation was repeated");
    create("two");
    assert!(ask("two", "what is my name").contains("User: my name is alice"));
    assert_eq!(home.conversation("w", "c").len(), 8);
    let file = home.hermetic.root().join("history.json");
    std::fs::write(&file, r#"[{"role":"user","content":"from a file","timestamp":1}]"#).unwrap();
    let path = file.to_str().unwrap();
    let output = home.ok(&["server", "node", "execute", "two", "so", "--history", path]);
    assert!(output.contains("User: from a file"), "{output}");
    let output = home.ok(&["server", "node", "execute", "two", "so", "--context", "always"]);
    assert!(output.contains("User: my name is alice"), "{output}");
    let output =
        home.ok(&["server", "node", "execute", "two", "so", "--context", "never", "--history", path]);
    assert!(!output.contains("from a file"), "{output}");
    std::fs::write(&file, r#"[{"role":"user","content":"x","timestamp":1},{"role":"me","content":"x"}]"#)
        .unwrap();
    let wrong = home.nerve(&["server", "node", "execute", "two", "so", "--history", path]);
    wrong.assert_stderr(2, &["message 1"]);
    std::fs::write(&file, r#"[{"role":"user"}]"#).unwrap();
    let wrong = home.nerve(&["server", "node", "execute", "two", "so", "--history", path]);
    wrong.assert_stderr(2, &["message 0", "content"]);
}

#[test]
fn conversation_errors_are_warnings_sync_and_async() {
    let home = with_bash();
    let file = home.hermetic.nerve_home().join("conversations/w/c.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let execute = ["server", "node", "execute", "b", "echo on", "--workspace", "w", "--chat", "c"];
    std::fs::write(&file, "{").unwrap();
    let done = home.nerve(&execute);
    done.assert_stderr(0, &["warning: ", "c.json.broken-"]);
    assert_eq!(done.stdout.trim(), "on");
    std::fs::write(&file, "{").unwrap();
    let id = home.ok(&[&execute[..], &["--async"]].concat());
    let done = home.nerve(&["result", id.trim(), "--wait"]);
    done.assert_stderr(0, &["warning: ", "c.json.broken-"]);
    assert_eq!((done.stdout.trim(), home.conversation("w", "c").len()), ("on", 2));
}

#[test]
fn two_servers_on_one_chat_lose_nothing() {
    let home = with_bash();
    home.ok(&["server", "start", "second"]);
    home.ok(&["server", "node", "-s", "second", "create", "b", "--backend", "bash"]);
    let mut ids = Vec::new();
    for at in 0..12 {
        for server in ["default", "second"] {
            let text = format!("echo {server}-{at}");
            let args = [
                "server",
                "node",
                "-s",
                server,
                "execute",
                "b",
                &text,
                "--async",
                "--workspace",
                "w",
                "--chat",
                "c",
            ];
            ids.push((server, home.ok(&args).trim().to_string()));
        }
    }
    for (server, id) in &ids {
        home.ok(&["result", "-s", server, id, "--wait", "--timeout", "30"]);
    }
    let kept = home.conversation("w", "c");
    let answers: HashSet<String> =
        kept.iter().map(|message| message["content"].as_str().unwrap().trim().to_string()).collect();
    assert_eq!((kept.len(), answers.len()), (48, 48), "{answers:?}");
}

#[test]
fn webhook_receives_the_result() {
    use std::io::{Read, Write};

    let home = with_bash();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/done", listener.local_addr().unwrap());
    let mut command = home.command(&[
        "server",
        "node",
        "execute",
        "b",
        "echo hello",
        "--async",
        "--webhook",
        &url,
        "--webhook-secret-env",
        "HOOK",
    ]);
    command.env("HOOK", "hush-hush");
    let id = home.run(command);
    assert_eq!(id.code, 0, "{id:?}");
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    while !request.ends_with('}') {
        let read = stream.read(&mut buffer).unwrap();
        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").unwrap();
    assert!(
        request.starts_with("POST /done ") && request.to_lowercase().contains("x-nerve-signature: sha256="),
        "{request}"
    );
    assert!(request.contains(id.stdout.trim()) && !request.contains("hush-hush"), "{request}");
    let delivered =
        || home.nerve(&["result", id.stdout.trim(), "--json"]).json()["webhook"]["delivered"] == true;
    assert!(nerve_testkit::wait_until(crate::harness::DEADLINE, delivered));
}
