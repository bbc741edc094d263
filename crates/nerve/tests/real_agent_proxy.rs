//! The real Claude Code (pinned by xtask) as a node with a proxy of its own, the scripted model API behind: turns that are counted, a
//! server that is killed, a fork, a key that the agent never sees.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::path::Path;

use nerve_testkit::harness::{CommandOutput, RealAgent, signal};
use nerve_testkit::mock_model::Script;
use nerve_testkit::{Hermetic, Renderer};
use rustix::process::Signal;
use serde_json::Value;

const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

/// An address on which nothing listens: each answer must come through the proxy.
const NOWHERE: &str = "http://127.0.0.1:9";

struct Fixture {
    agent: RealAgent,
    env: Vec<(String, String)>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.agent.command(NERVE, &["server", "stop", "--force", "--timeout", "5"]).output();
    }
}

impl Fixture {
    async fn new(env: &[(&str, &str)]) -> Option<Fixture> {
        let configure = |home: &Hermetic, _: &str| home.claude(&home.work(), NOWHERE, Renderer::Classic);
        let agent = RealAgent::new("real_agent_proxy", "claude", Script::default(), configure).await?;
        let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let fixture = Fixture { agent, env };
        fixture.ok(&["server", "start"]).await;
        Some(fixture)
    }

    /// Runs nerve while the model answers.
    async fn nerve(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.agent.command(NERVE, arguments);
        command.envs(self.env.iter().cloned());
        RealAgent::run(command).await
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        self.nerve(arguments).await.success()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments).await).unwrap()
    }

    async fn create(&self, node: &str, proxy: &str, more: &[&str]) {
        let (command, url) = (self.agent.command_line(), self.agent.model.url());
        let base = [
            "server",
            "node",
            "create",
            node,
            "--command",
            &command,
            "--proxy",
            proxy,
            "--proxy-base-url",
            &url,
        ];
        self.ok(&[&base, more].concat()).await;
    }

    /// The reply to a prompt, which the model echoes.
    async fn ask(&self, node: &str, prompt: &str) -> Value {
        let reply = self.json(&["server", "node", "execute", node, prompt, "--json"]).await;
        assert_eq!(reply["response"]["text"], format!("You said: {prompt}"), "{reply:#}");
        reply
    }

    async fn proxy_metadata(&self, node: &str) -> Value {
        self.json(&["server", "node", "info", node, "--json"]).await["metadata"].clone()
    }

    async fn kill_server(&self) {
        let status = self.json(&["server", "status", "--json"]).await;
        signal(status["pid"].as_u64().unwrap().try_into().unwrap(), Signal::KILL);
    }
}

/// The replies to requests for an answer, in a node's log.
fn answers(metadata: &Value) -> Vec<Value> {
    let log = std::fs::read_to_string(Path::new(metadata["proxy_log"].as_str().unwrap())).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["type"] == "reply" && line["path"].as_str().unwrap().starts_with("/v1/messages?"))
        .collect()
}

fn count(metadata: &Value, name: &str) -> u64 {
    metadata[name].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_counts_turns_across_server_death_and_fork() {
    let Some(fixture) = Fixture::new(&[]).await else { return };
    fixture.create("c", "anthropic", &["--proxy-price", "3,15"]).await;
    let first = fixture.ask("c", "hello wordalpha").await;
    let usage = &first["response"]["usage"];
    assert!(usage["requests"].as_u64().unwrap() >= 1 && usage["output"].as_u64().unwrap() > 0, "{first:#}");
    assert!(usage["cost_usd"].as_f64().unwrap() > 0.0, "{first:#}");
    let before = fixture.proxy_metadata("c").await;
    assert_eq!((&before["proxy"], &first["turn"]), (&Value::from("anthropic"), &Value::from(1)));
    let logged = answers(&before);
    let of_the_turn = logged.iter().filter(|line| line["turn"] == 1 && line["node"] == "c").count();
    assert_eq!(of_the_turn as u64, usage["requests"].as_u64().unwrap(), "{logged:?}");

    fixture.kill_server().await;
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "wait", "c", "--timeout", "60"]).await;
    let second = fixture.ask("c", "hello again").await;
    assert!(second["response"]["usage"]["requests"].as_u64().unwrap() >= 1, "{second:#}");
    let after = fixture.proxy_metadata("c").await;
    assert_eq!(after["proxy_url"], before["proxy_url"]);
    assert!(count(&after, "proxy_tokens") > count(&before, "proxy_tokens"), "{before} {after}");

    fixture.ok(&["server", "node", "fork", "c"]).await;
    fixture.ask("c-fork", "in the fork").await;
    let fork = fixture.proxy_metadata("c-fork").await;
    assert_eq!(fork["proxy"], "anthropic");
    assert_ne!(fork["proxy_url"], after["proxy_url"], "a proxy of its own");
    assert!(count(&fork, "proxy_tokens") > 0);
    let logged = answers(&fork);
    assert!(!logged.is_empty() && logged.iter().all(|line| line["node"] == "c-fork"), "{logged:?}");
    assert_eq!(fixture.proxy_metadata("c").await["proxy_tokens"], after["proxy_tokens"]);

    // The session file has the same responses, which count once.
    let usage = fixture.json(&["usage", "c", "--json"]).await;
    let tokens: u64 = usage["total"]["tokens"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(
        (tokens, &usage["total"]["turns"]),
        (count(&after, "proxy_tokens"), &Value::from(2)),
        "{usage:#}"
    );
    let node = fixture.json(&["server", "node", "info", "c", "--json"]).await;
    let cost = node["progress"]["cost_usd"].as_f64().unwrap();
    assert!((usage["total"]["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-3, "{node:#} {usage:#}");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_never_sees_its_proxys_key() {
    let env = [("NERVE_TEST_KEY", "sk-hunter2-hunter2"), ("ANTHROPIC_API_KEY", "sk-ant-hunter3-hunter3")];
    let Some(fixture) = Fixture::new(&env).await else { return };
    fixture.create("c", "openai", &["--proxy-key-env", "NERVE_TEST_KEY", "--proxy-model", "gpt-x"]).await;
    let reply = fixture.ask("c", "hello there").await;
    assert!(reply["response"]["usage"]["requests"].as_u64().unwrap() >= 1, "{reply:#}");
    let asked = fixture.agent.model.requests();
    assert!(asked.iter().all(|request| request.path == "/v1/chat/completions"));
    assert!(asked.iter().all(|request| request.body["model"] == "gpt-x"));
    let metadata = fixture.proxy_metadata("c").await;
    let environ = std::fs::read(format!("/proc/{}/environ", metadata["pid"])).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(environ.contains(metadata["proxy_url"].as_str().unwrap()));
    assert!(!environ.contains("hunter"), "neither key is in it");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graph_token_budget_stops_claude_mid_turn() {
    let Some(fixture) = Fixture::new(&[]).await else { return };
    let allowed = ["--allowedTools", "Bash"].map(str::to_string);
    let command: Vec<String> = fixture.agent.recipe.argv.iter().cloned().chain(allowed).collect();
    let graph = serde_json::json!({
        "graph": "g",
        "budget": { "max_tokens": 100 },
        "nodes": { "c": {
            "type": "claude", "command": command,
            "proxy": { "kind": "anthropic", "base_url": fixture.agent.model.url() },
        } },
        "steps": [{ "id": "s", "node": "c", "input": "SLOWTOOL 1000 please" }],
    });
    let file = fixture.agent.home.work().join("graph.json");
    std::fs::write(&file, graph.to_string()).unwrap();
    let output = fixture.nerve(&["server", "graph", "run", file.to_str().unwrap(), "--json"]).await;
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(output.code != 0 && said.contains("Token limit exceeded"), "{output:?}");
    fixture.ok(&["server", "stop"]).await;
}
