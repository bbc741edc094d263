//! The real Claude Code (pinned by xtask) in both renderers, against the scripted model API on loopback: start, prompts,
//! permissions, interrupt, trust dialog and exit.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod forks;
mod talks;

use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::TurnResponse;
use nerve_api::request::{ExecuteGraph, NodeSpec, SetBudget, UsageLimits};
use nerve_api::value::{BackendKind, Delivery, NodeState};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_record::activity::{Activity, Status};
use nerve_testkit::harness::{EngineHarness, RealAgent, TmuxServer, assert_error, node_ref};
use nerve_testkit::mock_model::{MockModel, Script};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, wait_until_async};
use serde_json::json;

const TURN: Duration = Duration::from_secs(60);
/// The agent's node.
const NODE: &str = "claude";

/// A real agent in its own engine.
struct Harness {
    nodes: EngineHarness,
    model: MockModel,
    home: Hermetic,
}

impl Harness {
    async fn start(renderer: Renderer, prepare: impl FnOnce(&Hermetic, &mut AgentRecipe)) -> Option<Harness> {
        let agent = RealAgent::claude("real_agent_claude", renderer, Script::default()).await?;
        let RealAgent { home, mut recipe, model } = agent;
        prepare(&home, &mut recipe);
        let nodes = EngineHarness::new(EngineHarness::config(home.root()), TURN);
        nodes.create(nodes.agent_spec(NODE, &home, &recipe)).await;
        Some(Harness { nodes, model, home })
    }

    async fn wait(&self, state: NodeState) {
        let reached = self.nodes.wait(NODE, state).await;
        assert!(reached.is_ok(), "{reached:?}\n{}", self.screen().await);
    }

    async fn screen(&self) -> String {
        self.nodes.screen(NODE).await
    }

    async fn send(&self, text: &str) -> Result<Response, EngineError> {
        self.nodes.send(NODE, text).await
    }

    async fn ask(&self, text: &str) -> Response {
        self.nodes.ask(NODE, text).await
    }

    async fn answer(&self, choice: Choice) -> Result<Option<TurnResponse>, EngineError> {
        self.nodes.answer(NODE, choice).await
    }

    /// Returns the states published since the last call.
    fn states(&mut self) -> Vec<&'static str> {
        let state = |event| match event {
            EventKind::NodeReady { .. } => Some("ready"),
            EventKind::NodeBusy { .. } => Some("busy"),
            EventKind::NodeBlocked { kind, .. } => Some(kind.as_str()),
            EventKind::NodeStopped { .. } => Some("stopped"),
            _ => None,
        };
        self.nodes.take_events().into_iter().filter_map(state).collect()
    }

    /// Returns the activities published since the last call.
    fn activities(&mut self) -> Vec<Activity> {
        let mut activities = Vec::new();
        for event in self.nodes.take_events() {
            match event {
                EventKind::NodeActivity(activity) => activities.push(*activity),
                EventKind::NodeStopped { .. } => break,
                _ => {}
            }
        }
        activities
    }

    /// Returns the activities published since the last call once one of this kind is among them: the agent's transcript may be
    /// read after the turn has ended.
    async fn activities_with(&mut self, kind: &str) -> Vec<Activity> {
        let mut activities = Vec::new();
        let has_kind = async || {
            activities.extend(self.activities());
            activities.iter().any(|activity: &Activity| activity.kind() == kind)
        };
        assert!(wait_until_async(TURN, has_kind).await, "no {kind}: {activities:?}");
        activities
    }

    /// Returns the bodies of all requests at the model.
    fn request_texts(&self) -> String {
        self.model.requests().iter().map(|request| request.body.to_string()).collect()
    }
}

/// A draft that stands in the composer when the node is attached is a person's. In a pane of a real tmux.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_in_tmux_pane_before_attaching_is_kept() {
    let name = "draft_in_tmux_pane_before_attaching_is_kept";
    let Some(agent) = RealAgent::claude(name, Renderer::Classic, Script::default()).await else { return };
    let RealAgent { home, recipe, model: _model } = agent;
    let Some(tmux) = TmuxServer::new(name, &home, "tmux.sock") else { return };
    let variables = recipe.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words = ["env".to_string()].into_iter().chain(variables).chain(recipe.argv.clone());
    let command = shell_words::join(words);
    let pane = tmux.ok(&["new-session", "-d", "-P", "-F", "#{pane_id}", "-x", "120", "-y", "40", &command]);
    tmux.expect("? for shortcuts");
    tmux.type_text("words of a person");
    tmux.expect("words of a person");

    let mut config = EngineHarness::config(home.root());
    config.nodes.panes.claims = home.root().join("claims");
    let nodes = EngineHarness::new(config, TURN);
    nodes
        .create(NodeSpec {
            backend: BackendKind::Tmux,
            socket: Some(tmux.socket().display().to_string()),
            pane_id: Some(pane),
            profile: Some("claude".into()),
            record: false,
            ready_timeout: TURN.into(),
            response_timeout: TURN.into(),
            ..NodeSpec::at(node_ref(NODE))
        })
        .await;
    let error = nodes.send(NODE, "hello there").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["words of a person"]);
    tmux.expect("words of a person");
    tmux.press(&["C-u"]);
    let is_gone = async || !tmux.screen().contains("words of a person");
    assert!(wait_until_async(TURN, is_gone).await, "{}", tmux.screen());
    assert_eq!(nodes.ask(NODE, "hello there").await.text, "You said: hello there");
    nodes.stop(NODE).await;
}

async fn ten_turns(renderer: Renderer) {
    let Some(mut harness) = Harness::start(renderer, |_, _| ()).await else { return };
    harness.wait(NodeState::Ready).await;

    let hello = harness.ask("hello there").await;
    assert_eq!(hello.text, "You said: hello there");
    assert_eq!(hello.delivery, Delivery::Started);
    assert!(hello.is_complete && hello.is_ready, "{hello:?}");
    assert_eq!(hello.source.as_str(), "transcript");
    assert!(harness.request_texts().contains("hello there"));
    let states = harness.states();
    assert!(states.contains(&"busy") && states.last() == Some(&"ready"), "{states:?}");

    let long = harness.ask("LONG answer please").await;
    assert!(long.text.contains("def fib") && long.text.trim_end().ends_with("END-OF-LONG"), "{}", long.text);

    let slow = harness.ask("Please answer SLOW number one").await;
    assert!(slow.text.contains("END-OF-SLOW"), "ended early: {}", slow.text);

    let quote = harness.ask("QUOTE the markers").await;
    assert!(quote.is_complete, "{quote:?}");

    let wide = harness.ask("WIDE answer please").await;
    assert!(wide.text.contains("日本語"), "{}", wide.text);

    let paste: String = (1..=30).map(|row| format!("paste row {row}\n")).collect();
    let pasted = harness.ask(&paste).await;
    assert!(pasted.text.contains("paste row 30"), "{}", pasted.text);

    let hostile = harness.ask("escape \x1b[201~\r and \x03 inside").await;
    assert!(hostile.text.contains("inside"), "{}", hostile.text);
    harness.states();

    let blocked = harness.send("TOUCHTOOL please").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked, "{blocked:?}");
    assert!(blocked.screen.unwrap().contains("Do you want to proceed?"));
    assert_eq!(blocked.choices.first().map(String::as_str), Some("Yes"));
    let refused = harness.send("typed into a dialog?").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Blocked);
    let tool = harness.answer(Choice::Number(1)).await.unwrap().unwrap();
    assert!(tool.text.contains("END-OF-TOOL"), "{tool:?}");
    assert!(
        tool.sections.iter().any(|section| section.metadata.get("tool").is_some_and(|tool| tool == "Bash")),
        "{tool:?}"
    );
    assert!(harness.home.work().join("made-by-tool.txt").exists());
    let states = harness.states();
    assert!(states.contains(&"permission"), "{states:?}");

    let denied = harness.send("TOUCHTOOL again").await.unwrap_err();
    assert_eq!(denied.kind, ErrorKind::Blocked);
    let denied = harness.answer(Choice::Cancel).await.unwrap().unwrap();
    assert!(denied.is_ready, "{denied:?}");

    let slow = harness.nodes.execute(NODE, "SLOW to be interrupted");
    let engine = harness.nodes.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(slow, Default::default()).await });
    harness.wait(NodeState::Busy).await;
    // Escape before the first words would only withdraw the prompt.
    let answers = async || harness.screen().await.contains("Slow words");
    assert!(wait_until_async(TURN, answers).await, "{}", harness.screen().await);
    harness.nodes.interrupt(NODE).await.unwrap();
    let interrupted = turn.await.unwrap().unwrap();
    assert_eq!(interrupted.attributes["interrupted"], true);
    assert!(!interrupted.text.contains("END-OF-SLOW"));

    let error = harness.ask("ERR 400 now").await;
    assert!(error.is_ready, "{error:?}");

    let last = harness.ask("one more after all that").await;
    assert!(last.text.contains("one more after all that"), "{}", last.text);
    // The screens and all lines of the transcript are known.
    assert_eq!(harness.nodes.info(NODE).metadata.get("profile_mismatch"), None);

    harness.nodes.stop(NODE).await;
    assert_eq!(harness.states().last(), Some(&"stopped"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_classic_ten_turns() {
    ten_turns(Renderer::Classic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_full_screen_ten_turns() {
    ten_turns(Renderer::FullScreen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_trust_dialog_is_answered() {
    let untrust = |home: &Hermetic, _: &mut AgentRecipe| {
        std::fs::write(home.home().join(".claude.json"), r#"{"hasCompletedOnboarding":true}"#).unwrap();
    };
    let Some(harness) = Harness::start(Renderer::Classic, untrust).await else { return };
    harness.wait(NodeState::Blocked).await;
    let blocked = harness.send("hello").await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked, "{blocked:?}");
    assert!(blocked.message.contains("trust"), "{blocked:?}");
    assert_eq!(harness.answer(Choice::Label("I trust".into())).await.unwrap().map(|r| r.text), None);
    harness.wait(NodeState::Ready).await;
    assert_eq!(harness.ask("hello there").await.text, "You said: hello there");
    harness.nodes.stop(NODE).await;
}

fn statuses(activities: &[Activity]) -> Vec<Status> {
    let status = |activity: &Activity| match activity {
        Activity::Status { status, .. } => Some(*status),
        _ => None,
    };
    activities.iter().filter_map(status).collect()
}

/// Returns the only activity of this kind, as JSON.
fn only_activity(activities: &[Activity], kind: &str) -> serde_json::Value {
    let found: Vec<&Activity> = activities.iter().filter(|activity| activity.kind() == kind).collect();
    assert_eq!(found.len(), 1, "{kind}: {activities:?}");
    serde_json::to_value(found[0]).unwrap()
}

/// The response that calls the tool reaches the limit while the agent waits for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_is_interrupted_at_the_limit_and_continues_when_more_is_granted() {
    let script = Script { after_tool: TURN, ..Script::default() };
    let Some(agent) = RealAgent::claude("claude_budget", Renderer::Classic, script).await else { return };
    let RealAgent { home, recipe, model: _model } = agent;
    let nodes = EngineHarness::new(EngineHarness::config(home.root()), TURN);
    let limits = UsageLimits { max_tokens: Some(1), max_cost_usd: Some(0.000_001), ..UsageLimits::default() };
    nodes.create(NodeSpec { budget: Some(limits), ..nodes.agent_spec(NODE, &home, &recipe) }).await;
    let file = home.work().join("notes.txt");
    std::fs::write(&file, "a note\n").unwrap();
    let error = nodes.send(NODE, &format!("READTOOL FILE={}", file.display())).await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["budget", "token limit reached"]);
    nodes.wait(NODE, NodeState::Blocked).await.unwrap();
    let budget = nodes.info(NODE).progress.budget.unwrap();
    assert!(budget.tokens > 1 && budget.cost_usd > 0.0, "{budget:?}");
    nodes.answer(NODE, Choice::Number(1)).await.unwrap();
    let error = nodes.send(NODE, "hello there").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["budget"]);
    nodes.answer(NODE, Choice::Number(1)).await.unwrap();
    nodes.wait(NODE, NodeState::Ready).await.unwrap();
    let request = SetBudget { node_id: Some(NODE.into()), ..SetBudget::default() };
    nodes.engine.set_budget(request, Default::default()).await.unwrap();
    assert_eq!(nodes.ask(NODE, "hello there").await.text, "You said: hello there");

    // Without a proxy, a graph counts the cost by the session file.
    let steps =
        json!([{ "id": "a", "node": NODE, "input": "one" }, { "id": "b", "node": NODE, "input": "two" }]);
    let run = async |budget, steps| {
        let graph = json!({ "graph": "g", "budget": budget, "steps": steps });
        let definition = graph.as_object().unwrap().clone();
        let request = ExecuteGraph { definition, ..ExecuteGraph::default() };
        nodes.engine.execute_graph(request, Default::default()).await.unwrap_err()
    };
    let error = run(json!({ "max_cost_usd": 1e-9 }), steps).await;
    assert_error(&error, ErrorKind::Budget, &["Cost limit exceeded"]);

    // Tokens count while the turn runs, so that its limit interrupts it.
    let input = format!("READTOOL FILE={}", file.display());
    let error = run(json!({ "max_tokens": 1 }), json!([{ "id": "a", "node": NODE, "input": input }])).await;
    assert_eq!(error.kind, ErrorKind::Budget, "{error:?}");
    let exceeded = error.details.and_then(|details| details.exceeded).expect("the exceeded budget");
    assert!(exceeded.usage.tokens_used() > 1, "{exceeded:?}");
    nodes.stop(NODE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_activities_are_reported_once() {
    let Some(mut harness) = Harness::start(Renderer::Classic, |_, _| ()).await else { return };
    harness.wait(NodeState::Ready).await;
    let first_statuses = statuses(&harness.activities());
    assert_eq!(
        (first_statuses.first(), first_statuses.last()),
        (Some(&Status::Provisioning), Some(&Status::Paused)),
        "{first_statuses:?}"
    );

    harness.ask("THINK about it").await;
    let activities = harness.activities_with("thought").await;
    let [Status::Running, .., Status::Paused] = statuses(&activities)[..] else { panic!("{activities:?}") };
    assert!(
        only_activity(&activities, "thought")["content"]
            .as_str()
            .unwrap()
            .starts_with("The user wants me to think.")
    );

    let usage = only_activity(&activities, "usage");
    // The response's first event says 1 output token.
    assert!(usage["input"].as_u64() > Some(0) && usage["output"].as_u64() > Some(1), "{usage}");
    assert!(usage["model"].as_str().is_some_and(|model| model.starts_with("claude")), "{usage}");

    let file = harness.home.work().join("notes.txt");
    let blocked = harness.send(&format!("WRITETOOL FILE={}", file.display())).await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked, "{blocked:?}");
    let answer = harness.answer(Choice::Number(1)).await.unwrap().unwrap();
    assert!(answer.text.contains("END-OF-TOOL"), "{answer:?}");
    let activities = harness.activities();
    let (start, output) =
        (only_activity(&activities, "tool_start"), only_activity(&activities, "tool_output"));
    assert_eq!((&start["name"], &start["status"]), (&"Write".into(), &"running".into()));
    assert!(start["args"]["content"].as_str().unwrap().contains("line two"), "{start}");
    assert_eq!((&output["name"], &output["status"]), (&"Write".into(), &"completed".into()));
    assert_eq!(start["tool_execution_id"], output["tool_execution_id"]);
    let edit = only_activity(&activities, "file_edit");
    assert_eq!(edit["path"].as_str(), file.to_str());
    assert_eq!((&edit["lines_added"], &edit["lines_removed"]), (&3.into(), &0.into()));
    assert_eq!(only_activity(&activities, "thought")["content"], "I will write the file.");
    let responses = activities.iter().filter(|activity| activity.kind() == "usage").count();
    assert_eq!(responses, 2, "one calls the tool, the other one answers: {activities:?}");
    let log = only_activity(&activities, "log");
    assert_eq!(log["level"], "warn");
    assert!(log["message"].as_str().unwrap().starts_with("the agent asks (permission): 1. Yes"), "{log}");

    harness.nodes.stop(NODE).await;
    let activities = harness.activities();
    assert_eq!(statuses(&activities), [Status::Stopping, Status::Cancelled], "{activities:?}");
}
