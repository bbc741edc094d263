//! Budgets of chat nodes.

use std::time::{Duration, Instant};

use nerve_api::event::EventKind;
use nerve_api::request::{
    AnswerNode, CreateSession, ExecuteInput, ExplainNode, GetSession, NodeChoice, NodeSpec, SetBudget,
    UsageLimits,
};
use nerve_api::value::{LimitAction, NodeState};
use nerve_graph::session::Session;
use nerve_node::budget::RunBudget;
use nerve_node::chat::{ChatSettings, Provider};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use nerve_testkit::mock_model::{Answer, Script};
use nerve_testkit::{wait_until_async, within_deadline};

use super::{ChatHarness, chat, context, spec, standalone_node};

/// A model with a built-in price.
const PRICED_MODEL: &str = "claude-sonnet-4-5";

fn stopping(limits: UsageLimits) -> Option<UsageLimits> {
    Some(UsageLimits { at_limit: LimitAction::Stop, ..limits })
}

fn ask_at_tokens(max_tokens: u64) -> Option<UsageLimits> {
    Some(UsageLimits { max_tokens: Some(max_tokens), ..UsageLimits::default() })
}

fn tokens(max_tokens: u64) -> Option<UsageLimits> {
    stopping(UsageLimits { max_tokens: Some(max_tokens), ..UsageLimits::default() })
}

impl ChatHarness {
    /// Creates node `c` of a priced model with a budget.
    async fn limited(script: Script, budget: Option<UsageLimits>) -> ChatHarness {
        let harness =
            ChatHarness::with(Provider::Anthropic, script, |chat| chat.model = PRICED_MODEL.into()).await;
        harness.set_budget(budget).await.unwrap();
        harness
    }

    async fn set_budget(&self, budget: Option<UsageLimits>) -> Result<(), nerve_node::error::EngineError> {
        let request = SetBudget { node_id: Some("c".into()), budget, ..SetBudget::default() };
        self.nodes.engine.set_budget(request, Default::default()).await.map(drop)
    }

    async fn refused(&self) {
        let error = self.nodes.send("c", "more").await.unwrap_err();
        assert_error(&error, ErrorKind::Budget, &["node 'c'"]);
    }
}

#[tokio::test]
async fn prompts_fail_at_limit_until_budget_changes() {
    let harness = ChatHarness::limited(Script::default(), tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    harness.refused().await;
    assert_eq!(harness.model.requests().len(), 1);
    let budget = harness.info().await.progress.budget.unwrap();
    assert!(budget.tokens > 1 && budget.cost_usd > 0.0 && budget.reached_limit.is_some(), "{budget:?}");
    harness.set_budget(None).await.unwrap();
    harness.nodes.ask("c", "second").await;
}

#[tokio::test]
async fn limit_stops_turn_between_tool_calls() {
    let call = super::tools::run("echo hi");
    let harness =
        ChatHarness::with(Provider::Anthropic, Script::default().first([Answer::tools([call])]), |chat| {
            chat.tools = vec!["sh".into()];
        })
        .await;
    harness.bash("sh").await;
    harness.set_budget(tokens(1)).await.unwrap();
    harness.refused().await;
    assert_eq!((harness.model.requests().len(), harness.text().await.as_str()), (1, ""));
}

#[tokio::test]
async fn time_limit_interrupts_turn() {
    let script = Script::default().first([Answer::late(Duration::from_secs(600), "never")]);
    let limits = UsageLimits { max_time_ms: Some(200), ..UsageLimits::default() };
    let harness = ChatHarness::limited(script, stopping(limits)).await;
    let began = Instant::now();
    harness.refused().await;
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn usage_counts_toward_session() {
    let harness = ChatHarness::limited(Script::default(), None).await;
    let session = CreateSession { name: "work".into(), budget: tokens(1), ..Default::default() };
    harness.nodes.engine.create_session(session, Default::default()).await.unwrap();
    let settings = chat(Provider::Anthropic, &harness.model);
    let session_id = Some("work".to_string());
    let spec = NodeSpec { session_id: session_id.clone(), ..spec(&harness.nodes, "w", settings) };
    harness.nodes.engine.create_node(spec, Default::default()).await.unwrap();
    let turn = || nerve_api::request::ExecuteInput {
        session_id: session_id.clone(),
        ..harness.nodes.execute("w", "hi")
    };
    harness.nodes.run(turn()).await.unwrap();
    let error = harness.nodes.run(turn()).await.unwrap_err();
    assert_error(&error, ErrorKind::Budget, &["session 'work'", "token limit reached"]);
    let request = GetSession::new(session_id.clone());
    let session = harness.nodes.engine.get_session(request, Default::default()).await.unwrap();
    assert!(session.budget.unwrap().tokens > 1);
}

#[tokio::test]
async fn node_asks_at_limit() {
    let harness = ChatHarness::limited(Script::default(), ask_at_tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    harness.nodes.wait("c", NodeState::Blocked).await.unwrap();
    let error = harness.nodes.send("c", "second").await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &["node 'c'", "token limit reached"]);
    assert_eq!(error.choices.len(), 2);
    assert!(harness.nodes.screen("c").await.starts_with("blocked (budget: token limit reached"));
    let error = harness.nodes.answer("c", Choice::Number(3)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["choice 3", "1. Continue"]);
    harness.nodes.answer("c", Choice::Number(1)).await.unwrap();
    assert_eq!(harness.info().await.state, NodeState::Ready);
    harness.nodes.ask("c", "third").await;
    harness.nodes.wait("c", NodeState::Blocked).await.unwrap();
    harness.nodes.answer("c", Choice::Cancel).await.unwrap();
    harness.refused().await;
    let error = harness.nodes.answer("c", Choice::Number(1)).await.unwrap_err();
    assert_error(&error, ErrorKind::Budget, &["token limit reached"]);
    harness.set_budget(None).await.unwrap();
    harness.nodes.wait_ready("c").await;
    let error = harness.nodes.answer("c", Choice::Number(1)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    assert_eq!(harness.model.requests().len(), 2);
}

#[tokio::test]
async fn budget_question_is_reported_once() {
    let mut harness = ChatHarness::limited(Script::default(), ask_at_tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    harness.nodes.wait("c", NodeState::Blocked).await.unwrap();
    harness.nodes.send("c", "second").await.unwrap_err();
    harness.nodes.answer("c", Choice::Number(1)).await.unwrap();
    let mut states = Vec::new();
    while let Ok(event) = harness.nodes.events.try_recv() {
        match event.kind {
            EventKind::NodeBlocked { kind, choices, .. } => states.push((kind.as_str(), choices.len())),
            EventKind::NodeReady { .. } => states.push(("ready", 0)),
            EventKind::NodeBusy { .. } => states.push(("busy", 0)),
            _ => {}
        }
    }
    assert_eq!(states, [("busy", 0), ("budget", 2), ("ready", 0)]);
}

#[tokio::test]
async fn prompt_can_wait_for_the_answer_at_a_limit() {
    let harness = ChatHarness::limited(Script::default(), ask_at_tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    let waiting = ExecuteInput { is_async: true, ..harness.nodes.execute("c", "second") };
    let engine = harness.nodes.engine.clone();
    let turn = tokio::spawn(async move { engine.run_turn(waiting, Default::default()).await });
    let third = ExecuteInput { is_async: true, ..harness.nodes.execute("c", "third") };
    let engine = harness.nodes.engine.clone();
    let queued = tokio::spawn(async move { engine.run_turn(third, Default::default()).await });
    let is_queued = async || harness.info().await.metadata.display("queued") == "1";
    assert!(wait_until_async(harness.nodes.limit, is_queued).await, "a prompt waits at the limit");
    harness.nodes.answer("c", Choice::Number(1)).await.unwrap();
    let first = tokio::select! { ended = turn => ended, ended = queued => ended };
    let first = first.unwrap().unwrap();
    assert!(first.text.starts_with("You said: "), "{first:?}");
}

#[tokio::test]
async fn stop_ends_prompt_that_waits_at_a_limit() {
    let harness = ChatHarness::limited(Script::default(), ask_at_tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    let waiting = ExecuteInput { is_async: true, ..harness.nodes.execute("c", "second") };
    let (ended, ()) = tokio::join!(harness.nodes.run(waiting), harness.nodes.stop("c"));
    assert_error(&ended.unwrap_err(), ErrorKind::NodeStopped, &["stopped"]);
}

#[tokio::test]
async fn answer_to_another_dialog_is_refused() {
    let harness = ChatHarness::limited(Script::default(), ask_at_tokens(1)).await;
    harness.nodes.ask("c", "first").await;
    harness.nodes.wait("c", NodeState::Blocked).await.unwrap();
    let explain = ExplainNode { node_id: "c".into(), session_id: None };
    let explanation = harness.nodes.engine.explain_node(explain, Default::default()).await.unwrap();
    let answer = |dialog_id: Option<String>| AnswerNode {
        node_id: "c".into(),
        choice: Some(NodeChoice::Number(1)),
        dialog_id,
        ..AnswerNode::default()
    };
    let other = answer(Some("0123456789abcdef".to_string()));
    let error = harness.nodes.engine.answer_node(other, Default::default()).await.unwrap_err();
    assert_error(&error, ErrorKind::Blocked, &[]);
    assert_eq!(error.choices.len(), 2);
    assert!(explanation.dialog_id.is_some());
    harness.nodes.engine.answer_node(answer(explanation.dialog_id), Default::default()).await.unwrap();
}

#[tokio::test]
async fn node_of_a_session_at_its_limit_is_blocked_from_the_start() {
    let mut harness = ChatHarness::limited(Script::default(), None).await;
    harness.nodes.ask("c", "first").await;
    let limits = SetBudget { budget: ask_at_tokens(1), ..SetBudget::default() };
    harness.nodes.engine.set_budget(limits, Default::default()).await.unwrap();
    let new = spec(&harness.nodes, "new", chat(Provider::Anthropic, &harness.model));
    harness.nodes.engine.create_node(new, Default::default()).await.unwrap();
    assert_eq!(harness.nodes.info("new").state, NodeState::Blocked);
    let reported = async {
        loop {
            let event = harness.nodes.events.recv().await.unwrap();
            let is_state = matches!(event.kind, EventKind::NodeBlocked { .. } | EventKind::NodeReady { .. });
            if event.node_id.as_deref() == Some("new") && is_state {
                return event.kind;
            }
        }
    };
    let first = within_deadline("its state is reported", reported).await;
    assert!(matches!(first, EventKind::NodeBlocked { .. }), "{first:?}");
}

#[tokio::test]
async fn cost_counts_toward_graph_budget() {
    let model = super::answers([]).await;
    let settings = ChatSettings { model: PRICED_MODEL.into(), ..chat(Provider::Anthropic, &model) };
    let budget = RunBudget { max_cost_usd: Some(1e-9), ..RunBudget::default() };
    let context = context(&Session::new("s"), "").0.with_budget(budget);
    let run = super::tools::graph(standalone_node(settings)).run(&context).await;
    assert_error(&run.error.unwrap(), ErrorKind::Budget, &["Cost limit exceeded"]);
    assert_eq!(model.requests().len(), 1);
}
