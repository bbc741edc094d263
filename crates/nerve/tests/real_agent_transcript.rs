//! `nerve transcript` of the pinned real agents with the scripted model API on loopback: the turns come from the agent's own
//! session file, after the node was stopped.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::io;

use nerve_testkit::harness::RealAgent;
use nerve_testkit::mock_model::Script;
use nerve_testkit::{AgentRecipe, Hermetic, Renderer};
use serde_json::Value;

struct Fixture {
    agent: RealAgent,
}

impl Fixture {
    async fn nerve(&self, arguments: &[&str]) -> String {
        RealAgent::run(self.agent.command(env!("CARGO_BIN_EXE_nerve"), arguments)).await.success()
    }

    /// Asserts that `nerve usage` has the tokens of the transcript.
    async fn assert_usage_agrees(&self, transcript: &Value) {
        let usage: Value = serde_json::from_str(&self.nerve(&["usage", "--json"]).await).unwrap();
        let (row, total) = (&usage["rows"][0], &usage["total"]);
        assert_eq!((&row["node_id"], &row["turns"]), (&"a".into(), &2.into()), "{usage:#}");
        let count = |name: &str| total["tokens"][name].as_u64().unwrap();
        let input = count("input") + count("cache_read") + count("cache_write");
        let expected = (sum(transcript, "input"), sum(transcript, "output"));
        assert_eq!((input, count("output")), expected, "{usage:#} {transcript:#}");
        assert!(input > 0 && usage["problems"] == serde_json::json!([]), "{usage:#}");
    }

    /// Runs two turns with an agent, stops its node and its server, and returns the node's transcript.
    async fn of_two_turns(
        agent: &str,
        configure: impl FnOnce(&Hermetic, &str) -> io::Result<AgentRecipe>,
    ) -> Option<(Fixture, Value)> {
        let test = format!("real_agent_transcript {agent}");
        let agent = RealAgent::new(&test, agent, Script::default(), configure).await?;
        let fixture = Fixture { agent };
        fixture.nerve(&["server", "start"]).await;
        fixture.nerve(&["new", "a", "--command", &fixture.agent.command_line()]).await;
        fixture.nerve(&["send", "a", "the first wordalpha"]).await;
        fixture.nerve(&["send", "a", "the second wordbeta"]).await;
        fixture.nerve(&["stop", "a"]).await;
        fixture.nerve(&["server", "stop"]).await;
        let transcript = fixture.nerve(&["transcript", "a", "--json"]).await;
        let transcript = serde_json::from_str(&transcript).unwrap();
        fixture.assert_usage_agrees(&transcript).await;
        Some((fixture, transcript))
    }
}

/// Returns the sum of a count over all turns.
fn sum(transcript: &Value, count: &str) -> u64 {
    let turns = transcript["turns"].as_array().unwrap();
    turns.iter().filter_map(|turn| turn["tokens"][count].as_u64()).sum()
}

/// Asserts that both turns with their answers come from the agent's session file, once each.
fn assert_two_turns(transcript: &Value) {
    let turns = transcript["turns"].as_array().unwrap();
    let rows: Vec<[&str; 3]> = turns
        .iter()
        .map(|turn| {
            let text = turn["sections"].as_array().unwrap().last().map(|section| &section["content"]);
            [&turn["prompt"], text.unwrap_or(&Value::Null), &turn["source"]]
                .map(|value| value.as_str().unwrap_or("?"))
        })
        .collect();
    let expected = [
        ["the first wordalpha", "You said: the first wordalpha", "agent"],
        ["the second wordbeta", "You said: the second wordbeta", "agent"],
    ];
    assert_eq!(rows, expected, "{transcript:#}");
    assert!(turns.iter().all(|turn| turn["is_complete"] == true), "{transcript:#}");
    assert_eq!(transcript["notes"], serde_json::json!([]), "{transcript:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_full_screen_in_every_format() {
    let configure = |home: &Hermetic, url: &str| home.claude(&home.work(), url, Renderer::FullScreen);
    let Some((fixture, transcript)) = Fixture::of_two_turns("claude", configure).await else { return };
    assert_two_turns(&transcript);
    let markdown = fixture.nerve(&["transcript", "a", "-f", "md", "--turn", "2"]).await;
    assert!(markdown.contains("> the second wordbeta\n\nYou said: the second wordbeta"), "{markdown}");
    assert!(!markdown.contains("wordalpha"), "{markdown}");
    let page = fixture.agent.home.work().join("a.html");
    fixture.nerve(&["transcript", "a", "-f", "html", "-o", page.to_str().unwrap()]).await;
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<pre class=\"prompt\">the first wordalpha</pre>"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_alternate_screen() {
    let configure = |home: &Hermetic, url: &str| home.codex(url, Renderer::FullScreen);
    let Some((_fixture, transcript)) = Fixture::of_two_turns("codex", configure).await else { return };
    assert_two_turns(&transcript);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini() {
    let configure = |home: &Hermetic, url: &str| home.gemini(url);
    let Some((_fixture, transcript)) = Fixture::of_two_turns("gemini", configure).await else { return };
    assert_two_turns(&transcript);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode() {
    let configure = |home: &Hermetic, url: &str| home.opencode(url);
    let Some((_fixture, transcript)) = Fixture::of_two_turns("opencode", configure).await else { return };
    assert_two_turns(&transcript);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo() {
    let configure = |home: &Hermetic, url: &str| home.kilo(url);
    let Some((_fixture, transcript)) = Fixture::of_two_turns("kilo", configure).await else { return };
    assert_two_turns(&transcript);
}
