//! The real Claude Code (pinned by xtask) as the client of both proxies, with the scripted model: a prompt, a tool use,
//! another model, an exhausted budget.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::path::Path;

use nerve_proxy::{
    Budget, LogConfig, Proxy, ProxyConfig, Upstream, create_anthropic_proxy, create_openai_proxy,
};
use nerve_testkit::harness::{CommandOutput, RealAgent};
use nerve_testkit::mock_model::{MockModel, Script};
use nerve_testkit::{Hermetic, Renderer};
use serde_json::Value;

struct Setup {
    home: Hermetic,
    model: MockModel,
    proxy: Proxy,
}

impl Setup {
    async fn start(behind: &str, settings: impl FnOnce(ProxyConfig) -> ProxyConfig) -> Option<Setup> {
        let agent = RealAgent::claude("real_agent_claude", Renderer::Classic, Script::default()).await?;
        let RealAgent { home, model, .. } = agent;
        let log = Some(LogConfig { bodies: true, ..LogConfig::new(home.root().join("log.jsonl")) });
        let config =
            settings(ProxyConfig { log, ..ProxyConfig::new(Upstream::parse(&model.url()).unwrap()) });
        let proxy = match behind {
            "openai" => create_openai_proxy(config).await.unwrap(),
            _ => create_anthropic_proxy(config).await.unwrap(),
        };
        Some(Setup { home, model, proxy })
    }

    /// Runs one prompt without a terminal.
    async fn run_prompt(&self, prompt: &str) -> CommandOutput {
        let cwd = self.home.work();
        let recipe = self.home.claude(&cwd, &self.proxy.url(), Renderer::Classic).unwrap();
        let mut command = self.home.recipe_command(&recipe, &cwd);
        command.args(["-p", prompt, "--allowedTools", "Bash"]);
        RealAgent::run(command).await
    }

    async fn answer_of(&self, prompt: &str) -> String {
        let output = self.run_prompt(prompt).await;
        assert_eq!(output.code, 0, "{prompt}: {output:?}\n{}", self.log());
        output.stdout
    }

    /// Asserts that the agent gives a short answer, a long one, and one with a tool.
    async fn assert_answers(&self) {
        assert_eq!(self.answer_of("hello there").await.trim(), "You said: hello there");
        let long = self.answer_of("LONG answer please").await;
        assert!(long.contains("def fib") && long.trim_end().ends_with("END-OF-LONG"), "{long}");
        let tool = self.answer_of("TOUCHTOOL please").await;
        assert!(tool.contains("made-by-tool.txt") && tool.contains("END-OF-TOOL"), "{tool}");
        assert!(self.home.work().join("made-by-tool.txt").exists());
    }

    fn log(&self) -> String {
        let path = self.home.root().join("log.jsonl");
        std::fs::read_to_string(Path::new(&path)).unwrap_or_default()
    }

    fn paths(&self) -> Vec<String> {
        let requests = self.model.requests();
        requests.iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_through_the_anthropic_proxy() {
    let other = |config| ProxyConfig { model: Some("another-model".into()), ..config };
    let Some(setup) = Setup::start("anthropic", other).await else { return };
    setup.assert_answers().await;
    let requests = setup.model.requests();
    let messages: Vec<_> =
        requests.iter().filter(|request| request.path == "/v1/messages?beta=true").collect();
    assert!(messages.len() >= 4, "{:?}", setup.paths());
    for request in &messages {
        assert_eq!(request.body["model"], "another-model");
        assert!(request.headers.iter().any(|(name, _)| name == "anthropic-version"), "{:?}", request.headers);
        assert!(request.headers.iter().any(|(name, _)| name == "x-claude-code-session-id"));
    }
    let Setup { home, proxy, .. } = setup;
    let spent = proxy.shutdown().await;
    assert!(spent.requests >= 4 && spent.usage.output > 10, "{spent:?}");
    let log = std::fs::read_to_string(home.root().join("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let replies =
        || lines.iter().filter(|line| line["type"] == "reply" && line["path"] == "/v1/messages?beta=true");
    assert!(replies().all(|line| line["outcome"] == "whole" && line["session_id"].is_string()), "{log}");
    assert_eq!(replies().count(), messages.len());
    assert!(!log.contains("dummy"), "log contains the agent's key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_through_the_openai_proxy() {
    let other = |config| ProxyConfig { model: Some("gpt-x".into()), ..config };
    let Some(setup) = Setup::start("openai", other).await else { return };
    setup.assert_answers().await;
    let requests = setup.model.requests();
    assert!(requests.iter().all(|request| request.path == "/v1/chat/completions"), "{:?}", setup.paths());
    assert!(requests.iter().all(|request| request.body["model"] == "gpt-x"));
    let with_result =
        requests.iter().find(|request| request.body["messages"].to_string().contains("\"role\":\"tool\""));
    let result = with_result.unwrap().body["messages"].as_array().unwrap();
    let call = result.iter().find_map(|message| message["tool_calls"][0]["id"].as_str()).unwrap();
    assert!(call.starts_with("call_mock_"), "{call}");
    assert!(result.iter().any(|message| message["role"] == "tool" && message["tool_call_id"] == call));
    assert!(setup.proxy.spent().usage.input > 1000, "{:?}", setup.proxy.spent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_does_not_retry_an_exhausted_budget() {
    let limited =
        |config| ProxyConfig { budget: Budget { max_requests: Some(0), ..Budget::default() }, ..config };
    let Some(setup) = Setup::start("anthropic", limited).await else { return };
    let output = setup.run_prompt("hello there").await;
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(output.code != 0 && text.contains("budget of the nerve proxy is used up"), "{output:?}");
    assert!(setup.model.requests().iter().all(|request| request.method != "POST"), "{:?}", setup.paths());
    // Each of its requests is refused once.
    let refused = setup.proxy.spent().refused;
    assert!((1..=3).contains(&refused), "{refused}: {}", setup.log());
}
