//! Real agents (pinned by xtask) and the Agent Client Protocol, with the scripted model API on loopback. An editor, written by hand, uses
//! Claude Code through `nerve acp`. opencode and Gemini CLI speak the protocol themselves and run as nodes without a terminal.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::process::Stdio;
use std::time::Duration;

use nerve_testkit::harness::RealAgent;
use nerve_testkit::mock_model::Script;
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, find_agent};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

const NERVE: &str = env!("CARGO_BIN_EXE_nerve");
/// Limit for a message of a real agent.
const MESSAGE: Duration = Duration::from_secs(120);

struct Editor {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    log: Vec<Value>,
}

impl Editor {
    fn start(agent: &RealAgent) -> Editor {
        let mut command = agent.command(NERVE, &["acp", "--"]);
        command.args(&agent.recipe.argv);
        let mut command = tokio::process::Command::from(command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Editor { _child: child, stdin, lines, log: Vec::new() }
    }

    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Reads until a message matches.
    async fn next(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = tokio::time::timeout(MESSAGE, self.lines.next_line()).await;
            let Ok(Ok(Some(line))) = line else { panic!("{line:?} after {:#?}", self.log) };
            let message: Value = serde_json::from_str(&line).unwrap();
            self.log.push(message.clone());
            if predicate(&message) {
                return message;
            }
        }
    }

    async fn begin(&mut self, method: &str, params: Value) -> usize {
        let id = self.log.len() + 1_000_000;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    async fn result(&mut self, id: usize) -> Value {
        let response = self.next(|message| message["id"] == id && message.get("method").is_none()).await;
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.result(id).await
    }

    async fn prompt(&mut self, session: &str, text: &str) -> usize {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.begin("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    fn updates(&self, kind: &str) -> Vec<Value> {
        let updates = self.log.iter().map(|message| message["params"]["update"].clone());
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    fn text(&self) -> String {
        let chunks = self.updates("agent_message_chunk");
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn editor_allows_a_tool_of_claude_and_loads_the_session() {
    let script = Script::default();
    let Some(agent) = RealAgent::claude("real_agent_acp", Renderer::Classic, script).await else { return };
    let work = agent.home.work();
    let mut editor = Editor::start(&agent);
    editor.request("initialize", json!({ "protocolVersion": 1 })).await;
    let made = editor.request("session/new", json!({ "cwd": work, "mcpServers": [] })).await;
    let session = made["sessionId"].as_str().unwrap().to_string();

    let prompt = editor.prompt(&session, "TOUCHTOOL please").await;
    let asked = editor.next(|message| message["method"] == "session/request_permission").await;
    let call = &asked["params"]["toolCall"];
    assert!(call["content"][0]["content"]["text"].as_str().unwrap().contains("touch"), "{call}");
    let options = asked["params"]["options"].as_array().unwrap();
    let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap()["optionId"].clone();
    assert!(options.iter().any(|option| option["kind"] == "reject_once"), "{options:?}");
    let outcome = json!({ "outcome": "selected", "optionId": allow });
    editor.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "outcome": outcome } })).await;
    let done = editor.result(prompt).await;
    assert_eq!(done["stopReason"], "end_turn", "{done}");
    assert!(done["usage"]["totalTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{done}");
    let usage = editor.updates("usage_update");
    let is_known =
        |update: &Value| update["used"].as_u64() > Some(0) && update["size"].as_u64() >= Some(200_000);
    assert!(!usage.is_empty() && usage.iter().all(is_known), "{usage:?}");
    assert!(editor.text().contains("END-OF-TOOL"), "{}", editor.text());
    let started = editor.updates("tool_call");
    let [call] = &started[..] else { panic!("{started:#?}") };
    assert_eq!((&call["kind"], &call["status"]), (&json!("execute"), &json!("in_progress")), "{call}");
    assert!(call["title"].as_str().unwrap().starts_with("Bash: touch"), "{call}");
    assert!(call["rawInput"]["command"].as_str().unwrap().contains("touch"), "{call}");
    let ended = editor.updates("tool_call_update");
    assert_eq!(ended.last().unwrap()["toolCallId"], call["toolCallId"]);
    assert_eq!(ended.last().unwrap()["status"], "completed");
    // The text before the tool call is an answer, not a thought as well.
    assert_eq!(editor.updates("agent_thought_chunk"), [] as [Value; 0]);

    let open = json!({ "sessionId": session, "cwd": work, "mcpServers": [] });
    editor.request("session/close", json!({ "sessionId": session })).await;
    editor.log.clear();
    editor.request("session/load", open.clone()).await;
    assert_eq!(editor.updates("user_message_chunk")[0]["content"]["text"], "TOUCHTOOL please");
    assert_eq!(editor.updates("tool_call")[0]["status"], "completed");
    let forked = editor.request("session/fork", open).await;
    let prompt = editor.prompt(forked["sessionId"].as_str().unwrap(), "hello fork").await;
    assert_eq!(editor.result(prompt).await["stopReason"], "end_turn");
    assert!(editor.text().contains("You said: hello fork"), "{}", editor.text());
    stop(&agent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_starts_the_mcp_server_of_the_editor_with_its_secret() {
    if find_agent("claude").is_none() {
        let _ = RealAgent::claude("real_agent_acp", Renderer::Classic, Script::default()).await;
        return;
    }
    // The program is named `claude`, as in the settings of an editor.
    let configure = |home: &Hermetic, url: &str| -> std::io::Result<AgentRecipe> {
        let mut recipe = home.claude(&home.work(), url, Renderer::Classic)?;
        let link = home.work().join("claude");
        std::os::unix::fs::symlink(&recipe.argv[0], &link)?;
        recipe.argv[0] = link.display().to_string();
        Ok(recipe)
    };
    let agent = RealAgent::new("real_agent_acp", "claude", Script::default(), configure).await.unwrap();
    let work = agent.home.work();
    let mut editor = Editor::start(&agent);
    editor.request("initialize", json!({ "protocolVersion": 1 })).await;
    let script = "printf %s \"$TOKEN\" > started-by-claude; exec cat";
    let server = json!({
        "name": "secret", "command": "/bin/sh", "args": ["-c", script], "env": [{ "name": "TOKEN", "value": "s3cret" }],
    });
    let made = editor.request("session/new", json!({ "cwd": work, "mcpServers": [server] })).await;
    let prompt = editor.prompt(made["sessionId"].as_str().unwrap(), "hello").await;
    assert_eq!(editor.result(prompt).await["stopReason"], "end_turn");
    let started = work.join("started-by-claude");
    nerve_testkit::eventually("the server is started", async || {
        std::fs::read_to_string(&started).is_ok_and(|token| token == "s3cret")
    })
    .await;
    stop(&agent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_is_a_node_without_a_terminal() {
    let prepared = RealAgent::new("real_agent_acp", "opencode", Script::default(), Hermetic::opencode).await;
    let Some(agent) = prepared else { return };
    run_as_node(&agent, "acp").await;
    resume(&agent).await;
    fork(&agent).await;
    stop(&agent);
}

/// Without a resumed conversation: Gemini CLI 0.61 names the file of a session by the minute and the id, and overwrites it if it opens the
/// session in the minute of its creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_is_a_node_without_a_terminal() {
    let prepared = RealAgent::new("real_agent_acp", "gemini", Script::default(), Hermetic::gemini).await;
    let Some(agent) = prepared else { return };
    run_as_node(&agent, "--acp").await;
    stop(&agent);
}

/// Runs an agent that speaks the protocol as node `a`: an answer, a permission and an interrupt. `option`: the argument that selects
/// the protocol.
async fn run_as_node(agent: &RealAgent, option: &str) {
    let nerve = async |arguments: &[&str]| RealAgent::run(agent.command(NERVE, arguments)).await;
    let command = format!("{} {option}", agent.command_line());
    nerve(&["server", "start"]).await.success();
    nerve(&["new", "a", "-b", "acp", "-c", &command]).await.success();
    assert_eq!(nerve(&["send", "a", "hello there"]).await.success().trim_end(), "You said: hello there");

    let blocked = nerve(&["send", "a", "TOUCHTOOL please"]).await;
    assert_eq!(blocked.code, 5, "{blocked:?}");
    let why: Value = serde_json::from_str(&nerve(&["node", "why", "a", "--json"]).await.success()).unwrap();
    assert_eq!((&why["state"], &why["source"]), (&json!("blocked"), &json!("acp")), "{why}");
    assert!(why["screen"].as_str().unwrap().contains("touch made-by-tool.txt"), "{why}");
    let allows = |choice: &Value| choice.as_str().unwrap().to_lowercase().contains("allow");
    let allow = why["choices"].as_array().unwrap().iter().position(allows).unwrap() + 1;
    let answered = nerve(&["answer", "a", &allow.to_string(), "--wait"]).await.success();
    assert!(answered.contains("END-OF-TOOL"), "{answered}");
    assert!(agent.home.work().join("made-by-tool.txt").exists());

    let result = nerve(&["send", "a", "STALL 600", "--no-wait"]).await.success();
    let has_prompt =
        async || agent.model.requests().iter().any(|request| request.body.to_string().contains("STALL"));
    nerve_testkit::eventually("the model has the prompt", has_prompt).await;
    nerve(&["node", "interrupt", "a"]).await.success();
    let ended = nerve(&["result", result.trim(), "--wait"]).await;
    assert_ne!(ended.code, 0, "{ended:?}");
}

/// Stops node `a` and continues its conversation.
async fn resume(agent: &RealAgent) {
    let nerve = async |arguments: &[&str]| RealAgent::run(agent.command(NERVE, arguments)).await;
    nerve(&["stop", "a"]).await.success();
    nerve(&["start", "a"]).await.success();
    assert_eq!(nerve(&["send", "a", "and now"]).await.success().trim_end(), "You said: and now");
    let resumed = agent.model.requests().iter().any(|request| {
        let body = request.body.to_string();
        body.contains("and now") && body.contains("hello there")
    });
    assert!(resumed, "the resumed conversation has its first prompt");
    let transcript = nerve(&["transcript", "a"]).await.success();
    assert!(transcript.contains("hello there") && transcript.contains("and now"), "{transcript}");
}

/// Forks node `a` and continues in the copy.
async fn fork(agent: &RealAgent) {
    let nerve = async |arguments: &[&str]| RealAgent::run(agent.command(NERVE, arguments)).await;
    nerve(&["node", "fork", "a", "copy"]).await.success();
    let answer = nerve(&["send", "copy", "in the copy"]).await.success();
    assert_eq!(answer.trim_end(), "You said: in the copy");
    let continued = agent.model.requests().iter().any(|request| {
        let body = request.body.to_string();
        body.contains("in the copy") && body.contains("hello there")
    });
    assert!(continued, "the copy has the first prompt");
    assert_eq!(nerve(&["send", "a", "not there"]).await.success().trim_end(), "You said: not there");
}

fn stop(agent: &RealAgent) {
    for arguments in [&["server", "stop", "--force", "--timeout", "5"][..], &["host", "stop", "--all"][..]] {
        let _ = agent.command(NERVE, arguments).output();
    }
}
