//! The real Claude Code (pinned by xtask) as a client of `nerve mcp` over `--mcp-config`, with the scripted model API
//! on loopback. Checks the tool calls of the model and the results it receives.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use nerve_testkit::harness::RealAgent;
use nerve_testkit::mock_model::{Answer, Script, ToolCall};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer};
use serde_json::{Value, json};

const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

struct Fixture {
    agent: RealAgent,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for arguments in
            [&["server", "stop", "--force", "--timeout", "5"][..], &["host", "stop", "--all"][..]]
        {
            let _ = self.agent.command(NERVE, arguments).output();
        }
    }
}

/// Scripts the model to use a nerve tool when a prompt has the word.
fn script_tool(script: Script, word: &str, tool: &str, input: Value) -> Script {
    let call = ToolCall::Own { name: format!("mcp__nerve__{tool}"), input };
    script.rule(word, Answer::tool("I will ask nerve.", call))
}

impl Fixture {
    /// Returns `None` without Claude Code. `mcp_args`: arguments of `nerve mcp`.
    async fn new(script: Script, mcp_args: &[&str]) -> Option<Fixture> {
        let arguments: Vec<&str> = std::iter::once("mcp").chain(mcp_args.iter().copied()).collect();
        Fixture::with(script, |_, _| json!({ "command": NERVE, "args": arguments })).await
    }

    /// Like [`Fixture::new`], with the configuration of the MCP server that `server` returns and may start.
    async fn with(script: Script, server: impl FnOnce(&Hermetic, &AgentRecipe) -> Value) -> Option<Fixture> {
        let configure = |home: &Hermetic, url: &str| {
            let mut recipe = home.claude(&home.work(), url, Renderer::Classic)?;
            let config = json!({ "mcpServers": { "nerve": server(home, &recipe) } });
            let file = home.work().join("mcp.json");
            std::fs::write(&file, config.to_string())?;
            let more = [
                "--mcp-config",
                file.to_str().unwrap(),
                "--strict-mcp-config",
                "--allowedTools",
                "mcp__nerve",
            ];
            recipe.argv.extend(more.map(str::to_string));
            Ok(recipe)
        };
        let agent = RealAgent::new("real_agent_mcp", "claude", script, configure).await?;
        Some(Fixture { agent })
    }

    async fn nerve(&self, arguments: &[&str]) -> String {
        RealAgent::run(self.agent.command(NERVE, arguments)).await.success()
    }

    /// Returns the tool results the model received, in order.
    fn tool_results(&self) -> Vec<Value> {
        let requests = self.agent.model.requests();
        let Some(last) = requests
            .iter()
            .rev()
            .find(|request| request.body["messages"].to_string().contains("tool_result"))
        else {
            return Vec::new();
        };
        let messages = last.body["messages"].as_array().unwrap().clone();
        let parts = messages
            .into_iter()
            .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default());
        parts.filter(|part| part["type"] == "tool_result").collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_lists_creates_uses_and_stops_a_node() {
    let shell = json!({"node_id": "worker", "command": "bash --norc", "env": {"PS1": "$ "}});
    let script = script_tool(Script::default(), "MAKE", "nerve_create_node", shell);
    let script =
        script_tool(script, "USE", "nerve_execute", json!({"node_id": "worker", "text": "echo $((6 * 7))"}));
    let script = script_tool(script, "SHOW", "nerve_list_nodes", json!({}));
    let script = script_tool(script, "MISTAKE", "nerve_execute", json!({"node_id": "absent", "text": "hi"}));
    let script = script_tool(script, "END", "nerve_stop_node", json!({"node_id": "worker"}));
    let Some(fixture) = Fixture::new(script, &[]).await else { return };
    fixture.nerve(&["server", "start"]).await;
    // Claude Code is a node of the server that it drives.
    let command = shell_words::join(&fixture.agent.recipe.argv);
    fixture.nerve(&["server", "node", "create", "boss", "--command", &command]).await;
    // The model receives the object of a success, and the text of a failure.
    for (prompt, expected) in [
        ("MAKE one", r#"{"node_id":"worker","state":"ready"}"#),
        ("USE it", "42"),
        ("SHOW them", "worker"),
        ("make a MISTAKE", "no node 'absent'"),
        ("END it", r#""stopped":true"#),
    ] {
        let answer = fixture.nerve(&["server", "node", "execute", "boss", prompt]).await;
        assert!(answer.contains(expected) && answer.contains("END-OF-TOOL"), "{prompt}: {answer}");
    }
    let results = fixture.tool_results();
    assert_eq!(results.len(), 5, "{results:?}");
    assert_eq!(results[3]["is_error"], true, "{:?}", results[3]);
    assert!(
        results.iter().enumerate().all(|(at, result)| at == 3 || result["is_error"] != true),
        "{results:?}"
    );
    let nodes = fixture.nerve(&["server", "node", "list", "--json"]).await;
    let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
    assert_eq!(nodes["nodes"], serde_json::json!(["boss"]), "{nodes:#}");
    assert_eq!(nodes["stopped"][0]["node_id"], "worker", "{nodes:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_without_server_gets_hint_or_own_nodes() {
    let script = script_tool(Script::default(), "SHOW", "nerve_list_nodes", json!({}));
    for (mcp_args, expected) in [(&[][..], "nerve server start"), (&["--in-process"][..], r#"{"nodes":[]}"#)]
    {
        let Some(fixture) = Fixture::new(script.clone(), mcp_args).await else { return };
        let mut recipe = fixture.agent.recipe.clone();
        recipe.argv.extend(["-p", "SHOW them"].map(str::to_string));
        let home = &fixture.agent.home;
        let answer = RealAgent::run(home.recipe_command(&recipe, &home.work())).await.success();
        assert!(answer.contains(expected), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_claude_withdraws_its_prompt() {
    let shell = json!({"node_id": "worker", "command": "bash --norc", "env": {"PS1": "$ "}});
    let long = json!({"node_id": "worker", "text": "sleep 3000", "interrupt_on_cancel": true});
    let script = script_tool(Script::default(), "MAKE", "nerve_create_node", shell);
    let script = script_tool(script, "WAIT", "nerve_execute", long);
    let Some(fixture) = Fixture::new(script, &[]).await else { return };
    fixture.nerve(&["server", "start"]).await;
    let command = shell_words::join(&fixture.agent.recipe.argv);
    fixture.nerve(&["server", "node", "create", "boss", "--command", &command]).await;
    fixture.nerve(&["server", "node", "execute", "boss", "MAKE one"]).await;
    fixture.nerve(&["server", "node", "execute", "boss", "WAIT for it", "--async"]).await;
    fixture.nerve(&["server", "node", "wait", "worker", "--until", "busy", "--timeout", "60"]).await;
    fixture.nerve(&["server", "node", "interrupt", "boss"]).await;
    // Its client has cancelled the call.
    fixture.nerve(&["server", "node", "wait", "worker", "--until", "ready", "--timeout", "60"]).await;
    fixture.nerve(&["server", "node", "wait", "boss", "--until", "ready", "--timeout", "60"]).await;
}

/// Starts a server with HTTP and returns Claude Code's configuration for it.
fn over_http(home: &Hermetic, recipe: &AgentRecipe) -> Value {
    let run_nerve = |arguments: &[&str]| {
        let mut command = home.command(NERVE);
        let output = command.args(arguments).envs(recipe.env.iter().cloned()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run_nerve(&["server", "start", "--http", "127.0.0.1:0"]);
    let status: Value = serde_json::from_str(&run_nerve(&["server", "status", "--json"])).unwrap();
    let bearer = format!("Bearer {}", run_nerve(&["token", "show"]).trim());
    let url = format!("http://{}/mcp", status["http"].as_str().unwrap());
    json!({ "type": "http", "url": url, "headers": { "Authorization": bearer } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_creates_uses_and_stops_a_node_over_http() {
    let shell = json!({"node_id": "worker", "command": "bash --norc", "env": {"PS1": "$ "}});
    let long = json!({"node_id": "worker", "text": "sleep 3000", "interrupt_on_cancel": true});
    let script = script_tool(Script::default(), "MAKE", "nerve_create_node", shell);
    let script =
        script_tool(script, "USE", "nerve_execute", json!({"node_id": "worker", "text": "echo $((6 * 7))"}));
    let script = script_tool(script, "MISTAKE", "nerve_execute", json!({"node_id": "absent", "text": "hi"}));
    let script = script_tool(script, "WAIT", "nerve_execute", long);
    let script = script_tool(script, "END", "nerve_stop_node", json!({"node_id": "worker"}));
    let Some(fixture) = Fixture::with(script, over_http).await else { return };
    let command = shell_words::join(&fixture.agent.recipe.argv);
    fixture.nerve(&["server", "node", "create", "boss", "--command", &command]).await;
    let check_turn = async |prompt: &str, expected: &str| {
        let answer = fixture.nerve(&["server", "node", "execute", "boss", prompt]).await;
        let screen = fixture.nerve(&["server", "node", "read", "boss"]).await;
        assert!(answer.contains(expected) && answer.contains("END-OF-TOOL"), "{prompt}: {answer}\n{screen}");
    };
    check_turn("MAKE one", r#"{"node_id":"worker","state":"ready"}"#).await;
    check_turn("USE it", "42").await;
    check_turn("make a MISTAKE", "no node 'absent'").await;
    fixture.nerve(&["server", "node", "execute", "boss", "WAIT for it", "--async"]).await;
    fixture.nerve(&["server", "node", "wait", "worker", "--until", "busy", "--timeout", "60"]).await;
    fixture.nerve(&["server", "node", "interrupt", "boss"]).await;
    // Its client has cancelled the call.
    fixture.nerve(&["server", "node", "wait", "worker", "--until", "ready", "--timeout", "60"]).await;
    fixture.nerve(&["server", "node", "wait", "boss", "--until", "ready", "--timeout", "60"]).await;
    check_turn("END it", r#""stopped":true"#).await;
    let nodes = fixture.nerve(&["server", "node", "list", "--json"]).await;
    let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
    assert_eq!(nodes["nodes"], serde_json::json!(["boss"]), "{nodes:#}");
    assert_eq!(nodes["stopped"][0]["node_id"], "worker", "{nodes:#}");
}
