//! Budgets of chat nodes.

use std::time::{Duration, Instant};

use nerve_api::request::{CreateSession, GetSession, SetBudget, UsageLimits};
use nerve_api::value::LimitAction;
use nerve_graph::session::Session;
use nerve_node::budget::Budget;
use nerve_node::chat::{ChatSettings, Provider};
use nerve_node::command::NodeSpec;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;
use nerve_testkit::mock_model::{Answer, Script};

use super::{ChatHarness, chat, context, spec, standalone_node};

/// A model with a built-in price.
const PRICED_MODEL: &str = "claude-sonnet-4-5";

fn stopping(limits: UsageLimits) -> Option<UsageLimits> {
    Some(UsageLimits { at_limit: LimitAction::Stop, ..limits })
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
        assert_error(&error, ErrorKind::Budget, &["node 'c'", "limit reached"]);
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
    let limits = UsageLimits { max_time: Some(Duration::from_millis(200).into()), ..UsageLimits::default() };
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
async fn budget_that_asks_is_refused() {
    let harness = ChatHarness::limited(Script::default(), None).await;
    let budget = Some(UsageLimits { max_tokens: Some(1), ..UsageLimits::default() });
    let error = harness.set_budget(budget).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'c'", "ask"]);
    let settings = chat(Provider::Anthropic, &harness.model);
    let spec = NodeSpec { budget, ..spec(&harness.nodes, "d", settings) };
    let error = harness.nodes.engine.create(spec).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'d'", "ask"]);
}

#[tokio::test]
async fn cost_counts_toward_graph_budget() {
    let model = super::answers([]).await;
    let settings = ChatSettings { model: PRICED_MODEL.into(), ..chat(Provider::Anthropic, &model) };
    let budget = Budget { max_cost_dollars: Some(1e-9), ..Budget::default() };
    let context = context(&Session::new("s"), "").0.with_budget(budget);
    let run = super::tools::graph(standalone_node(settings)).run(&context).await;
    assert_error(&run.error.unwrap(), ErrorKind::Budget, &["Cost limit exceeded"]);
    assert_eq!(model.requests().len(), 1);
}
