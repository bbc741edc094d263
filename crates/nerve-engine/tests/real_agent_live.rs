//! The session files of the real Codex, Gemini CLI, opencode and Kilo against the scripted model: activities are reported while
//! a turn runs, and agents in one folder do not read each other's answers.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nerve_api::event::EventKind;
use nerve_api::value::ResponseSource;
use nerve_record::activity::Activity;
use nerve_testkit::harness::{EngineHarness, RealAgent};
use nerve_testkit::mock_model::Script;
use nerve_testkit::{Hermetic, Renderer, wait_until_async};

/// Timeout of one turn. A loaded machine makes agents ten times slower.
const TURN: Duration = Duration::from_secs(90);
/// Time between the end of a tool and the end of its turn.
const AFTER_TOOL: Duration = Duration::from_secs(5);

struct Harness {
    nodes: EngineHarness,
    agent: RealAgent,
}

impl Harness {
    /// Prepares nodes of an agent in one folder; `None` if the agent is not installed.
    async fn start(agent: &str, nodes: &[&str], script: Script) -> Option<Harness> {
        let configure = |home: &Hermetic, url: &str| match agent {
            "codex" => home.codex(url, Renderer::FullScreen),
            "gemini" => home.gemini(url),
            "kilo" => home.kilo(url),
            _ => home.opencode(url),
        };
        let agent = RealAgent::new(&format!("live {agent}"), agent, script, configure).await?;
        for name in ["alpha", "beta"] {
            std::fs::write(agent.home.work().join(format!("{name}.txt")), format!("{name} note\n")).unwrap();
        }
        let harness =
            Harness { nodes: EngineHarness::new(EngineHarness::config(agent.home.root()), TURN), agent };
        for node in nodes {
            harness
                .nodes
                .create(harness.nodes.agent_spec(node, &harness.agent.home, &harness.agent.recipe))
                .await;
        }
        for node in nodes {
            harness.nodes.wait_ready(node).await;
        }
        Some(harness)
    }

    /// Adds the activities published since the last call to those of their nodes.
    fn collect(&mut self, activities: &mut BTreeMap<String, Vec<Activity>>) {
        while let Ok(event) = self.nodes.events.try_recv() {
            if let (Some(node), EventKind::NodeActivity(activity)) = (event.node_id, event.kind) {
                activities.entry(node).or_default().push(*activity);
            }
        }
    }

    /// Returns a prompt that reads a file without permission.
    fn reads(&self, name: &str) -> String {
        format!("READTOOL FILE={}", self.agent.home.work().join(format!("{name}.txt")).display())
    }
}

fn tool_output(activities: &[Activity]) -> Option<&str> {
    activities.iter().find_map(|activity| match activity {
        Activity::ToolOutput { output, .. } => Some(output.as_str()),
        _ => None,
    })
}

async fn reports_tool_during_turn(agent: &str, prompt: impl Fn(&Harness) -> String, output: &str) {
    let script = Script { after_tool: AFTER_TOOL, ..Script::default() };
    let Some(mut harness) = Harness::start(agent, &["a"], script).await else { return };
    let prompt = prompt(&harness);
    let (engine, request) = (harness.nodes.engine.clone(), harness.nodes.execute("a", &prompt));
    let turn = tokio::spawn(async move { engine.run_turn(request, Default::default()).await });
    let mut activities = BTreeMap::new();
    let reported = async || {
        harness.collect(&mut activities);
        activities.get("a").is_some_and(|activities| tool_output(activities).is_some())
    };
    assert!(wait_until_async(TURN, reported).await, "{activities:?}\n{}", harness.nodes.screen("a").await);
    let reported = Instant::now();
    let response = turn.await.unwrap().unwrap();
    assert!(reported.elapsed() > AFTER_TOOL / 5, "reported at the end of the turn");
    assert!(response.text.contains("END-OF-TOOL"), "{response:?}");
    assert_eq!(response.source, ResponseSource::Transcript);
    harness.collect(&mut activities);
    let activities = &activities["a"];
    assert!(tool_output(activities).is_some_and(|text| text.contains(output)), "{activities:?}");
    let starts = activities.iter().filter(|one| matches!(one, Activity::ToolStart { .. })).count();
    assert_eq!(starts, 1, "{activities:?}");
    assert!(activities.iter().any(|one| matches!(one, Activity::Thought { .. })), "{activities:?}");
    // One response calls the tool, the other one answers.
    let models = activities.iter().filter_map(|one| match one {
        Activity::Usage { model, input: 1.., output: 1.., .. } => Some(model.is_some()),
        _ => None,
    });
    assert_eq!(models.collect::<Vec<_>>(), [true, true], "{activities:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_reports_tools_while_the_turn_runs() {
    reports_tool_during_turn("codex", |_| "SLOWTOOL 0 please".to_string(), "slept").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_reports_tools_while_the_turn_runs() {
    reports_tool_during_turn("gemini", |harness| harness.reads("alpha"), "alpha note").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_reports_tools_while_the_turn_runs() {
    reports_tool_during_turn("opencode", |harness| harness.reads("alpha"), "alpha note").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo_reports_tools_while_the_turn_runs() {
    reports_tool_during_turn("kilo", |harness| harness.reads("alpha"), "alpha note").await;
}

/// Runs two nodes in one folder at once, first with different prompts and then with the same.
async fn keeps_answers_apart(agent: &str) {
    let Some(mut harness) = Harness::start(agent, &["a", "b"], Script::default()).await else { return };
    let prompts = match agent {
        "codex" => ["SLOWTOOL 0 and alpha".to_string(), "SLOWTOOL 1 and beta".to_string()],
        _ => [harness.reads("alpha"), harness.reads("beta")],
    };
    let (first, second) =
        tokio::join!(harness.nodes.ask("a", &prompts[0]), harness.nodes.ask("b", &prompts[1]),);
    assert_eq!((first.source, second.source), (ResponseSource::Transcript, ResponseSource::Transcript));
    let mut activities = BTreeMap::new();
    harness.collect(&mut activities);
    for (node, own, other) in [("a", "alpha", "beta"), ("b", "beta", "alpha")] {
        let text = format!("{:?}", activities[node]);
        let starts = activities[node].iter().filter(|one| matches!(one, Activity::ToolStart { .. })).count();
        assert_eq!(starts, 1, "{node}: {text}");
        if agent != "codex" {
            assert!(text.contains(own) && !text.contains(other), "{node}: {text}");
        }
    }
    let (first, second) =
        tokio::join!(harness.nodes.ask("a", "same words"), harness.nodes.ask("b", "same words"));
    assert_eq!((first.text.as_str(), second.text.as_str()), ("You said: same words", "You said: same words"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_nodes_in_one_folder_keep_their_answers_apart() {
    keeps_answers_apart("codex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_that_waits_for_another_codex_is_starting() {
    let Some(harness) = Harness::start("codex", &["a"], Script::default()).await else { return };
    // The first one has created its database then.
    harness.nodes.ask("a", "hello").await;
    let path = harness.agent.home.root().join("home/.codex/state_5.sqlite");
    let database = rusqlite::Connection::open(path).unwrap();
    let set_status = |status| database.execute("UPDATE backfill_state SET status = ?1", [status]).unwrap();
    set_status("running");
    harness.nodes.create(harness.nodes.agent_spec("b", &harness.agent.home, &harness.agent.recipe)).await;
    harness.nodes.wait_for_output("b", "state db backfill is running").await;
    assert!(harness.nodes.screen("b").await.starts_with("starting"), "{}", harness.nodes.screen("b").await);
    set_status("complete");
    harness.nodes.wait_ready("b").await;
    assert_eq!(harness.nodes.ask("b", "hello").await.text, "You said: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_nodes_in_one_folder_keep_their_answers_apart() {
    keeps_answers_apart("gemini").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_nodes_in_one_folder_keep_their_answers_apart() {
    keeps_answers_apart("opencode").await;
}
